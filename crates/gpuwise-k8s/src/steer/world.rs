//! The kernel's world of a cluster: kinds, nodes, domains, queues, and who runs.

use super::{Ask, Constraint, Node, Place, Pod, Seen, gangs::Unit};
use gpuwise_domain::placement::{
    Action, Assignment, Domain, DomainId, Event, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind,
    GpuShare, Health, Home, IslandId, Job, JobId, KindId, Kinds, Level, Need, Node as FleetNode,
    NodeId, Part, Preemption, Queue, QueueId, Quota as KindQuota, TimestampedEvent, TopologyWish,
    WorkerAsk,
};
use gpuwise_sched::world::World;
use gpuwise_units::{HourlyPrice, Money, Nanoseconds};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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

/// What GPUs of a kind have in common: the resource, the product, and which of those who wait may go there.
type Class = (String, String, Vec<bool>);

/// A world, and how its numbers and the cluster's names go together.
pub(super) struct Cluster<'a> {
    pub world: World,
    /// Nodes by their number.
    pub nodes: Vec<&'a Node>,
    classes: Vec<Class>,
    constraints: Vec<Arc<Constraint>>,
    queues: BTreeMap<&'a str, QueueId>,
    next: u32,
    /// What did not go together, for people.
    pub troubles: Vec<String>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(seen: &'a Seen, now: Nanoseconds) -> Self {
        let waiting = seen
            .pods
            .iter()
            .filter(|pod| pod.waits() && pod.ask.is_some());
        let constraints: BTreeSet<Arc<Constraint>> =
            waiting.map(|pod| Arc::clone(&pod.constraint)).collect();
        let constraints: Vec<Arc<Constraint>> = constraints.into_iter().collect();
        let mut troubles = Vec::new();
        let (classes, nodes) = classes(seen, &constraints, &mut troubles);
        let fleet = fleet(seen, &classes, &nodes);
        let mut one = Self {
            world: World::new(&fleet),
            nodes: nodes.iter().map(|(node, _)| *node).collect(),
            classes,
            constraints,
            queues: BTreeMap::new(),
            next: 0,
            troubles,
        };
        one.queues(seen);
        one.adopt(seen, now, fleet.gpus.len());
        one.close(now);
        one
    }

    fn queues(&mut self, seen: &'a Seen) {
        for (quota, at) in seen.quotas.iter().zip((0..).map(QueueId)) {
            for namespace in &quota.namespaces {
                if let Some(first) = self.queues.insert(namespace, at) {
                    self.queues.insert(namespace, first);
                    self.troubles.push(format!(
                        "namespace {namespace} is in GpuQuota {} too; the first by name counts",
                        quota.name
                    ));
                }
            }
        }
    }

    /// A number for a job.
    pub(super) fn number(&mut self) -> JobId {
        self.next += 1;
        JobId(self.next - 1)
    }

    /// What happens at a moment, as an event.
    pub(super) fn tell(&mut self, at: Nanoseconds, event: Event) -> Result<(), String> {
        let stamped = TimestampedEvent { at, event };
        self.world
            .apply(&stamped)
            .map_err(|refused| refused.to_string())
    }

    /// Who is bound, or told where to go, holds what it asks: the lowest of its node's that are left.
    fn adopt(&mut self, seen: &Seen, now: Nanoseconds, gpus: usize) {
        let ids: BTreeMap<&str, NodeId> = self
            .nodes
            .iter()
            .zip((0..).map(NodeId))
            .map(|(node, id)| (node.name.as_str(), id))
            .collect();
        let mut taken = vec![false; gpus];
        let mut over: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in seen.pods.iter().filter(|pod| !pod.waits()) {
            let (Some(ask), Some(node)) = (&pod.ask, pod.place.node()) else {
                continue;
            };
            let Some((name, id)) = ids.get_key_value(node) else {
                continue;
            };
            let Some(state) = self.world.node(*id) else {
                continue;
            };
            let of = |gpu: &GpuId| {
                let kind = self.world.gpu(*gpu).map(|gpu| gpu.gpu.kind);
                kind.and_then(|kind| self.classes.get(kind.index()))
                    .is_some_and(|class| class.0 == ask.resource)
            };
            let free = state
                .node
                .gpus
                .iter()
                .filter(|gpu| taken.get(gpu.index()) == Some(&false));
            let mine: Vec<GpuId> = free.copied().filter(of).take(ask.count as usize).collect();
            if mine.len() < ask.count as usize {
                *over.entry(name).or_default() += ask.count - mine.len() as u32;
            }
            let Some(kind) = mine
                .first()
                .and_then(|gpu| self.world.gpu(*gpu))
                .map(|gpu| gpu.gpu.kind)
            else {
                continue;
            };
            for gpu in &mine {
                if let Some(taken) = taken.get_mut(gpu.index()) {
                    *taken = true;
                }
            }
            let worker = WorkerAsk {
                cpu_milli: pod.cpu_milli.min(state.cpu_free),
                memory_mib: pod.memory_mib.min(state.memory_free),
                gpu: GpuAsk::Whole {
                    count: mine.len() as u32,
                    kinds: Kinds::one(kind),
                    need: Need::default(),
                },
            };
            let id = *id;
            self.runs(pod, worker, id, &mine, now);
        }
        self.troubles.extend(over.into_iter().map(|(node, count)| {
            format!(
                "pods on node {node} hold {count} more of its GPUs than its device plugin gives"
            )
        }));
    }

    fn runs(
        &mut self,
        pod: &Pod,
        worker: WorkerAsk,
        node: NodeId,
        gpus: &[GpuId],
        now: Nanoseconds,
    ) {
        let id = self.number();
        let name = format!("{}/{}", pod.namespace, pod.name);
        let mut job = Job::new(id, name, worker);
        job.tenant.clone_from(&pod.namespace);
        job.queue = self.queues.get(pod.namespace.as_str()).copied();
        job.priority = pod.priority;
        job.submitted = pod.created.min(now);
        let share = |gpu: &GpuId| GpuShare {
            gpu: *gpu,
            part: Part::Whole,
        };
        let gpus = gpus.iter().map(share).collect();
        let place = Action::Place {
            job: id,
            assignments: vec![Assignment { node, gpus }],
        };
        let told = self
            .tell(now, Event::Submitted(job))
            .and_then(|()| self.tell(now, Event::done(place)));
        if let Err(why) = told {
            self.troubles.push(format!(
                "pod {}/{} cannot be counted: {why}",
                pod.namespace, pod.name
            ));
        }
    }

    /// Nodes that take no more pods, once those on them are counted.
    fn close(&mut self, now: Nanoseconds) {
        let closed: Vec<NodeId> = self
            .nodes
            .iter()
            .zip((0..).map(NodeId))
            .filter(|(node, _)| !node.open)
            .map(|(_, id)| id)
            .collect();
        for node in closed {
            let health = Health::Draining;
            // A node that is there can be closed.
            let _ = self.tell(now, Event::NodeHealth { node, health });
        }
    }

    /// The jobs of a unit that waits, one for each of its parts.
    pub(super) fn jobs(&mut self, unit: &Unit<'_>, now: Nanoseconds) -> Vec<Job> {
        let mut all = Vec::new();
        for part in &unit.parts {
            let Some((pod, ask)) = part.first().and_then(|pod| Some((pod, pod.ask.as_ref()?)))
            else {
                continue;
            };
            let count = part.len() as u32;
            let worker = WorkerAsk {
                cpu_milli: pod.cpu_milli,
                memory_mib: pod.memory_mib,
                gpu: GpuAsk::Whole {
                    count: ask.count,
                    kinds: self.kinds(ask, &pod.constraint),
                    need: Need::default(),
                },
            };
            let id = self.number();
            let mut job = Job::new(id, unit.name.clone(), worker);
            job.tenant.clone_from(&pod.namespace);
            job.queue = self.queues.get(pod.namespace.as_str()).copied();
            job.priority = if unit.begun { i32::MAX } else { pod.priority };
            job.submitted = part
                .iter()
                .map(|pod| pod.created)
                .min()
                .unwrap_or(now)
                .min(now);
            let least = if unit.parts.len() == 1 {
                unit.least
            } else {
                count
            };
            job.gang = Gang {
                least,
                preferred: count,
                most: count,
            };
            job.topology = ask.within.map(|within| TopologyWish {
                within,
                required: true,
                penalty_milli: 0,
            });
            job.preemption = Preemption::Never;
            all.push(job);
        }
        all
    }

    /// Kinds that will do for an ask, where its pod may go.
    fn kinds(&self, ask: &Ask, constraint: &Arc<Constraint>) -> Kinds {
        let Ok(at) = self.constraints.binary_search(constraint) else {
            return Kinds::NONE;
        };
        let wanted = |(resource, product, admits): &Class| {
            *resource == ask.resource
                && (ask.products.is_empty() || ask.products.contains(product))
                && admits.get(at) == Some(&true)
        };
        let found = self
            .classes
            .iter()
            .zip((0..).map(KindId))
            .filter(|(class, _)| wanted(class));
        found.fold(Kinds::NONE, |kinds, (_, kind)| kinds.with(kind))
    }
}

