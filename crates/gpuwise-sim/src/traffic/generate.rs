//! Traffic by the laws of its arrivals and lengths.

use super::{
    Arrivals, Lengths, Pacing, PrefixPool, Source, TrafficError, arrivals::nanoseconds,
    clock::Clock, lengths::Drawn, prefix::Shared,
};
use gpuwise_domain::{
    request::Request,
    workload::{Traffic, Workload},
};
use gpuwise_units::Nanoseconds;

/// How much traffic; what is met first ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    pub requests: Option<u64>,
    /// Time; nothing is due at or after it.
    pub duration: Option<Nanoseconds>,
}

impl Extent {
    pub const fn requests(count: u64) -> Self {
        Self {
            requests: Some(count),
            duration: None,
        }
    }

    /// All that is due before.
    pub const fn lasting(duration: Nanoseconds) -> Self {
        Self {
            requests: None,
            duration: Some(duration),
        }
    }
}

/// The laws of traffic without sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// When requests come; `None`: whenever one ends, with `in_flight` of them.
    pub arrivals: Option<Arrivals>,
    /// Concurrent requests: kept at this number without arrivals, held to it at most with them.
    pub in_flight: Option<u32>,
    pub lengths: Lengths,
    pub prefix: Option<PrefixPool>,
}

impl Pattern {
    /// Arrivals and lengths, nothing shared.
    pub const fn open(arrivals: Arrivals, lengths: Lengths) -> Self {
        Self {
            arrivals: Some(arrivals),
            in_flight: None,
            lengths,
            prefix: None,
        }
    }

    /// So many in flight, nothing shared.
    pub const fn closed(in_flight: u32, lengths: Lengths) -> Self {
        Self {
            arrivals: None,
            in_flight: Some(in_flight),
            lengths,
            prefix: None,
        }
    }
}

/// Requests one after the other by the laws of a [`Pattern`].
#[derive(Debug, Clone)]
pub struct Generator {
    clock: Option<Clock>,
    pacing: Pacing,
    lengths: Drawn,
    prefix: Option<Shared>,
    left: Option<u64>,
    until: Option<u64>,
}

impl Generator {
    /// The traffic of a seed. Without an extent it may have no end: a closed loop's driver stops by
    /// itself.
    ///
    /// # Errors
    /// When a number cannot be, or nothing would ever be sent.
    pub fn new(pattern: &Pattern, extent: Extent, seed: u64) -> Result<Self, TrafficError> {
        pattern.lengths.check()?;
        let pacing = match (&pattern.arrivals, pattern.in_flight) {
            (_, Some(0)) => {
                return Err(TrafficError::Number {
                    what: "the number of concurrent requests",
                    value: 0.0,
                    expected: "at least 1",
                });
            }
            (None, None) => return Err(TrafficError::NoRate),
            (None, Some(count)) => Pacing::InFlight(count),
            (Some(arrivals), cap) => {
                arrivals.check()?;
                Pacing::Scheduled { cap }
            }
        };
        let clock = pattern
            .arrivals
            .clone()
            .map(|arrivals| Clock::new(arrivals, extent.duration.is_some(), seed, 0));
        Ok(Self {
            clock,
            pacing,
            lengths: Drawn::new(pattern.lengths.clone(), seed, 0),
            prefix: pattern
                .prefix
                .map(|pool| Shared::new(pool, &pattern.lengths, seed, 0)),
            left: extent.requests,
            until: extent.duration.map(|duration| duration.0),
        })
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let mut request = Request::default();
        if let Some(clock) = &mut self.clock {
            let next = clock.next().map(|(at, stage)| (nanoseconds(at), stage));
            let Some((due, stage)) =
                next.filter(|(due, _)| self.until.is_none_or(|end| due.0 < end))
            else {
                self.left = Some(0);
                return None;
            };
            request.due = due;
            request.stage = stage;
        }
        (request.input, request.output) = self.lengths.draw();
        if let Some(prefix) = &mut self.prefix {
            prefix.share(&mut request);
        }
        Some(request)
    }
}

impl Source for Generator {
    fn remaining(&self) -> Option<u64> {
        // A duration may end it sooner.
        if self.until.is_some() && self.clock.is_some() {
            return self.left.filter(|left| *left == 0);
        }
        self.left
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }
}

/// The traffic that a workload tells of: gamma-distributed gaps of its burstiness, log-normal lengths, a
/// [`PrefixPool`] for its share of cached tokens.
///
/// # Errors
/// When a number cannot be, nothing would ever be sent, or open traffic has no end.
pub fn from_workload(
    workload: &Workload,
    extent: Extent,
    seed: u64,
) -> Result<Generator, TrafficError> {
    let lengths = Lengths::of(&workload.lengths)?;
    let prefix = PrefixPool::new(workload.prefix_hit, &lengths)?;
    let (arrivals, in_flight) = match workload.traffic {
        Traffic::Open { rate, burstiness } => {
            if extent == Extent::default() {
                return Err(TrafficError::Endless);
            }
            (Some(Arrivals::gamma(rate, burstiness)), None)
        }
        Traffic::Closed { concurrency } => {
            (None, Some(u32::try_from(concurrency).unwrap_or(u32::MAX)))
        }
    };
    let pattern = Pattern {
        arrivals,
        in_flight,
        lengths,
        prefix: (prefix.share > 0.0).then_some(prefix),
    };
    Generator::new(&pattern, extent, seed)
}
