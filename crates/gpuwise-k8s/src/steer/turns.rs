//! Pods of StatefulSets that move: each has a name of its own, so that none can be started before it ends.
//!
//! They move within a PodDisruptionBudget that lets one go, one after the other, from the highest ordinal. The
//! StatefulSet is labelled with the pod whose turn it is and says where that is to start anew, before it is evicted:
//! whoever leads next keeps that place. The turn is over when the new pod is ready.

use super::{
    Place, Pod, Seen, Waits,
    answers::At,
    gangs::Unit,
    leave::{Movers, stands},
    promised::{Promise, Promised, goes},
    room::{Until, stage},
    surge::{PATIENCE, Step, is_late},
};
use gpuwise_sched::disruption::Disruptions;
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// A StatefulSet of which a pod has its turn to move.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    pub namespace: String,
    pub set: String,
    /// The pod's name, which its successor has too.
    pub pod: String,
    /// The uid of the pod that goes.
    pub uid: String,
    /// The node on which its successor starts.
    pub to: String,
    /// Since 1970.
    pub since: Nanoseconds,
}

/// Why a pod of a StatefulSet stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stays {
    /// It is of none that could move.
    NoSet,
    /// Another of it has its turn, or is not ready.
    Unsettled,
    /// No PodDisruptionBudget says how many it can miss.
    NoBudget,
    /// Its budget lets nobody go now.
    Kept,
}

impl Stays {
    /// In words, where a budget would cure it.
    const fn words(self) -> Option<&'static str> {
        match self {
            Self::NoSet | Self::Unsettled => None,
            Self::NoBudget => Some("no PodDisruptionBudget says that its StatefulSet can miss one"),
            Self::Kept => Some("its PodDisruptionBudget lets nobody go now"),
        }
    }
}

/// Pods of a StatefulSet.
fn of<'a>(seen: &'a Seen, namespace: &'a str, set: &'a str) -> impl Iterator<Item = &'a Pod> {
    let pods = seen.pods.iter().map(|pod| &**pod);
    pods.filter(move |pod| {
        pod.namespace == namespace && pod.standing.set.as_ref().is_some_and(|(of, _)| of == set)
    })
}

pub(super) fn is_well(pod: &Pod) -> bool {
    is_up(pod) && !goes(pod)
}

fn is_up(pod: &Pod) -> bool {
    matches!(pod.place, Place::Bound(_)) && pod.standing.ready && !pod.standing.ends
}

/// Keeps the places of those that move, and gives them to their successors.
pub(super) fn promise(seen: &Seen, found: &mut Promised, taken: &mut BTreeSet<usize>) {
    for (at, pod) in seen.pods.iter().enumerate() {
        let moves = pod.standing.moves.as_ref();
        if let Some((node, _)) = moves.filter(|_| pod.standing.set.is_some()) {
            found.kept.insert(at, node.clone());
        }
    }
    for turn in &seen.turns {
        let mut pods = seen.pods.iter().enumerate();
        let named = |pod: &Pod| pod.namespace == turn.namespace && pod.name == turn.pod;
        if let Some((at, pod)) = pods.find(|(_, pod)| named(pod)) {
            if pod.uid != turn.uid && pod.place == Place::Gated {
                taken.insert(at);
                let promise = Promise {
                    node: turn.to.clone(),
                    ready: false,
                    replaces: Some(turn.uid.clone()),
                };
                found.to.insert(at, promise);
            }
            continue;
        }
        // Its controller has not made the successor yet: another of the set asks the same.
        let mut pods = seen.pods.iter().enumerate();
        let alike = pods.find(|(at, pod)| {
            let set = pod.standing.set.as_ref();
            pod.namespace == turn.namespace
                && set.is_some_and(|(set, _)| *set == turn.set)
                && !found.kept.contains_key(at)
                && !pod.waits()
        });
        if let Some((at, _)) = alike {
            found.kept.insert(at, turn.to.clone());
        }
    }
}

