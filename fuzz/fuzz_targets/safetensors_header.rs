//! A header, its length field, an index, and what is made of the tensors.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("safetensors_header", data));
