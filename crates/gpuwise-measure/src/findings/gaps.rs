//! Idle time of a device, each nanosecond charged to one cause.

use super::{
    host::{Host, Wait},
    ledger::Ledger,
    rule::{Rank, Thresholds},
    rules::{
        data_loading, first_use, host_bound, idle, pageable_copies, small_kernels, synchronisation,
    },
    work::Ordered,
};
use gpuwise_domain::profile::timeline::{HostSpan, NameId, Timeline, Work, WorkClass};

/// What is left of a gap after its call returned is the way to the device when it is no longer.
const KERNEL_WAIT_NS: i64 = 10_000;

/// Charges every gap. A call that waited for the device held the host back by as long as the device
/// was busy meanwhile; so much of the gaps that follow is its doing.
pub(super) fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let &Rank {
        timeline,
        ordered,
        host,
        limits,
        ..
    } = rank;
    let mut walk = Walk {
        timeline,
        ordered,
        host,
        limits,
        next_blocking: 0,
        owed_synchronisation: (0, None),
        owed_pageable: (0, None),
    };
    let mut end_of_last: Option<i64> = None;
    let mut next = 0;
    let mut previous: Option<&HostSpan> = None;
    for &(start, end) in ordered.busy.ranges() {
        let pieces = ordered.pieces.get(next..).unwrap_or_default();
        let skipped = pieces.partition_point(|piece| piece.0 < start);
        if let Some(piece) = next.checked_add(skipped).and_then(|at| {
            previous = before(timeline, ordered, at).or(previous);
            ordered.pieces.get(at)
        }) {
            let work = timeline.work.get(piece.2 as usize);
            if let (Some(from), Some(work)) = (end_of_last, work) {
                walk.gap(from, start, work, previous, ledger);
            }
        }
        next += skipped;
        end_of_last = Some(end_of_last.map_or(end, |last| last.max(end)));
    }
}

/// The call that launched the piece before this one.
fn before<'a>(timeline: &'a Timeline, ordered: &Ordered, at: usize) -> Option<&'a HostSpan> {
    let piece = ordered.pieces.get(at.checked_sub(1)?)?;
    timeline.call_of(timeline.work.get(piece.2 as usize)?)
}

struct Walk<'a> {
    timeline: &'a Timeline,
    ordered: &'a Ordered,
    host: &'a Host,
    limits: &'a Thresholds,
    next_blocking: usize,
    /// What waiting calls still owe: nanoseconds, and the last such call.
    owed_synchronisation: (i64, Option<NameId>),
    owed_pageable: (i64, Option<NameId>),
}

