//! A header, whole and in part, and the model that it describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("gguf_header", data));
