//! What `gpuwise doctor` finds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a machine and its broker are ready for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorAnswer {
    pub checks: Vec<DoctorCheck>,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorCheck {
    pub what: String,
    pub state: DoctorState,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

gpuwise_units::named! {
    /// How something is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum DoctorState:
        name
    {
        /// It is as it should be.
        Well = "well",
        /// It is not there; who does not need it does without.
        Absent = "absent",
        /// It is wrong.
        Ill = "ill",
    }
}

/// Why a pod of Kubernetes waits, or is where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodWhyAnswer {
    pub namespace: String,
    pub pod: String,
    /// `Bound`, `Sent` (its gate is off), `Placed` (it would be placed now), or in one word why it waits.
    pub reason: String,
    /// The node, where there is one.
    pub node: Option<String>,
    /// The same in a sentence.
    pub why: String,
    /// Whether gpuwise's scheduling gate holds it.
    pub gated: bool,
}
