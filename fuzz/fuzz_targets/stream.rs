//! The answer of a server: a stream of events, cut anywhere, and what each event says.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("stream", data));
