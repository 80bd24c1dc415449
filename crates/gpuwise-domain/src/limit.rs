//! What limits an answer: what takes the largest share of the time, and what breaks first beyond the
//! asked load. Views print the sentence; decisions read the kind.

use crate::training::StepCause;
use alloc::string::String;
use core::fmt;
use gpuwise_units::significant;

/// What takes the largest share of the time, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit<C> {
    pub cause: C,
    /// Its share (0 to 1).
    pub share: f64,
}

impl<C> Limit<C> {
    /// The largest of these parts, as a share of `whole`; `None` of no parts.
    pub fn largest(parts: impl IntoIterator<Item = (C, f64)>, whole: f64) -> Option<Self> {
        let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self {
            cause: largest.0,
            share: largest.1 / whole.max(1e-12),
        })
    }
}

gpuwise_units::named! {
    /// What the GPUs' time of a deployment goes to.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ServingCause:
        name
    {
        Prompts = "computing prompts",
        /// Weights of dense layers in decode steps.
        Weights = "reading weights in decode steps",
        Experts = "reading experts in decode steps",
        /// The key-value cache in decode steps.
        Cache = "reading the KV cache in decode steps",
        Collectives = "collectives between GPUs in decode steps",
        Launches = "launching kernels and scheduling",
        Drafts = "steps of the draft model",
    }
}

impl fmt::Display for Limit<ServingCause> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.share * 100.0;
        write!(f, "{}: {share:.0} % of GPU time", self.cause.name())
    }
}

impl fmt::Display for Limit<StepCause> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = significant(self.share * 100.0, 2);
        write!(f, "{}: {share} % of a step", self.cause.name())
    }
}

gpuwise_units::named! {
    /// What an operation of a diffusion, vision or embedding model waits for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Resource:
        name
    {
        /// Matmul and convolution units.
        Compute = "arithmetic",
        Memory = "memory bandwidth",
        Host = "launches and the host",
        Link = "the link between GPUs",
    }
}

/// A part of a network, and what it waits for most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartCause {
    /// What the part waits for most.
    pub resource: Resource,
    pub part: String,
}

impl fmt::Display for Limit<PartCause> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, share) = (self.cause.resource.name(), self.share * 100.0);
        write!(
            f,
            "{resource}: {share:.0} % of the time is {}",
            self.cause.part
        )
    }
}

gpuwise_units::named! {
    /// What breaks first where more is asked of a deployment than it sustains.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LimitingFactor:
        name
    {
        /// Time to first token.
        Ttft = "TTFT",
        /// Time per output token.
        Tpot = "TPOT",
        EndToEnd = "end-to-end latency",
        /// The cache is full, or as many sequences run as the engine lets.
        Sequences = "KV cache and the engine's limit on sequences",
        /// Queues grow without bound.
        Throughput = "throughput: the queue grows",
    }
}

impl fmt::Display for LimitingFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_largest_part_is_said_with_its_share() {
        let parts = [(ServingCause::Prompts, 1.0), (ServingCause::Cache, 3.0)];
        let limit = Limit::largest(parts, 4.0).expect("there are parts");
        assert_eq!(
            limit.to_string(),
            "reading the KV cache in decode steps: 75 % of GPU time"
        );
        let steps = Limit::largest([(StepCause::Matmul, 3.0)], 4.0).expect("there is a part");
        assert_eq!(steps.to_string(), "matmuls: 75 % of a step");
        let part = Limit {
            cause: PartCause {
                resource: Resource::Memory,
                part: "decoder".into(),
            },
            share: 0.5,
        };
        assert_eq!(
            part.to_string(),
            "memory bandwidth: 50 % of the time is decoder"
        );
        assert_eq!(
            Limit::<ServingCause>::largest([], 1.0).map(|limit| limit.share),
            None
        );
    }
}
