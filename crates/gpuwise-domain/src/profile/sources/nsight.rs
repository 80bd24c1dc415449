//! Figures of an export of Nsight Systems as a whole.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// An export, measured as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NsightSource {
    /// Version of the profiler, where stated.
    pub product_version: Option<String>,
    /// Version of the schema, where stated.
    pub schema_version: Option<String>,
    pub tables: BTreeMap<String, u64>,
    /// Figures by device number, over all processes.
    pub devices: BTreeMap<i64, NsightDevice>,
    /// Calls of the runtime and driver with count and summed nanoseconds, the longest first.
    pub runtime: Vec<(String, u64, i64)>,
    pub processes: Vec<(i64, Option<String>)>,
}

/// Figures of one device; nanoseconds unless said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NsightDevice {
    pub kernel_count: u64,
    pub memory_count: u64,
    /// From the first start to the last end of all work.
    pub span_ns: i64,
    /// Union of all work.
    pub busy_ns: i64,
    pub kernel_sum_ns: i64,
    /// Union of kernels that do not communicate.
    pub computation_ns: i64,
    /// Union of kernels of NCCL, by their short names.
    pub nccl_ns: Option<i64>,
    /// How many there are; with the time absent where the file has no names.
    pub nccl_count: Option<u64>,
    /// Kernels by short name with time and count, the longest first.
    pub kernels: Vec<(String, i64, u64)>,
}

impl NsightDevice {
    /// Idle time in percent of the span; absent where the span is empty.
    pub fn idle_percent(&self) -> Option<f64> {
        let idle = self.span_ns - self.busy_ns;
        (self.span_ns > 0).then(|| 100.0 * idle as f64 / self.span_ns as f64)
    }
}
