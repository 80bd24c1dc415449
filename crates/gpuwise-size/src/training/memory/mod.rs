//! What a training setup holds in memory, by cause, rank and phase; whether it fits, and what would
//! make it fit.
//!
//! Everything is counted as the frameworks allocate it: states by parameter, what layers keep for
//! the backward pass by token, logits, and what an adapter's method composes.

mod activations;
mod adapters;
mod error;
mod explain;
mod fit;
mod fixes;
mod methods;
mod modules;
mod ranks;
mod states;

pub use error::TrainingMemoryError;
pub use explain::explain;
pub use fit::{Fit, fits, largest_micro_batch, usable};
pub use fixes::{MemoryFix, fixes};
pub use methods::{Traits, adapter_named, adapters_like, method_named};
pub use modules::{Module, modules};

use adapters::Resolved;
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    alignment::Alignment,
    estimate::Basis,
    model::Architecture,
    training::{Framework, Method, Optimizer, Recipe, Recompute, TrainingMemory, TrainingSetup},
};
use gpuwise_units::Bytes;
use ranks::{Place, rank};
use states::{Parameters, States, per_parameter, stages};

/// Memory of a setup, by pipeline stage.
///
/// # Errors
/// When there are more stages than layers, a degree or size is 0, or an adapter or its module does
/// not exist.
pub fn training_memory(
    architecture: &Architecture,
    setup: &TrainingSetup,
) -> Result<TrainingMemory, TrainingMemoryError> {
    checked(setup)?;
    let adapter = resolved(architecture, setup)?;
    let mut ranks: Vec<gpuwise_domain::training::RankMemory> = Vec::new();
    let mut host = HOST_OF_PROCESS;
    for stage in stages(architecture, setup)? {
        let place = Place::new(architecture, setup, &stage, adapter.as_ref());
        host = host.max(HOST_OF_PROCESS + place.offloaded);
        let one = rank(&place);
        let same = ranks
            .last()
            .is_some_and(|before| before.causes == one.causes && before.phases == one.phases);
        if !same {
            ranks.push(one);
        }
    }
    let trainable = match &adapter {
        Some(adapter) => adapter.trainable,
        None => architecture.parameters().0 as f64,
    };
    Ok(TrainingMemory {
        ranks,
        host: Bytes::from_f64(host * per_node(setup)),
        trainable: trainable as u64,
        assumptions: assumptions(architecture, setup, adapter.as_ref()),
        basis: basis(setup),
    })
}

/// Host memory of one training process without anything offloaded: interpreter, libraries, loader.
/// Four published runs of PEFT's examples show 2.96 to 3.8 GB.
const HOST_OF_PROCESS: f64 = 3.2e9;

/// GPUs of a node, each with its process.
fn per_node(setup: &TrainingSetup) -> f64 {
    setup.layout.gpus().clamp(1, 8) as f64
}

fn checked(setup: &TrainingSetup) -> Result<(), TrainingMemoryError> {
    let layout = &setup.layout;
    let degrees = [
        ("tensor parallelism", layout.tensor),
        ("pipeline stages", layout.pipeline),
        ("virtual stages", layout.interleave),
        ("context parallelism", layout.context),
        ("expert parallelism", layout.expert),
        ("data parallelism", layout.data),
    ];
    for (name, degree) in degrees {
        if degree == 0 {
            return Err(TrainingMemoryError::Zero(name));
        }
    }
    if setup.sequence.0 == 0 {
        return Err(TrainingMemoryError::Zero("the sequence length"));
    }
    if setup.micro_batch == 0 {
        return Err(TrainingMemoryError::Zero("the micro-batch"));
    }
    Ok(())
}

fn resolved(
    architecture: &Architecture,
    setup: &TrainingSetup,
) -> Result<Option<Resolved>, TrainingMemoryError> {
    match &setup.method {
        Method::Full => Ok(None),
        Method::Adapter(adapter) => Resolved::new(adapter, architecture).map(Some),
    }
}

/// Bytes of one checkpoint from which training goes on: weights as saved, and everything that the
/// optimizer needs. Of an adapter: its own alone.
///
/// # Errors
/// As [`training_memory`].
pub fn checkpoint_bytes(
    architecture: &Architecture,
    setup: &TrainingSetup,
) -> Result<Bytes, TrainingMemoryError> {
    if let Some(adapter) = resolved(architecture, setup)? {
        // FP32, with two moments.
        return Ok(Bytes::from_f64(adapter.trainable * 12.0));
    }
    let bytes = per_parameter(setup);
    let weight = match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => 4.0,
        // FSDP saves its FP32 shards once.
        _ if bytes.master > 0.0
            && matches!(
                setup.framework,
                Framework::PyTorch | Framework::Torchtune | Framework::Torchtitan
            ) =>
        {
            0.0
        }
        _ => 2.0,
    };
    let each = weight + bytes.master + bytes.moments;
    Ok(Bytes::from_f64(architecture.parameters().0 as f64 * each))
}

fn assumptions(
    architecture: &Architecture,
    setup: &TrainingSetup,
    adapter: Option<&Resolved>,
) -> Vec<String> {
    let mut out: Vec<String> = adapter.map_or_else(Vec::new, |a| a.notes.clone());
    if architecture.has_experts() && setup.layout.expert > 1 {
        out.push("tokens are dealt evenly to experts; a rank that gets more holds more".into());
    }
    if setup.optimizer == Optimizer::Sgd {
        out.push("SGD with momentum".into());
    }
    if matches!(setup.recipe, Recipe::Fp8 | Recipe::Fp8Block | Recipe::Nvfp4) {
        out.push("inputs of matmuls are kept in FP8, all other activations in BF16".into());
    }
    match &setup.alignment {
        Some(Alignment::Dpo { .. }) => out.push(
            "both sequences of a pair are as long as stated: TRL pads a batch to its longest"
                .into(),
        ),
        Some(Alignment::Grpo(_)) => out.push(
            "prompts and completions are as long as stated: TRL pads a batch to its longest".into(),
        ),
        None => {}
    }
    out
}

/// One GPU under Hugging Face in 16 bits was measured; several GPUs were only seen to fit.
fn basis(setup: &TrainingSetup) -> Basis {
    let one = setup.layout.gpus() == 1;
    let known = setup.framework == Framework::HuggingFace && setup.recipe == Recipe::PureBf16;
    let foundry = setup.framework == Framework::PyTorch
        && setup.recipe == Recipe::MixedBf16
        && setup.layout.is_data_alone()
        && setup.recompute != Recompute::Selective;
    if setup.alignment.is_some() {
        return Basis::Extrapolated;
    }
    if (one && known) || foundry {
        Basis::Calibrated
    } else {
        Basis::Extrapolated
    }
}
