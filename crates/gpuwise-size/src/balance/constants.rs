//! The constants of the balance by name.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::balance::BalanceConstant;

/// A constant that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no constant is called {0:?}; the balance needs it")]
pub struct MissingConstant(pub String);

macro_rules! constants {
    ($($variant:ident = $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Known { $($variant,)* }

        /// All of them with their names in the catalogue, in their order.
        const NAMES: &[&str] = &[$($name,)*];
    };
}

constants! {
    ReferenceClock = "reference_clock",
    ThreadsPerCore = "threads_per_core",
    DrivingCore = "driving_core",
    EngineProcesses = "engine_processes",
    ImageBytes = "image_bytes",
    SampleImage = "sample_image",
    TokenizerTokens = "tokenizer_tokens",
    StreamedToken = "streamed_token",
    PcieShare = "pcie_share",
    PeerShare = "peer_share",
    CrossingShare = "crossing_share",
    CrossingThroughHost = "crossing_share_through_host",
    FastLink = "fast_link",
    NetworkShare = "network_share",
    StorageShare = "storage_share",
    MemoryShare = "memory_share",
    LoadingCopies = "loading_copies",
    ProcessMemory = "process_memory",
    StartSeconds = "start_seconds",
    LeastLoss = "least_loss",
    LeastLossLink = "least_loss_link",
    LeastSaving = "least_saving",
    Room = "room",
}

#[derive(Debug, Clone, PartialEq)]
pub struct BalanceConstants {
    rows: Vec<BalanceConstant>,
}

impl BalanceConstants {
    /// From rows of the catalogue; of rows with one name the last counts.
    ///
    /// # Errors
    /// When one is missing.
    pub fn new(given: &[BalanceConstant]) -> Result<Self, MissingConstant> {
        let find = |name: &&str| {
            let found = given.iter().rev().find(|row| row.name == **name);
            found
                .cloned()
                .ok_or_else(|| MissingConstant((*name).into()))
        };
        let rows = NAMES.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self { rows })
    }

    /// A row: that it is there was asked when these were made.
    pub fn row(&self, known: Known) -> &BalanceConstant {
        &self.rows[known as usize]
    }

    pub fn get(&self, known: Known) -> f64 {
        self.row(known).value
    }
}
