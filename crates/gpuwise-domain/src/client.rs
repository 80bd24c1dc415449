//! Clients of a service, each with a rate, a burstiness and lengths of its own that change with
//! time; together they are the traffic.

use alloc::vec::Vec;
use gpuwise_units::{Nanoseconds, PerSecond};

/// The law of the gaps between requests, at any rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum GapLaw {
    Constant,
    #[default]
    Exponential,
    /// The smaller the shape, the burstier; 1 is exponential.
    Gamma {
        /// One over the squared coefficient of variation.
        shape: f64,
    },
    /// The smaller the shape, the burstier; 1 is exponential.
    Weibull {
        shape: f64,
    },
    /// The wider, the burstier.
    LogNormal {
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

impl GapLaw {
    /// The gamma law with this squared coefficient of variation: 0 gives equal gaps, 1 Poisson
    /// arrivals.
    pub fn of_variation(variation: f64) -> Self {
        if variation <= 1e-6 {
            Self::Constant
        } else if (variation - 1.0).abs() <= 1e-9 {
            Self::Exponential
        } else {
            Self::Gamma {
                shape: 1.0 / variation,
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// Its number where it was observed.
    pub number: u32,
    /// What it sends when, in order, not overlapping; between them it sends nothing.
    pub windows: Vec<ClientWindow>,
    /// How long its requests are from when on, in order; empty: unknown.
    pub lengths: Vec<ClientLengths>,
}

/// What a client sends for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientWindow {
    pub start: Nanoseconds,
    pub duration: Nanoseconds,
    /// Requests a second.
    pub rate: PerSecond,
    pub gaps: GapLaw,
}

/// Lengths of a client's requests from some time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientLengths {
    pub start: Nanoseconds,
    pub input: LengthFigures,
    pub output: LengthFigures,
}

/// Lengths as few figures tell them, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthFigures {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}
