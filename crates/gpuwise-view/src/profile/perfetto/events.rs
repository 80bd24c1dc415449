//! What the file had: work, calls, operators, ranges, memory.

use super::{LINKS_APART, Spot, Trace, device_number, place, process_number, quoted};
use crate::profile::{Profile, detail};
use gpuwise_domain::profile::timeline::{Detail, HostSpan, LaunchShape, Timeline, Work, WorkClass};
use std::{
    fmt::Write as _,
    io::{self, Write},
};

impl<W: Write> Trace<'_, W> {
    /// Everything that one rank's file had.
    pub(super) fn rank(&mut self, profile: &Profile, rank: usize) -> io::Result<()> {
        let Some(timeline) = profile.timelines.get(rank) else {
            return Ok(());
        };
        let label = profile.rank_label(rank);
        self.tracks(
            timeline,
            rank,
            if profile.timelines.len() > 1 {
                &label
            } else {
                ""
            },
        )?;
        let names: Vec<String> = timeline
            .names
            .iter()
            .map(|(_, text)| quoted(text))
            .collect();
        let name = |id: u32| names.get(id as usize).map_or("\"\"", |name| name.as_str());
        for work in &timeline.work {
            self.work(timeline, rank, work, name(work.name.0))?;
        }
        for (category, spans, key) in [
            ("cuda_runtime", &timeline.calls, "correlation"),
            ("cpu_op", &timeline.operators, "External id"),
            ("user_annotation", &timeline.annotations, ""),
            ("overhead", &timeline.overhead, ""),
        ] {
            for (index, span) in spans.iter().enumerate() {
                let args = match key {
                    "" => String::new(),
                    key => format!("{{\"{key}\":{}}}", link(rank, index)),
                };
                self.span(
                    spot(timeline, rank, span),
                    category,
                    name(span.name.0),
                    (span.start_ns, span.end_ns),
                    &args,
                )?;
            }
        }
        self.arrows(timeline, rank)?;
        self.counters(timeline, rank)
    }

    fn tracks(&mut self, timeline: &Timeline, rank: usize, label: &str) -> io::Result<()> {
        let prefix = if label.is_empty() {
            String::new()
        } else {
            format!("{label} ")
        };
        let order = place(rank) * 100;
        for device in &timeline.devices {
            let product = device.name.as_deref().unwrap_or("");
            let name = format!("{prefix}GPU {} {product}", device.number);
            self.name(
                device_number(rank, device.number),
                None,
                name.trim_end(),
                order + 10,
            )?;
        }
        for stream in &timeline.streams {
            let Some(device) = timeline.devices.get(usize::from(stream.device)) else {
                continue;
            };
            let process = device_number(rank, device.number);
            self.name(
                process,
                Some(stream.number),
                &format!("stream {}", stream.number),
                stream.number,
            )?;
        }
        let mut named = Vec::new();
        for thread in &timeline.threads {
            let process = process_number(rank, thread.process);
            if !named.contains(&process) {
                named.push(process);
                self.name(
                    process,
                    None,
                    &format!("{prefix}host process {}", thread.process),
                    order + 20,
                )?;
            }
            if let Some(name) = &thread.name {
                self.name(process, Some(thread.thread), name, 0)?;
            }
        }
        Ok(())
    }

    fn work(
        &mut self,
        timeline: &Timeline,
        rank: usize,
        work: &Work,
        name: &str,
    ) -> io::Result<()> {
        let category = match work.class {
            WorkClass::Kernel => "kernel",
            WorkClass::Copy => "gpu_memcpy",
            WorkClass::Set => "gpu_memset",
        };
        let at = work_spot(timeline, rank, work);
        let mut args = format!("{{\"device\":{},\"stream\":{}", at.process, at.thread);
        for (key, index) in [("correlation", work.call), ("External id", work.operator)] {
            if let Some(index) = index.get() {
                let _ = write!(args, ",\"{key}\":{}", link(rank, index));
            }
        }
        if let Some(known) = timeline.detail_of(work) {
            args += &detail_args(known);
        }
        args.push('}');
        self.span(at, category, name, (work.start_ns, work.end_ns), &args)
    }

    /// From each call to the work that it launched.
    fn arrows(&mut self, timeline: &Timeline, rank: usize) -> io::Result<()> {
        let mut begun = vec![false; timeline.calls.len()];
        for work in &timeline.work {
            let (Some(index), Some(call)) = (work.call.get(), timeline.call_of(work)) else {
                continue;
            };
            let id = link(rank, index);
            let end = |trace: &mut Self, phase: &str, at: Spot, time: i64| {
                let time = super::Micros(trace.clock.at(rank, time));
                let (process, thread) = (at.process, at.thread);
                trace.line(format_args!(
                    "\"ph\":\"{phase}\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":{id},\"pid\":{process},\"tid\":{thread},\"ts\":{time}"
                ))
            };
            if let Some(begun) = begun.get_mut(index).filter(|begun| !**begun) {
                *begun = true;
                end(self, "s", spot(timeline, rank, call), call.start_ns)?;
            }
            end(
                self,
                "f\",\"bp\":\"e",
                work_spot(timeline, rank, work),
                work.start_ns,
            )?;
        }
        Ok(())
    }

    /// Memory, sampled counters, and how much ran at once.
    fn counters(&mut self, timeline: &Timeline, rank: usize) -> io::Result<()> {
        for event in &timeline.memory {
            let Some(device) = event.device else { continue };
            let mut args = serde_json::Map::new();
            if let Some(bytes) = event.allocated {
                args.insert("in tensors".into(), bytes.into());
            }
            if let Some(bytes) = event.reserved {
                args.insert("reserved".into(), bytes.into());
            }
            if !args.is_empty() {
                let args = serde_json::Value::Object(args).to_string();
                self.counter(
                    rank,
                    device_number(rank, device),
                    "\"memory, bytes\"",
                    event.at_ns,
                    &args,
                )?;
            }
        }
        for sample in timeline
            .samples
            .iter()
            .filter(|sample| sample.value.is_finite())
        {
            let name = quoted(timeline.names.text(sample.name));
            let args = format!("{{\"value\":{}}}", serde_json::Value::from(sample.value));
            self.counter(
                rank,
                device_number(rank, sample.device),
                &name,
                sample.at_ns,
                &args,
            )?;
        }
        self.concurrency(timeline, rank)
    }

    fn concurrency(&mut self, timeline: &Timeline, rank: usize) -> io::Result<()> {
        for (index, device) in timeline.devices.iter().enumerate() {
            let mut changes: Vec<(i64, i64)> = timeline
                .work
                .iter()
                .filter(|work| {
                    let stream = timeline.streams.get(work.stream as usize);
                    stream.is_some_and(|stream| usize::from(stream.device) == index)
                        && work.end_ns > work.start_ns
                })
                .flat_map(|work| [(work.start_ns, 1), (work.end_ns, -1)])
                .collect();
            changes.sort_unstable();
            let (mut running, mut told) = (0, 0);
            for (at, change) in changes.iter().enumerate() {
                running += change.1;
                let last = changes.get(at + 1).is_none_or(|next| next.0 != change.0);
                if last && running != told {
                    told = running;
                    let args = format!("{{\"kernels and copies\":{running}}}");
                    self.counter(
                        rank,
                        device_number(rank, device.number),
                        "\"running concurrently\"",
                        change.0,
                        &args,
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// The identifier of a call, or of an operator.
fn link(rank: usize, index: usize) -> u64 {
    rank as u64 * LINKS_APART + index as u64 + 1
}

fn spot(timeline: &Timeline, rank: usize, span: &HostSpan) -> Spot {
    let thread = timeline.threads.get(span.thread as usize);
    Spot {
        rank,
        process: process_number(rank, thread.map_or(0, |thread| thread.process)),
        thread: thread.map_or(0, |thread| thread.thread),
    }
}

fn work_spot(timeline: &Timeline, rank: usize, work: &Work) -> Spot {
    let stream = timeline.streams.get(work.stream as usize);
    Spot {
        rank,
        process: device_number(
            rank,
            timeline.device_of(work).map_or(0, |device| device.number),
        ),
        thread: stream.map_or(0, |stream| stream.number),
    }
}

/// What is known of a piece of work, as more arguments.
fn detail_args(known: &Detail) -> String {
    match known {
        Detail::Launch(shape) => launch_args(shape),
        Detail::Copy(copy) => {
            let bytes = copy
                .bytes
                .map_or(String::new(), |bytes| format!(",\"bytes\":{bytes}"));
            format!("{bytes},\"copy\":{}", quoted(&detail::detail(known)))
        }
        Detail::Set(bytes) => format!(",\"bytes\":{bytes}"),
        Detail::Collective(of) => {
            let mut out = launch_args(&of.launch);
            for (key, text) in [
                ("Collective name", &of.name),
                ("dtype", &of.element_type),
                ("Process Group Name", &of.group),
            ] {
                if let Some(text) = text {
                    let _ = write!(out, ",\"{key}\":{}", quoted(text));
                }
            }
            for (key, value) in [
                ("In msg nelems", of.elements_in),
                ("Out msg nelems", of.elements_out),
                ("Group size", of.group_size.map(u64::from)),
                ("Seq", of.sequence),
            ] {
                if let Some(value) = value {
                    let _ = write!(out, ",\"{key}\":{value}");
                }
            }
            out
        }
    }
}

fn launch_args(shape: &LaunchShape) -> String {
    let mut out = String::new();
    for (key, size) in [("grid", shape.grid), ("block", shape.block)] {
        if let Some([x, y, z]) = size {
            let _ = write!(out, ",\"{key}\":[{x},{y},{z}]");
        }
    }
    let whole = [
        (
            "registers per thread",
            shape.registers_per_thread.map(u64::from),
        ),
        ("shared memory", shape.shared_memory),
    ];
    for (key, value) in whole {
        if let Some(value) = value {
            let _ = write!(out, ",\"{key}\":{value}");
        }
    }
    let real = [
        ("blocks per SM", shape.blocks_per_multiprocessor),
        ("est. achieved occupancy %", shape.occupancy_percent),
    ];
    for (key, value) in real {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let _ = write!(out, ",\"{key}\":{}", serde_json::Value::from(value));
        }
    }
    out
}
