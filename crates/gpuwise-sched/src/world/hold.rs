//! Taking and giving back what assignments hold.

use super::{
    Holder, Refused, Tenancy, World,
    changes::mixed as mix,
    members::{Counted, Free},
};
use gpuwise_domain::placement::{
    Assignment, GpuId, GpuShare, Isolation, JobId, NodeId, Part, WorkerAsk,
};

impl World {
    /// Takes all assignments or none. Assignments that were just given back (`back`) are taken whether or not their
    /// nodes take new work.
    pub(crate) fn take(
        &mut self,
        job: JobId,
        ask: &WorkerAsk,
        assignments: &[Assignment],
        back: bool,
    ) -> Result<(), Refused> {
        for (done, assignment) in assignments.iter().enumerate() {
            if let Err(refused) = self.take_seat(job, ask, assignment, back) {
                for assignment in assignments.get(..done).unwrap_or_default() {
                    self.give_seat(job, ask, assignment);
                }
                return Err(refused);
            }
        }
        Ok(())
    }

    pub(super) fn give(&mut self, job: JobId, ask: &WorkerAsk, assignments: &[Assignment]) {
        for assignment in assignments {
            self.give_seat(job, ask, assignment);
        }
    }

    fn take_seat(
        &mut self,
        job: JobId,
        ask: &WorkerAsk,
        assignment: &Assignment,
        back: bool,
    ) -> Result<(), Refused> {
        let node = self
            .node(assignment.node)
            .ok_or(Refused::NoSuchNode(assignment.node))?;
        if !node.takes_work() && !back {
            return Err(Refused::NodeClosed(assignment.node));
        }
        if node.cpu_free < ask.cpu_milli || node.memory_free < ask.memory_mib {
            return Err(Refused::NodeFull(assignment.node));
        }
        for (done, share) in assignment.gpus.iter().enumerate() {
            if let Err(refused) = self.take_share(job, assignment.node, *share, back) {
                for share in assignment.gpus.get(..done).unwrap_or_default() {
                    self.give_share(job, *share);
                }
                return Err(refused);
            }
        }
        if let Some(node) = self.nodes.get_mut(assignment.node.index()) {
            node.cpu_free -= ask.cpu_milli;
            node.memory_free -= ask.memory_mib;
            node.workers += 1;
        }
        self.recount(assignment.node);
        Ok(())
    }

    fn give_seat(&mut self, job: JobId, ask: &WorkerAsk, assignment: &Assignment) {
        for share in &assignment.gpus {
            self.give_share(job, *share);
        }
        if let Some(node) = self.nodes.get_mut(assignment.node.index()) {
            node.cpu_free += ask.cpu_milli;
            node.memory_free += ask.memory_mib;
            node.workers -= 1;
        }
        self.recount(assignment.node);
    }

    fn take_share(
        &mut self,
        job: JobId,
        node: NodeId,
        share: GpuShare,
        back: bool,
    ) -> Result<(), Refused> {
        let state = self
            .gpus
            .get_mut(share.gpu.index())
            .ok_or(Refused::NoSuchGpu(share.gpu))?;
        if state.node != Some(node) {
            return Err(Refused::NotThere(share.gpu, node));
        }
        if !state.takes_work() && !back {
            return Err(Refused::GpuClosed(share.gpu));
        }
        let kind = self.kinds.get(state.gpu.kind.index());
        let memory = kind.and_then(|kind| kind.memory_mib);
        let taken = take_part(&mut state.held, job, share.part, memory);
        taken.ok_or(Refused::GpuBusy(share.gpu))
    }

    pub(super) fn give_share(&mut self, job: JobId, share: GpuShare) {
        let Some(state) = self.gpus.get_mut(share.gpu.index()) else {
            return;
        };
        match (share.part, &mut state.held) {
            (Part::Whole, held @ Tenancy::Whole(_)) if *held == Tenancy::Whole(job) => {
                *held = Tenancy::Free;
            }
            (
                Part::Fraction {
                    milli, memory_mib, ..
                },
                Tenancy::Shared {
                    milli_free,
                    memory_free,
                    holders,
                    ..
                },
            ) => {
                let gone = Holder {
                    job,
                    milli,
                    memory_mib,
                };
                if let Some(at) = holders.iter().position(|holder| *holder == gone) {
                    holders.remove(at);
                    *milli_free += milli;
                    *memory_free = memory_free.map(|free| free + memory_mib);
                }
                if holders.is_empty() {
                    state.held = Tenancy::Free;
                }
            }
            (Part::Slice { shape, start }, Tenancy::Sliced(instances)) => {
                let held = instances.iter_mut().find(|one| {
                    one.shape == shape && one.start == start && one.holder == Some(job)
                });
                if let Some(instance) = held {
                    instance.holder = None;
                }
            }
            _ => {}
        }
    }

