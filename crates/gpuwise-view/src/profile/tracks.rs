//! What stands on the tracks of a page's timeline.

use crate::{profile::palette, svg::MemoryOverTime};
use gpuwise_domain::profile::{
    figures::{CriticalPath, Gap, GapPart, PathCause, StepFigures},
    timeline::{HostSpan, MemoryEvent, NameId, Timeline},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// Points of a counter, at most; beyond, each stands for several and has the highest of them.
const MOST_POINTS: usize = 100_000;

/// From, to, name and colour.
pub(super) type Spans = Vec<(i64, i64, String, u8)>;

/// Steps of a loop.
pub(super) fn steps(figures: &StepFigures) -> Spans {
    let mut spans: Spans = figures
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            let number = step.number.unwrap_or(index as u64);
            (
                step.start_ns,
                step.end_ns,
                format!("step {number}"),
                palette::STEP,
            )
        })
        .collect();
    sort(&mut spans);
    spans
}

/// The critical path by cause.
pub(super) fn path(path: &CriticalPath) -> Spans {
    let mut spans: Spans = path
        .segments
        .iter()
        .map(|segment| {
            let (name, colour) = path_cause(segment.cause);
            (segment.start_ns, segment.end_ns, name.to_owned(), colour)
        })
        .collect();
    sort(&mut spans);
    spans
}

/// Why a device stood still.
pub(super) fn gaps(gaps: &[Gap]) -> Spans {
    let mut spans: Spans = gaps
        .iter()
        .map(|gap| {
            let (name, colour) = gap_part(gap.part);
            (gap.start_ns, gap.end_ns, format!("idle: {name}"), colour)
        })
        .collect();
    sort(&mut spans);
    spans
}

fn sort(spans: &mut Spans) {
    spans.sort_by_key(|span| (span.0, Reverse(span.1)));
}

/// What a part of the idle time is called, and its colour.
pub(super) const fn gap_part(part: GapPart) -> (&'static str, u8) {
    match part {
        GapPart::Loader => ("the host loads data", palette::LOADER),
        GapPart::Synchronisation => ("the host waits for the device", palette::SYNCHRONISATION),
        GapPart::CopyCall => ("the host is in a call that copies", palette::COPY),
        GapPart::Framework => ("the host is in the framework", palette::FRAMEWORK),
        GapPart::InCall => ("the host is in the launching call", palette::CALL),
        GapPart::KernelWait => ("launched, begins within 10 µs", palette::LAUNCH),
        GapPart::Other => ("launched, begins later", palette::OTHER_WAIT),
        GapPart::Unlinked => ("its launch is not in the file", palette::OVERHEAD),
        GapPart::Edge => ("edge of the window", palette::STEP),
        GapPart::Overhead => ("the profiler's own overhead", palette::OVERHEAD),
    }
}

/// What a cause on the critical path is called, and its colour.
pub(super) const fn path_cause(cause: PathCause) -> (&'static str, u8) {
    match cause {
        PathCause::Computation => ("computation", palette::COMPUTATION),
        PathCause::Communication => ("communication", palette::COMMUNICATION),
        PathCause::Memory => ("copy", palette::COPY),
        PathCause::Loader => ("data loading", palette::LOADER),
        PathCause::Synchronisation => ("synchronisation", palette::SYNCHRONISATION),
        PathCause::Call => ("runtime call", palette::CALL),
        PathCause::Framework => ("framework", palette::FRAMEWORK),
        PathCause::Launch => ("launch", palette::LAUNCH),
        PathCause::Unknown => ("unknown", palette::OTHER_WAIT),
    }
}

/// One piece of work, or several short neighbours drawn as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bar {
    pub start: i64,
    pub end: i64,
    /// Index of the first.
    pub work: usize,
    pub count: u32,
}

/// Work of each stream.
#[derive(Debug, Default)]
pub(super) struct StreamBars {
    pub streams: Vec<Vec<Bar>>,
    /// Pieces of work that are drawn together with others.
    pub merged: usize,
}

/// Work by stream, in order of time; where there is more than `most`, short neighbours become one.
pub(super) fn pieces(timeline: &Timeline, most: usize) -> StreamBars {
    let mut streams: Vec<Vec<Bar>> = vec![Vec::new(); timeline.streams.len()];
    for (index, work) in timeline.work.iter().enumerate() {
        if let Some(stream) = streams.get_mut(work.stream as usize) {
            stream.push(Bar {
                start: work.start_ns,
                end: work.end_ns.max(work.start_ns),
                work: index,
                count: 1,
            });
        }
    }
    for stream in &mut streams {
        stream.sort_by_key(|piece| (piece.start, Reverse(piece.end), piece.work));
    }
    // Each round merges what is twice as long and twice as far apart.
    let mut grain = 1000_i64;
    while streams.iter().map(Vec::len).sum::<usize>() > most.max(streams.len())
        && grain < i64::MAX / 4
    {
        for stream in &mut streams {
            *stream = coarser(stream, grain);
        }
        grain *= 2;
    }
    let merged = streams.iter().flatten().filter(|piece| piece.count > 1);
    let merged = merged.map(|piece| piece.count as usize).sum();
    StreamBars { streams, merged }
}

