//! When requests come: a law of gaps at a rate that may change with time.
//!
//! Gaps are drawn at a rate of 1 and stretched by the rate as it goes: the k-th request comes when the
//! expected number of requests reaches the sum of the first k gaps. For exponential gaps that is the
//! Poisson process with this rate, exactly.

use super::{TrafficError, sample};
use gpuwise_domain::client::GapLaw;
use gpuwise_units::{Nanoseconds, PerSecond, RandomStream};

/// Times beyond this, in seconds, are not reached: some 290 years.
const LAST_SECOND: f64 = 9e9;

/// When requests come.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// How regular.
    pub gaps: GapLaw,
    /// How many.
    pub rate: Rate,
    /// Whether every stage sends the number of requests that its rate and duration say, to the nearest
    /// one: its gaps are stretched so that the last ends with it. Otherwise that holds in the mean.
    pub exact: bool,
}

/// Requests a second over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// The same forever.
    Constant(PerSecond),
    /// One after the other; the end of the last is the end.
    Stages(Vec<Stage>),
    /// From one rate to another, which then stays.
    Ramp {
        /// At the beginning.
        from: PerSecond,
        /// In the end.
        to: PerSecond,
        /// How long it takes.
        over: Nanoseconds,
        /// Along which curve.
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
    /// How long.
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
    /// Poisson arrivals.
    pub const fn poisson(rate: PerSecond) -> Self {
        Self {
            gaps: GapLaw::Exponential,
            rate: Rate::Constant(rate),
            exact: false,
        }
    }

    /// Equal gaps.
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

/// A stretch of time along which the rate follows one curve.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: f64,
    to: f64,
    /// Seconds; infinite for the last.
    seconds: f64,
    shape: Shape,
    stage: u16,
}

impl Piece {
    fn flat(rate: PerSecond, seconds: f64, stage: usize) -> Self {
        Self {
            from: rate.get(),
            to: rate.get(),
            seconds,
            shape: Shape::Linear,
            stage: u16::try_from(stage).unwrap_or(u16::MAX),
        }
    }

    fn is_flat(&self) -> bool {
        self.from == self.to
    }

    /// Requests expected along it.
    fn mass(&self) -> f64 {
        if self.is_flat() {
            return if self.from > 0.0 {
                self.from * self.seconds
            } else {
                0.0
            };
        }
        match self.shape {
            Shape::Linear => (self.from + self.to) / 2.0 * self.seconds,
            Shape::Exponential => (self.to - self.from) / self.growth(),
        }
    }

    /// Of an exponential ramp, the logarithm of its factor a second.
    fn growth(&self) -> f64 {
        libm::log(self.to / self.from) / self.seconds
    }

    /// Seconds after its beginning until so many requests are expected.
    fn until(&self, mass: f64) -> f64 {
        if self.is_flat() {
            return mass / self.from;
        }
        let seconds = match self.shape {
            Shape::Linear => {
                let slope = (self.to - self.from) / self.seconds;
                let root = libm::sqrt((self.from * self.from + 2.0 * slope * mass).max(0.0));
                2.0 * mass / (self.from + root)
            }
            Shape::Exponential => {
                let growth = self.growth();
                libm::log1p((mass * growth / self.from).max(-1.0)) / growth
            }
        };
        seconds.min(self.seconds)
    }
}

/// Times of arrival, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    arrivals: Arrivals,
    gaps: RandomStream,
    states: RandomStream,
    /// Pieces begun so far, or the state.
    begun: usize,
    piece: Option<Piece>,
    /// Seconds at which the piece begins.
    start: f64,
    /// Requests expected of the piece in all, and up to the last arrival.
    mass: f64,
    used: f64,
    /// In an exact piece, requests still to come and what its gaps are stretched by.
    exact: Option<(u64, f64)>,
}

impl Clock {
    /// `entity` tells the streams of one source apart.
    pub(super) fn new(arrivals: Arrivals, seed: u64, entity: u64) -> Self {
        let mut clock = Self {
            arrivals,
            gaps: RandomStream::new(seed, "traffic gaps", entity),
            states: RandomStream::new(seed, "traffic states", entity),
            begun: 0,
            piece: None,
            start: 0.0,
            mass: 0.0,
            used: 0.0,
            exact: None,
        };
        clock.begin(0.0);
        clock
    }

