//! What nodes offer of devices that pods ask by claims, as numbers that the kernel counts with.
//!
//! A node has of a sort what is held of it and, where the sort is decided on, what could be allocated beside that.

use super::{
    Claims, Device, Node, Pod, Pool, Seen,
    devices::Sharing,
    promised::{Promised, goes},
    room::{Leaves, Room},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Who goes and who comes, beside those who are there.
#[derive(Debug, Clone, Default)]
pub(super) struct Scene {
    /// Pods that leave, by their places in [`Seen::pods`].
    goes: BTreeSet<usize>,
    /// Whether they have left.
    later: bool,
    /// Pods that are not there yet, and where they are to be.
    seats: BTreeMap<usize, String>,
}

impl Scene {
    /// As it is, with places that are kept.
    pub(super) fn now<'a>(
        seen: &Seen,
        promised: &Promised,
        rooms: impl Iterator<Item = &'a Room>,
    ) -> Self {
        Self {
            later: false,
            ..Self::later(seen, promised, rooms)
        }
    }

    /// As it will be, once all are gone who leave or are let go for these rooms.
    pub(super) fn later<'a>(
        seen: &Seen,
        promised: &Promised,
        rooms: impl Iterator<Item = &'a Room>,
    ) -> Self {
        let all = seen.pods.iter().enumerate();
        let mut goes: BTreeSet<usize> = all
            .filter_map(|(at, pod)| goes(pod).then_some(at))
            .collect();
        let mut seats = seats(promised);
        for room in rooms {
            seats.extend(room.pods.iter().cloned());
            for one in &room.leavers {
                goes.insert(one.pod);
                if let Leaves::Moves { to } = &one.how {
                    seats.insert(one.pod, to.clone());
                }
            }
        }
        Self {
            goes,
            later: true,
            seats,
        }
    }

    /// Whether somebody is gone in it.
    pub(super) fn is_gone(&self, at: usize) -> bool {
        self.later && self.goes.contains(&at)
    }
}

fn seats(promised: &Promised) -> BTreeMap<usize, String> {
    let to = promised.to.iter();
    let to = to.map(|(at, promise)| (*at, promise.node.clone()));
    let kept = promised.kept.iter().map(|(at, node)| (*at, node.clone()));
    to.chain(kept).collect()
}

/// Devices of nodes in a scene.
#[derive(Debug, Default)]
pub(super) struct Stock {
    /// What is left.
    pub(super) pools: BTreeMap<String, Pool>,
    /// By node and resource: what is held.
    held: BTreeMap<(String, String), u32>,
    /// Nodes on which somebody is to be for whom there is nothing.
    pub(super) short: BTreeSet<String>,
}

impl Stock {
    pub(super) fn of(seen: &Seen, scene: &Scene) -> Self {
        if scene.seats.is_empty() && !scene.later {
            return Self::beside(seen, scene);
        }
        let is_later = Scene {
            later: true,
            ..scene.clone()
        };
        let mut later = Self::beside(seen, &is_later);
        let mut comes = Vec::new();
        for (at, node) in &scene.seats {
            let ask = seen.pods.get(*at).and_then(|pod| pod.ask.as_ref());
            if let Some(ask) = ask.filter(|ask| seen.devices.has(&ask.resource)) {
                let got = later.take(node, &ask.resource, ask.count);
                comes.push((node, ask, got));
            }
        }
        if scene.later {
            for (node, ask, got) in comes {
                *later.holds(node, &ask.resource) += got.len() as u32;
            }
            return later;
        }
        // What they will have nobody gets meanwhile, though a part of it is free already.
        let mut now = Self::beside(seen, scene);
        for (node, ask, got) in comes {
            let pool = now.pools.get_mut(node);
            let free = pool.map_or(0, |pool| pool.keep(&got));
            *now.holds(node, &ask.resource) += free;
        }
        now
    }

    /// Beside those who are there.
    fn beside(seen: &Seen, scene: &Scene) -> Self {
        let mut stock = Self {
            pools: seen.devices.pools.clone(),
            ..Self::default()
        };
        let mut open = Vec::new();
        let mut gone = Vec::new();
        for (at, pod) in seen.pods.iter().enumerate() {
            let ask = pod.ask.as_ref().filter(|_| seen.devices.is_asked(pod));
            let (Some(ask), Some(node)) = (ask, pod.place.node()) else {
                continue;
            };
            if scene.is_gone(at) {
                gone.extend(given_back(seen, pod).map(|devices| (node, devices)));
                continue;
            }
            *stock.holds(node, &ask.resource) += ask.count;
            if pod.claims != Claims::Allocated {
                open.push((node, ask, ask.count));
            }
        }
        // They get theirs of what is free now, before others have left.
        for (node, ask, lacks) in &mut open {
            if let Some(pool) = stock.pools.get_mut(*node) {
                *lacks -= pool.take(&ask.resource, *lacks).len() as u32;
            }
        }
        if scene.later {
            let going = seen.devices.going.iter();
            gone.extend(going.map(|(node, devices)| (node.as_str(), devices.as_slice())));
        }
        for (node, devices) in gone {
            let pool = stock.pools.entry(node.to_owned()).or_default();
            pool.give(devices);
        }
        for (node, ask, lacks) in open {
            stock.take(node, &ask.resource, lacks);
        }
        stock
    }

    pub(super) fn holds(&mut self, node: &str, resource: &str) -> &mut u32 {
        let key = (node.to_owned(), resource.to_owned());
        self.held.entry(key).or_default()
    }

    fn take(&mut self, node: &str, resource: &str, count: u32) -> Vec<Device> {
        let pool = self.pools.get_mut(node);
        let got = pool.map_or_else(Vec::new, |pool| pool.take(resource, count));
        if got.len() < count as usize {
            self.short.insert(node.to_owned());
        }
        got
    }

    /// Nodes as the kernel is told of them; `open`: resources that are decided on.
    pub(super) fn nodes(&self, seen: &Seen, open: &BTreeSet<&str>) -> Vec<Arc<Node>> {
        let one = |node: &Arc<Node>| {
            let pool = self.pools.get(&node.name);
            let given = seen.devices.asked.iter().filter_map(|resource| {
                let key = (node.name.clone(), resource.clone());
                let held = self.held.get(&key).copied().unwrap_or(0);
                let left = pool.filter(|_| open.contains(resource.as_str()));
                let count = held + left.map_or(0, |pool| pool.count(resource));
                (count > 0).then(|| (resource.clone(), count))
            });
            let given: Vec<(String, u32)> = given.collect();
            if given.is_empty() {
                return Arc::clone(node);
            }
            let mut with = Node::clone(node);
            with.accelerators.extend(given);
            Arc::new(with)
        };
        seen.nodes.iter().map(one).collect()
    }
}

/// The devices that are free once a pod is gone.
pub(super) fn given_back<'a>(seen: &'a Seen, pod: &Pod) -> Option<&'a [Device]> {
    let held = seen.devices.held.get(&pod.uid);
    held.filter(|_| pod.standing.sharing != Sharing::Shared)
        .map(Vec::as_slice)
}
