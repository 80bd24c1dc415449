//! The kernel's world of a cluster: kinds, nodes, domains, queues, and who runs.

use super::{
    Ask, Constraint, Node, Seen,
    adopt::Holder,
    fleet::{Class, classes, fleet},
    gangs::Unit,
    kept::Kept,
};
use gpuwise_domain::placement::{
    Event, Gang, GpuAsk, Health, Job, JobId, KindId, Kinds, Need, NodeId, Preemption, QueueId,
    TimestampedEvent, TopologyWish, WorkerAsk,
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
    pub(super) classes: Vec<Class>,
    constraints: Vec<Arc<Constraint>>,
    pub(super) queues: BTreeMap<&'a str, QueueId>,
    /// Pods of jobs that run, by their places in [`Seen::pods`].
    pub held: BTreeMap<JobId, Vec<usize>>,
    /// When the last of those who run began.
    pub(super) latest: Nanoseconds,
    pub(super) next: u32,
    /// What did not go together, for people.
    pub troubles: Vec<String>,
}

impl<'a> Cluster<'a> {
    /// The cluster at a moment, with these on its nodes.
    pub(super) fn new(seen: &'a Seen, holders: Vec<Holder<'_>>, now: Nanoseconds) -> Self {
        Self::after(&mut Kept::default(), seen, holders, now)
    }

    /// The same, from where the last one began alike.
    pub(super) fn after(
        kept: &mut Kept,
        seen: &'a Seen,
        holders: Vec<Holder<'_>>,
        now: Nanoseconds,
    ) -> Self {
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
        let queues = queues(seen, &mut troubles);
        let gpus = fleet.gpus.len();
        let mut one = Self {
            world: kept.begin(fleet, &classes, &queues),
            nodes: nodes.iter().map(|(node, _)| *node).collect(),
            classes,
            constraints,
            queues,
            held: BTreeMap::new(),
            latest: Nanoseconds(0),
            next: 0,
            troubles,
        };
        one.adopt(kept, seen, holders, now, gpus);
        one.close(now);
        one
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

    /// The jobs of a unit that waits, one for each of its parts; `first`: what of it is left goes before all others.
    pub(super) fn jobs(&mut self, unit: &Unit<'_>, first: bool, now: Nanoseconds) -> Vec<Job> {
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
            job.priority = if unit.begun && first {
                i32::MAX
            } else {
                pod.priority
            };
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

/// The queue of each namespace that has one.
fn queues<'a>(seen: &'a Seen, troubles: &mut Vec<String>) -> BTreeMap<&'a str, QueueId> {
    let mut all: BTreeMap<&str, QueueId> = BTreeMap::new();
    for (quota, at) in seen.quotas.iter().zip((0..).map(QueueId)) {
        for namespace in &quota.namespaces {
            if let Some(first) = all.insert(namespace, at) {
                all.insert(namespace, first);
                troubles.push(format!(
                    "namespace {namespace} is in GpuQuota {} too; the first by name counts",
                    quota.name
                ));
            }
        }
    }
    all
}
