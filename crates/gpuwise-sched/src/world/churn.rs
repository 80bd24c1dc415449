//! What there is changes: nodes and GPUs join, change, leave and come back; kinds, domains, islands and
//! pools are added. Nodes and GPUs are recognized by their lasting ids, the rest by name.

use super::{Link, Refused, Tenancy, World};
use gpuwise_domain::placement::{
    Domain, Event, FabricPool, FleetGpu, GpuId, GpuKind, Health, Home, Kinds, NodeId, Uid,
};
use gpuwise_units::Nanoseconds;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Nodes and GPUs by their lasting ids. Only looked up, never walked through.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Known {
    nodes: FxHashMap<Uid, NodeId>,
    gpus: FxHashMap<Uid, GpuId>,
}

/// It follows from the nodes and GPUs.
impl PartialEq for Known {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Known {
    pub(super) fn note_node(&mut self, uid: &Uid, id: NodeId) {
        self.nodes.entry(uid.clone()).or_insert(id);
    }

    pub(super) fn note_gpu(&mut self, uid: &Uid, id: GpuId) {
        self.gpus.entry(uid.clone()).or_insert(id);
    }
}

impl World {
    /// The node of a lasting id, whether or not it is still of the fleet.
    pub fn node_named(&self, uid: &Uid) -> Option<NodeId> {
        self.known.nodes.get(uid).copied()
    }

    /// The GPU of a lasting id, whether or not it is still of the fleet.
    pub fn gpu_named(&self, uid: &Uid) -> Option<GpuId> {
        self.known.gpus.get(uid).copied()
    }

    pub(super) fn churn(&mut self, at: Nanoseconds, event: &Event) -> Result<(), Refused> {
        match event {
            Event::NodeJoined { node, gpus } => self.inventory(at, node, gpus),
            Event::NodeLeft { node } => self.node_left(at, *node),
            Event::GpuJoined(gpu) => self.gpu_joined(at, gpu),
            Event::GpuLeft { gpu } => self.gpu_left(at, *gpu),
            Event::KindAdded(kind) => self.kind_added(at, kind),
            Event::DomainAdded(domain) => self.domain_added(domain),
            Event::IslandAdded { name } => {
                if self.islands.contains(name) {
                    self.ignored.repeated += 1;
                } else {
                    Arc::make_mut(&mut self.islands).push(name.clone());
                }
                Ok(())
            }
            Event::PoolAdded(pool) => self.pool_added(pool),
            _ => Ok(()),
        }
    }

    fn kind_added(&mut self, at: Nanoseconds, kind: &GpuKind) -> Result<(), Refused> {
        let same = |one: &&GpuKind| one.name == kind.name && one.features == kind.features;
        match self.kinds.iter().find(same) {
            Some(known) if known == kind => self.ignored.repeated += 1,
            Some(_) => return Err(Refused::Second("kind of GPU")),
            None if self.kinds.len() >= Kinds::MOST => return Err(Refused::Second("kind of GPU")),
            None => {
                self.kinds.push(kind.clone());
                self.rebook(at);
            }
        }
        Ok(())
    }

    fn domain_added(&mut self, domain: &Domain) -> Result<(), Refused> {
        if domain
            .parent
            .is_some_and(|parent| parent.index() >= self.domains.len())
        {
            return Err(Refused::Dangling("domain"));
        }
        let same = |one: &&Domain| one.name == domain.name && one.level == domain.level;
        match self.domains.iter().find(same) {
            Some(known) if known == domain => self.ignored.repeated += 1,
            Some(_) => return Err(Refused::Second("domain")),
            None => Arc::make_mut(&mut self.domains).push(domain.clone()),
        }
        Ok(())
    }

    fn pool_added(&mut self, pool: &FabricPool) -> Result<(), Refused> {
        match self.pools.iter().find(|one| one.name == pool.name) {
            Some(known) if known == pool => self.ignored.repeated += 1,
            Some(_) => return Err(Refused::Second("pool")),
            None => self.pools.push(pool.clone()),
        }
        Ok(())
    }

    fn node_left(&mut self, at: Nanoseconds, id: NodeId) -> Result<(), Refused> {
        let state = self.node(id).ok_or(Refused::NoSuchNode(id))?;
        if state.left {
            self.ignored.repeated += 1;
            return Ok(());
        }
        let own = state.node.gpus.clone();
        self.goes_down(at, id, Health::Lost { xid: 0 });
        for gpu in own {
            self.take_out(at, gpu);
        }
        if let Some(state) = self.nodes.get_mut(id.index()) {
            state.left = true;
            state.fence = None;
            state.node.gpus.clear();
        }
        self.recount(id);
        self.rebook(at);
        Ok(())
    }

    fn gpu_joined(&mut self, at: Nanoseconds, gpu: &FleetGpu) -> Result<(), Refused> {
        self.check_gpu(gpu)?;
        let Home::Pool(pool) = gpu.home else {
            return Err(Refused::Dangling("pool"));
        };
        let mut gpu = gpu.clone();
        let home = self
            .pools
            .get(pool.index())
            .map_or("?", |pool| pool.name.as_str());
        gpu.name_uid(home);
        let known = self.gpu_named(&gpu.uid).and_then(|id| self.gpu(id));
        if known.is_some_and(|known| known.gpu == gpu && known.link != Link::Gone) {
            self.ignored.repeated += 1;
            return Ok(());
        }
        self.put_gpu(at, &gpu, None);
        self.rebook(at);
        Ok(())
    }

    fn gpu_left(&mut self, at: Nanoseconds, id: GpuId) -> Result<(), Refused> {
        let state = self.gpu(id).ok_or(Refused::NoSuchGpu(id))?;
        if state.link == Link::Gone {
            self.ignored.repeated += 1;
            return Ok(());
        }
        let home = state.gpu.home;
        self.take_out(at, id);
        if let Home::Node(node) = home
            && let Some(state) = self.nodes.get_mut(node.index())
        {
            state.node.gpus.retain(|gpu| *gpu != id);
            self.recount(node);
        }
        self.rebook(at);
        Ok(())
    }

    /// A GPU is no longer where it was; who had something of it loses that.
    pub(super) fn take_out(&mut self, at: Nanoseconds, id: GpuId) {
        let jobs = self.jobs_near(id);
        let Some(state) = self.gpus.get_mut(id.index()) else {
            return;
        };
        state.link = Link::Gone;
        let health = std::mem::replace(&mut state.gpu.health, Health::Lost { xid: 0 });
        self.lose_dead(at, jobs);
        self.empty(id);
        let Some(state) = self.gpus.get_mut(id.index()) else {
            return;
        };
        state.gpu.health = health;
        state.gpu.mig_on = false;
        state.held = Tenancy::Free;
        if let Some(node) = state.node.take() {
            if let Some(node) = self.nodes.get_mut(node.index()) {
                node.gpus.retain(|one| *one != id);
            }
            self.recount(node);
        }
    }
}
