//! The port of executors: what they are told, and what they tell.
//!
//! An order is known by what it is about and by its attempt; told twice, it is carried out once. What is
//! observed names the order that it answers; an answer to an order that is over changes nothing.

use gpuwise_domain::placement::{Action, Attempt, FailureCause, JobId, NodeId};
use gpuwise_units::Nanoseconds;

/// Which order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct OrderId(pub u64);

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub id: OrderId,
    pub work: Work,
}

impl Order {
    /// The job that it starts, here or elsewhere; `None`: it starts none.
    pub const fn starts(&self) -> Option<JobId> {
        match &self.work {
            Work::Restart { job, .. }
            | Work::Act {
                action:
                    Action::Place { job, .. }
                    | Action::Move { job, .. }
                    | Action::Resize { job, .. }
                    | Action::Restore { job, .. },
                ..
            } => Some(*job),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Work {
    /// An action of the kernel's plan: place, preempt, move, MIG, attach.
    Act {
        action: Action,
        /// Its number among all actions of the fleet.
        attempt: Attempt,
    },
    /// What ran of a lease has failed, and is started again where it was.
    Restart {
        job: JobId,
        /// Not before.
        after: Nanoseconds,
    },
    /// The weights of what a lease serves are to lie in the memory of a node.
    Keep { node: NodeId, lease: u32 },
    /// They need no longer.
    Drop { node: NodeId, lease: u32 },
    /// A lease ends: what runs of it is stopped.
    Stop {
        job: JobId,
        /// How long it has to save what it did.
        grace: Nanoseconds,
    },
}

/// What an executor tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    Done(OrderId),
    Failed {
        order: OrderId,
        cause: FailureCause,
        /// The same in words, for people.
        reason: String,
    },
    /// What ran on a lease has ended by itself.
    Exited {
        job: JobId,
        /// The order that had started it.
        order: OrderId,
        /// `None`: it was ended by a signal.
        code: Option<i32>,
        reason: String,
        /// How long ago that was, as whoever ran it says; `None`: that is not known.
        ago: Option<Nanoseconds>,
    },
    /// The system that runs a lease has halted it, and keeps its GPUs.
    Halted {
        job: JobId,
        /// The order that had started it.
        order: OrderId,
        /// What that system says.
        reason: String,
    },
    /// What was halted runs again.
    Resumed {
        job: JobId,
        order: OrderId,
    },
    /// How busy the GPUs of a job were.
    Busy {
        job: JobId,
        milli: u32,
    },
    /// What whoever runs the nodes says of one of them.
    Node {
        name: String,
        seen: NodeSeen,
        /// Who says it.
        by: String,
    },
    /// What whoever composes hosts says of a pooled GPU.
    Gpu {
        /// Its lasting id.
        uid: String,
        seen: GpuSeen,
    },
}

impl Observation {
    /// An order could not be carried out, and only in words is known why.
    pub const fn failed(order: OrderId, reason: String) -> Self {
        let cause = FailureCause::Unknown;
        Self::Failed {
            order,
            cause,
            reason,
        }
    }
}

/// Where a pooled GPU is, as whoever composes hosts says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuSeen {
    /// In its pool, for whoever asks.
    Free,
    /// Attached to the node of this name.
    At(String),
    /// Somebody else has it.
    Taken,
    /// It is there and does not work.
    Failed,
    /// Nobody knows of it.
    Missing,
}

/// How a node is, as whoever runs it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSeen {
    Up,
    /// What runs there may end; nothing new starts.
    Draining,
    /// It does not answer: what runs there may still run.
    Silent,
    /// Nothing runs there any more.
    Down,
}
