//! Exports of Nsight Systems.

use crate::profile::device::percent;
use gpuwise_domain::profile::sources::{NsightDevice, NsightSource};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Kernels of a device that are listed.
const TOP_KERNELS: usize = 5;
/// Calls that are listed.
const TOP_CALLS: usize = 6;

/// An SQLite export of Nsight Systems, over all its processes.
#[derive(Serialize, ToSchema)]
pub(super) struct NsightDocument {
    /// Rows of each table that has some; tables of constants are left out.
    tables_nonempty: BTreeMap<String, u64>,
    /// Versions that the export states.
    export: BTreeMap<&'static str, String>,
    /// Devices by their number that ran a kernel.
    devices: BTreeMap<String, NsightDeviceDocument>,
    /// Calls of the runtime: name, count, summed nanoseconds; the longest six.
    #[schema(value_type = Vec<Object>)]
    runtime_top: Vec<(String, u64, i64)>,
}

#[derive(Serialize, ToSchema)]
struct NsightDeviceDocument {
    n_kernels: u64,
    /// Copies and fills.
    n_mem: u64,
    span_ns: i64,
    busy_ns: i64,
    idle_pct: Option<f64>,
    kernel_sum_ns: i64,
    comp_union_ns: i64,
    /// Null where the export has no names.
    nccl_union_ns: Option<i64>,
    /// Null where the export has no names.
    n_nccl: Option<u64>,
    /// Kernels by short name: name, summed nanoseconds, count; the longest five.
    #[schema(value_type = Vec<Object>)]
    top5: Vec<(String, i64, u64)>,
}

impl From<&NsightSource> for NsightDocument {
    fn from(nsight: &NsightSource) -> Self {
        let stated = [
            ("EXPORT_PRODUCT_VERSION", &nsight.product_version),
            ("EXPORT_SCHEMA_VERSION", &nsight.schema_version),
        ];
        let stated = stated.into_iter();
        let devices = nsight.devices.iter();
        Self {
            tables_nonempty: nsight.tables.clone(),
            export: stated
                .filter_map(|(name, version)| Some((name, version.clone()?)))
                .collect(),
            devices: devices
                .map(|(number, device)| (number.to_string(), device.into()))
                .collect(),
            runtime_top: nsight.runtime.iter().take(TOP_CALLS).cloned().collect(),
        }
    }
}

impl From<&NsightDevice> for NsightDeviceDocument {
    fn from(device: &NsightDevice) -> Self {
        Self {
            n_kernels: device.kernel_count,
            n_mem: device.memory_count,
            span_ns: device.span_ns,
            busy_ns: device.busy_ns,
            idle_pct: percent(device.span_ns - device.busy_ns, device.span_ns),
            kernel_sum_ns: device.kernel_sum_ns,
            comp_union_ns: device.computation_ns,
            nccl_union_ns: device.nccl_ns,
            n_nccl: device.nccl_count,
            top5: device.kernels.iter().take(TOP_KERNELS).cloned().collect(),
        }
    }
}
