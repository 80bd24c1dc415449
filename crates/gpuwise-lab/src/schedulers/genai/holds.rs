//! Who holds which memory, in the kernel's world: every step is an event there.

use gpuwise_domain::placement::{
    Action, Assignment, Event, Fleet, FleetGpu, GpuAsk, GpuId, GpuKind, GpuShare, Home, Isolation,
    Job, JobId, KindId, Kinds, Node, NodeId, Part, Preemption, TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::world::{Refused, World};
use gpuwise_units::Nanoseconds;

/// The world, and what each container holds in it.
pub(super) struct Holds {
    world: World,
    host_gpus: u32,
}

impl Holds {
    pub(super) fn new(gpus: u32, gpu_mib: u32, host_gpus: u32) -> Self {
        let host_gpus = host_gpus.max(1);
        let node = |number: u32| Node {
            name: format!("host-{number}"),
            gpus: (number * host_gpus..gpus.min((number + 1) * host_gpus))
                .map(GpuId)
                .collect(),
            ..Node::default()
        };
        let fleet = Fleet {
            name: "genai".into(),
            kinds: vec![GpuKind {
                memory_mib: Some(gpu_mib),
                ..GpuKind::named("undisclosed")
            }],
            nodes: (0..gpus.div_ceil(host_gpus)).map(node).collect(),
            gpus: (0..gpus)
                .map(|gpu| {
                    FleetGpu::new(
                        KindId(0),
                        Home::Node(NodeId(gpu / host_gpus)),
                        gpu % host_gpus,
                    )
                })
                .collect(),
            ..Fleet::default()
        };
        Self {
            world: World::new(&fleet),
            host_gpus,
        }
    }

    /// A container takes memory of a GPU: for the first time, or brought back.
    pub(super) fn take(
        &mut self,
        at: u64,
        holder: usize,
        gpu: usize,
        mib: u32,
    ) -> Result<(), Refused> {
        let job = JobId(holder as u32);
        let gpu = GpuId(gpu as u32);
        let part = Part::Fraction {
            milli: 1,
            memory_mib: mib,
            isolation: Isolation::TimeSlice,
        };
        let assignments = vec![Assignment {
            node: NodeId(gpu.0 / self.host_gpus),
            gpus: vec![GpuShare { gpu, part }],
        }];
        if self.world.job(job).is_none() {
            self.apply(at, Event::Submitted(container(job)))?;
            return self.apply(at, Event::done(Action::Place { job, assignments }));
        }
        self.apply(at, Event::done(Action::Restore { job, assignments }))
    }

    /// A container's memory is taken from it while it is idle.
    pub(super) fn reclaim(&mut self, at: u64, holder: usize) -> Result<(), Refused> {
        let job = JobId(holder as u32);
        self.apply(at, Event::Measured { job, busy_milli: 0 })?;
        self.apply(at, Event::done(Action::Reclaim { job }))
    }

    fn apply(&mut self, at: u64, event: Event) -> Result<(), Refused> {
        self.world.apply(&TimestampedEvent {
            at: Nanoseconds(at),
            event,
        })
    }
}

/// It asks for turns on a GPU; how much memory they take is known when it is placed.
fn container(id: JobId) -> Job {
    Job {
        tenant: "serving".into(),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(0),
            restart: Nanoseconds(0),
        },
        ..Job::new(
            id,
            format!("container-{id}"),
            WorkerAsk {
                cpu_milli: 0,
                memory_mib: 0,
                gpu: GpuAsk::Fraction {
                    milli: 1,
                    memory_mib: None,
                    isolation: Isolation::TimeSlice,
                    kinds: Kinds::ANY,
                },
            },
        )
    }
}
