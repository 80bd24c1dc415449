//! A whole run: steps, evaluations, checkpoints, failures, money and energy.

use super::{Cluster, request::TrainRequest};
use crate::{
    power::{self, Activity},
    training::failures,
};
use gpuwise_domain::{
    deployment::Rental,
    estimate::Estimate,
    gpu::Device,
    training::{StepCause, StepTime, TrainingSetup},
    training_plan::{CheckpointPlan, MoneyRange, Reliability, TrainingRun},
};

/// Share of a training step that a forward pass alone takes: the backward pass is two of three.
const FORWARD: f64 = 1.0 / 3.0;
/// How far power of a busy GPU lies from the estimate, as factors.
const POWER_RANGE: (f64, f64) = (0.8, 1.2);

/// The run of a plan; `None` where the job states no tokens.
pub(crate) fn run(
    request: &TrainRequest<'_>,
    cluster: &Cluster<'_>,
    setup: &TrainingSetup,
    step: &StepTime,
    checkpoints: &CheckpointPlan,
    rental: Option<&Rental>,
) -> Option<TrainingRun> {
    let tokens = request.job.tokens?;
    let per_step = setup.step_tokens().max(1);
    let steps = tokens.div_ceil(per_step);
    let stepping = step.step.scaled(steps as f64);
    let evaluating = request.job.evaluation.map_or(0.0, |evaluation| {
        let rate = step.tokens_per_second_per_gpu.value * cluster.gpus as f64;
        let times = steps / evaluation.every.max(1);
        times as f64 * evaluation.tokens as f64 * FORWARD / rate.max(1e-9)
    });
    let lost = Losses::new(checkpoints, &request.reliability);
    let of = |work: f64, lost: Loss| {
        let work = work + evaluating;
        (work * lost.slowdown(checkpoints.interval.value, work), lost)
    };
    let (value, mean) = of(stepping.value, lost.mean);
    let (low, few) = of(stepping.low, lost.few);
    let (high, many) = of(stepping.high, lost.many);
    let total = Estimate { value, low, high };
    let saving = |total: f64, lost: Loss| {
        let interval = checkpoints.interval.value.min(total);
        total / (interval + lost.write) * lost.write
    };
    let saving = Estimate {
        value: saving(value, mean),
        low: saving(low, few),
        high: saving(high, many),
    };
    Some(TrainingRun {
        steps,
        stepping,
        evaluating,
        saving,
        lost: rest(&total, &stepping, evaluating, &saving),
        failures: Estimate {
            value: value / mean.mtbf,
            low: low / few.mtbf,
            high: high / many.mtbf,
        },
        cost: rental.and_then(|rental| cost(rental, &total)),
        energy: energy(cluster, step, &total),
        total,
    })
}

/// What is left of a total, never below 0.
fn rest(total: &Estimate, stepping: &Estimate, evaluating: f64, saving: &Estimate) -> Estimate {
    let left =
        |total: f64, stepping: f64, saving: f64| (total - stepping - evaluating - saving).max(0.0);
    Estimate {
        value: left(total.value, stepping.value, saving.value),
        low: left(total.low, stepping.low, saving.low),
        high: left(total.high, stepping.high, saving.high),
    }
}

/// Write time, restart and time between stops that belong together.
#[derive(Clone, Copy)]
struct Loss {
    write: f64,
    restart: f64,
    mtbf: f64,
}

impl Loss {
    /// A run that is shorter than an interval is saved once, at its end.
    fn slowdown(self, interval: f64, work: f64) -> f64 {
        let interval = interval.min(work);
        failures::slowdown(interval, self.write, self.restart + self.write, self.mtbf)
    }
}

struct Losses {
    few: Loss,
    mean: Loss,
    many: Loss,
}

impl Losses {
    fn new(checkpoints: &CheckpointPlan, reliability: &Reliability) -> Self {
        let (write, restart, mtbf) = (
            &checkpoints.write,
            &reliability.restart_seconds,
            &checkpoints.mtbf,
        );
        let loss = |write, restart, mtbf| Loss {
            write,
            restart,
            mtbf,
        };
        Self {
            few: loss(write.low, restart.low, mtbf.high),
            mean: loss(write.value, restart.value, mtbf.value),
            many: loss(write.high, restart.high, mtbf.low),
        }
    }
}

/// Price × instances × time, rounded once for each end of the range.
fn cost(rental: &Rental, total: &Estimate) -> Option<MoneyRange> {
    let price = rental.price?.0;
    let of = |seconds: f64| {
        let milliseconds = libm::round(seconds * 1000.0).clamp(0.0, 9e15) as i64;
        price.times(
            milliseconds.saturating_mul(i64::from(rental.instances)),
            3_600_000,
        )
    };
    Some(MoneyRange {
        value: of(total.value),
        low: of(total.low),
        high: of(total.high),
    })
}

/// Joules of all GPUs.
fn energy(cluster: &Cluster<'_>, step: &StepTime, total: &Estimate) -> Option<Estimate> {
    let share = |wanted: &[StepCause]| -> f64 {
        let seconds: f64 = step
            .parts
            .iter()
            .filter(|(cause, _)| wanted.contains(cause))
            .map(|(_, seconds)| seconds)
            .sum();
        seconds / step.step.value.max(1e-12)
    };
    let activity = Activity {
        busy: 1.0,
        memory: share(&[
            StepCause::Elementwise,
            StepCause::Optimizer,
            StepCause::Loss,
            // Decode steps read weights and cache.
            StepCause::Rollout,
        ]),
        compute: share(&[
            StepCause::Matmul,
            StepCause::Attention,
            StepCause::Recompute,
            StepCause::Reference,
            StepCause::OldLogProbs,
        ]),
    };
    let watts = power::watts(&Device::whole(cluster.gpu), activity)? * cluster.gpus as f64;
    Some(Estimate {
        value: watts * total.value,
        low: watts * POWER_RANGE.0 * total.low,
        high: watts * POWER_RANGE.1 * total.high,
    })
}
