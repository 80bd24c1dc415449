//! The search for the cheapest room.

use super::{
    cost::{Disruption, DisruptionKind, Preemptor},
    prepare::room_on,
    scratch::Scratch,
    sets::{asked, cheapest, cost},
    victims::{PER_STEP, Victims, place_of},
};
use crate::{fit::Scope, queues, world::Phase};
use gpuwise_domain::placement::{Action, Assignment, Cause, JobId, NodeId};
use std::collections::BTreeMap;

/// Sets that are tried for one node or one small fleet.
const TRIES: u64 = 4096;
/// Up to so many disruptions all sets of them are weighed for a gang.
const FEW: usize = 12;

/// Ways of seating those who move that are tried.
const WAYS: usize = 32;
/// Seats that are tried for those who move.
const SEATS: u32 = 4096;
/// Up to so many nodes a job that moves is tried on each; on more it goes where it fits best.
const EACH: usize = 16;

/// Where room is looked for.
pub(super) struct Site<'a> {
    pub(super) scope: Scope,
    pub(super) nodes: &'a [NodeId],
    pub(super) holders: &'a BTreeMap<NodeId, Vec<JobId>>,
}

/// The cheapest room in a site that costs less than a bound.
pub(super) fn room(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    bound: Option<u128>,
    steps: &mut u64,
) -> Option<Victims> {
    let least = who.job.gang.least.max(1);
    // Without disrupting anybody: what only has to be made ready.
    if let Some(room) = with(scratch, who, site, &[], least) {
        return Some(room);
    }
    // Who makes way for those who move can be anywhere.
    let everywhere: Vec<NodeId> = if who.disruptions.migrate {
        site.holders.keys().copied().collect()
    } else {
        site.nodes.to_vec()
    };
    if !could(scratch, who, site, &everywhere, least) {
        return None;
    }
    let few = everywhere.len() <= FEW;
    let items = if few {
        items_on(scratch, who, &everywhere, site.holders)
    } else {
        Vec::new()
    };
    if few && items.len() <= FEW {
        let mut tries = TRIES.min(*steps);
        let (found, all) = cheapest(&items, bound, &mut tries, |set| {
            *steps = steps.saturating_sub(site.nodes.len() as u64);
            with(scratch, who, site, set, least)
        });
        if found.is_some() || all {
            return found.map(|(_, _, room)| room);
        }
    }
    if least == 1 && who.job.spread.is_none() {
        return one_node(scratch, who, site, bound, steps);
    }
    worker_by_worker(scratch, who, site, least, steps)
}

/// For one worker: the cheapest node.
fn one_node(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    bound: Option<u128>,
    steps: &mut u64,
) -> Option<Victims> {
    let (mut bound, mut best) = (bound, None);
    for node in site.nodes {
        if *steps == 0 {
            break;
        }
        let items = items_on(scratch, who, &[*node], site.holders);
        if items.is_empty() {
            continue;
        }
        let here = Site {
            nodes: &[*node],
            ..*site
        };
        if let Some(room) = cheapest_here(scratch, who, &here, &items, bound, steps) {
            bound = Some(room.cost);
            best = Some(room);
        }
    }
    best
}

/// The cheapest room for one worker on one node: of all sets, or where they are too many by adding the
/// cheapest until it is enough.
fn cheapest_here(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    here: &Site<'_>,
    items: &[Disruption],
    bound: Option<u128>,
    steps: &mut u64,
) -> Option<Victims> {
    *steps = steps.saturating_sub(1);
    if !could(scratch, who, here, here.nodes, 1) {
        return None;
    }
    let most = who.disruptions.most as usize;
    let given = TRIES.min(*steps);
    let mut tries = given;
    let (found, all) = cheapest(items, bound, &mut tries, |set| {
        with(scratch, who, here, set, 1)
    });
    *steps = steps.saturating_sub(given - tries);
    if found.is_some() || all {
        return found.map(|(_, _, room)| room);
    }
    let mut chosen: Vec<&Disruption> = Vec::new();
    let mut order = strongest(items);
    order.sort_by_key(|one| (one.cost, one.job));
    for one in order.into_iter().take(most) {
        chosen.push(one);
        *steps = steps.saturating_sub(1);
        if with(scratch, who, here, &chosen, 1).is_some() {
            let room = without_superfluous(scratch, who, here, chosen, 1)?;
            return bound.is_none_or(|bound| room.cost < bound).then_some(room);
        }
    }
    None
}

