//! What was learned from measured rows: constants, the spread of their errors, and a user's own
//! corrections.

mod feedback;
mod ranges;

pub use feedback::{Correction, Feedback, Observation};
pub use ranges::{MetricClass, Range, RangeRow, Ranges};

use crate::constants::Constants;
use gpuwise_domain::engine::EngineKind;

/// Everything learned that a prediction rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    /// Constants of servers.
    pub serving: Constants,
    /// Constants of llama.cpp, whose kernels share nothing with those of servers.
    pub local: Constants,
    /// How far measured values lay from predictions that had not seen them.
    pub ranges: Ranges,
    /// Corrections by a user's own rows.
    pub feedback: Feedback,
}

impl Knowledge {
    /// The constants of an engine.
    pub const fn constants(&self, engine: EngineKind) -> &Constants {
        match engine {
            EngineKind::LlamaCpp => &self.local,
            _ => &self.serving,
        }
    }

    /// Whether an engine profile and a hardware generation were both fitted on.
    pub fn was_fitted(&self, engine: EngineKind, generation: &str, profile: &str) -> bool {
        let place = self.constants(engine).place(generation, profile);
        place.generation.is_some() && place.profile.is_some()
    }
}
