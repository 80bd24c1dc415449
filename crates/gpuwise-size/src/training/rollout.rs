//! How long the engine takes to write the completions of a step: the sizing engine's own batch, on the
//! memory that training leaves it.
//!
//! As TRL runs vLLM: every engine gets an equal part of the batch at once, steps of 4096 tokens at most
//! beside training, and training waits for the last completion.
//! (`huggingface/trl@35def3ee000a87f6839e66f4b7749b06274ed1b3:trl/generation/vllm_generation.py`)

use crate::{
    engines, formats,
    knowledge::{Corrections, Knowledge, MetricClass, Regime},
    memory,
    serving::Cycle,
    setup::{Setup, Weights},
    speed::StepShape,
};
use alloc::{string::String, sync::Arc};
use gpuwise_domain::{
    alignment::{Grpo, RolloutMode},
    deployment::Settings,
    engine::{Engine, EngineKind},
    estimate::{Basis, Estimate},
    gpu::{Device, Gpu},
    layout::Layout,
    model::Architecture,
    precision::CacheFormat,
    training::{BaseStorage, Method, TrainingSetup},
};
use gpuwise_units::{Bytes, significant};

/// Tokens of a step of an engine beside training.
const COLOCATED_TOKENS: u64 = 4096;
/// Where between its begin and its end a completion's context has its mean in two points.
const POINTS: [f64; 2] = [0.2113, 0.7887];

/// The completions of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Seconds until the last one ends.
    pub seconds: Estimate,
    pub basis: Basis,
    /// Completions of one engine.
    pub completions: f64,
    /// Of them, those that run at once: their cache fits, and the engine takes so many.
    pub capacity: f64,
    /// Times that an engine is filled.
    pub waves: f64,
    /// Seconds of computing the prompts of one wave, and of one decode step in the mean.
    pub prefill: f64,
    pub decode: f64,
    /// Decode steps of a completion.
    pub steps: f64,
    /// Bytes of an engine's rank for the cache.
    pub cache: Bytes,
}

/// Why no engine writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// Weights do not leave room for one completion.
    #[error(
        "the engine's {share} of a GPU is {} and leaves no room for one completion beside {} of weights", .budget, .weights
    )]
    NoRoom {
        share: String,
        /// Bytes that it may take.
        budget: Bytes,
        weights: Bytes,
    },
    /// vLLM does not quantize to 8 bits as it loads.
    #[error(
        "vLLM does not take weights in 8-bit integers from a trainer; --base nf4-double, or 16bit"
    )]
    EightBit,
    #[error("the model has no weights in the format of its base")]
    NoSuchWeights,
}

/// The rollout of a setup whose training runs on GPUs of this kind.
///
/// # Errors
/// When the engine cannot hold a completion, or the base as it is stored.
pub fn rollout(
    architecture: &Architecture,
    setup: &TrainingSetup,
    grpo: &Grpo,
    gpu: &Gpu,
    knowledge: &Knowledge,
) -> Result<Rollout, RolloutError> {
    let completions = per_engine(setup, grpo);
    let engine = engine(architecture, setup, grpo, gpu, completions)?;
    let plan = memory::plan(&engine);
    let context = (grpo.prompt + grpo.completion) as f64;
    let room = libm::floor(plan.sequences(context));
    let capacity = room.min(engine.settings.sequences.max(1) as f64);
    if plan.cache <= 0.0 || capacity < 1.0 {
        return Err(RolloutError::NoRoom {
            share: significant(grpo.engine.share, 3),
            budget: Bytes::from_f64(plan.budget),
            weights: Bytes::from_f64(plan.weight_bytes()),
        });
    }
    let shape = Arc::new(StepShape::new(&engine));
    let constants = knowledge.constants(engine.engine.kind);
    let cycle = Cycle::new(&engine, shape, constants);
    let waves = libm::ceil(completions / capacity).max(1.0);
    let size = completions / waves;
    // A prompt is computed once for its group: vLLM finds its blocks.
    let prompts = (size / grpo.generations.max(1) as f64).max(1.0);
    let prefill = cycle.prefill(prompts, grpo.prompt as f64, 0.0);
    let at = |part: f64| cycle.decode(size, grpo.prompt as f64 + grpo.completion as f64 * part);
    let decode = 0.5 * POINTS.map(at).iter().sum::<f64>();
    let steps = grpo.completion.saturating_sub(1) as f64;
    let seconds = waves * (prefill + steps * decode) + cycle.fronted(grpo.prompt as f64);
    let standing = knowledge.standing(&engine, Regime::Batch);
    let range = knowledge.ranges.get(
        MetricClass::Batch,
        engine.engine.kind,
        engine.bucket.key,
        standing.basis,
    );
    Ok(Rollout {
        seconds: Estimate::with_factors(seconds, range.low, range.high),
        basis: standing.basis,
        completions,
        capacity,
        waves,
        prefill,
        decode,
        steps,
        cache: Bytes::from_f64(plan.cache),
    })
}

/// Completions of a step that one engine writes.
fn per_engine(setup: &TrainingSetup, grpo: &Grpo) -> f64 {
    let engines = match grpo.engine.mode {
        RolloutMode::Colocate => setup.layout.gpus() as f64 / f64::from(grpo.engine.tensor.max(1)),
        RolloutMode::Server { engines } => f64::from(engines.max(1)),
    };
    (setup.global_batch as f64 / engines.max(1.0)).max(1.0)
}

fn engine<'a>(
    architecture: &'a Architecture,
    setup: &TrainingSetup,
    grpo: &Grpo,
    gpu: &'a Gpu,
    completions: f64,
) -> Result<Setup<'a>, RolloutError> {
    let engine = Engine::newest(EngineKind::Vllm);
    let model = engines::model(engine.kind);
    let device = Device::whole(gpu);
    let layout = Layout::tensor(grpo.engine.tensor.max(1));
    let colocated = grpo.engine.mode == RolloutMode::Colocate;
    let tokens = colocated.then_some(COLOCATED_TOKENS);
    let usual = model.settings(&engine, &device, layout, tokens);
    Ok(Setup {
        architecture,
        device,
        bucket: model.bucket(&engine, gpu),
        layout,
        weights: weights(architecture, setup)?,
        cache: CacheFormat::HALF,
        settings: Settings {
            // TRL lets an engine of its own take its whole part at once.
            sequences: if colocated {
                libm::ceil(completions) as u64
            } else {
                usual.sequences
            },
            max_context: grpo.prompt + grpo.completion,
            memory_fraction: grpo.engine.share,
            ..usual
        },
        engine,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    })
}

/// What the engine computes with: the trained weights in 16 bits, or a base in 4 bits as it is.
fn weights(architecture: &Architecture, setup: &TrainingSetup) -> Result<Weights, RolloutError> {
    let base = match &setup.method {
        Method::Adapter(adapter) => adapter.base,
        Method::Full => BaseStorage::SixteenBit,
    };
    let format = match base {
        BaseStorage::EightBit => return Err(RolloutError::EightBit),
        BaseStorage::Nf4 { .. } => "nf4",
        BaseStorage::SixteenBit | BaseStorage::ThirtyTwoBit => "bf16",
    };
    formats::weights_named(architecture, format).ok_or(RolloutError::NoSuchWeights)
}
