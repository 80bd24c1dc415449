//! What of a cluster does not agree with itself, each with a name.

use super::{Inventory, Key, Kind, Node, State};
use std::collections::BTreeMap;

/// Something that people should look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub what: FindingKind,
    /// The object: a node, `NAMESPACE/NAME` of a pod or a claim.
    pub about: String,
    pub says: String,
}

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Pods hold more of a resource than their node offers.
    HeldBeyondOffered,
    /// A node's label counts other GPUs than its device plugin offers.
    CountsDisagree,
    /// Fewer GPUs may be allocated than there are.
    GpusUnhealthy,
    /// One device is held by several claims.
    DeviceHeldTwice,
    /// A claim holds a device that no driver offers (any more).
    DeviceUnknown,
    /// A device plugin and a driver of dynamic allocation both offer GPUs of a node.
    OfferedTwice,
    /// Slices of a pool are missing, or of several generations.
    PoolIncomplete,
    /// A device is tainted by its driver.
    DeviceTainted,
    /// A pod is on a node that is not there.
    NodeMissing,
    /// A quantity is none, negative, or more than is counted.
    Quantity,
    /// A kind of object cannot be read.
    NotSeen,
}

impl FindingKind {
    /// Its name, for filters and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeldBeyondOffered => "held-beyond-offered",
            Self::CountsDisagree => "counts-disagree",
            Self::GpusUnhealthy => "gpus-unhealthy",
            Self::DeviceHeldTwice => "device-held-twice",
            Self::DeviceUnknown => "device-unknown",
            Self::OfferedTwice => "offered-twice",
            Self::PoolIncomplete => "pool-incomplete",
            Self::DeviceTainted => "device-tainted",
            Self::NodeMissing => "node-missing",
            Self::Quantity => "quantity",
            Self::NotSeen => "not-seen",
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.about, self.what.name(), self.says)
    }
}

impl Inventory {
    /// Everything that does not agree, in the order of kinds and names.
    pub fn findings(&self) -> Vec<Finding> {
        let mut out = Vec::new();
        for node in self.nodes.values() {
            self.of_node(node, &mut out);
        }
        self.of_pods(&mut out);
        self.of_devices(&mut out);
        for (key, quota) in self.quotas.iter() {
            said(
                &mut out,
                FindingKind::Quantity,
                &key.to_string(),
                &quota.problems,
            );
        }
        for kind in Kind::ALL {
            if let Some(State::Absent(why)) = self.state(kind) {
                said(
                    &mut out,
                    FindingKind::NotSeen,
                    kind.resource(),
                    std::slice::from_ref(why),
                );
            }
        }
        out.sort();
        out
    }

    fn of_node(&self, node: &Node, out: &mut Vec<Finding>) {
        let name = &*node.name;
        said(out, FindingKind::Quantity, name, &node.problems);
        let held = self.held(name);
        for (resource, count) in held.into_iter().flat_map(|held| &held.extended) {
            let offered = node.extended.get(resource).copied().unwrap_or(0);
            // A driver of dynamic allocation serves a resource that its class names; it is not counted here.
            let served = offered == 0 && self.served_by_devices(resource);
            if *count > i128::from(offered) && !served {
                let words = format!("pods hold {count} {resource}, and the node offers {offered}");
                push(out, FindingKind::HeldBeyondOffered, name, words);
            }
        }
        for (resource, all) in &node.capacity {
            let offered = node.extended.get(resource).copied().unwrap_or(0);
            if resource.contains("gpu") && offered < *all {
                let words = format!("{offered} of {all} {resource} may be allocated");
                push(out, FindingKind::GpusUnhealthy, name, words);
            }
        }
        let labelled = node.label("nvidia.com/gpu.count");
        let labelled = labelled.and_then(|text| text.parse::<u64>().ok());
        let offered = ["nvidia.com/gpu", "nvidia.com/gpu.shared"]
            .iter()
            .find_map(|key| node.capacity.get(*key).copied());
        if let (Some(labelled), Some(offered)) = (labelled, offered) {
            let expected = labelled.saturating_mul(node.replicas());
            let mixed = node.label("nvidia.com/mig.strategy") == Some("mixed");
            if offered != expected && !mixed {
                let words = format!(
                    "the device plugin offers {offered} GPUs, and the label nvidia.com/gpu.count says {expected}"
                );
                push(out, FindingKind::CountsDisagree, name, words);
            }
        }
    }

