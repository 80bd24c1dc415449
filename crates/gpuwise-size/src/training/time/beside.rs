//! What a step does beside training: passes of a reference, and completions that an engine writes.

use super::{
    Assumed, Shares,
    constants::TrainingParameter as P,
    constants_of,
    parts::{STREAM, forward_seconds},
    system::TrainingSystem,
    work::StepWork,
};
use crate::training::rollout::Rollout;
use alloc::{string::ToString, vec::Vec};
use gpuwise_domain::{
    alignment::{Grpo, RolloutMode},
    estimate::Estimate,
    model::Architecture,
    training::{Sharding, StepCause, StepTime, TrainingSetup},
    training_facts::TrainingFacts,
};

/// Bytes of a weight as it goes to the engine.
const SYNCED: f64 = 2.0;

/// Parts of a step that are not training.
pub(super) struct Beside<'a> {
    /// Passes by the model of training, with its range: seconds of each by cause.
    pub(super) passes: Vec<(StepCause, f64)>,
    /// The engine's, with a range of its own.
    rollout: Option<&'a Rollout>,
    /// Seconds that are stated, or follow from bytes.
    pub(super) stated: Vec<(StepCause, f64)>,
    /// GPUs that write and do not train.
    own: f64,
    assumed: Vec<Assumed>,
}

impl<'a> Beside<'a> {
    /// Of a setup whose training is `work`.
    pub(super) fn new(
        architecture: &Architecture,
        setup: &TrainingSetup,
        work: &StepWork,
        system: &TrainingSystem,
        facts: &TrainingFacts,
        rollout: Option<&'a Rollout>,
    ) -> Self {
        let mut out = Self {
            passes: Vec::new(),
            rollout,
            stated: Vec::new(),
            own: setup.alignment.map_or(0, |one| one.own_gpus()) as f64,
            assumed: Vec::new(),
        };
        let grpo = setup.grpo();
        if setup.alignment.is_none() {
            return out;
        }
        let constants = constants_of(setup.framework, facts);
        let forward = forward_seconds(work, &setup.plain(), system, &constants);
        if grpo.is_some() {
            out.passes.push((StepCause::OldLogProbs, forward));
        }
        if setup.reference().is_some() {
            out.passes.push((StepCause::Reference, forward));
        }
        if let Some(grpo) = grpo {
            let share = constants.get(P::GatherLink);
            let sync = sync(architecture, setup, grpo, system, share);
            out.stated.push((StepCause::WeightSync, sync));
            if grpo.reward > 0.0 {
                out.stated.push((StepCause::Reward, grpo.reward));
            }
            out.assumed.push(Assumed::OneUpdate);
        }
        out
    }

    /// A step of training with all of it.
    pub(super) fn with(self, mut step: StepTime, work: &StepWork, peak: Option<f64>) -> StepTime {
        if self.passes.is_empty() && self.stated.is_empty() && self.rollout.is_none() {
            return step;
        }
        let sum = |parts: &[(StepCause, f64)]| parts.iter().map(|(_, s)| s).sum::<f64>();
        let trained = step.step;
        // Passes miss as training does; what the engine does misses by itself.
        let passes = 1.0 + sum(&self.passes) / trained.value.max(f64::MIN_POSITIVE);
        let written = self
            .rollout
            .map_or(Estimate::exact(0.0), |rollout| rollout.seconds);
        let all = apart(&trained.scaled(passes), &written);
        let stated = sum(&self.stated);
        step.step = Estimate {
            value: all.value + stated,
            low: all.low + stated,
            high: all.high + stated,
        };
        let more = self.passes.len() as f64 * work.forward_operations();
        let shares = Shares::of(&step.step, work, more, work.gpus + self.own, peak);
        step.tokens_per_second_per_gpu = shares.tokens;
        step.model_flops_per_gpu = shares.flops;
        step.mfu = shares.mfu;
        step.hfu = shares.hfu;
        let rollout = self
            .rollout
            .map(|rollout| (StepCause::Rollout, rollout.seconds.value));
        step.parts.extend(rollout);
        step.parts.extend(self.stated);
        step.parts.extend(self.passes);
        if let Some(rollout) = self.rollout {
            step.basis = step.basis.max(rollout.basis);
        }
        let assumed = self.assumed.iter().map(ToString::to_string);
        step.assumptions.extend(assumed);
        step
    }
}

/// The sum of two figures that miss independently: their distances add as squares.
fn apart(a: &Estimate, b: &Estimate) -> Estimate {
    let value = a.value + b.value;
    Estimate {
        value,
        low: value - libm::hypot(a.value - a.low, b.value - b.low),
        high: value + libm::hypot(a.high - a.value, b.high - b.value),
    }
}

/// Seconds until the engine has the weights of a step: whole layers are gathered where they are sharded;
/// on the same GPUs each engine writes its part, else they are sent.
fn sync(
    architecture: &Architecture,
    setup: &TrainingSetup,
    grpo: &Grpo,
    system: &TrainingSystem,
    achieved: f64,
) -> f64 {
    let bytes = SYNCED * architecture.parameters().0 as f64;
    let gpus = setup.layout.gpus() as f64;
    let sharded = matches!(setup.sharding, Sharding::Full | Sharding::Hybrid { .. });
    let gathered = if sharded {
        bytes * (gpus - 1.0) / gpus / (system.shared_link(gpus, 1.0) * achieved)
    } else {
        0.0
    };
    let tensor = f64::from(grpo.engine.tensor.max(1));
    // Read and written.
    let written = 2.0 * bytes / tensor / (system.memory * STREAM);
    let sent = match grpo.engine.mode {
        RolloutMode::Colocate => 0.0,
        RolloutMode::Server { .. } => {
            let all = gpus + grpo.engine.own_gpus() as f64;
            bytes / (system.link(all) * achieved)
        }
    };
    gathered + sent + written
}
