//! Replicas of services on the machines of a world: the kernel places each, and machines, racks and pools are lost.

use gpuwise_domain::{
    placement::{
        Action, Domain, DomainId, Ended, Event, Fleet, FleetGpu, GpuAsk, GpuId, GpuKind, Health,
        Home, Job, JobId, KindId, Kinds, Level, Need, Node, NodeId, TimestampedEvent, WorkerAsk,
    },
    scale::{ScaleLoss, ScaleLossOf, ScaleLossWhen, ScaleMachines},
};
use gpuwise_scale::step::{Lost, Machines, Place};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    policy::{BestFit, Indexed},
    world::World,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use std::collections::BTreeMap;

const DAY: f64 = 86_400e9;

/// Nodes that are lost together, and when they are next.
struct Risk {
    nodes: Vec<NodeId>,
    loss: ScaleLoss,
    stream: RandomStream,
    next: Option<Nanoseconds>,
}

impl Risk {
    /// The next loss after a time: by chance, or the one that is stated.
    fn draw(&mut self, after: Nanoseconds) {
        self.next = match self.loss.when {
            ScaleLossWhen::At(at) => (at > after || after.0 == 0).then_some(at),
            ScaleLossWhen::ADay(times) if times > 0.0 => {
                let wait = -libm::log1p(-self.stream.uniform()) / times * DAY;
                Some(Nanoseconds(after.0.saturating_add(wait as u64)))
            }
            ScaleLossWhen::ADay(_) => None,
        };
    }
}

/// Machines of pools in a world, on which replicas are jobs.
pub struct KernelMachines {
    world: World,
    policy: Policy,
    /// By [`KindId`]: GPUs of a pool are a kind of their own.
    pools: Vec<String>,
    /// Where replicas stand.
    places: BTreeMap<u64, NodeId>,
    jobs: u32,
    risks: Vec<Risk>,
    /// When nodes are back.
    back: Vec<(Nanoseconds, NodeId)>,
}

/// Why there are no such machines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMachines {
    #[error("machines of more than {} pools", Kinds::MOST)]
    Pools,
    #[error("a loss names pool {0:?}, which has no machines")]
    NoPool(String),
    #[error("a loss of racks of pool {0:?}, whose machines say no `rack`")]
    NoRack(String),
}

impl KernelMachines {
    /// # Errors
    /// When there are too many pools, or a loss is of none.
    pub fn new(
        machines: &[ScaleMachines],
        losses: &[ScaleLoss],
        seed: u64,
    ) -> Result<Self, NoMachines> {
        let mut fleet = Fleet::default();
        let mut pools: Vec<String> = Vec::new();
        for group in machines {
            let known = pools.iter().position(|pool| *pool == group.pool);
            let kind = known.unwrap_or_else(|| {
                pools.push(group.pool.clone());
                fleet.kinds.push(GpuKind::named(group.pool.clone()));
                pools.len() - 1
            });
            add(&mut fleet, group, KindId(kind as u32));
        }
        if pools.len() > Kinds::MOST {
            return Err(NoMachines::Pools);
        }
        fleet.name_uids();
        let mut risks = Vec::new();
        for loss in losses {
            for nodes in together(&fleet, &pools, loss)? {
                let mut risk = Risk {
                    stream: RandomStream::new(seed, "machines", risks.len() as u64),
                    loss: loss.clone(),
                    nodes,
                    next: None,
                };
                risk.draw(Nanoseconds(0));
                risks.push(risk);
            }
        }
        Ok(Self {
            world: World::new(&fleet),
            policy: Policy::new(Box::new(Indexed::<BestFit>::default())),
            pools,
            places: BTreeMap::new(),
            jobs: 0,
            risks,
            back: Vec::new(),
        })
    }

    pub const fn world(&self) -> &World {
        &self.world
    }

    fn kind(&self, pool: &str) -> Option<KindId> {
        let at = self.pools.iter().position(|one| one == pool)?;
        Some(KindId(at as u32))
    }

