//! Events: the only way in which the state of a fleet changes.

use super::{
    fleet::{
        GpuDocument, HealthDocument, NodeDocument, QueueDocument, ReservationDocument,
        SharingDocument,
    },
    job::JobDocument,
    numbers::{GpuNumber, JobNumber, KindNumber, NodeNumber, Time},
    plan::ActionDocument,
};
use crate::{
    mirror::{document, variants, words},
    quantities::HourlyPriceText,
};
use gpuwise_domain::placement::{Ended, Event, TimestampedEvent};

document! {
    /// Something that happened, and when.
    pub TimestampedEventDocument = TimestampedEvent {
        /// When.
        at_ns(at): Time,
        /// What.
        event(event): EventDocument,
    }
}

variants! {
    /// What happened.
    pub EventDocument = Event {
        /// An action has begun.
        Begun {
            /// Which.
            action(0): ActionDocument,
        }
        /// An action is done.
        Done {
            /// Which.
            action(0): ActionDocument,
        }
        /// An action that had begun did not succeed.
        Failed {
            /// Which.
            action(0): ActionDocument,
        }
        /// A job was asked for.
        Submitted {
            /// Which.
            job(0): JobDocument,
        }
        /// A job has ended.
        Ended {
            /// Which.
            job(job): JobNumber,
            /// How.
            how(how): EndedWord,
        }
        /// A node has joined.
        NodeJoined {
            /// Which.
            node(node): NodeDocument,
            /// Its GPUs, in their order.
            gpus(gpus): Vec<GpuDocument>,
        }
        /// A node's health has changed.
        NodeHealth {
            /// Which node.
            node(node): NodeNumber,
            /// Its health now.
            health(health): HealthDocument,
        }
        /// A GPU's health has changed.
        GpuHealth {
            /// Which GPU.
            gpu(gpu): GpuNumber,
            /// Its health now.
            health(health): HealthDocument,
        }
        /// A queue is new, or has changed.
        QueueSet {
            /// The queue as it is now.
            queue(0): QueueDocument,
        }
        /// What counts of what queues take has changed.
        SharingSet {
            /// What counts now.
            sharing(0): SharingDocument,
        }
        /// GPUs are reserved for a queue.
        Reserved {
            /// Which.
            reservation(0): ReservationDocument,
        }
        /// A reservation is over.
        ReservationEnded {
            /// Its name.
            name(name): String,
        }
        /// A kind's price has changed.
        PriceSet {
            /// Which kind.
            kind(kind): KindNumber,
            /// What one costs an hour.
            price_per_hour(price): HourlyPriceText,
        }
        /// How busy a job's GPUs were over the last span.
        Measured {
            /// Which job.
            job(job): JobNumber,
            /// Thousandths of the time.
            busy_milli(busy_milli): u32,
        }
        /// A holder whose GPUs were taken because it was idle has work again.
        Wanted {
            /// Which job.
            job(job): JobNumber,
        }
    }
}

words! {
    /// How a job ended.
    pub EndedWord = Ended {
        /// It finished.
        Finished = "finished",
        /// It failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}
