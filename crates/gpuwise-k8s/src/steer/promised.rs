//! Places that are promised: to pods that were nominated while others leave, and to those that start in the stead
//! of pods that move. Read off the pods alone, so that whoever leads next keeps what was promised.

use super::{
    Device, Node, Place, Pod, Room, Seen,
    cut::{self, is_cut},
    gangs::{gang_of, size_of},
    left::{Left, ledger},
    turns,
};
use std::collections::{BTreeMap, BTreeSet};

/// A place that is kept for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Promise {
    pub node: String,
    /// The room is there now.
    pub ready: bool,
    /// The uid of the pod in whose stead it starts.
    pub replaces: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Promised {
    /// By the pod's place in [`Seen::pods`].
    pub to: BTreeMap<usize, Promise>,
    /// Pods that move and nobody starts in their stead yet: the place is kept for what they ask.
    pub kept: BTreeMap<usize, String>,
    /// Nodes on which somebody is nominated and the room is not there.
    pub awaited: BTreeSet<String>,
}

impl Promised {
    /// What is there is no promise any more: who has it is placed.
    pub(super) fn settle(&mut self) {
        self.to.retain(|_, promise| !promise.ready);
    }

    /// Rooms that are made are promised as well.
    pub(super) fn seat(&mut self, rooms: &[Room]) {
        for (at, node) in rooms.iter().flat_map(|room| &room.pods) {
            let promise = Promise {
                node: node.clone(),
                ready: false,
                replaces: None,
            };
            self.to.insert(*at, promise);
        }
    }
}

/// All that is promised and can be kept.
pub(super) fn promised(seen: &Seen) -> Promised {
    let mut found = Promised::default();
    let mut moving = stand_ins(seen, &mut found);
    turns::promise(seen, &mut found, &mut moving);
    nominated(seen, &mut found, &moving);
    if found.to.is_empty() && found.kept.is_empty() {
        return found;
    }
    let nodes: BTreeMap<&str, &Node> = seen
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), &**node))
        .collect();
    let devices = drop_broken(seen, &nodes, &mut found);
    let of = |at: &usize| devices.get(at).map_or(&[][..], Vec::as_slice);
    let mut now = ledger(seen, &nodes, &|_| true, false);
    for (at, node) in &found.kept {
        if let (Some(left), Some(pod)) = (now.get_mut(node.as_str()), seen.pods.get(*at)) {
            left.keep(pod, of(at));
        }
    }
    for (at, promise) in &mut found.to {
        let Some(pod) = seen.pods.get(*at) else {
            continue;
        };
        let closed = nodes
            .get(promise.node.as_str())
            .is_none_or(|node| is_cut(node));
        if let Some(left) = now.get_mut(promise.node.as_str()) {
            promise.ready = left.keep(pod, of(at)) && !closed;
        }
    }
    together(seen, &mut found);
    let waits = found.to.values().filter(|promise| !promise.ready);
    found.awaited = waits.map(|promise| promise.node.clone()).collect();
    found
}

/// Who starts in the stead of a pod that moves: the first of its owner that waits and asks the same.
fn stand_ins(seen: &Seen, found: &mut Promised) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    let moving = seen.pods.iter().enumerate().filter_map(|(at, pod)| {
        let moves = pod.standing.moves.as_ref();
        let moves = moves.filter(|_| !pod.standing.ends && pod.standing.set.is_none());
        moves.map(|(node, _)| (at, pod, node))
    });
    let mut moving: Vec<_> = moving.collect();
    // Where several of a Deployment move it has one more for one of them.
    let waits = |pod: &Pod| !seen.surges.iter().any(|surge| surge.pod == pod.uid);
    moving.sort_by_key(|(at, pod, _)| (waits(pod), *at));
    for (at, pod, node) in moving {
        let is_there =
            |other: &&std::sync::Arc<Pod>| other.standing.replaces.as_ref() == Some(&pod.uid);
        if seen.pods.iter().any(|other| is_there(&other)) {
            continue;
        }
        let double = seen.pods.iter().enumerate().find(|(one, other)| {
            other.place == Place::Gated
                && other.namespace == pod.namespace
                && other.owner == pod.owner
                && other.ask == pod.ask
                && !taken.contains(one)
        });
        match double {
            Some((double, _)) => {
                taken.insert(double);
                found.to.insert(
                    double,
                    Promise {
                        node: node.clone(),
                        ready: false,
                        replaces: Some(pod.uid.clone()),
                    },
                );
            }
            None => {
                found.kept.insert(at, node.clone());
            }
        }
    }
    taken
}

