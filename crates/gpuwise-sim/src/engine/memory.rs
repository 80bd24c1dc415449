//! What SGLang's rules remember from step to step.

use super::settings::Policy;

/// What its rules remember from step to step.
#[derive(Debug, Default)]
pub(super) struct SglangState {
    pub(super) first_ratio: f64,
    least_ratio: f64,
    decay: f64,
    /// The share of the remaining output that admission keeps free, as of `steps` decode steps ago.
    from_ratio: f64,
    steps: u64,
    /// The one sequence whose prompt is computed in chunks.
    pub(super) chunked: Option<u32>,
    /// No request joins until a sequence has left.
    pub(super) full: bool,
    /// A sequence has left since the decode step planned last.
    pub(super) left: bool,
    /// Decodes that wait for steps of prompts: (since, how many); the end of time: from the step that is
    /// planned.
    pub(super) groups: Vec<(u64, u32)>,
}

impl SglangState {
    pub(super) fn new(policy: &Policy) -> Self {
        let Policy::Sglang(rules) = policy else {
            return Self::default();
        };
        let first_ratio = (rules.initial_ratio * rules.conservativeness).min(1.0);
        let least_ratio = (first_ratio * rules.least_ratio).min(1.0);
        Self {
            first_ratio,
            least_ratio,
            decay: (first_ratio - least_ratio) / f64::from(rules.ratio_steps.max(1)),
            from_ratio: first_ratio,
            ..Self::default()
        }
    }

    pub(super) fn ratio(&self) -> f64 {
        (self.from_ratio - self.decay * self.steps as f64).max(self.least_ratio)
    }

    pub(super) fn set_ratio(&mut self, ratio: f64) {
        self.from_ratio = ratio;
        self.steps = 0;
    }

    /// Steps of decodes were planned.
    pub(super) fn decoded(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// A sequence left; `at_once` with its first token.
    pub(super) fn left(&mut self, at_once: bool) {
        self.left = true;
        self.full &= !at_once;
    }

    /// The planned step begins.
    pub(super) fn starts(&mut self, now: u64) {
        for group in &mut self.groups {
            group.0 = group.0.min(now);
        }
    }

    /// A sequence leaves the batch otherwise than by its end.
    pub(super) fn forget(&mut self, slot: u32) {
        if self.chunked == Some(slot) {
            self.chunked = None;
        }
    }

    /// Whether no request can join before a sequence leaves.
    pub(super) fn closed(&self) -> bool {
        self.full && self.chunked.is_none()
    }
}
