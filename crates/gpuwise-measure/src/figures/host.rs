//! When the host did what.

use super::{
    intervals::Intervals,
    names::{Classifier, HostPurpose, Remembered},
};
use gpuwise_domain::profile::timeline::{HostSpan, Timeline};

/// When the host fetched data, waited for devices and copied; disjoint, the first that applies.
#[derive(Debug, Clone, Default)]
pub(super) struct HostTimes {
    /// Under a data loader's range.
    pub(super) loader: Intervals,
    /// In a call that waits for the device.
    pub(super) synchronisation: Intervals,
    /// In a call that copies or fills.
    pub(super) copy_calls: Intervals,
}

impl HostTimes {
    /// As a timeline has them.
    pub(super) fn new(timeline: &Timeline, names: &Classifier) -> Self {
        let mut purposes = Remembered::new(&timeline.names);
        let mut of = |span: &HostSpan| purposes.of(span.name, |name| names.host(name));
        let mut loader = Vec::new();
        let (mut waits, mut copies) = (Vec::new(), Vec::new());
        for span in timeline.annotations.iter().chain(&timeline.operators) {
            if of(span) == HostPurpose::Loader {
                loader.push((span.start_ns, span.end_ns));
            }
        }
        for span in &timeline.calls {
            match of(span) {
                HostPurpose::Synchronisation => waits.push((span.start_ns, span.end_ns)),
                HostPurpose::CopyCall => copies.push((span.start_ns, span.end_ns)),
                _ => {}
            }
        }
        let loader = Intervals::union(loader);
        let synchronisation = Intervals::union(waits).without(&loader);
        let copy_calls = Intervals::union(copies)
            .without(&loader)
            .without(&synchronisation);
        Self {
            loader,
            synchronisation,
            copy_calls,
        }
    }
}
