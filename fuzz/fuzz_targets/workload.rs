//! A workload in each of its forms.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("workload", data));
