//! Two jobs on one GPU in a round: who has no place of its own is put beside one who has.

use super::{
    decision::{self, Decision},
    turn::{apply, starts},
};
use crate::{
    rounds::{
        Pairs, Round, Split,
        pairs::{can_share, is_paired, share},
    },
    world::{Phase, StoredJob, Tenancy, World},
};
use gpuwise_domain::placement::{
    Action, Assignment, Event, GpuAsk, GpuId, GpuShare, Isolation, JobId, KindId, Kinds, Part,
    TimestampedEvent,
};
use std::collections::{BTreeMap, BTreeSet};

type Places = BTreeMap<JobId, Vec<Assignment>>;

/// A job that could let another onto its GPU.
struct Host {
    job: StoredJob,
    assignment: Assignment,
    gpu: GpuId,
    kind: KindId,
}

impl Decision<'_> {
    /// Puts those who have no place beside those who have one, where both were measured to do more together
    /// than one alone. `world` is as it would be once those of `places` are there.
    pub(super) fn pair_up(&mut self, mut world: World, round: &Round, places: &mut Places) {
        if self.policy.pairs.is_empty() {
            return;
        }
        let pairs: Pairs = std::mem::take(&mut self.policy.pairs);
        self.expand(&mut world, places);
        let takers: BTreeSet<JobId> = (round.running.iter())
            .chain(round.seats.iter().map(|seat| &seat.job))
            .copied()
            .collect();
        for guest in &round.left {
            let waits = !places.contains_key(guest);
            let job = world.job(*guest).map(|state| state.job.clone());
            if let Some(job) = job.filter(|job| waits && can_share(job)) {
                self.join(&mut world, &takers, places, &job, &pairs);
            }
        }
        self.policy.pairs = pairs;
    }

    /// Who shared a GPU and is alone on it now has all of it.
    fn expand(&self, world: &mut World, places: &mut Places) {
        for (job, place) in places.iter_mut() {
            if let Some(whole) = alone(world, place)
                && resize(world, self.now, *job, &whole)
            {
                *place = whole;
            }
        }
    }

    /// Puts a job beside the one with which it gains most; of equals the first.
    fn join(
        &mut self,
        world: &mut World,
        takers: &BTreeSet<JobId>,
        places: &mut Places,
        guest: &StoredJob,
        pairs: &Pairs,
    ) {
        let mut best: Option<(Split, Host)> = None;
        for (id, place) in places.iter().filter(|(id, _)| takers.contains(id)) {
            let Some(host) = host(world, *id, place) else {
                continue;
            };
            let name = world.kind(host.kind).map_or("", |kind| kind.name.as_str());
            let Some(split) = pairs.split(&host.job, guest, name) else {
                continue;
            };
            let better = |known: &(Split, Host)| split.gain_milli > known.0.gain_milli;
            if best.as_ref().is_none_or(better) {
                best = Some((split, host));
            }
        }
        let Some((split, host)) = best else { return };
        let before = world.clone();
        let of_host = vec![Assignment {
            gpus: vec![share(host.gpu, split.first_milli, split.gain_milli)],
            ..host.assignment.clone()
        }];
        let found = resize(world, self.now, host.job.id, &of_host)
            .then(|| self.beside(world, guest, split, &host))
            .flatten();
        match found {
            Some(found) if apply(world, self.now, starts(guest.id, &found)) => {
                places.insert(host.job.id, of_host);
                places.insert(guest.id, found);
            }
            _ => *world = before,
        }
    }

    /// Where a job finds its part of a GPU by the rules that hold for any start: on that of its host.
    fn beside(
        &mut self,
        world: &World,
        guest: &StoredJob,
        split: Split,
        host: &Host,
    ) -> Option<Vec<Assignment>> {
        let GpuAsk::Whole { kinds, need, .. } = guest.worker.gpu else {
            return None;
        };
        let mut part = guest.clone();
        part.worker.gpu = GpuAsk::Fraction {
            milli: 1000 - split.first_milli,
            memory_mib: None,
            isolation: Isolation::Pair {
                gain_milli: split.gain_milli,
            },
            kinds: crate::fit::kinds_with(world, kinds.and(Kinds::one(host.kind)), need),
        };
        let mut gate = self.gate.clone();
        let (now, left) = (self.now, &mut self.left);
        let found = decision::place(world, &part, self.policy, &mut gate, now, None, left).ok()?;
        let there = |one: &Assignment| one.gpus.iter().all(|share| share.gpu == host.gpu);
        let right = found.prepare.is_empty() && found.assignments.iter().all(there);
        right.then_some(found.assignments)
    }

    /// Whose partner is gone has its GPU for itself again.
    pub(super) fn alone_again(&mut self) {
        let mut lone = Vec::new();
        for (id, state) in self.world.jobs() {
            let runs = matches!(state.phase, Phase::Running { .. }) && !state.stopping;
            if let Some(whole) = alone(&self.world, &state.assignments).filter(|_| runs) {
                lone.push((id, whole));
            }
        }
        for (job, assignments) in lone {
            self.begin(&Action::Resize { job, assignments });
        }
    }
}

/// A job as a host, if it may be one and nobody is beside it yet.
fn host(world: &World, id: JobId, place: &[Assignment]) -> Option<Host> {
    let job = &world.job(id)?.job;
    let [assignment] = place else { return None };
    let [
        GpuShare {
            gpu,
            part: Part::Whole,
        },
    ] = assignment.gpus.as_slice()
    else {
        return None;
    };
    can_share(job).then(|| Host {
        job: job.clone(),
        assignment: assignment.clone(),
        gpu: *gpu,
        kind: world.gpu(*gpu).map_or(KindId(0), |gpu| gpu.gpu.kind),
    })
}

/// Assignments with all of a GPU for one who has a part of it and nobody beside it; `None`: it is none.
fn alone(world: &World, assignments: &[Assignment]) -> Option<Vec<Assignment>> {
    let [assignment] = assignments else {
        return None;
    };
    let [GpuShare { gpu, part }] = assignment.gpus.as_slice() else {
        return None;
    };
    let one = match &world.gpu(*gpu)?.held {
        Tenancy::Shared { holders, .. } => holders.len() == 1,
        _ => false,
    };
    let whole = GpuShare {
        gpu: *gpu,
        part: Part::Whole,
    };
    (one && is_paired(*part)).then(|| {
        vec![Assignment {
            node: assignment.node,
            gpus: vec![whole],
        }]
    })
}

fn resize(
    world: &mut World,
    at: gpuwise_units::Nanoseconds,
    job: JobId,
    assignments: &[Assignment],
) -> bool {
    let event = Event::begun(Action::Resize {
        job,
        assignments: assignments.to_vec(),
    });
    world.apply(&TimestampedEvent { at, event }).is_ok()
}
