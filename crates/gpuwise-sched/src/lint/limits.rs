//! What queues may take, and what is reserved for others.

use super::{Check, Rule};
use crate::world::StoredJob;
use gpuwise_domain::placement::{Assignment, GpuShare, Kinds, Part, Preemption, QueueId};

impl Check<'_> {
    /// Whether a job's queue and those above it stay within what they may take.
    pub(super) fn queue_limits(&mut self, job: &StoredJob) {
        let Some(first) = job.queue else { return };
        let world = self.world;
        let mut next = Some(first);
        for _ in 0..world.queues().len() {
            let Some(id) = next else { return };
            let Some(queue) = world.queues().get(id.index()) else {
                let what = format!("job {} is in queue {id}, which is not", job.name);
                self.error(Rule::Unknown, what);
                return;
            };
            for quota in &queue.quotas {
                let used = self.used_by(id, quota.kinds);
                let borrowed = quota
                    .borrowing_milli
                    .map(|most| quota.nominal_milli.saturating_add(most));
                let limit = match (quota.cap_milli, borrowed) {
                    (Some(cap), Some(most)) => Some(cap.min(most)),
                    (cap, most) => cap.or(most),
                };
                if let Some(limit) = limit
                    && used > limit
                {
                    let what = format!(
                        "with job {} queue {} has {used} thousandths of GPUs; it may have {limit}",
                        job.name, queue.name
                    );
                    self.error(Rule::Quota, what);
                }
            }
            next = queue.parent;
        }
    }

    /// Thousandths of GPUs of these kinds that jobs of a queue and of those below it have.
    fn used_by(&self, queue: QueueId, kinds: Kinds) -> u64 {
        let below = |id: QueueId| {
            let mut next = Some(id);
            for _ in 0..=self.world.queues().len() {
                match next {
                    Some(id) if id == queue => return true,
                    Some(id) => next = self.world.queues().get(id.index()).and_then(|q| q.parent),
                    None => return false,
                }
            }
            false
        };
        let of = |assignments: &[Assignment]| -> u64 {
            let shares = assignments.iter().flat_map(|assignment| &assignment.gpus);
            shares.map(|share| self.milli_in(kinds, share)).sum()
        };
        let queues = (0..self.world.queues().len() as u32).map(QueueId);
        let inside = queues.filter(|id| below(*id));
        inside.map(|id| self.account.held(id, kinds, &of)).sum()
    }

    /// Thousandths of a GPU of these kinds that a share is.
    fn milli_in(&self, kinds: Kinds, share: &GpuShare) -> u64 {
        let Some(state) = self.world.gpu(share.gpu) else {
            return 0;
        };
        if kinds.0 >> state.gpu.kind.0.min(63) & 1 == 0 {
            return 0;
        }
        match share.part {
            Part::Whole => 1000,
            Part::Fraction { milli, .. } => u64::from(milli),
            Part::Slice { shape, .. } => {
                let kind = self.world.kind(state.gpu.kind);
                let board = kind.and_then(|kind| kind.mig.as_ref());
                board.map_or(0, |board| {
                    let row = board.shapes.get(usize::from(shape));
                    let compute = row.map_or(0, |row| u64::from(row.compute));
                    1000 * compute / u64::from(board.compute_slices.max(1))
                })
            }
        }
    }

    /// Whether GPUs that are reserved for another queue stay free, or held by that queue.
    pub(super) fn kept_for_others(&mut self, job: &StoredJob, assignments: &[Assignment]) {
        let world = self.world;
        for reservation in world.reservations() {
            let mine = job.queue == Some(reservation.queue);
            let here = assignments
                .iter()
                .filter(|assignment| assignment.node == reservation.node);
            if mine || reservation.until <= self.now || here.count() == 0 {
                continue;
            }
            let runs_into = reservation.from <= self.now
                || job.duration.is_none_or(|belief| {
                    let lasts = self.lasts(job, belief.expected.0, assignments);
                    self.now.0.saturating_add(lasts) > reservation.from.0
                });
            let stoppable = job.preemption != Preemption::Never;
            if !runs_into || stoppable && reservation.from > self.now {
                continue;
            }
            let Some(node) = world.node(reservation.node) else {
                continue;
            };
            let mut left = 0;
            for gpu in node.gpus.clone() {
                let Some(used) = self.account.gpu(gpu) else {
                    continue;
                };
                let users = used.users.clone();
                let others = users.iter().any(|(user, _)| {
                    let state = world.job(*user);
                    state.is_some_and(|state| state.job.queue != Some(reservation.queue))
                });
                left += u32::from(!others);
            }
            if left < reservation.gpus {
                let what = format!(
                    "with job {} {left} GPUs of node {} are left for reservation {} of {}",
                    job.name, node.node.name, reservation.name, reservation.gpus
                );
                // It is lent: who may be stopped makes way as soon as it is wanted.
                if stoppable {
                    self.warn(Rule::Reservation, what);
                } else {
                    self.error(Rule::Reservation, what);
                }
            }
        }
    }
}
