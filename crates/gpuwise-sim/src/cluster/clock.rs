//! The time of an engine that does not have its GPU for itself.
//!
//! It is driven by a time of its own, which passes more slowly while others have work.

/// Own time and the run's time at a moment, and how fast own time passes since. Picoseconds.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    run: u64,
    own: u64,
    /// Picoseconds of the run for each million of its own.
    slowness: u64,
    /// Moments before, since the last steps that were told, by own time.
    before: Vec<(u64, u64)>,
}

/// As slow as the run's time.
pub(super) const ALONE: u64 = 1_000_000;

impl Clock {
    pub(super) fn new(now: u64) -> Self {
        Self {
            run: now,
            own: now,
            slowness: ALONE,
            before: Vec::new(),
        }
    }

    /// From `now` on it is so slow.
    pub(super) fn slow(&mut self, now: u64, slowness: u64) {
        if slowness != self.slowness {
            let own = self.own(now);
            self.before.push((self.own, self.run));
            (self.run, self.own, self.slowness) = (now, own, slowness);
        }
    }

    /// Its own time at a time of the run that is not before the last change.
    pub(super) fn own(&self, time: u64) -> u64 {
        let since = u128::from(time.saturating_sub(self.run)) * u128::from(ALONE);
        self.own
            .saturating_add((since / u128::from(self.slowness)) as u64)
    }

    /// The run's time at an own time; the end of time stays so.
    pub(super) fn run(&self, own: u64) -> u64 {
        let passed = |own: u64, (own_then, run_then): (u64, u64), slowness: u64| {
            let since = u128::from(own - own_then) * u128::from(slowness);
            let since = u64::try_from(since.div_ceil(u128::from(ALONE))).unwrap_or(u64::MAX);
            run_then.saturating_add(since)
        };
        if own >= self.own {
            return passed(own, (self.own, self.run), self.slowness);
        }
        // Between two moments time passes evenly.
        let mut after = (self.own, self.run);
        for &moment in self.before.iter().rev() {
            if own >= moment.0 {
                let (length, span) = (after.0 - moment.0, after.1 - moment.1);
                let part =
                    u128::from(own - moment.0) * u128::from(span) / u128::from(length.max(1));
                return moment.1 + part as u64;
            }
            after = moment;
        }
        after.1.saturating_sub(after.0 - own)
    }

    /// Nothing before this own time is asked for again.
    pub(super) fn forget(&mut self, own: u64) {
        if self.before.is_empty() {
            return;
        }
        let later = self.before.partition_point(|(then, _)| *then <= own);
        self.before.drain(..later.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_passes_more_slowly_beside_others() {
        let mut clock = Clock::new(100);
        assert_eq!((clock.own(150), clock.run(150)), (150, 150));
        clock.slow(200, 2 * ALONE);
        assert_eq!((clock.own(300), clock.run(250)), (250, 300));
        clock.slow(301, 3 * ALONE);
        assert_eq!(clock.own(301), 250, "half a picosecond is not yet over");
        assert_eq!((clock.own(331), clock.run(260)), (260, 331));
        for (own, run) in [
            (100, 100),
            (150, 150),
            (200, 200),
            (225, 250),
            (250, 301),
            (251, 304),
        ] {
            assert_eq!(clock.run(own), run, "{own}");
        }
        clock.forget(230);
        assert_eq!(clock.run(240), 280);
        clock.slow(400, ALONE);
        assert_eq!(clock.own(500), clock.own(400) + 100);
    }

    #[test]
    fn what_is_next_is_never_passed() {
        let mut clock = Clock::new(0);
        clock.slow(7, 1_234_567);
        for own in 8..2_000 {
            let run = clock.run(own);
            assert!(clock.own(run) >= own && clock.own(run - 1) < own, "{own}");
        }
    }
}
