//! The constants of the speed model: what each means, its prior, and its fitted value.
//!
//! A constant has one base value, and may be corrected by a factor per hardware generation and
//! per engine version bucket. Corrections are pulled towards 1 when fitted, so that an unseen generation
//! or engine gets the base value: that is the rule for it.

use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec,
    vec::Vec,
};
use gpuwise_domain::derivation::Unit;
use gpuwise_operators::Operators;

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $value:literal, $spread:literal, $generation:literal, $engine:literal, $unit:literal, $meaning:literal;)*) => {
        /// A constant of the speed model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Parameter {
            $(#[doc = $meaning] $name),*
        }

        /// Every constant, in order.
        pub const PARAMETERS: &[ParameterInfo] = &[
            $(ParameterInfo {
                key: $key,
                parameter: Parameter::$name,
                default: $value,
                spread: $spread,
                generation_spread: $generation,
                engine_spread: $engine,
                unit: $unit,
                meaning: $meaning,
            }),*
        ];
    };
}

/// What a constant is and how far data may move it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParameterInfo {
    /// Its name in `constants.toml`.
    pub key: &'static str,
    pub parameter: Parameter,
    /// Its value before any data.
    pub default: f64,
    /// Standard deviation of the prior on its logarithm (0: fixed).
    pub spread: f64,
    /// The same for corrections per hardware generation (0: none).
    pub generation_spread: f64,
    /// The same for corrections per engine version bucket (0: none).
    pub engine_spread: f64,
    pub unit: &'static str,
    pub meaning: &'static str,
}

impl ParameterInfo {
    /// Standard deviation of the prior on the logarithm of corrections for what was measured together
    /// (0: none).
    pub const fn joint_spread(&self) -> f64 {
        match self.parameter {
            Parameter::BucketDecode => 0.1,
            Parameter::BucketPrefill => 0.15,
            _ => 0.0,
        }
    }

    /// Whether only llama.cpp's steps have it.
    pub fn is_local(&self) -> bool {
        use Parameter as P;
        matches!(
            self.parameter,
            P::LocalMemory
                | P::LocalCache
                | P::LocalMatmul
                | P::LocalVector
                | P::LocalUnpack
                | P::LocalStream
                | P::LocalLayer
                | P::LocalUngraphed
                | P::LocalToken
                | P::LocalOld
                | P::LocalExpert
                | P::LocalLink
                | P::LocalSync
                | P::LocalOverlap
                | P::LocalRemote
        )
    }
}

impl Parameter {
    /// In what formulas take it.
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Kernel
            | Self::BlockMatmul
            | Self::Launch
            | Self::StepBase
            | Self::StepSequence
            | Self::ReduceLatency
            | Self::ReduceRanks
            | Self::PcieReduceLatency
            | Self::DispatchLatency
            | Self::FrontToken => Unit::Microseconds,
            Self::FrontEnd | Self::HandOver => Unit::Seconds,
            _ => Unit::Number,
        }
    }
}

