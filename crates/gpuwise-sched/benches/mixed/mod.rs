//! A fleet of mixed ages and jobs that share GPUs: what rates of decisions are measured on.

use gpuwise_domain::placement::{
    Fleet, FleetGpu, GpuAsk, GpuId, GpuKind, Home, Isolation, Job, JobId, KindId, Kinds, Need,
    Node, NodeId, WorkerAsk,
};
use gpuwise_units::{Nanoseconds, RandomStream};

/// Nodes with 8, 4, 2 and 1 GPU of seven kinds.
pub(crate) fn fleet(nodes: u32) -> Fleet {
    let mut fleet = Fleet {
        name: "mixed".into(),
        kinds: (0..7).map(|at| GpuKind::named(format!("G{at}"))).collect(),
        ..Fleet::default()
    };
    let mut stream = RandomStream::new(7, "fleet", 0);
    for id in 0..nodes {
        let (gpus, cores, gib) = match stream.below(20) {
            0..10 => (8, 96, 384),
            10 => (4, 64, 256),
            11..19 => (2, 64, 256),
            _ => (1, 32, 128),
        };
        let kind = KindId(stream.below(7) as u32);
        let first = fleet.gpus.len() as u32;
        fleet
            .gpus
            .extend((0..gpus).map(|index| FleetGpu::new(kind, Home::Node(NodeId(id)), index)));
        fleet.nodes.push(Node {
            name: format!("n{id}"),
            cpu_milli: cores * 1000,
            memory_mib: gib * 1024,
            gpus: (first..first + gpus).map(GpuId).collect(),
            ..Node::default()
        });
    }
    fleet
}

/// Shapes of asks, a hundred of them.
pub(crate) fn shapes() -> Vec<(WorkerAsk, u64)> {
    let mut stream = RandomStream::new(7, "shapes", 0);
    let mut one = |count: u64| {
        let kinds = if stream.below(5) == 0 {
            Kinds::one(KindId(stream.below(7) as u32)).with(KindId(stream.below(7) as u32))
        } else {
            Kinds::ANY
        };
        let gpu = match stream.below(100) {
            0..13 => GpuAsk::None,
            13..50 => GpuAsk::Fraction {
                milli: 50 + 10 * stream.below(90) as u32,
                memory_mib: None,
                isolation: Isolation::TimeSlice,
                kinds,
            },
            more => GpuAsk::Whole {
                count: [1, 1, 1, 1, 1, 1, 1, 2, 4, 8][more as usize % 10],
                kinds,
                need: Need::default(),
            },
        };
        let share = gpu.milli().clamp(500, 8000);
        let ask = WorkerAsk {
            cpu_milli: share * (2 + stream.below(9)),
            memory_mib: share * (4 + stream.below(24)),
            gpu,
        };
        (ask, 1 + 2000 / (1 + count))
    };
    (0..100).map(&mut one).collect()
}

pub(crate) fn job(id: u32, worker: WorkerAsk, at: Nanoseconds) -> Job {
    Job {
        submitted: at,
        ..Job::new(JobId(id), format!("job {id}"), worker)
    }
}
