//! Inventories of nodes and GPUs: new ones join, known ones are as is told.

use super::{GpuState, Link, NodeState, Refused, World};
use gpuwise_domain::placement::{FleetGpu, GpuId, Home, Node, NodeId, PoolId};
use gpuwise_units::Nanoseconds;
use std::sync::Arc;

impl World {
    pub(super) fn check_gpu(&self, gpu: &FleetGpu) -> Result<(), Refused> {
        if gpu.kind.index() >= self.kinds.len() {
            return Err(Refused::Dangling("kind of GPU"));
        }
        if gpu
            .island
            .is_some_and(|one| one.index() >= self.islands.len())
        {
            return Err(Refused::Dangling("island"));
        }
        match gpu.home {
            Home::Pool(pool) if pool.index() >= self.pools.len() => Err(Refused::Dangling("pool")),
            _ => Ok(()),
        }
    }

    fn check_inventory(&self, node: &Node, gpus: &[FleetGpu]) -> Result<(), Refused> {
        for (gpu, at) in gpus.iter().zip(0..) {
            self.check_gpu(gpu)?;
            let before = gpus.iter().take(at);
            let mut alike = before.filter(|other| other.uid == gpu.uid && !gpu.uid.is_empty());
            if alike.next().is_some() {
                return Err(Refused::Second("GPU"));
            }
        }
        if node
            .domain
            .is_some_and(|one| one.index() >= self.domains.len())
        {
            return Err(Refused::Dangling("domain"));
        }
        let there = |pool: &PoolId| pool.index() < self.pools.len();
        let there = node.pools.iter().all(there);
        there.then_some(()).ok_or(Refused::Dangling("pool"))
    }

    /// The inventory of a node: it is new, or as it is now.
    pub(super) fn inventory(
        &mut self,
        at: Nanoseconds,
        node: &Node,
        gpus: &[FleetGpu],
    ) -> Result<(), Refused> {
        if self.takes_inventory(at, node, gpus)? {
            self.rebook(at);
        }
        Ok(())
    }

    /// Nodes join at once, for worlds on which that is only tried: queues are counted anew once.
    pub(crate) fn joined(&mut self, nodes: &[(Node, Vec<FleetGpu>)]) -> Result<(), Refused> {
        let at = self.now;
        let (nodes_before, gpus_before) = (self.nodes.len(), self.gpus.len());
        for (node, gpus) in nodes {
            self.takes_inventory(at, node, gpus)?;
        }
        let gpus: usize = nodes.iter().map(|(_, gpus)| gpus.len()).sum();
        if self.nodes.len() == nodes_before + nodes.len() && self.gpus.len() == gpus_before + gpus {
            self.book_joined(at, nodes);
        } else {
            self.rebook(at);
        }
        Ok(())
    }

    /// Takes a node's inventory; whether anything is otherwise than it was.
    fn takes_inventory(
        &mut self,
        at: Nanoseconds,
        node: &Node,
        gpus: &[FleetGpu],
    ) -> Result<bool, Refused> {
        self.check_inventory(node, gpus)?;
        let mut node = node.clone();
        node.name_uid();
        let id = self.node_named(&node.uid);
        let new = id.is_none();
        let id = id.unwrap_or(NodeId(self.nodes.len() as u32));
        let gpus: Vec<FleetGpu> = gpus
            .iter()
            .map(|gpu| {
                let home = Home::Node(id);
                let mut gpu = FleetGpu {
                    home,
                    ..gpu.clone()
                };
                gpu.name_uid(&node.uid);
                gpu
            })
            .collect();
        if !new && self.is_as_known(id, &node, &gpus) {
            self.ignored.repeated += 1;
            return Ok(false);
        }
        if new {
            node.gpus.clear();
            self.nodes.push(NodeState::new(&node));
            Arc::make_mut(&mut self.known).note_node(&node.uid, id);
        } else {
            self.removes_gpus(at, id, &gpus);
        }
        let own: Vec<GpuId> = gpus
            .iter()
            .map(|gpu| self.put_gpu(at, gpu, Some(id)))
            .collect();
        self.changes_node(at, id, Node { gpus: own, ..node });
        self.enlist(id);
        self.recount(id);
        Ok(true)
    }

    fn is_as_known(&self, id: NodeId, node: &Node, gpus: &[FleetGpu]) -> bool {
        let Some(state) = self.node(id) else {
            return false;
        };
        let own: Vec<&FleetGpu> = (state.node.gpus.iter())
            .filter_map(|gpu| self.gpu(*gpu).map(|gpu| &gpu.gpu))
            .collect();
        // Whether MIG is on is what was made of it since.
        let same = |(known, told): (&&FleetGpu, &FleetGpu)| {
            FleetGpu {
                mig_on: told.mig_on,
                ..(*known).clone()
            } == *told
        };
        let bare = |node: &Node| Node {
            gpus: Vec::new(),
            ..node.clone()
        };
        !state.left
            && state.fence.is_none()
            && bare(&state.node) == bare(node)
            && own.len() == gpus.len()
            && own.iter().zip(gpus).all(same)
    }

