//! Plans and their actions by number: what is kept beside the fleet that they are for.

use super::{
    job::IsolationDocument,
    numbers::{GpuNumber, JobNumber, NodeNumber, Time},
};
use crate::mirror::{document, variants};
use gpuwise_domain::placement::{Action, Assignment, Cause, GpuShare, Part, Plan};

document! {
    /// Ordered actions, and of which plan they are the continuation.
    pub NumberedPlanDocument = Plan {
        /// Its number: one above its parent's.
        number(number): u64,
        /// The plan that it continues.
        parent(parent): u64,
        /// When it was made.
        made_ns(made): Time,
        /// What is done, in this order.
        actions(actions): Vec<ActionDocument>,
    }
}

variants! {
    /// One step, by numbers of jobs, GPUs and nodes.
    #[schema(as = NumberedAction)]
    pub ActionDocument = Action {
        /// Starts a job.
        Place {
            /// Which.
            job(job): JobNumber,
            /// One assignment for each worker.
            assignments(assignments): Vec<AssignmentDocument>,
        }
        /// Stops a job; it waits again.
        Preempt {
            /// Which.
            job(job): JobNumber,
            /// For whom or what.
            cause(cause): CauseDocument,
        }
        /// Moves a job.
        Move {
            /// Which.
            job(job): JobNumber,
            /// All its assignments afterwards.
            assignments(assignments): Vec<AssignmentDocument>,
            /// For whom or what.
            cause(cause): CauseDocument,
        }
        /// Gives an elastic job more or fewer workers.
        Resize {
            /// Which.
            job(job): JobNumber,
            /// All its assignments afterwards.
            assignments(assignments): Vec<AssignmentDocument>,
        }
        /// Switches MIG on or off.
        SetMig {
            /// Of which GPU.
            gpu(gpu): GpuNumber,
            /// On or off.
            on(on): bool,
        }
        /// Creates a MIG instance.
        CreateInstance {
            /// On which GPU.
            gpu(gpu): GpuNumber,
            /// Of which profile: its place in the kind's geometry.
            shape(shape): u8,
            /// At which memory slice.
            start(start): u8,
        }
        /// Destroys an idle MIG instance.
        DestroyInstance {
            /// On which GPU.
            gpu(gpu): GpuNumber,
            /// At which memory slice it starts.
            start(start): u8,
        }
        /// Attaches a pooled GPU.
        Attach {
            /// Which.
            gpu(gpu): GpuNumber,
            /// To which node.
            node(node): NodeNumber,
        }
        /// Gives a pooled GPU back.
        Detach {
            /// Which.
            gpu(gpu): GpuNumber,
        }
        /// Takes the GPUs of an idle holder.
        Reclaim {
            /// Which job.
            job(job): JobNumber,
        }
        /// Gives GPUs back to one who was idle.
        Restore {
            /// Which job.
            job(job): JobNumber,
            /// One assignment for each worker.
            assignments(assignments): Vec<AssignmentDocument>,
        }
    }
}

variants! {
    /// Why somebody is disrupted.
    #[schema(as = NumberedCause)]
    pub CauseDocument = Cause {
        /// For a job.
        For {
            /// Which.
            job(0): JobNumber,
        }
        /// To have fewer pieces.
        Defragmentation {}
        /// Its node or GPU is to be empty.
        Drain {}
        /// A queue reclaims what it lent.
        Reclaim {}
        /// Its turn is over.
        RoundEnd {}
        /// It lost workers and cannot run with those that are left.
        Lost {}
        /// It is where nobody wanted it to be.
        Drift {}
    }
}

document! {
    /// Where one worker runs.
    #[schema(as = NumberedAssignment)]
    pub AssignmentDocument = Assignment {
        /// On which node.
        node(node): NodeNumber,
        /// On which GPUs, in rank order.
        gpus(gpus): Vec<ShareDocument>,
    }
}

document! {
    /// What a worker has of a GPU.
    #[schema(as = NumberedShare)]
    pub ShareDocument = GpuShare {
        /// Which GPU.
        gpu(gpu): GpuNumber,
        /// What of it.
        part(part): PartDocument,
    }
}

variants! {
    /// What of a GPU.
    #[schema(as = NumberedPart)]
    pub PartDocument = Part {
        /// All.
        Whole {}
        /// A part by time.
        Fraction {
            /// Thousandths of its time.
            milli(milli): u32,
            /// Memory; 0: nothing was said of it.
            memory_mib(memory_mib): u32,
            /// How it is kept apart from others.
            isolation(isolation): IsolationDocument,
        }
        /// A MIG instance.
        Slice {
            /// Its profile: its place in the kind's geometry.
            shape(shape): u8,
            /// The memory slice at which it starts.
            start(start): u8,
        }
    }
}
