//! How a daemon stands: what it answers before it writes, and while it cannot.

use crate::http::Shared;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How it stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    Starts,
    /// Another writes the log.
    Waits,
    Writes,
    /// The log cannot be written now: why.
    Troubled(String),
    Stops,
}

/// Written by whoever writes the log, read by whoever answers.
#[derive(Debug, Clone)]
pub(crate) struct Standing(Arc<Mutex<Stage>>);

impl Standing {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Stage::Starts)))
    }

    pub(crate) fn set(&self, stage: Stage) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whatever else happens, it stops.
        if *now != Stage::Stops {
            *now = stage;
        }
    }

    /// Why it is not ready: a kind of problem, and what it is; `None`: it is.
    pub(crate) fn problem(&self) -> Option<(&'static str, String)> {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*now {
            Stage::Writes => None,
            Stage::Starts => Some(("starting", "the broker reads its log".into())),
            Stage::Waits => {
                let what = "another broker writes this log; this one waits until it is silent";
                Some(("waiting", what.into()))
            }
            Stage::Troubled(why) => Some(("store", format!("the log cannot be written: {why}"))),
            Stage::Stops => Some(("stopping", "the broker is stopping".into())),
        }
    }
}

/// What stands between HTTP and the broker: closed until there is a state to answer from.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) standing: Standing,
    shared: OnceLock<Arc<Shared>>,
}

impl Gate {
    pub(crate) const fn new(standing: Standing) -> Self {
        Self {
            standing,
            shared: OnceLock::new(),
        }
    }

    /// Opens it, once.
    pub(crate) fn open(&self, shared: Arc<Shared>) {
        let _ = self.shared.set(shared);
    }

    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.shared.get()
    }
}