/// Neighbours that are short and near to one another become one.
fn coarser(stream: &[Bar], grain: i64) -> Vec<Bar> {
    let mut out: Vec<Bar> = Vec::with_capacity(stream.len());
    for piece in stream {
        let short = |piece: &Bar| piece.count > 1 || piece.end - piece.start <= grain;
        match out.last_mut() {
            Some(last)
                if short(last)
                    && short(piece)
                    && piece.start.saturating_sub(last.end) <= grain
                    && piece.end.saturating_sub(last.start) <= grain.saturating_mul(16) =>
            {
                last.end = last.end.max(piece.end);
                last.count = last.count.saturating_add(piece.count);
            }
            _ => out.push(*piece),
        }
    }
    out
}

/// A span on a host thread; `sort` is 0 operator, 1 call, 2 range, 3 overhead.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostItem {
    pub start: i64,
    pub end: i64,
    pub name: NameId,
    pub sort: u8,
    index: usize,
}

/// Spans of one host thread.
#[derive(Debug)]
pub(super) struct HostThread {
    pub thread: usize,
    pub spans: Vec<HostItem>,
    /// Has few spans compared to the busiest.
    pub small: bool,
}

/// Host threads, the one with most spans first, and where calls and operators are among their
/// spans: numbers from 1 up, 0 where they are not drawn.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub threads: Vec<HostThread>,
    pub calls: Vec<u32>,
    pub operators: Vec<u32>,
}

/// Spans of host threads.
pub(super) fn host_count(timeline: &Timeline) -> usize {
    sorted(timeline).iter().map(|(_, spans)| spans.len()).sum()
}

fn sorted(timeline: &Timeline) -> [(u8, &[HostSpan]); 4] {
    [
        (2, &timeline.annotations),
        (0, &timeline.operators),
        (1, &timeline.calls),
        (3, &timeline.overhead),
    ]
}

impl Host {
    /// The longest `most` spans, and how many are left out.
    pub(super) fn of(timeline: &Timeline, most: usize) -> (Self, usize) {
        let (least, mut equal) = shortest(timeline, most);
        let mut threads: BTreeMap<u32, Vec<HostItem>> = BTreeMap::new();
        let mut dropped = 0;
        for (sort, spans) in sorted(timeline) {
            for (index, span) in spans.iter().enumerate() {
                let end = span.end_ns.max(span.start_ns);
                let length = end.saturating_sub(span.start_ns);
                if length < least || (length == least && equal == 0) {
                    dropped += 1;
                    continue;
                }
                equal -= usize::from(length == least);
                threads.entry(span.thread).or_default().push(HostItem {
                    start: span.start_ns,
                    end,
                    name: span.name,
                    sort,
                    index,
                });
            }
        }
        let most = threads.values().map(Vec::len).max().unwrap_or(0);
        let mut threads: Vec<HostThread> = threads
            .into_iter()
            .map(|(thread, mut spans)| {
                // A range that begins with what it surrounds stands above it.
                spans.sort_by_key(|item| {
                    (
                        item.start,
                        Reverse(item.end),
                        u8::from(item.sort != 2),
                        item.sort,
                    )
                });
                let small = spans.len() * 50 < most;
                HostThread {
                    thread: thread as usize,
                    spans,
                    small,
                }
            })
            .collect();
        threads.sort_by_key(|thread| Reverse(thread.spans.len()));
        let mut host = Self {
            threads: Vec::new(),
            calls: vec![0; timeline.calls.len()],
            operators: vec![0; timeline.operators.len()],
        };
        let all = threads.iter().flat_map(|thread| &thread.spans);
        for (number, item) in (1..).zip(all) {
            let known = match item.sort {
                0 => host.operators.get_mut(item.index),
                1 => host.calls.get_mut(item.index),
                _ => None,
            };
            if let Some(slot) = known {
                *slot = number;
            }
        }
        host.threads = threads;
        (host, dropped)
    }
}