    /// Begins the next piece at a time.
    fn begin(&mut self, start: f64) {
        self.start = start;
        self.used = 0.0;
        self.exact = None;
        self.piece = if start < LAST_SECOND {
            self.next_piece()
        } else {
            None
        };
        self.mass = self.piece.map_or(0.0, |piece| piece.mass());
        if self.arrivals.exact && self.mass.is_finite() && self.mass > 0.0 {
            let count = libm::round(self.mass) as u64;
            // The same gaps are drawn again, one at a time.
            let mut ahead = self.gaps.clone();
            let sum: f64 = (0..count)
                .map(|_| sample::gap(&mut ahead, self.arrivals.gaps))
                .sum();
            self.exact = Some((count, if sum > 0.0 { self.mass / sum } else { 1.0 }));
        }
    }

    fn next_piece(&mut self) -> Option<Piece> {
        let number = self.begun;
        self.begun += 1;
        match &self.arrivals.rate {
            Rate::Constant(rate) => (number == 0).then(|| Piece::flat(*rate, f64::INFINITY, 0)),
            Rate::Stages(stages) => {
                let stage = stages.get(number)?;
                Some(Piece::flat(
                    stage.rate,
                    stage.duration.seconds().get(),
                    number,
                ))
            }
            Rate::Cycle(stages) => {
                let place = number % stages.len().max(1);
                let stage = stages.get(place)?;
                Some(Piece::flat(
                    stage.rate,
                    stage.duration.seconds().get(),
                    place,
                ))
            }
            Rate::Ramp {
                from,
                to,
                over,
                shape,
            } => match number {
                0 => Some(Piece {
                    from: from.get(),
                    to: to.get(),
                    seconds: over.seconds().get(),
                    shape: *shape,
                    stage: 0,
                }),
                1 if to.get() > 0.0 => Some(Piece::flat(*to, f64::INFINITY, 1)),
                _ => None,
            },
            Rate::Modulated(states) => {
                let place = next_state(states, number, &mut self.states)?;
                // What is remembered is the state, from 1.
                self.begun = place + 1;
                let state = states.get(place)?;
                let seconds = sample::exponential(&mut self.states) * state.dwell.seconds().get();
                Some(Piece::flat(state.rate, seconds, place))
            }
        }
    }

    /// Seconds of the next arrival and its stage; `None` at the end.
    pub(super) fn next(&mut self) -> Option<(f64, u16)> {
        let mut gap = None;
        loop {
            let piece = self.piece?;
            let end = self.start + piece.seconds;
            if let Some((count, stretch)) = self.exact {
                let Some(left) = count.checked_sub(1) else {
                    self.begin(end);
                    continue;
                };
                self.exact = Some((left, stretch));
                self.used += sample::gap(&mut self.gaps, self.arrivals.gaps) * stretch;
                let at = piece.until(self.used.min(self.mass));
                return Some((self.start + at, piece.stage));
            }
            let need = match gap {
                Some(need) => need,
                None => sample::gap(&mut self.gaps, self.arrivals.gaps),
            };
            if self.used + need <= self.mass && self.mass > 0.0 {
                self.used += need;
                let at = self.start + piece.until(self.used);
                return (at < LAST_SECOND).then_some((at, piece.stage));
            }
            // The rest of the gap falls into the pieces that follow.
            gap = Some(need - (self.mass - self.used));
            if end >= LAST_SECOND {
                self.piece = None;
            } else {
                self.begin(end);
            }
        }
    }
}

/// The first state by how long each lasts, any other after one; `before` is from 1.
fn next_state(states: &[State], before: usize, stream: &mut RandomStream) -> Option<usize> {
    let count = states.len();
    if count <= 1 {
        return (count == 1).then_some(0);
    }
    let Some(now) = before.checked_sub(1) else {
        let all: f64 = states.iter().map(|state| state.dwell.0 as f64).sum();
        let mut point = stream.uniform() * all;
        return states
            .iter()
            .position(|state| {
                point -= state.dwell.0 as f64;
                point < 0.0
            })
            .or(Some(count - 1));
    };
    let other = stream.below(count as u64 - 1) as usize;
    Some(if other >= now { other + 1 } else { other })
}

/// Nanoseconds of a time in seconds.
pub(super) fn nanoseconds(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9 + 0.5) as u64)
}
