//! Proposals that were remembered, and what became of them.

use super::{Holder, ResourceRequest, Scope, proposal::ChangeKind};
use alloc::{string::String, vec::Vec};
use gpuwise_units::Money;

/// A proposal as it was made, with what there was before.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// Where it was seen; absent where that was not remembered.
    pub scope: Option<Scope>,
    pub holder: Holder,
    pub tenant: String,
    /// When it was made: the end of its window, seconds since 1970.
    pub made_at: i64,
    pub kind: ChangeKind,
    /// What was to be done, one by one.
    pub parts: Vec<ChangeKind>,
    /// The change in words.
    pub title: String,
    pub before: ResourceRequest,
    /// What it should ask for: slice, GPU, replicas or CPUs as the change has them.
    pub wanted: ResourceRequest,
    /// GPUs that it held before, averaged over its window; slices as shares.
    pub held: f64,
    /// What one GPU of it cost an hour then.
    pub price: Option<Money>,
    /// GPUs that the change was to free.
    pub predicted_gpus: f64,
    /// Money an hour that it was to save.
    pub predicted: Option<Money>,
    /// Mean seconds of its requests before, where its engine tells.
    pub latency: Option<f64>,
}

gpuwise_units::named! {
    /// What became of a proposal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum State:
        /// Its name in JSON, CSV and databases.
        name,
        title
    {
        /// Applied, and the saving came.
        Proven = "proven", "proven",
        /// Applied, and less came than the tolerance allows.
        Short = "short", "fell short",
        /// The workload changed in another way.
        Otherwise = "otherwise", "changed otherwise",
        /// Nothing was changed yet.
        Open = "open", "not applied",
        Untold = "untold", "cannot be told",
        /// This look is not at where it was seen, and tells nothing of it.
        Elsewhere = "elsewhere", "out of scope",
    }
}

impl State {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What became of a proposal, and how it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub state: State,
    /// GPUs that were freed.
    pub gpus: Option<f64>,
    /// Money an hour that was saved.
    pub saved: Option<Money>,
    /// Mean seconds of its requests since.
    pub latency: Option<f64>,
    /// How it is known, or why it cannot be told.
    pub why: String,
}
