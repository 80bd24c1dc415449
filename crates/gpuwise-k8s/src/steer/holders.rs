//! Who holds a place, and what becomes of places that were promised.

use super::{
    Decision, Placed, Pod, Seen, Waits, adopt::Holder, cut::is_cut_named, gangs::gang_of,
    promised::Promised,
};
use std::{collections::BTreeSet, sync::Arc};

/// All who are on a node, or on their way.
pub(super) fn truly(seen: &Seen) -> Vec<Holder<'_>> {
    let there = seen.pods.iter().enumerate().filter(|(_, pod)| !pod.waits());
    there
        .filter_map(|(at, pod)| {
            Some(Holder {
                pod,
                at,
                node: pod.place.node()?,
                stops: false,
                truly: true,
            })
        })
        .collect()
}

/// Who holds a place now, or was promised one.
pub(super) fn holders<'a>(seen: &'a Seen, promised: &'a Promised) -> Vec<Holder<'a>> {
    let mut all = truly(seen);
    let to = promised.to.iter().map(|(at, one)| (*at, one.node.as_str()));
    let kept = promised.kept.iter().map(|(at, node)| (*at, node.as_str()));
    all.extend(to.chain(kept).filter_map(|(at, node)| {
        Some(Holder {
            pod: seen.pods.get(at)?,
            at,
            node,
            stops: false,
            truly: false,
        })
    }));
    all
}

/// What was promised is kept: who has room is placed, who is in the way is to leave, who is not any more stays.
pub(super) fn keep(seen: &Seen, promised: &Promised, decision: &mut Decision) {
    for (at, promise) in &promised.to {
        let Some(pod) = seen.pods.get(*at) else {
            continue;
        };
        let node = &promise.node;
        if promise.ready {
            let gpus = pod.ask.as_ref().map_or(String::new(), |ask| {
                format!("{} {}", ask.count, ask.resource)
            });
            decision.placed.push(Placed {
                pod: *at,
                node: node.clone(),
                together: 1,
                replaces: promise.replaces.clone(),
                words: format!("{gpus} on node {node}, which was kept for it"),
            });
            continue;
        }
        let on = |one: &&Arc<Pod>| one.place.node() == Some(node);
        let kept = seen.pods.iter().filter(on).find_map(|one| {
            let why = seen.refused.get(&one.uid)?;
            Some(format!(
                "; {}/{} cannot be evicted yet: {why}",
                one.namespace, one.name
            ))
        });
        decision.waits.push(Waits {
            pod: *at,
            reason: if kept.is_some() {
                "EvictionRefused"
            } else {
                "MakingRoom"
            },
            words: format!(
                "room on node {node} is kept for it until others have left{}",
                kept.unwrap_or_default()
            ),
        });
    }
    for (at, pod) in seen.pods.iter().enumerate() {
        let standing = &pod.standing;
        if !standing.leaves || standing.ends || standing.moves.is_some() {
            continue;
        }
        // It leaves with its gang, wherever that makes room.
        let awaited = |pod: &Pod| {
            let node = pod.place.node();
            node.is_some_and(|node| promised.awaited.contains(node) || is_cut_named(seen, node))
        };
        let gang = gang_of(pod);
        let of_gang = gang.is_some()
            && seen
                .pods
                .iter()
                .any(|other| gang_of(other) == gang && (awaited(other) || other.standing.ends));
        if awaited(pod) || of_gang {
            decision.evict.push(at);
        } else {
            decision.spare.push(at);
        }
    }
}

/// Who was to leave and stands where room is made now goes on to leave: the room counts on it, and on its gang.
pub(super) fn unspare(seen: &Seen, decision: &mut Decision) {
    let rooms = decision.rooms.iter().flat_map(|room| &room.pods);
    let nodes: BTreeSet<&str> = rooms.map(|(_, node)| node.as_str()).collect();
    let counted = |pod: &Pod| pod.place.node().is_some_and(|node| nodes.contains(node));
    let leaves = |pod: &Pod| pod.standing.leaves && !pod.standing.ends;
    decision.spare.retain(|at| {
        let Some(pod) = seen.pods.get(*at) else {
            return false;
        };
        let gang = gang_of(pod);
        let with_it = |other: &Arc<Pod>| {
            gang.is_some() && gang_of(other) == gang && leaves(other) && counted(other)
        };
        !counted(pod) && !seen.pods.iter().any(with_it)
    });
}
