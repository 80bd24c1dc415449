//! How long a step takes: work over what the GPU's kernels and links reach, with what hides behind
//! what, by cause.
//!
//! Work is arithmetic on the architecture and the layout ([`StepWork`]); what kernels reach alone was
//! timed and lies in the catalogue ([`TrainingSystem`]); a few constants say what a run makes of that
//! ([`TrainingConstants`]).

mod assumed;
mod beside;
mod constants;
mod explain;
mod flops;
mod parts;
mod system;
mod totals;
mod work;

pub use assumed::Assumed;
pub use constants::{
    TRAINING_PARAMETERS, TrainingConstants, TrainingParameter, TrainingParameterInfo,
};
pub use explain::explain_step;
pub use flops::{FlopCount, model_flops_per_token};
pub use parts::{STREAM, StepParts, step_parts};
pub use system::{TrainingSystem, recipe_peak};
pub use work::{Again, StepWork, pipeline_waiting};

use crate::training::rollout::Rollout;
use alloc::{string::ToString, vec::Vec};
use beside::Beside;
use gpuwise_domain::{
    estimate::{Basis, Estimate},
    gpu::Gpu,
    model::Architecture,
    precision::Compute,
    training::{Framework, Recompute, StepTime, TrainingSetup},
    training_facts::TrainingFacts,
};
use gpuwise_units::FlopPerSecond;
use parts::least_seconds;

/// Range of a prediction for which no rows were held out: within a factor of 1.6 either way.
const UNKNOWN_RANGE: (f64, f64) = (1.0 / 1.6, 1.6);

/// Names of the sets of constants.
pub const SETS: [&str; 2] = ["pytorch", "megatron"];

/// Which set of constants describes a framework.
pub const fn set_of(framework: Framework) -> &'static str {
    match framework {
        Framework::HuggingFace
        | Framework::PyTorch
        | Framework::Torchtune
        | Framework::Torchtitan => SETS[0],
        Framework::Megatron => SETS[1],
    }
}

/// The constants of a framework as the catalogue has them, or their priors.
pub fn constants_of(framework: Framework, facts: &TrainingFacts) -> TrainingConstants {
    let name = set_of(framework);
    facts
        .sets
        .iter()
        .find(|set| set.name == name)
        .map_or_else(TrainingConstants::default, TrainingConstants::of)
}

/// Which rows of held-out errors speak of a setup.
pub fn rows_of(architecture: &Architecture, framework: Framework) -> &'static str {
    match framework {
        Framework::HuggingFace
        | Framework::PyTorch
        | Framework::Torchtune
        | Framework::Torchtitan => "FSDP",
        Framework::Megatron if flops::has_experts(architecture) => "experts",
        Framework::Megatron => "dense",
    }
}

/// The time of one optimizer step on a GPU in the servers that it usually comes in.
pub fn step_time(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    facts: &TrainingFacts,
) -> StepTime {
    let system = TrainingSystem::usual(gpu, facts);
    step_time_on(architecture, setup, gpu, &system, facts)
}

/// The same on a stated system, with what stands beside training; of rollouts what is not the
/// engine's: [`with_rollout`] adds that.
pub fn step_time_on(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    system: &TrainingSystem,
    facts: &TrainingFacts,
) -> StepTime {
    with_rollout(architecture, setup, gpu, system, facts, None)
}

/// The same with the completions that an engine writes.
pub fn with_rollout(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    system: &TrainingSystem,
    facts: &TrainingFacts,
    rollout: Option<&Rollout>,
) -> StepTime {
    let plain = setup.plain();
    let work = StepWork::new(architecture, &plain, system).scored(setup.scored_share());
    let trained = trained(architecture, &plain, &work, gpu, system, facts);
    let beside = Beside::new(architecture, setup, &work, system, facts, rollout);
    beside.with(trained, &work, recipe_peak(gpu, setup))
}

