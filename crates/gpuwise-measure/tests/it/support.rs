//! What tests share: the rules that the binary carries.

use gpuwise_domain::{gpu::PeakRates, profile::timeline::Timeline};
use gpuwise_measure::figures::{Classifier, Input, Measured, Settings, of_rank};
use std::collections::BTreeMap;

/// The rules of the catalogue.
pub(crate) fn classifier() -> Classifier {
    let text = include_str!("../../../../catalogue/kernels.toml");
    let rules = gpuwise_read::kernel_rules::read("kernels.toml", text).expect("usable rules");
    Classifier::new(&rules)
}

/// Measures a whole timeline.
pub(crate) fn measured(timeline: &Timeline, names: &Classifier) -> Measured {
    of_rank(
        &Input {
            file: "test",
            rank: None,
            timeline,
        },
        &Settings {
            names,
            window: None,
            device: None,
            peaks: &BTreeMap::<String, PeakRates>::new(),
        },
    )
}

/// Reads a trace of the sample data.
pub(crate) fn trace(path: &std::path::Path) -> Timeline {
    let bytes = std::fs::read(path).expect("a readable trace");
    gpuwise_read::kineto::read_bytes(&bytes).expect("a trace")
}