/// Whether there would be room if all who may be disrupted on some nodes were stopped: if not, no
/// set of disruptions is enough.
fn could(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    nodes: &[NodeId],
    workers: u32,
) -> bool {
    let cause = Cause::For(who.job.id);
    let mut stops: Vec<Action> = items_on(scratch, who, nodes, site.holders)
        .into_iter()
        .map(|one| Action::Preempt {
            job: one.job,
            cause,
        })
        .collect();
    stops.dedup();
    if stops.is_empty() {
        return false;
    }
    let mark = scratch.mark();
    let found = final_state(scratch, who, site, &stops, &[], workers);
    scratch.undo(mark);
    found.is_some()
}

/// Of each job the way that frees most: stopped, moved or reclaimed where that is possible.
fn strongest(items: &[Disruption]) -> Vec<&Disruption> {
    let mut found: Vec<&Disruption> = Vec::new();
    let mut jobs: Vec<JobId> = items.iter().map(|one| one.job).collect();
    jobs.dedup();
    for job in jobs {
        let of = |one: &&Disruption| one.job == job;
        let rank = |one: &&Disruption| match one.kind {
            DisruptionKind::Preempt => 3,
            DisruptionKind::Reclaim => 2,
            DisruptionKind::Migrate => 1,
            DisruptionKind::Shrink(_) => 0,
        };
        if let Some(best) = items.iter().filter(of).max_by_key(rank) {
            if matches!(best.kind, DisruptionKind::Shrink(_)) {
                found.extend(items.iter().filter(of));
            } else {
                found.push(best);
            }
        }
    }
    found
}

/// For a gang among many: worker by worker the cheapest node, those that fit as it is first. Whom the
/// whole turns out not to need is left alone.
fn worker_by_worker(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    least: u32,
    steps: &mut u64,
) -> Option<Victims> {
    let mut chosen: Vec<Disruption> = Vec::new();
    // Each try looks at every node.
    let price = 1 + site.nodes.len() as u64 / PER_STEP;
    for workers in 1..=least {
        loop {
            let set: Vec<&Disruption> = chosen.iter().collect();
            if with(scratch, who, site, &set, workers).is_some() {
                break;
            }
            if *steps == 0 {
                return None;
            }
            let mut best: Option<(u128, Vec<Disruption>)> = None;
            for node in site.nodes {
                if *steps == 0 {
                    break;
                }
                let mut items = items_on(scratch, who, &[*node], site.holders);
                items.retain(|one| {
                    one.kind != DisruptionKind::Migrate
                        && !chosen.iter().any(|other| other.job == one.job)
                });
                if items.is_empty() {
                    continue;
                }
                let bound = best.as_ref().map(|(cost, _)| *cost);
                let mut tries = 64.min(steps.div_ceil(price));
                let (found, _) = cheapest(&items, bound, &mut tries, |set| {
                    *steps = steps.saturating_sub(price);
                    let all: Vec<&Disruption> = chosen.iter().chain(set.iter().copied()).collect();
                    with(scratch, who, site, &all, workers)
                });
                if let Some((sum, more, _)) = found
                    && best.as_ref().is_none_or(|(cost, _)| sum < *cost)
                {
                    best = Some((sum, more));
                }
            }
            chosen.extend(best?.1);
        }
    }
    without_superfluous(scratch, who, site, chosen.iter().collect(), least)
}

/// Victims with as few of these as are needed: the dearest are left alone first where that can be.
fn without_superfluous(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    mut set: Vec<&Disruption>,
    workers: u32,
) -> Option<Victims> {
    set.sort_by_key(|one| std::cmp::Reverse((one.cost, one.job)));
    let mut at = 0;
    while at < set.len() {
        let mut fewer = set.clone();
        fewer.remove(at);
        if with(scratch, who, site, &fewer, workers).is_some() {
            set = fewer;
        } else {
            at += 1;
        }
    }
    with(scratch, who, site, &set, workers)
}

