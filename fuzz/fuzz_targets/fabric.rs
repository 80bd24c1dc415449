//! Fabric files, and lists of fleets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("fabric", data));
