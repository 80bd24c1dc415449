//! Fleets and what is asked of them: fleet files, job files, what tools say of nodes; traces of
//! clusters.

mod found;
mod gavel;
mod genai;
mod inventory;
mod jobs;
mod openb;
mod openb_order;
mod past;
mod philly;
mod text;

pub use found::{
    FoundAsk, FoundBlock, FoundError, FoundFabric, FoundGpu, FoundJob, FoundNode, FoundPlace,
    FoundPooled, FoundSlice, NodeSaid, fabric_fleet_file, fleet_file, job_file, kubernetes_node,
    merge_found, read_found,
};
pub use gavel::{
    GavelJob, GavelPair, GavelSpeeds, is_gavel_trace, is_gavel_unit_trace, read_gavel_programs,
    read_gavel_speeds, read_gavel_trace, read_gavel_units,
};
pub use genai::{GenaiTexts, read_genai_day};
pub use inventory::{FindGpu, FleetFile, KnownGpu, KnownParts, fabric_of, read_fleet};
pub use jobs::{JobsFile, read_ask, read_jobs, read_quota};
pub use openb::{read_openb_nodes, read_openb_tasks};
pub use openb_order::{SeededOrder, read_openb_orders};
pub use past::{is_past, read_past};
pub use philly::{is_philly_trace, read_philly};
pub use text::{FleetProblem, FleetProblems};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {problem}")]
pub struct FleetError {
    /// The file as the user knows it.
    pub file: String,
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}