/// The shortest duration of the longest `most` spans, and how many of just this duration are among
/// them.
fn shortest(timeline: &Timeline, most: usize) -> (i64, usize) {
    let spans = sorted(timeline).into_iter().flat_map(|(_, spans)| spans);
    let length = |span: &HostSpan| span.end_ns.max(span.start_ns).saturating_sub(span.start_ns);
    let mut lengths: Vec<i64> = spans.map(length).collect();
    let Some(at) = lengths.len().checked_sub(most).filter(|at| *at > 0) else {
        return (0, usize::MAX);
    };
    let at = at.min(lengths.len() - 1);
    let (_, least, longer) = lengths.select_nth_unstable(at);
    let least = *least;
    let longer = longer.iter().filter(|length| **length > least).count();
    (least, most.saturating_sub(longer))
}

/// What a host thread is called.
pub(super) fn thread_label(timeline: &Timeline, index: usize) -> String {
    let label = match timeline.threads.get(index) {
        Some(thread) => match thread.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => format!("thread {}", thread.thread),
        },
        None => "thread".into(),
    };
    crate::style::clean(&label)
}

/// What is counted of memory.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// Bytes in tensors.
    Tensors,
    /// Bytes taken from the driver.
    Reserved,
}

type Points = Vec<(i64, i64)>;

/// Memory over time by device.
fn memory_points(timeline: &Timeline) -> Vec<(Option<i64>, Kept, Points)> {
    let mut devices: BTreeMap<Option<i64>, Vec<&MemoryEvent>> = BTreeMap::new();
    for event in &timeline.memory {
        devices.entry(event.device).or_default().push(event);
    }
    let mut out = Vec::new();
    for (device, mut events) in devices {
        events.sort_by_key(|event| event.at_ns);
        for kept in [Kept::Tensors, Kept::Reserved] {
            let points: Points = events
                .iter()
                .filter_map(|event| {
                    let bytes = match kept {
                        Kept::Tensors => event.allocated,
                        Kept::Reserved => event.reserved,
                    };
                    Some((event.at_ns, i64::try_from(bytes?).ok()?))
                })
                .collect();
            if points.iter().any(|point| point.1 > 0) {
                out.push((device, kept, points));
            }
        }
    }
    out
}

fn device_name(device: Option<i64>) -> String {
    device.map_or_else(|| "host".into(), |number| format!("GPU {number}"))
}

/// Memory by device over time: bytes in tensors, and bytes taken from the driver.
pub(super) fn memory(timeline: &Timeline) -> Vec<(String, Points)> {
    let named = |(device, kept, points): (Option<i64>, Kept, Points)| {
        let what = match kept {
            Kept::Tensors => "in tensors",
            Kept::Reserved => "reserved",
        };
        (format!("{} {what}", device_name(device)), thinned(points))
    };
    memory_points(timeline).into_iter().map(named).collect()
}

/// Memory by device, for pictures: times from the beginning of the timeline.
pub(super) fn memory_pictures(timeline: &Timeline) -> Vec<MemoryOverTime> {
    let first = timeline
        .memory
        .iter()
        .map(|event| event.at_ns)
        .min()
        .unwrap_or(0);
    let mut out: Vec<MemoryOverTime> = Vec::new();
    for (device, what, points) in memory_points(timeline) {
        if device.is_none() {
            continue;
        }
        let name = device_name(device);
        let points = points
            .into_iter()
            .map(|(at, value)| (at.saturating_sub(first), value))
            .collect();
        let at = out
            .iter()
            .position(|one| one.device == name)
            .unwrap_or_else(|| {
                out.push(MemoryOverTime {
                    device: name,
                    ..MemoryOverTime::default()
                });
                out.len() - 1
            });
        if let Some(one) = out.get_mut(at) {
            match what {
                Kept::Tensors => one.allocated = points,
                Kept::Reserved => one.reserved = points,
            }
        }
    }
    out
}

/// Counters that were sampled; fractions are cut.
pub(super) fn samples(timeline: &Timeline) -> Vec<(String, Vec<(i64, i64)>)> {
    let mut tracks: BTreeMap<(i64, NameId), Vec<(i64, i64)>> = BTreeMap::new();
    for sample in &timeline.samples {
        if sample.value.is_finite() && sample.value >= 0.0 {
            let points = tracks.entry((sample.device, sample.name)).or_default();
            points.push((sample.at_ns, sample.value.min(9e15) as i64));
        }
    }
    tracks
        .into_iter()
        .map(|((device, name), mut points)| {
            points.sort_by_key(|point| point.0);
            (
                format!("GPU {device} {}", timeline.names.text(name)),
                thinned(points),
            )
        })
        .collect()
}

/// As many points as are drawn at most; each has the highest value of those it stands for.
fn thinned(points: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let size = points.len().div_ceil(MOST_POINTS);
    let highest = |chunk: &[(i64, i64)]| chunk.iter().copied().max_by_key(|point| point.1);
    points.chunks(size).filter_map(highest).collect()
}
