//! What is asked of services that follow demand, from when it comes: who waits is part of it.

use gpuwise_broker::LatencyTargets;
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What was asked of one service since this daemon began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) arrived: u64,
    pub(crate) waiting: u64,
    /// Requests that were judged, and those of them that were late: that waited too long or were given up, or whose
    /// tokens came too late.
    pub(crate) requests: u64,
    pub(crate) late: u64,
}

/// By the first lease of each service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand(Arc<Mutex<BTreeMap<u32, Asked>>>);

impl Demand {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come, which waits no longer than until `late`.
    pub(super) fn comes(
        &self,
        service: u32,
        late: Nanoseconds,
        targets: LatencyTargets,
    ) -> Waiting {
        let mut all = self.lock();
        let asked = all.entry(service).or_default();
        asked.arrived += 1;
        asked.waiting += 1;
        Waiting {
            demand: self.clone(),
            service,
            late,
            targets,
            since: Instant::now(),
            passed_on: false,
        }
    }

    pub(crate) fn of(&self, service: u32) -> Asked {
        self.lock().get(&service).copied().unwrap_or_default()
    }
}

/// A request that waits; one that is given up has waited too long.
#[derive(Debug)]
pub(super) struct Waiting {
    demand: Demand,
    service: u32,
    late: Nanoseconds,
    targets: LatencyTargets,
    since: Instant,
    passed_on: bool,
}

impl Waiting {
    /// It goes to a replica; what is returned judges it when it is dropped, or when it is over.
    pub(super) fn sent(mut self, now: Nanoseconds) -> Option<Judged> {
        self.passed_on = true;
        let judged = Judged {
            demand: self.demand.clone(),
            service: self.service,
            late: now > self.late,
            targets: self.targets,
            since: self.since,
            first: None,
        };
        // Where nothing else makes it late that is known now.
        (self.targets != LatencyTargets::default()).then_some(judged)
    }
}

/// A request that was sent on.
#[derive(Debug)]
pub(super) struct Judged {
    demand: Demand,
    service: u32,
    late: bool,
    targets: LatencyTargets,
    since: Instant,
    /// When its first token came.
    first: Option<Instant>,
}

impl Judged {
    pub(super) fn first(&mut self) {
        let now = Instant::now();
        self.first = Some(now);
        self.late |= beyond(self.targets.ttft, now - self.since);
    }

    /// It has ended, with so many tokens.
    pub(super) fn over(mut self, tokens: u64) {
        match self.first {
            Some(first) => {
                let each = u32::try_from(tokens.saturating_sub(1)).unwrap_or(u32::MAX);
                let spent = first.elapsed().checked_div(each);
                self.late |= spent.is_some_and(|spent| beyond(self.targets.tpot, spent));
            }
            // Who asked gave it up.
            None => self.late |= beyond(self.targets.ttft, self.since.elapsed()),
        }
    }
}

fn beyond(target: Option<Nanoseconds>, spent: Duration) -> bool {
    target.is_some_and(|target| spent > Duration::from_nanos(target.0))
}

impl Drop for Judged {
    fn drop(&mut self) {
        let mut all = self.demand.lock();
        let asked = all.entry(self.service).or_default();
        asked.requests += 1;
        asked.late += u64::from(self.late);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.demand.lock();
        let asked = all.entry(self.service).or_default();
        asked.waiting = asked.waiting.saturating_sub(1);
        if !self.passed_on {
            asked.requests += 1;
            asked.late += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Nanoseconds = Nanoseconds(3_600_000_000_000);
    const NOTHING: Nanoseconds = Nanoseconds(1);

    /// What is counted of one request: whether it is known at once, and whether it was late in the end.
    fn counted(ttft: Option<Nanoseconds>, tpot: Option<Nanoseconds>, waited: bool) -> (bool, u64) {
        let demand = Demand::default();
        let targets = LatencyTargets { ttft, tpot };
        let waiting = demand.comes(1, Nanoseconds(5), targets);
        assert_eq!((demand.of(1).waiting, demand.of(1).requests), (1, 0));
        let judged = waiting.sent(Nanoseconds(if waited { 6 } else { 5 }));
        let at_once = demand.of(1).requests == 1;
        if let Some(mut judged) = judged {
            judged.first();
            judged.over(1000);
        }
        let all = demand.of(1);
        assert_eq!((all.arrived, all.waiting, all.requests), (1, 0, 1));
        (at_once, all.late)
    }

    #[test]
    fn a_request_is_late_by_its_wait_or_by_its_tokens() {
        assert_eq!(counted(None, None, false), (true, 0));
        assert_eq!(counted(None, None, true), (true, 1));
        assert_eq!(counted(Some(HOUR), Some(HOUR), false), (false, 0));
        assert_eq!(counted(Some(HOUR), Some(HOUR), true), (false, 1));
        assert_eq!(counted(Some(NOTHING), None, false), (false, 1));
    }

    #[test]
    fn who_gives_up_while_it_waits_is_late() {
        let demand = Demand::default();
        drop(demand.comes(1, HOUR, LatencyTargets::default()));
        let all = demand.of(1);
        assert_eq!((all.waiting, all.requests, all.late), (0, 1, 1));
    }
}
