//! `scontrol show node --json`: processors, memory, generic resources, state.

use super::{FoundGpu, FoundNode, FoundSlice};
use crate::fleet::text::Found;
use gpuwise_domain::placement::Health;
use serde_json::Value;

/// GPUs of a node at most.
const MOST: usize = 1024;

pub(super) fn read(nodes: &[Value]) -> Found<Vec<FoundNode>> {
    if nodes.is_empty() {
        return Err("it lists no node".into());
    }
    nodes
        .iter()
        .enumerate()
        .map(|(at, value)| node(value).map_err(|problem| format!("nodes[{at}]: {problem}")))
        .collect()
}

fn node(value: &Value) -> Found<FoundNode> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let name = text("name").or_else(|| text("hostname"));
    let mut out = FoundNode {
        name: name.ok_or("name is missing")?.into(),
        cpu_milli: number(value, "cpus").map(|cpus| cpus.saturating_mul(1000)),
        memory_mib: number(value, "real_memory"),
        health: Some(health(value)),
        features: features(value),
        ..FoundNode::default()
    };
    for resource in split(text("gres").unwrap_or("")) {
        gpus(resource, &mut out)?;
    }
    let used = text("gres_used").unwrap_or("");
    if split(used)
        .iter()
        .any(|one| counted(one).is_some_and(|(_, count)| count > 0))
    {
        out.notes
            .push(format!("in use: {used}; by which jobs is not said"));
    }
    Ok(out)
}

/// Features that it has now; those that it could have where nothing is said of that. Older releases join them.
fn features(value: &Value) -> Vec<String> {
    let said = |key| value.get(key).filter(|said| !said.is_null());
    let all: Vec<&str> = match said("active_features").or_else(|| said("features")) {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(all)) => all.split(',').collect(),
        _ => Vec::new(),
    };
    let all = all.into_iter().map(str::trim).filter(|one| !one.is_empty());
    all.map(str::to_owned).collect()
}

/// A number, or what newer versions write: `{ "set": true, "number": 64 }`.
fn number(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    value.as_u64().or_else(|| {
        let set = value.get("set").and_then(Value::as_bool) == Some(true);
        set.then(|| value.get("number").and_then(Value::as_u64))
            .flatten()
    })
}

/// Commas within brackets do not separate: `gpu:h100:8(S:0,1),shard:32`.
fn split(gres: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    gres.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

/// Type and count of `gpu:h100:8(S:0-1)` or `gpu:8`; `None` for other resources.
fn counted(resource: &str) -> Option<(Option<&str>, usize)> {
    let bare = resource.split('(').next().unwrap_or("").trim();
    let mut words = bare.split(':');
    if words.next() != Some("gpu") {
        return None;
    }
    let rest: Vec<&str> = words.collect();
    match rest.as_slice() {
        [] => Some((None, 1)),
        [one] => match one.parse() {
            Ok(count) => Some((None, count)),
            Err(_) => Some((Some(*one), 1)),
        },
        [kind, count, ..] => Some((Some(*kind), count.parse().ok()?)),
    }
}

fn gpus(resource: &str, out: &mut FoundNode) -> Found<()> {
    let Some((kind, count)) = counted(resource) else {
        return Ok(());
    };
    if count > MOST {
        return Err(format!("gres {resource:?}: no node has so many GPUs"));
    }
    // Slurm takes MIG instances as GPUs whose type ends in the profile.
    let (product, profile) = match kind.and_then(|kind| kind.rsplit_once('_')) {
        Some((board, last)) if is_profile(last) => (Some(board), Some(last)),
        _ => (kind, None),
    };
    let product = product.map(|product| product.replace('_', " "));
    let Some(profile) = profile else {
        let gpu = FoundGpu {
            product,
            ..FoundGpu::default()
        };
        out.gpus.extend((0..count).map(|_| gpu.clone()));
        return Ok(());
    };
    out.notes.push(format!(
        "{count} × {profile} are on GPUs that scontrol does not number; taken as on one"
    ));
    let slice = FoundSlice {
        profile: Some(profile.into()),
        ..FoundSlice::default()
    };
    let slices = (0..count.min(15)).map(|_| slice.clone());
    let shared = out
        .gpus
        .iter_mut()
        .find(|gpu| gpu.mig.is_some() && gpu.product == product);
    match shared.and_then(|gpu| gpu.mig.as_mut()) {
        Some(there) => there.extend(slices),
        None => out.gpus.push(FoundGpu {
            product,
            mig: Some(slices.collect()),
            ..FoundGpu::default()
        }),
    }
    Ok(())
}

fn is_profile(word: &str) -> bool {
    word.split_once("g.")
        .is_some_and(|(slices, memory)| slices.parse::<u8>().is_ok() && memory.contains("gb"))
}

fn health(value: &Value) -> Health {
    let words: Vec<String> = match value.get("state") {
        Some(Value::String(text)) => text.split(['+', ' ']).map(str::to_uppercase).collect(),
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|one| one.as_str().map(str::to_uppercase))
            .collect(),
        _ => Vec::new(),
    };
    let any = |states: &[&str]| {
        let is = |word: &String| states.contains(&word.trim_end_matches(['*', '~', '#', '$']));
        words.iter().any(is)
    };
    if any(&[
        "DOWN",
        "NOT_RESPONDING",
        "FAIL",
        "ERROR",
        "POWERED_DOWN",
        "UNKNOWN",
        "FUTURE",
    ]) {
        Health::Lost { xid: 0 }
    } else if any(&["MAINTENANCE", "MAINT"]) {
        Health::Maintenance
    } else if any(&["DRAIN", "DRAINING", "DRAINED"]) {
        Health::Draining
    } else {
        Health::Up
    }
}