parameters! {
    MemoryRate = "memory_rate", 0.80, 0.05, 0.05, 0.0, "share of peak", "achieved share of peak memory bandwidth when reading weights";
    CacheRate = "cache_rate", 0.70, 0.15, 0.07, 0.075, "share of peak", "achieved share of peak memory bandwidth when reading the key-value cache";
    HalfRate = "half_rate", 0.78, 0.08, 0.08, 0.0, "share of peak", "achieved share of the BF16 peak in large matmuls";
    Fp8Rate = "fp8_rate", 0.58, 0.10, 0.08, 0.0, "share of peak", "achieved share of the FP8 or INT8 peak in large matmuls";
    Fp4Rate = "fp4_rate", 0.45, 0.20, 0.08, 0.0, "share of peak", "achieved share of the FP4 peak in large matmuls";
    AttentionRate = "attention_rate", 0.45, 0.20, 0.08, 0.0, "share of BF16 peak", "achieved share of the BF16 peak in prefill attention";
    LatentRate = "latent_rate", 0.50, 0.20, 0.08, 0.0, "share of BF16 peak", "achieved share of the BF16 peak in latent decode attention";
    ExpertMemoryRate = "expert_memory_rate", 0.70, 0.15, 0.07, 0.2, "share of peak", "achieved share of peak memory bandwidth when reading experts";
    ExpertComputeRate = "expert_compute_rate", 0.45, 0.30, 0.10, 0.2, "share of peak", "achieved share of the matmul peak in grouped expert matmuls, relative to none";
    ExpertTile = "expert_tile", 24.0, 0.5, 0.0, 0.0, "tokens", "rows to which a grouped matmul pads an expert's tokens";
    ExpertImbalance = "expert_imbalance", 1.25, 0.15, 0.0, 0.0, "factor", "work of the busiest expert-parallel rank over the mean";
    ExpertSkew = "expert_skew", 0.70, 0.15, 0.0, 0.0, "share", "share of further tokens that choose experts independently of the others";
    ExpertFourBit = "expert_four_bit", 0.95, 0.15, 0.08, 0.12, "factor", "memory rate of four-bit experts over that of wider ones";
    WeightOnlyRate = "weight_only_rate", 0.85, 0.15, 0.08, 0.0, "factor", "memory rate of weight-only formats over that of plain ones";
    WeightOnlyCompute = "weight_only_compute", 0.70, 0.30, 0.0, 0.0, "factor", "matmul rate of weight-only formats over that of plain ones";
    Overlap = "overlap", 3.0, 0.0, 0.0, 0.0, "exponent", "exponent of the smooth maximum of memory and compute time";
    TileExponent = "tile_exponent", 0.45, 0.3, 0.0, 0.0, "exponent", "how much few tiles of a matmul leave compute units idle";
    Kernel = "kernel", 3.5, 0.3, 0.12, 0.075, "µs", "time that one small kernel adds to a step under CUDA graphs";
    BlockMatmul = "block_matmul", 5.0, 0.6, 0.2, 0.25, "µs", "time that scaling activations by blocks adds to a matmul of block-scaled FP8 weights";
    LatentKernels = "latent_kernels", 10.0, 0.3, 0.0, 0.075, "kernels", "small kernels of a latent-attention layer beside its matmuls";
    ExpertKernels = "expert_kernels", 6.0, 0.3, 0.0, 0.3, "kernels", "kernels of routing, permuting and combining experts";
    UnstatedSpeculation = "unstated_speculation", 1.25, 0.15, 0.0, 0.0, "tokens", "tokens a step where the model has prediction layers and the row does not say whether they are used";
    SweptSpeculation = "swept_speculation", 1.6, 0.15, 0.0, 0.0, "tokens", "tokens a step in sweeps of releases whose recipes draft with a model's prediction layers";
    ExpertWeightOnly = "expert_weight_only", 0.85, 0.15, 0.08, 0.12, "factor", "memory rate of experts that are dequantized before multiplying";
    Stream = "stream", 10.0, 0.4, 0.08, 0.06, "passes", "passes over the activations per layer by norms, rotary and activation kernels";
    Launch = "launch", 20.0, 0.6, 0.0, 0.4, "µs", "time that one kernel launch costs the host outside of CUDA graphs";
    StepBase = "step_base", 500.0, 0.5, 0.0, 0.3, "µs", "time of a step that is neither kernels nor bytes: scheduling, sampling";
    StepSequence = "step_sequence", 8.0, 0.5, 0.0, 0.3, "µs", "the same, per sequence in the batch";
    ReduceLatency = "reduce_latency", 7.0, 0.3, 0.12, 0.12, "µs", "latency of a small all-reduce over two ranks on a switched link";
    ReduceRanks = "reduce_ranks", 1.0, 0.5, 0.0, 0.0, "µs", "further latency per rank beyond two";
    ReduceRate = "reduce_rate", 0.50, 0.20, 0.10, 0.075, "share of link", "achieved share of the link's bandwidth in all-reduce";
    PcieReduceLatency = "pcie_reduce_latency", 15.0, 0.5, 0.0, 0.0, "µs", "latency of a small all-reduce without a switched link";
    PcieReduceRate = "pcie_reduce_rate", 0.45, 0.4, 0.0, 0.0, "share of PCIe", "achieved share of the host link's bandwidth in all-reduce";
    DispatchLatency = "dispatch_latency", 20.0, 0.5, 0.0, 0.3, "µs", "latency of moving tokens to experts and back";
    DispatchRate = "dispatch_rate", 0.30, 0.5, 0.15, 0.2, "share of link", "achieved share of the link's bandwidth in moving tokens to experts";
    PrefillFactor = "prefill_factor", 1.10, 0.15, 0.0, 0.15, "factor", "time of a prefill over that of its parts";
    FrontEnd = "front_end", 10.0, 0.6, 0.0, 0.6, "ms", "time of a request outside of queues and steps: tokenizing, transport, admission";
    FrontToken = "front_token", 1.5, 0.3, 0.0, 0.2, "µs", "the same, per prompt token";
    AdmitSteps = "admit_steps", 1.5, 0.0, 0.0, 0.0, "steps", "steps under way or planned that a new request waits for where others decode: half of one, and one more where the next is planned ahead";
    HandOver = "hand_over", 50.0, 0.6, 0.0, 0.5, "ms", "time that a request takes from a prefill worker to a decode worker beside the bytes of its cache: routing, set-up, waiting for the cache";
    Rounds = "rounds", 5.0, 0.5, 0.0, 0.5, "rounds", "requests of a published sweep over its concurrency, where its harness does not say how many it sends";
    Scatter = "scatter", 0.22, 0.5, 0.0, 0.4, "share", "share of a cycle over which the requests of a run end one round after they started together, at lengths of 0.8 to 1 of the nominal one";
    MixedFactor = "mixed_factor", 1.0, 0.05, 0.0, 0.05, "factor", "cost of prefill inside decode steps over its cost alone";
    SloShare = "slo_share", 0.80, 0.2, 0.0, 0.2, "share", "mean time per token over its bound where a run was driven up to a bound";
    SloFirst = "slo_first", 0.20, 0.3, 0.0, 0.3, "share", "mean time to first token over its bound in such runs";
    BucketDecode = "bucket_decode", 1.0, 0.0, 0.03, 0.06, "factor", "decode time of an engine version bucket over the model";
    LocalMemory = "local_memory_rate", 0.75, 0.2, 0.05, 0.2, "share of peak", "llama.cpp: achieved share of peak memory bandwidth when weights are multiplied as stored";
    LocalCache = "local_cache_rate", 0.50, 0.3, 0.05, 0.2, "share of peak", "llama.cpp: the same when reading the key-value cache";
    LocalMatmul = "local_matmul_rate", 0.58, 0.25, 0.05, 0.2, "share of peak", "llama.cpp: achieved share of the FP16 peak in matmuls of many tokens";
    LocalVector = "local_vector_rate", 0.40, 0.4, 0.0, 0.3, "share of FP32 peak", "llama.cpp: achieved share of the FP32 peak where few tokens are multiplied as stored";
    LocalUnpack = "local_unpack", 1.50, 0.3, 0.06, 0.25, "passes", "llama.cpp: time of unpacking weights over that of moving them at peak bandwidth";
    LocalStream = "local_stream", 1.30, 0.4, 0.0, 0.25, "passes", "llama.cpp: passes over the inputs and outputs of kernels, in 32 bits";
    LocalLayer = "local_layer", 50.0, 0.5, 0.15, 0.6, "µs", "llama.cpp: time of a layer's small kernels in a step";
    LocalUngraphed = "local_ungraphed", 1.5, 0.4, 0.0, 0.0, "factor", "llama.cpp: the same in builds before CUDA graphs (until 2024-05) over later ones";
    LocalToken = "local_token", 1.0, 0.6, 0.05, 0.6, "µs", "llama.cpp: further time of a layer for each token";
    LocalOld = "local_old", 2.0, 0.4, 0.0, 0.0, "factor", "llama.cpp: time of a layer for each token in builds of 2023 over later ones";
    LocalExpert = "local_expert", 100.0, 0.7, 0.0, 0.5, "µs", "llama.cpp: time of starting the matmuls of one expert";
    LocalLink = "local_link_rate", 0.22, 0.6, 0.14, 0.3, "share of host link", "llama.cpp: achieved share of the host link between GPUs";
    LocalSync = "local_sync", 20.0, 0.6, 0.1, 0.3, "µs", "llama.cpp: wait for another GPU";
    LocalOverlap = "local_overlap", 0.75, 0.15, 0.0, 0.0, "share", "llama.cpp: share of a prompt's chunks that GPUs with layers of their own compute concurrently";
    LocalRemote = "local_remote_rate", 0.80, 0.3, 0.0, 0.0, "share of host link", "llama.cpp on Intel: achieved share of the host link at which layers of other GPUs are read";
    BucketPrefill = "bucket_prefill", 1.0, 0.0, 0.03, 0.15, "factor", "prefill time of an engine version bucket over the model";
    RunMatmul = "run_matmul", 1.0, 0.1, 0.05, 0.05, "factor", "time of a matmul in a running engine over that measured of it alone";
    RunExperts = "run_experts", 1.0, 0.1, 0.05, 0.05, "factor", "time of an expert layer in a running engine over that measured of it alone";
    RunGeneration = "run_generation", 1.0, 0.1, 0.05, 0.05, "factor", "time of attention of new tokens over the cache in a running engine over that measured of it alone";
    RunContext = "run_context", 1.0, 0.1, 0.05, 0.05, "factor", "time of attention over prompts in a running engine over that measured of it alone";
}

