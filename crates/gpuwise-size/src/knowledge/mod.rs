//! What was learned from measured rows: constants, which cells they were fitted in, the spread of
//! their errors, and a user's own corrections.

mod cells;
mod corrections;
mod feedback;
mod ranges;

pub use cells::{ArchitectureClass, Cell, Cells, FittedCell, Regime, Standing};
pub use corrections::Corrections;
pub use feedback::{Feedback, MeasuredPlace, MeasuredSystem, Narrowed, Observation, Sensitivity};
pub use ranges::{MetricClass, Range, RangeRow, Ranges};

use crate::{constants::Constants, engines, setup::Setup};
use gpuwise_domain::{engine::EngineKind, layout::Layout};

/// Everything learned that a prediction rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    pub serving: Constants,
    /// Constants of llama.cpp, whose kernels share nothing with those of servers.
    pub local: Constants,
    /// What rows they were fitted on, by what was measured together.
    pub cells: Cells,
    /// How far measured values lay from predictions that had not seen them.
    pub ranges: Ranges,
    /// Corrections by a user's own rows.
    pub feedback: Feedback,
}

impl Knowledge {
    pub fn constants(&self, engine: EngineKind) -> &Constants {
        if engines::model(engine).is_local() {
            &self.local
        } else {
            &self.serving
        }
    }

    /// A setup of a model of this name, its steps corrected by what the user measured of them.
    #[must_use]
    pub fn corrected<'a>(&self, setup: Setup<'a>, model: &str) -> Setup<'a> {
        if self.feedback.observations.is_empty() {
            return setup;
        }
        let layout = Layout {
            replicas: 1,
            ..setup.layout
        };
        let system = MeasuredSystem::of(&setup, model);
        Setup {
            corrections: self.feedback.corrections(&system, layout),
            ..setup
        }
    }

    /// How a setup under a kind of load stands to what was fitted.
    pub fn standing(&self, setup: &Setup<'_>, regime: Regime) -> Standing {
        self.cells.standing(&Cell::of(setup, regime))
    }
}
