//! A decision where pods ask devices by claims: one round after the other, as sorts of devices lie over one another.
//!
//! In one round no two sorts share a device or a counter, so that a number of each says what there is. Who is placed
//! in a round, or is given room, holds its place in the next. In the first claims are no part.

use super::{
    Claims, Decision, Moves, Pod, Room, Seen, Waits,
    chunks::Chunks,
    consolidate::consolidation,
    decision::{decide_once, make_room},
    devices,
    gangs::{Key, gang_of},
    holders::{keep, unspare},
    kept::Kept,
    promised::{Promised, promised},
    room::Until,
    surge,
    view::{View, placed},
    warm::are_warm,
};
use gpuwise_units::Nanoseconds;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Decides for all who wait.
///
/// # Errors
/// When the rules name a placement that is not there.
pub fn decide(seen: &Seen, now: Nanoseconds) -> Result<Decision, String> {
    decide_after(&mut Kept::default(), seen, now)
}

/// Decides the same as [`decide`], sooner where `kept` is of a look at nearly the same.
///
/// # Errors
/// When the rules name a placement that is not there.
pub fn decide_after(kept: &mut Kept, seen: &Seen, now: Nanoseconds) -> Result<Decision, String> {
    let mut decision = Decision::default();
    let mut promised = promised(seen);
    keep(seen, &promised, &mut decision);
    let mut waits = missing(seen);
    let both = both(seen);
    let sorts = sorts(seen, &both, &mut waits);
    let mut view = View {
        whole: seen,
        round: BTreeSet::new(),
        both: &both,
        placed: BTreeMap::new(),
    };
    decide_once(kept, &view, &promised, now, &mut decision)?;
    let rounds = rounds(seen, &sorts);
    if !rounds.is_empty() {
        promised.settle();
    }
    for round in &rounds {
        (view.round, view.placed) = (round.clone(), placed(&decision));
        let kept = &mut Kept::default();
        decide_once(kept, &view, &promised, now, &mut decision)?;
    }
    // Nobody leaves for somebody before all have had what is free.
    if !seen.devices.asked.is_empty() {
        view.placed = placed(&decision);
        promised.settle();
    }
    for round in std::iter::once(BTreeSet::new()).chain(rounds) {
        view.round = round;
        make_room(&view, &mut promised, now, &mut decision);
    }
    unspare(seen, &mut decision);
    if are_warm(seen, &decision.waits) && decision.rooms.is_empty() && promised.awaited.is_empty() {
        decision.rooms = consolidations(&mut view, &promised, &decision, now);
    }
    let places = seen.places();
    let at = |pod: &Pod| places.get(pod.uid.as_str()).copied().unwrap_or_default();
    let (steps, late) = surge::steps(seen, now, &at);
    decision.steps = steps;
    decision.wake = decision.wake.into_iter().chain(late).min();
    decision.waits.extend(waits);
    decision.let_go = devices::let_go(seen);
    Ok(decision)
}

/// Moves for order's sake: of those who ask device plugins, else of those who ask by claims.
fn consolidations(
    view: &mut View<'_>,
    promised: &Promised,
    decision: &Decision,
    now: Nanoseconds,
) -> Vec<Room> {
    let is_wanted = |moves: Moves| moves.consolidates && moves.left > 0;
    if !view.whole.rules.moves.is_some_and(is_wanted) {
        return Vec::new();
    }
    let all = view.whole.devices.asked.iter();
    let each: Vec<BTreeSet<&str>> = all.map(|sort| BTreeSet::from([sort.as_str()])).collect();
    let rounds = std::iter::once(BTreeSet::new()).chain(rounds(view.whole, &each));
    for round in rounds {
        view.round = round;
        let until = Until {
            view,
            seen: &view.later(promised, std::iter::empty()),
            promised,
            placed: view.unseen(&decision.placed),
            rooms: &[],
            chunks: &Chunks::default(),
            now,
        };
        let found = consolidation(&until);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Who waits for an object that is not there.
fn missing(seen: &Seen) -> Vec<Waits> {
    let all = seen.pods.iter().enumerate();
    let waits = all.filter_map(|(at, pod)| match &pod.claims {
        Claims::Wait { reason, words } if pod.waits() => Some(Waits {
            pod: at,
            reason,
            words: words.clone(),
        }),
        _ => None,
    });
    waits.collect()
}

/// Gangs of which some wait for devices by claims, with the sorts that those ask.
fn both(seen: &Seen) -> BTreeMap<Key<'_>, BTreeSet<&str>> {
    let mut gangs: BTreeMap<Key<'_>, BTreeSet<&str>> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| asks(seen, pod)) {
        if let (Some(gang), Some(ask)) = (gang_of(pod), &pod.ask) {
            gangs.entry(gang).or_default().insert(&ask.resource);
        }
    }
    gangs
}

