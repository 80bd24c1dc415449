//! How long replicas take to get ready.

use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

/// Replicas that were wanted and are not ready yet, by when they were wanted, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Starts {
    open: VecDeque<u64>,
    wanted: u32,
    ready: u32,
}

impl Starts {
    /// So many are wanted now: those that are no longer are the last that were.
    pub(super) fn wanted(&mut self, at_ms: u64, replicas: u32) {
        let more = replicas.saturating_sub(self.wanted) as usize;
        self.open.extend(std::iter::repeat_n(at_ms, more));
        let fewer = self.wanted.saturating_sub(replicas) as usize;
        self.open.truncate(self.open.len().saturating_sub(fewer));
        self.wanted = replicas;
    }

    /// So many are ready now: how long the last of those took that got ready since, where one did.
    pub(super) fn ready(&mut self, at_ms: u64, ready: u32) -> Option<Nanoseconds> {
        let more = ready.saturating_sub(self.ready) as usize;
        self.ready = ready;
        let last = self.open.drain(..more.min(self.open.len())).next_back()?;
        Some(Nanoseconds(
            at_ms.saturating_sub(last).saturating_mul(1_000_000),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_lasts_from_when_it_was_wanted() {
        let mut starts = Starts::default();
        let seconds = |one: Option<Nanoseconds>| one.map(|one| one.0 / 1_000_000_000);
        starts.wanted(0, 2);
        starts.wanted(10_000, 4);
        assert_eq!(seconds(starts.ready(20_000, 0)), None);
        assert_eq!(seconds(starts.ready(60_000, 2)), Some(60));
        // One of the later two is wanted no longer.
        starts.wanted(65_000, 3);
        assert_eq!(seconds(starts.ready(90_000, 3)), Some(80));
        // One that failed comes back by itself: it was not wanted anew.
        assert_eq!(seconds(starts.ready(95_000, 2)), None);
        assert_eq!(seconds(starts.ready(99_000, 3)), None);
    }
}
