//! What rows are read against.

use gpuwise_domain::{
    catalogue::{Catalogue, SizeClass},
    media::MediaBenchmark,
    profile::finding::Threshold,
};
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue};
use gpuwise_size::media::Constants;
use std::path::PathBuf;

/// The catalogue with everything that users added.
#[derive(Debug, Default)]
pub struct Loaded {
    pub catalogue: Catalogue,
    /// Classes of model sizes, and who stands for them.
    pub size_classes: Vec<SizeClass>,
    pub models: ModelCatalogue,
    /// Diffusion, vision and embedding models, by name.
    pub networks: NetworkCatalogue,
    /// What published benchmarks of such networks run.
    pub media_benchmarks: Vec<MediaBenchmark>,
    /// Fitted constants of such networks.
    pub media: Constants,
    /// The user's thresholds of findings, in place of those that findings state.
    pub finding_thresholds: Vec<Threshold>,
    /// The user's files of rows that are read where they are used, in order.
    pub own: Vec<OwnFile>,
    /// The user's files that were read, in order.
    pub files: Vec<PathBuf>,
    /// Tables of rows that were measured, besides those that the user keeps.
    pub measured: Vec<String>,
}

/// Rows that are read where they are used, not when the catalogue is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnRows {
    EngineFacts,
    /// What names of kernels and calls say.
    KernelNames,
    KernelCounters,
    /// Thresholds of audits, and the names that their metrics have.
    Audit,
    TelemetryThresholds,
    TelemetryFields,
    DcgmFields,
    XidErrors,
    Costs,
    HostBalance,
    Reliability,
    TierRules,
    PcieCollectives,
    /// Fitted constants of language models.
    Constants,
    /// Fitted operator functions.
    Operators,
    Evidence,
    /// What opens which form of weights.
    WeightLoaders,
}

/// A file of the user's catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFile {
    pub rows: OwnRows,
    pub file: String,
    pub text: String,
}

impl Loaded {
    /// The user's files of such rows as name and text; later ones win.
    pub fn own(&self, rows: OwnRows) -> impl Iterator<Item = (&str, &str)> {
        let files = self.own.iter().filter(move |file| file.rows == rows);
        files.map(|file| (file.file.as_str(), file.text.as_str()))
    }
}
