//! Events change the world, or are refused and change nothing.

use super::{GpuState, Held, Instance, JobState, Link, NodeState, Phase, World};
use gpuwise_domain::placement::{
    Action, Event, FleetGpu, GpuId, Health, Home, Job, JobId, Node, NodeId, Seat, Stamped,
};
use gpuwise_units::Nanoseconds;

/// Why an event cannot have happened in this world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such node.
    #[error("there is no node {0}")]
    NoSuchNode(NodeId),
    /// There is no such GPU.
    #[error("there is no GPU {0}")]
    NoSuchGpu(GpuId),
    /// There is no such job, or it has ended.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    /// There is a job of this number.
    #[error("there is a job {0} already")]
    SecondJob(JobId),
    /// The node takes no work.
    #[error("node {0} takes no work")]
    NodeClosed(NodeId),
    /// The node lacks processor time or memory.
    #[error("node {0} lacks processor time or memory")]
    NodeFull(NodeId),
    /// The GPU takes no work.
    #[error("GPU {0} takes no work")]
    GpuClosed(GpuId),
    /// The GPU lacks what is asked of it, or is shared in another way.
    #[error("GPU {0} is held, or has too little left")]
    GpuBusy(GpuId),
    /// The GPU is not attached to this node.
    #[error("GPU {0} is not attached to node {1}")]
    NotThere(GpuId, NodeId),
    /// The job is in no phase for this.
    #[error("job {0} is in no phase for this")]
    WrongPhase(JobId),
    /// The GPU's geometry forbids this instance here and now.
    #[error("GPU {0} has no room for this instance at this place")]
    Geometry(GpuId),
    /// The node has no free slot for a pooled GPU, or is not on its fabric.
    #[error("GPU {0} cannot be attached to node {1}")]
    NoSlot(GpuId, NodeId),
    /// Something that the action needs is still being made ready.
    #[error("what job {0} starts on is not ready")]
    NotReady(JobId),
    /// An event is older than what has happened.
    #[error("the event is older than the last one")]
    Past,
    /// The thing named is not in a state for this.
    #[error("GPU {0} is in no state for this")]
    WrongState(GpuId),
}

impl World {
    /// Applies an event.
    ///
    /// # Errors
    /// When it cannot have happened in this world; then nothing has changed.
    pub fn apply(&mut self, stamped: &Stamped) -> Result<(), Refused> {
        let at = stamped.at;
        if at < self.now {
            return Err(Refused::Past);
        }
        match &stamped.event {
            Event::Begun(action) => self.begin(at, action)?,
            Event::Done(action) => self.done(at, action)?,
            Event::Failed(action) => self.failed(at, action)?,
            Event::Submitted(job) => self.submit(at, job)?,
            Event::Ended { job, .. } => self.end(*job)?,
            Event::NodeJoined { node, gpus } => self.join(node, gpus),
            Event::NodeHealth { node, health } => self.node_health(at, *node, *health)?,
            Event::GpuHealth { gpu, health } => self.gpu_health(at, *gpu, *health)?,
            Event::QueueSet(queue) => {
                match self.queues.iter_mut().find(|old| old.name == queue.name) {
                    Some(old) => *old = queue.clone(),
                    None => self.queues.push(queue.clone()),
                }
            }
            Event::Reserved(reservation) => self.reservations.push(reservation.clone()),
            Event::ReservationEnded { name } => self.reservations.retain(|one| one.name != *name),
            Event::PriceSet { kind, price } => {
                if let Some(kind) = self.kinds.get_mut(kind.index()) {
                    kind.price = Some(*price);
                }
            }
            Event::Measured { job, busy_milli } => {
                let state = self.jobs.get_mut(job).ok_or(Refused::NoSuchJob(*job))?;
                state.busy_milli = Some(*busy_milli);
            }
        }
        self.now = at;
        Ok(())
    }

