//! A file of planes of TensorFlow or JAX.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("xplane", data));
