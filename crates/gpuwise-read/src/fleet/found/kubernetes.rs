//! `kubectl get nodes -o json`: what may be allocated, labels of NVIDIA's GPU feature discovery, where
//! the node is.

use super::{FoundGpu, FoundNode, FoundSlice};
use crate::fleet::text::Found;
use gpuwise_domain::placement::Health;
use gpuwise_units::Bytes;
use serde_json::Value;

/// GPUs of a node at most.
const MOST: u64 = 1024;
const RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];

pub(super) fn read(items: &[Value]) -> Found<Vec<FoundNode>> {
    let nodes = items
        .iter()
        .enumerate()
        .filter(|(_, item)| item.get("kind").is_none_or(|kind| kind == "Node"));
    let out: Vec<FoundNode> = nodes
        .map(|(at, item)| node(item).map_err(|problem| format!("items[{at}]: {problem}")))
        .collect::<Found<_>>()?;
    if out.is_empty() {
        return Err("no node is in it; expected the output of kubectl get nodes -o json".into());
    }
    Ok(out)
}

fn node(item: &Value) -> Found<FoundNode> {
    let text = |path: &str| item.pointer(path).and_then(Value::as_str);
    let name = text("/metadata/name").ok_or("metadata.name is missing")?;
    let label = |key: &str| {
        let labels = item.pointer("/metadata/labels");
        labels
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let amount = |place: &str, key: &str| {
        let all = item.pointer(place);
        all.and_then(|all| all.get(key)).and_then(Value::as_str)
    };
    let mut out = FoundNode {
        name: name.into(),
        ..FoundNode::default()
    };
    if let Some(cpu) = amount("/status/allocatable", "cpu") {
        out.cpu_milli = Some(cores(cpu).ok_or_else(|| format!("cpu is {cpu:?}"))?);
    }
    if let Some(memory) = amount("/status/allocatable", "memory") {
        out.memory_mib = Some(bytes(memory).ok_or_else(|| format!("memory is {memory:?}"))? >> 20);
    }
    out.zone = label("topology.kubernetes.io/zone").map(Into::into);
    out.rack = labelled(item, "rack");
    out.block = labelled(item, "block");
    out.island = label("nvidia.com/gpu.clique").map(Into::into);
    out.health = Some(health(item));
    gpus(item, &mut out, &label, &amount);
    Ok(out)
}

type Label<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;
type Amount<'a> = dyn Fn(&str, &str) -> Option<&'a str> + 'a;

fn gpus<'a>(item: &'a Value, out: &mut FoundNode, label: &Label<'a>, amount: &Amount<'a>) {
    let count = |place: &str| {
        let mut all = RESOURCES.iter();
        all.find_map(|key| amount(place, key)?.parse::<u64>().ok())
    };
    let offered = count("/status/allocatable");
    let labelled = label("nvidia.com/gpu.count").and_then(|text| text.parse::<u64>().ok());
    // Under time slicing a GPU is offered several times; the label counts boards.
    let replicas = label("nvidia.com/gpu.replicas").and_then(|text| text.parse::<u64>().ok());
    let replicas = replicas.unwrap_or(1).max(1);
    let boards = labelled.or(offered.map(|offered| offered / replicas));
    let boards = boards.unwrap_or(0).min(MOST);
    if replicas > 1 {
        out.notes.push(format!(
            "each GPU is offered {replicas} times by time slicing"
        ));
    }
    if let (Some(all), Some(offered)) = (count("/status/capacity"), offered)
        && offered < all
    {
        let lost = all - offered;
        out.notes.push(format!(
            "{lost} of {all} GPUs are not healthy; which is not said"
        ));
    }
    let product = label("nvidia.com/gpu.product").map(plain);
    let memory = label("nvidia.com/gpu.memory").and_then(|text| text.parse().ok());
    out.gpus = (0..boards)
        .map(|_| FoundGpu {
            product: product.clone(),
            memory_mib: memory,
            ..FoundGpu::default()
        })
        .collect();
    let slices = slices(item);
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
fn slices(item: &Value) -> Vec<(String, u64)> {
    let all = item
        .pointer("/status/allocatable")
        .and_then(Value::as_object);
    let mut out: Vec<(String, u64)> = all
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let profile = key.strip_prefix("nvidia.com/mig-")?;
            let count: u64 = value.as_str()?.parse().ok()?;
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
fn labelled(item: &Value, word: &str) -> Option<String> {
    let labels = item.pointer("/metadata/labels")?.as_object()?;
    let is = |key: &str| key.rsplit(['/', '-', '.']).next() == Some(word);
    let found = labels.iter().find(|(key, _)| is(key));
    found.and_then(|(_, value)| value.as_str()).map(Into::into)
}

fn health(item: &Value) -> Health {
    let conditions = item.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one.get("type").is_some_and(|kind| kind == "Ready"));
    if ready.is_some_and(|one| one.get("status").is_some_and(|status| status != "True")) {
        return Health::Lost { xid: 0 };
    }
    let cordoned = item.pointer("/spec/unschedulable").and_then(Value::as_bool);
    if cordoned == Some(true) {
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