    /// Makes a plan the target: all its actions have begun. Nothing changes if its parent is not the
    /// target, or an action cannot begin.
    ///
    /// # Errors
    /// When an action cannot begin in this world.
    pub fn accept(&mut self, plan: &gpuwise_domain::placement::Plan) -> Result<(), Refused> {
        if plan.parent != self.target {
            return Err(Refused::Past);
        }
        let before = (plan.actions.len() > 1).then(|| self.clone());
        for action in &plan.actions {
            let event = Stamped {
                at: plan.made,
                event: Event::Begun(action.clone()),
            };
            if let Err(refused) = self.apply(&event) {
                if let Some(before) = before {
                    *self = before;
                }
                return Err(refused);
            }
        }
        self.target = plan.number;
        Ok(())
    }

    fn submit(&mut self, at: Nanoseconds, job: &Job) -> Result<(), Refused> {
        if self.jobs.contains_key(&job.id) {
            return Err(Refused::SecondJob(job.id));
        }
        let state = JobState {
            job: job.clone(),
            phase: Phase::Waiting { since: at },
            seats: Vec::new(),
            stops: 0,
            busy_milli: None,
        };
        self.jobs.insert(job.id, state);
        Ok(())
    }

    fn end(&mut self, id: JobId) -> Result<(), Refused> {
        let state = self.jobs.remove(&id).ok_or(Refused::NoSuchJob(id))?;
        self.give(id, &state.job.worker, &state.seats);
        Ok(())
    }

