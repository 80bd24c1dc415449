//! What a decision weighed, and what is short where the answer is no.

use super::{Action, JobId, KindId, Kinds, Level, NodeId, QueueId};
use alloc::{borrow::Cow, string::String, vec::Vec};
use gpuwise_units::{Money, Nanoseconds};

/// What the kernel says beside a plan.
#[must_use]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Each job that was looked at, in the order in which it was.
    pub decisions: Vec<Decision>,
    /// Steps of search that were taken.
    pub steps: u64,
}

/// What was decided of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub job: JobId,
    pub outcome: Outcome,
    /// Nodes that had room.
    pub candidates: u32,
    /// What was weighed for the choice, by name: its score, and the parts that it is made of.
    pub weighed: Vec<Weighed>,
}

/// Something that was weighed, by name, and how much it counted.
pub type Weighed = (Cow<'static, str>, i64);

/// What became of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Placed,
    Waits {
        shortage: Shortage,
        /// When it is expected to start, where that can be told.
        start: Option<Nanoseconds>,
        /// What would help, cheapest first.
        fixes: Vec<Fix>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// It was not asked what is short.
    Untold,
    /// No GPU of the fleet is of a kind that is asked for.
    NoSuchGpu { kinds: Kinds },
    /// The fleet could never hold it, even empty.
    LargerThanFleet {
        /// Workers that fit the empty fleet.
        fit: u32,
        needed: u32,
    },
    /// Too few GPUs are free together in one node.
    Gpus {
        /// GPUs that a worker needs.
        needed: u32,
        /// The most that one node has free.
        best: u32,
        node: Option<NodeId>,
    },
    /// GPUs are free where too little processor time is.
    Cpu {
        /// Thousandths of a core that a worker needs.
        needed: u64,
        /// The most that a node with the GPUs has free.
        best: u64,
        node: Option<NodeId>,
    },
    /// GPUs are free where too little memory is.
    Memory {
        /// MiB that a worker needs.
        needed: u64,
        /// The most that a node with the GPUs has free.
        best: u64,
        node: Option<NodeId>,
    },
    /// No GPU has this much of its time free.
    Fraction {
        /// Thousandths that are needed.
        needed: u32,
        /// The most that one GPU has free.
        best: u32,
    },
    /// No GPU has room for such an instance.
    Slice,
    /// Too few workers find an assignment.
    Workers {
        needed: u32,
        /// Workers that find one.
        fit: u32,
    },
    /// Too few GPUs are free together in one domain.
    Topology {
        within: Level,
        needed: u32,
        /// The most that one has room for.
        best: u32,
        /// Which: a node, an island or a domain by its number, as the level says; a NUMA node or a switch
        /// by its node. `None`: none has room for any.
        place: Option<u32>,
    },
    /// Workers must be further apart than there is room.
    Spread {
        needed: u32,
        /// Workers that find an assignment.
        fit: u32,
    },
    /// Its queue may not take so much: by its own quota, by that of one above it, or because others
    /// have what queues share.
    Quota(QuotaShort),
    /// Its queue's budget is spent.
    Budget {
        /// The queue's place in the list.
        queue: u32,
    },
    /// What is free is reserved for another queue.
    Reserved {
        /// On this node, among others.
        node: NodeId,
    },
    /// Somebody who waits longer goes first, and would be delayed.
    BehindHead { head: JobId },
    /// It is held back.
    Held,
    /// It failed to start, and is tried again then.
    BackOff { until: Nanoseconds },
    /// Where there is room it failed to start, and is tried again there then.
    Avoided { node: NodeId, until: Nanoseconds },
    /// It may still run on a node that does not answer, until somebody has made sure that it does not.
    Unfenced { node: NodeId },
    /// It may still run where it was told to stop.
    Leaving,
}

/// Why a queue may not take what a job needs; in thousandths of GPUs of the kinds that the quota is for.
///
/// `room = max(0, limit − used − guaranteed) + guaranteed here`, and `room < needed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaShort {
    /// The job's queue: its place in the list.
    pub queue: u32,
    /// Its nominal quota of these kinds.
    pub nominal_milli: u64,
    /// What it uses of them, with all below it.
    pub held_milli: u64,
    pub kinds: Kinds,
    /// What the job needs at least.
    pub needed_milli: u64,
    /// What its queue may still take.
    pub room_milli: u64,
    pub by: QuotaLimit,
    pub limit_milli: u64,
    pub used_milli: u64,
    /// What of the rest is guaranteed to queues below the limit, which do not lend it.
    pub guaranteed_milli: u64,
    /// What of that is guaranteed to this queue and those between it and the limit.
    pub guaranteed_here_milli: u64,
    /// Who uses it: the queues next below the limit that use most, by their places, most first; 0: nobody.
    pub users: [(u32, u32); 3],
}

/// What sets the limit of what a queue may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum QuotaLimit {
    /// The most that this queue may ever have.
    Cap {
        /// Its place in the list: the job's queue, or one above it.
        queue: u32,
    },
    /// What is this queue's own and what it may borrow, together.
    Borrowing {
        /// Its place in the list: the job's queue, or one above it.
        queue: u32,
    },
    /// What all queues have together (their cohort).
    Cohort,
}

impl QuotaShort {
    /// The queue whose limit it is; the job's own where queues share it.
    pub const fn limits(&self) -> u32 {
        match self.by {
            QuotaLimit::Cap { queue } | QuotaLimit::Borrowing { queue } => queue,
            QuotaLimit::Cohort => self.queue,
        }
    }
}

/// What would help a job that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fix {
    pub remedy: Remedy,
    /// The same in words.
    pub what: String,
    /// Time until the job could start then.
    pub after: Nanoseconds,
    /// Work of others that is lost, in GPU-time.
    pub lost: Nanoseconds,
    /// What it costs an hour, where something is bought and its price is known.
    pub price: Option<Money>,
    /// What it costs all together, in GPU-time, so that fixes can be compared: work lost, GPUs asked for
    /// that wait or go slower, GPUs bought for as long as the job runs.
    pub cost: Nanoseconds,
}

/// What is to be done so that a job can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// These jobs stop, and wait again.
    Preempt(Vec<JobId>),
    /// These jobs stop, and start again elsewhere beside the one that waits.
    Move(Vec<JobId>),
    /// Until these have ended, as is expected.
    Wait(Vec<JobId>),
    /// So many nodes like this one join.
    Buy { like: NodeId, nodes: u32 },
    /// The job runs with so many workers at least, fewer than it asked for.
    Shrink { workers: u32 },
    /// Its workers are within this; `None`: anywhere.
    Relax { within: Option<Level> },
    /// It accepts GPUs of this kind, too.
    Accept(KindId),
    /// Idle instances are destroyed and modes switched.
    Repartition(Vec<Action>),
    /// A node that takes no work does again.
    Repair(NodeId),
    /// A queue may take so many thousandths of GPUs more.
    Raise { queue: QueueId, by_milli: u64 },
}

/// Figures of a fleet at a moment, in thousandths of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// GPUs that can be used.
    pub capacity_milli: u64,
    pub allocated_milli: u64,
    /// Busy as last measured; jobs that were not measured count as unknown, not as busy.
    pub busy_milli: Option<u64>,
    /// Jobs that hold something.
    pub running: u32,
    pub pending: u32,
}
