//! What the catalogue states of training: what kernels reach, usual networks, fitted constants,
//! and benchmarks with what they need to converge. Data only.

use alloc::{string::String, vec::Vec};

/// Everything that the catalogue states of training.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingFacts {
    pub matmul: Vec<MatmulShare>,
    /// Shares of the BF16 peak that attention kernels reach.
    pub attention: Vec<AttentionShare>,
    /// The network of one GPU between nodes.
    pub networks: Vec<UsualNetwork>,
    /// Fitted constants by framework.
    pub sets: Vec<ConstantSet>,
    /// What rows of one kind on one GPU leave between prediction and measurement.
    pub residuals: Vec<Residual>,
    /// How far predictions lay from rows that their constants had not seen.
    pub errors: Vec<HeldOutError>,
    pub benchmarks: Vec<ConvergenceBenchmark>,
    /// What they share, where it was fitted.
    pub convergence: Option<ConvergenceConstants>,
}

/// What large matmuls reach of the dense peak on a GPU, timed apart from any training run.
#[derive(Debug, Clone, PartialEq)]
pub struct MatmulShare {
    /// Catalogue name of the GPU; empty where the row is of a generation.
    pub gpu: String,
    /// The generation; with an empty `gpu`, any GPU of it without a row of its own.
    pub generation: String,
    /// Of the BF16 peak.
    pub half: f64,
    /// Of the FP8 peak, where it was timed.
    pub fp8: Option<f64>,
    pub source: String,
}

/// What attention kernels reach of the BF16 peak on a generation of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionShare {
    pub generation: String,
    /// FlashAttention-2, as PyTorch calls it.
    pub flash2: f64,
    /// The vendor's own kernels, as Megatron calls them.
    pub vendor: f64,
    pub source: String,
}

/// The network that servers with a GPU usually have.
#[derive(Debug, Clone, PartialEq)]
pub struct UsualNetwork {
    /// Catalogue name of the GPU; empty where the row is of a generation.
    pub gpu: String,
    pub generation: String,
    /// Bytes a second of one GPU, one direction.
    pub bytes_per_second: f64,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConstantSet {
    /// Which runs they describe (`pytorch`, `megatron`).
    pub name: String,
    /// Rows that they were fitted on.
    pub rows: u64,
    /// Mean absolute error on these rows, in percent.
    pub error: f64,
    pub values: Vec<(String, f64)>,
}

/// What rows of one kind on one GPU leave between prediction and measurement, shrunk to nothing where
/// they are few.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Which rows (`FSDP`, `dense`, `experts`; with a benchmark, `time to train: bert`).
    pub rows: String,
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub count: u64,
    /// Logarithm of predicted over measured: a prediction is divided by its exponential.
    pub shift: f64,
}

/// Errors of predictions whose constants were fitted without the group that is predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOutError {
    /// Which rows (`FSDP`, `dense`, `experts`, `time to train`).
    pub rows: String,
    /// What was left out in turn (`configuration`: a fifth of them; `model`, `gpu`, `generation`).
    pub left_out: String,
    pub count: u64,
    /// Mean of |predicted / measured - 1|, in percent.
    pub mean: f64,
    /// Its median, in percent.
    pub median: f64,
    /// Ratios measured / predicted below which a tenth of the rows lie, and above which a tenth.
    pub range: (f64, f64),
    /// What was left out, its rows, and the mean error on them in percent.
    pub each: Vec<(String, u64, f64)>,
}

/// A benchmark of time to a quality: what a sample is and how many are needed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvergenceBenchmark {
    pub name: String,
    /// What it trains, for people.
    pub network: String,
    /// Matmul operations of training on one sample, forward and backward.
    pub sample_flops: f64,
    /// Its runs that were fitted.
    pub runs: u64,
    /// Whether its matmuls run in FP8 where the silicon has it.
    pub eight_bit: bool,
    /// Whether submissions since containers of 25.09 also run them in NVFP4.
    pub four_bit: bool,
    /// Time of evaluations over the time of training between them.
    pub evaluation: f64,
    /// Width of its residual stream; 0: none, or unknown.
    pub width: f64,
    /// Bytes of one pass over all activations of a sample; 0: unknown.
    pub pass_bytes: f64,
    /// A model whose pre-training at the same length is the same work for each sample.
    pub pretrains: Option<String>,
    /// Share of the timed matmul rate that runs reach.
    pub share: f64,
    /// Bytes of memory traffic of training on one sample.
    pub sample_bytes: f64,
    /// Seconds of a step that do not shrink with GPUs, with a link of 450 x 10^9 bytes a second;
    /// in inverse proportion to the link.
    pub step_seconds: f64,
    /// Samples until the quality is reached, by global batch, smallest first; linear in the
    /// logarithm of the batch between rows.
    pub samples: Vec<(f64, f64)>,
    /// Samples of one GPU in a step where a row states no batch.
    pub usual_batch: f64,
    pub source: String,
}

/// What all benchmarks of time to a quality share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvergenceConstants {
    /// Seconds of a run that depend on neither speed nor size: start, evaluations' heads and tails.
    pub fixed_seconds: f64,
    /// Speed of software that calls no vendor library (tinygrad), over that of others.
    pub without_libraries: f64,
}

impl Default for ConvergenceConstants {
    fn default() -> Self {
        Self {
            fixed_seconds: 15.0,
            without_libraries: 0.25,
        }
    }
}

impl TrainingFacts {
    /// What large matmuls reach on a GPU: its own row, its generation's, else `None`.
    pub fn matmul_share(&self, gpu: &str, generation: &str) -> Option<&MatmulShare> {
        let own = self.matmul.iter().find(|row| row.gpu == gpu);
        own.or_else(|| {
            self.matmul
                .iter()
                .find(|row| row.gpu.is_empty() && row.generation == generation)
        })
    }

    /// What attention kernels reach on a generation.
    pub fn attention_share(&self, generation: &str) -> Option<&AttentionShare> {
        self.attention
            .iter()
            .find(|row| row.generation == generation)
    }

    /// The network that servers with a GPU usually have, in bytes a second of one GPU.
    pub fn network(&self, gpu: &str, generation: &str) -> Option<&UsualNetwork> {
        let own = self.networks.iter().find(|row| row.gpu == gpu);
        own.or_else(|| {
            self.networks
                .iter()
                .find(|row| row.gpu.is_empty() && row.generation == generation)
        })
    }

    /// What rows of a kind on a GPU left; `None` where none was fitted there.
    pub fn residual(&self, rows: &str, gpu: &str) -> Option<f64> {
        let here = |row: &&Residual| row.rows == rows && row.gpu == gpu;
        self.residuals.iter().find(here).map(|row| row.shift)
    }

    /// Errors of rows of a kind with what they belong to left out.
    pub fn held_out(&self, rows: &str, left_out: &str) -> Option<&HeldOutError> {
        let wanted = |row: &&HeldOutError| row.rows == rows && row.left_out == left_out;
        self.errors.iter().find(wanted)
    }

    pub fn benchmark(&self, name: &str) -> Option<&ConvergenceBenchmark> {
        self.benchmarks.iter().find(|row| row.name == name)
    }
}
