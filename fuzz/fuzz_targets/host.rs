//! Host files, what runs, and constants of the balance.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("host", data));