    /// Counts a node's free GPUs anew; to be called after each change of one of them.
    pub(super) fn recount(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id.index()) else {
            return;
        };
        let (mut whole, mut milli, mut cut) = (0, 0, 0);
        let (mut island, mut mixed) = (None, false);
        let mut revision = mix(node.cpu_free, node.memory_free);
        revision = mix(revision, u64::from(node.takes_work()));
        for gpu in node
            .gpus
            .iter()
            .filter_map(|gpu| self.gpus.get(gpu.index()))
        {
            if gpu.takes_work() {
                whole += u32::from(gpu.held == Tenancy::Free);
                milli += gpu.milli_free();
            }
            mixed |= island.is_some_and(|island| island != gpu.gpu.island);
            island = Some(gpu.gpu.island);
            cut += u32::from(matches!(gpu.held, Tenancy::Sliced(_)));
            revision = gpu.mixed_into(revision);
        }
        let counted = Counted {
            domain: node.node.domain,
            island: island.flatten().filter(|_| !mixed),
            cut,
        };
        if mixed {
            self.note_mixed(id);
        }
        let Some(node) = self.nodes.get_mut(id.index()) else {
            return;
        };
        let old = (node.counted, Free::of(node));
        node.whole_free = whole;
        node.milli_free = milli;
        node.counted = counted;
        node.revision = revision;
        let free = Free::of(node);
        self.count_free(old, (counted, free));
        self.changes.note(id, revision);
    }

    /// The node that a GPU is attached to, recounted.
    pub(super) fn recount_around(&mut self, gpu: GpuId) {
        if let Some(node) = self.gpu(gpu).and_then(|state| state.node) {
            self.recount(node);
        }
    }
}

/// Takes a part of a GPU that has so much memory; `None`, and nothing has changed: it is held, or too little of it
/// is left.
fn take_part(held: &mut Tenancy, job: JobId, part: Part, memory: Option<u32>) -> Option<()> {
    match (part, held) {
        (Part::Whole, held @ Tenancy::Free) => *held = Tenancy::Whole(job),
        (
            Part::Fraction {
                milli,
                memory_mib,
                isolation,
            },
            held,
        ) => {
            let holder = Holder {
                job,
                milli,
                memory_mib,
            };
            take_fraction(held, holder, isolation, memory)?;
        }
        (Part::Slice { shape, start }, Tenancy::Sliced(instances)) => {
            let mut free = instances
                .iter_mut()
                .filter(|one| one.shape == shape && one.start == start && one.holder.is_none());
            free.next()?.holder = Some(job);
        }
        _ => return None,
    }
    Some(())
}

fn take_fraction(
    held: &mut Tenancy,
    holder: Holder,
    wanted: Isolation,
    memory: Option<u32>,
) -> Option<()> {
    if *held == Tenancy::Free {
        *held = Tenancy::Shared {
            isolation: wanted,
            milli_free: 1000_u32.checked_sub(holder.milli)?,
            memory_free: match memory {
                Some(memory) => Some(memory.checked_sub(holder.memory_mib)?),
                None => None,
            },
            holders: vec![holder],
        };
        return Some(());
    }
    let Tenancy::Shared {
        isolation,
        milli_free,
        memory_free,
        holders,
    } = held
    else {
        return None;
    };
    if *isolation != wanted
        || *milli_free < holder.milli
        || memory_free.is_some_and(|free| free < holder.memory_mib)
    {
        return None;
    }
    *milli_free -= holder.milli;
    *memory_free = memory_free.map(|free| free - holder.memory_mib);
    holders.insert(holders.partition_point(|one| *one < holder), holder);
    Some(())
}

impl super::GpuState {
    /// A hash with what is free of it and who holds the rest.
    fn mixed_into(&self, hash: u64) -> u64 {
        let open = u64::from(self.takes_work()) + 2 * u64::from(self.switching);
        // Of a copy of the world, another kind of node may have joined under the same number.
        let kind = u64::from(self.gpu.kind.0) << 32;
        let hash = mix(hash, open + ((self.going.len() as u64) << 8) + kind);
        match &self.held {
            Tenancy::Free => mix(hash, 1),
            Tenancy::Whole(job) => mix(hash, 2 + (u64::from(job.0) << 8)),
            Tenancy::Shared {
                isolation,
                milli_free,
                memory_free,
                holders,
            } => {
                let free = u64::from(memory_free.map_or(u32::MAX, |free| free));
                let hash = mix(mix(hash, 3 + (free << 32)), u64::from(isolation.code()));
                holders
                    .iter()
                    .fold(mix(hash, u64::from(*milli_free)), |hash, one| {
                        mix(hash, u64::from(one.job.0) + (u64::from(one.milli) << 32))
                    })
            }
            Tenancy::Sliced(instances) => instances.iter().fold(mix(hash, 4), |hash, one| {
                let place = u64::from(one.shape) + (u64::from(one.start) << 8);
                let holder = one.holder.map_or(0, |job| 1 + u64::from(job.0));
                let ready = u64::from(one.ready) << 63;
                mix(hash, place + (holder << 16) + ready)
            }),
        }
    }
}
