// What the worked examples about placing share: small fleets and jobs.

use gpuwise_domain::placement::{
    Action, Assignment, Event, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, GpuShare, Health, Home, Job, JobId,
    KindId, Kinds, Need, Node, NodeId, Part, Preemption, TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::world::World;
use gpuwise_units::Nanoseconds;

/// So many seconds.
pub fn seconds(count: u64) -> Nanoseconds {
    Nanoseconds(count * 1_000_000_000)
}

/// Nodes with so many GPUs each, all of one kind, and more processor time and memory than is asked for.
pub fn fleet(nodes: &[u32]) -> Fleet {
    let kind = GpuKind {
 memory_mib: Some(81_920),
 ..GpuKind::named("A")
};
    let mut fleet = Fleet { kinds: vec![kind], ..Fleet::default() };
    for (id, count) in nodes.iter().enumerate() {
        let first = fleet.gpus.len() as u32;
        for index in 0..*count {
            fleet.gpus.push(FleetGpu::new(KindId(0), Home::Node(NodeId(id as u32)), index));
        }
        fleet.nodes.push(Node {
            name: format!("n{id}"),
            cpu_milli: 1_000_000,
            memory_mib: 1_000_000,
            gpus: (first..first + count).map(GpuId).collect(),
            ..Node::default()
        });
    }
    fleet
}

/// A job of one worker with whole GPUs.
pub fn job(id: u32, gpus: u32, priority: i32, preemption: Preemption) -> Job {
    let (kinds, need) = (Kinds::ANY, Need::default());
    Job {
        tenant: "t".into(),
        priority,
        preemption,
        ..Job::new(JobId(id), format!("job {id}"), WorkerAsk {
            cpu_milli: 1000,
            memory_mib: 1000,
            gpu: GpuAsk::Whole { count: gpus, kinds, need },
        })
    }
}

/// It may be stopped; it saves its state every so many seconds and needs so many to start again.
pub fn stoppable(every: u64, restart: u64) -> Preemption {
    Preemption::Allowed { checkpoint_every: seconds(every), restart: seconds(restart) }
}

/// A job asks at a second.
pub fn ask(world: &mut World, second: u64, job: Job) {
    let event = Event::Submitted(job);
    world.apply(&TimestampedEvent { at: seconds(second), event }).expect("a world that takes it");
}

/// A job starts at a second on these GPUs of a node.
pub fn start(world: &mut World, second: u64, job: Job, node: u32, gpus: std::ops::Range<u32>) {
    let id = job.id;
    ask(world, second, job);
    let share = |gpu| GpuShare { gpu: GpuId(gpu), part: Part::Whole };
    let assignments = vec![Assignment { node: NodeId(node), gpus: gpus.map(share).collect() }];
    let event = Event::done(Action::Place { job: id, assignments });
    world.apply(&TimestampedEvent { at: seconds(second), event }).expect("a world that takes it");
}
