//! Events: the only way in which the state of a fleet changes.

use super::{
    Action, FleetGpu, GpuId, Health, Job, JobId, KindId, Node, NodeId, Queue, Reservation, Sharing,
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, Nanoseconds};

#[derive(Debug, Clone, PartialEq)]
pub struct TimestampedEvent {
    pub at: Nanoseconds,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An action has begun: what it will take is held from now on.
    Begun(Action),
    /// An action is done. One that had not begun begins and ends at once.
    Done(Action),
    /// An action that had begun did not succeed: what it held is free, and who counted on it waits
    /// again.
    Failed(Action),
    Submitted(Job),
    Ended {
        job: JobId,
        how: Ended,
    },
    NodeJoined {
        /// The node; the GPUs that it names are those below, in their order.
        node: Node,
        gpus: Vec<FleetGpu>,
    },
    /// A node's health has changed.
    NodeHealth {
        node: NodeId,
        health: Health,
    },
    /// A GPU's health has changed.
    GpuHealth {
        gpu: GpuId,
        health: Health,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Finished,
    Failed,
    Cancelled,
}
