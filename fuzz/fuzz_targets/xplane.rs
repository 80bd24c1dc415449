//! A file of planes of TensorFlow or JAX.
#![no_main]

use gpuwise_measure::planes::planes_source;
use gpuwise_read::xplane::{is_xplane, read_planes, timeline};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = is_xplane(data);
    if let Ok(planes) = read_planes(data) {
        let events: u64 = planes_source(&planes).planes.iter().map(|p| p.figures.event_count).sum();
        assert!(events <= data.len() as u64);
        assert!(timeline(&planes).work.iter().all(|work| work.start_ns <= work.end_ns));
    }
});
