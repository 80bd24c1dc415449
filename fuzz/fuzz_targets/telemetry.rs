//! Telemetry of any form, conditions, and metrics that programs send.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("telemetry", data));
