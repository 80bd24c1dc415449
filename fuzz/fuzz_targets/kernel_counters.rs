//! An export of Nsight Compute.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("kernel_counters", data));
