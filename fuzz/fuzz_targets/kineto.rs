//! A trace of the PyTorch profiler, compressed or not.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("kineto", data));