/// What those ask by claims who wait, most urgent first; a gang's sorts stand together. A gang whose sorts lie over
/// one another waits.
fn sorts<'a>(
    seen: &'a Seen,
    gangs: &BTreeMap<Key<'a>, BTreeSet<&'a str>>,
    waits: &mut Vec<Waits>,
) -> Vec<BTreeSet<&'a str>> {
    let mut urgency: BTreeMap<&str, (Reverse<i32>, Nanoseconds)> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| asks(seen, pod)) {
        let Some(ask) = &pod.ask else { continue };
        let own = (Reverse(pod.priority), pod.created);
        let known = urgency.entry(&ask.resource).or_insert(own);
        *known = (*known).min(own);
    }
    let overlaps = seen.devices.overlaps();
    let mut together: Vec<BTreeSet<&str>> =
        urgency.keys().map(|one| BTreeSet::from([*one])).collect();
    for (gang, all) in gangs.iter().filter(|(_, all)| all.len() > 1) {
        if is_over(&overlaps, all, all) {
            let pods = seen.pods.iter().enumerate();
            let pods = pods.filter(|(_, pod)| pod.waits() && gang_of(pod) == Some(*gang));
            waits.extend(pods.map(|(pod, _)| Waits {
                pod,
                reason: "DevicesOverlap",
                words: "its gang asks by claims for devices that are parts of the same GPUs, in several ways; ask for them in one way".into(),
            }));
            for one in &mut together {
                one.retain(|resource| !all.contains(resource));
            }
            continue;
        }
        let (mut with, rest): (Vec<_>, Vec<_>) =
            together.into_iter().partition(|one| !one.is_disjoint(all));
        together = rest;
        together.push(with.drain(..).flatten().collect());
    }
    together.retain(|one| !one.is_empty());
    together.sort_by_key(|all| all.iter().filter_map(|one| urgency.get(one)).min().copied());
    together
}

fn asks(seen: &Seen, pod: &Pod) -> bool {
    pod.waits() && pod.claims == Claims::Open && seen.devices.is_asked(pod)
}

fn is_over(
    overlaps: &BTreeSet<(&str, &str)>,
    all: &BTreeSet<&str>,
    others: &BTreeSet<&str>,
) -> bool {
    let mut pairs = all
        .iter()
        .flat_map(|one| others.iter().map(move |other| (*one, *other)));
    pairs.any(|pair| overlaps.contains(&pair))
}

/// Sorts that can be decided at once, in rounds.
fn rounds<'a>(seen: &'a Seen, sorts: &[BTreeSet<&'a str>]) -> Vec<BTreeSet<&'a str>> {
    let overlaps = seen.devices.overlaps();
    let mut rounds: Vec<BTreeSet<&str>> = Vec::new();
    for sort in sorts {
        // Not before a round with one that is more urgent and lies over it.
        let after = rounds
            .iter()
            .rposition(|round| is_over(&overlaps, round, sort));
        let at = after.map_or(0, |at| at + 1);
        match rounds.get_mut(at) {
            Some(round) => round.extend(sort),
            None => rounds.push(sort.clone()),
        }
    }
    rounds
}

#[cfg(test)]
pub(super) mod tests;
