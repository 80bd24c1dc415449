//! Sizing of diffusion, vision and embedding models: what is asked, and what is recommended.

use crate::{
    answer::Answer,
    deployment::{Objective, Rental},
    estimate::{Basis, Derivation, Estimate},
    limit::{Limit, PartCause},
    network::InputSize,
    precision::Compute,
    workload::Target,
};
use alloc::{string::String, vec::Vec};
use core::fmt;
use gpuwise_units::{Bytes, HourlyPrice, Money};

gpuwise_units::named! {
    /// In what a service of such a network is counted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MediaUnit:
        flag,
        /// What a rate counts a second.
        plural
    {
        /// Pictures that are made.
        Images = "--images", "images",
        Videos = "--videos", "videos",
        /// Hours of audio that are written down.
        AudioHours = "--audio", "hours of audio",
        Texts = "--texts", "texts",
        /// Pairs of query and document that are judged.
        Pairs = "--pairs", "pairs",
        /// Pictures, volumes or users that are judged.
        Samples = "--samples", "samples",
    }
}

impl MediaUnit {
    /// How many of them are priced together, and how that is called.
    pub const fn priced(self) -> (u32, &'static str) {
        match self {
            Self::Images => (1, "image"),
            Self::Videos => (1, "video"),
            Self::AudioHours => (1, "hour of audio"),
            Self::Texts => (1000, "1,000 texts"),
            Self::Pairs => (1000, "1,000 pairs"),
            Self::Samples => (1_000_000, "1,000,000 samples"),
        }
    }
}

/// The answer to "which GPUs does this network need for so much a second?".
pub type MediaSizing = Answer<MediaQuestion, MediaDeployment>;

/// What is to be run, as understood.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaQuestion {
    pub name: String,
    pub task: String,
    /// Its parts: name, parameters, and floating-point operations of one input, all passes.
    pub parts: Vec<(String, u64, f64)>,
    /// One input in words: `1024 × 1024, 28 steps`.
    pub input: String,
    pub unit: MediaUnit,
    /// How many a second.
    pub rate: f64,
    /// SloMetric latency from request to result.
    pub latency: Option<Target>,
    pub objective: Objective,
}

/// What memory of a GPU is held for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaMemory {
    Weights(String),
    /// Activations of the part whose pass is the widest.
    Activations(String),
    /// What a decoder keeps of every input.
    Cache,
    /// The driver's context and libraries.
    Program,
}

impl fmt::Display for MediaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weights(part) => write!(f, "weights of {part}"),
            Self::Activations(part) => write!(f, "activations of {part}"),
            Self::Cache => f.write_str("keys and values of the decoder"),
            Self::Program => f.write_str("context and libraries"),
        }
    }
}

/// One way of running the network.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaDeployment {
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub slice: Option<String>,
    pub replicas: u32,
    /// GPUs or slices of a replica (tables are spread over them).
    pub shards: u32,
    /// Format in which the main part multiplies.
    pub precision: String,
    /// Text encoders stay in host memory; their layers come one by one while they run.
    pub encoders_offloaded: bool,
    /// The image decoder works in tiles.
    pub tiled: bool,
    /// Inputs of the network in a batch at most.
    pub most_batch: f64,
    /// Inputs of a batch under the load, in the mean.
    pub batch: f64,
    /// Mean seconds from request to result.
    pub mean_latency: Estimate,
    /// Seconds at the percentile of the SLO (the 95th where none is).
    pub latency: Estimate,
    /// Units a second that all replicas sustain in full batches.
    pub capacity: Estimate,
    /// The rate over that.
    pub load: f64,
    /// Memory of one GPU by cause.
    pub memory: Vec<(MediaMemory, Bytes)>,
    /// Memory that is planned with.
    pub usable: Bytes,
    /// Weights that wait in host memory.
    pub host_bytes: Bytes,
    /// Watts of all GPUs.
    pub power: Option<Estimate>,
    pub joules_per_unit: Option<Estimate>,
    pub rental: Option<Rental>,
    pub per_hour: Option<HourlyPrice>,
    /// Money for as many units as [`MediaUnit::priced`] says.
    pub per_unit: Option<Money>,
    pub basis: Basis,
    /// What takes the time.
    pub bottleneck: Option<Limit<PartCause>>,
    pub derivations: Vec<Derivation>,
}

impl MediaDeployment {
    /// GPUs or slices in all.
    pub const fn devices(&self) -> u32 {
        self.replicas * self.shards
    }
}

/// What a published benchmark runs, as `media_benchmarks.csv` says.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaBenchmark {
    /// How the names of its variants begin; the longest that fits counts.
    pub prefix: String,
    /// The network, as the catalogue names it.
    pub network: String,
    pub input: InputSize,
    /// Inputs of the network for one sample of the benchmark.
    pub inputs: f64,
    /// In which format its main part multiplies, where rows are known to be labelled otherwise.
    pub compute: Option<Compute>,
    pub source: String,
}
