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
    /// By the uid of a pod: devices that its claims have, and that are free once those are given back.
    pub held: BTreeMap<String, Vec<Device>>,
    /// By node: devices that claims have whose pods are gone. They are about to be given back, and not free before.
    pub going: BTreeMap<String, Vec<Device>>,
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
    /// Its place among its node's devices.
    pub at: u32,
    pub takes: Vec<(Counter, u64)>,
    /// Resources of [`Devices::asked`] that it serves.
    pub serves: BTreeSet<String>,
}

impl Device {
    fn is_free(&self, counters: &BTreeMap<Counter, u64>) -> bool {
        let mut all = self.takes.iter();
        all.all(|(counter, takes)| counters.get(counter).is_some_and(|left| left >= takes))
    }

    /// What is left beside it.
    fn leave(&self, counters: &mut BTreeMap<Counter, u64>) {
        for (counter, takes) in &self.takes {
            if let Some(left) = counters.get_mut(counter) {
                *left = left.saturating_sub(*takes);
            }
        }
    }
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

/// Whose the claims of a pod are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sharing {
    /// Made for it: another pod of its template gets others.
    #[default]
    Own,
    /// It names one, and no other pod does: one more of it could not have that too.
    Named,
    /// Other pods name the same, so that its devices are not free when it is gone.
    Shared,
}

impl Pool {
    /// Takes up to so many devices for a resource; those that there were.
    pub fn take(&mut self, resource: &str, count: u32) -> Vec<Device> {
        let mut taken = Vec::new();
        let counters = &mut self.counters;
        self.devices.retain(|device| {
            let is_free = device.is_free(counters);
            if taken.len() >= count as usize || !device.serves.contains(resource) || !is_free {
                return true;
            }
            device.leave(counters);
            taken.push(device.clone());
            false
        });
        taken
    }

    /// Keeps devices for somebody, also those that are not free yet; how many are.
    pub(super) fn keep(&mut self, devices: &[Device]) -> u32 {
        let mut free = 0;
        for device in devices {
            let there = self.devices.iter().any(|one| one.at == device.at);
            free += u32::from(there && device.is_free(&self.counters));
            device.leave(&mut self.counters);
            self.devices.retain(|one| one.at != device.at);
        }
        free
    }

    /// How many devices for a resource are left.
    pub(super) fn count(&self, resource: &str) -> u32 {
        self.clone().take(resource, u32::MAX).len() as u32
    }

    /// Takes devices back.
    pub(super) fn give(&mut self, devices: &[Device]) {
        for device in devices {
            for (counter, takes) in &device.takes {
                if let Some(left) = self.counters.get_mut(counter) {
                    *left = left.saturating_add(*takes);
                }
            }
            let at = self.devices.partition_point(|one| one.at < device.at);
            self.devices.insert(at, device.clone());
        }
    }
}

impl Devices {
    /// Of a resource that is asked by claims.
    pub(super) fn has(&self, resource: &str) -> bool {
        self.asked.contains(resource)
    }

    /// Of each of [`Self::asked`] how many the node has left that has most.
    pub(crate) fn left(&self) -> BTreeMap<String, u32> {
        let most = |name: &String| {
            let each = self.pools.values().map(|pool| pool.count(name));
            each.max().unwrap_or(0)
        };
        let all = self.asked.iter();
        all.map(|name| (name.clone(), most(name))).collect()
    }

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