    /// Whether the world took it: what is refused has not happened.
    fn tell(&mut self, at: Nanoseconds, event: Event) -> bool {
        self.world.apply(&TimestampedEvent { at, event }).is_ok()
    }

    fn takes_work(&self, node: NodeId) -> bool {
        let state = self.world.node(node);
        state.is_some_and(|state| state.node.health.takes_work())
    }

    /// GPUs of a kind on nodes that take work.
    fn usable(&self, kind: KindId) -> u32 {
        let nodes = (0..).map(NodeId).map_while(|id| self.world.node(id));
        let open = nodes.filter(|state| state.node.health.takes_work());
        let gpus = open.flat_map(|state| &state.node.gpus);
        let of_kind = gpus.filter(|gpu| {
            let state = self.world.gpu(**gpu);
            state.is_some_and(|state| state.gpu.kind == kind)
        });
        of_kind.count() as u32
    }

    /// Nodes take nothing more until they are back; who stands there is gone then.
    fn close(
        &mut self,
        now: Nanoseconds,
        nodes: &[NodeId],
        gone: Nanoseconds,
        back: Nanoseconds,
    ) -> Vec<Lost> {
        let mut lost = Vec::new();
        for node in nodes {
            if !self.takes_work(*node) {
                continue;
            }
            let health = Health::Draining;
            let node = *node;
            self.tell(now, Event::NodeHealth { node, health });
            self.back.push((back, node));
            let on = self.places.iter().filter(|(_, at)| **at == node);
            lost.extend(on.map(|(place, _)| Lost {
                place: Place(*place),
                gone,
            }));
        }
        lost
    }

    fn reopen(&mut self, now: Nanoseconds) {
        let (due, left) = (self.back.iter().copied()).partition(|(at, _)| *at <= now);
        self.back = left;
        let due: Vec<(Nanoseconds, NodeId)> = due;
        for (_, node) in due {
            let health = Health::Up;
            self.tell(now, Event::NodeHealth { node, health });
        }
    }
}

/// Nodes of a group, and their racks.
fn add(fleet: &mut Fleet, group: &ScaleMachines, kind: KindId) {
    for at in 0..group.nodes {
        let first = fleet.gpus.len() as u32;
        let id = NodeId(fleet.nodes.len() as u32);
        if group.rack.is_some_and(|rack| at % rack.max(1) == 0) {
            fleet.domains.push(Domain {
                name: format!("{} rack {}", group.pool, fleet.domains.len()),
                level: Level::Rack,
                parent: None,
            });
        }
        let rack = fleet.domains.len().saturating_sub(1) as u32;
        let gpus = (0..group.gpus).map(|index| FleetGpu::new(kind, Home::Node(id), index));
        fleet.gpus.extend(gpus);
        fleet.nodes.push(Node {
            name: format!("{} {}", group.pool, fleet.nodes.len()),
            cpu_milli: Node::CPU_UNKNOWN,
            memory_mib: Node::MEMORY_UNKNOWN,
            gpus: (first..first + group.gpus).map(GpuId).collect(),
            domain: group.rack.map(|_| DomainId(rack)),
            ..Node::default()
        });
    }
}

/// Nodes that a loss takes at once: each by itself, by rack, or by pool.
fn together(
    fleet: &Fleet,
    pools: &[String],
    loss: &ScaleLoss,
) -> Result<Vec<Vec<NodeId>>, NoMachines> {
    let mut groups: BTreeMap<(usize, u32), Vec<NodeId>> = BTreeMap::new();
    if let Some(pool) = loss.pool.as_ref().filter(|pool| !pools.contains(pool)) {
        return Err(NoMachines::NoPool(pool.clone()));
    }
    for (node, id) in fleet.nodes.iter().zip(0..) {
        let first = node
            .gpus
            .first()
            .and_then(|gpu| fleet.gpus.get(gpu.index()));
        let kind = first.map_or(0, |gpu| gpu.kind.index());
        let pool = pools.get(kind).map_or("", String::as_str);
        if loss.pool.as_ref().is_some_and(|only| only != pool) {
            continue;
        }
        let key = match (loss.of, node.domain) {
            (ScaleLossOf::Node, _) => (kind, id),
            (ScaleLossOf::Rack, Some(rack)) => (kind, rack.0),
            (ScaleLossOf::Rack, None) => return Err(NoMachines::NoRack(pool.to_owned())),
            (ScaleLossOf::Pool, _) => (kind, 0),
        };
        groups.entry(key).or_default().push(NodeId(id));
    }
    Ok(groups.into_values().collect())
}