/// Values of the constants, with corrections.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    pub generations: Vec<String>,
    /// Engine buckets that have corrections.
    pub buckets: Vec<String>,
    /// What was measured together and has corrections: bucket, silicon, architecture and precision
    /// ([`Cell::joint`](crate::knowledge::Cell::joint)).
    pub joints: Vec<String>,
    /// Natural logarithms of the base values, by parameter.
    pub base: Vec<f64>,
    /// Natural logarithms of corrections, by parameter and generation.
    pub by_generation: Vec<Vec<f64>>,
    /// The same by parameter and bucket.
    pub by_bucket: Vec<Vec<f64>>,
    /// The same by parameter and joint.
    pub by_joint: Vec<Vec<f64>>,
    /// Times of operators that were measured, which go before shares of peaks; `None`: shares alone.
    pub operators: Option<Arc<Operators>>,
}

impl Constants {
    /// The prior: defaults and no corrections.
    pub fn prior(generations: &[&str], buckets: &[&str]) -> Self {
        Self {
            generations: generations.iter().map(ToString::to_string).collect(),
            buckets: buckets.iter().map(ToString::to_string).collect(),
            base: PARAMETERS.iter().map(|p| libm::log(p.default)).collect(),
            by_generation: vec![vec![0.0; generations.len()]; PARAMETERS.len()],
            by_bucket: vec![vec![0.0; buckets.len()]; PARAMETERS.len()],
            joints: Vec::new(),
            by_joint: vec![Vec::new(); PARAMETERS.len()],
            operators: None,
        }
    }

