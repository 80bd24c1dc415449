//! Nodes and GPUs: instances, links, health.

use super::{GpuState, Instance, Link, NodeState, Refused, Tenancy, World};
use gpuwise_domain::placement::{
    Action, Attempt, GpuId, Health, Home, JobId, MigGeometry, NodeId, Part, PoolId,
};
use gpuwise_units::Nanoseconds;

impl World {
    pub(super) fn instances(&self, gpu: GpuId) -> &[Instance] {
        match self.gpu(gpu).map(|state| &state.held) {
            Some(Tenancy::Sliced(instances)) => instances,
            _ => &[],
        }
    }

    pub(super) fn instance(&mut self, gpu: GpuId, start: u8) -> Option<&mut Instance> {
        match &mut self.gpus.get_mut(gpu.index())?.held {
            Tenancy::Sliced(instances) => instances.iter_mut().find(|one| one.start == start),
            _ => None,
        }
    }

    fn geometry(&self, gpu: &GpuState) -> Option<&MigGeometry> {
        self.kind(gpu.gpu.kind)?.mig.as_ref()
    }

    /// Whether a GPU's instances and mode may be changed: it and its node are up.
    fn is_open(&self, state: &GpuState) -> bool {
        let node = state.node.and_then(|node| self.node(node));
        state.takes_work() && node.is_some_and(NodeState::takes_work)
    }

    pub(super) fn set_mig(
        &mut self,
        gpu: GpuId,
        on: bool,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        if !self.is_open(state) {
            return Err(Refused::GpuClosed(gpu));
        }
        let held = match (&state.held, on) {
            (Tenancy::Free, true) if self.geometry(state).is_some() => Tenancy::Sliced(Vec::new()),
            (Tenancy::Sliced(instances), false) if instances.is_empty() => Tenancy::Free,
            _ => return Err(Refused::WrongState(gpu)),
        };
        if state.switching {
            return Err(Refused::WrongState(gpu));
        }
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.held = held;
            state.gpu.mig_on = on;
            state.switching = true;
            state.switch_attempt = attempt;
        }
        self.recount_around(gpu);
        Ok(())
    }

    pub(super) fn switched(&mut self, gpu: GpuId) {
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.switching = false;
        }
    }

    /// The mode is what it was, and nothing is on the GPU.
    pub(super) fn switch_back(&mut self, gpu: GpuId) {
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            if state.switching {
                state.gpu.mig_on = !state.gpu.mig_on;
                state.switching = false;
            }
            state.held = if state.gpu.mig_on {
                Tenancy::Sliced(Vec::new())
            } else {
                Tenancy::Free
            };
        }
    }

    pub(super) fn create_instance(
        &mut self,
        gpu: GpuId,
        shape: u8,
        start: u8,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        if !self.is_open(state) {
            return Err(Refused::GpuClosed(gpu));
        }
        let (Some(geometry), Tenancy::Sliced(instances)) = (self.geometry(state), &state.held)
        else {
            return Err(Refused::WrongState(gpu));
        };
        if !geometry.has_room(&places(instances), shape, start) {
            return Err(Refused::Geometry(gpu));
        }
        let instance = Instance {
            shape,
            start,
            holder: None,
            ready: false,
            attempt,
        };
        self.put_instance(gpu, instance);
        Ok(())
    }

    fn put_instance(&mut self, gpu: GpuId, instance: Instance) {
        if let Some(state) = self.gpus.get_mut(gpu.index())
            && let Tenancy::Sliced(instances) = &mut state.held
        {
            let at = instances.partition_point(|one| one.start < instance.start);
            instances.insert(at, instance);
        }
        self.recount_around(gpu);
    }

    /// An instance cannot be created while what is being destroyed is in its way.
    pub(super) fn create_is_ready(&self, gpu: GpuId, shape: u8, start: u8) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        let Some(geometry) = self.geometry(state) else {
            return Err(Refused::WrongState(gpu));
        };
        let there = self.instances(gpu).iter().filter(|one| one.ready);
        let present: Vec<Instance> = there.chain(&state.going).copied().collect();
        let room = geometry.has_room(&places(&present), shape, start);
        let ready = room && !state.switching && state.link == Link::Here;
        ready.then_some(()).ok_or(Refused::GpuNotReady(gpu))
    }

    pub(super) fn destroy_instance(
        &mut self,
        gpu: GpuId,
        start: u8,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let state = self
            .gpus
            .get_mut(gpu.index())
            .ok_or(Refused::NoSuchGpu(gpu))?;
        let Tenancy::Sliced(instances) = &mut state.held else {
            return Err(Refused::WrongState(gpu));
        };
        let idle = |one: &Instance| one.start == start && one.holder.is_none() && one.ready;
        let Some(at) = instances.iter().position(idle) else {
            return Err(Refused::WrongState(gpu));
        };
        let going = instances.remove(at);
        state.going.push(Instance { attempt, ..going });
        self.recount_around(gpu);
        Ok(())
    }

    /// An instance cannot be destroyed while somebody is on it.
    pub(super) fn destroy_is_ready(&self, gpu: GpuId, start: u8) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        let on_it = |part: &Part| matches!(part, Part::Slice { start: at, .. } if *at == start);
        let left = !state.leaving.iter().any(|(_, part)| on_it(part));
        left.then_some(()).ok_or(Refused::GpuNotReady(gpu))
    }

    pub(super) fn instance_destroyed(&mut self, gpu: GpuId, start: u8) {
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.going.retain(|one| one.start != start);
        }
    }

    /// An instance was not created: who counted on it waits again.
    pub(super) fn creation_failed(&mut self, at: Nanoseconds, gpu: GpuId, start: u8) {
        let holder = self.instance(gpu, start).and_then(|one| one.holder);
        if let Some(job) = holder {
            self.unseat(at, job);
        }
        if let Some(state) = self.gpus.get_mut(gpu.index())
            && let Tenancy::Sliced(instances) = &mut state.held
        {
            instances.retain(|one| one.start != start);
        }
        self.recount_around(gpu);
    }

    /// An instance was not destroyed: what was to be created in its place cannot be, and a mode that
    /// needs an empty GPU is not reached.
    pub(super) fn destruction_failed(&mut self, at: Nanoseconds, gpu: GpuId, start: u8) {
        let Some(state) = self.gpus.get_mut(gpu.index()) else {
            return;
        };
        let Some(place) = state.going.iter().position(|one| one.start == start) else {
            return;
        };
        let Some(back) = state.going.take(place) else {
            return;
        };
        if !matches!(state.held, Tenancy::Sliced(_)) {
            self.unseat_all_on(at, gpu);
            self.switch_back(gpu);
        }
        let Some(geometry) = self
            .gpu(gpu)
            .and_then(|state| self.geometry(state))
            .cloned()
        else {
            return;
        };
        loop {
            let present = self.instances(gpu);
            if geometry.has_room(&places(present), back.shape, back.start) {
                break;
            }
            let Some(last) = present.iter().rev().find(|one| !one.ready) else {
                break;
            };
            let start = last.start;
            self.creation_failed(at, gpu, start);
        }
        self.put_instance(gpu, back);
    }
}

