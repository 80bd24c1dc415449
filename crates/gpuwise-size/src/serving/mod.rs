//! From step times to what a user sees: time to first token, time per token, throughput.

mod closed;
mod open;
mod stat;

pub use closed::{ClosedLoop, Latency};
pub(crate) use open::normal_quantile;
pub use open::{OpenLoop, Quantiles};
pub use stat::StaticBatch;

use crate::{
    constants::{Constants, Parameter as P},
    setup::Setup,
    speed::{Batch, StepModel, StepShape},
};
use alloc::sync::Arc;
use gpuwise_domain::engine::EngineKind;

/// Tokens of a decode step and sequence, and drafted tokens that a step checks beside them.
/// TensorRT-LLM's published recipes switch prediction layers on for models that have them, and
/// tables do not say so; sweeps of some of its images do throughout
/// (`docs/decisions/0003-reading-rows.md`, rule 14).
fn drafting(setup: &Setup<'_>, unstated: f64, swept: f64) -> (f64, f64) {
    if let Some(draft) = setup.draft {
        return (draft.tokens_per_step(), f64::from(draft.tokens));
    }
    if setup.architecture.prediction.is_empty() || setup.engine.kind != EngineKind::TensorRtLlm {
        return (1.0, 0.0);
    }
    let sweeps_draft = setup.engine.written.contains(SWEEPS_DRAFT);
    (if sweeps_draft { swept } else { unstated }, 0.0)
}

/// The image whose published sweeps draft with prediction layers wherever a model has them.
const SWEEPS_DRAFT: &str = "1.2.0rc6.post3";


/// The engine's cycle: steps, and how prompts enter them.
#[derive(Debug, Clone)]
pub struct Cycle {
    /// Step times.
    pub steps: StepModel,
    /// Prompt tokens of a step at most.
    chunk: f64,
    /// Whether prompts run in steps of their own, while decoding waits.
    prefill_first: bool,
    /// Seconds before the first step and after it: tokenizing, transport, admission.
    base: f64,
    /// The same per prompt token.
    token_cost: f64,
    /// Steps that a request waits for admission.
    admit: f64,
    /// Share of requests that arrive together.
    burst: f64,
    /// The same where all have one length.
    burst_fixed: f64,
    mixed: f64,
    /// Tokens that a sequence gains in a decode step.
    tokens_per_step: f64,
    /// Drafted tokens that a step checks for each sequence.
    drafted: f64,
    /// Layers of the model, of which a prediction layer costs one.
    layers: f64,
}

impl Cycle {
    /// The cycle of a setup.
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let place = constants.place(&setup.device.gpu.generation, &setup.profile);
        let get = |parameter| constants.get(parameter, place);
        let (tokens_per_step, drafted) = drafting(setup, get(P::UnstatedSpeculation), get(P::SweptSpeculation));
        Self {
            steps: StepModel::new(setup, shape, constants),
            chunk: setup.settings.batched_tokens as f64,
            prefill_first: setup.engine.kind == EngineKind::Sglang,
            base: get(P::PrefillBase) * 1e-3,
            token_cost: get(P::PrefillToken) * 1e-6,
            admit: get(P::AdmitSteps),
            burst: get(P::Burst).min(1.0),
            burst_fixed: get(P::BurstFixed).min(1.0),
            mixed: get(P::MixedFactor),
            tokens_per_step,
            drafted,
            layers: (setup.architecture.layer_count() as f64).max(1.0),
        }
    }

    /// Seconds of a decode step of `sequences` at a mean `context`.
    pub fn decode(&self, sequences: f64, context: f64) -> f64 {
        let step = self.steps.time(&Batch {
            decodes: sequences * (1.0 + self.drafted),
            context,
            ..Batch::default()
        });
        self.per_token(step.total())
    }

    /// Seconds of a step over the tokens that it yields; each drafted token passes one prediction
    /// layer first.
    fn per_token(&self, step: f64) -> f64 {
        step * (1.0 + self.drafted / self.layers) / self.tokens_per_step
    }

    /// Seconds to compute `tokens` of prompts, `context` of them cached before, with no decoding.
    pub fn prefill(&self, prompts: f64, tokens: f64, cached: f64) -> f64 {
        let all = prompts * tokens;
        let steps = libm::ceil(all / self.chunk).max(1.0);
        let chunk = Batch {
            prefill: all / steps,
            prefill_context: cached + tokens / 2.0,
            finished: prompts / steps,
            ..Batch::default()
        };
        self.steps.through(&chunk, steps) * self.steps.prefill_factor()
    }

    /// Seconds from request to first token, given what its prefill takes.
    pub fn first(&self, prefill: f64, tokens: f64) -> f64 {
        prefill + self.base + self.token_cost * tokens
    }

    /// Seconds of a decode step of `sequences` at `context`, and seconds that one prompt adds to
    /// such steps.
    pub(crate) fn decode_and_mixed(
        &self,
        sequences: f64,
        context: f64,
        tokens: f64,
        cached: f64,
    ) -> (f64, f64) {
        if self.prefill_first {
            let decode = self.decode(sequences, context);
            return (decode, self.prefill(1.0, tokens, cached) * self.mixed);
        }
        let steps = libm::ceil(tokens / self.chunk).max(1.0);
        let decoding = Batch {
            decodes: sequences * (1.0 + self.drafted),
            context,
            ..Batch::default()
        };
        let both = Batch {
            prefill: tokens / steps,
            prefill_context: cached + tokens / 2.0,
            finished: 1.0 / steps,
            ..decoding
        };
        let decode = self.steps.time(&decoding).total();
        let more = self.steps.time(&both).total() - decode;
        let mixed = more.max(0.0) * steps * self.steps.prefill_factor() * self.mixed;
        (self.per_token(decode), mixed)
    }
}
