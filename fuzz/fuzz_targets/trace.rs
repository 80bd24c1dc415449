//! A trace of any kind, packed or not.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("trace", data));
