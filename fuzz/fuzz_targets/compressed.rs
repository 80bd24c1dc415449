//! The parts of a matrix in fewer bits, and what is made of these numbers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("compressed", data));
