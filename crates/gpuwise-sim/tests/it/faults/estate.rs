//! Random fleets of all that there is, and random jobs that ask for all that can be asked for.

use gpuwise_domain::placement::{
    Action, Domain, DomainId, DurationEstimate, FabricPool, Fleet, FleetGpu, Gang, GpuAsk, GpuId,
    GpuKind, Health, Home, IslandId, Isolation, Job, JobId, KindId, Kinds, Level, MigGeometry,
    MigShape, Need, Node, NodeId, PoolId, Preemption, SliceAsk, Spread, TopologyWish, Uid,
    WorkerAsk,
};
use gpuwise_units::{Nanoseconds, RandomStream};

const SECOND: u64 = 1_000_000_000;

/// What happens to actions; each must come up.
pub(super) const WORDS: [&str; 15] = [
    "place",
    "preempt",
    "move",
    "resize",
    "switch",
    "create instance",
    "destroy instance",
    "attach",
    "reclaim",
    "restore",
    "failed",
    "dropped",
    "detach",
    "told again",
    "woke",
];

pub(super) const fn word(action: &Action) -> &'static str {
    match action {
        Action::Place { .. } => "place",
        Action::Preempt { .. } => "preempt",
        Action::Move { .. } => "move",
        Action::Resize { .. } => "resize",
        Action::SetMig { .. } => "switch",
        Action::CreateInstance { .. } => "create instance",
        Action::DestroyInstance { .. } => "destroy instance",
        Action::Attach { .. } => "attach",
        Action::Detach { .. } => "detach",
        Action::Reclaim { .. } => "reclaim",
        Action::Restore { .. } => "restore",
    }
}

/// Seven compute and eight memory slices; 1g, 2g, 3g, 7g.
fn geometry() -> MigGeometry {
    let shape = |profile: &str, compute: u8, size: u8, starts, most| MigShape {
        profile: profile.into(),
        memory_mib: Some(u32::from(size) * 10_000),
        units: Some(u32::from(compute) * 16),
        compute,
        size,
        starts,
        most,
        media: false,
    };
    MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![
            shape("1g", 1, 1, 0x7f, 7),
            shape("2g", 2, 2, 0x15, 3),
            shape("3g", 3, 4, 0x11, 2),
            shape("7g", 7, 8, 0x01, 1),
        ],
    }
}

fn kind(name: &str, mig: Option<MigGeometry>) -> GpuKind {
    GpuKind {
        features: Vec::new(),
        name: name.into(),
        memory_mib: Some(80_000),
        units: Some(132),
        bandwidth_gbs: Some(3350),
        tflops: Some(989),
        price: None,
        mig,
    }
}

fn gpu(kind: u32, home: Home, index: u32, island: Option<u32>, mig_on: bool) -> FleetGpu {
    FleetGpu {
        kind: KindId(kind),
        uid: Uid::default(),
        home,
        index,
        numa: Some(index / 2),
        switch: None,
        island: island.map(IslandId),
        rail: None,
        health: Health::Up,
        mig_on,
    }
}

pub(super) fn fleet(random: &mut RandomStream) -> Fleet {
    let mut fleet = Fleet {
        name: "random".into(),
        kinds: vec![
            kind("A", None),
            kind("B", Some(geometry())),
            kind("C", None),
        ],
        ..Fleet::default()
    };
    for rack in 0..2 {
        fleet.domains.push(Domain {
            name: format!("r{rack}"),
            level: Level::Rack,
            parent: None,
        });
    }
    for pool in 0..2 {
        fleet.pools.push(FabricPool {
            name: format!("p{pool}"),
            attach: Nanoseconds(11 * SECOND),
            detach: Nanoseconds(4 * SECOND),
            hot_plug: true,
        });
    }
    let nodes = 3 + random.below(4) as u32;
    for id in 0..nodes {
        let (of, count) = (random.below(2) as u32, 1 + random.below(4) as u32);
        let cut = of == 1 && random.below(2) == 0;
        fleet.islands.push(format!("i{id}"));
        let first = fleet.gpus.len() as u32;
        for index in 0..count {
            let home = Home::Node(NodeId(id));
            let cut = cut && random.below(2) == 0;
            fleet.gpus.push(gpu(of, home, index, Some(id), cut));
        }
        fleet.nodes.push(Node {
            name: format!("n{id}"),
            uid: Uid::default(),
            cpu_milli: 4000 + 4000 * u64::from(count),
            memory_mib: 65_536 * u64::from(count),
            gpus: (first..first + count).map(GpuId).collect(),
            domain: Some(DomainId(id % 2)),
            pools: vec![PoolId(random.below(2) as u32)],
            slots: random.below(3) as u32,
            health: Health::Up,
        });
    }
    for index in 0..4 {
        let home = Home::Pool(PoolId(index % 2));
        fleet.gpus.push(gpu(2, home, index / 2, None, false));
    }
    fleet
}

fn ask(random: &mut RandomStream) -> GpuAsk {
    let kinds = if random.below(3) == 0 {
        Kinds::one(KindId(random.below(3) as u32))
    } else {
        Kinds::ANY
    };
    match random.below(10) {
        0 => GpuAsk::None,
        1..4 => GpuAsk::Fraction {
            milli: 100 + 100 * random.below(8) as u32,
            memory_mib: (random.below(2) == 0).then_some(20_000),
            isolation: [Isolation::TimeSlice, Isolation::Mps][random.below(2) as usize],
            kinds,
        },
        4..7 => {
            let compute = [1, 2, 3][random.below(3) as usize];
            let slice = SliceAsk {
                compute,
                ..SliceAsk::default()
            };
            let kinds = Kinds::ANY;
            GpuAsk::Slice { slice, kinds }
        }
        _ => GpuAsk::Whole {
            count: 1 + random.below(3) as u32,
            kinds,
            need: Need::default(),
        },
    }
}

pub(super) fn job(id: u32, fleet: &Fleet, random: &mut RandomStream) -> Job {
    let least = 1 + random.below(2) as u32;
    let preferred = least + random.below(2) as u32;
    let most = preferred + random.below(2) as u32;
    let levels = [Level::Island, Level::Node, Level::Rack];
    Job {
        id: JobId(id),
        name: format!("j{id}"),
        tenant: "t".into(),
        queue: None,
        priority: random.below(4) as i32,
        submitted: Nanoseconds(u64::from(id)),
        worker: WorkerAsk {
            cpu_milli: 500 + 1000 * random.below(4),
            memory_mib: 1024 * (1 + random.below(20)),
            gpu: ask(random),
        },
        gang: Gang {
            least,
            preferred,
            most,
        },
        topology: (random.below(5) == 0).then(|| TopologyWish {
            within: levels[random.below(3) as usize],
            required: random.below(2) == 0,
            penalty_milli: 100,
        }),
        spread: (random.below(8) == 0).then_some(Spread {
            over: Level::Node,
            most: 1,
        }),
        deadline: None,
        preemption: if random.below(4) == 0 {
            Preemption::Never
        } else {
            Preemption::Allowed {
                checkpoint_every: Nanoseconds((1 + random.below(5)) * 60 * SECOND),
                restart: Nanoseconds((1 + random.below(30)) * SECOND),
            }
        },
        grace: Nanoseconds(0),
        duration: Some(DurationEstimate {
            expected: Nanoseconds((30 + random.below(400)) * SECOND),
            spread: 0.0,
        }),
        speeds: Vec::new(),
        near: fleet.nodes.first().map(|_| NodeId(0)).into_iter().collect(),
    }
}
