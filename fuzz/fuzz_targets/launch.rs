//! A launch command, with the facts of every engine.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("launch", data));
