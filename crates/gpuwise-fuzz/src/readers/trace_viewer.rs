//! A trace of the viewer of TensorFlow and JAX, and a timeline of memory by category.

use gpuwise_measure::memory_snapshot::category_figures;
use gpuwise_read::memory_snapshot::read_category_timeline;
use gpuwise_read::trace_viewer::{is_trace_viewer, read_trace_viewer};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let _ = is_trace_viewer(data);
    if let Ok(timeline) = read_trace_viewer(data) {
        assert!(
            timeline
                .work
                .iter()
                .all(|work| work.start_ns <= work.end_ns)
        );
        assert!(timeline.work.len() as u64 <= timeline.event_count);
    }
    if let Ok(timeline) = read_category_timeline(data) {
        assert!(category_figures(&timeline).peak_live >= 0);
    }
}
