//! A node: what it offers, what it is labelled with, whether pods may come.

use super::{Text, text::Names};
use crate::objects;
use gpuwise_read::fleet::{FoundNode, NodeSaid, kubernetes_node};
use std::collections::BTreeMap;

/// Labels by which clouds and cluster makers tell node pools apart.
const POOLS: [&str; 9] = [
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "oci.oraclecloud.com/oke-node-pool-name",
    "doks.digitalocean.com/node-pool",
    "node.cluster.x-k8s.io/pool",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: Text,
    pub uid: Text,
    pub labels: BTreeMap<Text, Text>,
    pub taints: Box<[objects::Taint]>,
    /// Its condition `Ready`; `None`: it has none.
    pub ready: Option<bool>,
    pub unschedulable: bool,
    /// Thousandths of a core that pods may have.
    pub cpu_milli: Option<u64>,
    /// Bytes that pods may have.
    pub memory: Option<u64>,
    /// How many pods may be on it.
    pub pods: Option<u64>,
    /// Extended resources that pods may have, such as `nvidia.com/gpu`.
    pub extended: BTreeMap<Text, u64>,
    /// The same as far as the node has them, healthy or not.
    pub capacity: BTreeMap<Text, u64>,
    /// What it is said to suffer from beside being ready or not: conditions of GPUs that hold, with their words.
    pub ailments: Box<[String]>,
    /// Its GPUs as a fleet file takes them; `None`: `problems` says why not.
    pub found: Option<FoundNode>,
    /// What of it cannot be read, a sentence each.
    pub problems: Box<[String]>,
}

impl Node {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(AsRef::as_ref)
    }

    /// The node pool that it is of, by the labels of clouds.
    pub fn pool(&self) -> Option<&str> {
        POOLS.iter().find_map(|key| self.label(key))
    }

    /// How many GPUs it has; under time slicing and MIG fewer than its resources count.
    pub fn gpus(&self) -> usize {
        self.found.as_ref().map_or(0, |found| found.gpus.len())
    }

    /// The product of its GPUs as the node calls it.
    pub fn product(&self) -> Option<&str> {
        self.found.as_ref()?.gpus.first()?.product.as_deref()
    }

    /// What its GPUs are suspected of: fewer may be allocated than there are, fewer are there than the node is
    /// labelled with, or a monitor says so.
    pub fn suspicions(&self) -> Vec<String> {
        let mut out = self.ailments.to_vec();
        for (resource, all) in &self.capacity {
            let offered = self.extended.get(resource).copied().unwrap_or(0);
            if resource.contains("gpu") && offered < *all {
                out.push(format!("{offered} of {all} {resource} may be allocated"));
            }
        }
        let labelled = self.label("nvidia.com/gpu.count");
        let labelled = labelled.and_then(|text| text.parse::<u64>().ok());
        let offered = ["nvidia.com/gpu", "nvidia.com/gpu.shared"]
            .iter()
            .find_map(|key| self.capacity.get(*key).copied());
        if let (Some(labelled), Some(offered)) = (labelled, offered) {
            let expected = labelled.saturating_mul(self.replicas());
            let mixed = self.label("nvidia.com/mig.strategy") == Some("mixed");
            if offered < expected && !mixed {
                out.push(format!(
                    "its device plugin offers {offered} GPUs of the {expected} that it is labelled with"
                ));
            }
        }
        out
    }

    /// How often each of its GPUs is offered: more than once under time slicing or MPS.
    pub fn replicas(&self) -> u64 {
        let said = self.label("nvidia.com/gpu.replicas");
        said.and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
    }

    /// Whether new pods may come, as far as the node itself says.
    pub fn open(&self) -> bool {
        !self.unschedulable && self.ready != Some(false)
    }

    pub(super) fn read(object: &objects::Node, names: &mut Names) -> Self {
        let meta = &object.metadata;
        let name = meta.name.as_deref().unwrap_or_default();
        let labels = meta.labels.iter().flatten();
        let mut problems = Vec::new();
        let status = &object.status;
        let amount = |key: &str, read: Read, problems: &mut Vec<String>| {
            let text = status.allocatable.get(key)?;
            read(text)
                .map_err(|why| problems.push(format!("allocatable {key} is {text:?}: {why}")))
                .ok()
        };
        let cpu_milli = amount("cpu", objects::milli, &mut problems);
        let memory = amount("memory", objects::whole, &mut problems);
        let pods = amount("pods", objects::whole, &mut problems);
        let extended = extended(&status.allocatable, "allocatable", names, &mut problems);
        let capacity = self::extended(&status.capacity, "capacity", names, &mut problems);
        let ready = status.conditions.iter().find(|one| one.kind == "Ready");
        let found = kubernetes_node(&said(object));
        let found = found.map_err(|why| problems.push(why)).ok();
        Self {
            name: names.text(name),
            uid: names.text(meta.uid.as_deref().unwrap_or_default()),
            labels: labels
                .map(|(key, value)| (names.text(key), names.text(value)))
                .collect(),
            taints: object.spec.taints.clone().into(),
            ready: ready.map(|one| one.status == "True"),
            unschedulable: object.spec.unschedulable,
            cpu_milli,
            memory,
            pods,
            extended,
            capacity,
            ailments: ailments(&status.conditions),
            found,
            problems: problems.into(),
        }
    }
}

/// Conditions of GPUs that hold, by the names that node-problem-detector and vendors' monitors give them.
fn ailments(conditions: &[objects::Condition]) -> Box<[String]> {
    const ABOUT: [&str; 5] = ["gpu", "xid", "ecc", "nvlink", "nvswitch"];
    let of_gpus = conditions.iter().filter(|one| {
        let name = one.kind.to_ascii_lowercase();
        // `GpuHealthy: True` is no ailment.
        let good = ["healthy", "ready", "ok"]
            .iter()
            .any(|end| name.ends_with(end));
        one.status == "True" && !good && ABOUT.iter().any(|part| name.contains(part))
    });
    of_gpus
        .map(|one| {
            let words = one.reason.as_deref().or(one.message.as_deref());
            words.map_or_else(
                || one.kind.clone(),
                |words| format!("{}: {words}", one.kind),
            )
        })
        .collect()
}

type Read = fn(&str) -> Result<u64, objects::QuantityError>;

/// Whether a resource is one that a vendor adds: it has a domain that is not Kubernetes' own.
pub(super) fn is_extended(key: &str) -> bool {
    key.split_once('/')
        .is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

fn extended(
    from: &BTreeMap<String, String>,
    place: &str,
    names: &mut Names,
    problems: &mut Vec<String>,
) -> BTreeMap<Text, u64> {
    let mut out = BTreeMap::new();
    for (key, text) in from.iter().filter(|(key, _)| is_extended(key)) {
        match objects::whole(text) {
            Ok(count) => {
                out.insert(names.text(key), count);
            }
            Err(why) => problems.push(format!("{place} {key} is {text:?}: {why}")),
        }
    }
    out
}

fn said(object: &objects::Node) -> NodeSaid<'_> {
    let status = &object.status;
    let ready = status.conditions.iter().find(|one| one.kind == "Ready");
    NodeSaid {
        name: object.metadata.name.as_deref().unwrap_or_default(),
        labels: object
            .metadata
            .labels
            .as_ref()
            .map(pairs)
            .unwrap_or_default(),
        capacity: pairs(&status.capacity),
        allocatable: pairs(&status.allocatable),
        ready: ready.map(|one| one.status == "True"),
        unschedulable: object.spec.unschedulable,
    }
}

fn pairs(from: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    from.iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}
