//! This machine: what is leased runs as processes, each in a group of its own.
//!
//! What runs is known from files beside the logs, so that a broker that starts again finds it: processes
//! outlive the broker, and how they ended is kept by the shell that started them.

mod devices;
mod environment;
mod kept;
mod limits;
mod logs;
mod process;
mod ready;
mod resize;
mod suspend;
mod weights;

pub use devices::Cutter;
pub(super) use environment::launch;
pub(super) use kept::Place;
pub use limits::delegation;
pub use suspend::Suspension;

use super::{Executor, Logs};
use crate::{endpoints::Endpoints, message::Incoming};
use gpuwise_broker::{Broker, Observation, Order, OrderId, Work};
use gpuwise_domain::placement::{Action, Assignment, GpuShare, Isolation, JobId, Part};
use gpuwise_units::Nanoseconds;
use kept::Kept;
use process::Group;
use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

/// Processes of this machine.
#[derive(Debug)]
pub struct Local {
    place: Place,
    limits: limits::Limits,
    devices: devices::Devices,
    inbox: Sender<Incoming>,
    endpoints: Endpoints,
    weights: weights::Weights,
    /// What runs, by job; without processes where GPUs are held and nothing runs.
    running: BTreeMap<JobId, Running>,
    /// The last order about each job: an older one comes too late.
    newest: BTreeMap<JobId, OrderId>,
    /// What is told when it is next asked.
    seen: Vec<Observation>,
}

/// What runs of a job.
#[derive(Debug, Clone, Default)]
struct Running {
    groups: Vec<Arc<Group>>,
    /// Who says how it goes on; `None`: there are no processes.
    watch: Option<process::Watch>,
}

