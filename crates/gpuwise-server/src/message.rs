//! What the writer is asked.

use gpuwise_broker::{Asked, Explanation, Observation, Refusal};
use gpuwise_domain::placement::Queue;
use gpuwise_store::StoreError;
use gpuwise_units::Money;
use gpuwise_wire::broker::TokenDocument;
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
    #[error("the broker is shutting down")]
    Closed,
}

/// Something to do, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Result<Answer, Failure>>,
}

#[derive(Debug)]
pub(crate) enum Command {
    CreateTenant(Queue, Option<Money>),
    AddToken(TokenDocument),
    RevokeToken(String, Option<String>),
    Request(Box<Asked>),
    Release(u32, String),
    Explain(u32),
    /// A service that is idle gives its GPUs back.
    Park(u32),
    /// A service is asked for again.
    Wake(u32),
}

#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// A lease: its number, and whether it is new.
    Lease(u32, bool),
    Explanation(Box<Explanation>),
}

/// What comes to the writer.
#[derive(Debug)]
pub(crate) enum Incoming {
    Asked(Message),
    Observed(Observation),
    Stop,
}
