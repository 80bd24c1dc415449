//! A saved deployment or run: what is read is written and read again as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("document", data));