/// In which ways those who sit on some nodes may be disrupted.
fn items_on(
    scratch: &Scratch<'_>,
    who: &Preemptor<'_>,
    nodes: &[NodeId],
    holders: &BTreeMap<NodeId, Vec<JobId>>,
) -> Vec<Disruption> {
    let mut jobs: Vec<JobId> = nodes
        .iter()
        .filter_map(|node| holders.get(node))
        .flatten()
        .copied()
        .collect();
    jobs.sort_unstable();
    jobs.dedup();
    let mut found = Vec::new();
    for job in jobs {
        who.ways(scratch.world(), job, &mut found);
    }
    // Of an elastic job only workers on these nodes help.
    found.retain(|one| match one.kind {
        DisruptionKind::Shrink(assignment) => scratch
            .world()
            .job(one.job)
            .and_then(|state| state.assignments.get(assignment as usize))
            .is_some_and(|assignment| nodes.binary_search(&assignment.node).is_ok()),
        _ => true,
    });
    found
}

/// Victims for so many workers once these are disrupted; `None` where that is not enough, or is worth less
/// than it costs. Nothing is left changed.
pub(super) fn with(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    set: &[&Disruption],
    workers: u32,
) -> Option<Victims> {
    let asked = asked(scratch.world(), who, set.iter().copied())?;
    let sum = cost(set.iter().copied());
    if !asked.movers.is_empty() && !is_worth(who, set) {
        return None;
    }
    let mark = scratch.mark();
    let found = final_state(scratch, who, site, &asked.actions, &asked.movers, workers);
    scratch.undo(mark);
    let (places, prepare, last) = found?;
    // The same in the order in which it can be done: who moves finds the place free already.
    for movers in places {
        let mut actions = asked.actions.clone();
        let begun = actions.iter().all(|action| scratch.begin(action))
            && in_order(scratch, movers, &mut actions)
            && prepare
                .iter()
                .chain([&last])
                .all(|action| scratch.begin(action));
        scratch.undo(mark);
        if begun {
            actions.extend(prepare);
            actions.push(last);
            return Some(Victims {
                actions,
                disrupted: set.iter().map(|one| **one).collect(),
                cost: sum,
            });
        }
    }
    None
}

/// Whether moving others costs little beside what the job will use.
fn is_worth(who: &Preemptor<'_>, set: &[&Disruption]) -> bool {
    let Some(belief) = who.job.duration else {
        return true;
    };
    let workers = u128::from(who.job.gang.preferred.max(1));
    let milli = u128::from(who.job.worker.gpu.milli().max(1)) * workers;
    let used = u128::from(belief.expected.0) * milli;
    let moving = set.iter().filter(|one| one.kind == DisruptionKind::Migrate);
    cost(moving.copied()) <= used * u128::from(who.disruptions.worth_milli) / 1000
}

/// Disruptions in an order in which each finds its place free.
fn in_order(scratch: &mut Scratch<'_>, mut movers: Vec<Move>, actions: &mut Vec<Action>) -> bool {
    while !movers.is_empty() {
        let next = movers.iter().position(|(prepare, action)| {
            let mark = scratch.mark();
            let begun = prepare.iter().chain([action]).all(|one| scratch.begin(one));
            if !begun {
                scratch.undo(mark);
            }
            begun
        });
        let Some(next) = next else { return false };
        let (prepare, action) = movers.remove(next);
        actions.extend(prepare);
        actions.push(action);
    }
    true
}

/// A job's move, and what must be made ready for it.
type Move = (Vec<Action>, Action);
/// Ways in which those who move can be seated; what must be made ready for the job; its own action.
type Places = (Vec<Vec<Move>>, Vec<Action>, Action);

/// Where all would be in the end: the job, then those who make way for it.
fn final_state(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    site: &Site<'_>,
    stops: &[Action],
    movers: &[JobId],
    workers: u32,
) -> Option<Places> {
    let cause = Cause::For(who.job.id);
    let sizes: Vec<usize> = movers
        .iter()
        .map(|job| {
            scratch
                .world()
                .job(*job)
                .map_or(0, |state| state.assignments.len())
        })
        .collect();
    if !stops.iter().all(|action| scratch.begin(action)) {
        return None;
    }
    for job in movers {
        if !scratch.begin(&Action::Preempt { job: *job, cause }) {
            return None;
        }
    }
    let id = who.job.id;
    let restores = matches!(scratch.world().job(id)?.phase, Phase::Reclaimed { .. });
    // What it kept of its node is free for it.
    if restores && !scratch.begin(&Action::Preempt { job: id, cause }) {
        return None;
    }
    let (prepare, seated) = assignments(scratch, who, id, site, workers)?;
    let last = if restores {
        Action::Restore {
            job: id,
            assignments: seated,
        }
    } else {
        Action::Place {
            job: id,
            assignments: seated,
        }
    };
    if movers.is_empty() {
        return Some((vec![Vec::new()], prepare, last));
    }
    let everywhere: Vec<NodeId> = (0..scratch.world().nodes().len() as u32)
        .map(NodeId)
        .collect();
    let anywhere = Site {
        scope: Scope::Fleet,
        nodes: &everywhere,
        holders: site.holders,
    };
    let movers: Vec<(JobId, usize)> = movers.iter().copied().zip(sizes).collect();
    let (mut places, mut seats) = (Vec::new(), SEATS);
    seat_movers(
        scratch,
        who,
        &anywhere,
        &movers,
        &mut Vec::new(),
        &mut places,
        &mut seats,
    );
    (!places.is_empty()).then_some((places, prepare, last))
}

