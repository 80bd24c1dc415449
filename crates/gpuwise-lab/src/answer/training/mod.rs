//! Questions about training: the setup that a row describes, on which GPU, and what is asked.

mod memory;
mod read;
mod recipes;
mod speed;

pub use memory::about_training_memory;
pub use speed::{about_training_time, four_bit_rate};

use super::reading::Refusal;
use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Gpu,
    model::Architecture,
    question::Question,
    training::{Framework, TrainingSetup},
    training_facts::TrainingFacts,
};
use gpuwise_size::training::time::TrainingSystem;
use std::borrow::Cow;

/// What is asked of a training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrainingWanted {
    /// Tokens a second and GPU.
    TokensPerSecondPerGpu,
    /// Tokens a second of all GPUs.
    TokensPerSecond,
    ModelFlopsPerGpu,
    /// Share of the peak by the model's own work, in percent.
    Mfu,
    /// The same with recomputation.
    Hfu,
    /// A micro-batch that fits one GPU: the largest is answered.
    MicroBatchFits,
    /// The most that the allocator held at once.
    Peak,
    /// What it held at the end of a step, in the mean.
    ReservedMean,
    /// The same, in the longest of a hundred steps.
    ReservedTail,
    /// The most that the run's tensors took of the GPU.
    PeakOfTensors,
    /// The most that the allocator held of the GPU, in use or not.
    PeakReserved,
    Host,
    /// Whether it ends out of memory.
    OutOfMemory,
    /// Minutes to a quality.
    TimeToTrain,
    /// Samples a second of the whole system.
    Throughput,
}

impl TrainingWanted {
    /// Of a metric's name; `oom` only where the row says what is trained.
    pub fn of(question: &Question) -> Option<Self> {
        Some(match question.metric.as_str() {
            "train_tokens_per_s_per_gpu" => Self::TokensPerSecondPerGpu,
            // The unit says of how many GPUs.
            "train_tokens_per_s" if question.unit.to_ascii_lowercase().contains("gpu") => {
                Self::TokensPerSecondPerGpu
            }
            "train_tokens_per_s" => Self::TokensPerSecond,
            "total_throughput" if recipes::is_training(question) => Self::TokensPerSecond,
            "train_model_tflops_per_gpu" => Self::ModelFlopsPerGpu,
            "mfu" => Self::Mfu,
            "hfu" => Self::Hfu,
            "microbatch_fits" => Self::MicroBatchFits,
            "accelerator_memory_max" => Self::Peak,
            // torchtitan prints what is reserved, torchtune what is in use.
            "peak_memory_per_gpu" if recipes::framework(question) == Framework::Torchtitan => {
                Self::PeakReserved
            }
            "peak_memory_reserved" => Self::PeakReserved,
            "peak_memory_per_gpu"
            | "peak_memory_active"
            | "peak_memory_alloc"
            | "peak_memory_allocated"
            | "peak_gpu_memory" => Self::PeakOfTensors,
            "accelerator_memory_reserved_avg" => Self::ReservedMean,
            "accelerator_memory_reserved_p99" => Self::ReservedTail,
            "cpu_memory" if question.extra("method").is_some() => Self::Host,
            "oom" if question.extra("method").is_some() => Self::OutOfMemory,
            "time_to_train_olympic_mean" => Self::TimeToTrain,
            "throughput_logged_median" => Self::Throughput,
            _ => return None,
        })
    }

    /// Whether it is about memory rather than time.
    pub const fn is_memory(self) -> bool {
        matches!(
            self,
            Self::MicroBatchFits
                | Self::Peak
                | Self::ReservedMean
                | Self::ReservedTail
                | Self::PeakOfTensors
                | Self::PeakReserved
                | Self::Host
                | Self::OutOfMemory
        )
    }
}

/// A question about training understood.
#[derive(Debug, Clone)]
pub struct TrainingReading<'a> {
    /// The model, as the row changes it.
    pub architecture: Cow<'a, Architecture>,
    pub gpu: &'a Gpu,
    /// How it is trained. Where the row asks for a micro-batch, `micro_batch` is 1.
    pub setup: TrainingSetup,
    pub wanted: TrainingWanted,
    /// What the row states of what else could be chosen.
    pub stated: Stated,
    /// Whether every step is as long as the longest (`false`: texts of different lengths, of which
    /// `sequence` is the bound).
    pub packed: bool,
    /// Whether every expert takes a fixed number of tokens and drops what is beyond it: nothing is
    /// counted on the host, and graphs can be captured.
    pub fixed_shapes: bool,
    /// Readings applied, in words.
    pub notes: Vec<String>,
}

impl TrainingReading<'_> {
    /// What the row runs on: its GPU in the servers that it usually comes in.
    pub fn system(&self, facts: &TrainingFacts) -> TrainingSystem {
        let mut system = TrainingSystem::usual(self.gpu, facts);
        system.captured |= self.fixed_shapes;
        system
    }
}

/// Which choices a row states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a cell is there, independently of the others"
)]
pub struct Stated {
    pub layout: bool,
    /// Sequences of a micro-batch.
    pub micro_batch: bool,
    /// What is recomputed.
    pub recompute: bool,
    pub recipe: bool,
    pub sharding: bool,
}

/// Reads a question about training; `None` where it is about something else.
///
/// # Errors
/// Inside: when the GPU or the method is unknown, or the layout does not divide.
pub fn read_training<'a>(
    question: &Question,
    architecture: &'a Architecture,
    catalogue: &'a Catalogue,
) -> Option<Result<TrainingReading<'a>, Refusal>> {
    let wanted = TrainingWanted::of(question)?;
    Some(read::read(question, architecture, catalogue, wanted))
}
