//! Workloads to find a tier for, and rules that find it.

mod jobs;
mod rules;

pub use jobs::read_jobs;
pub use rules::read_rules;

/// What is wrong with a table of workloads or a file of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TierFileError {
    /// Line, or rule, or key.
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}
