//! Exports of Nsight Systems.

use crate::{mirror::written, profile::device::percent};
use gpuwise_domain::profile::sources::{NsightDevice, NsightSource};
use std::collections::BTreeMap;

/// Kernels of a device that are listed.
const TOP_KERNELS: usize = 5;
/// Calls that are listed.
const TOP_CALLS: usize = 6;

written! {
    /// An SQLite export of Nsight Systems, over all its processes.
    pub(super) NsightDocument = |nsight: &NsightSource| {
        /// Rows of each table that has some; tables of constants are left out.
        tables_nonempty: BTreeMap<String, u64> = nsight.tables.clone(),
        /// Versions that the export states.
        export: BTreeMap<&'static str, String> = stated(nsight),
        /// Devices by their number that ran a kernel.
        devices: BTreeMap<String, NsightDeviceDocument> = (nsight.devices.iter()).map(|(number, device)| (number.to_string(), device.into())).collect(),
        /// Calls of the runtime: name, count, summed nanoseconds; the longest six.
        #[schema(value_type = Vec<Object>)]
        runtime_top: Vec<(String, u64, i64)> = nsight.runtime.iter().take(TOP_CALLS).cloned().collect(),
    }
}

written! {
    NsightDeviceDocument = |device: &NsightDevice| {
        n_kernels: u64 = device.kernel_count,
        /// Copies and fills.
        n_mem: u64 = device.memory_count,
        span_ns: i64 = device.span_ns,
        busy_ns: i64 = device.busy_ns,
        idle_pct: Option<f64> = percent(device.span_ns - device.busy_ns, device.span_ns),
        kernel_sum_ns: i64 = device.kernel_sum_ns,
        comp_union_ns: i64 = device.computation_ns,
        /// Null where the export has no names.
        nccl_union_ns: Option<i64> = device.nccl_ns,
        /// Null where the export has no names.
        n_nccl: Option<u64> = device.nccl_count,
        /// Kernels by short name: name, summed nanoseconds, count; the longest five.
        #[schema(value_type = Vec<Object>)]
        top5: Vec<(String, i64, u64)> = device.kernels.iter().take(TOP_KERNELS).cloned().collect(),
    }
}

fn stated(nsight: &NsightSource) -> BTreeMap<&'static str, String> {
    let stated = [
        ("EXPORT_PRODUCT_VERSION", &nsight.product_version),
        ("EXPORT_SCHEMA_VERSION", &nsight.schema_version),
    ];
    let stated = stated.into_iter();
    stated
        .filter_map(|(name, version)| Some((name, version.clone()?)))
        .collect()
}
