//! One verdict for a class: those who ask alike find the same, so that each class is looked at once until
//! something was freed or changed that could help it.
//!
//! All that happens to a world within a decision takes, but for disruptions and room that is made: those
//! forget everything. What is taken helps nobody who found nothing before.

use super::in_time;
use crate::{
    queues,
    world::{JobState, StoredJob, World},
};
use gpuwise_domain::placement::{
    Gang, GpuAsk, KindId, Kinds, NodeId, Preemption, QueueId, Shortage, Spread, TopologyWish,
    WorkerAsk,
};
use gpuwise_units::Nanoseconds;
use rustc_hash::FxHashMap;

/// What decides where a job finds a place, whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Class {
    ask: Ask,
    near: Vec<NodeId>,
    /// Kinds on which it ends by its deadline, where those are not all.
    fast: Option<Kinds>,
}

/// What is short for one is short for all who ask so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) worker: WorkerAsk,
    gang: Gang,
    topology: Option<TopologyWish>,
    spread: Option<Spread>,
}

impl Ask {
    pub(super) fn of(job: &StoredJob) -> Self {
        Self {
            worker: job.worker,
            gang: job.gang,
            topology: job.topology,
            spread: job.spread,
        }
    }
}

/// The number of a class in a decision.
pub(super) type ClassId = u32;

/// Who asks for others to be disrupted, and by what rights.
type Claim = (ClassId, Option<QueueId>, bool);

/// Who would delay one whose start is reserved, or take what is reserved for others.
type Length = (ClassId, Option<QueueId>, bool, Vec<(KindId, u32)>);

/// What is known of classes in a decision.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    classes: FxHashMap<Class, ClassId>,
    /// Who finds no place.
    no_place: Vec<bool>,
    /// Of those for whom nobody can be disrupted: the priorities and lengths with which they asked.
    no_victims: FxHashMap<Claim, Vec<(i32, Nanoseconds)>>,
    /// Who can reclaim nothing while others have borrowed so much.
    no_reclaim: FxHashMap<(ClassId, QueueId), Vec<(QueueId, u64)>>,
    /// From which length on they would delay others, and what they were told.
    delaying: FxHashMap<Length, (Nanoseconds, Shortage)>,
    /// What is short, at which number of changes.
    short: FxHashMap<Ask, (u64, Shortage)>,
    /// For whom no room can be made, at which number of changes.
    no_room: FxHashMap<GpuAsk, u64>,
    /// How often something was freed.
    freed: u64,
    /// How often somebody came who may be stopped for others.
    came: u64,
    /// The class that was asked for last, and its kinds of GPU.
    pub(super) asked: Option<(ClassId, Kinds)>,
}

impl Verdicts {
    /// The class of a job, narrowed to what it may take.
    pub(super) fn class(&mut self, world: &World, job: &StoredJob) -> ClassId {
        let class = Class {
            ask: Ask::of(job),
            near: job.near.clone(),
            fast: in_time::fast(world, job),
        };
        if let Some(known) = self.classes.get(&class) {
            return *known;
        }
        let number = self.no_place.len() as ClassId;
        self.classes.insert(class, number);
        self.no_place.push(false);
        number
    }

    /// Something was freed, or somebody was disrupted.
    pub(super) fn forget(&mut self) {
        self.freed += 1;
        self.no_place.fill(false);
        self.no_victims.clear();
        self.no_reclaim.clear();
        self.delaying.clear();
        self.short.clear();
        self.no_room.clear();
    }

    /// How often something was freed.
    pub(super) const fn freed(&self) -> u64 {
        self.freed
    }

    /// How often somebody came who may be stopped for others.
    pub(super) const fn came(&self) -> u64 {
        self.came
    }

    pub(super) fn finds_none(&self, class: ClassId) -> bool {
        self.no_place.get(class as usize).copied().unwrap_or(false)
    }

    /// Whether it must still be looked for a place of one of a class: nobody of it has found none, nor would have
    /// delayed others.
    pub(super) fn leave_open(
        &self,
        class: ClassId,
        state: Option<&JobState>,
        padding_sigmas: f64,
    ) -> Result<(), Option<Shortage>> {
        if self.finds_none(class) {
            return Err(None);
        }
        let told = state.and_then(|state| self.delays(class, state, padding_sigmas));
        told.map_or(Ok(()), |told| Err(Some(told)))
    }

    pub(super) fn found_none(&mut self, class: ClassId) {
        if let Some(known) = self.no_place.get_mut(class as usize) {
            *known = true;
        }
    }

