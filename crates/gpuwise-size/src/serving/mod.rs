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

/// Tokens of a decode step and sequence. TensorRT-LLM's published recipes switch prediction layers
/// on for models that have them, and tables do not say so.
fn tokens_per_step(setup: &Setup<'_>, unstated: f64) -> f64 {
    let may_predict = !setup.architecture.prediction.is_empty() && setup.engine.kind == EngineKind::TensorRtLlm;
    if may_predict { unstated } else { 1.0 }
}

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
    per_token: f64,
    /// Steps that a request waits for admission.
    admit: f64,
    /// Share of requests that arrive together.
    burst: f64,
    /// The same where all have one length.
    burst_fixed: f64,
    mixed: f64,
    /// Tokens that a sequence gains in a decode step.
    tokens_per_step: f64,
}

impl Cycle {
    /// The cycle of a setup.
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let place = constants.place(&setup.device.gpu.generation, &setup.profile);
        let get = |parameter| constants.get(parameter, place);
        Self {
            steps: StepModel::new(setup, shape, constants),
            chunk: setup.settings.batched_tokens as f64,
            prefill_first: setup.engine.kind == EngineKind::Sglang,
            base: get(P::PrefillBase) * 1e-3,
            per_token: get(P::PrefillToken) * 1e-6,
            admit: get(P::AdmitSteps),
            burst: get(P::Burst).min(1.0),
            burst_fixed: get(P::BurstFixed).min(1.0),
            mixed: get(P::MixedFactor),
            tokens_per_step: tokens_per_step(setup, get(P::UnstatedSpeculation)),
        }
    }

    /// Seconds of a decode step of `sequences` at a mean `context`.
    pub fn decode(&self, sequences: f64, context: f64) -> f64 {
        self.steps
            .time(&Batch {
                decodes: sequences,
                context,
                ..Batch::default()
            })
            .total()
            / self.tokens_per_step
    }

    /// Seconds to compute `tokens` of prompts, `context` of them cached before, with no decoding.
    pub fn prefill(&self, prompts: f64, tokens: f64, cached: f64) -> f64 {
        let all = prompts * tokens;
        let steps = libm::ceil(all / self.chunk).max(1.0);
        let time = self.steps.time(&Batch {
            prefill: all / steps,
            prefill_context: cached + tokens / 2.0,
            finished: prompts / steps,
            ..Batch::default()
        });
        time.total() * steps * self.steps.prefill_factor()
    }

    /// Seconds from request to first token, given what its prefill takes.
    pub fn first(&self, prefill: f64, tokens: f64) -> f64 {
        prefill + self.base + self.per_token * tokens
    }

    /// Seconds of a decode step of `sequences` at `context`, and seconds that one prompt adds to
    /// such steps.
    fn decode_and_mixed(&self, sequences: f64, context: f64, tokens: f64, cached: f64) -> (f64, f64) {
        if self.prefill_first {
            let decode = self.decode(sequences, context);
            return (decode, self.prefill(1.0, tokens, cached) * self.mixed);
        }
        let steps = libm::ceil(tokens / self.chunk).max(1.0);
        let decoding = Batch {
            decodes: sequences,
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
        (decode / self.tokens_per_step, mixed)
    }
}
