//! A model configuration, also read as a network that is run whole.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("config_json", data));
