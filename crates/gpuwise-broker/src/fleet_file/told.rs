//! A fleet file in the numbers of the fleet of the log: kinds, domains, islands and pools that are new are added.

use crate::Broker;
use gpuwise_domain::placement::{
    Domain, DomainId, Event, Fleet, FleetGpu, GpuId, GpuKind, Home, IslandId, KindId, Kinds, Node,
    NodeId, PoolId, Queue, QueueId, Quota, Uid,
};
use gpuwise_sched::world::Link;
use gpuwise_wire::broker::{ChangeKind, FleetChange, FleetPart};
use std::collections::BTreeSet;

/// What a file tells, and what follows of it so far.
pub(super) struct Told {
    pub(super) fleet: Fleet,
    /// Numbers of the log by those of the file; `None`: it cannot be added.
    kinds: Vec<Option<KindId>>,
    domains: Vec<Option<DomainId>>,
    islands: Vec<IslandId>,
    pools: Vec<Option<PoolId>>,
    /// Lasting ids that were told once.
    seen: BTreeSet<Uid>,
    /// What is added, in order.
    pub(super) events: Vec<Event>,
    pub(super) changes: Vec<FleetChange>,
}

impl Told {
    pub(super) fn new(broker: &Broker, fleet: &Fleet) -> Self {
        let mut told = Self {
            fleet: fleet.clone(),
            kinds: Vec::new(),
            domains: Vec::new(),
            islands: Vec::new(),
            pools: Vec::new(),
            seen: BTreeSet::new(),
            events: Vec::new(),
            changes: Vec::new(),
        };
        told.fleet.name_uids();
        told.map_kinds(broker, &fleet.kinds);
        told.map_domains(broker, &fleet.domains);
        let mut islands = broker.world.islands().to_vec();
        for name in &fleet.islands {
            let (at, is_new) = place(&mut islands, name, |one| one == name);
            if is_new {
                told.events.push(Event::IslandAdded { name: name.clone() });
            }
            told.islands.push(IslandId(at));
        }
        told.map_pools(broker);
        told
    }

    pub(super) fn change(
        &mut self,
        part: FleetPart,
        name: &str,
        change: ChangeKind,
        (detail, refused): (Option<String>, Option<String>),
    ) {
        self.changes.push(FleetChange {
            part,
            name: name.to_owned(),
            change,
            detail,
            refused,
        });
    }

    fn map_kinds(&mut self, broker: &Broker, kinds: &[GpuKind]) {
        let mut known = broker.world.kinds().to_vec();
        for kind in kinds {
            let same = |one: &GpuKind| one.name == kind.name && one.features == kind.features;
            let full = known.len() >= Kinds::MOST;
            let Some(at) = known.iter().position(same) else {
                let refused = full.then(|| format!("a fleet has at most {} kinds", Kinds::MOST));
                self.kinds
                    .push((!full).then_some(KindId(known.len() as u32)));
                if !full {
                    known.push(kind.clone());
                    self.events.push(Event::KindAdded(kind.clone()));
                }
                let label = kind.label().into_owned();
                self.change(FleetPart::Gpu, &label, ChangeKind::Added, (None, refused));
                continue;
            };
            self.kinds.push(Some(KindId(at as u32)));
            let bare = |kind: &GpuKind| GpuKind {
                price: None,
                ..kind.clone()
            };
            if known.get(at).is_some_and(|one| bare(one) != bare(kind)) {
                let why = "what is known of a kind of GPU stays as the log began with it: give it another name in \
                           [[gpu_kind]] and its nodes that one";
                let label = kind.label().into_owned();
                let refused = (None, Some(why.into()));
                self.change(FleetPart::Gpu, &label, ChangeKind::Changed, refused);
            }
        }
    }

    fn map_domains(&mut self, broker: &Broker, domains: &[Domain]) {
        let mut known = broker.world.domains().to_vec();
        for domain in domains {
            let parent = domain.parent.and_then(|parent| self.domain(parent));
            let own = Domain {
                parent,
                ..domain.clone()
            };
            let same = |one: &Domain| one.name == own.name && one.level == own.level;
            let (at, is_new) = place(&mut known, &own, same);
            self.domains.push(Some(DomainId(at)));
            if is_new {
                self.events.push(Event::DomainAdded(own));
                let level = Some(domain.level.name().to_owned());
                let added = (level, None);
                self.change(FleetPart::Domain, &domain.name, ChangeKind::Added, added);
            } else if known.get(at as usize) != Some(&own) {
                let why =
                    "a rack, block or zone stays where it was in the fleet: give it another name";
                let level = Some(domain.level.name().to_owned());
                let refused = (level, Some(why.into()));
                self.change(
                    FleetPart::Domain,
                    &domain.name,
                    ChangeKind::Changed,
                    refused,
                );
            }
        }
    }

