//! From the inventory's nodes and pods to what a decision needs of them.

use super::claims::Claimed;
use super::{
    moves::{CHEAPEST, DELETION_COST},
    seen::{HOSTNAME, MOVES_SINCE, MOVES_TO, NODE, REPLACES},
    watches::SERVED,
    workloads::Sleep,
};
use crate::{
    inventory::{self, Shape, Text},
    objects,
    steer::{
        Ask, Claims, Constraint, GATE, Names, Node, Operator, Place, Pod, Requirement, Said,
        Serves, Standing, Taint, Toleration, WARM, WARM_PRIORITY, ask, is_accelerator,
    },
};
use gpuwise_domain::placement::Node as FleetNode;
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) fn read_node(node: &inventory::Node) -> Node {
    let labels: Names = node
        .labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let counted = node
        .extended
        .iter()
        .filter(|(name, _)| is_accelerator(name));
    Node {
        name: node.name.to_string(),
        taints: node
            .taints
            .iter()
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            })
            .collect(),
        // Who cannot be named by its label cannot be sent to.
        open: node.open() && labels.contains_key(HOSTNAME),
        labels,
        cpu_milli: node.cpu_milli.unwrap_or(FleetNode::CPU_UNKNOWN),
        memory_mib: node
            .memory
            .map_or(FleetNode::MEMORY_UNKNOWN, |bytes| bytes >> 20),
        accelerators: counted
            .filter_map(|(name, count)| Some((name.to_string(), u32::try_from(*count).ok()?)))
            .collect(),
        ailments: node.suspicions(),
    }
}

/// A pod as a decision needs it; `None`: it is over, or nobody's to place.
pub(super) fn read_pod(
    pod: &inventory::Pod,
    claimed: Claimed,
    in_gang: bool,
    constraints: &mut BTreeSet<Arc<Constraint>>,
) -> Option<Pod> {
    if pod.phase.ended() {
        return None;
    }
    let place = place(pod)?;
    let shape = &pod.shape;
    let counts: Vec<(&str, String)> = shape
        .asks
        .extended
        .iter()
        .map(|(name, count)| (&**name, count.to_string()))
        .collect();
    let resources: Vec<(&str, &str)> = counts
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let names = |all: &BTreeMap<Text, Text>| -> Names {
        all.iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    };
    let devices = claimed.ask.as_ref();
    let devices = devices.map(|(name, count)| (name.as_str(), *count));
    let asked = ask(Said {
        resources: &resources,
        annotations: &names(&shape.annotations),
        labels: &names(&shape.labels),
        node_selector: &names(&shape.node_selector),
        pod_group: pod.group.as_deref().filter(|_| in_gang),
        minds_others: shape.minds_others,
        devices,
    });
    let (asked, claims) = match asked {
        Ok(asked) => (asked, claimed.claims),
        // Nobody else takes a gate off that its template has put on.
        Err(why) if place == Place::Gated => (None, Claims::Others(why.to_string())),
        // What it holds counts, whatever else it says.
        Err(_) => (bare(&resources, devices), claimed.claims),
    };
    let one = if place.node().is_some() {
        Constraint::default()
    } else {
        constraint(shape)
    };
    let standing = standing(pod);
    Some(Pod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        version: pod.version.to_string(),
        created: Nanoseconds(
            u64::try_from(pod.created)
                .unwrap_or_default()
                .saturating_mul(1_000_000_000),
        ),
        gated_at: pod
            .annotation(crate::admission::GATED_AT)
            .and_then(|text| text.parse().ok()),
        owner: pod.owner.as_ref().map_or(String::new(), |owner| {
            format!("{}/{}", owner.kind, owner.name)
        }),
        priority: if matches!(standing.serves, Some(Serves::Warm(_))) {
            WARM_PRIORITY
        } else {
            shape.priority
        },
        ask: asked,
        cpu_milli: shape.asks.cpu_milli,
        memory_mib: shape.asks.memory.div_ceil(1 << 20),
        place,
        constraint: interned(one, constraints),
        claims,
        standing,
    })
}

fn standing(pod: &inventory::Pod) -> Standing {
    let noted = |key: &str| pod.annotation(key).map(str::to_owned);
    let since = |text: String| text.parse::<jiff::Timestamp>().ok();
    let nanoseconds = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or_default();
        Nanoseconds(seconds.saturating_mul(1_000_000_000))
    };
    let moves = noted(MOVES_TO).zip(noted(MOVES_SINCE).and_then(since));
    Standing {
        nominated: pod.nominated.as_ref().map(ToString::to_string),
        leaves: pod.leaves,
        ends: pod.deleting.is_some(),
        ready: pod.ready,
        started: pod.started.map(nanoseconds),
        never_preempts: pod.shape.never_preempts,
        deployment: deployment(pod),
        set: set(pod),
        moves: moves.map(|(to, since)| (to, nanoseconds(since.as_second()))),
        cheapest: pod.annotation(DELETION_COST) == Some(CHEAPEST),
        replaces: noted(REPLACES),
        ours: noted(NODE).is_some(),
        serves: serves(pod),
    }
}

