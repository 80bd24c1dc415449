//! Virtual clusters of training jobs (Microsoft's Philly trace) through the scheduler.
//!
//! A cluster's nodes have eight GPUs each. A job of up to eight GPUs runs on one node; a larger one on
//! several, each with the same number of GPUs: the largest part of eight GPUs or fewer that divides what
//! it needs. All of a job's GPUs start and end together. Durations are known exactly to policies that
//! look at them. Jobs that are stopped lose nothing but the time to start again, [`RESTART`], in which
//! they hold their GPUs.

mod classes;
mod run;

pub use run::{Failure, Run, replay};

use gpuwise_domain::{
    fleet::{TrainingJob, VirtualCluster},
    placement::{
        DurationEstimate, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, Home, Job, JobId, KindId,
        Kinds, Need, Node, NodeId, Preemption, WorkerAsk,
    },
};
use gpuwise_sched::{
    decide::{Order, Policy},
    policy::{Indexed, MostAllocated},
    queues::Limits,
};
use gpuwise_units::Nanoseconds;

pub const NODE_GPUS: u32 = 8;
/// From placing a job that was stopped before until it goes on where it was.
pub const RESTART: Nanoseconds = Nanoseconds(60_000_000_000);
/// Those whose start is guaranteed under conservative backfill.
const GUARANTEES: u32 = 16;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Discipline:
        /// The name that users give.
        name
    {
        /// As they came; nobody goes ahead.
        Fifo = "fifo",
        /// As they came; others go ahead where they do not delay the first (EASY).
        Backfill = "backfill",
        /// As they came; others go ahead where they do not delay the first sixteen.
        Conservative = "conservative",
        /// The shortest first; whoever fits goes ahead.
        Shortest = "sjf",
        /// Those who have held least GPU time first, in steps, and by stopping others; durations are not
        /// looked at.
        LeastServed = "las",
        /// Those with least GPU time left first, in steps, and by stopping others.
        LeastLeft = "srsf",
    }
}

impl Discipline {
    fn policy(self) -> Policy {
        let reservations = match self {
            Self::Backfill => 1,
            Self::Conservative => GUARANTEES,
            _ => 0,
        };
        Policy {
            order: match self {
                Self::Shortest => Order::Shortest,
                _ => Order::Arrival,
            },
            skips: !matches!(self, Self::Fifo),
            limits: Limits {
                reservations,
                padding_sigmas: 0.0,
                starvation_timeout: None,
            },
            ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
        }
    }

    const fn stops_others(self) -> bool {
        matches!(self, Self::LeastServed | Self::LeastLeft)
    }
}

/// Nodes of a cluster: as many as the trace says, or else as few as hold its largest job.
pub fn nodes_of(cluster: &VirtualCluster) -> u32 {
    let largest = cluster.jobs.iter().map(|job| job.gpus).max().unwrap_or(1);
    cluster.nodes.unwrap_or(largest.div_ceil(NODE_GPUS))
}

/// A cluster's nodes as a fleet of one kind of GPU; processor time and memory are not asked for.
pub fn fleet(cluster: &VirtualCluster) -> Fleet {
    let mut fleet = Fleet {
        name: cluster.name.clone(),
        kinds: vec![GpuKind::named("GPU")],
        ..Fleet::default()
    };
    for id in 0..nodes_of(cluster) {
        let first = fleet.gpus.len() as u32;
        fleet.gpus.extend(
            (0..NODE_GPUS).map(|index| FleetGpu::new(KindId(0), Home::Node(NodeId(id)), index)),
        );
        fleet.nodes.push(Node {
            name: format!("node {id}"),
            gpus: (first..first + NODE_GPUS).map(GpuId).collect(),
            ..Node::default()
        });
    }
    fleet
}

/// Workers of a job and GPUs of each.
pub fn shape(gpus: u32) -> (u32, u32) {
    let each = (1..=NODE_GPUS.min(gpus))
        .rev()
        .find(|each| gpus.is_multiple_of(*each));
    let each = each.unwrap_or(1);
    (gpus / each, each)
}

fn job(traced: &TrainingJob, id: u32) -> Job {
    let (workers, each) = shape(traced.gpus);
    Job {
        submitted: traced.submitted,
        gang: Gang::exactly(workers),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(1),
            restart: RESTART,
        },
        duration: Some(DurationEstimate {
            expected: traced.duration,
            spread: 0.0,
        }),
        ..Job::new(
            JobId(id),
            traced.number.to_string(),
            WorkerAsk {
                cpu_milli: 0,
                memory_mib: 0,
                gpu: GpuAsk::Whole {
                    count: each,
                    kinds: Kinds::ANY,
                    need: Need::default(),
                },
            },
        )
    }
}
