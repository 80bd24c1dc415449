//! Tables of usage, and files of thresholds and names.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("usage", data));
