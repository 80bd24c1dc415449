//! Room across sorts of devices: a GPU is free when all of its parts are.

use super::{
    Place, Pod, Pool, Seen,
    leave::evictable,
    offered::{Scene, Stock, given_back},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Pods of other sorts that together make room for one of a sort when they are gone, by the pod that stands for them.
#[derive(Debug, Default)]
pub(super) struct Chunks(pub(super) BTreeMap<usize, Vec<usize>>);

impl Stock {
    /// Finds those on all nodes, and shows them in `pods` as holders of what they would give.
    pub(super) fn chunks(
        &mut self,
        seen: &Seen,
        (scene, open): (&Scene, &BTreeSet<&str>),
        pods: &mut [Arc<Pod>],
    ) -> Chunks {
        let mut by_node: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, pod) in seen.pods.iter().enumerate() {
            let Place::Bound(node) = &pod.place else {
                continue;
            };
            let is_other = pod.ask.as_ref().is_some_and(|ask| {
                seen.devices.has(&ask.resource) && !open.contains(ask.resource.as_str())
            });
            if is_other
                && !scene.is_gone(at)
                && given_back(seen, pod).is_some()
                && evictable(seen, pod)
            {
                by_node.entry(node).or_default().push(at);
            }
        }
        let mut chunks = Chunks::default();
        for (node, all) in by_node {
            let Some(pool) = self.pools.get(node).cloned() else {
                continue;
            };
            let mut groups = groups(seen, &all);
            for resource in open {
                let found = groups
                    .iter_mut()
                    .flat_map(|all| giving(seen, &pool, all, resource));
                for (members, count) in found {
                    self.show(seen, (node, resource), (&members, count), pods);
                    if let Some(first) = members.first() {
                        chunks.0.insert(*first, members);
                    }
                }
            }
        }
        chunks
    }

    /// Shows one of them as the holder of what all of them would give, and the others as holders of nothing.
    fn show(
        &mut self,
        seen: &Seen,
        (node, resource): (&str, &str),
        (members, count): (&[usize], u32),
        pods: &mut [Arc<Pod>],
    ) {
        *self.holds(node, resource) += count;
        let all = || members.iter().filter_map(|at| seen.pods.get(*at));
        let urgent = all().map(|pod| pod.priority).max().unwrap_or_default();
        let is_whole = |pod: &Arc<Pod>| {
            let ask = pod.ask.as_ref();
            ask.is_some_and(|ask| !seen.devices.parts.contains(&ask.resource))
        };
        // Only what counts in a quota is taken back for one.
        let counts = all().all(is_whole) && !seen.devices.parts.contains(resource);
        for (nth, at) in members.iter().enumerate() {
            let Some(shown) = pods.get_mut(*at) else {
                continue;
            };
            let shown = Arc::make_mut(shown);
            let own = shown
                .ask
                .as_ref()
                .map(|ask| (ask.resource.clone(), ask.count));
            if let Some((own, held)) = own {
                let all = self.holds(node, &own);
                *all = all.saturating_sub(held);
            }
            if nth > 0 {
                shown.ask = None;
                continue;
            }
            shown.priority = urgent;
            if !counts {
                shown.namespace.clear();
            }
            if let Some(ask) = &mut shown.ask {
                (ask.resource, ask.count, ask.gang) = (resource.to_owned(), count, None);
            }
        }
    }
}

/// Pods of which each has devices that take from what another's take from, such as parts of one GPU; the least urgent
/// and the fewest first.
fn groups(seen: &Seen, all: &[usize]) -> Vec<Vec<usize>> {
    let mut found: Vec<(BTreeSet<&str>, Vec<usize>)> = Vec::new();
    for at in all {
        let Some(pod) = seen.pods.get(*at) else {
            continue;
        };
        let devices = given_back(seen, pod).unwrap_or_default().iter();
        let takes = devices.flat_map(|device| &device.takes);
        let sets: BTreeSet<&str> = takes.map(|((set, _), _)| set.as_str()).collect();
        let (with, rest): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(known, _)| !known.is_disjoint(&sets));
        let mut one = (sets, vec![*at]);
        for (sets, pods) in with {
            one.0.extend(sets);
            one.1.extend(pods);
        }
        found = rest;
        found.push(one);
    }
    let urgent = |at: &usize| {
        seen.pods
            .get(*at)
            .map(|pod| (pod.priority, Reverse(pod.created)))
    };
    let mut groups: Vec<Vec<usize>> = found.into_iter().map(|(_, pods)| pods).collect();
    for pods in &mut groups {
        pods.sort_by_key(urgent);
    }
    groups.sort_by_key(|pods| (pods.iter().map(urgent).max(), pods.len()));
    groups
}

/// Of these pods, in their order, those that give devices of a resource when they are gone; who gives some is taken
/// out of `all`.
fn giving(
    seen: &Seen,
    pool: &Pool,
    all: &mut Vec<usize>,
    resource: &str,
) -> Vec<(Vec<usize>, u32)> {
    let mut pool = pool.clone();
    let with = |pool: &Pool, pods: &[usize]| {
        let mut pool = pool.clone();
        for pod in pods.iter().filter_map(|at| seen.pods.get(*at)) {
            pool.give(given_back(seen, pod).unwrap_or_default());
        }
        pool
    };
    let mut found = Vec::new();
    let mut until = 1;
    while until <= all.len() {
        let before = pool.count(resource);
        let first = all.get(..until).unwrap_or_default().to_vec();
        let gives = with(&pool, &first).count(resource);
        if gives <= before {
            until += 1;
            continue;
        }
        // Who is not needed for it stays, the most urgent before others.
        let mut needed = first;
        for at in needed.clone().into_iter().rev() {
            let without: Vec<usize> = needed.iter().copied().filter(|one| *one != at).collect();
            if with(&pool, &without).count(resource) >= gives {
                needed = without;
            }
        }
        pool = with(&pool, &needed);
        all.retain(|at| !needed.contains(at));
        until = 1;
        found.push((needed, gives - before));
    }
    found
}
