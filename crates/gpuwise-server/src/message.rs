//! What the writer is asked.

use crate::clock::ClockError;
use gpuwise_broker::{Asked, Explanation, Keep, Look, Observation, Refusal};
use gpuwise_domain::placement::{Fleet, Queue};
use gpuwise_store::StoreError;
use gpuwise_units::Money;
use gpuwise_wire::broker::{
    FleetChange, NodeVerb, ObjectiveDocument, PolicyDocument, PriceDocument, RightSizeDocument,
    ScalePolicy, TokenDocument, UsageAnswer, UsageDocument,
};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Why a request was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing of it was kept.
    #[error("the log cannot be written")]
    Store(#[source] Arc<StoreError>),
    /// Whether it was kept will be known when the database answers.
    #[error("it is not known whether the log was written")]
    Unsure(#[source] Arc<StoreError>),
    /// Nothing may happen at such a time.
    #[error("the time is not known: {0}")]
    Clock(ClockError),
    #[error("the broker is shutting down")]
    Closed,
}

/// Something to do, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) command: Command,
    /// Who asks, where it is kept who did.
    pub(crate) origin: Option<Origin>,
    pub(crate) answer: oneshot::Sender<Result<Answer, Failure>>,
}

/// Who asked for what.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The name of the token, and the tenant that it is for.
    pub(crate) by: String,
    pub(crate) tenant: Option<String>,
    /// The route.
    pub(crate) what: &'static str,
    /// Whom or what it is about; of a lease that is new, the broker says it.
    pub(crate) subject: String,
    /// The tenant whose that is.
    pub(crate) about: Option<String>,
    /// The key under which it is asked for, and a hash of what is asked.
    pub(crate) key: Option<(String, String)>,
}

#[derive(Debug)]
pub(crate) enum Command {
    CreateTenant(Queue, Option<Money>),
    /// A queue, a budget, and whether it is suspended.
    ChangeTenant(Queue, Option<Money>, bool),
    SetPrice(PriceDocument),
    /// A policy, queues as they are to be, and the version that it takes the place of, where that was said.
    SetPolicy(Box<PolicyDocument>, Vec<Queue>, Option<u32>),
    /// Keeps GPUs for a tenant.
    Keep(Keep),
    /// Withdraws a reservation.
    Withdraw(String),
    /// The fleet is to be as a file says.
    FleetFile(Box<Fleet>),
    /// Nodes that join.
    AddNodes(Box<Fleet>),
    Node {
        node: String,
        verb: NodeVerb,
        /// Whether what a drain leaves there is told to end.
        end: bool,
        by: String,
    },
    RemoveNode(String),
    /// The tenant and the name of a secret; its value is written.
    SetSecret(String, String),
    RemoveSecret(String, String),
    AddToken(TokenDocument),
    RevokeToken(String, Option<String>),
    Request(Box<Asked>),
    Release(u32, String),
    Explain(u32),
    Usage(Vec<UsageDocument>),
    /// Whose, and what is promised.
    SetSlo(String, Vec<ObjectiveDocument>),
    RemoveSlo(u32),
    /// What was measured of a service: the lease, rows, what they say.
    Learn(u32, String, String),
    Propose(Box<RightSizeDocument>),
    /// Which, whether it is accepted, and why.
    DecideProposal(String, bool, String),
    /// A service that is idle gives its GPUs back.
    Park(u32),
    /// A service is asked for again.
    Wake(u32),
    /// A service follows demand by another policy.
    SetScaling(u32, Box<ScalePolicy>),
    /// A service that follows demand was looked at.
    Scale(Box<Look>),
    /// Which weights lie in the memory of nodes is looked at: bytes of each node for them.
    Pool(u64),
}

#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// It was asked for under this key before, and is not done again.
    Known,
    /// A lease: its number, and whether it is new.
    Lease(u32, bool),
    Explanation(Box<Explanation>),
    Usage(UsageAnswer),
    Fleet(Vec<FleetChange>),
    /// The number of an SLO.
    Slo(u32),
}

/// What comes to the writer.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all that comes are requests"
)]
pub(crate) enum Incoming {
    Asked(Message),
    Observed(Observation),
    Stop,
}
