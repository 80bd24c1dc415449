//! Events: the only way in which the state of a fleet changes.

use super::{
    fleet::{
        DomainDocument, GpuDocument, HealthDocument, KindDocument, NodeDocument, PoolDocument,
        QueueDocument, ReservationDocument, SharingDocument,
    },
    job::JobDocument,
    numbers::{AttemptNumber, GpuNumber, JobNumber, KindNumber, NodeNumber, Time},
    plan::{ActionDocument, AssignmentDocument, ShareDocument},
};
use crate::{
    mirror::{document, variants, words},
    quantities::HourlyPriceText,
};
use gpuwise_domain::placement::{Ended, Event, Failure, FailureCause, Seen, TimestampedEvent};

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
            action(action): ActionDocument,
            /// Which try of it.
            attempt(attempt): AttemptNumber,
        }
        /// An action is done.
        Done {
            /// Which.
            action(action): ActionDocument,
            /// Which try of it.
            attempt(attempt): AttemptNumber,
        }
        /// An action that had begun did not succeed.
        Failed {
            /// Which.
            action(action): ActionDocument,
            /// Which try of it.
            attempt(attempt): AttemptNumber,
            /// Why.
            failure(failure): FailureDocument,
        }
        /// An action that had begun was called off before anything was done for it.
        Withdrawn {
            /// Which.
            action(action): ActionDocument,
            /// Which try of it.
            attempt(attempt): AttemptNumber,
        }
        /// A job was asked for.
        Submitted {
            /// Which.
            job(0): JobDocument,
        }
        /// A job is as it is asked for now.
        JobSet {
            /// The job.
            job(0): JobDocument,
        }
        /// A job is held back, or no longer.
        Held {
            /// Which.
            job(job): JobNumber,
            /// Whether it is.
            held(held): bool,
        }
        /// A job has saved all that it has done until now.
        Checkpointed {
            /// Which.
            job(job): JobNumber,
        }
        /// One worker of a job is gone.
        WorkerLost {
            /// Of which job.
            job(job): JobNumber,
            /// Where it was.
            assignment(assignment): AssignmentDocument,
        }
        /// A job has ended.
        Ended {
            /// Which.
            job(job): JobNumber,
            /// How.
            how(how): EndedWord,
        }
        /// The inventory of a node: it has joined, has changed, or is back.
        NodeJoined {
            /// Which.
            node(node): NodeDocument,
            /// Its GPUs, in their order.
            gpus(gpus): Vec<GpuDocument>,
        }
        /// A node is no longer of the fleet.
        NodeLeft {
            /// Which.
            node(node): NodeNumber,
        }
        /// A pooled GPU has joined, or is back.
        GpuJoined {
            /// Which.
            gpu(0): GpuDocument,
        }
        /// A GPU is no longer of the fleet.
        GpuLeft {
            /// Which.
            gpu(gpu): GpuNumber,
        }
        /// There is a new kind of GPU.
        KindAdded {
            /// Which.
            kind(0): KindDocument,
        }
        /// There is a new rack, block or zone.
        DomainAdded {
            /// Which.
            domain(0): DomainDocument,
        }
        /// There is a new island of NVLink or its like.
        IslandAdded {
            /// Its name.
            name(name): String,
        }
        /// There is a new fabric pool.
        PoolAdded {
            /// Which.
            pool(0): PoolDocument,
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
        /// A node does not answer.
        NodeSuspected {
            /// Which.
            node(node): NodeNumber,
            /// Who says so.
            by(by): String,
        }
        /// Somebody has made sure that nothing runs on a node any more.
        NodeFenced {
            /// Which.
            node(node): NodeNumber,
            /// Who.
            by(by): String,
        }
        /// What is seen to run on a node, all of it.
        Observed {
            /// On which node.
            node(node): NodeNumber,
            /// When it was looked at.
            seen_at_ns(seen_at): Time,
            /// What is seen.
            seen(seen): Vec<SeenDocument>,
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

document! {
    /// What is seen of a job on a node.
    pub SeenDocument = Seen {
        /// Which job.
        job(job): JobNumber,
        /// What it has.
        gpus(gpus): Vec<ShareDocument>,
    }
}

document! {
    /// Why an action did not succeed.
    pub FailureDocument = Failure {
        /// The cause.
        cause(cause): FailureWord,
        /// The same in words; empty: nothing more is known.
        what(what): String,
    }
}

words! {
    /// Causes of failures.
    pub FailureWord = FailureCause {
        /// Not known.
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
