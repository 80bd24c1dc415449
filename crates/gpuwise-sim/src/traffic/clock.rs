//! Times of arrival, one after the other, along a rate that changes.

use super::{Arrivals, Rate, Shape, State, sample};
use gpuwise_units::{PerSecond, RandomStream};

/// Times beyond this, in seconds, are not reached: some 290 years.
const LAST_SECOND: f64 = 9e9;

/// A stretch of time along which the rate follows one curve.
#[derive(Debug, Clone, Copy)]
struct CostSegment {
    from: f64,
    to: f64,
    /// Seconds; infinite for the last.
    seconds: f64,
    shape: Shape,
    stage: u16,
}

impl CostSegment {
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
        // A ramp that rises by less is lost in rounding.
        (self.from - self.to).abs() <= 1e-12 * self.from
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
            Shape::Linear => f64::midpoint(self.from, self.to) * self.seconds,
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
    piece: Option<CostSegment>,
    /// Seconds at which the piece begins.
    start: f64,
    /// Requests expected of the piece in all, and up to the last arrival.
    mass: f64,
    used: f64,
    /// In an exact piece, requests still to come and what its gaps are stretched by.
    exact: Option<(u64, f64)>,
    gap: Option<f64>,
}

impl Clock {
    /// `entity` tells the streams of one source apart. `stationary`: observation begins at any time,
    /// not just after a request; only so are as many requests due in a given time as the rate says.
    pub(super) fn new(arrivals: Arrivals, stationary: bool, seed: u64, entity: u64) -> Self {
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
            gap: None,
        };
        clock.begin(0.0);
        if stationary && clock.exact.is_none() {
            clock.gap = Some(sample::first_gap(&mut clock.gaps, clock.arrivals.gaps));
        }
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

    fn next_piece(&mut self) -> Option<CostSegment> {
        let number = self.begun;
        self.begun += 1;
        match &self.arrivals.rate {
            Rate::Constant(rate) => {
                (number == 0).then(|| CostSegment::flat(*rate, f64::INFINITY, 0))
            }
            Rate::Stages(stages) => {
                let stage = stages.get(number)?;
                Some(CostSegment::flat(
                    stage.rate,
                    stage.duration.seconds().get(),
                    number,
                ))
            }
            Rate::Cycle(stages) => {
                let place = number % stages.len().max(1);
                let stage = stages.get(place)?;
                Some(CostSegment::flat(
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
                0 => Some(CostSegment {
                    from: from.get(),
                    to: to.get(),
                    seconds: over.seconds().get(),
                    shape: *shape,
                    stage: 0,
                }),
                1 if to.get() > 0.0 => Some(CostSegment::flat(*to, f64::INFINITY, 1)),
                _ => None,
            },
            Rate::Modulated(states) => {
                let place = next_state(states, number, &mut self.states)?;
                // What is remembered is the state, from 1.
                self.begun = place + 1;
                let state = states.get(place)?;
                let seconds = sample::exponential(&mut self.states) * state.dwell.seconds().get();
                Some(CostSegment::flat(state.rate, seconds, place))
            }
        }
    }

    /// Seconds of the next arrival and its stage; `None` at the end.
    pub(super) fn next(&mut self) -> Option<(f64, u16)> {
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
            let need = match self.gap.take() {
                Some(need) => need,
                None => sample::gap(&mut self.gaps, self.arrivals.gaps),
            };
            if self.used + need <= self.mass && self.mass > 0.0 {
                self.used += need;
                let at = self.start + piece.until(self.used);
                return (at < LAST_SECOND).then_some((at, piece.stage));
            }
            // The rest of the gap falls into the pieces that follow.
            self.gap = Some(need - (self.mass - self.used));
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
