//! Streams one by one: what they did, why they stood still, and how much waited in their queues.

mod series;

pub use series::{Sample, SeriesOf, bandwidth, queues};

use crate::figures::{Settings, intervals::Intervals};
use gpuwise_domain::profile::timeline::{Timeline, Work, WorkClass};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Launches that a stream's queue holds before the next call blocks. Source: HolisticTraceAnalysis 0.5.0,
/// `CUDA_MAX_LAUNCH_QUEUE_PER_STREAM`.
pub const QUEUE_LIMIT: i64 = 1024;

/// What one stream did. Idle time is that between its own first start and last end.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamUse {
    /// The device's number in the file.
    pub device: Option<i64>,
    pub stream: i64,
    pub kernels: u64,
    /// Copies and fills.
    pub copies: u64,
    pub span_ns: i64,
    pub busy_ns: i64,
    /// Idle while the call that launched what came next had not begun.
    pub host_wait_ns: i64,
    /// Idle after that call had begun.
    pub launched_wait_ns: i64,
    /// Idle before work whose launch the file does not tell.
    pub unlinked_ns: i64,
    pub longest_gap_ns: i64,
    pub queue: Option<Queue>,
}

/// Launches that a stream had not begun to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Over the time from the first launch to the last start.
    pub mean: f64,
    pub most: i64,
    /// Time with [`QUEUE_LIMIT`] or more.
    pub full_ns: i64,
}

impl StreamUse {
    pub fn idle_ns(&self) -> i64 {
        self.span_ns - self.busy_ns
    }
}

/// Streams of a file that had work, by device and number.
pub fn of_rank(timeline: &Timeline, settings: &Settings<'_>) -> Vec<StreamUse> {
    let mut by_stream: BTreeMap<u32, Vec<&Work>> = BTreeMap::new();
    for work in timeline
        .work
        .iter()
        .filter(|work| settings.holds(timeline, work))
    {
        by_stream.entry(work.stream).or_default().push(work);
    }
    let queues: FxHashMap<u32, Vec<Sample>> = queues(timeline, settings)
        .into_iter()
        .map(|of| (of.stream, of.samples))
        .collect();
    let mut all: Vec<StreamUse> = by_stream
        .into_iter()
        .filter_map(|(index, mut work)| {
            work.sort_by_key(|work| (work.start_ns, work.end_ns));
            let queue = queues.get(&index).and_then(|samples| queue(samples));
            one(timeline, index, &work, queue)
        })
        .collect();
    all.sort_by_key(|of| (of.device, of.stream));
    all
}

fn one(timeline: &Timeline, index: u32, work: &[&Work], queue: Option<Queue>) -> Option<StreamUse> {
    let stream = timeline.streams.get(index as usize)?;
    let device = timeline.devices.get(usize::from(stream.device));
    let busy = Intervals::union(work.iter().map(|work| (work.start_ns, work.end_ns)));
    let (first, last) = busy.hull().unwrap_or_else(|| {
        let at = work.first().map_or(0, |work| work.start_ns);
        (at, at)
    });
    let kernels = work
        .iter()
        .filter(|work| work.class == WorkClass::Kernel)
        .count() as u64;
    let mut of = StreamUse {
        device: device.map(|device| device.number),
        stream: stream.number,
        kernels,
        copies: work.len() as u64 - kernels,
        span_ns: last - first,
        busy_ns: busy.length(),
        host_wait_ns: 0,
        launched_wait_ns: 0,
        unlinked_ns: 0,
        longest_gap_ns: 0,
        queue,
    };
    let mut end = first;
    for work in work {
        let gap = work.start_ns - end;
        if gap > 0 {
            of.longest_gap_ns = of.longest_gap_ns.max(gap);
            match timeline.call_of(work) {
                Some(call) => {
                    let waited = (call.start_ns - end).clamp(0, gap);
                    of.host_wait_ns += waited;
                    of.launched_wait_ns += gap - waited;
                }
                None => of.unlinked_ns += gap,
            }
        }
        end = end.max(work.end_ns);
    }
    Some(of)
}

/// What a queue's changes come to.
fn queue(samples: &[Sample]) -> Option<Queue> {
    let (first, last) = (samples.first()?, samples.last()?);
    let (mut held, mut full_ns) = (0.0, 0);
    for pair in samples.windows(2) {
        let length = pair[1].at_ns - pair[0].at_ns;
        held += length as f64 * pair[0].value;
        if pair[0].value >= QUEUE_LIMIT as f64 {
            full_ns += length;
        }
    }
    let span = last.at_ns - first.at_ns;
    let most = samples.iter().map(|sample| sample.value).reduce(f64::max)?;
    Some(Queue {
        mean: if span > 0 { held / span as f64 } else { 0.0 },
        most: most as i64,
        full_ns,
    })
}
