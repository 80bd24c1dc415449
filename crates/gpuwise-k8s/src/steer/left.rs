//! What is left of nodes: cores, memory, resources of device plugins, devices that are asked by claims.

use super::{Ask, Claims, Device, Devices, Node, Pod, Pool, Seen, cut, devices::Sharing};
use std::collections::BTreeMap;

/// What is left of a node: cores, MiB, each resource, and devices that are asked by claims.
#[derive(Debug, Clone)]
pub(super) struct Left<'a> {
    cpu: i128,
    memory: i128,
    units: BTreeMap<&'a str, i64>,
    devices: &'a Devices,
    pool: Pool,
    /// Devices that were not there for those who are to have them.
    lacks: Vec<(&'a str, u32)>,
    /// There were fewer devices than were taken.
    short: bool,
}

impl<'a> Left<'a> {
    fn of(
        node: &'a Node,
        units: impl Iterator<Item = (&'a str, u32)>,
        devices: &'a Devices,
    ) -> Self {
        Self {
            cpu: node.cpu_milli.into(),
            memory: node.memory_mib.into(),
            pool: devices.pools.get(&node.name).cloned().unwrap_or_default(),
            devices,
            lacks: Vec::new(),
            short: false,
            units: units
                .map(|(name, count)| (name, i64::from(count)))
                .collect(),
        }
    }

    /// Takes what a pod on it has.
    fn take(&mut self, pod: &'a Pod) {
        let ask = self.beside(pod);
        // What is allocated is no longer among what is left.
        if let Some(ask) = ask.filter(|_| pod.claims != Claims::Allocated) {
            let got = self.pool.take(&ask.resource, ask.count).len() as u32;
            self.lacks.push((&ask.resource, ask.count - got));
        }
    }

    /// Gives back what those had who are gone.
    fn give(&mut self, devices: &[Device]) {
        self.pool.give(devices);
    }

    /// Who found no devices takes them of what was given back.
    fn settle(&mut self) {
        for (resource, count) in std::mem::take(&mut self.lacks) {
            self.short |= self.pool.take(resource, count).len() < count as usize;
        }
    }

    /// Takes all but devices; those that are to be taken, too.
    fn beside(&mut self, pod: &'a Pod) -> Option<&'a Ask> {
        self.cpu -= i128::from(pod.cpu_milli);
        self.memory -= i128::from(pod.memory_mib);
        let ask = pod.ask.as_ref()?;
        if self.devices.has(&ask.resource) {
            return Some(ask);
        }
        *self.units.entry(&ask.resource).or_default() -= i64::from(ask.count);
        None
    }

    /// Takes a place for what a pod asks that is elsewhere now, or nowhere; the devices that it will have.
    pub(super) fn seat(&mut self, pod: &'a Pod) -> Vec<Device> {
        let Some(ask) = self.beside(pod) else {
            return Vec::new();
        };
        let got = self.pool.take(&ask.resource, ask.count);
        self.short |= got.len() < ask.count as usize;
        got
    }

    /// Keeps such a place with the devices that it will have; whether it is there now.
    pub(super) fn keep(&mut self, pod: &'a Pod, devices: &[Device]) -> bool {
        let Some(ask) = self.beside(pod) else {
            let ask = pod.ask.as_ref();
            let left = ask.and_then(|ask| self.units.get(ask.resource.as_str()));
            return self.fits() && (ask.is_none() || left.is_some_and(|left| *left >= 0));
        };
        self.pool.keep(devices) >= ask.count && self.fits()
    }

    fn fits(&self) -> bool {
        self.cpu >= 0 && self.memory >= 0
    }

    pub(super) fn whole(&self) -> bool {
        let units = self.units.values().all(|left| *left >= 0);
        self.fits() && units && !self.short
    }
}

/// What is left of nodes beside those of the pods on them that count.
pub(super) fn ledger<'a>(
    seen: &'a Seen,
    nodes: &BTreeMap<&'a str, &'a Node>,
    counts: &dyn Fn(&Pod) -> bool,
    later: bool,
) -> BTreeMap<&'a str, Left<'a>> {
    let mut all: BTreeMap<&str, Left<'_>> = BTreeMap::new();
    for (name, node) in nodes {
        let cut = later.then(|| cut::expected(node, &seen.boards)).flatten();
        let left = if let Some((resource, count)) = cut {
            let units = std::iter::once((resource_of(seen, &resource), count));
            Left::of(node, units, &seen.devices)
        } else {
            let units = node.accelerators.iter();
            let units = units.map(|(name, count)| (name.as_str(), *count));
            Left::of(node, units, &seen.devices)
        };
        all.insert(name, left);
    }
    for pod in seen.pods.iter().filter(|pod| !pod.waits() && counts(pod)) {
        if let Some(left) = pod.place.node().and_then(|node| all.get_mut(node)) {
            left.take(pod);
        }
    }
    if later {
        give_back(seen, counts, &mut all);
    }
    for left in all.values_mut() {
        left.settle();
    }
    all
}

/// Devices of those who are gone, or will be, are free.
fn give_back(seen: &Seen, counts: &dyn Fn(&Pod) -> bool, all: &mut BTreeMap<&str, Left<'_>>) {
    for (node, devices) in &seen.devices.going {
        if let Some(left) = all.get_mut(node.as_str()) {
            left.give(devices);
        }
    }
    for pod in seen.pods.iter().filter(|pod| !pod.waits() && !counts(pod)) {
        let is_own = pod.standing.sharing != Sharing::Shared;
        let devices = seen.devices.held.get(&pod.uid).filter(|_| is_own);
        let left = pod.place.node().and_then(|node| all.get_mut(node));
        if let (Some(left), Some(devices)) = (left, devices) {
            left.give(devices);
        }
    }
}

/// The name of a resource as somebody asks for it, so that it lives as long as what was seen.
fn resource_of<'a>(seen: &'a Seen, name: &str) -> &'a str {
    let asks = seen.pods.iter().filter_map(|pod| pod.ask.as_ref());
    let mut asks = asks.filter(|ask| ask.resource == name);
    asks.next().map_or("", |ask| &ask.resource)
}