    /// The same, with room for corrections of what was measured together.
    #[must_use]
    pub fn with_joints(mut self, joints: Vec<String>) -> Self {
        self.by_joint = vec![vec![0.0; joints.len()]; PARAMETERS.len()];
        self.joints = joints;
        self
    }

    /// Where a generation and a bucket stand, for [`Constants::get`].
    pub fn place(&self, generation: &str, bucket: &str) -> Place {
        Place {
            generation: self.generations.iter().position(|g| g == generation),
            bucket: self.buckets.iter().position(|p| p == bucket),
            joint: None,
        }
    }

    /// The same where the three were measured together.
    pub fn place_in(&self, generation: &str, bucket: &str, joint: &str) -> Place {
        Place {
            joint: self.joints.iter().position(|j| j == joint),
            ..self.place(generation, bucket)
        }
    }

    pub fn get(&self, parameter: Parameter, place: Place) -> f64 {
        let at = parameter as usize;
        let mut log = self.base[at];
        if let Some(generation) = place.generation {
            log += self.by_generation[at][generation];
        }
        if let Some(bucket) = place.bucket {
            log += self.by_bucket[at][bucket];
        }
        if let Some(joint) = place.joint {
            log += self.by_joint[at][joint];
        }
        libm::exp(log)
    }
}

/// A generation, a bucket and a joint among those that have corrections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// `None`: no correction is known.
    pub generation: Option<usize>,
    /// `None`: no correction is known.
    pub bucket: Option<usize>,
    /// `None`: what was asked was not measured together.
    pub joint: Option<usize>,
}
