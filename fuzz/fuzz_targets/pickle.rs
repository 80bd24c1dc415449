//! A pickle of plain data, and a memory snapshot in one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("pickle", data));
