//! What tests know of this executor: where it can be stopped, as a broker that is killed there.

use super::{Local, Own, supervisor};
use std::path::PathBuf;

/// Where a broker ends while it starts something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its supervisor is there, and is not noted.
    Spawned,
    /// It is noted, and was not told to begin.
    Noted,
    /// It was told to begin, and nobody has heard of it.
    Begun,
}

impl Stop {
    pub(crate) const ALL: [Self; 3] = [Self::Spawned, Self::Noted, Self::Begun];
}

impl Local {
    pub(crate) const fn stopping_at(mut self, stop: Stop) -> Self {
        self.stops = Some(stop);
        self
    }

    /// Ends what it does there, as if it were killed: nothing is put in order.
    pub(super) fn stops_at(&self, stop: Stop) -> Result<(), String> {
        match self.stops {
            Some(own) if own == stop => Err("the broker was killed".into()),
            _ => Ok(()),
        }
    }
}

impl Own {
    /// Of a log that is known by the folder.
    pub(crate) fn in_test(state: PathBuf) -> Self {
        Self {
            broker: crate::token::hash(&state.display().to_string()),
            secrets: crate::secrets::Secrets::open(state.join("secrets")).expect("a folder"),
            state,
            supervisor: supervisor::tests::of_tests(),
        }
    }
}