impl Walk<'_> {
    fn gap(
        &mut self,
        start: i64,
        end: i64,
        next: &Work,
        previous: Option<&HostSpan>,
        ledger: &mut Ledger<'_>,
    ) {
        if end <= start {
            return;
        }
        self.remember(end);
        let call = self.timeline.call_of(next);
        let returned = call.map_or(end, |call| call.end_ns.clamp(start, end));
        let begun = call.map_or(end, |call| call.start_ns.clamp(start, end));
        let host = self.host;
        let mut left = end - start;
        let mut take = |cause, ns: i64, name| {
            let ns = ns.min(left);
            ledger.charge(cause, start, end, ns, name);
            left -= ns;
        };
        let loader = host.loader.overlap_range(start, returned);
        take(
            data_loading::CAUSE,
            loader,
            host.loader_name.unwrap_or(next.name),
        );
        let waiting = host.synchronisation.overlap_range(start, end);
        let waited = self.owed_synchronisation.1.unwrap_or(next.name);
        take(synchronisation::CAUSE, waiting, waited);
        let copying = host.pageable.overlap_range(start, end);
        take(
            pageable_copies::CAUSE,
            copying,
            self.owed_pageable.1.unwrap_or(next.name),
        );
        let long = host.long_calls.overlap_range(start, returned);
        if long > 0 {
            let name = host.long_call(start, returned).unwrap_or(next.name);
            take(first_use::CAUSE, long, name);
        }
        let rest = end - returned;
        let other = if rest > KERNEL_WAIT_NS { rest } else { 0 };
        let left = (left - other).max(0);
        if call.is_some() {
            let resting = host.rests.overlap_range(start, begun);
            self.launching((start, end), (left, resting), next, previous, ledger);
        }
    }

    /// What is left of a gap: the host was not there yet. `left` is how much, and how much of it the
    /// host rested.
    fn launching(
        &mut self,
        gap: (i64, i64),
        (left, resting): (i64, i64),
        next: &Work,
        previous: Option<&HostSpan>,
        ledger: &mut Ledger<'_>,
    ) {
        let operator = self.operator(next);
        let mut left = left;
        let mut take = |cause, ns: i64, name| {
            let ns = ns.clamp(0, left);
            ledger.charge(cause, gap.0, gap.1, ns, name);
            left -= ns;
            ns
        };
        if self.paced(next, previous) {
            take(small_kernels::CAUSE, i64::MAX, operator);
            // At this pace the kernel lasts no longer than its launch: what it takes goes with it.
            let kernel = next.end_ns - next.start_ns;
            ledger.charge(small_kernels::CAUSE, gap.0, gap.1, kernel, operator);
            return;
        }
        if let Some((ns, name)) = self.restart(gap, next) {
            take(synchronisation::CAUSE, ns, name);
        }
        for (owed, cause) in [
            (&mut self.owed_synchronisation, synchronisation::CAUSE),
            (&mut self.owed_pageable, pageable_copies::CAUSE),
        ] {
            owed.0 -= take(cause, owed.0, owed.1.unwrap_or(operator));
        }
        take(idle::CAUSE, resting, operator);
        take(host_bound::CAUSE, i64::MAX, operator);
    }

    /// Whether the next piece is a small kernel that follows the one before as fast as the host can
    /// launch.
    fn paced(&self, next: &Work, previous: Option<&HostSpan>) -> bool {
        let small = next.class == WorkClass::Kernel
            && ((next.end_ns - next.start_ns) as f64) < self.limits.of(&small_kernels::SMALL);
        small
            && self.timeline.call_of(next).zip(previous).is_some_and(
                |(call, previous): (&HostSpan, &HostSpan)| {
                    // Kernels of one graph have one launch.
                    let interval = call.start_ns - previous.start_ns;
                    interval > 0 && interval as f64 <= self.limits.of(&small_kernels::PACE)
                },
            )
    }

    /// Time from waiting calls that returned within a gap to what the host did next, another such call
    /// or the launch: what it needs to start anew, not more than `restart_ns` each.
    fn restart(&self, gap: (i64, i64), next: &Work) -> Option<(i64, NameId)> {
        let launched = self.timeline.call_of(next)?.start_ns.min(gap.1);
        let known = self.host.blocking.get(..self.next_blocking)?;
        let within = known.iter().rev().take_while(|call| call.start >= gap.0);
        // One more may have begun before the gap, and ended in it.
        let first = known.len().saturating_sub(within.count() + 1);
        let (mut sum, mut until, mut name) = (0, launched, None);
        for call in known.get(first..)?.iter().rev() {
            if call.why == Wait::Synchronisation && call.end > gap.0 {
                let ns = until - call.end.min(until);
                sum += ns.min(self.limits.of(&synchronisation::RESTART) as i64);
                name = name.or(Some(call.name));
            }
            until = until.min(call.start);
        }
        name.filter(|_| sum > 0).map(|name| (sum, name))
    }

    /// Takes up calls that began before `until`.
    fn remember(&mut self, until: i64) {
        while let Some(call) = self.host.blocking.get(self.next_blocking) {
            if call.start >= until {
                break;
            }
            self.next_blocking += 1;
            let ordered = self.ordered;
            let busy = ordered.busy.overlap_range(call.start, call.end)
                - ordered
                    .only_communicating
                    .overlap_range(call.start, call.end);
            let owed = match call.why {
                Wait::Synchronisation => &mut self.owed_synchronisation,
                Wait::Pageable => &mut self.owed_pageable,
            };
            owed.0 = owed.0.saturating_add(busy);
            owed.1 = Some(call.name);
        }
    }

    /// The operator that the next work belongs to, or else the work itself.
    fn operator(&self, next: &Work) -> NameId {
        self.timeline
            .operator_of(next)
            .map_or(next.name, |operator| operator.name)
    }
}
