//! Who takes part in a round, and on which kinds each is to run.

use super::{COUNTED, Claim, Rounds, claims, next};
use crate::{
    decide::barred,
    disruption::restart_of,
    fit,
    rounds::pairs::is_paired,
    world::{JobState, Phase, StoredJob, Tenancy, World},
};
use gpuwise_domain::placement::{GpuAsk, GpuId, JobId, KindId, Kinds, Need};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// A job that is to run in a round, and on which kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) job: JobId,
    pub(crate) kinds: Kinds,
    /// Whether it runs there already.
    pub(crate) stays: bool,
}

/// Who takes part in a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Round {
    /// Those who run now.
    pub(crate) running: Vec<JobId>,
    /// Who is to run, those first to whom most is owed.
    pub(crate) seats: Vec<Seat>,
    /// The others, those first who have got least.
    pub(crate) left: Vec<JobId>,
}

struct Taker<'w> {
    id: JobId,
    state: &'w JobState,
    /// Where it runs; `None`: it waits.
    on: Option<KindId>,
}

/// Who takes part in the round that is under way. `None`: nobody has to wait or to change places, or nobody can
/// be stopped.
///
/// Those take part who wait and are among `seeks`, and those who may be stopped and have run since before the round began; who has
/// come or started in it stays as it is until the next.
pub(crate) fn seats(
    now: Nanoseconds,
    world: &World,
    seeks: &dyn Fn(JobId) -> bool,
    rounds: Rounds,
) -> Option<Round> {
    let begin = rounds.begin(now);
    // Once in a round: whoever was stopped or moved since has made room for others.
    if world.jobs().any(|(_, state)| state.left_since(begin)) {
        return None;
    }
    let mut takers = running(now, world, begin);
    if takers.is_empty() {
        return None;
    }
    let all = world.jobs().filter(|(id, _)| seeks(*id));
    takers.extend(all.filter_map(|(id, state)| waits(now, world, begin, id, state)));
    let supply = supply(world, &takers);
    let mut claims: Vec<Claim> = takers
        .iter()
        .map(|taker| claim(world, taker, &supply))
        .collect();
    // Who runs nowhere is owed nothing.
    let runs: Vec<bool> = claims
        .iter()
        .map(|claim| claim.speeds.iter().any(|speed| *speed > 0.0))
        .collect();
    let mut kept = runs.iter();
    takers.retain(|_| kept.next() == Some(&true));
    let mut kept = runs.iter();
    claims.retain(|_| kept.next() == Some(&true));
    let groups = groups(&claims, supply.len());
    let waiting = takers.iter().any(|taker| taker.on.is_none());
    let shares = takers.iter().any(|taker| is_half(taker.state));
    if groups.len() <= 1 && !waiting && !shares {
        return None;
    }
    let own = takers.iter().filter(|taker| taker.on.is_some());
    let running: Vec<JobId> = own.map(|taker| taker.id).collect();
    let seats = ranked(world, rounds, begin, &takers, &claims, &supply, &groups);
    let seated: BTreeSet<JobId> = seats.iter().map(|seat| seat.job).collect();
    let from = counted_from(rounds, begin);
    let mut left: Vec<(Nanoseconds, JobId)> = (takers.iter())
        .filter(|taker| !seated.contains(&taker.id))
        .map(|taker| (taker.state.ran_on(world, Kinds::ANY, from, begin), taker.id))
        .collect();
    left.sort_unstable();
    Some(Round {
        running,
        seats,
        left: left.into_iter().map(|(_, job)| job).collect(),
    })
}

/// Since when it counts what a job has got.
fn counted_from(rounds: Rounds, begin: Nanoseconds) -> Nanoseconds {
    let span = rounds.length.0.saturating_mul(COUNTED);
    Nanoseconds(begin.0.saturating_sub(span))
}

/// Whether a job shares its GPU with another of a pair, or did.
fn is_half(state: &JobState) -> bool {
    let shares = state.assignments.iter().flat_map(|one| &one.gpus);
    shares.into_iter().any(|share| is_paired(share.part))
}

fn ranked(
    world: &World,
    rounds: Rounds,
    begin: Nanoseconds,
    takers: &[Taker<'_>],
    claims: &[Claim],
    supply: &[f64],
    groups: &[Kinds],
) -> Vec<Seat> {
    let first = |kinds: &Kinds| kinds.iter().next().map_or(0, KindId::index);
    let joined: Vec<Claim> = claims
        .iter()
        .map(|claim| Claim {
            speeds: groups
                .iter()
                .map(|kinds| claim.speeds.get(first(kinds)).copied().unwrap_or(0.0))
                .collect(),
            ..claim.clone()
        })
        .collect();
    let amount = |kinds: &Kinds| -> f64 {
        let all = kinds.iter().filter_map(|kind| supply.get(kind.index()));
        all.sum()
    };
    let amounts: Vec<f64> = groups.iter().map(amount).collect();
    let mut shares = claims::shares(&joined, &amounts);
    let speeds = joined.iter().flat_map(|claim| &claim.speeds);
    for (share, speed) in shares.iter_mut().zip(speeds) {
        if *speed <= 0.0 {
            *share = -1.0;
        }
    }
    let from = counted_from(rounds, begin);
    let length = rounds.length.0.max(1) as f64;
    let mut got = Vec::with_capacity(shares.len());
    for taker in takers {
        got.extend(groups.iter().map(|kinds| {
            let time = taker.state.ran_on(world, *kinds, from, begin);
            time.0 as f64 / length
        }));
    }
    let gpus: Vec<f64> = joined.iter().map(|claim| claim.gpus).collect();
    let on: Vec<Option<usize>> = takers
        .iter()
        .map(|taker| {
            let kind = taker.on?;
            groups.iter().position(|kinds| kinds.has(kind))
        })
        .collect();
    let seat = |one: next::Ranked| {
        let taker = takers.get(one.job)?;
        let kinds = groups.get(one.kind).copied()?;
        Some(Seat {
            job: taker.id,
            kinds,
            stays: taker.on.is_some_and(|kind| kinds.has(kind)),
        })
    };
    let found = next::next(&shares, &got, &gpus, &amounts, &on);
    found.into_iter().filter_map(seat).collect()
}

/// Those who may be stopped and have run since before the round began.
fn running(now: Nanoseconds, world: &World, begin: Nanoseconds) -> Vec<Taker<'_>> {
    let mut takers = Vec::new();
    for (id, state) in world.jobs() {
        let Phase::Running { since } = state.phase else {
            continue;
        };
        let may = since < begin
            && !state.stopping
            && restart_of(&state.job).is_some()
            && world.may_disrupt(state, now);
        let whole = matches!(state.job.worker.gpu, GpuAsk::Whole { .. });
        if may
            && whole
            && let Some(kind) = state.kind(world)
        {
            let on = Some(kind);
            takers.push(Taker { id, state, on });
        }
    }
    // Of a pair both take part, or neither does.
    let all: BTreeSet<JobId> = takers.iter().map(|taker| taker.id).collect();
    takers.retain(|taker| {
        !is_half(taker.state)
            || partners(world, taker.state).all(|job| job == taker.id || all.contains(&job))
    });
    takers
}

