//! Idle time of a device, each nanosecond charged to one cause.

use super::{
    host::{Blocking, Host, Wait},
    ledger::{Cause, Ledger},
    replay::BETWEEN_NS,
    rule::{Rank, Thresholds},
    rules::{
        data_loading, dependency, first_use, host_bound, idle, pageable_copies, small_kernels,
        synchronisation,
    },
    work::Ordered,
};
use crate::figures::intervals::Intervals;
use gpuwise_domain::profile::timeline::{HostSpan, NameId, Timeline, Work, WorkClass};

/// Idle time under the profiler's own overhead: nobody's fault, and no finding.
pub(super) const OVERHEAD: Cause = Cause("profiler_overhead");

/// What is left of a gap after its call returned is the way to the device when it is no longer, or no longer
/// than usual in this trace.
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
        open: Vec::new(),
        owed_synchronisation: (0, None),
        owed_pageable: (0, None),
    };
    let mut end_of_last: Option<i64> = None;
    let mut next = 0;
    let mut previous: Option<&HostSpan> = None;
    for &(start, end) in ordered.busy.ranges() {
        let pieces = ordered.pieces.get(next..).unwrap_or_default();
        let skipped = pieces.partition_point(|piece| piece.0 < start);
        next += skipped;
        if let Some(piece) = ordered.pieces.get(next) {
            previous = before(timeline, ordered, next).or(previous);
            let work = timeline.work.get(piece.2 as usize);
            if let (Some(from), Some(work)) = (end_of_last, work) {
                walk.gap((from, start), (next, work), previous, ledger);
            }
        }
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
    /// Waiting calls that were under way when the gap began, or began in it.
    open: Vec<Blocking>,
    /// What waiting calls still owe: nanoseconds, and the last such call.
    owed_synchronisation: (i64, Option<NameId>),
    owed_pageable: (i64, Option<NameId>),
}

/// What of a gap is not charged yet; whatever is taken from it is taken once.
struct Left<'l, 'a> {
    ranges: Intervals,
    ledger: &'l mut Ledger<'a>,
}

impl Left<'_, '_> {
    /// Charges what is left within `of`. `gone` where the host's time goes with the cause.
    fn take(&mut self, cause: Cause, of: &Intervals, gone: bool, name: NameId) {
        let taken = self.ranges.intersection(of);
        if taken.is_empty() {
            return;
        }
        for &range in taken.ranges() {
            self.ledger.charge_idle(cause, range, gone, name);
        }
        self.ranges = self.ranges.without(&taken);
    }

    /// Charges the first `ns` of what is left, and says how much that was.
    fn take_first(&mut self, cause: Cause, ns: i64, name: NameId) -> i64 {
        let (mut first, mut sum) = (Intervals::default(), 0);
        for &(start, end) in self.ranges.ranges() {
            let part = (end - start).min(ns - sum);
            if part <= 0 {
                break;
            }
            first.extend(start, start + part);
            sum += part;
        }
        self.take(cause, &first, false, name);
        sum
    }

    fn take_all(&mut self, cause: Cause, name: NameId) {
        let all = std::mem::take(&mut self.ranges);
        for &range in all.ranges() {
            self.ledger.charge_idle(cause, range, true, name);
        }
    }
}