    fn begin(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        match action {
            Action::Place { job, seats } | Action::Restore { job, seats } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                let restored = matches!(state.phase, Phase::Reclaimed { .. });
                let right = match action {
                    Action::Restore { .. } => restored,
                    _ => state.phase.waits(),
                };
                if !right {
                    return Err(Refused::WrongPhase(*job));
                }
                self.seat(at, *job, seats)
            }
            Action::Move { job, seats, .. } | Action::Resize { job, seats } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                if state.seats.is_empty() {
                    return Err(Refused::WrongPhase(*job));
                }
                self.seat(at, *job, seats)
            }
            // Those who stop hold what they have until they have stopped.
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                if state.seats.is_empty() {
                    return Err(Refused::WrongPhase(*job));
                }
                self.stop(at, *job, matches!(action, Action::Reclaim { .. }));
                Ok(())
            }
            Action::SetMig { gpu, on } => self.set_mig(*gpu, *on),
            Action::Cut { gpu, shape, start } => self.cut(*gpu, *shape, *start),
            Action::Merge { gpu, start } => self.merge(*gpu, *start),
            Action::Attach { gpu, node } => self.attach(*gpu, *node),
            Action::Detach { gpu } => self.detach(*gpu),
        }
    }

    fn done(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        if let Action::Place { job, seats }
        | Action::Restore { job, seats }
        | Action::Move { job, seats, .. }
        | Action::Resize { job, seats } = action
            && !self.is_ready(seats)
        {
            return Err(Refused::NotReady(*job));
        }
        if !self.has_begun(action) {
            self.begin(at, action)?;
        }
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => {
                let state = self.jobs.get_mut(job).ok_or(Refused::NoSuchJob(*job))?;
                state.phase = Phase::Running { since: at };
            }
            Action::Cut { gpu, start, .. } => {
                if let Some(instance) = self.instance(*gpu, *start) {
                    instance.ready = true;
                }
            }
            Action::Merge { gpu, start } => self.drop_instance(*gpu, *start),
            Action::Attach { gpu, .. } => {
                if let Some(state) = self.gpus.get_mut(gpu.index()) {
                    state.link = Link::Here;
                }
                self.recount_around(*gpu);
            }
            Action::Detach { gpu } => self.return_to_pool(*gpu),
            Action::Preempt { .. } | Action::Reclaim { .. } | Action::SetMig { .. } => {}
        }
        Ok(())
    }

    /// Whether what an action takes is held already.
    fn has_begun(&self, action: &Action) -> bool {
        let starting = |job: &JobId, seats: &[Seat]| {
            self.job(*job).is_some_and(|state| {
                matches!(state.phase, Phase::Starting { .. }) && state.seats == seats
            })
        };
        let linked = |gpu: &GpuId, link| self.gpu(*gpu).is_some_and(|state| state.link == link);
        match action {
            Action::Place { job, seats }
            | Action::Restore { job, seats }
            | Action::Move { job, seats, .. }
            | Action::Resize { job, seats } => starting(job, seats),
            Action::Preempt { job, .. } => self.job(*job).is_some_and(|state| state.phase.waits()),
            Action::Reclaim { job } => self
                .job(*job)
                .is_some_and(|state| matches!(state.phase, Phase::Reclaimed { .. })),
            Action::SetMig { gpu, on } => {
                self.gpu(*gpu).is_some_and(|state| state.gpu.mig_on == *on)
            }
            Action::Cut { gpu, shape, start } => self
                .instances(*gpu)
                .iter()
                .any(|one| one.start == *start && one.shape == *shape && !one.ready),
            Action::Merge { gpu, start } => self
                .instances(*gpu)
                .iter()
                .any(|one| one.start == *start && !one.ready && one.holder.is_none()),
            Action::Attach { gpu, .. } => linked(gpu, Link::Attaching),
            Action::Detach { gpu } => linked(gpu, Link::Detaching),
        }
    }

    fn failed(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => {
                if self.job(*job).is_none() {
                    return Err(Refused::NoSuchJob(*job));
                }
                self.stop(at, *job, false);
            }
            Action::Cut { gpu, start, .. } => {
                let holder = self.instance(*gpu, *start).and_then(|one| one.holder);
                if let Some(job) = holder {
                    self.stop(at, job, false);
                }
                self.drop_instance(*gpu, *start);
            }
            Action::Merge { gpu, start } => {
                if let Some(instance) = self.instance(*gpu, *start) {
                    instance.ready = true;
                }
            }
            Action::Attach { gpu, .. } => {
                self.stop_all_on(at, *gpu);
                self.return_to_pool(*gpu);
            }
            Action::Detach { gpu } => {
                if let Some(state) = self.gpus.get_mut(gpu.index()) {
                    state.link = Link::Here;
                }
                self.recount_around(*gpu);
            }
            // Who was to stop has stopped; a mode that could not be switched is what it was.
            Action::Preempt { .. } | Action::Reclaim { .. } => {}
            Action::SetMig { gpu, on } => self.set_mig(*gpu, !*on)?,
        }
        Ok(())
    }

    fn seat(&mut self, at: Nanoseconds, job: JobId, seats: &[Seat]) -> Result<(), Refused> {
        let state = self.jobs.get_mut(&job).ok_or(Refused::NoSuchJob(job))?;
        let old = std::mem::take(&mut state.seats);
        let ask = state.job.worker;
        self.give(job, &ask, &old);
        if let Err(refused) = self.take(job, &ask, seats) {
            // What was just given back is free.
            let _ = self.take(job, &ask, &old);
            if let Some(state) = self.jobs.get_mut(&job) {
                state.seats = old;
            }
            return Err(refused);
        }
        if let Some(state) = self.jobs.get_mut(&job) {
            state.seats = seats.to_vec();
            state.phase = Phase::Starting { since: at };
        }
        Ok(())
    }

    /// A job gives everything back and waits, or stays reclaimed.
    fn stop(&mut self, at: Nanoseconds, job: JobId, reclaimed: bool) {
        let Some(state) = self.jobs.get_mut(&job) else {
            return;
        };
        let old = std::mem::take(&mut state.seats);
        state.stops += 1;
        state.phase = if reclaimed {
            Phase::Reclaimed { since: at }
        } else {
            Phase::Waiting { since: at }
        };
        let ask = state.job.worker;
        self.give(job, &ask, &old);
    }

    fn stop_all_on(&mut self, at: Nanoseconds, gpu: GpuId) {
        let holders: Vec<JobId> = match self.gpu(gpu).map(|state| &state.held) {
            Some(Held::Whole(job)) => vec![*job],
            Some(Held::Shared { holders, .. }) => holders.iter().map(|one| one.job).collect(),
            Some(Held::Sliced(instances)) => {
                instances.iter().filter_map(|one| one.holder).collect()
            }
            Some(Held::Free) | None => Vec::new(),
        };
        for job in holders {
            self.stop(at, job, false);
        }
    }
}

