//! Figures of an export of Nsight Systems as a whole: by device number over all its processes.

use crate::figures::intervals::Intervals;
use gpuwise_domain::profile::nsight::NsightExport;
use gpuwise_domain::profile::sources::{NsightDevice, NsightSource};
use gpuwise_domain::profile::timeline::WorkClass;
use std::collections::BTreeMap;

/// An export, measured as a whole.
pub fn nsight_source(export: &NsightExport) -> NsightSource {
    let processes = export.processes.iter();
    NsightSource {
        product_version: export.product_version.clone(),
        schema_version: export.schema_version.clone(),
        tables: export.tables.clone(),
        devices: nsight_devices(export),
        runtime: runtime_calls(export)
            .into_iter()
            .map(|(name, count, sum)| (name.to_owned(), count, sum))
            .collect(),
        processes: processes
            .map(|process| (process.id, process.name.clone()))
            .collect(),
    }
}

/// Figures by device number. Devices without a kernel are left out.
pub fn nsight_devices(export: &NsightExport) -> BTreeMap<i64, NsightDevice> {
    #[derive(Default)]
    struct Collected<'n> {
        all: Vec<(i64, i64)>,
        computation: Vec<(i64, i64)>,
        nccl: Vec<(i64, i64)>,
        names: BTreeMap<&'n str, (i64, u64)>,
        figures: NsightDevice,
    }
    let mut devices: BTreeMap<i64, Collected<'_>> = BTreeMap::new();
    for process in &export.processes {
        for work in &process.timeline.work {
            let Some(device) = process.timeline.device_of(work) else {
                continue;
            };
            let collected = devices.entry(device.number).or_default();
            let span = (work.start_ns, work.end_ns);
            collected.all.push(span);
            if work.class != WorkClass::Kernel {
                collected.figures.memory_count += 1;
                continue;
            }
            let short = process.short_name(work.name);
            let length = work.end_ns.saturating_sub(work.start_ns);
            collected.figures.kernel_count += 1;
            collected.figures.kernel_sum_ns += length;
            let (sum, count) = collected.names.entry(short).or_default();
            *sum += length;
            *count += 1;
            if short.to_ascii_lowercase().contains("nccl") {
                collected.nccl.push(span);
            } else {
                collected.computation.push(span);
            }
        }
    }
    let named = export.tables.contains_key("StringIds");
    let finished = devices.into_iter().filter_map(|(number, collected)| {
        let all = Intervals::union(collected.all);
        let (first, last) = all.hull()?;
        let mut kernels: Vec<_> = collected
            .names
            .into_iter()
            .map(|(name, (sum, count))| (name.to_owned(), sum, count))
            .collect();
        kernels.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let figures = NsightDevice {
            span_ns: last.saturating_sub(first),
            busy_ns: all.length(),
            computation_ns: Intervals::union(collected.computation).length(),
            nccl_count: named.then_some(collected.nccl.len() as u64),
            nccl_ns: named.then(|| Intervals::union(collected.nccl).length()),
            kernels,
            ..collected.figures
        };
        (figures.kernel_count > 0).then_some((number, figures))
    });
    finished.collect()
}

/// Calls of the runtime and the driver by name with count and summed time, the longest first, over all
/// processes and threads.
pub fn runtime_calls(export: &NsightExport) -> Vec<(&str, u64, i64)> {
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for process in &export.processes {
        for call in &process.timeline.calls {
            let name = process.timeline.names.text(call.name);
            let (count, sum) = sums.entry(name).or_default();
            *count += 1;
            *sum += call.end_ns.saturating_sub(call.start_ns);
        }
    }
    let named = sums.into_iter();
    let mut calls: Vec<_> = named
        .map(|(name, (count, sum))| (name, count, sum))
        .collect();
    calls.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
    calls
}
