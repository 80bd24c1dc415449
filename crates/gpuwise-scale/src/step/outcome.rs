//! What came of it.

/// What a service came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepOutcome {
    pub requests: f64,
    pub late: f64,
    /// Requests that ran on a machine that was taken away, and began anew.
    pub restarted: f64,
    /// Requests that came while nothing served.
    pub held: f64,
    /// What it costs: all that is held, warm replicas at their share.
    pub cost: f64,
    /// What it would cost if every request were served at the least price there is of one, on parts of replicas.
    pub bound: f64,
    /// Times that the number of replicas of a variant was changed.
    pub changes: u32,
    /// Replicas whose machines were taken away, and starts for which there were no GPUs.
    pub interrupted: u32,
    pub refused: u32,
    pub variants: Vec<VariantOutcome>,
}

/// What a variant had of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct VariantOutcome {
    /// Hours of replicas that served, started or drained, and that were warm.
    pub serving: f64,
    pub warm: f64,
    pub cost: f64,
    /// Starts from nothing.
    pub starts: u32,
}

impl StepOutcome {
    /// The share of requests that were in time.
    pub fn kept(&self) -> f64 {
        1.0 - self.late / self.requests.max(1.0)
    }

    pub(super) fn started(&mut self, variant: usize) {
        if let Some(one) = self.variants.get_mut(variant) {
            one.starts += 1;
        }
    }
}