/// The step of a plain setup whose work is known.
fn trained(
    architecture: &Architecture,
    setup: &TrainingSetup,
    work: &StepWork,
    gpu: &Gpu,
    system: &TrainingSystem,
    facts: &TrainingFacts,
) -> StepTime {
    let constants = constants_of(setup.framework, facts);
    let near = residual(architecture, setup, gpu, facts);
    let mut parts = step_parts(work, setup, system, &constants);
    parts.scale(libm::exp(near.unwrap_or(0.0)));
    let basis = basis(setup, gpu, system, facts);
    let (below, above) = range(architecture, setup, (basis, near.is_some()), facts);
    let peak = recipe_peak(gpu, setup);
    let half_peak = gpu.peak.of(Compute::Half).map_or(0.0, FlopPerSecond::get);
    let least = least_seconds(work, setup, system, peak, half_peak);
    // What runs nearby took less than all parts together never goes below what their matmuls take.
    parts.scale((least / parts.total().max(f64::MIN_POSITIVE)).max(1.0));
    let seconds = parts.total();
    // Speed lies within these factors, so time within their inverses; no kernel beats physics.
    let step = Estimate {
        value: seconds,
        low: (seconds / above).max(least).min(seconds),
        high: seconds / below,
    };
    let shares = Shares::of(&step, work, 0.0, work.gpus, peak);
    StepTime {
        parts: parts.parts,
        step,
        tokens_per_second_per_gpu: shares.tokens,
        model_flops_per_gpu: shares.flops,
        mfu: shares.mfu,
        hfu: shares.hfu,
        basis,
        assumptions: assumptions(architecture, setup, gpu, system)
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// What a step of this time reaches, for each GPU.
struct Shares {
    tokens: Estimate,
    flops: Estimate,
    mfu: Option<Estimate>,
    hfu: Option<Estimate>,
}

impl Shares {
    /// Of work on so many GPUs in all; `more` operations of a GPU that trains come beside it.
    fn of(step: &Estimate, work: &StepWork, more: f64, gpus: f64, peak: Option<f64>) -> Self {
        let operations = work.model_operations();
        let flops = step.inverse(operations * (work.gpus / gpus));
        let mfu = peak.map(|peak| flops.scaled(1.0 / peak));
        let again = 1.0 + (work.repeated_operations() + more) / operations.max(1.0);
        Self {
            tokens: step.inverse(work.tokens / gpus),
            flops,
            mfu,
            hfu: mfu.map(|share| share.scaled(again)),
        }
    }
}

/// What fitted runs of the framework on this very GPU leave between prediction and measurement.
fn residual(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    facts: &TrainingFacts,
) -> Option<f64> {
    seen(setup)
        .then(|| facts.residual(rows_of(architecture, setup.framework), &gpu.name))
        .flatten()
}

/// Whether runs of a framework were fitted, and not only those of its like: PyTorch's over data-parallel ranks alone,
/// whole layers recomputed or none.
const fn seen(setup: &TrainingSetup) -> bool {
    match setup.framework {
        Framework::Megatron => true,
        Framework::PyTorch => {
            setup.layout.is_data_alone() && !matches!(setup.recompute, Recompute::Selective)
        }
        Framework::HuggingFace | Framework::Torchtune | Framework::Torchtitan => false,
    }
}

fn basis(
    setup: &TrainingSetup,
    gpu: &Gpu,
    system: &TrainingSystem,
    facts: &TrainingFacts,
) -> Basis {
    let fitted = facts
        .sets
        .iter()
        .any(|set| set.name == set_of(setup.framework) && set.rows > 0);
    let supported = recipe_peak(gpu, setup).is_some();
    if fitted && system.timed && supported && seen(setup) {
        Basis::Calibrated
    } else {
        Basis::Extrapolated
    }
}

fn range(
    architecture: &Architecture,
    setup: &TrainingSetup,
    (basis, nearby): (Basis, bool),
    facts: &TrainingFacts,
) -> (f64, f64) {
    let rows = rows_of(architecture, setup.framework);
    // Of rows with their GPU left out where no run of this kind was fitted on it.
    let left_out = if nearby { "model" } else { "gpu" };
    let Some(error) = facts.held_out(rows, left_out) else {
        return UNKNOWN_RANGE;
    };
    let (low, high) = error.range;
    if basis == Basis::Calibrated {
        (low.min(1.0), high.max(1.0))
    } else {
        (
            low.min(1.0) * UNKNOWN_RANGE.0,
            high.max(1.0) * UNKNOWN_RANGE.1,
        )
    }
}

fn assumptions(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    system: &TrainingSystem,
) -> Vec<Assumed> {
    let mut out = system.assumptions.clone();
    if recipe_peak(gpu, setup).is_none() {
        out.push(Assumed::WiderMatmuls {
            gpu: gpu.name.clone(),
            recipe: setup.recipe,
        });
    }
    if !architecture.towers.is_empty() || architecture.encoder.is_some() {
        out.push(Assumed::TextAlone);
    }
    if !seen(setup) {
        out.push(match setup.framework {
            Framework::PyTorch => Assumed::UnfittedLayout(setup.framework),
            other => Assumed::UnfittedFramework(other),
        });
    }
    out
}
