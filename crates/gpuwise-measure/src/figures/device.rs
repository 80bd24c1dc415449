//! Figures of one device, or of all devices of a file taken together.

use super::{
    Settings, classes, host::HostTimes, idle, intervals::Intervals, kernels, ordered::Ordered,
};
use gpuwise_domain::profile::{
    figures::{Concurrency, DeviceFigures, Window},
    timeline::{Timeline, WorkClass},
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Work shorter than this counts as under 1 µs.
const MICROSECOND_NS: i64 = 1_000;

/// Figures of the work of `ordered`.
pub(super) fn figures(
    timeline: &Timeline,
    ordered: &Ordered,
    host: &HostTimes,
    settings: &Settings<'_>,
) -> (DeviceFigures, Times) {
    let pieces = &ordered.pieces;
    let mut busy = Intervals::default();
    for piece in pieces {
        busy.extend(piece.start, piece.end);
    }
    let busy_ns = busy.length();
    let hull = busy
        .hull()
        .map(|(start_ns, end_ns)| Window { start_ns, end_ns });
    let window = ordered.asked.or(hull);
    let class = |piece: &super::ordered::Piece| {
        piece
            .work(timeline)
            .map_or(WorkClass::Kernel, |work| work.class)
    };
    let (wide, unions) =
        classes::figures(pieces, busy_ns, class, |piece| piece.traits.communication);
    let (nccl, _) = classes::figures(pieces, busy_ns, class, |piece| {
        piece.traits.communication_nccl
    });
    let kernels = kernels::figures(timeline, pieces, settings.names);
    let below = |limit: i64| pieces.iter().filter(|p| p.duration() < limit).count() as u64;
    let (idle, host_waits) = window.map_or_else(Default::default, |window| {
        idle::split(timeline, pieces, &busy, window, host)
    });
    let figures = DeviceFigures {
        device: None,
        name: None,
        work_count: pieces.len() as u64,
        stream_count: streams(timeline, ordered),
        window,
        busy_ns,
        idle_ns: window.map_or(0, Window::length) - busy_ns,
        idle,
        classes: wide,
        classes_nccl: nccl,
        below_1us: below(MICROSECOND_NS),
        below_10us: below(10 * MICROSECOND_NS),
        kernel_time_ns: wide
            .communication_sum_ns
            .saturating_add(wide.computation_sum_ns),
        kernels: kernels.names,
        kinds: kernels.kinds,
        tensor_cores: kernels.tensor_cores,
        copies: kernels.copies,
        occupancy_percent: kernels.occupancy,
        sm_efficiency_percent: kernels.sm_efficiency,
        concurrency: concurrency(ordered, busy_ns),
    };
    let exposed_communication = unions.communication.without(&unions.computation);
    let times = Times {
        busy,
        exposed_communication,
        host_waits,
    };
    (figures, times)
}

/// Every gap of the work of `ordered`.
pub(super) fn gaps(
    timeline: &Timeline,
    ordered: &Ordered,
    host: &HostTimes,
) -> Vec<gpuwise_domain::profile::figures::Gap> {
    let mut busy = Intervals::default();
    for piece in &ordered.pieces {
        busy.extend(piece.start, piece.end);
    }
    let hull = busy
        .hull()
        .map(|(start_ns, end_ns)| Window { start_ns, end_ns });
    ordered.asked.or(hull).map_or_else(Vec::new, |window| {
        idle::every(timeline, &ordered.pieces, &busy, window, host)
    })
}

/// When a device was what.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub(super) busy: Intervals,
    /// It communicated and computed nothing.
    pub(super) exposed_communication: Intervals,
    pub(super) host_waits: Intervals,
}

fn streams(timeline: &Timeline, ordered: &Ordered) -> u32 {
    let mut seen = vec![false; timeline.streams.len()];
    for piece in &ordered.pieces {
        let stream = piece.work(timeline).map(|work| work.stream as usize);
        if let Some(seen) = stream.and_then(|stream| seen.get_mut(stream)) {
            *seen = true;
        }
    }
    seen.into_iter().map(u32::from).sum()
}

/// Two run where a piece lies under the latest end of those before it.
fn concurrency(ordered: &Ordered, busy_ns: i64) -> Concurrency {
    let mut two = Intervals::default();
    let mut running = BinaryHeap::new();
    let mut latest = i64::MIN;
    let mut sum = 0_i64;
    let mut peak = 0;
    for piece in &ordered.pieces {
        if piece.start < latest.min(piece.end) {
            two.extend(piece.start, latest.min(piece.end));
        }
        latest = latest.max(piece.end);
        sum = sum.saturating_add(piece.duration());
        while running
            .peek()
            .is_some_and(|Reverse(end)| *end <= piece.start)
        {
            running.pop();
        }
        if piece.duration() > 0 {
            running.push(Reverse(piece.end));
        }
        peak = peak.max(running.len());
    }
    Concurrency {
        two_or_more_ns: two.length(),
        mean: if busy_ns > 0 {
            sum as f64 / busy_ns as f64
        } else {
            0.0
        },
        peak: u32::try_from(peak).unwrap_or(u32::MAX),
    }
}