impl Walk<'_> {
    fn gap(
        &mut self,
        (start, end): (i64, i64),
        (place, next): (usize, &Work),
        previous: Option<&HostSpan>,
        ledger: &mut Ledger<'_>,
    ) {
        if end <= start {
            return;
        }
        self.remember(start, end);
        let call = self.timeline.call_of(next);
        let returned = call.map_or(end, |call| call.end_ns.clamp(start, end));
        let begun = call.map_or(end, |call| call.start_ns.clamp(start, end));
        let host = self.host;
        let mut left = Left {
            ranges: Intervals::union([(start, end)]),
            ledger,
        };
        let launched_by = call.map_or(end, |call| call.end_ns);
        let overhead = host.overhead.within(start, end);
        left.take(
            OVERHEAD,
            &overhead,
            true,
            host.overhead_name.unwrap_or(next.name),
        );
        left.take(
            data_loading::CAUSE,
            &host.loader.within(start, returned),
            true,
            host.loader_name.unwrap_or(next.name),
        );
        let waited = |why, all: &Intervals| {
            let within = all.within(start, returned);
            within.intersection(&self.returned_by(launched_by, why))
        };
        left.take(
            synchronisation::CAUSE,
            &waited(Wait::Synchronisation, &host.synchronisation),
            false,
            self.owed_synchronisation.1.unwrap_or(next.name),
        );
        left.take(
            pageable_copies::CAUSE,
            &waited(Wait::Pageable, &host.pageable),
            false,
            self.owed_pageable.1.unwrap_or(next.name),
        );
        let long = host.long_calls.within(start, returned);
        if !long.is_empty() {
            let name = host.long_call(start, returned).unwrap_or(next.name);
            left.take(first_use::CAUSE, &long, true, name);
        }
        let Some(call) = call else { return };
        let longest_way = self.limits.of(&dependency::LONGEST_WAY);
        let way = self.ordered.way_ns.max(KERNEL_WAIT_NS);
        if end - returned > way.min(longest_way as i64) {
            // Launched, and not begun for longer than the way takes: the host is not what it waits for.
            let launched = Intervals::union([(returned, end)]);
            if (end - returned) as f64 >= longest_way {
                left.take(dependency::CAUSE, &launched, false, self.operator(next));
            } else {
                left.ranges = left.ranges.without(&launched);
            }
        } else if (start - call.end_ns) as f64 >= longest_way {
            // It was queued before the device was free: what is between two such is the device's, and
            // goes where two small ones become one.
            if !self.paced(next, previous) {
                return;
            }
        }
        self.launching((start, begun), &mut left, (place, next), previous);
    }

    /// What is left of a gap: the host was not there yet, and launched at `gap.1`.
    fn launching(
        &mut self,
        gap: (i64, i64),
        left: &mut Left<'_, '_>,
        (place, next): (usize, &Work),
        previous: Option<&HostSpan>,
    ) {
        let operator = self.operator(next);
        if self.paced(next, previous) {
            left.take_all(small_kernels::CAUSE, operator);
            // Where two become one, what lies between any two goes as well.
            left.ledger
                .may_shorten(small_kernels::CAUSE, place, BETWEEN_NS);
            return;
        }
        if let Some((restarts, name)) = self.restarts(gap) {
            left.take(synchronisation::CAUSE, &restarts, true, name);
        }
        for (owed, cause) in [
            (&mut self.owed_synchronisation, synchronisation::CAUSE),
            (&mut self.owed_pageable, pageable_copies::CAUSE),
        ] {
            owed.0 -= left.take_first(cause, owed.0, owed.1.unwrap_or(operator));
        }
        left.take(
            idle::CAUSE,
            &self.host.rests.within(gap.0, gap.1),
            true,
            operator,
        );
        left.take_all(host_bound::CAUSE, operator);
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
    fn restarts(&self, gap: (i64, i64)) -> Option<(Intervals, NameId)> {
        let known = self.host.blocking.get(..self.next_blocking)?;
        let within = known.iter().rev().take_while(|call| call.start >= gap.0);
        // One more may have begun before the gap, and ended in it.
        let first = known.len().saturating_sub(within.count() + 1);
        let (mut ranges, mut until, mut name) = (Vec::new(), gap.1, None);
        for call in known.get(first..)?.iter().rev() {
            if call.why == Wait::Synchronisation && call.end > gap.0 {
                let from = call.end.min(until);
                let longest = self.limits.of(&synchronisation::RESTART) as i64;
                ranges.push((from, until.min(from.saturating_add(longest))));
                name = name.or(Some(call.name));
            }
            until = until.min(call.start);
        }
        name.map(|name| (Intervals::union(ranges), name))
    }

    /// When calls held the host that had returned by the time of a launch. One that outlasts the launch
    /// did not delay it: it was made by another thread, or before.
    fn returned_by(&self, launched: i64, why: Wait) -> Intervals {
        let calls = self.open.iter();
        let calls = calls.filter(|call| call.why == why && call.end <= launched);
        Intervals::union(calls.map(|call| (call.start, call.end)))
    }

    /// Takes up calls that began before `until`, and lets go of those that ended before `from`.
    fn remember(&mut self, from: i64, until: i64) {
        self.open.retain(|call| call.end > from);
        while let Some(call) = self.host.blocking.get(self.next_blocking) {
            if call.start >= until {
                break;
            }
            self.next_blocking += 1;
            if call.end > from {
                self.open.push(*call);
            }
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
