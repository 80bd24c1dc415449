//! How the figures of a plan came about.

use super::{Cluster, Physics, request::TrainRequest};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{
    estimate::Derivation,
    training_plan::{TrainingPlan, TrainingRun},
};
use gpuwise_units::significant;

/// Memory and step by the formulas' own derivations, then checkpoints and the run.
pub(crate) fn derivations(
    request: &TrainRequest<'_>,
    plan: &TrainingPlan,
    cluster: &Cluster<'_>,
    physics: &dyn Physics,
) -> Vec<Derivation> {
    let mut out = physics.derivations(&plan.setup, cluster);
    out.push(checkpoints(request, plan));
    if let Some(run) = &plan.run {
        out.push(total(request, plan, run));
    }
    out
}

fn seconds(value: f64) -> String {
    format!("{} s", significant(value, 4))
}

fn checkpoints(request: &TrainRequest<'_>, plan: &TrainingPlan) -> Derivation {
    let reliability = &request.reliability;
    let [stops, _, storage] = &reliability.sources;
    let mtbf = Derivation::computed(
        "M, time between stops of the job",
        seconds(plan.checkpoints.mtbf.value),
        "3600 · GPU-hours for each stop / GPUs",
        vec![
            Derivation::fact(
                "GPU-hours for each stop",
                significant(reliability.gpu_hours_per_stop.value, 4),
                stops.clone(),
            ),
            Derivation::fact("GPUs", format!("{}", plan.gpus), "the plan"),
        ],
    );
    let write = Derivation::computed(
        "δ, writing a checkpoint",
        seconds(plan.checkpoints.write.value),
        "bytes / (GPUs · storage of a GPU)",
        vec![
            Derivation::fact(
                "bytes",
                format!("{}", plan.checkpoints.bytes.count()),
                "weights and optimizer states",
            ),
            Derivation::fact(
                "storage of a GPU, bytes a second",
                significant(reliability.storage_per_gpu.value, 3),
                storage.clone(),
            ),
        ],
    );
    Derivation::computed(
        "time between checkpoints",
        seconds(plan.checkpoints.interval.value),
        "√(2·δ·M)·(1 + √(δ/2M)/3 + δ/18M) − δ, at least a step",
        vec![write, mtbf],
    )
}

fn total(request: &TrainRequest<'_>, plan: &TrainingPlan, run: &TrainingRun) -> Derivation {
    let setup = &plan.setup;
    let tokens = request.job.tokens.unwrap_or(0);
    let restart = request.reliability.sources.get(1).cloned();
    let steps = Derivation::computed(
        "steps",
        format!("{}", run.steps),
        match setup.sequences_each() {
            1 => "⌈tokens / (global batch · sequence)⌉",
            _ => "⌈tokens / (global batch · 2 sequences)⌉",
        },
        vec![
            Derivation::fact("tokens", format!("{tokens}"), "as asked"),
            Derivation::fact(
                "global batch",
                format!("{}", setup.global_batch),
                "the plan",
            ),
            Derivation::fact("sequence", format!("{}", setup.sequence.0), "the plan"),
        ],
    );
    let work = Derivation::computed(
        "W, steps and evaluations",
        seconds(run.stepping.value + run.evaluating),
        "steps · seconds a step + evaluations",
        vec![
            steps,
            Derivation::fact(
                "seconds a step",
                significant(plan.step.step.value, 4),
                "as derived above",
            ),
        ],
    );
    Derivation::computed(
        "time of the run",
        seconds(run.total.value),
        "W/τ · M·e^(R/M)·(e^((τ+δ)/M) − 1), τ the time between checkpoints or W where that is less",
        vec![
            work,
            Derivation::fact(
                "R without reading the checkpoint, seconds",
                significant(request.reliability.restart_seconds.value, 3),
                restart.unwrap_or_default(),
            ),
        ],
    )
}