    fn served_by_devices(&self, resource: &str) -> bool {
        let named = |name: &Option<String>| name.as_deref() == Some(resource);
        let own = format!("deviceclass.resource.kubernetes.io/{resource}");
        let mut classes = self.classes.iter();
        classes.any(|(key, class)| {
            named(&class.spec.extended_resource_name) || own.ends_with(&*key.name)
        })
    }

    fn of_pods(&self, out: &mut Vec<Finding>) {
        let mut told = std::collections::BTreeSet::new();
        for (key, pod) in self.pods.iter() {
            // Replicas share a shape: one of them stands for all.
            if !pod.shape.problems.is_empty() && told.insert(std::sync::Arc::as_ptr(&pod.shape)) {
                said(
                    out,
                    FindingKind::Quantity,
                    &key.to_string(),
                    &pod.shape.problems,
                );
            }
        }
        let gone = self
            .held
            .iter()
            .filter(|(node, _)| self.node(node).is_none());
        for (node, held) in gone {
            let first = held.pods.first().map(ToString::to_string);
            let words = format!(
                "{} pods are on it, {} first, and there is no such node",
                held.pods.len(),
                first.unwrap_or_default()
            );
            push(out, FindingKind::NodeMissing, node, words);
        }
    }

    fn of_devices(&self, out: &mut Vec<Finding>) {
        let mut offered = BTreeMap::new();
        let current = self.current_slices();
        for (_, slice) in &current {
            for device in &slice.spec.devices {
                let spec = &slice.spec;
                let id = (
                    spec.driver.as_str(),
                    spec.pool.name.as_str(),
                    device.name.as_str(),
                );
                offered.insert(id, device);
                let keeps = device.taints.iter().filter(|taint| taint.effect != "None");
                for taint in keeps {
                    let words = format!("{}:{}", taint.key, taint.effect);
                    let about = format!("{}/{}/{}", id.0, id.1, id.2);
                    push(out, FindingKind::DeviceTainted, &about, words);
                }
            }
        }
        let counted: std::collections::BTreeSet<&str> = current
            .iter()
            .map(|(_, slice)| slice.spec.pool.name.as_str())
            .collect();
        for (key, slice) in self.slices.iter() {
            let pool = &slice.spec.pool;
            if !counted.contains(pool.name.as_str()) {
                let words = format!(
                    "pool {} has fewer than the {} slices of its generation {}",
                    pool.name, pool.resource_slice_count, pool.generation
                );
                push(out, FindingKind::PoolIncomplete, &key.to_string(), words);
            }
        }
        for (device, claims) in self.allocated() {
            let id = (&*device.driver, &*device.pool, &*device.device);
            let known = offered.get(&id);
            let names: Vec<String> = claims.iter().map(Key::to_string).collect();
            let shared = known.is_some_and(|device| device.allow_multiple_allocations);
            if claims.len() > 1 && !shared {
                let words = format!("claims {} hold it", names.join(", "));
                push(
                    out,
                    FindingKind::DeviceHeldTwice,
                    &device.to_string(),
                    words,
                );
            }
            if known.is_none() {
                let words = format!("{} holds it, and no driver offers it", names.join(", "));
                push(out, FindingKind::DeviceUnknown, &device.to_string(), words);
            }
        }
        for (name, gpus) in self.device_gpus() {
            let plugged = self.node(&name).map_or(0, |node| node.gpus());
            if plugged > 0 && !gpus.is_empty() {
                let words = format!(
                    "a device plugin offers {plugged} GPUs, and a driver of dynamic allocation {}; they may be the same",
                    gpus.len()
                );
                push(out, FindingKind::OfferedTwice, &name, words);
            }
        }
    }
}

fn push(out: &mut Vec<Finding>, what: FindingKind, about: &str, says: String) {
    out.push(Finding {
        what,
        about: about.to_owned(),
        says,
    });
}

fn said(out: &mut Vec<Finding>, what: FindingKind, about: &str, all: &[String]) {
    for words in all {
        push(out, what, about, words.clone());
    }
}
