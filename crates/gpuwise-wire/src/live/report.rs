//! What a decision weighed, and what is short where the answer is no.

use super::{
    fleet::LevelWord,
    numbers::{JobNumber, KindNumber, KindSet, NameText, NodeNumber, QueueNumber, Time},
    plan::ActionDocument,
};
use crate::{
    mirror::{Mirror, document, variants},
    quantities::MoneyText,
};
use gpuwise_domain::placement::{
    Decision, Fix, Outcome, QuotaLimit, QuotaShort, Remedy, Report, Shortage, Weighed,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

document! {
    /// What the scheduler says beside a plan.
    pub ReportDocument = Report {
        /// Each job that was looked at, in the order in which it was.
        decisions(decisions): Vec<DecisionDocument>,
        /// Steps of search that were taken.
        steps(steps): u64,
    }
}

document! {
    /// What was decided of a job.
    pub DecisionDocument = Decision {
        /// Which.
        job(job): JobNumber,
        /// What became of it.
        outcome(outcome): OutcomeDocument,
        /// Nodes that had room.
        candidates(candidates): u32,
        /// What was weighed for the choice.
        weighed(weighed): Vec<WeighedDocument>,
    }
}

/// Something that was weighed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeighedDocument {
    /// What.
    name: NameText,
    /// How much it counted.
    points: i64,
}

impl Mirror for WeighedDocument {
    type Noun = Weighed;
    fn of(noun: &Weighed) -> Self {
        Self {
            name: Mirror::of(&noun.0),
            points: noun.1,
        }
    }
    fn noun(self) -> Weighed {
        (self.name.noun(), self.points)
    }
}

variants! {
    /// What became of a job.
    pub OutcomeDocument = Outcome {
        /// It gets a place.
        Placed {}
        /// It waits.
        Waits {
            /// What is short.
            shortage(shortage): ShortageDocument,
            /// When it is expected to start, where that can be told.
            start_ns(start): Option<Time>,
            /// What would help, cheapest first.
            fixes(fixes): Vec<FixDocument>,
        }
    }
}

variants! {
    /// What is short.
    pub ShortageDocument = Shortage {
        /// It was not asked.
        Untold {}
        /// No GPU of the fleet is of a kind that is asked for.
        NoSuchGpu {
            /// Which kinds.
            kinds(kinds): KindSet,
        }
        /// The fleet could never hold it, even empty.
        LargerThanFleet {
            /// Workers that fit the empty fleet.
            fit(fit): u32,
            /// Workers that are needed.
            needed(needed): u32,
        }
        /// Too few GPUs are free together in one node.
        Gpus {
            /// GPUs that a worker needs.
            needed(needed): u32,
            /// The most that one node has free.
            best(best): u32,
            /// Which.
            node(node): Option<NodeNumber>,
        }
        /// GPUs are free where too little processor time is.
        Cpu {
            /// Thousandths of a core that a worker needs.
            needed(needed): u64,
            /// The most that a node with the GPUs has free.
            best(best): u64,
            /// Which.
            node(node): Option<NodeNumber>,
        }
        /// GPUs are free where too little memory is.
        Memory {
            /// MiB that a worker needs.
            needed(needed): u64,
            /// The most that a node with the GPUs has free.
            best(best): u64,
            /// Which.
            node(node): Option<NodeNumber>,
        }
        /// No GPU has this much of its time free.
        Fraction {
            /// Thousandths that are needed.
            needed(needed): u32,
            /// The most that one GPU has free.
            best(best): u32,
        }
        /// No GPU has room for such an instance.
        Slice {}
        /// Too few workers find an assignment.
        Workers {
            /// Workers that are needed.
            needed(needed): u32,
            /// Workers that find one.
            fit(fit): u32,
        }
        /// Too few GPUs are free together in one domain.
        Topology {
            /// In one of what.
            within(within): LevelWord,
            /// Workers that are needed.
            needed(needed): u32,
            /// The most that one has room for.
            best(best): u32,
            /// Which, by its number.
            place(place): Option<u32>,
        }
        /// Workers must be further apart than there is room.
        Spread {
            /// Workers that are needed.
            needed(needed): u32,
            /// Workers that find an assignment.
            fit(fit): u32,
        }
        /// Its queue may not take so much.
        Quota {
            /// Why.
            short(0): QuotaShortDocument,
        }
        /// Its queue's budget is spent.
        Budget {
            /// The queue's place in the list.
            queue(queue): u32,
        }
        /// What is free is reserved for another queue.
        Reserved {
            /// On this node, among others.
            node(node): NodeNumber,
        }
        /// Somebody who waits longer goes first.
        BehindHead {
            /// Who.
            head(head): JobNumber,
        }
        /// It is held back.
        Held {}
        /// It failed to start, and is tried again then.
        BackOff {
            /// When.
            until_ns(until): Time,
        }
        /// Where there is room it failed to start, and is tried again there then.
        Avoided {
            /// Where.
            node(node): NodeNumber,
            /// When.
            until_ns(until): Time,
        }
        /// It may still run on a node that does not answer.
        Unfenced {
            /// Which.
            node(node): NodeNumber,
        }
        /// It may still run where it was told to stop.
        Leaving {}
    }
}

