//! Events: the only way in which the state of a fleet changes.

use super::{
    Action, FleetGpu, GpuId, Health, Job, JobId, KindId, Node, NodeId, Queue, Reservation, Sharing,
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, Nanoseconds};

/// An event and when it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped {
    /// When.
    pub at: Nanoseconds,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An action has begun: what it will take is held from now on.
    Begun(Action),
    /// An action is done. One that had not begun begins and ends at once.
    Done(Action),
    /// An action that had begun did not succeed: what it held is free, and who counted on it waits
    /// again.
    Failed(Action),
    /// A job is asked for.
    Submitted(Job),
    /// A job has ended.
    Ended {
        /// Which.
        job: JobId,
        /// How.
        how: Ended,
    },
    /// A node joins with its GPUs.
    NodeJoined {
        /// The node; the GPUs that it names are those below, in their order.
        node: Node,
        /// Its GPUs.
        gpus: Vec<FleetGpu>,
    },
    /// A node's health has changed.
    NodeHealth {
        /// Which.
        node: NodeId,
        /// To what.
        health: Health,
    },
    /// A GPU's health has changed.
    GpuHealth {
        /// Which.
        gpu: GpuId,
        /// To what.
        health: Health,
    },
    /// A queue is new, or has changed.
    QueueSet(Queue),
    /// What counts of what queues take has changed.
    SharingSet(Sharing),
    /// Something is kept for somebody.
    Reserved(Reservation),
    /// A reservation is over.
    ReservationEnded {
        /// Its name.
        name: String,
    },
    /// A kind's price has changed.
    PriceSet {
        /// Which kind.
        kind: KindId,
        /// What one costs an hour.
        price: HourlyPrice,
    },
    /// How busy a job's GPUs were over the last span.
    Measured {
        /// Which.
        job: JobId,
        /// Thousandths of the time.
        busy_milli: u32,
    },
    /// A holder whose GPUs were taken because it was idle has work again.
    Wanted {
        /// Which.
        job: JobId,
    },
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It is done.
    Finished,
    /// It failed by itself.
    Failed,
    /// It was withdrawn.
    Cancelled,
}
