//! A model configuration.
#![no_main]

use gpuwise_read::config::read_config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(architecture) = read_config(text)
    {
        let _ = architecture.parameters();
        let _ = architecture.active_parameters();
        let _ = architecture.cache_elements_per_token();
    }
});
