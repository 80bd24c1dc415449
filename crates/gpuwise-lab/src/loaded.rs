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
    /// The user's files that were read, in order.
    pub files: Vec<PathBuf>,
}
