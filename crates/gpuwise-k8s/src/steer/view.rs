//! The cluster as a round of a decision sees it.

use super::{
    Claims, Place, Placed, Pod, Room, Seen,
    chunks::Chunks,
    decision::Decision,
    gangs::{Key, gang_of},
    offered::{Scene, Stock},
    promised::Promised,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A round: what is decided on in it.
pub(super) struct View<'a> {
    pub whole: &'a Seen,
    /// Sorts of devices; none: what asks for no devices by claims.
    pub round: BTreeSet<&'a str>,
    /// Gangs that ask in both ways, with the sorts that they ask by claims.
    pub both: &'a BTreeMap<Key<'a>, BTreeSet<&'a str>>,
    /// Pods that rounds before have placed, and where.
    pub placed: BTreeMap<usize, String>,
}

impl<'a> View<'a> {
    /// As it is.
    pub(super) fn now<'r>(
        &self,
        promised: &Promised,
        rooms: impl Iterator<Item = &'r Room>,
    ) -> Cow<'a, Seen> {
        self.at(promised, |part| Scene::now(part, promised, rooms))
    }

    /// As it will be once all are gone who leave, with rooms that are made.
    pub(super) fn later<'r>(
        &self,
        promised: &Promised,
        rooms: impl Iterator<Item = &'r Room>,
    ) -> Cow<'a, Seen> {
        self.at(promised, |part| Scene::later(part, promised, rooms))
    }

    fn at(&self, promised: &Promised, scene: impl FnOnce(&Seen) -> Scene) -> Cow<'a, Seen> {
        if self.is_plain() {
            return Cow::Borrowed(self.whole);
        }
        let part = self.part(promised);
        let stock = Stock::of(&part, &scene(&part));
        Cow::Owned(self.with(part.pods, &stock))
    }

    /// The same, where pods of other sorts stand for what they would give.
    pub(super) fn in_chunks<'r>(
        &self,
        promised: &Promised,
        rooms: impl Iterator<Item = &'r Room>,
    ) -> (Cow<'a, Seen>, Chunks) {
        if self.is_plain() || self.round.is_empty() {
            return (self.later(promised, rooms), Chunks::default());
        }
        let part = self.part(promised);
        let scene = Scene::later(&part, promised, rooms);
        let mut stock = Stock::of(&part, &scene);
        let mut pods = part.pods.clone();
        let chunks = stock.chunks(&part, (&scene, &self.round), &mut pods);
        (Cow::Owned(self.with(pods, &stock)), chunks)
    }

    /// Whether a room is one once those have left who leave for it and for those before.
    pub(super) fn holds<'r>(
        &self,
        promised: &Promised,
        rooms: impl Iterator<Item = &'r Room>,
        room: &'r Room,
    ) -> bool {
        if self.round.is_empty() {
            return true;
        }
        let part = self.part(promised);
        let scene = Scene::later(&part, promised, rooms.chain(std::iter::once(room)));
        let stock = Stock::of(&part, &scene);
        room.pods
            .iter()
            .all(|(_, node)| !stock.short.contains(node))
    }

    /// Of those who are placed who is not shown at his place.
    pub(super) fn unseen<'p>(&self, placed: &'p [Placed]) -> &'p [Placed] {
        if self.is_plain() { placed } else { &[] }
    }

    fn is_plain(&self) -> bool {
        self.whole.devices.asked.is_empty()
    }

    fn with(&self, pods: Vec<Arc<Pod>>, stock: &Stock) -> Seen {
        Seen {
            nodes: stock.nodes(self.whole, &self.round),
            pods,
            ..self.whole.clone()
        }
    }

    /// Of those who wait only who is decided on, or was promised a place.
    fn part(&self, promised: &Promised) -> Seen {
        let pods = self.whole.pods.iter().enumerate().map(|(at, pod)| {
            if let Some(node) = self.placed.get(&at) {
                let mut shown = Pod::clone(pod);
                shown.place = Place::Sent(node.clone());
                return Arc::new(shown);
            }
            if !pod.waits() || promised.to.contains_key(&at) || self.is_of(pod) {
                return Arc::clone(pod);
            }
            let mut shown = Pod::clone(pod);
            shown.ask = None;
            Arc::new(shown)
        });
        Seen {
            pods: pods.collect(),
            ..self.whole.clone()
        }
    }

    fn is_of(&self, pod: &Pod) -> bool {
        let Some(ask) = &pod.ask else {
            return false;
        };
        if self.whole.devices.has(&ask.resource) {
            return self.round.contains(ask.resource.as_str()) && pod.claims == Claims::Open;
        }
        match gang_of(pod).and_then(|gang| self.both.get(&gang)) {
            Some(sorts) => !sorts.is_disjoint(&self.round),
            None => self.round.is_empty(),
        }
    }
}

/// What was decided in rounds before, as the next one sees it.
pub(super) fn placed(decision: &Decision) -> BTreeMap<usize, String> {
    let placed = decision.placed.iter();
    placed.map(|one| (one.pod, one.node.clone())).collect()
}
