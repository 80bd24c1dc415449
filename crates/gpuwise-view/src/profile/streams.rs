//! Streams, ranges and series of a profile.

use crate::{
    figures::percent,
    profile::duration,
    record::{Fields, Record},
};

/// Characters of a range's name for people.
const NAME_WIDTH: usize = 30;

/// What one stream did.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRow {
    pub file: String,
    pub rank: Option<u32>,
    pub device: Option<i64>,
    pub stream: i64,
    pub kernels: u64,
    pub copies: u64,
    pub span_ns: i64,
    pub busy_ns: i64,
    pub idle_ns: i64,
    /// Of the idle time: before the next launch had begun, after it had, and before unlinked work.
    pub host_wait_ns: i64,
    pub launched_wait_ns: i64,
    pub unlinked_ns: i64,
    pub longest_gap_ns: i64,
    /// Launches that waited: in the mean and at most, and how long the queue was full; none without
    /// launches.
    pub queue_mean: Option<f64>,
    pub queue_most: Option<i64>,
    pub queue_full_ns: Option<i64>,
}

fn time(ns: f64) -> String {
    duration(ns.round() as i64)
}

impl Record for StreamRow {
    const NAME: &'static str = "ProfiledStream";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("file", |r| r.file.clone());
        of.column("rank", "rank", |r| r.rank.map(u64::from))
            .priority(1);
        of.column("device", "device", |r| r.device).priority(2);
        of.column("stream", "stream", |r| r.stream);
        of.column("kernels", "kernels", |r| r.kernels);
        of.column("copies", "copies", |r| r.copies);
        of.field("span_ns", |r| r.span_ns);
        of.column("busy_ns", "busy", |r| r.busy_ns).said_of(time);
        of.column("idle_ns", "idle", |r| r.idle_ns).said_of(time);
        let share = |r: &Self| (r.span_ns > 0).then(|| r.idle_ns as f64 / r.span_ns as f64);
        of.column("idle_share", "idle, %", share).said_of(percent);
        of.column("host_wait_ns", "host wait", |r| r.host_wait_ns)
            .said_of(time);
        of.column("launched_wait_ns", "launched", |r| r.launched_wait_ns)
            .said_of(time)
            .priority(3);
        of.field("unlinked_ns", |r| r.unlinked_ns);
        of.field("longest_gap_ns", |r| r.longest_gap_ns);
        of.column("queue_mean", "queue", |r| r.queue_mean)
            .said_of(|mean| format!("{mean:.1}"));
        of.column("queue_most", "at most", |r| r.queue_most);
        of.field("queue_full_ns", |r| r.queue_full_ns);
    }
}

/// A range by name on one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeRow {
    pub file: String,
    pub rank: Option<u32>,
    pub name: String,
    pub count: u64,
    pub kernels: u64,
    pub kernel_ns: i64,
    pub host_median_ns: f64,
    pub device_median_ns: f64,
    pub pace_median_ns: Option<f64>,
    pub pace_spread_ns: Option<f64>,
    /// The median on the device beside the median of all ranks, as a share of it; none of one rank.
    pub beside_ranks: Option<f64>,
}

/// Shades from early to late, 5 % each; the middle is what most ranks take.
const SHADES: [&str; 5] = ["▁", "▃", "▄", "▆", "█"];

fn shade(beside: f64) -> &'static str {
    let place = (beside / 0.05).round().clamp(-2.0, 2.0) + 2.0;
    SHADES.get(place as usize).copied().unwrap_or("▄")
}

impl Record for RangeRow {
    const NAME: &'static str = "ProfiledRange";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("file", |r| r.file.clone());
        of.column("name", "range", |r| r.name.clone())
            .said_as(|name| {
                if name.chars().count() > NAME_WIDTH {
                    name.chars().take(NAME_WIDTH - 1).chain(['…']).collect()
                } else {
                    name.to_owned()
                }
            });
        of.column("rank", "rank", |r| r.rank.map(u64::from))
            .priority(2);
        of.column("count", "times", |r| r.count);
        of.column("kernels", "kernels", |r| r.kernels).priority(1);
        of.column("kernel_ns", "kernel time", |r| r.kernel_ns)
            .said_of(time);
        of.column("host_median_ns", "host", |r| r.host_median_ns)
            .said_of(time);
        of.column("device_median_ns", "device", |r| r.device_median_ns)
            .said_of(time);
        of.column("pace_median_ns", "pace", |r| r.pace_median_ns)
            .said_of(time);
        of.field("pace_spread_ns", |r| r.pace_spread_ns);
        of.column("beside_ranks", "beside ranks", |r| r.beside_ranks)
            .said_of(|beside| format!("{} {:+.1} %", shade(beside), beside * 100.0));
    }
}

/// A series from one time on, until its next row.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    pub file: String,
    pub rank: Option<u32>,
    pub device: Option<i64>,
    /// `queue` (launches that wait) or `bandwidth` (bytes a second).
    pub series: &'static str,
    /// `stream 7`, `HtoD`.
    pub of: String,
    /// On the file's clock.
    pub at_ns: i64,
    pub value: f64,
}

impl Record for SampleRow {
    const NAME: &'static str = "ProfiledSample";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("file", |r| r.file.clone());
        of.column("rank", "rank", |r| r.rank.map(u64::from))
            .priority(1);
        of.column("device", "device", |r| r.device);
        of.column("series", "series", |r| r.series.to_owned());
        of.column("of", "of", |r| r.of.clone());
        of.column("at_ns", "at, ns", |r| r.at_ns)
            .said_of(|at| format!("{at:.0}"));
        of.column("value", "value", |r| r.value);
    }
}
