//! What few jobs have at a time: who is leaving, was in trouble, has work again, or changes.

use super::{Seldom, stints::Stint, trouble::Trouble, underway::Underway};
use gpuwise_domain::placement::{GpuId, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;
use std::ops::Deref;

/// What a job has at times; a pointer's room while it has none of it.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Rare(Option<Box<Rarely>>);

/// What most jobs have nothing of.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Rarely {
    /// Since when it has work again, while its GPUs are reclaimed.
    pub wanted: Option<Nanoseconds>,
    /// GPUs where it may still be though it was told to leave.
    pub leaving: Seldom<GpuId>,
    /// Nodes where its workers may still be though they were told to leave, once for each.
    pub leaving_hosts: Seldom<NodeId>,
    pub(super) stop: Option<Box<Underway>>,
    pub(super) trouble: Option<Box<Trouble>>,
    /// What it had saved when it last said so.
    pub(super) checkpoint: Option<Nanoseconds>,
    /// What a worker needs from its next start on, where that has changed.
    pub(super) next_ask: Option<Box<WorkerAsk>>,
    /// Where it ran before it ran where it is.
    pub(super) stints: Seldom<Stint>,
}

static NOTHING: Rarely = Rarely {
    wanted: None,
    leaving: Seldom::new(),
    leaving_hosts: Seldom::new(),
    stop: None,
    trouble: None,
    checkpoint: None,
    next_ask: None,
    stints: Seldom::new(),
};

impl Rare {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Changes it; of what is nothing then nothing is kept.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut Rarely) -> R) -> R {
        let all = self.0.get_or_insert_default();
        let result = change(all);
        if **all == NOTHING {
            self.0 = None;
        }
        result
    }

    /// It does not want anything back.
    pub(super) fn not_wanted(&mut self) {
        if self.wanted.is_some() {
            self.change(|rare| rare.wanted = None);
        }
    }
}

impl Deref for Rare {
    type Target = Rarely;

    fn deref(&self) -> &Rarely {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl PartialEq for Rare {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
