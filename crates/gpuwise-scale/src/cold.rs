//! How long a replica takes until it serves, from each state that it may be in.
//!
//! A start goes through stages, each with a duration that varies: a node, an image, weights, an engine, graphs. What
//! is there already is left out. Before anything was seen, stages are as published; what is observed of a start as a
//! whole then moves it, the more the more was seen.

use gpuwise_units::{Bytes, Nanoseconds};
use serde::{Deserialize, Serialize};

/// What is there of a replica, from cold to hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Nothing,
    /// The node is up.
    NodeUp,
    /// The image is on it too.
    ImageThere,
    /// Weights lie in its memory.
    HostMemory,
    /// The engine is up, its weights in host memory (sleep, level 1).
    Asleep,
    Hot,
}

pub const STATES: [State; 6] = [
    State::Nothing,
    State::NodeUp,
    State::ImageThere,
    State::HostMemory,
    State::Asleep,
    State::Hot,
];

impl State {
    /// The state of a name, however it is written: `node_up` is `node up`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace(['_', '-'], " ");
        STATES.into_iter().find(|state| state.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::NodeUp => "node up",
            Self::ImageThere => "image there",
            Self::HostMemory => "weights in host memory",
            Self::Asleep => "asleep",
            Self::Hot => "hot",
        }
    }
}

/// Standard normal quantiles.
const Z50: f64 = 0.0;
const Z90: f64 = 1.281_551_565_544_600_4;
const Z99: f64 = 2.326_347_874_040_841;

/// A level at which a duration is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Median,
    P90,
    P99,
}

impl Level {
    const fn deviations(self) -> f64 {
        match self {
            Self::Median => Z50,
            Self::P90 => Z90,
            Self::P99 => Z99,
        }
    }
}

/// A stage: its median in seconds, and what it is at most in nine of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stage {
    median: f64,
    p90: f64,
}

/// llm-d issue 1071 and vLLM issue 41893: a node in 2–5 minutes, an image in about 5, an engine in about 2.
const NODE: Stage = Stage {
    median: 190.0,
    p90: 300.0,
};
const IMAGE: Stage = Stage {
    median: 200.0,
    p90: 320.0,
};
const ENGINE: Stage = Stage {
    median: 75.0,
    p90: 120.0,
};
/// Waking beside moving the weights, and how much slower than the bus that was: vLLM issue 48337, 16 GB of an 8B
/// model awake in 2.2 s.
const WAKE: Stage = Stage {
    median: 0.4,
    p90: 0.8,
};
const SPREAD_OF_BYTES: f64 = 1.6;

/// How weights reach a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Bytes a second from where weights are stored, and from host memory to the GPUs of a replica.
    pub stored: f64,
    pub host: f64,
}

impl Default for Machine {
    /// A volume at 1 GB/s, and what waking by the bus reached: 9 GB/s (vLLM issue 48337).
    fn default() -> Self {
        Self {
            stored: 1e9,
            host: 9e9,
        }
    }
}

/// A duration, log-normal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ColdStart {
    /// Mean and variance of the logarithm of its seconds.
    mean: f64,
    variance: f64,
    /// How many observations what is known counts as.
    weight: f64,
    observed: u64,
}

/// What a prior counts as, and the most that a past counts as: later starts are more like the next one.
const PRIOR: f64 = 4.0;
const MOST: f64 = 8.0;

impl ColdStart {
    /// Before anything was observed: the sum of the stages that a state lacks.
    pub fn prior(weights: Bytes, state: State, machine: &Machine) -> Self {
        let bytes = weights.as_f64();
        let moved = |rate: f64| Stage {
            median: bytes / rate,
            p90: bytes / rate * SPREAD_OF_BYTES,
        };
        let stages: &[Stage] = &match state {
            State::Nothing => vec![NODE, IMAGE, moved(machine.stored), ENGINE],
            State::NodeUp => vec![IMAGE, moved(machine.stored), ENGINE],
            State::ImageThere => vec![moved(machine.stored), ENGINE],
            State::HostMemory => vec![moved(machine.host), ENGINE],
            State::Asleep => vec![moved(machine.host), WAKE],
            State::Hot => Vec::new(),
        };
        Self::sum(stages)
    }

    /// A sum of independent log-normal stages as one of the same mean and variance (Fenton, 1960).
    fn sum(stages: &[Stage]) -> Self {
        let (mean, variance) = stages.iter().fold((0.0, 0.0), |(mean, variance), stage| {
            let sigma = libm::log(stage.p90 / stage.median) / Z90;
            let of = stage.median * libm::exp(sigma * sigma / 2.0);
            (mean + of, variance + of * of * libm::expm1(sigma * sigma))
        });
        if mean <= 0.0 {
            return Self {
                mean: f64::NEG_INFINITY,
                variance: 0.0,
                weight: PRIOR,
                observed: 0,
            };
        }
        let log_variance = libm::log1p(variance / (mean * mean));
        Self {
            mean: libm::log(mean) - log_variance / 2.0,
            variance: log_variance,
            weight: PRIOR,
            observed: 0,
        }
    }

    /// What is known beforehand: a duration that nine of ten starts keep.
    pub fn of_p90(p90: Nanoseconds) -> Self {
        let seconds = p90.seconds().get().max(1e-9);
        Self::sum(&[Stage {
            median: seconds / SPREAD_OF_BYTES,
            p90: seconds,
        }])
    }

    /// A start took so long.
    pub fn learn(&mut self, took: Nanoseconds) {
        if took.0 == 0 {
            return;
        }
        let seen = libm::log(took.seconds().get());
        let off = if self.mean.is_finite() {
            seen - self.mean
        } else {
            0.0
        };
        let weight = self.weight + 1.0;
        self.mean = if self.mean.is_finite() {
            self.mean + off / weight
        } else {
            seen
        };
        self.variance = (self.weight * self.variance + off * off * self.weight / weight) / weight;
        self.weight = weight.min(MOST);
        self.observed += 1;
    }

    /// Starts that were observed.
    pub const fn observed(&self) -> u64 {
        self.observed
    }

    /// How long it takes, at a level.
    pub fn at(&self, level: Level) -> Nanoseconds {
        let seconds = libm::exp(self.mean + level.deviations() * libm::sqrt(self.variance));
        Nanoseconds((seconds * 1e9) as u64)
    }
}
