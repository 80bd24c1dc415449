//! Recordings that are laid beside a trace, in any form.

use super::telemetry::NAMES;
use gpuwise_domain::profile::joined::RecordedGroup;
use gpuwise_read::recording::read;

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(recording) = read(text, &NAMES) else {
        return;
    };
    assert!(!recording.series.is_empty());
    for series in &recording.series {
        assert!(!series.samples.is_empty());
        assert!(series.samples.is_sorted_by_key(|sample| sample.at_ns));
        // What an application computed may be no number.
        let counted = series.metric.group() != RecordedGroup::Application;
        assert!(!counted || series.samples.iter().all(|sample| sample.value.is_finite()));
    }
}
