//! The kernel's world of a cluster: kinds, nodes, domains, queues, and who runs.

use super::{
    Ask, Constraint, Node, Pod, Seen,
    fleet::{Class, classes, fleet},
    gangs::Unit,
};
use gpuwise_domain::placement::{
    Action, Assignment, Event, Gang, GpuAsk, GpuId, GpuShare, Health, Job, JobId, KindId, Kinds,
    Need, NodeId, Part, Preemption, QueueId, TimestampedEvent, TopologyWish, WorkerAsk,
};
use gpuwise_sched::world::World;
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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