impl Machines for KernelMachines {
    fn gpus(&self, pool: &str) -> Option<u32> {
        self.kind(pool).map(|kind| self.usable(kind))
    }

    fn take(&mut self, now: Nanoseconds, pool: &str, gpus: u32) -> Option<Place> {
        let kind = self.kind(pool)?;
        let id = JobId(self.jobs);
        self.jobs += 1;
        let ask = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: GpuAsk::Whole {
                count: gpus,
                kinds: Kinds::one(kind),
                need: Need::default(),
            },
        };
        let job = Job {
            submitted: now,
            ..Job::new(id, String::new(), ask)
        };
        if !self.tell(now, Event::Submitted(job)) {
            return None;
        }
        let (plan, _) = decide(now, &self.world, &[id], &mut self.policy, Effort::BARE);
        let placed = plan.actions.iter().find_map(|action| match action {
            Action::Place { job, assignments } if *job == id => assignments.first(),
            _ => None,
        });
        let node = placed.map(|assignment| assignment.node);
        let accepted = node.is_some() && self.world.accept(&plan).is_ok();
        let Some(node) = node.filter(|_| accepted) else {
            let how = Ended::Cancelled;
            self.tell(now, Event::Ended { job: id, how });
            return None;
        };
        for action in plan.actions {
            self.tell(now, Event::done(action));
        }
        self.places.insert(u64::from(id.0), node);
        Some(Place(u64::from(id.0)))
    }

    fn give(&mut self, now: Nanoseconds, place: Place) {
        if self.places.remove(&place.0).is_some() {
            let job = JobId(place.0 as u32);
            let how = Ended::Finished;
            self.tell(now, Event::Ended { job, how });
        }
    }

    fn lost(&mut self, now: Nanoseconds) -> Vec<Lost> {
        self.reopen(now);
        let mut due = Vec::new();
        for risk in &mut self.risks {
            if risk.next.is_some_and(|next| next <= now) {
                let gone = now + risk.loss.notice;
                let back = gone + risk.loss.outage;
                risk.draw(back);
                due.push((risk.nodes.clone(), gone, back));
            }
        }
        let each = due.into_iter();
        each.flat_map(|(nodes, gone, back)| self.close(now, &nodes, gone, back))
            .collect()
    }

    fn reclaim(
        &mut self,
        now: Nanoseconds,
        pool: &str,
        share: f64,
        gone: Nanoseconds,
        back: Nanoseconds,
    ) -> Vec<Lost> {
        let Some(kind) = self.kind(pool) else {
            return Vec::new();
        };
        let of_pool = |id: &NodeId| {
            let node = self.world.node(*id);
            let first = node.and_then(|state| state.node.gpus.first());
            let gpu = first.and_then(|gpu| self.world.gpu(*gpu));
            gpu.is_some_and(|state| state.gpu.kind == kind) && self.takes_work(*id)
        };
        let nodes = (0..)
            .map(NodeId)
            .take_while(|id| self.world.node(*id).is_some());
        let nodes: Vec<NodeId> = nodes.filter(of_pool).collect();
        let most = (nodes.len() as f64 * share - 1e-9).ceil().max(0.0) as usize;
        let taken: Vec<NodeId> = nodes.into_iter().take(most).collect();
        self.close(now, &taken, gone, back)
    }
}
