//! What the host did: calls of the runtime, ranges that were named, the profiler's own overhead.

use super::NsightError;
use super::build::process_key;
use super::read::Reading;
use gpuwise_domain::profile::timeline::{HostSpan, Index};

/// A range that was pushed and popped, and one that was started and ended (`ENUM_NSYS_EVENT_TYPE`).
const RANGES: [i64; 2] = [59, 60];

/// Calls of the runtime and the driver.
pub(super) fn calls(reading: &mut Reading) -> Result<(), NsightError> {
    let columns = ["start", "end", "globalTid", "nameId", "correlationId"];
    let Reading {
        database,
        strings,
        thread_names,
        processes,
    } = reading;
    let mut lost = 0;
    database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, 2, |row| {
        let (Some(start_ns), Some(end_ns)) = (row.integer(0), row.integer(1)) else {
            lost += 1;
            return;
        };
        let thread = row.integer(2).unwrap_or(0);
        let builder = processes.entry(process_key(thread)).or_default();
        let name = match row.integer(3) {
            Some(id) => builder.name_of(id, strings),
            None => builder.name("call without a name"),
        };
        let span = HostSpan {
            start_ns,
            end_ns: end_ns.max(start_ns),
            name,
            thread: builder.thread(thread, thread_names),
            operands: Index::NONE,
        };
        let timeline = &mut builder.process.timeline;
        let index = Index::of(timeline.calls.len());
        timeline.event_count += 1;
        timeline.calls.push(span);
        if let Some(correlation) = row.integer(4) {
            builder.calls.insert(correlation, index);
        }
    })?;
    if let Some(builder) = processes.values_mut().next() {
        builder.lose("calls without a time", lost);
    }
    Ok(())
}

/// Ranges of NVTX. Those that PyTorch names with a number of its own (`aten::mm, op_id = 7`) are
/// operators, without that number; all others are annotations.
pub(super) fn ranges(reading: &mut Reading) -> Result<(), NsightError> {
    let columns = ["start", "eventType", "end", "text", "textId", "globalTid"];
    let Reading {
        database,
        strings,
        thread_names,
        processes,
    } = reading;
    let (mut elsewhere, mut open) = (0, 0);
    database.rows("NVTX_EVENTS", &columns, 2, |row| {
        if !row.integer(1).is_some_and(|kind| RANGES.contains(&kind)) {
            return;
        }
        let (Some(start_ns), Some(end_ns)) = (row.integer(0), row.integer(2)) else {
            open += 1;
            return;
        };
        let thread = row.integer(5).unwrap_or(0);
        let Some(builder) = processes.get_mut(&process_key(thread)) else {
            elsewhere += 1;
            return;
        };
        let registered = || row.integer(4).and_then(|id| strings.get(&id).cloned());
        let text = row.text(3).or_else(registered).unwrap_or_default();
        let (name, operator) = operator(&text);
        let span = HostSpan {
            start_ns,
            end_ns: end_ns.max(start_ns),
            name: builder.name(name),
            thread: builder.thread(thread, thread_names),
            operands: Index::NONE,
        };
        builder.process.timeline.event_count += 1;
        if operator {
            builder.process.timeline.operators.push(span);
        } else {
            builder.process.timeline.annotations.push(span);
        }
    })?;
    if let Some(builder) = processes.values_mut().next() {
        builder.lose("ranges of processes that called no GPU", elsewhere);
        builder.lose("ranges that did not end", open);
    }
    Ok(())
}

/// The name of a range, and whether PyTorch's `emit_nvtx` wrote it.
fn operator(text: &str) -> (&str, bool) {
    let numbered = [", seq = ", ", op_id = "]
        .into_iter()
        .filter_map(|mark| text.find(mark))
        .min();
    match numbered.and_then(|at| text.get(..at)) {
        Some(name) => (name, true),
        None => (text, false),
    }
}

/// The profiler's own overhead: no gap under it is the job's fault.
pub(super) fn overhead(reading: &mut Reading) -> Result<(), NsightError> {
    let columns = ["start", "end", "globalTid", "nameId"];
    let Reading {
        database,
        strings,
        thread_names,
        processes,
    } = reading;
    for table in ["PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"] {
        database.rows(table, &columns, 2, |row| {
            let (Some(start_ns), Some(end_ns)) = (row.integer(0), row.integer(1)) else {
                return;
            };
            let thread = row.integer(2).unwrap_or(0);
            let Some(builder) = processes.get_mut(&process_key(thread)) else {
                return;
            };
            let name = match row.integer(3) {
                Some(id) => builder.name_of(id, strings),
                None => builder.name("overhead"),
            };
            let span = HostSpan {
                start_ns,
                end_ns: end_ns.max(start_ns),
                name,
                thread: builder.thread(thread, thread_names),
                operands: Index::NONE,
            };
            builder.process.timeline.event_count += 1;
            builder.process.timeline.overhead.push(span);
        })?;
    }
    Ok(())
}
