//! A trace of the PyTorch profiler, compressed or not.

use gpuwise_read::kineto::{Limits, Vocabulary, open, read};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    // Small limits, so that the ways around them are taken too.
    let limits = Limits {
        largest_piece: 4096,
        most_spans: 1000,
        most_text_bytes: 1 << 16,
        most_streams: 8,
    };
    if let Ok(timeline) = read(open(data), &Vocabulary::default(), &limits) {
        for work in &timeline.work {
            assert!(work.start_ns <= work.end_ns);
            assert!(timeline.device_of(work).is_some());
            assert!(work.call.get().is_none() || timeline.call_of(work).is_some());
            assert!(work.operator.get().is_none() || timeline.operator_of(work).is_some());
            assert!(work.detail.get().is_none() || timeline.detail_of(work).is_some());
        }
        assert!(timeline.work.len() as u64 <= timeline.event_count);
        for span in timeline.calls.iter().chain(&timeline.operators) {
            assert!((span.thread as usize) < timeline.threads.len());
        }
    }
}