impl World {
    pub(super) fn attach(
        &mut self,
        gpu: GpuId,
        node: NodeId,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        let target = self.node(node).ok_or(Refused::NoSuchNode(node))?;
        let Home::Pool(pool) = state.gpu.home else {
            return Err(Refused::WrongState(gpu));
        };
        if state.link != Link::InPool {
            return Err(Refused::WrongState(gpu));
        }
        if !state.gpu.health.takes_work() {
            return Err(Refused::GpuClosed(gpu));
        }
        let attached = target.gpus.len().saturating_sub(target.node.gpus.len());
        let slots = target.node.slots as usize;
        if !target.takes_work() || !target.node.pools.contains(&pool) || attached >= slots {
            return Err(Refused::NoSlot(gpu, node));
        }
        if !self.may_recompose(node, pool) {
            return Err(Refused::InUse(gpu, node));
        }
        if let Some(target) = self.nodes.get_mut(node.index()) {
            let own = target.node.gpus.len();
            let after = target.gpus.iter().skip(own).take_while(|one| **one < gpu);
            let place = own + after.count();
            target.gpus.insert(place.min(target.gpus.len()), gpu);
        }
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.node = Some(node);
            state.link = Link::Attaching;
            state.link_attempt = attempt;
        }
        self.enlist(node);
        self.recount(node);
        Ok(())
    }

    pub(super) fn detach(&mut self, gpu: GpuId, attempt: Attempt) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        let idle = matches!(state.held, Tenancy::Free);
        let Home::Pool(pool) = state.gpu.home else {
            return Err(Refused::WrongState(gpu));
        };
        if !idle || state.link != Link::Here {
            return Err(Refused::WrongState(gpu));
        }
        if let Some(node) = state.node
            && !self.may_recompose(node, pool)
        {
            return Err(Refused::InUse(gpu, node));
        }
        let Some(state) = self.gpus.get_mut(gpu.index()) else {
            return Err(Refused::NoSuchGpu(gpu));
        };
        state.link = Link::Detaching;
        state.link_attempt = attempt;
        self.recount_around(gpu);
        Ok(())
    }

    /// Whether a node's GPUs of a pool may change now: they come and go beside jobs, or nobody has anything on it, or
    /// is still leaving it.
    pub(crate) fn may_recompose(&self, id: NodeId, pool: PoolId) -> bool {
        let hot = self
            .pools
            .get(pool.index())
            .is_none_or(|pool| pool.hot_plug);
        let left = |gpu: &GpuId| self.gpu(*gpu).is_none_or(|gpu| gpu.leaving.is_empty());
        hot || self.node(id).is_some_and(|node| {
            let idle = node.workers == 0 && node.leaving_cpu == 0 && node.leaving_memory == 0;
            idle && node.gpus.iter().all(left)
        })
    }

    /// Whether a node is being composed anew, so that nothing can start on it.
    pub(super) fn is_recomposed(&self, node: &NodeState) -> bool {
        let moves = |gpu: &GpuId| {
            let state = self.gpu(*gpu)?;
            let Home::Pool(pool) = state.gpu.home else {
                return None;
            };
            let cold = self
                .pools
                .get(pool.index())
                .is_some_and(|pool| !pool.hot_plug);
            Some(cold && matches!(state.link, Link::Attaching | Link::Detaching))
        };
        let own = node.node.gpus.len();
        node.gpus
            .iter()
            .skip(own)
            .any(|gpu| moves(gpu) == Some(true))
    }

    /// A pooled GPU is at its node.
    pub(super) fn linked(&mut self, gpu: GpuId) {
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.link = Link::Here;
        }
        self.recount_around(gpu);
    }

    /// A pooled GPU has not come to its node: who was to start on it waits again. Who was told to leave it,
    /// or is said to run there, was never on it: both sides forget it.
    pub(super) fn unattach(&mut self, at: Nanoseconds, gpu: GpuId) {
        self.unseat_all_on(at, gpu);
        let near = self.jobs_near(gpu);
        self.return_to_pool(gpu);
        self.lose_dead(at, near);
        self.empty(gpu);
    }

    pub(super) fn return_to_pool(&mut self, gpu: GpuId) {
        let Some(state) = self.gpus.get_mut(gpu.index()) else {
            return;
        };
        if state.link != Link::Gone {
            state.link = Link::InPool;
        }
        if let Some(node) = state.node.take() {
            if let Some(node) = self.nodes.get_mut(node.index()) {
                node.gpus.retain(|one| *one != gpu);
            }
            self.recount(node);
        }
    }
}

