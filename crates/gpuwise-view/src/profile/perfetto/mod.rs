//! A profile for Perfetto and Chrome's viewer: the work, calls and steps as they were, and beside
//! them why the devices stood still, what was found, and counters.
//!
//! Events are written as Kineto writes them, so that what reads Kineto's traces reads this one and
//! finds the same work.

mod conclusions;
mod events;

use super::{Profile, clock::Clock};
use std::io::{self, Write};

/// Devices of one rank lie so far from those of the next.
const DEVICES_APART: i64 = 1000;
/// Processes of one rank lie so far from those of the next: process ids are below 2²².
const PROCESSES_APART: i64 = 10_000_000;
/// Identifiers of one rank lie so far from those of the next: 2³² spans.
const LINKS_APART: u64 = 1 << 32;

/// Writes the annotated trace of a profile, event by event; nothing of it is kept.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn perfetto(profile: &Profile, out: impl Write) -> io::Result<()> {
    let clock = Clock::of(profile.timelines.iter(), false);
    let mut trace = Trace {
        out,
        begun: false,
        clock: &clock,
    };
    trace.head(profile)?;
    for index in 0..profile.timelines.len() {
        trace.rank(profile, index)?;
        trace.conclusions(profile, index)?;
    }
    trace.out.write_all(b"\n]}\n")?;
    trace.out.flush()
}

/// A trace being written.
struct Trace<'a, W> {
    out: W,
    begun: bool,
    clock: &'a Clock,
}

/// Where on its rank's timeline something stands.
#[derive(Debug, Clone, Copy)]
struct Spot {
    rank: usize,
    process: i64,
    thread: i64,
}

impl<W: Write> Trace<'_, W> {
    fn head(&mut self, profile: &Profile) -> io::Result<()> {
        write!(
            self.out,
            "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"writer\":\"gpuwise\""
        )?;
        if let [timeline] = profile.timelines {
            if let (Some(epoch), Some(origin)) = (timeline.epoch_ns, self.clock.origins.first()) {
                write!(
                    self.out,
                    ",\"baseTimeNanoseconds\":{}",
                    epoch.saturating_add(*origin)
                )?;
            }
            if let Some(rank) = &timeline.rank {
                let mut info = serde_json::json!({"rank": rank.number});
                if let Some(size) = rank.world_size {
                    info["world_size"] = size.into();
                }
                if let Some(backend) = &rank.backend {
                    info["backend"] = backend.as_str().into();
                }
                write!(self.out, ",\"distributedInfo\":{info}")?;
            }
        }
        self.out.write_all(b",\"deviceProperties\":[")?;
        let mut begun = false;
        for (rank, timeline) in profile.timelines.iter().enumerate() {
            for device in &timeline.devices {
                let mut told = serde_json::json!({"id": device_number(rank, device.number)});
                if let Some(name) = &device.name {
                    told["name"] = name.as_str().into();
                }
                if let Some(bytes) = device.total_memory {
                    told["totalGlobalMem"] = bytes.into();
                }
                if let Some(count) = device.multiprocessors {
                    told["numSms"] = count.into();
                }
                if let Some((major, minor)) = device.compute_capability {
                    told["computeMajor"] = major.into();
                    told["computeMinor"] = minor.into();
                }
                write!(self.out, "{}{told}", if begun { "," } else { "" })?;
                begun = true;
            }
        }
        self.out.write_all(b"],\"traceEvents\":[")
    }

    /// One event of its own line.
    fn line(&mut self, content: std::fmt::Arguments) -> io::Result<()> {
        let comma = if self.begun { "," } else { "" };
        self.begun = true;
        write!(self.out, "{comma}\n{{{content}}}")
    }

    /// A span; `args` is empty or an object.
    fn span(
        &mut self,
        at: Spot,
        category: &str,
        name: &str,
        times: (i64, i64),
        args: &str,
    ) -> io::Result<()> {
        let start = Micros(self.clock.at(at.rank, times.0));
        let duration = Micros(times.1.saturating_sub(times.0).max(0));
        let (process, thread) = (at.process, at.thread);
        let comma = if args.is_empty() { "" } else { ",\"args\":" };
        self.line(format_args!(
            "\"ph\":\"X\",\"cat\":\"{category}\",\"name\":{name},\"pid\":{process},\"tid\":{thread},\"ts\":{start},\"dur\":{duration}{comma}{args}"
        ))
    }

    /// The name of a process (`thread` absent) or of a thread, and its place among others.
    fn name(
        &mut self,
        process: i64,
        thread: Option<i64>,
        name: &str,
        order: i64,
    ) -> io::Result<()> {
        let name = quoted(name);
        let (what, tid) = match thread {
            Some(thread) => ("thread", thread),
            None => ("process", 0),
        };
        self.line(format_args!(
            "\"ph\":\"M\",\"name\":\"{what}_name\",\"pid\":{process},\"tid\":{tid},\"args\":{{\"name\":{name}}}"
        ))?;
        self.line(format_args!(
            "\"ph\":\"M\",\"name\":\"{what}_sort_index\",\"pid\":{process},\"tid\":{tid},\"args\":{{\"sort_index\":{order}}}"
        ))
    }

    /// A value of a counter; `args` is an object.
    fn counter(
        &mut self,
        rank: usize,
        process: i64,
        name: &str,
        at: i64,
        args: &str,
    ) -> io::Result<()> {
        let at = Micros(self.clock.at(rank, at));
        self.line(format_args!(
            "\"ph\":\"C\",\"name\":{name},\"pid\":{process},\"tid\":0,\"ts\":{at},\"args\":{args}"
        ))
    }
}

/// The place of a rank as a number of a process or device; ranks beyond 2³¹ do not occur.
fn place(rank: usize) -> i64 {
    i64::try_from(rank).unwrap_or(i64::MAX / PROCESSES_APART)
}

/// The number of a device among those of all ranks.
fn device_number(rank: usize, number: i64) -> i64 {
    number.saturating_add(place(rank) * DEVICES_APART)
}

/// The number of a process among those of all ranks.
fn process_number(rank: usize, number: i64) -> i64 {
    number.saturating_add(place(rank) * PROCESSES_APART)
}

/// Text as a string of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Nanoseconds as microseconds, exactly.
struct Micros(i64);

impl std::fmt::Display for Micros {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let size = self.0.unsigned_abs();
        write!(out, "{sign}{}.{:03}", size / 1000, size % 1000)
    }
}
