//! A catalogue file of a user's own: the first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("catalogue", data));