/// Who is on the GPUs of a job, itself among them.
pub(crate) fn partners<'w>(
    world: &'w World,
    state: &'w JobState,
) -> impl Iterator<Item = JobId> + 'w {
    let shares = state.assignments.iter().flat_map(|one| &one.gpus);
    let holders = shares.filter_map(|share| match &world.gpu(share.gpu)?.held {
        Tenancy::Shared { holders, .. } => Some(holders.iter().map(|one| one.job)),
        _ => None,
    });
    holders.flatten()
}

fn waits<'w>(
    now: Nanoseconds,
    world: &World,
    begin: Nanoseconds,
    id: JobId,
    state: &'w JobState,
) -> Option<Taker<'w>> {
    let Phase::Waiting { since } = state.phase else {
        return None;
    };
    // Who was stopped as this round began has had its turn.
    let before = since < begin || state.stops == 0 && since == begin;
    let whole = matches!(state.job.worker.gpu, GpuAsk::Whole { .. });
    let may = before && whole && barred(world, state, now).is_none();
    may.then_some(Taker {
        id,
        state,
        on: None,
    })
}

/// GPUs of each kind that are free, or held by those who take part.
fn supply(world: &World, takers: &[Taker<'_>]) -> Vec<f64> {
    let mut milli: BTreeMap<KindId, u64> = BTreeMap::new();
    for gpu in world.gpus() {
        if gpu.takes_work() && gpu.held == Tenancy::Free {
            *milli.entry(gpu.gpu.kind).or_default() += 1000;
        }
    }
    // Those of a pair have one GPU together.
    let held = takers.iter().flat_map(|taker| &taker.state.assignments);
    let held: BTreeSet<GpuId> = held
        .flat_map(|one| &one.gpus)
        .map(|share| share.gpu)
        .collect();
    for gpu in held.into_iter().filter_map(|id| world.gpu(id)) {
        *milli.entry(gpu.gpu.kind).or_default() += 1000;
    }
    let kinds = (0..world.kinds().len() as u32).map(KindId);
    kinds
        .map(|kind| milli.get(&kind).copied().unwrap_or(0) as f64 / 1000.0)
        .collect()
}

fn claim(world: &World, taker: &Taker<'_>, supply: &[f64]) -> Claim {
    let job: &StoredJob = &taker.state.job;
    let workers = u64::from(job.gang.preferred.max(job.gang.least).max(1));
    let gpus = match taker.on {
        Some(_) => taker
            .state
            .assignments
            .iter()
            .map(|one| one.gpus.len())
            .sum::<usize>() as f64,
        None => (workers * job.worker.gpu.milli()) as f64 / 1000.0,
    };
    let need = match job.worker.gpu {
        GpuAsk::Whole { need, .. } => need,
        _ => Need::default(),
    };
    let allowed = fit::kinds_with(world, job.worker.gpu.kinds(), need);
    let queue = job.queue.and_then(|id| world.queues().get(id.index()));
    let speed = |(supply, kind): (&f64, KindId)| {
        if allowed.has(kind) && gpus <= *supply {
            f64::from(job.speed(kind)) / 1000.0
        } else {
            0.0
        }
    };
    Claim {
        gpus,
        weight: queue.map_or(1.0, |queue| f64::from(queue.weight_milli) / 1000.0),
        speeds: supply.iter().zip((0..).map(KindId)).map(speed).collect(),
    }
}

/// Kinds that are the same to everybody, together; kinds on which nobody runs are left out.
fn groups(claims: &[Claim], kinds: usize) -> Vec<Kinds> {
    let column = |kind: usize| claims.iter().map(move |claim| claim.speeds.get(kind));
    let used = |kind: &usize| column(*kind).any(|speed| speed.is_some_and(|speed| *speed > 0.0));
    let mut groups: Vec<(usize, Kinds)> = Vec::new();
    for kind in (0..kinds).filter(used) {
        let id = KindId(kind as u32);
        let same = groups
            .iter_mut()
            .find(|(first, _)| column(*first).eq(column(kind)));
        match same {
            Some((_, kinds)) => *kinds = kinds.with(id),
            None => groups.push((kind, Kinds::one(id))),
        }
    }
    groups.into_iter().map(|(_, kinds)| kinds).collect()
}
