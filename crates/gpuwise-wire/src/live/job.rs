//! Jobs: what is asked for.

use super::{
    fleet::LevelWord,
    numbers::{JobNumber, KindNumber, KindSet, NodeNumber, QueueNumber, Time},
};
use crate::{
    mirror::{Mirror, document, variants},
    quantities::Real,
};
use gpuwise_domain::placement::{
    DurationEstimate, Gang, GpuAsk, Isolation, Job, KindId, Need, Preemption, SliceAsk, Spread,
    TopologyWish, WorkerAsk,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

document! {
    /// A job: one worker, or a gang of equal ones.
    pub JobDocument = Job {
        /// Its number.
        id(id): JobNumber,
        /// Its name.
        name(name): String,
        /// Whose it is.
        tenant(tenant): String,
        /// In which queue; null: there are no queues.
        queue(queue): Option<QueueNumber>,
        /// Higher goes first.
        priority(priority): i32,
        /// When it was asked for.
        submitted_ns(submitted): Time,
        /// What one worker needs.
        worker(worker): WorkerDocument,
        /// How many workers.
        gang(gang): GangDocument,
        /// How near they must or should be.
        topology(topology): Option<TopologyDocument>,
        /// How far they must be apart.
        spread(spread): Option<SpreadDocument>,
        /// When it must have ended.
        deadline_ns(deadline): Option<Time>,
        /// Whether it may be stopped.
        preemption(preemption): PreemptionDocument,
        /// How long it may take to leave when it is told to.
        grace_ns(grace): Time,
        /// How long it runs; null: not known.
        duration(duration): Option<DurationDocument>,
        /// Its speed on kinds of GPU; those that are not named: 1000.
        speeds(speeds): Vec<SpeedDocument>,
        /// Nodes that have its data.
        near(near): Vec<NodeNumber>,
    }
}

document! {
    /// What one worker needs, all on one node.
    pub WorkerDocument = WorkerAsk {
        /// Processor time in thousandths of a core.
        cpu_milli(cpu_milli): u64,
        /// Memory.
        memory_mib(memory_mib): u64,
        /// GPUs.
        gpu(gpu): AskDocument,
    }
}

variants! {
    /// What one worker needs of GPUs.
    pub AskDocument = GpuAsk {
        /// Nothing.
        None {}
        /// Whole GPUs, all of one kind.
        Whole {
            /// How many.
            count(count): u32,
            /// Of which kinds.
            kinds(kinds): KindSet,
            /// What each must have at least.
            need(need): NeedDocument,
        }
        /// A part of one GPU, by time.
        Fraction {
            /// Thousandths of its time.
            milli(milli): u32,
            /// Memory; null: nothing is said of it.
            memory_mib(memory_mib): Option<u32>,
            /// How it is kept apart from others.
            isolation(isolation): IsolationDocument,
            /// Of which kinds.
            kinds(kinds): KindSet,
        }
        /// A MIG instance.
        Slice {
            /// What it must have at least.
            slice(slice): SliceDocument,
            /// Of which kinds.
            kinds(kinds): KindSet,
        }
    }
}

document! {
    /// What a GPU must have at least; 0: nothing is asked.
    pub NeedDocument = Need {
        /// Memory.
        memory_mib(memory_mib): u32,
        /// Dense peak at 16 bits, in TFLOP/s.
        tflops(tflops): u32,
        /// Memory bandwidth.
        bandwidth_gb_per_s(bandwidth_gbs): u32,
    }
}

document! {
    /// What a MIG instance must have at least.
    pub SliceDocument = SliceAsk {
        /// Memory.
        memory_mib(memory_mib): u32,
        /// Streaming multiprocessors.
        units(units): u32,
        /// Compute slices, exactly; 0: any.
        compute(compute): u8,
        /// Memory slices, exactly; 0: any.
        memory_slices(memory_slices): u8,
        /// Whether it needs the media engines.
        media(media): bool,
    }
}

variants! {
    /// How parts of one GPU are kept apart.
    pub IsolationDocument = Isolation {
        /// Turns on the whole GPU.
        TimeSlice {}
        /// CUDA MPS.
        Mps {}
        /// vGPU types of one size.
        Vgpu {
            /// Memory that each has.
            memory_mib(mib): u32,
        }
        /// Turns of two jobs that asked for the whole GPU.
        Pair {
            /// What both do together, in thousandths of what the GPU does for one alone.
            gain_milli(gain_milli): u32,
        }
    }
}

document! {
    /// Workers of a job.
    pub GangDocument = Gang {
        /// Below this many it does not run.
        least(least): u32,
        /// How many it would like.
        preferred(preferred): u32,
        /// How many it can use.
        most(most): u32,
    }
}

document! {
    /// How near workers must or should be.
    pub TopologyDocument = TopologyWish {
        /// All within one of these.
        within(within): LevelWord,
        /// Whether it does not run otherwise.
        required(required): bool,
        /// By how many thousandths it is slower outside.
        penalty_milli(penalty_milli): u32,
    }
}

document! {
    /// How far workers must be apart.
    pub SpreadDocument = Spread {
        /// Over what.
        over(over): LevelWord,
        /// How many workers one of them may have.
        most(most): u32,
    }
}

variants! {
    /// Whether a job may be stopped for another.
    pub PreemptionDocument = Preemption {
        /// It may not.
        Never {}
        /// It may.
        Allowed {
            /// Time between checkpoints.
            checkpoint_every_ns(checkpoint_every): Time,
            /// From starting again until it goes on where it was.
            restart_ns(restart): Time,
        }
    }
}

document! {
    /// A time that is not known for sure.
    pub DurationDocument = DurationEstimate {
        /// What is expected.
        expected_ns(expected): Time,
        /// Standard deviation of its logarithm; 0: it is known.
        spread(spread): Real,
    }
}

/// A job's speed on a kind of GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeedDocument {
    /// Which kind.
    kind: KindNumber,
    /// Thousandths of the reference.
    speed_milli: u32,
}

impl Mirror for SpeedDocument {
    type Noun = (KindId, u32);
    fn of(noun: &Self::Noun) -> Self {
        Self {
            kind: Mirror::of(&noun.0),
            speed_milli: noun.1,
        }
    }
    fn noun(self) -> Self::Noun {
        (self.kind.noun(), self.speed_milli)
    }
}
