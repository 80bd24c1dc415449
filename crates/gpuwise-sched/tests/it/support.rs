//! Small fleets and jobs.

use gpuwise_domain::placement::{
    Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, Health, Home, Isolation, Job, JobId, KindId,
    Kinds, Need, Node, NodeId, Uid, WorkerAsk,
};
use gpuwise_sched::world::StoredJob;
use gpuwise_units::Nanoseconds;

/// Nodes of one kind, each with so many GPUs, 8 cores and 64 GiB a GPU, and one core for none.
pub(crate) fn fleet(gpus: &[u32]) -> Fleet {
    let mut fleet = Fleet {
        name: "test".into(),
        kinds: vec![GpuKind {
            features: Vec::new(),
            name: "A".into(),
            memory_mib: Some(81_920),
            units: Some(132),
            bandwidth_gbs: Some(3350),
            tflops: Some(989),
            price: None,
            mig: None,
        }],
        ..Fleet::default()
    };
    for (count, id) in gpus.iter().zip(0..) {
        let first = fleet.gpus.len() as u32;
        fleet.gpus.extend((0..*count).map(|index| FleetGpu {
            kind: KindId(0),
            uid: Uid::default(),
            home: Home::Node(NodeId(id)),
            index,
            numa: None,
            switch: None,
            island: None,
            rail: None,
            health: Health::Up,
            mig_on: false,
        }));
        fleet.nodes.push(Node {
            name: format!("n{id}"),
            cpu_milli: 1000 + 8000 * u64::from(*count),
            memory_mib: 65_536 * u64::from(*count),
            gpus: (first..first + count).map(GpuId).collect(),
            ..Node::default()
        });
    }
    fleet
}

/// A job of equal workers with whole GPUs, or with thousandths of one.
pub(crate) fn job(id: u32, workers: u32, gpus: u32, milli: u32) -> Job {
    let gpu = if milli < 1000 {
        GpuAsk::Fraction {
            milli,
            memory_mib: None,
            isolation: Isolation::TimeSlice,
            kinds: Kinds::ANY,
        }
    } else {
        GpuAsk::Whole {
            count: gpus,
            kinds: Kinds::ANY,
            need: Need::default(),
        }
    };
    Job {
        tenant: "t".into(),
        submitted: Nanoseconds(u64::from(id)),
        gang: Gang::exactly(workers),
        ..Job::new(
            JobId(id),
            format!("job {id}"),
            WorkerAsk {
                cpu_milli: 1000,
                memory_mib: 1024,
                gpu,
            },
        )
    }
}

/// A job of one worker that asks for this, as a world keeps it.
pub(crate) fn asking(worker: &WorkerAsk) -> StoredJob {
    StoredJob::from(&Job::new(JobId(0), "asks".into(), *worker))
}
