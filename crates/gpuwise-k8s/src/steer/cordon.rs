//! Nodes whose GPUs are suspect: who takes no more pods, and who does again.

use super::{Node, Seen};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// The taint of a node that takes no more pods because its GPUs are suspect.
pub const SUSPECT: &str = "gpuwise.dev/suspect";

/// When a node counts as suspect, and how many may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cordons {
    /// For how long it must have been suspect.
    pub after: Nanoseconds,
    /// For how long it must have been well again.
    pub well: Nanoseconds,
    /// Percent of the nodes with GPUs that are cordoned at most.
    pub most_percent: u32,
}

/// Since when nodes have been as they are: suspect, or well; since 1970. What nobody remembers begins anew.
#[derive(Debug, Clone, Default)]
pub struct Health(BTreeMap<String, (bool, Nanoseconds)>);

/// What is to be done of suspect nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Nodes that take no more pods, with why.
    pub cordon: Vec<(String, String)>,
    /// Nodes that take pods again.
    pub uncordon: Vec<String>,
    /// Nodes that are suspect and stay open, as no more may be closed, with why they are suspect.
    pub beyond: Vec<(String, String)>,
    /// When the next of them has been so for long enough; since 1970.
    pub wake: Option<Nanoseconds>,
}

/// Whether we have cordoned a node.
fn ours(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == SUSPECT)
}

/// Judges all nodes; `None` for cordons: nobody is cordoned, and who was is open again.
pub fn judge(
    seen: &Seen,
    cordons: Option<Cordons>,
    health: &mut Health,
    now: Nanoseconds,
) -> Judged {
    let mut judged = Judged::default();
    let with_gpus = |node: &&std::sync::Arc<Node>| {
        ours(node) || !node.ailments.is_empty() || node.accelerators.values().any(|n| *n > 0)
    };
    let nodes: Vec<&Node> = seen.nodes.iter().filter(with_gpus).map(|n| &**n).collect();
    health.0.retain(|name, _| {
        nodes
            .binary_search_by(|node| node.name.as_str().cmp(name))
            .is_ok()
    });
    let Some(cordons) = cordons else {
        let closed = nodes.iter().filter(|node| ours(node));
        judged.uncordon = closed.map(|node| node.name.clone()).collect();
        return judged;
    };
    let most = nodes.len() * cordons.most_percent as usize / 100;
    let mut closed = nodes.iter().filter(|node| ours(node)).count();
    for node in nodes {
        // Whose MIG manager is at work gives fewer GPUs for a while.
        let sick = !node.ailments.is_empty() && !super::cut::is_cut(node);
        let since = health.0.entry(node.name.clone()).or_insert((sick, now));
        if since.0 != sick {
            *since = (sick, now);
        }
        let needed = if sick { cordons.after } else { cordons.well };
        if sick == ours(node) {
            continue;
        }
        let at = since.1 + needed;
        if at > now {
            judged.wake = Some(judged.wake.map_or(at, |known| known.min(at)));
        } else if !sick {
            closed = closed.saturating_sub(1);
            judged.uncordon.push(node.name.clone());
        } else if closed < most {
            closed += 1;
            judged
                .cordon
                .push((node.name.clone(), node.ailments.join("; ")));
        } else {
            judged
                .beyond
                .push((node.name.clone(), node.ailments.join("; ")));
        }
    }
    judged
}
