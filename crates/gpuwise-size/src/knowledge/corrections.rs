//! Factors on step times and on waits, as a user's own rows give them.

use super::feedback::{Axes, MeasuredPlace, Part};
use alloc::{sync::Arc, vec::Vec};
use gpuwise_domain::layout::Layout;

/// Factors on the steps of one deployment; 1 everywhere where nothing was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Corrections {
    /// On steps that decode.
    pub(super) steps: Option<Arc<Curve>>,
    /// On what prompts add to steps.
    pub(super) prompts: Option<Arc<Curve>>,
    /// On the time to first token of requests that are served, beyond what steps make of it.
    pub(super) waits: Option<Arc<Curve>>,
}

/// One row of the mean of a Gaussian process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Anchor {
    /// From the middle of all rows.
    pub(super) at: Axes,
    /// What its layout shares with the one that is asked.
    pub(super) sharing: f64,
    /// What it counts: its place in K⁻¹ r, times how far it moves with this part.
    pub(super) count: f64,
}

/// The mean of a Gaussian process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    part: Part,
    anchors: Vec<Anchor>,
    /// What the rows say by other parts, which is the same everywhere.
    level: f64,
    middle: Axes,
}

/// Logarithm of the largest factor, either way: beyond what is believed of a file (20 times), so that its rows still
/// move with it.
const MOST_CORRECTED: f64 = 3.5;

impl Curve {
    pub(super) fn new(part: Part, anchors: Vec<Anchor>, level: f64, middle: Axes) -> Self {
        Self {
            part,
            anchors,
            level,
            middle,
        }
    }

    /// The factor; what is unknown of a place is taken to be as in the middle of the rows.
    fn factor(&self, place: &MeasuredPlace) -> f64 {
        let at = place.from(&self.middle);
        let shares = self
            .anchors
            .iter()
            .map(|anchor| anchor.count * self.part.covariance(&at, &anchor.at, anchor.sharing));
        let sum = self.level + shares.sum::<f64>();
        libm::exp(sum.clamp(-MOST_CORRECTED, MOST_CORRECTED))
    }
}

impl Corrections {
    /// One factor on every step that decodes, and another on what prompts add.
    pub fn constant(steps: f64, prompts: f64) -> Self {
        Self::default().times(steps, prompts)
    }

    /// The same, every step that decodes so many times as long, and what prompts add.
    #[must_use]
    pub fn times(&self, steps: f64, prompts: f64) -> Self {
        let more = |part: Part, curve: &Option<Arc<Curve>>, factor: f64| {
            let (anchors, level, middle) = match curve {
                Some(curve) => (curve.anchors.clone(), curve.level, curve.middle),
                None => (Vec::new(), 0.0, Axes::default()),
            };
            let level = level + libm::log(factor);
            Some(Arc::new(Curve::new(part, anchors, level, middle)))
        };
        Self {
            steps: more(Part::Steps, &self.steps, steps),
            prompts: more(Part::Prompts, &self.prompts, prompts),
            waits: self.waits.clone(),
        }
    }

    pub fn is_none(&self) -> bool {
        self.steps.is_none() && self.prompts.is_none() && self.waits.is_none()
    }

    /// Whether steps or prompts are corrected.
    pub const fn has_steps(&self) -> bool {
        self.steps.is_some() || self.prompts.is_some()
    }

    /// On waits, in the middle of the rows of first tokens; `None`: there are none.
    pub fn usual_waits(&self) -> Option<f64> {
        let middle = MeasuredPlace::unknown(Layout::tensor(1));
        self.waits.as_ref().map(|waits| waits.factor(&middle))
    }

    /// On a step that decodes at a place.
    pub fn of_steps(&self, place: &MeasuredPlace) -> f64 {
        factor(self.steps.as_ref(), place)
    }

    /// On what prompts add to a step.
    pub fn of_prompts(&self, place: &MeasuredPlace) -> f64 {
        factor(self.prompts.as_ref(), place)
    }

    /// On a time to first token that steps make so long.
    pub fn of_waits(&self, place: &MeasuredPlace) -> f64 {
        factor(self.waits.as_ref(), place)
    }

    /// On steps that decode and on what prompts add, in the middle of the rows.
    pub fn usual(&self) -> (f64, f64) {
        let middle = MeasuredPlace::unknown(Layout::tensor(1));
        (self.of_steps(&middle), self.of_prompts(&middle))
    }
}

fn factor(curve: Option<&Arc<Curve>>, place: &MeasuredPlace) -> f64 {
    curve.map_or(1.0, |curve| curve.factor(place))
}
