//! This machine: what is leased runs as processes, all of which descend from a supervisor of their own.
//!
//! What runs is known from files beside the logs, and noted before it runs, so that a broker that starts again finds
//! it: processes outlive the broker, and how they ended is kept by the supervisor that started them. A lease is over
//! when nothing of it is left.

mod account;
mod adopted;
mod devices;
mod environment;
mod foreign;
pub(crate) mod guarded;
mod kept;
mod limits;
mod logs;
mod process;
mod ready;
mod resize;
mod starting;
mod supervisor;
mod suspend;
#[cfg(test)]
pub(super) mod tests;
mod tree;
mod weights;

pub use account::{Account, RunAs};
pub(crate) use adopted::kept_elsewhere;
pub use devices::Cutter;
pub(super) use environment::launch;
pub(super) use kept::Place;
pub use limits::delegation;
pub(crate) use supervisor::Supervisor;
pub use supervisor::supervise;
pub use suspend::Suspension;

use super::{Executor, Logs, Shows};
use crate::{message::Incoming, secrets::Secrets};
use gpuwise_broker::{Broker, Observation, Order, OrderId, Work};
use gpuwise_domain::placement::{Action, Assignment, GpuShare, Isolation, JobId, Part};
use gpuwise_units::Nanoseconds;
use kept::Kept;
use process::Group;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

/// The word by which this program is a supervisor.
pub const SUPERVISOR: &str = "lease-supervisor";

/// Processes of this machine that carry the mark of a log's leases, by lease, in words.
pub(crate) fn runs(broker: &Broker) -> BTreeMap<u32, String> {
    let log = crate::serve::log_id(broker);
    let tree = tree::Tree::now();
    let mut found: BTreeMap<u32, Vec<tree::Process>> = BTreeMap::new();
    for (process, mark) in tree.marked().filter(|(_, mark)| mark.broker == log) {
        if let Some(lease) = gpuwise_broker::lease_number(&mark.lease) {
            found.entry(lease).or_default().push(process.clone());
        }
    }
    let words = found.into_iter();
    words
        .map(|(lease, all)| (lease, tree::words(&all)))
        .collect()
}

/// How long is waited for what is to be gone before something else starts.
const PATIENCE: Duration = Duration::from_secs(5);

/// How commands of leases run on this machine.
#[derive(Debug, Clone, Default)]
pub struct LocalSettings {
    pub run_as: RunAs,
    /// Variables of the broker that commands get besides those that all get.
    pub passed: Vec<String>,
    /// Bytes of what a worker writes that are kept at most.
    pub log_size: u64,
    /// The mask with which commands make files; what the broker keeps is for its account alone.
    pub umask: u32,
}

/// Whose processes these are.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Where logs, and what is known of processes, are kept.
    pub(crate) state: PathBuf,
    /// By what the log is known.
    pub(crate) broker: String,
    /// Values of tenants' secrets.
    pub(crate) secrets: Secrets,
    pub(crate) supervisor: Supervisor,
}

/// Processes of this machine.
#[derive(Debug)]
pub struct Local {
    place: Place,
    settings: LocalSettings,
    broker: String,
    secrets: Secrets,
    supervisor: Supervisor,
    shows: Shows,
    #[cfg(test)]
    stops: Option<tests::Stop>,
    limits: limits::Limits,
    devices: devices::Devices,
    inbox: Sender<Incoming>,
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
    /// `driver` cuts the GPUs that it lists.
    pub(crate) fn new(
        settings: LocalSettings,
        own: Own,
        inbox: Sender<Incoming>,
        shows: Shows,
        driver: Option<Arc<dyn Cutter>>,
    ) -> Self {
        let devices = devices::Devices::new(&own.state, inbox.clone(), driver);
        Self {
            place: Place(own.state),
            settings,
            broker: own.broker,
            secrets: own.secrets,
            supervisor: own.supervisor,
            shows,
            #[cfg(test)]
            stops: None,
            devices,
            limits: limits::Limits::take(),
            inbox,
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
            && !self.running.contains_key(&job)
        {
            if kept.order == order.0 && self.has_begun(job, &kept) {
                // It was started before the broker was, and nobody has heard of it.
                return self.adopt_one(job, &kept, broker);
            }
            if let Err(reason) = self.ended(job, &kept) {
                self.seen.push(Observation::failed(order, reason));
                return;
            }
        }
        if let Some(before) = self.running.get(&job) {
            // It moves: what ran elsewhere ends first.
            self.shows.endpoints.remove(job.0);
            let mut groups = before.groups.iter();
            if let Err(reason) = groups.try_for_each(|one| one.end_in(Duration::ZERO, PATIENCE)) {
                self.seen.push(Observation::failed(order, reason));
                return;
            }
            self.running.remove(&job);
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

    fn visible(&self, broker: &Broker, assignments: &[Assignment]) -> Result<String, String> {
        environment::visible(broker, &self.devices, assignments)
    }

    /// Watches processes that run, and says so when they are ready.
    fn run(&mut self, job: JobId, kept: &Kept, lease: &gpuwise_broker::Lease, known: bool) {
        let order = OrderId(kept.order);
        let groups: Vec<Arc<Group>> = kept
            .processes
            .iter()
            .map(|one| self.group(job, one))
            .collect();
        let starts = lease.ask.service.is_some();
        let watch = process::Watch {
            job,
            order: Arc::new(AtomicU64::new(kept.order)),
            starting: Arc::new(AtomicBool::new(starts && !known)),
            place: self.place.clone(),
            inbox: self.inbox.clone(),
            endpoints: self.shows.endpoints.clone(),
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
        if let Some(service) = &lease.ask.service {
            return ready::tell(&watch, service, kept, groups, known);
        }
        let ports: Vec<u16> = kept.processes.iter().filter_map(|one| one.port).collect();
        if !ports.is_empty() {
            // Where it tells its metrics.
            self.shows.endpoints.set(job.0, ready::addresses(&ports));
        }
        if !known {
            self.seen.push(Observation::Done(order));
        }
    }

    fn stop(&mut self, order: OrderId, job: JobId, grace: Duration) {
        self.shows.endpoints.remove(job.0);
        let groups: Vec<Arc<Group>> = if let Some(running) = self.running.remove(&job) {
            running.groups
        } else {
            let kept = self.place.kept(job);
            let processes = kept.iter().flat_map(|kept| &kept.processes);
            processes.map(|one| self.group(job, one)).collect()
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
                self.shows.endpoints.remove(job.0);
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
            && kept.processes.iter().all(kept::Process::is_alive);
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
        self.weights.stop(|lease| is_over(&JobId(lease)));
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

impl Executor for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        Some(Arc::new(self.place.clone()))
    }

    fn adopt(&mut self, broker: &Broker) {
        self.devices.adopt(broker);
        self.find_strays();
        self.adopt_all(broker);
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
                if let Some(lease) = broker.lease(*lease) {
                    let how = self.of_tenant(lease);
                    let seen = self.weights.take(order.id, lease, keep, how, &self.inbox);
                    self.seen.extend(seen);
                }
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
