//! Queue lengths and memory bandwidth over time, by every change.

use crate::figures::Settings;
use gpuwise_domain::profile::timeline::{Detail, Direction, Timeline, WorkClass};
use std::collections::BTreeMap;

/// From this time on, until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// On the file's clock.
    pub at_ns: i64,
    pub value: f64,
}

/// When a value changes, and by how much.
type Changes = Vec<(i64, f64)>;

/// The series of one stream, or of one kind of copies.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesOf {
    /// The device's number in the file.
    pub device: Option<i64>,
    /// `stream 7`, `HtoD`.
    pub of: String,
    /// Index into the timeline's streams, of queues.
    pub stream: u32,
    pub samples: Vec<Sample>,
}

/// Launches that each stream had not begun to run: one more at the start of the launching call, one
/// less where the first of its work on that stream starts. Calls of which nothing ran are not
/// in it; those of a graph count once. As HolisticTraceAnalysis counts (`get_queue_length_time_series`),
/// but that no work starts before its launch: where clocks say so, it is taken to start with it.
pub fn queues(timeline: &Timeline, settings: &Settings<'_>) -> Vec<SeriesOf> {
    let mut starts: BTreeMap<(u32, usize), i64> = BTreeMap::new();
    for work in timeline
        .work
        .iter()
        .filter(|work| settings.holds(timeline, work))
    {
        if let Some(call) = work.call.get() {
            let start = starts.entry((work.stream, call)).or_insert(work.start_ns);
            *start = (*start).min(work.start_ns);
        }
    }
    let mut changes: BTreeMap<u32, Changes> = BTreeMap::new();
    for ((stream, call), start) in starts {
        if let Some(call) = timeline.calls.get(call) {
            let of = changes.entry(stream).or_default();
            of.push((call.start_ns, 1.0));
            of.push((start.max(call.start_ns), -1.0));
        }
    }
    changes
        .into_iter()
        .filter_map(|(index, changes)| {
            let stream = timeline.streams.get(index as usize)?;
            let device = timeline.devices.get(usize::from(stream.device));
            Some(SeriesOf {
                device: device.map(|device| device.number),
                of: format!("stream {}", stream.number),
                stream: index,
                samples: summed(changes),
            })
        })
        .collect()
}

/// Bytes a second of the copies and fills that run at a time, by device and direction; those whose
/// bytes or time the file does not state are not in it. As HolisticTraceAnalysis
/// (`get_memory_bw_time_series`).
pub fn bandwidth(timeline: &Timeline, settings: &Settings<'_>) -> Vec<SeriesOf> {
    let mut changes: BTreeMap<(Option<i64>, &str), Changes> = BTreeMap::new();
    for work in timeline
        .work
        .iter()
        .filter(|work| settings.holds(timeline, work))
    {
        let (of, bytes) = match (work.class, timeline.detail_of(work)) {
            (WorkClass::Set, Some(Detail::Set(bytes))) => ("fill", *bytes),
            (WorkClass::Copy, Some(Detail::Copy(shape))) => match shape.bytes {
                Some(bytes) => (direction(shape.direction), bytes),
                None => continue,
            },
            _ => continue,
        };
        let length = work.end_ns - work.start_ns;
        if length > 0 && bytes > 0 {
            let rate = bytes as f64 / (length as f64 * 1e-9);
            let device = timeline.device_of(work).map(|device| device.number);
            let of = changes.entry((device, of)).or_default();
            of.extend([(work.start_ns, rate), (work.end_ns, -rate)]);
        }
    }
    changes
        .into_iter()
        .map(|((device, of), changes)| SeriesOf {
            device,
            of: of.to_owned(),
            stream: u32::MAX,
            samples: summed(changes),
        })
        .collect()
}

fn direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::HostToDevice) => "HtoD",
        Some(Direction::DeviceToHost) => "DtoH",
        Some(Direction::DeviceToDevice) => "DtoD",
        Some(Direction::PeerToPeer) => "PtoP",
        Some(Direction::HostToHost) => "HtoH",
        Some(Direction::Unified) => "unified",
        None => "copy",
    }
}

/// What changes come to, one sample for each time at which something changed.
fn summed(mut changes: Changes) -> Vec<Sample> {
    changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut value, mut running) = (0.0, 0_i64);
    let mut samples = Vec::new();
    for same in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, change) in same {
            value += change;
            running += if *change > 0.0 { 1 } else { -1 };
        }
        if running == 0 {
            // Nothing runs, whatever is left of rounding.
            value = 0.0;
        }
        let at_ns = same[0].0;
        samples.push(Sample { at_ns, value });
    }
    samples
}