/// GPUs: instances, links, health.
impl World {
    fn instances(&self, gpu: GpuId) -> &[Instance] {
        match self.gpu(gpu).map(|state| &state.held) {
            Some(Held::Sliced(instances)) => instances,
            _ => &[],
        }
    }

    fn instance(&mut self, gpu: GpuId, start: u8) -> Option<&mut Instance> {
        match &mut self.gpus.get_mut(gpu.index())?.held {
            Held::Sliced(instances) => instances.iter_mut().find(|one| one.start == start),
            _ => None,
        }
    }

    fn drop_instance(&mut self, gpu: GpuId, start: u8) {
        if let Some(state) = self.gpus.get_mut(gpu.index())
            && let Held::Sliced(instances) = &mut state.held
        {
            instances.retain(|one| one.start != start);
        }
        self.recount_around(gpu);
    }

    fn set_mig(&mut self, gpu: GpuId, on: bool) -> Result<(), Refused> {
        let kinds = &self.kinds;
        let state = self
            .gpus
            .get_mut(gpu.index())
            .ok_or(Refused::NoSuchGpu(gpu))?;
        let cuttable = kinds
            .get(state.gpu.kind.index())
            .is_some_and(|k| k.mig.is_some());
        state.held = match (&state.held, on) {
            (Held::Free, true) if cuttable => Held::Sliced(Vec::new()),
            (Held::Sliced(instances), false) if instances.is_empty() => Held::Free,
            _ => return Err(Refused::WrongState(gpu)),
        };
        state.gpu.mig_on = on;
        self.recount_around(gpu);
        Ok(())
    }

    fn cut(&mut self, gpu: GpuId, shape: u8, start: u8) -> Result<(), Refused> {
        let kinds = &self.kinds;
        let state = self
            .gpus
            .get_mut(gpu.index())
            .ok_or(Refused::NoSuchGpu(gpu))?;
        let geometry = kinds
            .get(state.gpu.kind.index())
            .and_then(|kind| kind.mig.as_ref());
        let (Some(geometry), Held::Sliced(instances)) = (geometry, &mut state.held) else {
            return Err(Refused::WrongState(gpu));
        };
        let present: Vec<(u8, u8)> = instances.iter().map(|one| (one.shape, one.start)).collect();
        if !geometry.has_room(&present, shape, start) {
            return Err(Refused::Geometry(gpu));
        }
        instances.push(Instance {
            shape,
            start,
            holder: None,
            ready: false,
        });
        self.recount_around(gpu);
        Ok(())
    }

    fn merge(&mut self, gpu: GpuId, start: u8) -> Result<(), Refused> {
        match self.instance(gpu, start) {
            Some(instance) if instance.holder.is_none() && instance.ready => {
                instance.ready = false;
                Ok(())
            }
            _ => Err(Refused::WrongState(gpu)),
        }
    }

