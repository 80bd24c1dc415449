//! The constants of a training step: what each means, its prior, and how far data may move it.
//!
//! None is of one model or GPU: what a GPU's kernels reach was timed apart from training and lies in
//! the catalogue, and constants multiply that.

use alloc::{string::ToString, vec::Vec};
use gpuwise_domain::training_facts::ConstantSet;

macro_rules! parameters {
    ($($name:ident = $key:literal, $value:literal, $spread:literal, $unit:literal, $meaning:literal;)*) => {
        /// A constant of the training step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum TrainingParameter {
            $(#[doc = $meaning] $name),*
        }

        /// Every constant, in order.
        pub const TRAINING_PARAMETERS: &[TrainingParameterInfo] = &[
            $(TrainingParameterInfo {
                key: $key,
                parameter: TrainingParameter::$name,
                prior: $value,
                spread: $spread,
                unit: $unit,
                meaning: $meaning,
            }),*
        ];
    };
}

/// What a constant is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingParameterInfo {
    /// Its name in `training.toml`.
    pub key: &'static str,
    pub parameter: TrainingParameter,
    /// Its value before any data.
    pub prior: f64,
    /// Standard deviation of the prior on its logarithm.
    pub spread: f64,
    pub unit: &'static str,
    pub meaning: &'static str,
}

parameters! {
    HalfMatmul = "half_matmul", 0.90, 0.15, "share", "matmuls of a run in BF16 over the same timed alone";
    Fp8Matmul = "fp8_matmul", 0.90, 0.20, "share", "matmuls of a run in FP8 over the same timed alone";
    BlockMatmul = "block_matmul", 0.92, 0.10, "share", "block-scaled FP8 over FP8 with one scale a tensor";
    Fp4Matmul = "fp4_matmul", 0.45, 0.25, "share of peak", "matmuls of a run in NVFP4";
    NarrowWidth = "narrow_width", 300.0, 0.7, "features", "width of the residual stream of one tensor rank at which matmuls run at half their rate";
    Attention = "attention", 0.75, 0.40, "share", "attention of a run, forward and backward, over the forward kernel alone";
    Passes = "passes", 30.0, 0.4, "passes", "readings and writings of a layer's activations by norms, activations, residuals and casts, forward and backward";
    LayerLaunch = "layer_launch", 600.0, 0.6, "µs", "time that launches add to a layer, forward and backward";
    TensorLink = "tensor_link", 0.60, 0.4, "share of link", "achieved share of the link in collectives over the tensor group, what hides them counted";
    PipelineLink = "pipeline_link", 0.60, 0.5, "share of link", "achieved share of the link in sends between stages";
    Bubble = "bubble", 1.0, 0.15, "factor", "waiting in the pipeline over that of a schedule without overheads";
    ContextLink = "context_link", 0.40, 0.6, "share of link", "achieved share of the link in exchanging keys and values";
    GatherLink = "gather_link", 0.45, 0.4, "share of link", "achieved share of the link in gathering weights and scattering gradients of shards";
    GatherExposed = "gather_exposed", 0.25, 0.7, "share", "share of that traffic that nothing hides";
    ExpertMatmul = "expert_matmul", 0.75, 0.4, "share", "grouped matmuls of experts over dense ones";
    NarrowExpert = "narrow_expert", 500.0, 0.8, "features", "width of an expert at which grouped matmuls run at half their rate";
    ExpertPasses = "expert_passes", 2.0, 0.5, "passes", "readings and writings of the copies of tokens that go to experts";
    ExpertCast = "expert_cast", 10.0, 0.6, "passes", "further bytes per element of these copies to cast them to FP8 or FP4 and transpose them";
    BiasedExpertPasses = "biased_expert_passes", 60.0, 0.6, "passes", "further passes over an expert's inner width where experts have biases, whose activation no kernel fuses";
    DispatchLink = "dispatch_link", 0.50, 0.5, "share of link", "achieved share of the scale-up link in sending tokens to experts and back";
    DispatchNetwork = "dispatch_network", 0.80, 0.5, "share of network", "achieved share of the network in the same";
    ExpertLaunch = "expert_launch", 4000.0, 0.6, "µs", "time that routing, counting and launching add to a layer of experts, forward and backward";
    RackLaunch = "rack_launch", 0.40, 0.5, "share", "share of that where graphs are captured: where the link spans a rack, and where experts take a fixed number of tokens";
    OptimizerRate = "optimizer_rate", 0.80, 0.2, "share of peak", "achieved share of memory bandwidth in the optimizer's step";
}

/// Values of the constants, by [`TrainingParameter`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingConstants {
    /// Natural logarithms, in the order of [`TRAINING_PARAMETERS`].
    pub logarithms: Vec<f64>,
}

impl Default for TrainingConstants {
    fn default() -> Self {
        Self {
            logarithms: TRAINING_PARAMETERS
                .iter()
                .map(|info| libm::log(info.prior))
                .collect(),
        }
    }
}

impl TrainingConstants {
    /// From a set of the catalogue; what it lacks keeps its prior.
    pub fn of(set: &ConstantSet) -> Self {
        let mut out = Self::default();
        for (logarithm, info) in out.logarithms.iter_mut().zip(TRAINING_PARAMETERS) {
            let value = set.values.iter().find(|(key, _)| key == info.key);
            if let Some((_, value)) = value
                && *value > 0.0
            {
                *logarithm = libm::log(*value);
            }
        }
        out
    }

    /// As a set of the catalogue.
    pub fn to_set(&self, name: &str, rows: u64, error: f64) -> ConstantSet {
        ConstantSet {
            name: name.to_string(),
            rows,
            error,
            values: TRAINING_PARAMETERS
                .iter()
                .zip(&self.logarithms)
                .map(|(info, logarithm)| (info.key.to_string(), libm::exp(*logarithm)))
                .collect(),
        }
    }

    /// The value of a constant.
    pub fn get(&self, parameter: TrainingParameter) -> f64 {
        self.logarithms
            .get(parameter as usize)
            .map_or(1.0, |logarithm| libm::exp(*logarithm))
    }
}
