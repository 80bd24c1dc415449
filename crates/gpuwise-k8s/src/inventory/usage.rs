//! Who holds GPUs and who asks for them, node by node and workload by workload.

use super::{Inventory, Node, Pod, Workload};
use crate::steer::{WARM, is_accelerator};
use std::collections::{BTreeMap, BTreeSet};

/// What a node has of one kind of GPU, or of parts of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUsage {
    pub node: String,
    pub product: Option<String>,
    /// A resource such as `nvidia.com/gpu`, or the class by which a driver of Dynamic Resource Allocation is asked.
    pub what: String,
    pub has: u64,
    /// By pods; more than it has where it lost some.
    pub held: u64,
    /// Whether it is ready, and not cordoned.
    pub open: bool,
}

/// What a workload holds of one kind of GPU, and waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadUsage {
    pub workload: Workload,
    pub what: String,
    pub pods: u64,
    pub held: u64,
    /// What of that is held by pods that are kept warm for a GpuWorkload.
    pub warm: u64,
    /// By pods that have no node.
    pub waits: u64,
    /// What is held costs an hour, in millionths; `None`: some of it has no price, or is a part of a GPU.
    pub per_hour: Option<i64>,
}

/// Devices of Dynamic Resource Allocation, as the label of a line.
const DEVICES: &str = "devices";

impl Inventory {
    /// Each node that has GPUs, and what of them is held, by name.
    pub fn node_usage(&self) -> Vec<NodeUsage> {
        let devices = self.device_gpus();
        let allocated = self.allocated();
        let mut out = Vec::new();
        for node in self.nodes.values() {
            let held = self.held(&node.name);
            let of = |what: &str| held.map_or(0, |held| u64::try_from(held.of(what)).unwrap_or(0));
            let names = node.extended.keys().map(|name| &**name);
            let more = held.into_iter().flat_map(|held| held.extended.keys());
            let all: BTreeSet<&str> = names.chain(more.map(|name| &**name)).collect();
            let line = |what: &str, has: u64, held: u64| NodeUsage {
                node: node.name.to_string(),
                product: product(node),
                what: what.to_owned(),
                has,
                held,
                open: node.open(),
            };
            for what in all.into_iter().filter(|name| is_accelerator(name)) {
                let has = node.extended.get(what).copied().unwrap_or(0);
                if has > 0 || of(what) > 0 {
                    out.push(line(what, has, of(what)));
                }
            }
            if let Some(gpus) = devices.get(&node.name) {
                let is_held = |gpu: &&super::DeviceGpu| {
                    let parts = gpu.parts.iter().map(|(id, _)| id);
                    let mut all = gpu.whole.iter().chain(parts);
                    all.any(|id| allocated.contains_key(id))
                };
                let held = gpus.iter().filter(is_held).count();
                let mut line = line(DEVICES, gpus.len() as u64, held as u64);
                let product = gpus.iter().find_map(|gpu| gpu.product.clone());
                line.product = line.product.or(product);
                out.push(line);
            }
        }
        out
    }

    /// Each workload that holds GPUs or waits for some, by namespace and name; `prices` of an hour in millionths, by
    /// product as nodes are labelled with it.
    pub fn workload_usage(&self, prices: &BTreeMap<String, i64>) -> Vec<WorkloadUsage> {
        let mut all: BTreeMap<(Workload, String), WorkloadUsage> = BTreeMap::new();
        let pods = self.pods.values().filter(|pod| !pod.phase.ended());
        for pod in pods {
            let product = pod.node.as_ref().and_then(|node| product(self.node(node)?));
            let price = product.and_then(|product| prices.get(&product).copied());
            for (what, count) in self.asked_of(pod) {
                let workload = self.workload(pod);
                let key = (workload.clone(), what.clone());
                let line = all.entry(key).or_insert_with(|| WorkloadUsage {
                    workload,
                    what: what.clone(),
                    pods: 0,
                    held: 0,
                    warm: 0,
                    waits: 0,
                    per_hour: Some(0),
                });
                line.pods += 1;
                if !pod.holds() {
                    line.waits = line.waits.saturating_add(count);
                    continue;
                }
                line.held = line.held.saturating_add(count);
                if pod.label(WARM).is_some() {
                    line.warm = line.warm.saturating_add(count);
                }
                let whole = !what.contains("/mig-") && what != DEVICES;
                let count = i64::try_from(count).ok().filter(|_| whole);
                let each = price.zip(count).and_then(|(price, n)| price.checked_mul(n));
                line.per_hour = line
                    .per_hour
                    .zip(each)
                    .and_then(|(all, one)| all.checked_add(one));
            }
        }
        all.into_values().collect()
    }

    /// What a pod asks, by resource; devices that claims ask without a number count as one.
    fn asked_of(&self, pod: &Pod) -> Vec<(String, u64)> {
        let counted = pod.shape.asks.extended.iter();
        let counted = counted.filter(|(name, count)| is_accelerator(name) && *count > 0);
        let mut out: Vec<(String, u64)> = counted
            .map(|(name, count)| (name.to_string(), *count))
            .collect();
        let devices = self.gpus_asked(pod).devices;
        if !devices.is_empty() {
            let counts = devices.iter().map(|one| one.count.unwrap_or(1));
            out.push((DEVICES.to_owned(), counts.fold(0, u64::saturating_add)));
        }
        out
    }
}

fn product(node: &Node) -> Option<String> {
    node.label(crate::steer::PRODUCT).map(str::to_owned)
}