/// What is to be done of moves of StatefulSets' pods; when the next of them has taken too long.
pub(super) fn steps(
    seen: &Seen,
    now: Nanoseconds,
    at: At<'_>,
    steps: &mut Vec<Step>,
) -> Option<Nanoseconds> {
    let mut ends = Vec::new();
    for turn in &seen.turns {
        ends.push(turn.since + PATIENCE);
        steps.extend(step(seen, turn, now, at));
    }
    let mut sets: BTreeMap<(&str, &str), Vec<&Pod>> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| !pod.standing.ends) {
        if let (Some((set, _)), Some((_, since))) = (&pod.standing.set, &pod.standing.moves) {
            ends.push(*since + PATIENCE);
            sets.entry((&pod.namespace, set)).or_default().push(pod);
        }
    }
    for ((namespace, set), mut movers) in sets {
        let turns = |turn: &Turn| turn.namespace == namespace && turn.set == set;
        if seen.turns.iter().any(turns) {
            continue;
        }
        if seen.rules.moves.is_none() || movers.iter().any(|pod| is_late(pod, now)) {
            steps.extend(movers.into_iter().map(|pod| Step::Stay { pod: at(pod) }));
            continue;
        }
        movers.sort_by_key(|pod| pod.standing.set.as_ref().map(|(_, ordinal)| *ordinal));
        if let Some(next) = movers.pop().filter(|_| of(seen, namespace, set).all(is_up)) {
            steps.push(Step::Turn { pod: at(next) });
        }
    }
    ends.into_iter().filter(|end| *end > now).min()
}

/// What comes next in a turn.
fn step(seen: &Seen, turn: &Turn, now: Nanoseconds, at: At<'_>) -> Option<Step> {
    let late = now.0.saturating_sub(turn.since.0) >= PATIENCE.0;
    let named = |pod: &&Pod| pod.namespace == turn.namespace && pod.name == turn.pod;
    let pods = seen.pods.iter().map(|pod| &**pod);
    match pods.filter(named).max_by_key(|pod| pod.uid != turn.uid) {
        Some(pod) if pod.uid == turn.uid => {
            let called_off = late || seen.rules.moves.is_none() || pod.standing.moves.is_none();
            match (pod.standing.ends, called_off) {
                (true, _) => None,
                (false, true) => Some(Step::Over(turn.clone())),
                (false, false) => Some(Step::Evict { pod: at(pod) }),
            }
        }
        Some(successor) => is_up(successor).then(|| Step::Over(turn.clone())),
        // Nobody makes it again.
        None => late.then(|| Step::Over(turn.clone())),
    }
}

/// Says of those who wait that pods of StatefulSets would make room, and which budgets keep them where they are.
pub(super) fn tell_barred(until: &Until<'_>, lacking: &[&Unit<'_>], waits: &mut [Waits]) {
    let seen = until.seen;
    let Some(moves) = seen.rules.moves.filter(|moves| moves.left > 0) else {
        return;
    };
    let under_way = Movers::of(seen);
    let barred = |pod: &Pod| {
        let why = under_way.turns(pod).err().and_then(Stays::words);
        why.filter(|_| stands(pod))
    };
    if !seen.pods.iter().any(|pod| barred(pod).is_some()) {
        return;
    }
    let still: Vec<&Unit<'_>> = lacking
        .iter()
        .filter(|unit| {
            let mut pods = unit.parts.iter().flatten();
            pods.all(|pod| {
                let mut all = waits.iter();
                all.any(|one| seen.pods.get(one.pod).is_some_and(|at| at.uid == pod.uid))
            })
        })
        .copied()
        .collect();
    let migrate = Disruptions {
        migrate: true,
        most: moves.left,
        ..Disruptions::NONE
    };
    let stops = |pod: &Pod| under_way.movable(pod) || barred(pod).is_some();
    for room in stage(until, &still, migrate, &[], &stops) {
        let mut leavers = room.leavers.iter().filter_map(|one| seen.pods.get(one.pod));
        let Some((pod, why)) = leavers.find_map(|pod| Some((pod, barred(pod)?))) else {
            continue;
        };
        let told = |one: &&mut Waits| room.pods.iter().any(|(at, _)| *at == one.pod);
        for one in waits.iter_mut().filter(told) {
            one.words = format!(
                "{}; {}/{} would move for it, but {why}",
                one.words, pod.namespace, pod.name
            );
        }
    }
}