fn nominated(seen: &Seen, found: &mut Promised, moving: &BTreeSet<usize>) {
    for (at, pod) in seen.pods.iter().enumerate() {
        let Some(node) = &pod.standing.nominated else {
            continue;
        };
        if pod.place == Place::Gated && pod.ask.is_some() && !moving.contains(&at) {
            found.to.insert(
                at,
                Promise {
                    node: node.clone(),
                    ready: false,
                    replaces: None,
                },
            );
        }
    }
}

/// Takes back what cannot be kept: the node is gone or closed, or others are in the way who do not leave. A gang
/// keeps all of it or nothing. By place in [`Seen::pods`]: devices that those will have who are promised them.
fn drop_broken(
    seen: &Seen,
    nodes: &BTreeMap<&str, &Node>,
    found: &mut Promised,
) -> BTreeMap<usize, Vec<Device>> {
    let mut devices = BTreeMap::new();
    let mut later = ledger(seen, nodes, &|pod| !goes(pod), true);
    let kept = found.kept.iter();
    let all = kept.chain(found.to.iter().map(|(at, promise)| (at, &promise.node)));
    for (at, node) in all {
        if let (Some(left), Some(pod)) = (later.get_mut(node.as_str()), seen.pods.get(*at)) {
            devices.insert(*at, left.seat(pod));
        }
    }
    let broken = |at: usize, name: &str| {
        let (Some(node), Some(pod)) = (nodes.get(name), seen.pods.get(at)) else {
            return true;
        };
        let whole = later.get(name).is_some_and(Left::whole);
        !node.open || !pod.constraint.admits_but(node, cut::CUTTING) || !whole
    };
    found.kept.retain(|at, node| !broken(*at, node));
    found.to.retain(|at, promise| !broken(*at, &promise.node));
    // Of each gang: who waits, who of them was promised a place, who has one.
    let mut counts: BTreeMap<_, (usize, usize, usize)> = BTreeMap::new();
    for (at, pod) in seen.pods.iter().enumerate() {
        let Some(gang) = gang_of(pod) else { continue };
        let (waiting, promised, placed) = counts.entry(gang).or_default();
        *waiting += usize::from(pod.waits());
        *placed += usize::from(!pod.waits());
        *promised += usize::from(found.to.contains_key(&at));
    }
    found.to.retain(|at, _| {
        let Some(gang) = seen.pods.get(*at).and_then(|pod| gang_of(pod)) else {
            return true;
        };
        let (waiting, promised, placed) = counts.get(&gang).copied().unwrap_or_default();
        let size = size_of(seen, gang.0, gang.2).map_or(waiting, |size| size as usize);
        promised >= size.saturating_sub(placed).min(waiting)
    });
    devices
}

/// Of a gang nobody goes before the room of all is there.
fn together(seen: &Seen, found: &mut Promised) {
    let gang = |at: &usize| seen.pods.get(*at).and_then(|pod| gang_of(pod));
    let late: BTreeSet<_> = found
        .to
        .iter()
        .filter(|(_, promise)| !promise.ready)
        .filter_map(|(at, _)| gang(at))
        .collect();
    for (at, promise) in &mut found.to {
        promise.ready &= gang(at).is_none_or(|gang| !late.contains(&gang));
    }
}

/// Whether a pod leaves its place: it ends, is to leave, or another starts in its stead.
pub(super) fn goes(pod: &Pod) -> bool {
    let standing = &pod.standing;
    standing.ends || standing.leaves || standing.moves.is_some()
}