/// Every way of seating those who move, up to a number: one worker on each node that has room, a gang
/// as it fits best.
fn seat_movers(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    anywhere: &Site<'_>,
    movers: &[(JobId, usize)],
    so_far: &mut Vec<Move>,
    found: &mut Vec<Vec<Move>>,
    left: &mut u32,
) {
    let Some(((job, workers), rest)) = movers.split_first() else {
        found.push(so_far.clone());
        return;
    };
    let Some(state) = scratch.world().job(*job) else {
        return;
    };
    if state.job.topology.is_some_and(|wish| wish.required) && *workers > 1 {
        // Moving it within what it needs is a search of its own.
        return;
    }
    let mut sites: Vec<&[NodeId]> = anywhere.nodes.chunks(1).collect();
    if *workers > 1 || anywhere.nodes.len() > EACH {
        sites = vec![anywhere.nodes];
    }
    for nodes in sites {
        // With many who move, most ways of seating the first leave no place for the last.
        let Some(fewer) = left.checked_sub(1) else {
            return;
        };
        *left = fewer;
        let here = Site { nodes, ..*anywhere };
        let mark = scratch.mark();
        if let Some((prepare, assignments)) =
            assignments(scratch, who, *job, &here, *workers as u32)
        {
            let (job, cause) = (*job, Cause::For(who.job.id));
            so_far.push((
                prepare,
                Action::Move {
                    job,
                    assignments,
                    cause,
                },
            ));
            seat_movers(scratch, who, anywhere, rest, so_far, found, left);
            so_far.pop();
        }
        scratch.undo(mark);
        if found.len() >= WAYS {
            return;
        }
    }
}

/// Assignments for so many workers of a job, each where least must be made ready and least is left over; the
/// second says which. They stay taken.
pub(super) fn assignments(
    scratch: &mut Scratch<'_>,
    who: &Preemptor<'_>,
    id: JobId,
    site: &Site<'_>,
    workers: u32,
) -> Option<(Vec<Action>, Vec<Assignment>)> {
    let state = scratch.world().job(id)?;
    let (ask, spread) = (state.job.worker, state.job.spread);
    let mut prepare = Vec::new();
    let mut taken: Vec<Assignment> = Vec::new();
    for _ in 0..workers {
        let mut best = None;
        for node in site.nodes {
            let world = scratch.world();
            if let Some(spread) = spread {
                let here = place_of(world, *node, spread.over);
                let there = taken
                    .iter()
                    .filter(|assignment| place_of(world, assignment.node, spread.over) == here);
                if there.count() >= spread.most as usize {
                    continue;
                }
            }
            let free = world.node(*node).map_or(0, |node| node.milli_free);
            let Some(candidate) = room_on(scratch, *node, &ask, site.scope, who.disruptions) else {
                continue;
            };
            let mut all = taken.clone();
            all.push(candidate.assignment.clone());
            let world = scratch.world();
            let lends = who.disruptions.lend;
            if !queues::taken_from(world, id, &all, who.now, 1.0, lends).is_empty() {
                continue;
            }
            let key = (candidate.prepare.len(), free);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, candidate));
            }
        }
        let (_, candidate) = best?;
        if !candidate.prepare.iter().all(|action| scratch.begin(action)) {
            return None;
        }
        prepare.extend(candidate.prepare);
        taken.push(candidate.assignment);
        let assignments = taken.clone();
        let action = if taken.len() == 1 {
            Action::Place {
                job: id,
                assignments,
            }
        } else {
            Action::Resize {
                job: id,
                assignments,
            }
        };
        if !scratch.begin(&action) {
            return None;
        }
    }
    Some((prepare, taken))
}
