//! Traces of the PyTorch profiler: small ones by hand, real ones against exact counts, damaged ones.

mod cases;
mod numbers;
mod prefixes;
mod real;

use gpuwise_domain::profile::timeline::{Detail, HostSpan, Timeline};
use gpuwise_read::kineto::{KinetoError, read_bytes};
use std::fmt::Write as _;

fn read_text(text: &str) -> Result<Timeline, KinetoError> {
    read_bytes(text.as_bytes())
}

/// All that a timeline holds, in a line; host spans only where there is no work.
fn said(read: &Result<Timeline, KinetoError>) -> String {
    let timeline = match read {
        Ok(timeline) => timeline,
        Err(error) => return format!("error: {error}"),
    };
    let mut parts = Vec::new();
    works(timeline, &mut parts);
    if timeline.work.is_empty() {
        hosts(timeline, &mut parts);
    }
    for device in &timeline.devices {
        if let Some(kind) = &device.other_kind {
            parts.push(format!("device {} is {kind}", device.number));
        }
    }
    if let Some(rank) = &timeline.rank {
        let backend = rank.backend.as_deref().unwrap_or("–");
        parts.push(format!(
            "rank {} of {:?} by {backend}",
            rank.number, rank.world_size
        ));
    }
    for device in &timeline.devices {
        if let (Some(name), Some(bytes), Some(sms), Some(capability)) = (
            &device.name,
            device.total_memory,
            device.multiprocessors,
            device.compute_capability,
        ) {
            parts.push(format!("{name}: {bytes} bytes, {sms} SMs, {capability:?}"));
        }
    }
    parts.extend(
        timeline
            .software
            .iter()
            .map(|(name, version)| format!("{name} {version}")),
    );
    parts.extend(timeline.epoch_ns.map(|epoch| format!("epoch {epoch}")));
    for loss in &timeline.losses {
        let place = loss.first.as_ref().map(|place| format!(" at {place}"));
        parts.push(format!(
            "lost {} {}{}",
            loss.count,
            loss.what,
            place.unwrap_or_default()
        ));
    }
    parts.join("; ")
}

fn works(timeline: &Timeline, parts: &mut Vec<String>) {
    for work in &timeline.work {
        let stream = timeline.streams[work.stream as usize];
        let device = timeline.device_of(work).expect("it has one").number;
        let mut part = format!(
            "{device}/{} {} [{}, {})",
            stream.number,
            timeline.names.text(work.name),
            work.start_ns,
            work.end_ns
        );
        if let Some(call) = timeline.call_of(work) {
            let _ = write!(part, " by {}", timeline.names.text(call.name));
        }
        if let Some(operator) = timeline.operator_of(work) {
            let _ = write!(part, " of {}", timeline.names.text(operator.name));
            if let Some(operands) = operator.operands.get() {
                let _ = write!(part, " {:?}", timeline.operands[operands].shapes);
            }
        }
        let detail = match timeline.detail_of(work) {
            None => String::new(),
            Some(Detail::Set(bytes)) => format!(" sets {bytes}"),
            Some(Detail::Copy(copy)) => format!(
                " {} bytes {:?} {:?} to {:?}",
                copy.bytes.map_or("?".into(), |bytes| bytes.to_string()),
                copy.direction.expect("it is told"),
                copy.source,
                copy.target
            ),
            Some(Detail::Launch(shape)) => format!(
                " grid {:?} block {:?} registers {:?} shared {:?} a SM {:?} % {:?}",
                shape.grid.unwrap_or_default(),
                shape.block.unwrap_or_default(),
                shape.registers_per_thread,
                shape.shared_memory,
                shape.blocks_per_multiprocessor,
                shape.occupancy_percent,
            ),
            Some(Detail::Collective(collective)) => format!(
                " {} {} to {} {} among {} of {} as {} in {:?}",
                collective.name.as_deref().expect("stated"),
                collective.elements_in.expect("stated"),
                collective.elements_out.expect("stated"),
                collective.element_type.as_deref().expect("stated"),
                collective.group_size.expect("stated"),
                collective.group.as_deref().expect("stated"),
                collective.sequence.expect("stated"),
                collective.launch.grid.expect("stated"),
            ),
        };
        parts.push(part + &detail);
    }
}

fn hosts(timeline: &Timeline, parts: &mut Vec<String>) {
    let span = |what: &str, span: &HostSpan| {
        let thread = &timeline.threads[span.thread as usize];
        format!(
            "{what} {}/{} {} [{}, {})",
            thread.process,
            thread.thread,
            timeline.names.text(span.name),
            span.start_ns,
            span.end_ns
        )
    };
    parts.extend(timeline.operators.iter().map(|it| span("host", it)));
    parts.extend(timeline.annotations.iter().map(|it| span("range", it)));
    for event in &timeline.memory {
        parts.push(format!(
            "memory {:?} {} at {} ({:?}, {:?})",
            event.device, event.bytes, event.at_ns, event.allocated, event.reserved
        ));
    }
}
