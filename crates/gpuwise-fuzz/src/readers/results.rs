//! A result file of any load generator.

use gpuwise_read::results::read_results;

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for measurement in read_results(text).unwrap_or_default() {
        for metric in &measurement.metrics {
            assert!(metric.value.is_finite() && metric.value > 0.0);
        }
    }
}
