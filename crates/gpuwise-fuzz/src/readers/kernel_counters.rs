//! An export of Nsight Compute.

use gpuwise_measure::kernel_counters::counters_source;
use gpuwise_read::kernel_counters::{
    default_counter_rules, is_kernel_counters, read_kernel_counters,
};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let rules = default_counter_rules().expect("the rules of the catalogue");
    let read = read_kernel_counters(data, &rules);
    if let Ok(counters) = read {
        assert!(is_kernel_counters(data) || data.len() > 1 << 20);
        let source = counters_source(counters, &rules);
        assert_eq!(source.figures.len(), source.counters.launches.len());
    }
}