/// The GpuWorkload that a pod is of.
fn serves(pod: &inventory::Pod) -> Option<Serves> {
    let named = |label: &str| pod.label(label).map(str::to_owned);
    // Who wakes is a replica in a moment.
    let wakes = Sleep::of(pod) == Sleep::Wakes;
    let warm = named(WARM).filter(|_| !wakes).map(Serves::Warm);
    warm.or_else(|| named(SERVED).map(Serves::Replica))
}

/// The Deployment that a pod is of: its ReplicaSet is named after it and the hash of its template. `None` also where a
/// GpuWorkload says how many replicas there are.
fn deployment(pod: &inventory::Pod) -> Option<String> {
    if pod.label(SERVED).is_some() {
        return None;
    }
    let owner = pod
        .owner
        .as_ref()
        .filter(|one| &*one.kind == "ReplicaSet")?;
    let hash = pod.label("pod-template-hash")?;
    let name = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
    Some(name.to_owned())
}

/// The StatefulSet that a pod is of, and its ordinal. `None` also where a volume of it may be of one node alone, or what
/// it is to be beside is for kube-scheduler.
fn set(pod: &inventory::Pod) -> Option<(String, u32)> {
    if pod.shape.claims_volumes || pod.shape.minds_others {
        return None;
    }
    let owner = pod.owner.as_ref();
    let owner = owner.filter(|one| &*one.kind == "StatefulSet")?;
    let ordinal = pod.name.strip_prefix(&*owner.name)?.strip_prefix('-')?;
    Some((owner.name.to_string(), ordinal.parse().ok()?))
}

/// Where a pod is; `None`: somebody else holds it back, or it is being deleted.
fn place(pod: &inventory::Pod) -> Option<Place> {
    let gated = pod.gates.iter().any(|gate| &**gate == GATE);
    let other_gates = pod.gates.iter().any(|gate| &**gate != GATE);
    Some(match (&pod.node, pod.annotation(NODE)) {
        (Some(node), _) => Place::Bound(node.to_string()),
        (None, Some(node)) if !gated => Place::Sent(node.to_owned()),
        _ if other_gates || pod.deleting.is_some() => return None,
        _ if gated => Place::Gated,
        _ => Place::Free,
    })
}

fn bare(resources: &[(&str, &str)], devices: Option<(&str, u32)>) -> Option<Ask> {
    let none = BTreeMap::new();
    let said = Said {
        resources,
        annotations: &none,
        labels: &none,
        node_selector: &none,
        pod_group: None,
        minds_others: false,
        // Who asks both ways is counted by what its node's device plugin gives.
        devices: devices.filter(|_| !resources.iter().any(|(name, _)| is_accelerator(name))),
    };
    ask(said).ok().flatten()
}

fn interned(one: Constraint, all: &mut BTreeSet<Arc<Constraint>>) -> Arc<Constraint> {
    let one = Arc::new(one);
    if let Some(known) = all.get(&one) {
        return Arc::clone(known);
    }
    all.insert(Arc::clone(&one));
    one
}

fn constraint(shape: &Shape) -> Constraint {
    let requirement = |one: &objects::Expression, named: bool| Requirement {
        key: (!named).then(|| one.key.clone()),
        operator: Operator::named(&one.operator),
        values: one.values.clone(),
    };
    let term = |term: &objects::Term| {
        let fields = term.match_fields.iter().map(|one| requirement(one, true));
        let labels = term
            .match_expressions
            .iter()
            .map(|one| requirement(one, false));
        fields.chain(labels).collect()
    };
    let mut tolerations: Vec<Toleration> = shape
        .tolerations
        .iter()
        .map(|one| Toleration {
            exists: one.operator == "Exists",
            key: one.key.clone(),
            value: one.value.clone(),
            effect: one.effect.clone(),
        })
        .collect();
    tolerations.sort();
    Constraint {
        node_selector: shape
            .node_selector
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        terms: shape
            .node_terms
            .iter()
            .flat_map(|all| all.iter())
            .map(term)
            .collect(),
        tolerations,
    }
}
