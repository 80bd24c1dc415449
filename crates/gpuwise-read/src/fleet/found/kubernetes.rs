//! A node as Kubernetes has it (`kubectl get nodes -o json`, or a watch): what may be allocated, labels
//! of NVIDIA's GPU feature discovery, where the node is.

use super::{FoundGpu, FoundNode, FoundSlice};
use crate::fleet::text::Found;
use gpuwise_domain::placement::Health;
use gpuwise_units::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;

/// GPUs of a node at most.
const MOST: u64 = 1024;
/// What whole GPUs are asked by; the second where a device plugin renames what it shares.
const RESOURCES: [&str; 4] = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
];
/// Labels that name the product, of which the first that is there counts: GPU feature discovery, AMD's
/// node labeller, and what clouds write without these.
const PRODUCTS: [&str; 5] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
];

/// What a node's object says, whoever read it.
#[derive(Debug, Clone, Default)]
pub struct NodeSaid<'a> {
    pub name: &'a str,
    pub labels: BTreeMap<&'a str, &'a str>,
    pub capacity: BTreeMap<&'a str, &'a str>,
    pub allocatable: BTreeMap<&'a str, &'a str>,
    /// Its condition `Ready`; `None`: it has none.
    pub ready: Option<bool>,
    pub unschedulable: bool,
}

pub(super) fn read(items: &[Value]) -> Found<Vec<FoundNode>> {
    let nodes = items
        .iter()
        .enumerate()
        .filter(|(_, item)| item.get("kind").is_none_or(|kind| kind == "Node"));
    let out: Vec<FoundNode> = nodes
        .map(|(at, item)| {
            said(item)
                .and_then(|said| kubernetes_node(&said))
                .map_err(|problem| format!("items[{at}]: {problem}"))
        })
        .collect::<Found<_>>()?;
    if out.is_empty() {
        return Err("no node is in it; expected the output of kubectl get nodes -o json".into());
    }
    Ok(out)
}

fn said(item: &Value) -> Found<NodeSaid<'_>> {
    let name = item.pointer("/metadata/name").and_then(Value::as_str);
    let texts = |path: &str| -> BTreeMap<&str, &str> {
        let all = item.pointer(path).and_then(Value::as_object);
        let each = all.into_iter().flatten();
        each.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            .collect()
    };
    let conditions = item.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one.get("type").is_some_and(|kind| kind == "Ready"))
        .and_then(|one| one.get("status"))
        .map(|status| status == "True");
    let cordoned = item.pointer("/spec/unschedulable").and_then(Value::as_bool);
    Ok(NodeSaid {
        name: name.ok_or("metadata.name is missing")?,
        labels: texts("/metadata/labels"),
        capacity: texts("/status/capacity"),
        allocatable: texts("/status/allocatable"),
        ready,
        unschedulable: cordoned == Some(true),
    })
}

/// The node as a fleet file takes it.
///
/// # Errors
/// When its processors or memory are no quantities.
pub fn kubernetes_node(said: &NodeSaid<'_>) -> Result<FoundNode, String> {
    let label = |key: &str| said.labels.get(key).map(|value| (*value).to_owned());
    let mut out = FoundNode {
        name: said.name.into(),
        ..FoundNode::default()
    };
    if let Some(cpu) = said.allocatable.get("cpu") {
        out.cpu_milli = Some(cores(cpu).ok_or_else(|| format!("cpu is {cpu:?}"))?);
    }
    if let Some(memory) = said.allocatable.get("memory") {
        out.memory_mib = Some(bytes(memory).ok_or_else(|| format!("memory is {memory:?}"))? >> 20);
    }
    out.zone = label("topology.kubernetes.io/zone");
    out.rack = labelled(said, "rack");
    out.block = labelled(said, "block");
    out.island = label("nvidia.com/gpu.clique");
    out.health = Some(health(said));
    gpus(said, &mut out);
    Ok(out)
}

fn gpus(said: &NodeSaid<'_>, out: &mut FoundNode) {
    let label = |key: &str| said.labels.get(key).copied();
    let count = |place: &BTreeMap<&str, &str>| {
        let mut all = RESOURCES.iter();
        all.find_map(|key| place.get(key)?.parse::<u64>().ok())
    };
    let offered = count(&said.allocatable);
    let labelled = label("nvidia.com/gpu.count").and_then(|text| text.parse::<u64>().ok());
    // Under time slicing a GPU is offered several times; the label counts boards.
    let replicas = label("nvidia.com/gpu.replicas").and_then(|text| text.parse::<u64>().ok());
    let replicas = replicas.unwrap_or(1).max(1);
    let boards = labelled.or(offered.map(|offered| offered / replicas));
    let boards = boards.unwrap_or(0).min(MOST);
    if replicas > 1 {
        let means = match label("nvidia.com/gpu.sharing-strategy") {
            Some("mps") => "MPS",
            _ => "time slicing",
        };
        out.notes
            .push(format!("each GPU is offered {replicas} times by {means}"));
    }
    if let (Some(all), Some(offered)) = (count(&said.capacity), offered)
        && offered < all
    {
        let lost = all - offered;
        out.notes.push(format!(
            "{lost} of {all} GPUs are not healthy; which is not said"
        ));
    }
    let product = PRODUCTS.iter().find_map(|key| label(key));
    let memory = label("nvidia.com/gpu.memory").and_then(|text| text.parse().ok());
    let instances = product.and_then(|product| product.split_once("-MIG-"));
    if let Some((product, profile)) = instances.filter(|_| slices(said).is_empty()) {
        return alike(out, &plain(product), profile, boards);
    }
    let product = product.map(plain);
    out.gpus = (0..boards)
        .map(|_| FoundGpu {
            product: product.clone(),
            memory_mib: memory,
            ..FoundGpu::default()
        })
        .collect();
    mixed(said, out, boards);
}