    /// GPUs of a node that its inventory does not name, or that are another kind now, leave.
    fn removes_gpus(&mut self, at: Nanoseconds, id: NodeId, gpus: &[FleetGpu]) {
        let own = self
            .node(id)
            .map_or_else(Vec::new, |state| state.node.gpus.clone());
        for gpu in own {
            let stays = self.gpu(gpu).is_some_and(|state| {
                let told = gpus.iter().find(|one| one.uid == state.gpu.uid);
                told.is_some_and(|told| told.kind == state.gpu.kind)
            });
            if !stays {
                self.take_out(at, gpu);
            }
        }
    }

    /// A GPU is there as is told, new or known; gives its number.
    pub(super) fn put_gpu(
        &mut self,
        at: Nanoseconds,
        gpu: &FleetGpu,
        node: Option<NodeId>,
    ) -> GpuId {
        let Some(id) = self.gpu_named(&gpu.uid) else {
            let id = GpuId(self.gpus.len() as u32);
            self.gpus.push(GpuState::new(gpu));
            Arc::make_mut(&mut self.known).note_gpu(&gpu.uid, id);
            return id;
        };
        let away = self.gpu(id).is_none_or(|state| {
            state.link == Link::Gone || state.gpu.home != gpu.home || state.gpu.kind != gpu.kind
        });
        if away {
            self.take_out(at, id);
            if let Some(state) = self.gpus.get_mut(id.index()) {
                let attempt = state.attempt;
                *state = GpuState::new(gpu);
                state.attempt = attempt;
            }
            return id;
        }
        let was = self.gpu(id).map(|state| state.gpu.health);
        if let Some(state) = self.gpus.get_mut(id.index()) {
            // What was made of it since is known better here.
            let mig_on = state.gpu.mig_on;
            state.gpu = FleetGpu {
                mig_on,
                ..gpu.clone()
            };
            if node.is_none() && state.node.is_none() {
                state.link = Link::InPool;
            }
        }
        if was != Some(gpu.health) {
            let _ = self.gpu_health(at, id, gpu.health);
        }
        id
    }

    /// A node is as is told. Where its processor time or memory is too little for who is there, who came last
    /// loses its place.
    fn changes_node(&mut self, at: Nanoseconds, id: NodeId, node: Node) {
        let health = node.health;
        let Some(state) = self.nodes.get_mut(id.index()) else {
            return;
        };
        let used = |all: u64, free: u64| all.saturating_sub(free);
        let cpu = used(state.node.cpu_milli, state.cpu_free);
        let memory = used(state.node.memory_mib, state.memory_free);
        state.cpu_free = node.cpu_milli.saturating_sub(cpu);
        state.memory_free = node.memory_mib.saturating_sub(memory);
        let over = cpu > node.cpu_milli || memory > node.memory_mib;
        let attached = state
            .gpus
            .iter()
            .filter(|gpu| !state.node.gpus.contains(gpu));
        let attached: Vec<GpuId> = attached
            .copied()
            .filter(|gpu| !node.gpus.contains(gpu))
            .collect();
        state.gpus = node.gpus.iter().copied().chain(attached).collect();
        (state.fence, state.left) = (None, false);
        let before = state.node.health;
        state.node = Node {
            health: if before.keeps_work() { before } else { health },
            ..node
        };
        if over {
            let jobs = self.jobs_on(id);
            let mut jobs: Vec<_> = jobs
                .into_iter()
                .filter_map(|job| Some((self.job(job)?.attempt, job)))
                .collect();
            jobs.sort_unstable();
            while self.is_over(id)
                && let Some((_, job)) = jobs.pop()
            {
                let kept = self.job(job).map(|state| {
                    let kept = state.assignments.iter().filter(|one| one.node != id);
                    kept.cloned().collect()
                });
                self.lose(at, job, kept.unwrap_or_default());
            }
        }
        if !health.keeps_work() {
            self.goes_down(at, id, health);
        } else if let Some(state) = self.nodes.get_mut(id.index()) {
            state.node.health = health;
        }
    }

    /// Whether those on a node use more than it has; counts anew what is free.
    fn is_over(&mut self, id: NodeId) -> bool {
        let (mut cpu, mut memory) = (0_u64, 0_u64);
        for state in self.jobs.values() {
            let here = state.assignments.iter().filter(|one| one.node == id);
            let workers = here.count() as u64;
            cpu += workers * state.job.worker.cpu_milli;
            memory += workers * state.job.worker.memory_mib;
        }
        let Some(state) = self.nodes.get_mut(id.index()) else {
            return false;
        };
        state.cpu_free = state.node.cpu_milli.saturating_sub(cpu);
        state.memory_free = state.node.memory_mib.saturating_sub(memory);
        cpu > state.node.cpu_milli || memory > state.node.memory_mib
    }
}
