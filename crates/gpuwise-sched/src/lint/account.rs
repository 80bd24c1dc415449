//! Who is where, as the linter counts it: taken from the world when first asked for, then its own.

use crate::world::{Link, Phase, Tenancy, World};
use gpuwise_domain::placement::{Assignment, GpuId, JobId, Kinds, NodeId, Part, QueueId};
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

/// Nodes, GPUs and jobs that were asked for.
pub(super) struct Account<'w> {
    world: &'w World,
    nodes: BTreeMap<NodeId, NodeUse>,
    gpus: BTreeMap<GpuId, GpuUse>,
    jobs: BTreeMap<JobId, JobUse>,
    /// Of each queue its own jobs that had something at the beginning: most of them are never asked for.
    seated: OnceCell<BTreeMap<QueueId, Vec<JobId>>>,
    /// What they had, by queue and kinds of GPU.
    sums: RefCell<BTreeMap<(QueueId, Kinds), u64>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct NodeUse {
    pub(super) cpu_milli: u64,
    pub(super) memory_mib: u64,
    /// Pooled GPUs attached to it.
    pub(super) attached: u32,
    /// Workers on it.
    pub(super) workers: u32,
}

#[derive(Debug, Clone)]
pub(super) struct GpuUse {
    /// Where it is, or will be once what is under way is done.
    pub(super) node: Option<NodeId>,
    pub(super) link: Link,
    /// Whether MIG is on.
    pub(super) cut: bool,
    pub(super) instances: Vec<InstanceState>,
    /// Who has what of it, each share once.
    pub(super) users: Vec<(JobId, Part)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InstanceState {
    pub(super) shape: u8,
    pub(super) start: u8,
    /// Whether it is being destroyed or created already.
    pub(super) ready: bool,
}

/// What a job does and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobUse {
    pub(super) doing: JobActivity,
    pub(super) assignments: Vec<Assignment>,
}

/// Whether a job waits, has assignments, or had them taken because it was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobActivity {
    Waits,
    Runs,
    Reclaimed,
}

impl<'w> Account<'w> {
    pub(super) const fn new(world: &'w World) -> Self {
        Self {
            world,
            nodes: BTreeMap::new(),
            gpus: BTreeMap::new(),
            jobs: BTreeMap::new(),
            seated: OnceCell::new(),
            sums: RefCell::new(BTreeMap::new()),
        }
    }

    /// What jobs of a queue's own have, where `of` counts it of some assignments: as at the beginning, and those
    /// that were asked for as they are now.
    pub(super) fn held(
        &self,
        queue: QueueId,
        kinds: Kinds,
        of: &dyn Fn(&[Assignment]) -> u64,
    ) -> u64 {
        let before = |id: &JobId| {
            self.world
                .job(*id)
                .map_or(0, |state| of(&state.assignments))
        };
        let seated = self.seated.get_or_init(|| {
            let mut found: BTreeMap<QueueId, Vec<JobId>> = BTreeMap::new();
            for (id, state) in self.world.jobs() {
                if let Some(queue) = state.job.queue.filter(|_| !state.assignments.is_empty()) {
                    found.entry(queue).or_default().push(id);
                }
            }
            found
        });
        let mut sums = self.sums.borrow_mut();
        let mut sum = *sums.entry((queue, kinds)).or_insert_with(|| {
            let own = seated.get(&queue).map_or(&[][..], Vec::as_slice);
            own.iter().map(before).sum()
        });
        for (id, used) in &self.jobs {
            let own = self.world.job(*id).and_then(|state| state.job.queue);
            if own == Some(queue) {
                sum = (sum + of(&used.assignments)).saturating_sub(before(id));
            }
        }
        sum
    }

    /// A node's use; `None`: there is no such node.
    pub(super) fn node(&mut self, id: NodeId) -> Option<&mut NodeUse> {
        let state = self.world.node(id)?;
        Some(self.nodes.entry(id).or_insert_with(|| NodeUse {
            cpu_milli: state.node.cpu_milli.saturating_sub(state.cpu_free),
            memory_mib: state.node.memory_mib.saturating_sub(state.memory_free),
            attached: (state.gpus.len().saturating_sub(state.node.gpus.len())) as u32,
            workers: state.workers,
        }))
    }