/// GPUs under MIG's strategy `single`: product, count and memory are those of instances, all of one profile,
/// and how many boards there are is not said.
fn alike(out: &mut FoundNode, product: &str, profile: &str, instances: u64) {
    let profile = profile.strip_suffix("-SHARED").unwrap_or(profile);
    let profile = profile.replace(".me", "+me");
    // A board has seven compute slices on all products that have MIG.
    let compute = profile.split('g').next().and_then(|text| text.parse().ok());
    let each = (7 / compute.unwrap_or(7_u64).clamp(1, 7)).max(1);
    let boards = instances.div_ceil(each);
    out.notes.push(format!(
        "nvidia.com/gpu are {instances} MIG instances {profile}; taken as {boards} GPUs with up to {each} each, \
         as how many GPUs there are is not said"
    ));
    let mut left = instances;
    out.gpus = (0..boards)
        .map(|_| {
            let here = left.min(each);
            left -= here;
            let slice = FoundSlice {
                profile: Some(profile.clone()),
                ..FoundSlice::default()
            };
            FoundGpu {
                product: Some(product.to_owned()),
                mig: Some((0..here).map(|_| slice.clone()).collect()),
                ..FoundGpu::default()
            }
        })
        .collect();
}

/// Instances under MIG's strategy `mixed`, each profile a resource of its own.
fn mixed(said: &NodeSaid<'_>, out: &mut FoundNode, boards: u64) {
    let slices = slices(said);
    // Counts are as somebody wrote them; a sum that wrapped round would look like a few.
    let total = slices
        .iter()
        .fold(0_u64, |total, (_, count)| total.saturating_add(*count));
    if total == 0 || boards == 0 {
        return;
    }
    if slices.iter().any(|(_, count)| count % boards != 0) || total / boards > 15 {
        out.notes.push(format!(
            "it has MIG instances ({}); on which GPU each is, is not said",
            slices
                .iter()
                .map(|(profile, count)| format!("{count} × {profile}"))
                .collect::<Vec<_>>()
                .join(", ")
        ));
        return;
    }
    let each: Vec<FoundSlice> = slices
        .iter()
        .flat_map(|(profile, count)| {
            (0..count / boards).map(|_| FoundSlice {
                profile: Some(profile.clone()),
                ..FoundSlice::default()
            })
        })
        .collect();
    out.notes.push("MIG instances are taken as alike on every GPU; at which memory slices they are is not said".into());
    for gpu in &mut out.gpus {
        gpu.mig = Some(each.clone());
    }
}

/// Profiles of MIG resources (`nvidia.com/mig-1g.5gb`, a plus being written as a dot) and how many.
fn slices(said: &NodeSaid<'_>) -> Vec<(String, u64)> {
    let mut out: Vec<(String, u64)> = said
        .allocatable
        .iter()
        .filter_map(|(key, value)| {
            let profile = key.strip_prefix("nvidia.com/mig-")?;
            let count: u64 = value.parse().ok()?;
            (count > 0).then(|| (profile.replace(".me", "+me"), count))
        })
        .collect();
    out.sort();
    out
}

/// `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb` and `…-SHARED` are the product without what follows.
fn plain(product: &str) -> String {
    let bare = product.split("-MIG-").next().unwrap_or(product);
    bare.strip_suffix("-SHARED")
        .unwrap_or(bare)
        .replace('-', " ")
}

/// The value of a label whose last word is this: `topology.kubernetes.io/rack`,
/// `cloud.example.com/topology-rack`.
fn labelled(said: &NodeSaid<'_>, word: &str) -> Option<String> {
    let is = |key: &str| key.rsplit(['/', '-', '.']).next() == Some(word);
    let found = said.labels.iter().find(|(key, _)| is(key));
    found.map(|(_, value)| (*value).to_owned())
}

fn health(said: &NodeSaid<'_>) -> Health {
    if said.ready == Some(false) {
        return Health::Lost { xid: 0 };
    }
    if said.unschedulable {
        return Health::Draining;
    }
    Health::Up
}

/// `127`, `127500m`.
fn cores(text: &str) -> Option<u64> {
    if let Some(milli) = text.strip_suffix('m') {
        return milli.parse().ok();
    }
    let cores: f64 = text.parse().ok()?;
    ((0.0..=1e6).contains(&cores)).then_some((cores * 1000.0 + 0.5) as u64)
}

/// `1056462096Ki`, `64Gi`, plain bytes.
fn bytes(text: &str) -> Option<u64> {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit {
        "" => "B".to_owned(),
        "k" => "kB".to_owned(),
        unit => format!("{unit}B"),
    };
    format!("{number}{unit}")
        .parse::<Bytes>()
        .ok()
        .map(Bytes::count)
}
