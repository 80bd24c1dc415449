//! GPU memory, number of GPUs and cost against model size, beside rules of thumb.

mod inference;
mod rules;
mod training;

pub use inference::{inference, layouts};
pub use rules::{Assumption, RangeEnd, RuleError, ends, rule_bytes, rule_error, usual_assumptions};

pub use training::{TrainingMethod, training};

use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue, deployment::Rental, engine::Engine, gpu::Device, model::Architecture,
    offer::Terms, precision::CacheFormat,
};
use gpuwise_units::{Bytes, HourlyPrice};

#[derive(Debug, Clone)]
pub struct Entry<'a> {
    pub name: String,
    /// The class of size that it stands for, such as `70b`; `None`: it was named itself.
    pub class: Option<String>,
    pub architecture: &'a Architecture,
}

/// On what, and in which engine.
#[derive(Debug, Clone)]
pub struct Ground<'a> {
    pub device: Device<'a>,
    pub engine: Engine,
    /// Offers and their terms.
    pub catalogue: &'a Catalogue,
    /// Under which terms GPUs are priced.
    pub terms: Terms,
    /// Format of the key-value cache.
    pub cache: CacheFormat,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Purpose {
    Inference {
        /// Weight format (`bf16`, `fp8`, `int4`).
        format: String,
        /// Tokens of a request, prompt and answer.
        context: u64,
        concurrency: u64,
    },
    Training {
        /// What is trained, in words.
        method: String,
        /// Tokens of a sequence.
        sequence: u64,
        /// Sequences of a micro-batch.
        micro_batch: u64,
    },
}

/// Memory, GPUs and cost of one model under one purpose.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub model: String,
    pub parameters: u64,
    pub purpose: Purpose,
    pub gpu: String,
    /// What it takes there; an error says why it takes no number of them.
    pub need: Result<Need, String>,
    /// What the 25 % rule says.
    pub rule: Bytes,
}

/// What a purpose takes in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Weights of all copies; in training with their master copies.
    pub weights: Bytes,
    /// Key-value cache of all requests; in training gradients, optimizer states and
    /// adapters, at the peak of a step.
    pub held: Bytes,
    /// Everything else: activations, engine, context.
    pub other: Bytes,
    pub gpus: u32,
    /// Replicas of the model, each with the weights; training is one.
    pub replicas: u32,
    /// How the model lies on them.
    pub layout: String,
    /// Where they are rented; `None`: no offer has them.
    pub rental: Option<Rental>,
    /// What they cost an hour.
    pub per_hour: Option<HourlyPrice>,
}

impl Need {
    pub fn total(&self) -> Bytes {
        Bytes::new(self.weights.count() + self.held.count() + self.other.count())
    }
}

impl Row {
    /// How far the rule is off: 0.25 where it says a quarter too much; `None` where there is nothing
    /// to compare with.
    pub fn off(&self) -> Option<f64> {
        let total = self.need.as_ref().ok()?.total().as_f64();
        (total > 0.0).then(|| self.rule.as_f64() / total - 1.0)
    }
}

/// Medians of the rule's error by model and precision, in the order of rows.
pub fn errors(rows: &[Row]) -> Vec<RuleError> {
    rule_error(rows)
}
