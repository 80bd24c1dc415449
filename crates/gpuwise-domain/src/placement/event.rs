//! Events: the only way in which the state of a fleet changes.

use super::{
    Action, Assignment, Domain, FabricPool, FleetGpu, GpuId, GpuKind, GpuShare, Health, Job, JobId,
    KindId, Node, NodeId, Queue, Reservation, Sharing,
};
use alloc::{string::String, vec::Vec};
use core::fmt;
use gpuwise_units::{HourlyPrice, Nanoseconds};

#[derive(Debug, Clone, PartialEq)]
pub struct TimestampedEvent {
    pub at: Nanoseconds,
    pub event: Event,
}

/// Which try of an action: its place among all actions that were ever begun on a fleet, from 1.
///
/// It tells what comes late or twice: an outcome counts only for the try that is under way.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Attempt(pub u64);

impl Attempt {
    /// Whichever is under way, or a new one: for those who carry out what they planned in one place, so
    /// that nothing comes late.
    pub const UNNUMBERED: Self = Self(0);

    pub const fn is_numbered(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An action has begun: what it will take is held from now on.
    Begun {
        action: Action,
        attempt: Attempt,
    },
    /// An action is done. One that had not begun begins and ends at once.
    Done {
        action: Action,
        attempt: Attempt,
    },
    /// An action that had begun did not succeed. Who was to start waits again; who was to stop, to move or
    /// to be resized goes on where it was, and who counted on its place waits again.
    Failed {
        action: Action,
        attempt: Attempt,
        failure: Failure,
    },
    /// An action that had begun was called off before anything was done for it. As a failure that is
    /// nobody's fault.
    Withdrawn {
        action: Action,
        attempt: Attempt,
    },
    Submitted(Job),
    /// A job is as it is asked for now. What a worker needs counts from its next start.
    JobSet(Job),
    /// A job is held back, or no longer: one that is does not start.
    Held {
        job: JobId,
        held: bool,
    },
    /// A job has saved all that it has done until now.
    Checkpointed {
        job: JobId,
    },
    /// One worker of a job is gone. Where enough are left the job goes on without it.
    WorkerLost {
        job: JobId,
        assignment: Assignment,
    },
    Ended {
        job: JobId,
        how: Ended,
    },
    /// The inventory of a node: it has joined, has changed, or is back. Known ones are recognized by their
    /// lasting ids, and so are their GPUs.
    NodeJoined {
        /// The node; the GPUs that it names are those below, in their order.
        node: Node,
        gpus: Vec<FleetGpu>,
    },
    /// A node is no longer of the fleet.
    NodeLeft {
        node: NodeId,
    },
    /// A pooled GPU has joined, or is back.
    GpuJoined(FleetGpu),
    /// A GPU is no longer of the fleet.
    GpuLeft {
        gpu: GpuId,
    },
    KindAdded(GpuKind),
    DomainAdded(Domain),
    IslandAdded {
        name: String,
    },
    PoolAdded(FabricPool),
    /// A node's health has changed. One that is lost with work on it is only suspected: what runs there may
    /// still run.
    NodeHealth {
        node: NodeId,
        health: Health,
    },
    /// A GPU's health has changed.
    GpuHealth {
        gpu: GpuId,
        health: Health,
    },
    /// A node does not answer, as somebody says. What runs there may still run, so nothing of it starts
    /// elsewhere.
    NodeSuspected {
        node: NodeId,
        by: String,
    },
    /// Somebody has made sure that nothing runs on a node any more (power off, cut from its network and
    /// storage). It comes back by its inventory alone.
    NodeFenced {
        node: NodeId,
        by: String,
    },
    /// What is seen to run on a node, all of it.
    Observed {
        node: NodeId,
        /// When it was looked at; what has changed since is not judged by it.
        seen_at: Nanoseconds,
        seen: Vec<Seen>,
    },
    /// A queue is new, or has changed.
    QueueSet(Queue),
    /// What counts of what queues take has changed.
    SharingSet(Sharing),
    /// GPUs are reserved for a queue.
    Reserved(Reservation),
    ReservationEnded {
        name: String,
    },
    /// A kind's price has changed.
    PriceSet {
        kind: KindId,
        /// What one costs an hour.
        price: HourlyPrice,
    },
    /// How busy a job's GPUs were over the last span.
    Measured {
        job: JobId,
        /// Thousandths of the time.
        busy_milli: u32,
    },
    /// A holder whose GPUs were taken because it was idle has work again.
    Wanted {
        job: JobId,
    },
}

impl Event {
    /// An action has begun.
    pub const fn begun(action: Action) -> Self {
        let attempt = Attempt::UNNUMBERED;
        Self::Begun { action, attempt }
    }

    /// An action is done.
    pub const fn done(action: Action) -> Self {
        let attempt = Attempt::UNNUMBERED;
        Self::Done { action, attempt }
    }

    /// An action did not succeed, and nobody says why.
    pub const fn failed(action: Action) -> Self {
        Self::Failed {
            action,
            attempt: Attempt::UNNUMBERED,
            failure: Failure {
                cause: FailureCause::Unknown,
                what: String::new(),
            },
        }
    }
}

/// What is seen of a job on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub job: JobId,
    pub gpus: Vec<GpuShare>,
}

/// Why an action did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    pub cause: FailureCause,
    /// The same in words, for people; empty: nothing more is known.
    pub what: String,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    pub enum FailureCause: name {
        Unknown = "unknown",
        /// It took longer than it may.
        Timeout = "timeout",
        /// Whoever carries it out did not answer.
        Unreachable = "unreachable",
        /// Whoever carries it out refused it.
        Refused = "refused",
        /// The machine lacked what was planned there.
        Resources = "resources",
        /// The job's own program ended with an error.
        Program = "program",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Finished,
    Failed,
    Cancelled,
}
