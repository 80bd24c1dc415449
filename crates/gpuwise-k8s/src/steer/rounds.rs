//! A decision where pods ask devices by claims: one round after the other, as sorts of devices lie over one another.
//!
//! In one round no two sorts share a device or a counter, so that a number of each says what there is. Who is placed
//! in a round holds its place in the next. What is disrupted for others is decided in the first, of which claims are
//! no part: pods with claims take nobody's place, and leave theirs for nobody.

use super::{
    Claims, Decision, Place, Pod, Rules, Seen, Waits, decision::decide_once, devices,
    gangs::gang_of, kept::Kept,
};
use gpuwise_units::Nanoseconds;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
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
    let mut waits = Vec::new();
    for (at, pod) in seen.pods.iter().enumerate() {
        if let (Claims::Wait { reason, words }, true) = (&pod.claims, pod.waits()) {
            let (reason, words) = (*reason, words.clone());
            waits.push(Waits {
                pod: at,
                reason,
                words,
            });
        }
    }
    let sorts = sorts(seen, &mut waits);
    let mut decision = if seen.devices.asked.is_empty() {
        decide_once(kept, seen, now)?
    } else {
        let first = part(seen, &BTreeSet::new(), &BTreeMap::new());
        decide_once(kept, &first, now)?
    };
    for round in rounds(seen, &sorts) {
        let placed = decision.placed.iter();
        let placed = placed.map(|one| (one.pod, one.node.clone())).collect();
        let mut part = part(seen, &round, &placed);
        part.rules = Rules {
            preemption: super::Preempts::Never,
            reclaims: false,
            moves: None,
            ..part.rules
        };
        part.surges.clear();
        let mut more = decide_once(&mut Kept::default(), &part, now)?;
        for one in &mut more.waits {
            // What would help of other kinds of GPUs helps no claim.
            let of_room = match one.reason {
                "NoSuchGpu" | "LargerThanCluster" => true,
                "TooFewGpus" => seen
                    .pods
                    .get(one.pod)
                    .is_some_and(|pod| gang_of(pod).is_none()),
                _ => false,
            };
            let pod = seen.pods.get(one.pod).filter(|_| of_room);
            if let Some((reason, words)) = pod.and_then(|pod| seen.devices.lacks(pod)) {
                (one.reason, one.words) = (reason, words);
            }
        }
        decision.placed.extend(more.placed);
        decision.waits.extend(more.waits);
        decision.wake = decision.wake.into_iter().chain(more.wake).min();
        let new = |one: &String| !decision.troubles.contains(one);
        let new: Vec<String> = more.troubles.into_iter().filter(new).collect();
        decision.troubles.extend(new);
    }
    decision.waits.extend(waits);
    decision.let_go = devices::let_go(seen);
    Ok(decision)
}

/// What those ask by claims who wait, most urgent first; a gang's sorts stand together. A gang whose sorts lie over
/// one another waits.
fn sorts<'a>(seen: &'a Seen, waits: &mut Vec<Waits>) -> Vec<BTreeSet<&'a str>> {
    let mut urgency: BTreeMap<&str, (Reverse<i32>, Nanoseconds)> = BTreeMap::new();
    let mut gangs: BTreeMap<_, (BTreeSet<&str>, Vec<usize>)> = BTreeMap::new();
    for (at, pod) in seen.pods.iter().enumerate() {
        let Some(ask) = pod.ask.as_ref().filter(|_| asks(seen, pod)) else {
            continue;
        };
        let own = (Reverse(pod.priority), pod.created);
        let known = urgency.entry(&ask.resource).or_insert(own);
        *known = (*known).min(own);
        if let Some(gang) = gang_of(pod) {
            let (all, pods) = gangs.entry((gang.0, gang.1, &gang.2.name)).or_default();
            all.insert(&ask.resource);
            pods.push(at);
        }
    }
    let overlaps = seen.devices.overlaps();
    let mut together: Vec<BTreeSet<&str>> =
        urgency.keys().map(|one| BTreeSet::from([*one])).collect();
    for (all, pods) in gangs.into_values().filter(|(all, _)| all.len() > 1) {
        if is_over(&overlaps, &all, &all) {
            waits.extend(pods.into_iter().map(|pod| Waits {
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
            together.into_iter().partition(|one| !one.is_disjoint(&all));
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

/// The cluster as a round sees it: of those who wait only who asks for these sorts, or, where there are none, who
/// asks for no devices by claims.
fn part(seen: &Seen, round: &BTreeSet<&str>, placed: &BTreeMap<usize, String>) -> Seen {
    let pods = seen.pods.iter().enumerate().map(|(at, pod)| {
        let mut shown = Pod::clone(pod);
        if let Some(node) = placed.get(&at) {
            shown.place = Place::Sent(node.clone());
            return Arc::new(shown);
        }
        let is_part = match &pod.ask {
            Some(ask) if seen.devices.asked.contains(&ask.resource) => {
                round.contains(ask.resource.as_str()) && pod.claims == Claims::Open
            }
            _ => round.is_empty() || pod.standing.nominated.is_some(),
        };
        if !pod.waits() || is_part {
            return Arc::clone(pod);
        }
        shown.ask = None;
        Arc::new(shown)
    });
    let mut part = Seen {
        pods: pods.collect(),
        ..seen.clone()
    };
    part.nodes = devices::offered(&part, round);
    part
}

#[cfg(test)]
mod tests;
