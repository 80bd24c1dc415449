//! A trace as a fleet and jobs, for the scheduler's own policies.

use super::Trace;
use gpuwise_domain::placement::{
    DurationEstimate, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, Home, Job, JobId, KindId,
    Kinds, Need, Node, NodeId, Preemption, WorkerAsk,
};
use gpuwise_units::Nanoseconds;

/// A job's speed on its best kind, in thousandths: so high that a hundredth of it can be told.
const BEST: u32 = 100_000;

/// Nodes with one GPU each, as in the published runs.
pub(super) fn fleet(supply: &[(String, u32)]) -> Fleet {
    let mut fleet = Fleet {
        name: "rounds".into(),
        ..Fleet::default()
    };
    for ((name, count), kind) in supply.iter().zip(0..) {
        fleet.kinds.push(GpuKind::named(name.clone()));
        for at in 0..*count {
            let number = fleet.gpus.len() as u32;
            let home = Home::Node(NodeId(number));
            fleet.gpus.push(FleetGpu::new(KindId(kind), home, 0));
            fleet.nodes.push(Node {
                name: format!("{name}-{at}"),
                gpus: vec![GpuId(number)],
                ..Node::default()
            });
        }
    }
    fleet
}

impl Trace {
    /// The fleet and its jobs, in the order of their coming: gangs of one GPU a worker, that may be stopped at
    /// no cost, and whose speed on each kind and duration are known.
    pub fn fleet_and_jobs(&self) -> (Fleet, Vec<Job>) {
        let one = |(at, job): (usize, &super::TraceJob)| {
            let best = self.speeds.best(job.class).max(1e-12);
            let speeds = self.speeds.row(job.class).iter().zip((0..).map(KindId));
            let speeds: Vec<(KindId, u32)> = speeds
                .map(|(speed, kind)| (kind, (speed / best * f64::from(BEST)).round() as u32))
                .collect();
            let runs = |kinds: Kinds, (kind, speed): &(KindId, u32)| {
                if *speed > 0 { kinds.with(*kind) } else { kinds }
            };
            let kinds = speeds.iter().fold(Kinds::NONE, runs);
            let worker = WorkerAsk {
                cpu_milli: 0,
                memory_mib: 0,
                gpu: GpuAsk::Whole {
                    count: 1,
                    kinds,
                    need: Need::default(),
                },
            };
            // By its class, so that rules for pairs can name it.
            let class = self.speeds.classes().get(job.class);
            let class = class.map_or("job", |class| class.name.as_str());
            let name = format!("{class} #{at}");
            let at_reference = job.steps as f64 / best * f64::from(BEST) / 1000.0;
            Job {
                submitted: Nanoseconds((job.came_s * 1e9).round() as u64),
                gang: Gang::exactly(self.speeds.gpus(job.class)),
                preemption: Preemption::Allowed {
                    checkpoint_every: Nanoseconds(1),
                    restart: Nanoseconds(0),
                },
                duration: Some(DurationEstimate {
                    expected: Nanoseconds((at_reference * 1e9).round() as u64),
                    spread: 0.0,
                }),
                speeds,
                ..Job::new(JobId(at as u32), name, worker)
            }
        };
        let jobs = self.jobs.iter().enumerate().map(one).collect();
        (fleet(&self.supply), jobs)
    }
}
