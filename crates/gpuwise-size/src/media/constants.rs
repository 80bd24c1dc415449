//! The constants of diffusion, vision and embedding models: few, physical, fitted, and kept in `catalogue/media.toml`.

use alloc::{string::String, vec::Vec};

macro_rules! parameters {
    ($($name:ident = $key:literal, $value:literal, $spread:literal, $generation:literal, $unit:literal, $meaning:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Parameter {
            $(#[doc = $meaning] $name),*
        }

        /// How many there are.
        pub const COUNT: usize = [$($key),*].len();

        /// Every constant, in order.
        pub const PARAMETERS: [ParameterInfo; COUNT] = [
            $(ParameterInfo {
                key: $key,
                default: $value,
                spread: $spread,
                generation_spread: $generation,
                unit: $unit,
                meaning: $meaning,
            }),*
        ];
    };
}

/// What a constant is, and how far data may move it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParameterInfo {
    /// Its name in `media.toml`.
    pub key: &'static str,
    /// Its value before any data.
    pub default: f64,
    /// Standard deviation of the prior on its logarithm (0: fixed).
    pub spread: f64,
    /// The same for a correction by generation of hardware (0: none).
    pub generation_spread: f64,
    pub unit: &'static str,
    pub meaning: &'static str,
}

parameters! {
    Matmul = "matmul_rate", 0.60, 0.4, 0.2, "share of peak", "achieved share of the 8-bit peak in large matmuls";
    Convolution = "convolution_rate", 0.50, 0.4, 0.2, "share of peak", "the same in convolutions of two dimensions";
    Convolution3d = "convolution_3d_rate", 0.40, 0.5, 0.2, "share of peak", "the same in convolutions of three dimensions";
    Depthwise = "depthwise_rate", 0.10, 0.7, 0.0, "share of peak", "the same in convolutions by channel or by small groups";
    Attention = "attention_rate", 0.40, 0.2, 0.0, "share of peak", "achieved share of the 16-bit peak in attention";
    Wide = "wide_rate", 1.15, 0.2, 0.0, "factor", "achieved share of the peak of 16 and 32 bits over that of 8 bits";
    Memory = "memory_rate", 0.85, 0.1, 0.0, "share of peak", "achieved share of peak memory bandwidth";
    Activation = "activation_share", 0.60, 0.5, 0.3, "share", "share of the activations between operations that reaches memory: the rest stays in caches or is fused away";
    Elementwise = "elementwise_share", 0.30, 0.7, 0.0, "share", "share of the traffic of norms, activation functions and residuals that fusion leaves, over that of other operations";
    Norm = "norm_share", 0.60, 0.5, 0.0, "share", "the same beside attention, where norms cannot be folded into products and are computed at 16 bits; of all their traffic";
    Lookup = "lookup_rate", 0.50, 0.5, 0.0, "share of peak", "achieved share of peak memory bandwidth in reading rows of tables";
    Power = "power_exponent", 0.40, 0.5, 0.0, "exponent", "how much less a board computes whose power limit is low for its 16-bit peak";
    Launch = "launch", 4.0, 0.3, 0.0, "µs", "time that one operation adds to a pass";
    Fill = "fill", 0.50, 0.7, 0.0, "tiles per unit", "tiles of 128 × 128 per compute unit that leave half of the units idle";
    Cache = "cache_rate", 0.60, 0.3, 0.0, "share of peak", "achieved share of peak memory bandwidth in reading a decoder's keys and values";
    Token = "token", 40.0, 1.0, 0.0, "µs", "host time per token and sequence of a decoder";
    Framework = "framework", 0.60, 0.4, 0.0, "factor", "speed under frameworks that do not compile the network over that under compilers";
    Exchange = "exchange_rate", 0.50, 0.0, 0.0, "share of link", "achieved share of the link's bandwidth in all-to-all of looked-up rows; not fitted: rows spread over links are none";
    Served = "served_share", 0.90, 0.2, 0.0, "share", "largest rate that benchmarks keep under their bounds on latency, over the rate of batches";
}

/// Where the rows' limit on power begins to bind: watts per 10¹² operations a second of the 16-bit
/// peak (boards with more are not slowed).
pub const FULL_POWER: f64 = 0.70;

/// Values of the constants, with corrections by generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    pub values: [f64; COUNT],
    /// Factors, by generation and parameter.
    pub by_generation: Vec<(String, [f64; COUNT])>,
    /// Factors around a figure within which 8 of 10 measured rows of an unseen GPU lie.
    pub range: (f64, f64),
    /// The same where the generation was in no row, or the kind of network in none.
    pub far_range: (f64, f64),
}

impl Default for Constants {
    /// The priors: what is taken before any data.
    fn default() -> Self {
        Self {
            values: PARAMETERS.map(|info| info.default),
            by_generation: Vec::new(),
            range: (0.6, 1.6),
            far_range: (0.4, 2.0),
        }
    }
}

impl Constants {
    pub fn get(&self, parameter: Parameter, generation: &str) -> f64 {
        let at = parameter as usize;
        let base = self.values.get(at).copied().unwrap_or(1.0);
        let factor = self
            .by_generation
            .iter()
            .find(|(name, _)| name == generation)
            .and_then(|(_, factors)| factors.get(at).copied());
        base * factor.unwrap_or(1.0)
    }

    /// Whether rows of this generation were fitted.
    pub fn knows(&self, generation: &str) -> bool {
        self.by_generation
            .iter()
            .any(|(name, _)| name == generation)
    }
}
