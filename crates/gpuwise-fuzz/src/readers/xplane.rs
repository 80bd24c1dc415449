//! A file of planes of TensorFlow or JAX.

use gpuwise_measure::planes::planes_source;
use gpuwise_read::xplane::{is_xplane, read_planes, timeline};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let _ = is_xplane(data);
    if let Ok(planes) = read_planes(data) {
        let events: u64 = planes_source(&planes)
            .planes
            .iter()
            .map(|p| p.figures.event_count)
            .sum();
        assert!(events <= data.len() as u64);
        assert!(
            timeline(&planes)
                .work
                .iter()
                .all(|work| work.start_ns <= work.end_ns)
        );
    }
}
