//! As many replicas as what comes needs.

use gpuwise_scale::controller::{Because, Controller, Decision, Doubt, IMPLAUSIBLE, Observed};
use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

/// As many replicas as what comes needs; fewer once fewer have been enough for a while.
pub(super) struct Follows {
    period: Nanoseconds,
    rate: f64,
    hold: Nanoseconds,
    lately: VecDeque<(Nanoseconds, u32, f64)>,
    doubt: Doubt,
    /// When it was last asked.
    asked: Option<Nanoseconds>,
}

impl Follows {
    pub(super) const fn new(period: Nanoseconds, rate: f64, hold: Nanoseconds) -> Self {
        Self {
            period,
            rate,
            hold,
            lately: VecDeque::new(),
            doubt: Doubt::new(),
            asked: None,
        }
    }
}

impl Controller for Follows {
    fn period(&self) -> Nanoseconds {
        self.period
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        // What was read is a rate: over the time since the last decision, as it was made a number of requests.
        let last = self.asked.replace(seen.now);
        let spent = last.map_or(self.period, |at| {
            Nanoseconds(seen.now.0.saturating_sub(at.0))
        });
        let Some(arrived) = seen.arrived.filter(|_| spent.0 > 0) else {
            return Decision {
                because: Because::NoMetrics,
                ..Decision::replicas(seen.ready + seen.starting)
            };
        };
        let rate = arrived / spent.seconds().get();
        let there = f64::from((seen.ready + seen.starting).max(1)) * self.rate;
        // Of a service that is new nothing is known yet.
        let known = self.lately.back().map(|(.., rate)| *rate);
        let known = known.map_or(IMPLAUSIBLE * self.rate, |rate| rate.max(there));
        if self.doubt.holds(rate, known.max(there)) {
            return Decision {
                because: Because::Implausible,
                ..Decision::replicas((seen.ready + seen.starting).max(1))
            };
        }
        let needed = (rate / self.rate - 1e-9).ceil().max(0.0) as u32;
        self.lately.push_back((seen.now, needed, rate));
        while let Some((at, ..)) = self.lately.front()
            && at.0.saturating_add(self.hold.0) < seen.now.0
        {
            self.lately.pop_front();
        }
        let highest = self.lately.iter().map(|(_, needed, _)| *needed).max();
        let highest = highest.unwrap_or(needed);
        Decision {
            because: if highest > needed {
                Because::Hold
            } else {
                Because::Demand
            },
            demand: rate,
            ..Decision::replicas(highest)
        }
    }
}
