//! The fleet of a cluster: kinds, nodes, racks and queues.

use super::{Constraint, Node, Place, Seen};
use gpuwise_domain::placement::{
    Domain, DomainId, Fleet, FleetGpu, GpuId, GpuKind, Health, Home, IslandId, KindId, Kinds,
    Level, Node as FleetNode, NodeId, Queue, Quota as KindQuota,
};
use gpuwise_units::{HourlyPrice, Money};
use std::{collections::BTreeMap, sync::Arc};

/// Labels by which nodes say where they are, innermost level first; of one level the first that a node has.
const PLACES: [(Level, &[&str]); 3] = [
    (
        Level::Rack,
        &[
            "topology.kubernetes.io/rack",
            "network.topology.nvidia.com/leaf",
        ],
    ),
    (
        Level::Block,
        &[
            "topology.kubernetes.io/block",
            "network.topology.nvidia.com/spine",
        ],
    ),
    (Level::Zone, &["topology.kubernetes.io/zone"]),
];

/// The label of nodes whose GPUs reach one another over NVLink.
const CLIQUE: &str = "nvidia.com/gpu.clique";

/// So many of a resource a node can have: 16 boards, each in 7 instances of which each is shared by 32.
const BELIEVED: u32 = 16 * 7 * 32;

/// What GPUs of a kind have in common: the resource, the product, and which of those who wait may go there.
pub(super) type Class = (String, String, Vec<bool>);

/// A node, with the kind and the number of each of its resources.
pub(super) type WithKinds<'a> = (&'a Node, Vec<(KindId, u32)>);

/// Kinds of a cluster, and its nodes with GPUs, each with the kind of each of its resources.
pub(super) fn classes<'a>(
    seen: &'a Seen,
    constraints: &[Arc<Constraint>],
    troubles: &mut Vec<String>,
) -> (Vec<Class>, Vec<WithKinds<'a>>) {
    let mut known: BTreeMap<Class, (KindId, u64)> = BTreeMap::new();
    let mut nodes = Vec::new();
    let mut of_nodes: Vec<Vec<(Class, u32)>> = Vec::new();
    for node in &seen.nodes {
        let given = node.accelerators.iter().filter(|(_, count)| **count > 0);
        let (given, beyond): (Vec<_>, Vec<_>) = given.partition(|(_, count)| **count <= BELIEVED);
        troubles.extend(beyond.into_iter().map(|(resource, count)| {
            format!(
                "node {} says that it has {count} {resource}, which is not believed beyond {BELIEVED}: see its device plugin; they are left out until it says another number",
                node.name
            )
        }));
        let admits: Vec<bool> = constraints.iter().map(|one| one.admits(node)).collect();
        let product = node.labels.get(super::PRODUCT).cloned().unwrap_or_default();
        let own: Vec<(Class, u32)> = given
            .into_iter()
            .map(|(resource, count)| ((resource.clone(), product.clone(), admits.clone()), *count))
            .collect();
        if own.is_empty() {
            continue;
        }
        for (class, count) in &own {
            known.entry(class.clone()).or_insert((KindId(0), 0)).1 += u64::from(*count);
        }
        nodes.push(&**node);
        of_nodes.push(own);
    }
    // Where there are more kinds than can be told apart, those count where most of those who wait may go.
    let mut order: Vec<(usize, u64, Class)> = known
        .iter()
        .map(|(class, (_, count))| {
            (
                class.2.iter().filter(|may| **may).count(),
                *count,
                class.clone(),
            )
        })
        .collect();
    order.sort_by(|one, other| (other.0, other.1, &one.2).cmp(&(one.0, one.1, &other.2)));
    let left_out = order.split_off(order.len().min(Kinds::MOST));
    if !left_out.is_empty() {
        let gpus: u64 = left_out.iter().map(|(_, count, _)| count).sum();
        troubles.push(format!(
            "{gpus} GPUs are left out of this decision: nodes differ in more than {} ways by GPU, labels and taints",
            Kinds::MOST
        ));
    }
    let classes: Vec<Class> = order.into_iter().map(|(_, _, class)| class).collect();
    let numbers: BTreeMap<&Class, KindId> = classes.iter().zip((0..).map(KindId)).collect();
    let nodes = nodes
        .into_iter()
        .zip(of_nodes)
        .map(|(node, own)| {
            let own = own
                .iter()
                .filter_map(|(class, count)| Some((*numbers.get(class)?, *count)));
            (node, own.collect())
        })
        .collect();
    (classes, nodes)
}

