//! A dump of the NCCL flight recorder, as JSON or as a pickle.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuwise_fuzz::check("flight_recorder", data));
