//! Right-sizing proposals: made from telemetry, accepted, carried out, proven or undone.

use super::{LeaseAsk, LeaseSize};
use crate::live::JobDocument;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A proposal to give a service another size, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RightSizeDocument {
    /// `P-1` is 1.
    pub number: u32,
    /// The lease that is to be replaced.
    pub lease: u32,
    /// Why, in a sentence with its figures.
    pub reason: String,
    /// What the lease that takes its place is asked for with.
    pub ask: LeaseAsk,
    pub job: JobDocument,
    pub size: LeaseSize,
    /// The deployment, as `gpuwise plan --save` writes it.
    pub deployment: String,
    /// What the lease that is to be replaced was asked for with, to undo it.
    pub before: JobDocument,
    pub saving: SavingDocument,
    /// Over how long it is proven, in nanoseconds.
    pub proof_ns: u64,
}

/// What a proposal is predicted to save, an amount below 0: to cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SavingDocument {
    /// GPUs now and then.
    pub gpus_before: f64,
    pub gpus_after: f64,
    /// What the lease costs an hour now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_per_hour: Option<String>,
    /// What is saved an hour, in the currency of the price; left out where there is no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<String>,
    /// Over the time of proof: the least, what is expected, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
}

gpuwise_units::named! {
    /// Where a proposal is in its life.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ProposalState:
        name
    {
        /// Nobody has decided.
        Open = "open",
        Rejected = "rejected",
        /// It is to be carried out.
        Accepted = "accepted",
        /// The lease of the new size starts beside the old one.
        Starting = "starting",
        /// The new lease serves; the old one drains.
        Switched = "switched",
        /// The old lease is over; the new one is watched.
        Watched = "watched",
        /// The SLO held over the time of proof, and the money fell.
        Proven = "proven",
        /// The SLO suffered: a lease of the old size starts again.
        Undoing = "undoing",
        Undone = "undone",
        /// It could not be carried out.
        Failed = "failed",
        /// Something else has become right meanwhile, or its lease is over.
        Withdrawn = "withdrawn",
    }
}

impl ProposalState {
    /// Whether nothing more comes of it.
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Rejected | Self::Proven | Self::Undone | Self::Failed | Self::Withdrawn
        )
    }
}

/// A proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProposalAnswer {
    /// `P-1`.
    pub id: String,
    pub tenant: String,
    /// The lease that it is about.
    pub lease: String,
    pub state: ProposalState,
    pub since: String,
    pub made_at: String,
    /// Why it is in that state.
    pub reason: String,
    /// Why it was made.
    pub because: String,
    /// What runs, and what is to run.
    pub before: String,
    pub after: String,
    pub saving: SavingDocument,
    /// What was saved over the time of proof, by the books.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// The lease that takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// Each step with its reason, the first first.
    pub steps: Vec<ProposalStepAnswer>,
}

/// A step of a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProposalStepAnswer {
    pub at: String,
    pub state: ProposalState,
    pub reason: String,
}

/// Proposals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProposalList {
    pub items: Vec<ProposalAnswer>,
}

/// A decision on a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalDecision {
    /// `accept` or `reject`.
    pub decision: String,
    /// Why, for those who look at it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