/// Kinds of a cluster, and its nodes with GPUs, each with the kind of each of its resources.
fn classes<'a>(
    seen: &'a Seen,
    constraints: &[Arc<Constraint>],
    troubles: &mut Vec<String>,
) -> (Vec<Class>, Vec<(&'a Node, Vec<(KindId, u32)>)>) {
    let mut known: BTreeMap<Class, (KindId, u32)> = BTreeMap::new();
    let mut nodes = Vec::new();
    let mut of_nodes: Vec<Vec<(Class, u32)>> = Vec::new();
    for node in &seen.nodes {
        let given = node.accelerators.iter().filter(|(_, count)| **count > 0);
        let admits: Vec<bool> = constraints.iter().map(|one| one.admits(node)).collect();
        let product = node.labels.get(super::PRODUCT).cloned().unwrap_or_default();
        let own: Vec<(Class, u32)> = given
            .map(|(resource, count)| ((resource.clone(), product.clone(), admits.clone()), *count))
            .collect();
        if own.is_empty() {
            continue;
        }
        for (class, count) in &own {
            known.entry(class.clone()).or_insert((KindId(0), 0)).1 += count;
        }
        nodes.push(&**node);
        of_nodes.push(own);
    }
    // Where there are more kinds than can be told apart, those count where most of those who wait may go.
    let mut order: Vec<(usize, u32, Class)> = known
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
        let gpus: u32 = left_out.iter().map(|(_, count, _)| count).sum();
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

fn fleet(seen: &Seen, classes: &[Class], nodes: &[(&Node, Vec<(KindId, u32)>)]) -> Fleet {
    let mut fleet = Fleet {
        name: "cluster".into(),
        ..Fleet::default()
    };
    for (resource, product, _) in classes {
        let name = match (product.as_str(), resource.split_once('/')) {
            ("", _) => resource.clone(),
            (product, Some((_, "gpu"))) => product.to_owned(),
            (product, Some((_, part))) => format!("{part} of {product}"),
            (product, None) => product.to_owned(),
        };
        let mut kind = GpuKind::named(name);
        kind.price = price(seen, product).filter(|_| is_whole(resource));
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

fn is_whole(resource: &str) -> bool {
    !resource.contains("mig-") && !resource.ends_with(".shared")
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
        .filter(|(class, _)| is_whole(&class.0));
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
            reclaims: false,
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