    /// A GPU's use; `None`: there is no such GPU.
    pub(super) fn gpu(&mut self, id: GpuId) -> Option<&mut GpuUse> {
        let state = self.world.gpu(id)?;
        Some(self.gpus.entry(id).or_insert_with(|| {
            GpuUse {
                node: state.node,
                link: state.link,
                cut: matches!(state.held, Tenancy::Sliced(_)),
                instances: match &state.held {
                    Tenancy::Sliced(instances) => instances
                        .iter()
                        .map(|one| InstanceState {
                            shape: one.shape,
                            start: one.start,
                            ready: one.ready,
                        })
                        .collect(),
                    _ => Vec::new(),
                },
                users: users(&state.held),
            }
        }))
    }

    /// What a job does; `None`: there is no such job.
    pub(super) fn job(&mut self, id: JobId) -> Option<&mut JobUse> {
        let state = self.world.job(id)?;
        Some(self.jobs.entry(id).or_insert_with(|| JobUse {
            doing: match state.phase {
                Phase::Waiting { .. } => JobActivity::Waits,
                Phase::Starting { .. } | Phase::Running { .. } => JobActivity::Runs,
                Phase::Reclaimed { .. } => JobActivity::Reclaimed,
            },
            assignments: state.assignments.clone(),
        }))
    }

    /// Where a GPU is, whether or not it was asked for before.
    pub(super) fn whereabouts(&self, id: GpuId) -> Option<NodeId> {
        match self.gpus.get(&id) {
            Some(used) => used.node,
            None => self.world.gpu(id)?.node,
        }
    }

    /// Gives back what a job has, and says where it was.
    pub(super) fn give_back(&mut self, id: JobId) -> Vec<Assignment> {
        let Some(state) = self.world.job(id) else {
            return Vec::new();
        };
        let ask = state.job.worker;
        let assignments = self.give_gpus_back(id);
        if let Some(used) = self.job(id) {
            used.assignments.clear();
        }
        for assignment in &assignments {
            if let Some(node) = self.node(assignment.node) {
                node.cpu_milli = node.cpu_milli.saturating_sub(ask.cpu_milli);
                node.memory_mib = node.memory_mib.saturating_sub(ask.memory_mib);
                node.workers = node.workers.saturating_sub(1);
            }
        }
        assignments
    }

    /// Gives back a job's GPUs and leaves it what it has of their hosts; says where it was.
    pub(super) fn give_gpus_back(&mut self, id: JobId) -> Vec<Assignment> {
        let Some(used) = self.job(id) else {
            return Vec::new();
        };
        let assignments = used.assignments.clone();
        for assignment in &mut used.assignments {
            assignment.gpus.clear();
        }
        for share in assignments.iter().flat_map(|assignment| &assignment.gpus) {
            if let Some(gpu) = self.gpu(share.gpu)
                && let Some(at) = gpu.users.iter().position(|one| *one == (id, share.part))
            {
                gpu.users.remove(at);
            }
        }
        assignments
    }
}

/// Who has what, from what the world says of a GPU.
pub(super) fn users(held: &Tenancy) -> Vec<(JobId, Part)> {
    match held {
        Tenancy::Free => Vec::new(),
        Tenancy::Whole(job) => vec![(*job, Part::Whole)],
        Tenancy::Shared {
            isolation, holders, ..
        } => {
            let share = |one: &crate::world::Holder| Part::Fraction {
                milli: one.milli,
                memory_mib: one.memory_mib,
                isolation: *isolation,
            };
            holders.iter().map(|one| (one.job, share(one))).collect()
        }
        Tenancy::Sliced(instances) => instances
            .iter()
            .filter_map(|one| {
                let part = Part::Slice {
                    shape: one.shape,
                    start: one.start,
                };
                Some((one.holder?, part))
            })
            .collect(),
    }
}
