//! What the service says of every GPU and host of the fleet.

use super::errand::{is_named, last};
use crate::redfish::{Block, Client, State, System, Trouble};
use gpuwise_broker::{GpuSeen, Observation};
use gpuwise_domain::placement::resource_block_uid;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Where each GPU is.
    pub(super) gpus: Vec<Observation>,
    /// Hosts by their blocks, and whether they can be composed by us.
    pub(super) hosts: BTreeMap<String, bool>,
}

/// Where each GPU is, and which hosts are ours to compose. What is `busy` is being composed, and its hosts' GPUs are
/// not judged.
pub(super) fn look(
    client: &Client,
    hosts: &BTreeMap<String, String>,
    gpus: &BTreeSet<String>,
    busy: &BTreeSet<&str>,
) -> Result<Looked, Trouble> {
    let mut looked = Looked::default();
    if gpus.is_empty() {
        return Ok(looked);
    }
    let places = client.places()?;
    let blocks = client.blocks(&places)?;
    let known: BTreeMap<&str, &Block> = blocks.iter().map(|one| (last(&one.path), one)).collect();
    // Systems by their paths: the node whose it is, or none of ours.
    let mut owners: BTreeMap<&str, Owner> = BTreeMap::new();
    for id in hosts
        .keys()
        .chain(gpus)
        .filter(|id| !busy.contains(id.as_str()))
    {
        let block = known.get(id.as_str()).copied();
        let seen = match block.map(|block| (block.state(), block.system())) {
            None => Some(GpuSeen::Missing),
            Some((State::Failed, _)) => Some(GpuSeen::Failed),
            Some((State::Reserved, _)) => Some(GpuSeen::Taken),
            Some((State::Unused, _)) => Some(GpuSeen::Free),
            Some((State::Moving, _) | (State::Composed, None)) => None,
            Some((State::Composed, Some(path))) => {
                if !owners.contains_key(path) {
                    owners.insert(path, owner(client, path, hosts)?);
                }
                owners.get(path).and_then(|owner| owner.seen(busy))
            }
        };
        let Some(seen) = seen else { continue };
        if hosts.contains_key(id) {
            let ours = matches!(seen, GpuSeen::Free | GpuSeen::At(_));
            looked.hosts.insert(id.clone(), ours);
        } else {
            let uid = resource_block_uid(id);
            looked.gpus.push(Observation::Gpu { uid, seen });
        }
    }
    Ok(looked)
}

/// Whose a system is.
enum Owner {
    /// A host of ours, by its block and the name of its node.
    Ours(String, String),
    Another,
    /// It has gone meanwhile.
    Gone,
}

impl Owner {
    fn seen(&self, busy: &BTreeSet<&str>) -> Option<GpuSeen> {
        match self {
            Self::Ours(block, _) if busy.contains(block.as_str()) => None,
            Self::Ours(_, node) => Some(GpuSeen::At(node.clone())),
            Self::Another => Some(GpuSeen::Taken),
            Self::Gone => None,
        }
    }
}

fn owner(client: &Client, path: &str, hosts: &BTreeMap<String, String>) -> Result<Owner, Trouble> {
    let system: System = match client.get(path) {
        Err(Trouble::Missing(_)) => return Ok(Owner::Gone),
        other => other?,
    };
    let ours = system
        .blocks()
        .find_map(|block| hosts.get_key_value(last(block)));
    Ok(match ours.filter(|(_, name)| is_named(&system, name)) {
        Some((block, name)) => Owner::Ours(block.clone(), name.clone()),
        None => Owner::Another,
    })
}
