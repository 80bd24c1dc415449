//! Traces of clusters: nodes and tasks.

mod openb;
mod openb_order;

pub use openb::{read_openb_nodes, read_openb_tasks};
pub use openb_order::{SeededOrder, read_openb_orders};

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {problem}")]
pub struct FleetError {
    /// The file as the user knows it.
    pub file: String,
    /// Line.
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}
