//! Recordings beside a trace: tables, JSON, answers of Prometheus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("recording", data));