    fn map_pools(&mut self, broker: &Broker) {
        let mut known = broker.world.pools().to_vec();
        for pool in &self.fleet.pools.clone() {
            let (at, is_new) = place(&mut known, pool, |one| one.name == pool.name);
            self.pools.push(Some(PoolId(at)));
            if is_new {
                self.events.push(Event::PoolAdded(pool.clone()));
                self.change(FleetPart::Pool, &pool.name, ChangeKind::Added, (None, None));
            } else if known.get(at as usize) != Some(pool) {
                let why = "attach and detach times and hot plug stay as the log began with them";
                let refused = (None, Some(why.into()));
                self.change(FleetPart::Pool, &pool.name, ChangeKind::Changed, refused);
            }
        }
    }

    fn domain(&self, id: DomainId) -> Option<DomainId> {
        self.domains.get(id.index()).copied().flatten()
    }

    pub(super) fn pool(&self, id: PoolId) -> Option<PoolId> {
        self.pools.get(id.index()).copied().flatten()
    }

    /// A GPU in the log's numbers, at a home; `None`: its kind cannot be added.
    pub(super) fn gpu(&self, gpu: &FleetGpu, home: Home) -> Option<FleetGpu> {
        Some(FleetGpu {
            kind: (*self.kinds.get(gpu.kind.index())?)?,
            home,
            island: gpu
                .island
                .and_then(|one| self.islands.get(one.index()).copied()),
            ..gpu.clone()
        })
    }

    /// A node and its GPUs in the log's numbers; `None`: a kind of its GPUs cannot be added.
    pub(super) fn node(&self, node: &Node, id: NodeId) -> Option<(Node, Vec<FleetGpu>)> {
        let own = |gpu: &GpuId| self.gpu(self.fleet.gpus.get(gpu.index())?, Home::Node(id));
        let gpus: Option<Vec<FleetGpu>> = node.gpus.iter().map(own).collect();
        let pools = node.pools.iter().filter_map(|pool| self.pool(*pool));
        let told = Node {
            gpus: Vec::new(),
            domain: node.domain.and_then(|domain| self.domain(domain)),
            pools: pools.collect(),
            ..node.clone()
        };
        Some((told, gpus?))
    }

    /// Why nothing can have these names: one of them is taken.
    pub(super) fn taken(
        &mut self,
        broker: &Broker,
        node: &Node,
        gpus: &[FleetGpu],
    ) -> Option<String> {
        if node.name.is_empty() {
            return Some("a node needs a name".into());
        }
        if !self.seen.insert(node.uid.clone()) {
            return Some("the file names it twice".into());
        }
        for gpu in gpus {
            if !self.seen.insert(gpu.uid.clone()) {
                return Some(format!("the file names GPU {} twice", gpu.uid));
            }
            let known = broker.world.gpu_named(&gpu.uid);
            let known = known.and_then(|id| broker.world.gpu(id));
            let elsewhere = |known: &gpuwise_sched::world::GpuState| {
                known.link != Link::Gone && known.gpu.home != gpu.home
            };
            if known.is_some_and(elsewhere) {
                let what = "is elsewhere in the fleet: take it out there first";
                return Some(format!("GPU {} {what}", gpu.uid));
            }
        }
        None
    }

    /// Queues in the log's numbers.
    pub(super) fn queues(&self, broker: &Broker) -> Vec<Queue> {
        let known = broker.world.queues();
        let kinds = |kinds: Kinds| {
            if kinds == Kinds::ANY {
                return kinds;
            }
            let own = kinds
                .iter()
                .filter_map(|kind| *self.kinds.get(kind.index())?);
            own.fold(Kinds::NONE, Kinds::with)
        };
        let parent = |id: QueueId| {
            let name = &self.fleet.queues.get(id.index())?.name;
            let at = known.iter().position(|one| one.name == *name)?;
            Some(QueueId(at as u32))
        };
        let own = |queue: &Queue| Queue {
            parent: queue.parent.and_then(parent),
            quotas: queue
                .quotas
                .iter()
                .map(|quota| Quota {
                    kinds: kinds(quota.kinds),
                    ..*quota
                })
                .collect(),
            ..queue.clone()
        };
        self.fleet.queues.iter().map(own).collect()
    }
}

/// The place of one that is the same, which is added where there is none; whether it was.
fn place<T: Clone>(known: &mut Vec<T>, one: &T, same: impl Fn(&T) -> bool) -> (u32, bool) {
    if let Some(at) = known.iter().position(same) {
        return (at as u32, false);
    }
    known.push(one.clone());
    (known.len() as u32 - 1, true)
}