pub(super) fn fleet(
    seen: &Seen,
    classes: &[Class],
    nodes: &[(&Node, Vec<(KindId, u32)>)],
) -> Fleet {
    let mut fleet = Fleet {
        name: "cluster".into(),
        ..Fleet::default()
    };
    for (resource, product, _) in classes {
        let name = match (product.as_str(), resource.split_once('/')) {
            ("", _) => resource.clone(),
            (product, _) if seen.devices.asked.contains(resource) => {
                format!("{resource} of {product}")
            }
            (product, Some((_, part))) if part != "gpu" => format!("{part} of {product}"),
            (product, _) => product.to_owned(),
        };
        let mut kind = GpuKind::named(name);
        kind.price = price(seen, product).filter(|_| is_whole(seen, resource));
        fleet.kinds.push(kind);
    }
    let mut others: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| pod.ask.is_none()) {
        if let Place::Bound(node) = &pod.place {
            let held = others.entry(node).or_default();
            held.0 += pod.cpu_milli;
            held.1 += pod.memory_mib;
        }
    }
    let mut places = Places::default();
    for ((node, own), id) in nodes.iter().zip((0..).map(NodeId)) {
        let (cpu, memory) = others.get(node.name.as_str()).copied().unwrap_or_default();
        let island = node
            .labels
            .get(CLIQUE)
            .map(|clique| places.island(&mut fleet, clique));
        let mut gpus = Vec::new();
        for (kind, count) in own {
            for _ in 0..*count {
                let index = gpus.len() as u32;
                gpus.push(GpuId(fleet.gpus.len() as u32));
                let mut gpu = FleetGpu::new(*kind, Home::Node(id), index);
                gpu.island = island;
                fleet.gpus.push(gpu);
            }
        }
        let domain = places.domain(&mut fleet, node);
        fleet.nodes.push(FleetNode {
            name: node.name.clone(),
            cpu_milli: node.cpu_milli.saturating_sub(cpu),
            memory_mib: node.memory_mib.saturating_sub(memory),
            gpus,
            domain,
            health: Health::Up,
            ..FleetNode::default()
        });
    }
    fleet.queues = queues(seen, classes);
    fleet
}

fn is_whole(seen: &Seen, resource: &str) -> bool {
    !seen.devices.parts.contains(resource)
        && !resource.contains("mig-")
        && !resource.ends_with(".shared")
}

fn price(seen: &Seen, product: &str) -> Option<HourlyPrice> {
    let micros = *seen.prices.get(product)?;
    let currency = seen.currency.as_deref()?.parse().ok()?;
    Some(HourlyPrice(Money { micros, currency }))
}

fn queues(seen: &Seen, classes: &[Class]) -> Vec<Queue> {
    // Parts of GPUs are not counted as GPUs.
    let whole = classes
        .iter()
        .zip((0..).map(KindId))
        .filter(|(class, _)| is_whole(seen, &class.0));
    let kinds = whole.fold(Kinds::NONE, |kinds, (_, kind)| kinds.with(kind));
    let milli = |gpus: u64| gpus.saturating_mul(1000);
    seen.quotas
        .iter()
        .map(|quota| Queue {
            name: quota.name.clone(),
            parent: None,
            quotas: if kinds == Kinds::NONE {
                Vec::new()
            } else {
                vec![KindQuota {
                    kinds,
                    nominal_milli: milli(quota.gpus),
                    borrowing_milli: quota.borrowing.map(milli),
                    lending_milli: quota.lending.map(milli),
                    cap_milli: None,
                }]
            },
            weight_milli: milli(quota.weight).min(u64::from(u32::MAX)) as u32,
            priority: 0,
            reclaims: seen.rules.reclaims,
            budget: None,
            used_milli: 0,
        })
        .collect()
}

/// Racks, blocks, zones and islands as they are met.
#[derive(Default)]
struct Places {
    domains: BTreeMap<(Level, Option<DomainId>, String), DomainId>,
    islands: BTreeMap<String, IslandId>,
}

impl Places {
    fn domain(&mut self, fleet: &mut Fleet, node: &Node) -> Option<DomainId> {
        let mut parent = None;
        for (level, labels) in PLACES.iter().rev() {
            let Some(name) = labels.iter().find_map(|label| node.labels.get(*label)) else {
                continue;
            };
            let next = DomainId(fleet.domains.len() as u32);
            let id = *self
                .domains
                .entry((*level, parent, name.clone()))
                .or_insert(next);
            if id == next {
                fleet.domains.push(Domain {
                    name: name.clone(),
                    level: *level,
                    parent,
                });
            }
            parent = Some(id);
        }
        parent
    }

    fn island(&mut self, fleet: &mut Fleet, name: &str) -> IslandId {
        let next = IslandId(fleet.islands.len() as u32);
        let id = *self.islands.entry(name.to_owned()).or_insert(next);
        if id == next {
            fleet.islands.push(name.to_owned());
        }
        id
    }
}
