//! Taking and giving back what seats hold.

use super::{Held, Holder, Refused, World};
use gpuwise_domain::placement::{GpuId, GpuShare, JobId, NodeId, Part, Seat, WorkerAsk};

impl World {
    /// Takes all seats or none. Seats that were just given back (`back`) are taken whether or not their
    /// nodes take new work.
    pub(super) fn take(
        &mut self,
        job: JobId,
        ask: &WorkerAsk,
        seats: &[Seat],
        back: bool,
    ) -> Result<(), Refused> {
        for (done, seat) in seats.iter().enumerate() {
            if let Err(refused) = self.take_seat(job, ask, seat, back) {
                for seat in seats.get(..done).unwrap_or_default() {
                    self.give_seat(job, ask, seat);
                }
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Gives all seats back.
    pub(super) fn give(&mut self, job: JobId, ask: &WorkerAsk, seats: &[Seat]) {
        for seat in seats {
            self.give_seat(job, ask, seat);
        }
    }

    fn take_seat(
        &mut self,
        job: JobId,
        ask: &WorkerAsk,
        seat: &Seat,
        back: bool,
    ) -> Result<(), Refused> {
        let node = self.node(seat.node).ok_or(Refused::NoSuchNode(seat.node))?;
        if !node.takes_work() && !back {
            return Err(Refused::NodeClosed(seat.node));
        }
        if node.cpu_free < ask.cpu_milli || node.memory_free < ask.memory_mib {
            return Err(Refused::NodeFull(seat.node));
        }
        for (done, share) in seat.gpus.iter().enumerate() {
            if let Err(refused) = self.take_share(job, seat.node, *share, back) {
                for share in seat.gpus.get(..done).unwrap_or_default() {
                    self.give_share(job, *share);
                }
                return Err(refused);
            }
        }
        if let Some(node) = self.nodes.get_mut(seat.node.index()) {
            node.cpu_free -= ask.cpu_milli;
            node.memory_free -= ask.memory_mib;
            node.workers += 1;
        }
        self.recount(seat.node);
        Ok(())
    }

    fn give_seat(&mut self, job: JobId, ask: &WorkerAsk, seat: &Seat) {
        for share in &seat.gpus {
            self.give_share(job, *share);
        }
        if let Some(node) = self.nodes.get_mut(seat.node.index()) {
            node.cpu_free += ask.cpu_milli;
            node.memory_free += ask.memory_mib;
            node.workers -= 1;
        }
        self.recount(seat.node);
    }

    fn take_share(
        &mut self,
        job: JobId,
        node: NodeId,
        share: GpuShare,
        back: bool,
    ) -> Result<(), Refused> {
        let kinds = &self.kinds;
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
        let busy = Err(Refused::GpuBusy(share.gpu));
        match (share.part, &mut state.held) {
            (Part::Whole, held @ Held::Free) => *held = Held::Whole(job),
            (
                Part::Fraction {
                    milli,
                    memory_mib,
                    isolation,
                },
                held @ Held::Free,
            ) => {
                let memory = kinds.get(state.gpu.kind.index()).and_then(|k| k.memory_mib);
                if milli > 1000 || memory.is_some_and(|memory| memory < memory_mib) {
                    return busy;
                }
                *held = Held::Shared {
                    isolation,
                    milli_free: 1000 - milli,
                    memory_free: memory.map(|memory| memory - memory_mib),
                    holders: vec![Holder {
                        job,
                        milli,
                        memory_mib,
                    }],
                };
            }
            (
                Part::Fraction {
                    milli,
                    memory_mib,
                    isolation,
                },
                Held::Shared {
                    isolation: present,
                    milli_free,
                    memory_free,
                    holders,
                },
            ) => {
                if isolation != *present
                    || *milli_free < milli
                    || memory_free.is_some_and(|free| free < memory_mib)
                {
                    return busy;
                }
                *milli_free -= milli;
                *memory_free = memory_free.map(|free| free - memory_mib);
                let holder = Holder {
                    job,
                    milli,
                    memory_mib,
                };
                holders.insert(holders.partition_point(|one| *one < holder), holder);
            }
            (Part::Slice { shape, start }, Held::Sliced(instances)) => {
                let free = instances
                    .iter_mut()
                    .find(|one| one.shape == shape && one.start == start && one.holder.is_none());
                match free {
                    Some(instance) => instance.holder = Some(job),
                    None => return busy,
                }
            }
            _ => return busy,
        }
        Ok(())
    }

    pub(super) fn give_share(&mut self, job: JobId, share: GpuShare) {
        let Some(state) = self.gpus.get_mut(share.gpu.index()) else {
            return;
        };
        match (share.part, &mut state.held) {
            (Part::Whole, held @ Held::Whole(_)) if *held == Held::Whole(job) => *held = Held::Free,
            (
                Part::Fraction {
                    milli, memory_mib, ..
                },
                Held::Shared {
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
                    state.held = Held::Free;
                }
            }
            (Part::Slice { shape, start }, Held::Sliced(instances)) => {
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
        let Some(node) = self.nodes.get_mut(id.index()) else {
            return;
        };
        let (mut whole, mut milli) = (0, 0);
        for gpu in node
            .gpus
            .iter()
            .filter_map(|gpu| self.gpus.get(gpu.index()))
        {
            if gpu.takes_work() {
                whole += u32::from(gpu.held == Held::Free);
                milli += gpu.milli_free();
            }
        }
        node.whole_free = whole;
        node.milli_free = milli;
        node.revision = node.revision.wrapping_add(1);
    }

    /// The node that a GPU is attached to, recounted.
    pub(super) fn recount_around(&mut self, gpu: GpuId) {
        if let Some(node) = self.gpu(gpu).and_then(|state| state.node) {
            self.recount(node);
        }
    }
}
