//! Nodes that are cut anew: which, how, and for whom; by the names of configurations that NVIDIA's MIG manager has.
//!
//! A node is cut as a whole, as the MIG manager does it: into instances of one profile (`all-1g.10gb`), or not at
//! all (`all-disabled`). What a cut is good for is tried: the decision is made as if the node were cut already.
//! Where devices come by Dynamic Resource Allocation nothing is cut here: its driver cuts what was allocated.

use super::{
    Node, Pod, Seen, Waits,
    leave::evictable,
    promised::goes,
    room::{Leaver, Leaves},
    rounds::decide,
};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The label by which the MIG manager is told how a node's GPUs are to be cut.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// The label by which it says how far it is: `pending`, `rebooting`, `success`, `failed`.
pub const MIG_STATE: &str = "nvidia.com/mig.config.state";
/// The taint of a node that is being cut; its value is how.
pub const CUTTING: &str = "gpuwise.dev/repartition";
/// GPUs that a node has, whatever they are cut into.
const COUNT: &str = "nvidia.com/gpu.count";
const STRATEGY: &str = "nvidia.com/mig.strategy";
const WHOLE: &str = "nvidia.com/gpu";
const DISABLED: &str = "all-disabled";

/// Nodes that are tried, of those that could be cut; each with every configuration that somebody waits for.
const TRIED: usize = 4;

/// Products whose GPUs can be cut: by profile, as resources spell it, how many of it one GPU has at most.
type Boards = BTreeMap<String, BTreeMap<String, u32>>;

/// A node that is to be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    pub node: String,
    pub config: String,
    /// Nobody with GPUs is on it: it can be cut at once.
    pub empty: bool,
    /// Who is to start there, by its place in [`Seen::pods`].
    pub pods: Vec<usize>,
    pub leavers: Vec<Leaver>,
    pub words: String,
}

/// What is to be done of a node that is being cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Nobody is on it any more: the MIG manager is told.
    Label(String),
    /// These are still to leave.
    Drain(Vec<usize>),
    /// It is cut, or could not be, or is not to be any more: pods may come again.
    Open { cut: bool },
    /// The MIG manager is at work, or pods are leaving.
    Waits,
}

pub(super) fn is_cut(node: &Node) -> bool {
    config_of(node).is_some()
}

pub(super) fn is_cut_named(seen: &Seen, name: &str) -> bool {
    let found = seen.nodes.iter().find(|node| node.name == name);
    found.is_some_and(|node| is_cut(node))
}

fn config_of(node: &Node) -> Option<&str> {
    let taint = node.taints.iter().find(|taint| taint.key == CUTTING)?;
    Some(&taint.value)
}

/// What a node that is being cut will give.
pub(super) fn expected(node: &Node, boards: &Boards) -> Option<(String, u32)> {
    gives(node, config_of(node)?, boards)
}

fn gives(node: &Node, config: &str, boards: &Boards) -> Option<(String, u32)> {
    let gpus = gpus(node)?;
    if config == DISABLED {
        return Some((WHOLE.to_owned(), gpus));
    }
    let profile = config.strip_prefix("all-")?;
    let product = node.labels.get(super::PRODUCT)?;
    let each = boards.get(product)?.get(profile)?;
    Some((format!("nvidia.com/mig-{profile}"), each.checked_mul(gpus)?))
}

fn gpus(node: &Node) -> Option<u32> {
    let said = node.labels.get(COUNT).and_then(|text| text.parse().ok());
    said.or_else(|| node.accelerators.get(WHOLE).copied())
        .filter(|count| (1..=1024).contains(count))
}

/// What comes next of each node that is being cut, by name.
pub fn stages(seen: &Seen) -> Vec<(String, Stage)> {
    let cut = seen.nodes.iter().filter(|node| is_cut(node));
    cut.map(|node| (node.name.clone(), stage(seen, node)))
        .collect()
}

fn stage(seen: &Seen, node: &Node) -> Stage {
    let wanted = config_of(node).unwrap_or_default();
    let told = node.labels.get(MIG_CONFIG).is_some_and(|now| now == wanted);
    let state = node.labels.get(MIG_STATE).map_or("", String::as_str);
    if !told {
        if !seen.rules.repartitions {
            return Stage::Open { cut: false };
        }
        let on: Vec<(usize, &Pod)> = with_gpus(seen, &node.name).collect();
        if on.is_empty() {
            return Stage::Label(wanted.to_owned());
        }
        let stay = on.iter().filter(|(_, pod)| !goes(pod));
        let stay: Vec<usize> = stay.map(|(at, _)| *at).collect();
        return if stay.is_empty() {
            Stage::Waits
        } else {
            Stage::Drain(stay)
        };
    }
    let gives = gives(node, wanted, &seen.boards);
    let as_wanted = gives.is_some_and(|(resource, count)| {
        let there = node.accelerators.iter().filter(|(_, count)| **count > 0);
        there.eq(std::iter::once((&resource, &count)))
    });
    match state {
        "failed" => Stage::Open { cut: false },
        "success" if as_wanted => Stage::Open { cut: true },
        _ => Stage::Waits,
    }
}

