//! Queues and what each may take.

use super::{Kinds, QueueId};
use alloc::{string::String, vec::Vec};
use gpuwise_units::Money;

/// A queue: a team, a project, a virtual cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The queue that it is part of; always an earlier one.
    pub parent: Option<QueueId>,
    /// What it may take, by kinds of GPU; empty: no limit of its own.
    pub quotas: Vec<Quota>,
    /// Its weight when what is left over is shared, in thousandths.
    pub weight_milli: u32,
    /// Higher goes first when what is left over is shared.
    pub priority: i32,
    /// Whether it takes back what it lent by preemption.
    pub reclaims: bool,
    /// What it may spend in a period of the budget; `None`: no limit.
    pub budget: Option<Money>,
}

/// What a queue may take of some kinds of GPU, in thousandths of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Of which kinds.
    pub kinds: Kinds,
    /// What is its own.
    pub nominal_milli: u64,
    /// What it may take of others' beyond that; `None`: no limit.
    pub borrowing_milli: Option<u64>,
    /// What others may take of what it does not use; `None`: all.
    pub lending_milli: Option<u64>,
    /// What it may never pass, borrowed or not; `None`: no limit.
    pub cap_milli: Option<u64>,
}
