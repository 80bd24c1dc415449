//! What processes of leases wrote.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A piece of what a worker of a lease wrote, standard output and error as they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseLogAnswer {
    pub id: String,
    pub worker: u32,
    /// The byte at which the piece begins.
    pub from: u64,
    /// The byte at which the next piece begins: `after` of whoever goes on.
    pub next: u64,
    /// Bytes that were written.
    pub size: u64,
    /// Of them the first so many, which are not kept any more: a log is bounded (`serve --log-size`).
    #[serde(default)]
    pub dropped: u64,
    /// What was written; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether nothing more will be written.
    pub over: bool,
}
