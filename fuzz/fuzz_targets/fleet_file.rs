//! Fleet files, job files, and what tools say of nodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("fleet_file", data));