impl World {
    pub(super) fn gpu_health(
        &mut self,
        at: Nanoseconds,
        id: GpuId,
        health: Health,
    ) -> Result<(), Refused> {
        let state = self
            .gpus
            .get_mut(id.index())
            .ok_or(Refused::NoSuchGpu(id))?;
        if state.link == Link::Gone {
            self.ignored.unknown += 1;
            return Ok(());
        }
        state.gpu.health = health;
        if !health.keeps_work() {
            let jobs = self.jobs_near(id);
            self.lose_dead(at, jobs);
            self.empty(id);
        }
        self.recount_around(id);
        Ok(())
    }

    /// What was made of a GPU that went down, or was being made of it, is gone.
    pub(super) fn empty(&mut self, gpu: GpuId) {
        self.switch_back(gpu);
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.going.clear();
            state.leaving.clear();
        }
    }
}

impl World {
    pub(super) fn begin_on_device(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let gpu = match action {
            Action::SetMig { gpu, on } => {
                self.set_mig(*gpu, *on, attempt)?;
                gpu
            }
            Action::CreateInstance { gpu, shape, start } => {
                self.create_instance(*gpu, *shape, *start, attempt)?;
                gpu
            }
            Action::DestroyInstance { gpu, start } => {
                self.destroy_instance(*gpu, *start, attempt)?;
                gpu
            }
            Action::Attach { gpu, node } => {
                self.attach(*gpu, *node, attempt)?;
                gpu
            }
            Action::Detach { gpu } => {
                self.detach(*gpu, attempt)?;
                gpu
            }
            _ => return Ok(()),
        };
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.begun = at;
        }
        Ok(())
    }

    /// Jobs that have something of a GPU, or leave it.
    pub(super) fn jobs_near(&self, gpu: GpuId) -> Vec<JobId> {
        let mut jobs = self.holders_of(gpu);
        if let Some(state) = self.gpu(gpu) {
            jobs.extend(state.leaving.iter().map(|(job, _)| *job));
        }
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }
}

fn places(instances: &[Instance]) -> Vec<(u8, u8)> {
    instances.iter().map(|one| (one.shape, one.start)).collect()
}
