//! A result file of any load generator.
#![no_main]

use gpuwise_read::results::read_results;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for measurement in read_results(text).unwrap_or_default() {
        for metric in &measurement.metrics {
            assert!(metric.value.is_finite() && metric.value > 0.0);
        }
    }
});
