//! What tests share: the rules that the binary carries, and sample data where it is.

use gpuwise_domain::{gpu::PeakRates, profile::timeline::Timeline};
use gpuwise_measure::figures::{Classifier, Input, Measured, Settings, of_rank};
use std::{collections::BTreeMap, path::PathBuf};

/// The rules of the catalogue.
pub(crate) fn classifier() -> Classifier {
    let text = include_str!("../../../../catalogue/kernels.toml");
    let rules = gpuwise_read::kernel_rules::read("kernels.toml", text).expect("usable rules");
    Classifier::new(&rules)
}

/// The folder of sample profiles; `None`, said aloud, where there is none.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
pub(crate) fn profiles(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("GPUWISE_DATA").map(|data| PathBuf::from(data).join("profile"));
    let found = folder.filter(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED {test}: GPUWISE_DATA names no folder with profile/");
    }
    found
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
