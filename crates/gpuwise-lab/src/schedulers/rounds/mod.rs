//! Rounds over GPUs of several kinds: who runs in the next round, on which kind, and beside whom.
//!
//! Time goes in rounds. Before each round a [`RoundPolicy`] sees every job that has come and not
//! ended, with its speed on each kind of GPU, and picks [`Allocation`]s: a job, or a pair that shares GPUs,
//! and a kind. All GPUs of a job are of one kind. Published policies work in two steps: shares of time
//! for each job and kind ([`shares`]), and allocations that follow them (`allocations`). Ours weighs what a round
//! brings and solves the assignment itself (`jct`, `makespan`).

mod assign;
mod fifo;
mod gandiva;
mod greedy;
mod jct;
mod makespan;
mod mechanism;
mod packing;
mod registry;
pub mod shares;
mod speeds;

pub use gpuwise_sched::rounds::{Rates, Solved, max_min, meets};
pub use registry::{RoundContext, named, names};
pub use speeds::{Class, Classes, PairSpeed, SoloSpeed, Speeds};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundJob {
    /// Its number: jobs are numbered as they come.
    pub number: u32,
    /// Which [`Class`] it is of.
    pub class: usize,
    /// Its weight among others: 2 is owed twice as much.
    pub weight: f64,
    /// When it came, in seconds.
    pub came: f64,
    /// Steps that it has done.
    pub done: f64,
    /// Steps that it still has to do, where that is known.
    pub left: Option<f64>,
    /// On which kind it ran in the last round.
    pub on: Option<usize>,
    /// When a round last ended in which it ran, or when it came, in seconds.
    pub served: f64,
}

/// What there is to run on.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Speeds of classes of jobs.
    pub speeds: &'a Speeds,
    /// GPUs of each kind.
    pub supply: &'a [u32],
    /// Longest time of a round, in seconds.
    pub round_s: f64,
}

/// One job, or two side by side, for one round. Jobs are places in the list that the policy was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub job: usize,
    /// Who shares its GPUs.
    pub partner: Option<usize>,
    pub kind: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    pub job: u32,
    pub partner: Option<u32>,
    pub kind: usize,
    /// How long it ran, in seconds.
    pub ran_s: f64,
}

/// Picks who runs in the next round.
pub trait RoundPolicy {
    /// Whether it lets two jobs share GPUs.
    fn shares_gpus(&self) -> bool {
        false
    }

    /// Mechanism of the round that begins at `now_s`. No kind gives more GPUs than it has, no job has two
    /// allocations, and each runs at a speed above 0. `jobs` are in the order of their numbers.
    fn allocate(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Allocation>;

    /// What the last round came to, longest allocation first, and which jobs have ended in it.
    fn round_ended(&mut self, _taken: &[Ran], _ended: &[u32]) {}

    /// No job runs and no further one will come.
    fn idle(&mut self) {}
}
