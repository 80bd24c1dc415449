//! Work on GPUs: kernels, graphs, copies, fills.

use super::NsightError;
use super::build::{Builder, ProcessKey, process_key};
use super::copies::copy;
use super::database::Row;
use super::read::Reading;
use gpuwise_domain::profile::timeline::{Detail, Index, LaunchShape, NameId, Work, WorkClass};

/// Columns that every table of work begins with here: those before `NEEDED` must be there.
const COMMON: [&str; 6] = [
    "start",
    "end",
    "deviceId",
    "streamId",
    "correlationId",
    "globalPid",
];
const NEEDED: usize = 3;

struct Common {
    start_ns: i64,
    end_ns: i64,
    device: i64,
    stream: i64,
    correlation: Option<i64>,
    ends_early: bool,
}

/// The process of a row, and what all work has; `None` where the row has no time or device.
fn common(row: &Row<'_>, only: Option<ProcessKey>) -> Option<(ProcessKey, Common)> {
    let (start_ns, end_ns) = (row.integer(0)?, row.integer(1)?);
    let key = match row.integer(5) {
        Some(global) => process_key(global),
        // Trimmed exports have no process: the only one that called the runtime it is.
        None => only.unwrap_or(0),
    };
    let common = Common {
        start_ns,
        end_ns: end_ns.max(start_ns),
        device: row.integer(2)?,
        stream: row.integer(3).unwrap_or(0),
        correlation: row.integer(4),
        ends_early: end_ns < start_ns,
    };
    Some((key, common))
}

impl Builder {
    fn work(&mut self, common: &Common, name: NameId, detail: Index, class: WorkClass) {
        let call = common.correlation.and_then(|id| self.calls.get(&id));
        let call = call.copied().unwrap_or(Index::NONE);
        let stream = self.stream(common.device, common.stream);
        if common.ends_early {
            self.lose("work that ends before it starts, taken without a length", 1);
        }
        self.process.timeline.event_count += 1;
        self.process.timeline.work.push(Work {
            start_ns: common.start_ns,
            end_ns: common.end_ns,
            name,
            stream,
            call,
            operator: Index::NONE,
            detail,
            class,
        });
    }
}

impl Reading {
    /// The process of rows that name none: the only one there is.
    fn only_process(&self) -> Option<ProcessKey> {
        let mut keys = self.processes.keys();
        let first = keys.next().copied();
        first.filter(|_| keys.next().is_none())
    }

    /// Reads a table of work, and says how many rows had no time.
    fn work_of(
        &mut self,
        table: &str,
        more: &[&str],
        mut take: impl FnMut(&mut Builder, &Common, &Row<'_>, &std::collections::HashMap<i64, String>),
    ) -> Result<u64, NsightError> {
        let columns: Vec<&str> = COMMON.iter().chain(more).copied().collect();
        let only = self.only_process();
        let mut lost = 0;
        let (strings, processes) = (&self.strings, &mut self.processes);
        let rows = self.database.rows(table, &columns, NEEDED, |row| {
            if let Some((key, common)) = common(row, only) {
                let builder = processes.entry(key).or_default();
                take(builder, &common, row, strings);
            } else {
                lost += 1;
            }
        })?;
        if let Some(builder) = self.processes.values_mut().next() {
            builder.lose(&format!("rows of {table} without a time or a device"), lost);
        }
        Ok(rows)
    }
}

/// Columns of a kernel beyond those of all work.
const KERNEL: [&str; 11] = [
    "demangledName",
    "shortName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
];

/// Kernels, those of graphs included.
pub(super) fn kernels(reading: &mut Reading) -> Result<(), NsightError> {
    reading.work_of(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        &KERNEL,
        |builder, common, row, strings| {
            let (full, short) = (row.integer(6), row.integer(7));
            let known = full
                .filter(|id| strings.contains_key(id))
                .or(short)
                .or(full);
            let name = match known {
                Some(id) => builder.name_of(id, strings),
                None => builder.name("kernel without a name"),
            };
            if let Some(short) = short {
                let text = strings.get(&short).cloned();
                let text = text.unwrap_or_else(|| short.to_string());
                builder
                    .process
                    .short_names
                    .entry(name)
                    .or_insert(text.into());
            }
            let small = |column| row.integer(column).and_then(|n| u32::try_from(n).ok());
            let three = |first| Some([small(first)?, small(first + 1)?, small(first + 2)?]);
            let shared = |column| row.integer(column).and_then(|n| u64::try_from(n).ok());
            let detail = builder.detail(Detail::Launch(LaunchShape {
                grid: three(8),
                block: three(11),
                registers_per_thread: small(14),
                shared_memory: shared(15).and_then(|fixed| fixed.checked_add(shared(16)?)),
                blocks_per_multiprocessor: None,
                occupancy_percent: None,
            }));
            builder.work(common, name, detail, WorkClass::Kernel);
        },
    )?;
    Ok(())
}

/// Graphs that were traced as one piece each.
pub(super) fn graphs(reading: &mut Reading) -> Result<(), NsightError> {
    let table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    let rows = reading.work_of(table, &["graphId"], |builder, common, row, _| {
        let name = match row.integer(6) {
            Some(graph) => builder.name(&format!("CUDA graph {graph}")),
            None => builder.name("CUDA graph"),
        };
        builder.work(common, name, Index::NONE, WorkClass::Kernel);
    })?;
    if let Some(builder) = reading.processes.values_mut().next() {
        builder.lose(
            "graphs that were traced whole: their kernels are not in the file; \
             profile with --cuda-graph-trace=node",
            rows,
        );
    }
    Ok(())
}

pub(super) fn copies(reading: &mut Reading) -> Result<(), NsightError> {
    let more = ["copyKind", "srcKind", "dstKind", "bytes"];
    reading.work_of(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        &more,
        |builder, common, row, _| {
            let (name, shape) = copy(
                row.integer(6),
                row.integer(7),
                row.integer(8),
                row.integer(9),
            );
            let name = builder.name(&name);
            let detail = builder.detail(Detail::Copy(shape));
            builder.work(common, name, detail, WorkClass::Copy);
        },
    )?;
    Ok(())
}

pub(super) fn fills(reading: &mut Reading) -> Result<(), NsightError> {
    let more = ["bytes", "memKind"];
    reading.work_of(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        &more,
        |builder, common, row, _| {
            let name = match row.integer(7) {
                Some(0) => "Memset (Pageable)",
                Some(1) => "Memset (Pinned)",
                Some(2) => "Memset (Device)",
                Some(4) => "Memset (Managed)",
                _ => "Memset (Unknown)",
            };
            let name = builder.name(name);
            let bytes = row.integer(6).and_then(|bytes| u64::try_from(bytes).ok());
            let detail = bytes.map_or(Index::NONE, |bytes| builder.detail(Detail::Set(bytes)));
            builder.work(common, name, detail, WorkClass::Set);
        },
    )?;
    Ok(())
}
