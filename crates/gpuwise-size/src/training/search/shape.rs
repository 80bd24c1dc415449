//! What of a model decides how it can be divided.

use gpuwise_domain::model::{Architecture, FeedForward};

/// Counts that degrees of parallelism must divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The greatest common divisor of the layers' attention heads; 0: no layer has any.
    pub heads: u64,
    pub layers: u64,
    /// The greatest common divisor of the layers' expert counts; 0: no experts.
    pub experts: u64,
}

impl Shape {
    pub fn of(architecture: &Architecture) -> Self {
        let mut shape = Self {
            heads: 0,
            layers: architecture.layer_count(),
            experts: 0,
        };
        for run in &architecture.layers {
            let heads = run.layer.mixer.heads().unwrap_or(0);
            shape.heads = common(shape.heads, heads);
            if let FeedForward::Experts { count, .. } = run.layer.feed_forward {
                shape.experts = common(shape.experts, count);
            }
        }
        shape
    }

    /// Whether so many ranks can share each layer's heads.
    pub fn takes_tensor(&self, degree: u32) -> bool {
        degree == 1 || (self.heads > 0 && self.heads.is_multiple_of(u64::from(degree)))
    }

    /// Whether layers are dealt equally to so many stages, or equally where the embedding and the head each count as a
    /// layer.
    pub fn balances_stages(&self, stages: u64) -> bool {
        stages == 1
            || (stages <= self.layers
                && (self.layers.is_multiple_of(stages) || (self.layers + 2).is_multiple_of(stages)))
    }

    /// Whether each of so many stages has a layer.
    pub const fn fills_stages(&self, stages: u64) -> bool {
        stages <= self.layers
    }

    /// Whether experts can be dealt to so many ranks.
    pub fn takes_experts(&self, degree: u32) -> bool {
        degree == 1 || (self.experts > 0 && self.experts.is_multiple_of(u64::from(degree)))
    }
}

/// Greatest common divisor, where 0 is no constraint.
fn common(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The divisors of a number, ascending.
pub(crate) fn divisors(number: u64) -> impl Iterator<Item = u64> {
    (1..=number).filter(move |candidate| number.is_multiple_of(*candidate))
}