document! {
    /// Why a queue may not take what a job needs, in thousandths of GPUs.
    pub QuotaShortDocument = QuotaShort {
        /// The job's queue.
        queue(queue): u32,
        /// Its nominal quota of these kinds.
        nominal_milli(nominal_milli): u64,
        /// What it uses of them, with all below it.
        held_milli(held_milli): u64,
        /// Of which kinds.
        kinds(kinds): KindSet,
        /// What the job needs at least.
        needed_milli(needed_milli): u64,
        /// What its queue may still take.
        room_milli(room_milli): u64,
        /// What sets the limit.
        by(by): QuotaLimitDocument,
        /// The limit.
        limit_milli(limit_milli): u64,
        /// What is used of it.
        used_milli(used_milli): u64,
        /// What of the rest is guaranteed to queues below the limit.
        guaranteed_milli(guaranteed_milli): u64,
        /// What of that is guaranteed to this queue and those between.
        guaranteed_here_milli(guaranteed_here_milli): u64,
        /// Who uses most; 0: nobody.
        users(users): [QueueUseDocument; 3],
    }
}

/// What a queue uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueUseDocument {
    /// Its place in the list.
    queue: u32,
    /// Thousandths of GPUs.
    used_milli: u32,
}

impl Mirror for QueueUseDocument {
    type Noun = (u32, u32);
    fn of(noun: &(u32, u32)) -> Self {
        Self {
            queue: noun.0,
            used_milli: noun.1,
        }
    }
    fn noun(self) -> (u32, u32) {
        (self.queue, self.used_milli)
    }
}

variants! {
    /// What sets the limit of what a queue may take.
    pub QuotaLimitDocument = QuotaLimit {
        /// The most that a queue may ever have.
        Cap {
            /// Its place in the list.
            queue(queue): u32,
        }
        /// What is a queue's own and what it may borrow.
        Borrowing {
            /// Its place in the list.
            queue(queue): u32,
        }
        /// What all queues have together.
        Cohort {}
    }
}

document! {
    /// What would help a job that waits.
    pub FixDocument = Fix {
        /// What is to be done.
        remedy(remedy): RemedyDocument,
        /// The same in words.
        what(what): String,
        /// Time until the job could start then.
        after_ns(after): Time,
        /// Work of others that is lost, in GPU-time.
        lost_gpu_ns(lost): Time,
        /// What it costs an hour, where something is bought and its price is known.
        price_per_hour(price): Option<MoneyText>,
        /// What it costs all together, in GPU-time.
        cost_gpu_ns(cost): Time,
    }
}

variants! {
    /// What is to be done so that a job can start.
    pub RemedyDocument = Remedy {
        /// These jobs stop, and wait again.
        Preempt {
            /// Which.
            jobs(0): Vec<JobNumber>,
        }
        /// These jobs stop, and start again elsewhere.
        Move {
            /// Which.
            jobs(0): Vec<JobNumber>,
        }
        /// Until these have ended.
        Wait {
            /// Which.
            jobs(0): Vec<JobNumber>,
        }
        /// Nodes join.
        Buy {
            /// Like this one.
            like(like): NodeNumber,
            /// How many.
            nodes(nodes): u32,
        }
        /// The job runs with fewer workers.
        Shrink {
            /// How many at least.
            workers(workers): u32,
        }
        /// Its workers are further apart.
        Relax {
            /// Within this; null: anywhere.
            within(within): Option<LevelWord>,
        }
        /// It accepts another kind.
        Accept {
            /// Which.
            kind(0): KindNumber,
        }
        /// Idle instances are destroyed and modes switched.
        Repartition {
            /// How.
            actions(0): Vec<ActionDocument>,
        }
        /// A node that takes no work does again.
        Repair {
            /// Which.
            node(0): NodeNumber,
        }
        /// A queue may take more.
        Raise {
            /// Which.
            queue(queue): QueueNumber,
            /// How many thousandths of GPUs more.
            by_milli(by_milli): u64,
        }
    }
}