    /// Whether somebody of this class found nobody to disrupt, with the same rights or more.
    pub(super) fn has_no_victims(&self, class: ClassId, job: &StoredJob, moves: bool) -> bool {
        let (priority, length) = rights(job, moves);
        let known = self.no_victims.get(&claim(class, job));
        known.is_some_and(|known| {
            known
                .iter()
                .any(|(above, longer)| *above >= priority && *longer >= length)
        })
    }

    pub(super) fn had_no_victims(&mut self, class: ClassId, job: &StoredJob, moves: bool) {
        let (priority, length) = rights(job, moves);
        let known = self.no_victims.entry(claim(class, job)).or_default();
        known.retain(|(below, shorter)| *below > priority || *shorter > length);
        known.push((priority, length));
    }

    /// A job was placed: those who may stop it are above it.
    pub(super) fn placed(&mut self, job: &StoredJob) {
        if may_stop(job) {
            self.came += 1;
            let all = self.no_victims.values_mut().flatten();
            all.for_each(|(priority, _)| *priority = job.priority.min(*priority));
        }
    }

    /// Whether a queue could reclaim nothing for this class when others had borrowed as much or more.
    pub(super) fn reclaims_nothing(
        &self,
        class: ClassId,
        queue: QueueId,
        borrowers: &[(QueueId, u64)],
    ) -> bool {
        let known = self.no_reclaim.get(&(class, queue));
        known.is_some_and(|known| {
            let within = |(queue, milli): &(QueueId, u64)| {
                let then = known.iter().find(|(other, _)| other == queue);
                then.is_some_and(|(_, then)| milli <= then)
            };
            borrowers.iter().all(within)
        })
    }

    pub(super) fn reclaimed_nothing(
        &mut self,
        class: ClassId,
        queue: QueueId,
        borrowers: Vec<(QueueId, u64)>,
    ) {
        self.no_reclaim.insert((class, queue), borrowers);
    }

    /// What one was told who would have delayed others, and is not longer.
    fn delays(&self, class: ClassId, state: &JobState, padding_sigmas: f64) -> Option<Shortage> {
        if self.delaying.is_empty() {
            return None;
        }
        let (least, told) = self.delaying.get(&length_key(class, &state.job))?;
        (work(state, padding_sigmas) >= *least).then_some(*told)
    }

    pub(super) fn delayed(
        &mut self,
        class: ClassId,
        state: &JobState,
        padding_sigmas: f64,
        told: Shortage,
    ) {
        let length = work(state, padding_sigmas);
        let known = self.delaying.entry(length_key(class, &state.job));
        let known = known.or_insert((length, told));
        if length <= known.0 {
            *known = (length, told);
        }
    }

    /// What is short, looked at once for all who ask alike as long as nothing changes.
    pub(super) fn short(
        &mut self,
        world: &World,
        job: &StoredJob,
        look: impl FnOnce() -> Shortage,
    ) -> Shortage {
        let now = world.changes().count();
        match self.short.get(&Ask::of(job)) {
            Some((at, short)) if *at == now => *short,
            _ => {
                let short = look();
                self.short.insert(Ask::of(job), (now, short));
                short
            }
        }
    }

    /// Whether it is known that no room can be made for an ask.
    pub(super) fn makes_no_room(&self, world: &World, ask: &GpuAsk) -> bool {
        self.no_room.get(ask) == Some(&world.changes().count())
    }

    pub(super) fn made_no_room(&mut self, world: &World, ask: &GpuAsk) {
        self.no_room.insert(*ask, world.changes().count());
    }
}

/// By what a job may disrupt others: its priority, and where they are moved for it how long it would use what
/// it gets.
fn rights(job: &StoredJob, moves: bool) -> (i32, Nanoseconds) {
    let length = job.duration.filter(|_| moves);
    let length = length.map_or(Nanoseconds(u64::MAX), |one| one.expected);
    (job.priority, length)
}

fn claim(class: ClassId, job: &StoredJob) -> Claim {
    (class, job.queue, may_stop(job))
}

fn may_stop(job: &StoredJob) -> bool {
    matches!(job.preemption, Preemption::Allowed { .. })
}

fn length_key(class: ClassId, job: &StoredJob) -> Length {
    (class, job.queue, may_stop(job), job.speeds.clone())
}

/// What a job still has to do; without end where that is not known.
fn work(state: &JobState, padding_sigmas: f64) -> Nanoseconds {
    state.job.duration.map_or(Nanoseconds(u64::MAX), |belief| {
        let length = queues::length(belief, padding_sigmas);
        Nanoseconds(length.0.abs_diff(state.done.0))
    })
}
