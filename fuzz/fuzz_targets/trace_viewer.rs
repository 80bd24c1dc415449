//! A trace of the viewer of TensorFlow and JAX, and a timeline of memory by category.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("trace_viewer", data));
