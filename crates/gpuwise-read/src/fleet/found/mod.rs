//! Nodes as tools of the field say them: `nvidia-smi -q -x` and `topo -m`, Kubernetes nodes, Slurm
//! nodes; and a fleet file of them, for people to complete.

mod cut;
mod fabric;
mod jobs;
mod kubernetes;
mod racks;
mod slurm;
mod smi;
mod topology;
mod write;

use super::text::Found;
use gpuwise_domain::placement::Health;

pub use fabric::{FoundBlock, FoundFabric, FoundPooled, fabric_fleet_file};
pub use jobs::{FoundAsk, FoundJob, FoundPlace, job_file};
pub use kubernetes::{NodeSaid, kubernetes_node};
pub use write::fleet_file;

/// A node as far as tools have said it; what they did not say is `None` or empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundNode {
    pub name: String,
    /// Processor time in thousandths of a core.
    pub cpu_milli: Option<u64>,
    pub memory_mib: Option<u64>,
    /// Its GPUs, in the driver's order.
    pub gpus: Vec<FoundGpu>,
    pub rack: Option<String>,
    pub block: Option<String>,
    pub zone: Option<String>,
    /// The island of NVLink beyond the node that it is in.
    pub island: Option<String>,
    pub health: Option<Health>,
    /// What Slurm calls its features.
    pub features: Vec<String>,
    /// Whether it was said which GPUs are joined by NVLink.
    pub links_said: bool,
    /// What was said and cannot be kept in a fleet file, a sentence each.
    pub notes: Vec<String>,
}

/// A GPU as far as tools have said it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundGpu {
    /// Its product as the tool calls it.
    pub product: Option<String>,
    /// The driver's UUID of it.
    pub uuid: Option<String>,
    pub memory_mib: Option<u32>,
    pub numa: Option<u32>,
    pub switch: Option<u32>,
    /// Rail: the number of the NIC that is nearest.
    pub rail: Option<u32>,
    /// The group of GPUs of the node that it is joined with by NVLink.
    pub group: Option<u32>,
    /// Its MIG instances; `None`: MIG is off, or nothing was said.
    pub mig: Option<Vec<FoundSlice>>,
}

/// A MIG instance as far as tools have said it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundSlice {
    pub profile: Option<String>,
    /// The memory slice at which it starts.
    pub start: Option<u8>,
    pub units: Option<u32>,
    pub memory_mib: Option<u32>,
}

/// What a tool's output cannot be read for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct FoundError {
    /// The file as the user knows it.
    pub file: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// Nodes of a tool's output, which is told by what is in it. `name` is that of the node where the
/// output names none (`nvidia-smi` does not).
///
/// # Errors
/// When it is none of the forms, or cannot be one.
pub fn read_found(file: &str, name: &str, text: &str) -> Result<Vec<FoundNode>, FoundError> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let found = if start.starts_with('<') && start.contains("nvidia_smi_log") {
        smi::read(name, start).map(|node| vec![node])
    } else if start.starts_with('{') {
        json(start)
    } else if start.contains("GPU0") && start.contains("Affinity") {
        topology::read(name, text).map(|node| vec![node])
    } else {
        Err("this is none of the forms that are read: nvidia-smi -q -x, nvidia-smi topo -m, kubectl get nodes -o json, scontrol show node --json".into())
    };
    found.map_err(|problem| FoundError {
        file: file.into(),
        problem,
    })
}

fn json(text: &str) -> Found<Vec<FoundNode>> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| crate::json_error::with_line(&error))?;
    if let Some(nodes) = value.get("nodes").and_then(|nodes| nodes.as_array()) {
        return slurm::read(nodes);
    }
    match value.get("items").and_then(|items| items.as_array()) {
        Some(items) => kubernetes::read(items),
        None if value.get("kind").is_some_and(|kind| kind == "Node") => kubernetes::read(&[value]),
        None => Err("this JSON has neither the `items` of kubectl get nodes -o json nor the `nodes` of scontrol show node --json".into()),
    }
}

/// What several outputs say of the same nodes, together; nodes in the order in which they first come.
///
/// Names are brought into the form of a fleet file: no braces or brackets, no spaces around them, nothing that does not
/// print.
///
/// # Errors
/// When two outputs give a node another number of GPUs, or a node has no name.
pub fn merge_found(found: Vec<FoundNode>) -> Result<Vec<FoundNode>, String> {
    let mut out: Vec<FoundNode> = Vec::new();
    let mut at: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for mut node in found {
        node.name = write::plain(&node.name);
        if node.name.is_empty() {
            return Err("a node has an empty name; expected the one that it is called by".into());
        }
        if let Some(known) = at.get(&node.name).and_then(|at| out.get_mut(*at)) {
            join(known, node)?;
        } else {
            at.insert(node.name.clone(), out.len());
            out.push(node);
        }
    }
    Ok(out)
}

/// Adds what another output says; what the first said stays.
fn join(known: &mut FoundNode, other: FoundNode) -> Result<(), String> {
    let (own, more) = (known.gpus.len(), other.gpus.len());
    if own > 0 && more > 0 && own != more {
        return Err(format!(
            "node {:?} has {own} GPUs in one output and {more} in another; are they of one machine?",
            known.name
        ));
    }
    known.cpu_milli = known.cpu_milli.or(other.cpu_milli);
    known.memory_mib = known.memory_mib.or(other.memory_mib);
    known.rack = known.rack.take().or(other.rack);
    known.block = known.block.take().or(other.block);
    known.zone = known.zone.take().or(other.zone);
    known.island = known.island.take().or(other.island);
    known.health = known.health.or(other.health);
    known.links_said |= other.links_said;
    known.features.extend(other.features);
    known.notes.extend(other.notes);
    if known.gpus.is_empty() {
        known.gpus = other.gpus;
        return Ok(());
    }
    for (gpu, said) in known.gpus.iter_mut().zip(other.gpus) {
        gpu.product = gpu.product.take().or(said.product);
        gpu.uuid = gpu.uuid.take().or(said.uuid);
        gpu.memory_mib = gpu.memory_mib.or(said.memory_mib);
        gpu.numa = gpu.numa.or(said.numa);
        gpu.switch = gpu.switch.or(said.switch);
        gpu.rail = gpu.rail.or(said.rail);
        gpu.group = gpu.group.or(said.group);
        gpu.mig = gpu.mig.take().or(said.mig);
    }
    Ok(())
}