impl Local {
    /// Logs, and what is known of processes, are kept in `state`; `driver` cuts the GPUs that it lists.
    pub(crate) fn new(
        state: PathBuf,
        inbox: Sender<Incoming>,
        endpoints: Endpoints,
        driver: Option<Arc<dyn Cutter>>,
    ) -> Self {
        let devices = devices::Devices::new(&state, inbox.clone(), driver);
        Self {
            place: Place(state),
            devices,
            limits: limits::Limits::take(),
            inbox,
            endpoints,
            weights: weights::Weights::default(),
            running: BTreeMap::new(),
            newest: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    fn start(&mut self, order: OrderId, job: JobId, assignments: &[Assignment], broker: &Broker) {
        let Some(lease) = broker.lease(job.0) else {
            return;
        };
        if let Some(kept) = self.place.kept(job)
            && kept.order == order.0
            && !self.running.contains_key(&job)
        {
            // It was started before the broker was, and nobody has heard of it.
            return self.adopt_one(job, &kept, broker);
        }
        if let Some(before) = self.running.remove(&job) {
            // It moves: what ran elsewhere ends first.
            self.endpoints.remove(job.0);
            before
                .groups
                .iter()
                .for_each(|group| group.end(Duration::ZERO));
        }
        if lease.ask.command.is_empty() {
            self.running.insert(job, Running::default());
            self.seen.push(Observation::Done(order));
            return;
        }
        match self.spawn(order, job, lease, assignments, broker) {
            Ok(kept) => self.run(job, &kept, lease, false),
            Err(reason) => self.seen.push(Observation::failed(order, reason)),
        }
    }

    /// Starts the processes of a lease: one, or of a service one for each worker.
    fn spawn(
        &self,
        order: OrderId,
        job: JobId,
        lease: &gpuwise_broker::Lease,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> Result<Kept, String> {
        let workers: Vec<&[Assignment]> = match &lease.ask.service {
            Some(_) => assignments.chunks(1).collect(),
            None => vec![assignments],
        };
        let mut kept = Kept {
            order: order.0,
            processes: Vec::new(),
            devices: self.visible(broker, assignments)?,
            asleep: false,
        };
        let visible: Result<Vec<String>, String> = workers
            .iter()
            .map(|own| self.visible(broker, own))
            .collect();
        for (worker, (own, visible)) in workers.into_iter().zip(visible?).enumerate() {
            match self.worker(job, lease, (worker, own, visible), broker) {
                Ok(process) => kept.processes.push(process),
                Err(reason) => {
                    kept.processes
                        .iter()
                        .for_each(|one| one.group().end(Duration::ZERO));
                    return Err(reason);
                }
            }
        }
        if let Err(error) = self.place.keep(job, &kept) {
            // Nobody would know of it after a restart.
            kept.processes
                .iter()
                .for_each(|one| one.group().end(Duration::ZERO));
            return Err(format!("what runs cannot be noted: {error}"));
        }
        Ok(kept)
    }

    /// Starts one worker on its GPUs.
    fn worker(
        &self,
        job: JobId,
        lease: &gpuwise_broker::Lease,
        (worker, own, visible): (usize, &[Assignment], String),
        broker: &Broker,
    ) -> Result<kept::Process, String> {
        let port = match &lease.ask.service {
            Some(_) => Some(free_port().map_err(|error| format!("no port is free: {error}"))?),
            None => None,
        };
        let command = environment::command(lease, visible, own, worker, port);
        let state = broker.world().job(job);
        let asked = state.map(|state| (state.job.worker.cpu_milli, state.job.worker.memory_mib));
        let (cpu_milli, memory_mib) = asked.unwrap_or_default();
        let group = self.limits.group(job, worker, cpu_milli, memory_mib);
        self.place.start(job, worker, port, &command, group)
    }

    fn visible(&self, broker: &Broker, assignments: &[Assignment]) -> Result<String, String> {
        environment::visible(broker, &self.devices, assignments)
    }

    /// Watches processes that run, and says so when they are ready.
    fn run(&mut self, job: JobId, kept: &Kept, lease: &gpuwise_broker::Lease, known: bool) {
        let order = OrderId(kept.order);
        let groups: Vec<Arc<Group>> = kept
            .processes
            .iter()
            .map(|one| Arc::new(one.group()))
            .collect();
        let starts = lease.ask.service.is_some();
        let watch = process::Watch {
            job,
            order: Arc::new(AtomicU64::new(kept.order)),
            starting: Arc::new(AtomicBool::new(starts && !known)),
            place: self.place.clone(),
            inbox: self.inbox.clone(),
            endpoints: self.endpoints.clone(),
        };
        let all = Running {
            groups: groups.clone(),
            watch: Some(watch.clone()),
        };
        self.running.insert(job, all);
        for group in &groups {
            watch.clone().watch(Arc::clone(group), groups.clone());
        }
        if kept.asleep {
            return;
        }
        match &lease.ask.service {
            Some(service) => ready::tell(&watch, service, kept, groups, known),
            None if !known => self.seen.push(Observation::Done(order)),
            None => {}
        }
    }

    /// Goes on with what an earlier broker of this log had started.
    fn adopt_one(&mut self, job: JobId, kept: &Kept, broker: &Broker) {
        let Some(lease) = broker.lease(job.0) else {
            return;
        };
        let order = OrderId(kept.order);
        let known = !broker.wants(order);
        if kept.processes.iter().all(|one| one.group().is_alive()) {
            self.run(job, kept, lease, known);
            return;
        }
        let over = self.place.ends(job, kept);
        kept.processes
            .iter()
            .for_each(|one| one.group().end(Duration::ZERO));
        // Noted until its end is in the log.
        self.running.insert(job, Running::default());
        let (code, reason) = over;
        if known {
            self.seen.push(Observation::Exited {
                job,
                order,
                code,
                reason,
            });
        } else {
            // As if its end had followed its start at once.
            self.seen.push(Observation::Done(order));
            self.seen.push(Observation::Exited {
                job,
                order,
                code,
                reason,
            });
        }
    }

    fn stop(&mut self, order: OrderId, job: JobId, grace: Duration) {
        self.endpoints.remove(job.0);
        let kept = self.place.kept(job);
        let unknown = || {
            let processes = kept.iter().flat_map(|kept| &kept.processes);
            processes.map(|one| Arc::new(one.group())).collect()
        };
        let groups: Vec<Arc<Group>> = match self.running.remove(&job) {
            Some(running) => running.groups,
            None => unknown(),
        };
        if groups.is_empty() {
            self.seen.push(Observation::Done(order));
            return;
        }
        for group in &groups {
            group.is_told();
        }
        let (inbox, place) = (self.inbox.clone(), self.place.clone());
        thread::spawn(move || {
            process::end_all(&groups, grace);
            place.forget(job);
            // The writer may be gone already.
            let _ = inbox.send(Incoming::Observed(Observation::Done(order)));
        });
    }

    /// An idle lease gives its GPUs up, in the way that it said.
    fn suspend(&mut self, order: OrderId, job: JobId, broker: &Broker) {
        let how = broker.lease(job.0).map(Suspension::of).unwrap_or_default();
        let known = self.running.get(&job).cloned().zip(self.place.kept(job));
        let work = known.and_then(|(running, kept)| Self::work(how, order, running, kept, broker));
        match work {
            Some((work, mut kept)) if how != Suspension::Requeue => {
                self.endpoints.remove(job.0);
                if how.stays() {
                    kept.asleep = true;
                    if let Err(error) = self.place.keep(job, &kept) {
                        let reason = format!("that it sleeps cannot be noted: {error}");
                        self.seen.push(Observation::failed(order, reason));
                        return;
                    }
                } else {
                    self.running.remove(&job);
                }
                work.suspend();
            }
            _ => self.stop(order, job, Duration::from_secs(30)),
        }
    }

    fn work(
        how: Suspension,
        order: OrderId,
        running: Running,
        kept: Kept,
        broker: &Broker,
    ) -> Option<(suspend::Work, Kept)> {
        let watch = running.watch?;
        let lease = broker.lease(watch.job.0)?;
        let service = lease.ask.service.as_ref();
        let work = suspend::Work {
            how,
            order,
            watch,
            groups: running.groups,
            processes: kept.processes.clone(),
            health: service.and_then(|service| service.health.clone()),
        };
        Some((work, kept))
    }

    /// One who lets another onto its GPU, or has it for itself again, runs on as it does; `false`: it is to be
    /// started anew.
    fn stays(
        &mut self,
        order: OrderId,
        job: JobId,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> bool {
        let watch = self.running.get(&job).and_then(|one| one.watch.clone());
        let kept = self.place.kept(job).filter(|kept| !kept.asleep);
        let Some((watch, mut kept)) = watch.zip(kept) else {
            return false;
        };
        let parts = assignments.iter().flat_map(|one| &one.gpus);
        let by_turns = |share: &GpuShare| match share.part {
            Part::Whole => true,
            Part::Fraction { isolation, .. } => matches!(isolation, Isolation::Pair { .. }),
            Part::Slice { .. } => false,
        };
        let same = self.visible(broker, assignments) == Ok(kept.devices.clone())
            && kept.processes.iter().all(|one| one.group().is_alive());
        if !same || !parts.into_iter().all(by_turns) {
            return false;
        }
        kept.order = order.0;
        if self.place.keep(job, &kept).is_err() {
            return false;
        }
        watch.order.store(order.0, Ordering::SeqCst);
        self.seen.push(Observation::Done(order));
        true
    }

    /// Goes on with what sleeps on these very GPUs; `false`: nothing does, and it is to be started.
    fn resume(
        &mut self,
        order: OrderId,
        job: JobId,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> bool {
        let how = broker.lease(job.0).map(Suspension::of).unwrap_or_default();
        let Some(running) = self.running.get(&job).cloned() else {
            return false;
        };
        let Some(mut kept) = self.place.kept(job).filter(|kept| kept.asleep) else {
            return false;
        };
        let same = self.visible(broker, assignments) == Ok(kept.devices.clone());
        if !same || !how.stays() {
            return false;
        }
        kept.asleep = false;
        kept.order = order.0;
        if self.place.keep(job, &kept).is_err() {
            return false;
        }
        match Self::work(how, order, running, kept, broker) {
            Some((work, _)) => {
                work.watch.order.store(order.0, Ordering::SeqCst);
                work.resume();
                true
            }
            None => false,
        }
    }

    /// Nothing is noted any more of leases whose end is in the log.
    fn forget_what_is_over(&mut self, broker: &Broker) {
        let is_over = |job: &JobId| broker.lease(job.0).is_none_or(|lease| lease.over.is_some());
        let over: Vec<JobId> = self.running.keys().copied().filter(is_over).collect();
        for job in over {
            if let Some(running) = self.running.remove(&job) {
                // One worker's end is the lease's: those that came later are not known to who watched it.
                thread::spawn(move || process::end_all(&running.groups, Duration::from_secs(10)));
            }
            self.place.forget(job);
            self.limits.forget(job);
        }
    }

    /// Whether an order comes after those that were taken on about its job.
    fn is_new(&mut self, job: JobId, order: OrderId) -> bool {
        let newest = self.newest.entry(job).or_insert(OrderId(0));
        let new = order > *newest;
        *newest = order.max(*newest);
        new
    }
}

/// A port that nobody listens on now.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

impl Executor for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        Some(Arc::new(self.place.clone()))
    }

    fn adopt(&mut self, broker: &Broker) {
        self.devices.adopt(broker);
        for (job, kept) in self.place.all() {
            let order = OrderId(kept.order);
            let current = broker.started_by(job.0) == Some(order);
            if current && broker.wants(order) {
                // It is told again, and found then.
                continue;
            }
            if current {
                self.adopt_one(job, &kept, broker);
            } else {
                kept.processes
                    .iter()
                    .for_each(|one| one.group().end(Duration::ZERO));
                self.place.forget(job);
            }
        }
        for lease in broker.open() {
            let job = lease.job();
            let order = broker
                .started_by(lease.number)
                .filter(|order| !broker.wants(*order));
            let holds = broker.state(lease).0.holds();
            let Some(order) = order.filter(|_| holds && !self.running.contains_key(&job)) else {
                continue;
            };
            if lease.ask.command.is_empty() {
                self.running.insert(job, Running::default());
            } else if self.place.kept(job).is_none() {
                self.seen.push(Observation::Exited {
                    job,
                    order,
                    code: None,
                    reason: "nothing is known of its processes any more".into(),
                });
            }
        }
    }

    fn take(&mut self, _now: Nanoseconds, order: &Order, broker: &Broker) {
        self.forget_what_is_over(broker);
        match &order.work {
            Work::Stop { job, grace } => {
                if self.is_new(*job, order.id) {
                    self.stop(order.id, *job, Duration::from_nanos(grace.0));
                }
            }
            Work::Keep { lease, .. } | Work::Drop { lease, .. } => {
                let keep = matches!(order.work, Work::Keep { .. });
                let lease = broker.lease(*lease);
                let seen =
                    lease.and_then(|one| self.weights.take(order.id, one, keep, &self.inbox));
                self.seen.extend(seen);
            }
            Work::Restart { job, .. } => {
                let state = broker.world().job(*job);
                let assignments = state.map(|state| state.assignments.clone());
                if self.is_new(*job, order.id) {
                    let assignments = assignments.unwrap_or_default();
                    self.start(order.id, *job, &assignments, broker);
                }
            }
            Work::Act { action, .. } => match action {
                Action::Place { job, assignments }
                | Action::Move {
                    job, assignments, ..
                } => {
                    if self.is_new(*job, order.id) {
                        self.start(order.id, *job, assignments, broker);
                    }
                }
                Action::Resize { job, assignments } => {
                    let new = self.is_new(*job, order.id);
                    if new
                        && !self.stays(order.id, *job, assignments, broker)
                        && !self.resized(order.id, *job, assignments, broker)
                    {
                        self.start(order.id, *job, assignments, broker);
                    }
                }
                Action::Restore { job, assignments } => {
                    let new = self.is_new(*job, order.id);
                    if new && !self.resume(order.id, *job, assignments, broker) {
                        self.start(order.id, *job, assignments, broker);
                    }
                }
                Action::Preempt { job, .. } => {
                    if self.is_new(*job, order.id) {
                        self.stop(order.id, *job, Duration::from_secs(30));
                    }
                }
                Action::Reclaim { job } => {
                    if self.is_new(*job, order.id) {
                        self.suspend(order.id, *job, broker);
                    }
                }
                Action::SetMig { .. }
                | Action::CreateInstance { .. }
                | Action::DestroyInstance { .. }
                | Action::Attach { .. }
                | Action::Detach { .. } => {
                    // A switch of the fabric is not of this machine.
                    if !self.devices.take(order.id, action, broker) {
                        self.seen.push(Observation::Done(order.id));
                    }
                }
            },
        }
    }

    fn observe(&mut self, _now: Nanoseconds) -> Vec<Observation> {
        std::mem::take(&mut self.seen)
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        // What has been seen is to be told at once.
        (!self.seen.is_empty()).then_some(Nanoseconds(0))
    }
}
