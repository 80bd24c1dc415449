//! When requests come: a law of gaps at a rate that may change with time.
//!
//! Gaps are drawn at a rate of 1 and stretched by the rate as it goes: the k-th request comes when the
//! expected number of requests reaches the sum of the first k gaps. For exponential gaps that is the
//! Poisson process with this rate, exactly.

use super::TrafficError;
use gpuwise_domain::client::GapLaw;
use gpuwise_units::{Nanoseconds, PerSecond};

#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    pub gaps: GapLaw,
    pub rate: Rate,
    /// Whether every stage sends the number of requests that its rate and duration say, to the nearest
    /// one: its gaps are stretched so that the last ends with it. Otherwise that holds in the mean.
    pub exact: bool,
}

/// Requests a second over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    Constant(PerSecond),
    /// One after the other; the end of the last is the end.
    Stages(Vec<Stage>),
    /// From one rate to another, which then stays.
    Ramp {
        from: PerSecond,
        to: PerSecond,
        /// How long it takes.
        over: Nanoseconds,
        shape: Shape,
    },
    /// Over and over: rates by hour, say.
    Cycle(Vec<Stage>),
    /// Among states at random (a Markov-modulated process): a state lasts for an exponential time, and
    /// any other follows with equal probability.
    Modulated(Vec<State>),
}

/// A rate for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Requests a second.
    pub rate: PerSecond,
    pub duration: Nanoseconds,
}

/// A rate that holds for a time at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// Requests a second.
    pub rate: PerSecond,
    /// How long at a time, in the mean.
    pub dwell: Nanoseconds,
}

/// How a rate goes from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// By equal steps in equal times.
    Linear,
    /// By equal factors in equal times.
    Exponential,
}

impl Arrivals {
    pub const fn poisson(rate: PerSecond) -> Self {
        Self {
            gaps: GapLaw::Exponential,
            rate: Rate::Constant(rate),
            exact: false,
        }
    }

    pub const fn constant(rate: PerSecond) -> Self {
        Self {
            gaps: GapLaw::Constant,
            rate: Rate::Constant(rate),
            exact: false,
        }
    }

    /// Gamma-distributed gaps of this squared coefficient of variation (1 for Poisson), which is one
    /// over what load generators call burstiness.
    pub fn gamma(rate: PerSecond, variation: f64) -> Self {
        Self {
            gaps: GapLaw::of_variation(variation),
            rate: Rate::Constant(rate),
            exact: false,
        }
    }

    /// Whether all numbers can be.
    ///
    /// # Errors
    /// Names the number that cannot.
    pub fn check(&self) -> Result<(), TrafficError> {
        check_gaps(self.gaps)?;
        self.rate.check()
    }

    /// Requests a second in the mean: over all stages, of the last rate of a ramp.
    pub fn mean_rate(&self) -> PerSecond {
        let weighted = |pairs: &mut dyn Iterator<Item = (PerSecond, Nanoseconds)>| {
            let (sum, time) = pairs.fold((0.0, 0.0), |(sum, time), (rate, duration)| {
                let seconds = duration.seconds().get();
                (sum + rate.get() * seconds, time + seconds)
            });
            PerSecond::new(if time > 0.0 { sum / time } else { 0.0 })
        };
        match &self.rate {
            Rate::Constant(rate) => *rate,
            Rate::Ramp { to, .. } => *to,
            Rate::Stages(stages) | Rate::Cycle(stages) => {
                weighted(&mut stages.iter().map(|stage| (stage.rate, stage.duration)))
            }
            Rate::Modulated(states) => {
                weighted(&mut states.iter().map(|state| (state.rate, state.dwell)))
            }
        }
    }
}

pub(super) fn check_gaps(gaps: GapLaw) -> Result<(), TrafficError> {
    let expected = "a number from 0.001 to 1000000";
    match gaps {
        GapLaw::Constant | GapLaw::Exponential => Ok(()),
        GapLaw::Gamma { shape } => TrafficError::range(
            "the shape of the gamma law of gaps",
            shape,
            1e-3..=1e6,
            expected,
        ),
        GapLaw::Weibull { shape } => TrafficError::range(
            "the shape of the Weibull law of gaps",
            shape,
            0.1..=1e3,
            "a number from 0.1 to 1000",
        ),
        GapLaw::LogNormal { sigma } => TrafficError::range(
            "the width of the log-normal law of gaps",
            sigma,
            0.0..=4.0,
            "a number from 0 to 4",
        ),
    }
}

impl Rate {
    fn check(&self) -> Result<(), TrafficError> {
        let rate = |rate: PerSecond| {
            let expected = "requests a second from 0 to 10^9";
            TrafficError::range("a rate", rate.get(), 0.0..=1e9, expected)
        };
        let lasting = |time: Nanoseconds, what| {
            let expected = "a time from 1 ms to 100 years";
            TrafficError::range(what, time.seconds().get(), 1e-3..=3.2e9, expected)
        };
        let mut most = 0.0_f64;
        match self {
            Self::Constant(given) => {
                rate(*given)?;
                most = given.get();
            }
            Self::Stages(stages) | Self::Cycle(stages) => {
                for stage in stages {
                    rate(stage.rate)?;
                    lasting(stage.duration, "the duration of a stage")?;
                    most = most.max(stage.rate.get());
                }
            }
            Self::Ramp {
                from,
                to,
                over,
                shape,
            } => {
                rate(*from)?;
                rate(*to)?;
                lasting(*over, "the duration of the ramp")?;
                if *shape == Shape::Exponential {
                    let expected = "more than 0, as the ramp is exponential";
                    let least = from.get().min(to.get());
                    TrafficError::range("an end of the ramp", least, 1e-9..=1e9, expected)?;
                }
                most = from.get().max(to.get());
            }
            Self::Modulated(states) => {
                for state in states {
                    rate(state.rate)?;
                    lasting(state.dwell, "the mean time in a state")?;
                    most = most.max(state.rate.get());
                }
            }
        }
        if most > 0.0 {
            Ok(())
        } else {
            Err(TrafficError::NoRate)
        }
    }
}

/// Nanoseconds of a time in seconds.
pub(super) fn nanoseconds(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9 + 0.5) as u64)
}
