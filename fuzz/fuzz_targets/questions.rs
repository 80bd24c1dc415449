//! A table of questions.
#![no_main]

use gpuwise_read::question::read_questions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = read_questions(text);
    }
});
