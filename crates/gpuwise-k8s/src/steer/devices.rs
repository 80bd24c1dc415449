//! Devices that pods ask by claims (Dynamic Resource Allocation): how many of a sort a node has left.
//!
//! What one claim asks is a resource of its own, by the name of its class and what it selects. Sorts can lie over
//! one another: a GPU and its partitions take from the same counters, and a class may select what another does.

use super::{Place, Pod, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// Devices of a cluster that nobody holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Devices {
    /// By node.
    pub pools: BTreeMap<String, Pool>,
    /// What pods ask by claims, by its name.
    pub asked: BTreeSet<String>,
    /// Those of [`Self::asked`] that are parts of GPUs.
    pub parts: BTreeSet<String>,
    /// Of each of [`Self::asked`] how many the node has that has most, were nothing held; left out: none.
    pub most: BTreeMap<String, u32>,
}

/// Devices of a node that nobody holds, in the order in which drivers list them, as kube-scheduler looks at them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    pub devices: Vec<Device>,
    /// What is left of counters that devices take from.
    pub counters: BTreeMap<Counter, u64>,
}

/// The set that a counter is of, such as a GPU, and its name.
pub type Counter = (String, String);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    pub takes: Vec<(Counter, u64)>,
    /// Resources of [`Devices::asked`] that it serves.
    pub serves: BTreeSet<String>,
}

/// How a pod's claims stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Claims {
    /// It has none that bear on where it goes.
    #[default]
    None,
    /// They have their devices.
    Allocated,
    /// They are to get devices.
    Open,
    /// Something is missing that may yet come: why it waits.
    Wait { reason: &'static str, words: String },
    /// Where it goes is for kube-scheduler alone to say, and why.
    Others(String),
}

impl Pool {
    /// Takes up to so many devices for a resource; how many there were.
    pub fn take(&mut self, resource: &str, count: u32) -> u32 {
        let mut taken = 0;
        let counters = &mut self.counters;
        self.devices.retain(|device| {
            let left = |(counter, takes): &(Counter, u64)| {
                counters.get(counter).is_some_and(|left| left >= takes)
            };
            let is_free = device.takes.iter().all(left);
            if taken == count || !device.serves.contains(resource) || !is_free {
                return true;
            }
            for (counter, takes) in &device.takes {
                if let Some(left) = counters.get_mut(counter) {
                    *left -= takes;
                }
            }
            taken += 1;
            false
        });
        taken
    }
}

impl Devices {
    pub(super) fn is_asked(&self, pod: &Pod) -> bool {
        let ask = pod.ask.as_ref();
        ask.is_some_and(|ask| self.asked.contains(&ask.resource))
    }

    /// Why a pod waits of which the kernel knows no such GPU: what others hold of the same GPUs is hidden from it.
    pub(super) fn lacks(&self, pod: &Pod) -> Option<(&'static str, String)> {
        let ask = pod.ask.as_ref().filter(|_| self.is_asked(pod))?;
        let (count, name) = (ask.count, &ask.resource);
        Some(match self.most.get(name) {
            None => (
                "NoSuchGpu",
                format!("no node has a device of {name}, or its driver has not said all of it yet"),
            ),
            Some(most) if *most < count => (
                "LargerThanCluster",
                format!("it asks for {count} of {name} on one node; no node has more than {most}"),
            ),
            Some(_) => (
                "TooFewGpus",
                format!(
                    "needs {count} of {name} on one node; no node has so many left: they, or the GPUs that they are parts of, are held"
                ),
            ),
        })
    }

    /// Pairs of resources that are served by the same devices, or take from the same counters.
    pub(super) fn overlaps(&self) -> BTreeSet<(&str, &str)> {
        let mut all = BTreeSet::new();
        for pool in self.pools.values() {
            let mut sets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for device in &pool.devices {
                let serves: BTreeSet<&str> = device.serves.iter().map(String::as_str).collect();
                let of = device.takes.iter().map(|((set, _), _)| set.as_str());
                for set in of.collect::<BTreeSet<_>>() {
                    sets.entry(set).or_default().extend(&serves);
                }
                pairs(&serves, &mut all);
            }
            for serves in sets.values() {
                pairs(serves, &mut all);
            }
        }
        all
    }
}

fn pairs<'a>(of: &BTreeSet<&'a str>, all: &mut BTreeSet<(&'a str, &'a str)>) {
    for one in of {
        all.extend(
            of.iter()
                .filter(|other| *other != one)
                .map(|other| (*one, *other)),
        );
    }
}

/// By node and resource: what those hold who are there or on their way; and, by node, what claims of theirs are yet
/// to get.
type Held<'a> = (
    BTreeMap<(&'a str, &'a str), u32>,
    BTreeMap<&'a str, Vec<(&'a str, u32)>>,
);

fn held(seen: &Seen) -> Held<'_> {
    let (mut all, mut open): Held<'_> = Default::default();
    for pod in seen.pods.iter().filter(|pod| seen.devices.is_asked(pod)) {
        let (Some(node), Some(ask)) = (pod.place.node(), &pod.ask) else {
            continue;
        };
        *all.entry((node, &ask.resource)).or_default() += ask.count;
        if pod.claims != Claims::Allocated {
            open.entry(node)
                .or_default()
                .push((&ask.resource, ask.count));
        }
    }
    (all, open)
}

/// What a node offers: of `open` resources what is left beside what is held, of all others what is held.
pub(super) fn offered(seen: &Seen, open: &BTreeSet<&str>) -> Vec<std::sync::Arc<super::Node>> {
    let (held, unallocated) = held(seen);
    let one = |node: &std::sync::Arc<super::Node>| {
        let mut pool = seen
            .devices
            .pools
            .get(&node.name)
            .cloned()
            .unwrap_or_default();
        for (resource, count) in unallocated.get(node.name.as_str()).into_iter().flatten() {
            pool.take(resource, *count);
        }
        let given = seen.devices.asked.iter().filter_map(|resource| {
            let mut count = held.get(&(node.name.as_str(), resource.as_str())).copied();
            if open.contains(resource.as_str()) {
                let left = pool.clone().take(resource, u32::MAX);
                count = Some(count.unwrap_or(0) + left);
            }
            count
                .filter(|count| *count > 0)
                .map(|count| (resource.clone(), count))
        });
        let given: Vec<(String, u32)> = given.collect();
        if given.is_empty() {
            return std::sync::Arc::clone(node);
        }
        let mut with = super::Node::clone(node);
        with.accelerators.extend(given);
        std::sync::Arc::new(with)
    };
    seen.nodes.iter().map(one).collect()
}

/// Pods whose gates nobody else is going to take off, though they are not placed here: why.
pub(super) fn let_go(seen: &Seen) -> Vec<(usize, String)> {
    let all = seen.pods.iter().enumerate();
    all.filter(|(_, pod)| pod.place == Place::Gated)
        .filter_map(|(at, pod)| Some((at, to_scheduler(pod)?.to_owned())))
        .collect()
}

/// Why kube-scheduler alone says where a pod goes that is nowhere yet.
pub(crate) fn to_scheduler(pod: &Pod) -> Option<&str> {
    match &pod.claims {
        Claims::Others(why) => Some(why),
        Claims::Allocated => {
            Some("its claims have got their devices already, and it goes where those are")
        }
        Claims::None | Claims::Open | Claims::Wait { .. } => None,
    }
}