    fn attach(&mut self, gpu: GpuId, node: NodeId) -> Result<(), Refused> {
        let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
        let target = self.node(node).ok_or(Refused::NoSuchNode(node))?;
        let Home::Pool(pool) = state.gpu.home else {
            return Err(Refused::WrongState(gpu));
        };
        if state.link != Link::InPool {
            return Err(Refused::WrongState(gpu));
        }
        let attached = target.gpus.len() - target.node.gpus.len();
        let slots = target.node.slots as usize;
        if !target.takes_work() || !target.node.pools.contains(&pool) || attached >= slots {
            return Err(Refused::NoSlot(gpu, node));
        }
        if let Some(target) = self.nodes.get_mut(node.index()) {
            target.gpus.push(gpu);
        }
        if let Some(state) = self.gpus.get_mut(gpu.index()) {
            state.node = Some(node);
            state.link = Link::Attaching;
        }
        self.recount(node);
        Ok(())
    }

    fn detach(&mut self, gpu: GpuId) -> Result<(), Refused> {
        let state = self
            .gpus
            .get_mut(gpu.index())
            .ok_or(Refused::NoSuchGpu(gpu))?;
        let idle = matches!(state.held, Held::Free);
        if !idle || state.link != Link::Here || matches!(state.gpu.home, Home::Node(_)) {
            return Err(Refused::WrongState(gpu));
        }
        state.link = Link::Detaching;
        self.recount_around(gpu);
        Ok(())
    }

    fn return_to_pool(&mut self, gpu: GpuId) {
        let Some(state) = self.gpus.get_mut(gpu.index()) else {
            return;
        };
        state.link = Link::InPool;
        if let Some(node) = state.node.take() {
            if let Some(node) = self.nodes.get_mut(node.index()) {
                node.gpus.retain(|one| *one != gpu);
            }
            self.recount(node);
        }
    }

    fn join(&mut self, node: &Node, gpus: &[FleetGpu]) {
        let first = self.gpus.len() as u32;
        let id = NodeId(self.nodes.len() as u32);
        let mut node = node.clone();
        node.gpus = (0..gpus.len() as u32).map(|at| GpuId(first + at)).collect();
        for gpu in gpus {
            let home = Home::Node(id);
            self.gpus.push(GpuState::new(&FleetGpu {
                home,
                ..gpu.clone()
            }));
        }
        self.nodes.push(NodeState::new(&node));
        self.recount(id);
    }

    fn node_health(&mut self, at: Nanoseconds, id: NodeId, health: Health) -> Result<(), Refused> {
        let state = self
            .nodes
            .get_mut(id.index())
            .ok_or(Refused::NoSuchNode(id))?;
        state.node.health = health;
        if !health.keeps_work() {
            let held: Vec<JobId> = self
                .jobs
                .iter()
                .filter(|(_, state)| state.seats.iter().any(|seat| seat.node == id))
                .map(|(job, _)| *job)
                .collect();
            for job in held {
                self.stop(at, job, false);
            }
            let gpus = self
                .node(id)
                .map_or_else(Vec::new, |state| state.gpus.clone());
            for gpu in gpus {
                self.forget(gpu);
            }
        }
        self.recount(id);
        Ok(())
    }

    /// What a node that went down had made of a GPU is gone: instances, and the way to its pool.
    fn forget(&mut self, gpu: GpuId) {
        let Some(state) = self.gpus.get_mut(gpu.index()) else {
            return;
        };
        if let Held::Sliced(instances) = &mut state.held {
            instances.clear();
        }
        if matches!(state.gpu.home, Home::Pool(_)) {
            self.return_to_pool(gpu);
        }
    }

    fn gpu_health(&mut self, at: Nanoseconds, id: GpuId, health: Health) -> Result<(), Refused> {
        let state = self
            .gpus
            .get_mut(id.index())
            .ok_or(Refused::NoSuchGpu(id))?;
        state.gpu.health = health;
        if !health.keeps_work() {
            self.stop_all_on(at, id);
            if let Some(Held::Sliced(instances)) =
                self.gpus.get_mut(id.index()).map(|s| &mut s.held)
            {
                instances.clear();
            }
        }
        self.recount_around(id);
        Ok(())
    }
}