/// Pods that hold GPUs of a node.
fn with_gpus<'a>(seen: &'a Seen, node: &str) -> impl Iterator<Item = (usize, &'a Pod)> {
    let pods = seen.pods.iter().enumerate();
    pods.filter(move |(_, pod)| pod.ask.is_some() && pod.place.node() == Some(node))
        .map(|(at, pod)| (at, &**pod))
}

/// The node that is worth most to those who wait if it is cut, one at a time; `None`: there is none. `settled`: whether
/// a node may be cut again.
pub fn cut(
    seen: &Seen,
    waits: &[Waits],
    settled: &dyn Fn(&str) -> bool,
    now: Nanoseconds,
) -> Option<Cut> {
    if !seen.rules.repartitions || seen.nodes.iter().any(|node| is_cut(node)) {
        return None;
    }
    let waiting: BTreeSet<usize> = waits
        .iter()
        .filter(|one| ["TooFewGpus", "NoSuchGpu", "LargerThanCluster"].contains(&one.reason))
        .map(|one| one.pod)
        // Nobody makes way for what would be warm.
        .filter(|at| !seen.pods.get(*at).is_some_and(|pod| pod.is_warm()))
        .collect();
    let pods = waiting.iter().filter_map(|at| seen.pods.get(*at));
    let configs: BTreeSet<String> = pods
        .clone()
        .filter_map(|pod| config_for(&pod.ask.as_ref()?.resource))
        .collect();
    let priority = pods.map(|pod| pod.priority).max()?;
    let mut nodes: Vec<(usize, &Arc<Node>)> = seen
        .nodes
        .iter()
        .filter(|node| may_be_cut(node, seen) && settled(&node.name))
        .filter_map(|node| Some((in_the_way(seen, node, priority)?, node)))
        .collect();
    nodes.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    let mut best: Option<(usize, Cut)> = None;
    for (_, node) in nodes.into_iter().take(TRIED) {
        for config in &configs {
            if node.labels.get(MIG_CONFIG) == Some(config) {
                continue;
            }
            let Some(found) = tried(seen, node, config, &waiting, now) else {
                continue;
            };
            let worth = found.pods.len();
            if worth > 0 && best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, found));
            }
        }
    }
    best.map(|(_, cut)| cut)
}

fn config_for(resource: &str) -> Option<String> {
    if resource == WHOLE {
        return Some(DISABLED.to_owned());
    }
    let profile = resource.strip_prefix("nvidia.com/mig-")?;
    Some(format!("all-{profile}"))
}

fn may_be_cut(node: &Node, seen: &Seen) -> bool {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    node.open
        && label(MIG_STATE) == Some("success")
        && label(STRATEGY) == Some("mixed")
        && label(MIG_CONFIG).is_some()
        && label(super::PRODUCT)
            .and_then(|product| seen.boards.get(product))
            .is_some_and(|profiles| !profiles.is_empty())
        && gpus(node).is_some()
        // Another hand has closed it.
        && !node.taints.iter().any(|taint| taint.key.starts_with("gpuwise.dev/"))
}

/// How many are in the way on a node; `None`: some of them may not be evicted for this priority.
fn in_the_way(seen: &Seen, node: &Node, priority: i32) -> Option<usize> {
    let mut count = 0;
    for (_, pod) in with_gpus(seen, &node.name) {
        if !(evictable(seen, pod) && pod.priority < priority) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// What would be decided if the node were cut so.
fn tried(
    seen: &Seen,
    node: &Arc<Node>,
    config: &str,
    waiting: &BTreeSet<usize>,
    now: Nanoseconds,
) -> Option<Cut> {
    let (resource, count) = gives(node, config, &seen.boards)?;
    let on: Vec<usize> = with_gpus(seen, &node.name).map(|(at, _)| at).collect();
    let mut then = seen.clone();
    for one in &mut then.nodes {
        if one.name == node.name {
            let mut cut = (**one).clone();
            cut.accelerators = [(resource.clone(), count)].into();
            *one = Arc::new(cut);
        }
    }
    // Who leaves, and who is placed without it, is not asked about; places in the list stay.
    then.pods = seen
        .pods
        .iter()
        .enumerate()
        .filter(|(at, pod)| !on.contains(at) && (!pod.waits() || waiting.contains(at)))
        .map(|(_, pod)| Arc::clone(pod))
        .collect();
    then.rules.repartitions = false;
    then.rules.moves = None;
    then.rules.preemption = super::Preempts::Never;
    let decision = decide(&then, now).ok()?;
    let uids: BTreeSet<&str> = decision
        .placed
        .iter()
        .filter(|one| one.node == node.name)
        .filter_map(|one| then.pods.get(one.pod))
        .map(|pod| pod.uid.as_str())
        .collect();
    let here = seen.pods.iter().enumerate();
    let pods: Vec<usize> = here
        .filter(|(_, pod)| uids.contains(pod.uid.as_str()) && pod.waits())
        .map(|(at, _)| at)
        .collect();
    let what = format!("node {} is cut as {config}", node.name);
    let leaver = |pod: &usize| Leaver {
        pod: *pod,
        how: Leaves::Evicted,
        words: format!("evicted: {what} for pods of higher priority"),
    };
    Some(Cut {
        node: node.name.clone(),
        config: config.to_owned(),
        empty: on.is_empty(),
        leavers: on.iter().map(leaver).collect(),
        words: format!("{what}, which gives {count} {resource}"),
        pods,
    })
}
