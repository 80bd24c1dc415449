//! A Slurm cluster: what is leased runs as batch jobs of it, on the nodes that were decided.
//!
//! Slurm's own commands are asked, as a user of it; nothing here needs root. A job says in its name and its comment of
//! which log, lease, worker and order it is, so that a broker that starts again, or that has not heard whether a job
//! was taken, finds it: before anything is submitted, Slurm is asked for its mark. Where a job was submitted twice all
//! the same, Slurm runs one of a name at a time, and the other is cancelled. Which of a node's GPUs a job gets is Slurm's choice; how many and on which node is ours.

mod accounting;
mod address;
mod commands;
mod ended;
mod files;
mod halted;
mod held;
mod jobs;
mod listings;
mod marks;
mod nodes;
mod parts;
mod reconcile;
mod rest;
mod script;
mod shares;
mod token;
mod told;
mod work;

pub use address::RestAddress;
pub use token::TokenFrom;

use super::{AccountNames, Executor, Logs, Shows, asking::Asking, local::Place};
use crate::message::Incoming;
use gpuwise_broker::{
    Broker, Lease, Observation, Order, OrderId, OrdersRetold, Running, Wanted, Wants,
};
use gpuwise_domain::placement::{Assignment, JobId};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};
use told::{Adopted, Start, Told};
use work::Worker;

/// How Slurm is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmSettings {
    pub partition: Option<String>,
    /// What jobs are charged to.
    pub accounts: AccountNames,
    pub qos: Option<String>,
    /// Ports of services, the first and the last: each worker has one by its lease.
    pub ports: (u16, u16),
    /// How often it is asked what jobs do.
    pub every: Duration,
    /// How long a job may wait for its nodes, which the kernel takes for free.
    pub patience: Duration,
    /// The REST service that lists jobs and nodes; `None`: commands do.
    pub rest: Option<RestAddress>,
    /// Who asks that service, where it wants to know.
    pub token: Option<TokenFrom>,
}

impl SlurmSettings {
    pub const USUAL: Self = Self {
        partition: None,
        accounts: AccountNames {
            usual: None,
            of: BTreeMap::new(),
        },
        qos: None,
        ports: (20_000, 29_999),
        every: Duration::from_secs(2),
        patience: Duration::from_mins(5),
        rest: None,
        token: None,
    };
}

/// Jobs of this user that carry the mark of a log's leases and are not over, by lease, in words.
///
/// # Errors
/// When Slurm does not say.
pub(crate) fn runs(broker: &Broker) -> Result<BTreeMap<u32, String>, String> {
    let log = format!("{:x}", broker.begun().0);
    let listings = listings::Listings::new(&SlurmSettings::USUAL);
    let mut listings = listings.map_err(|error| error.to_string())?;
    let jobs = listings.jobs(&script::ours(&log));
    let jobs = jobs.map_err(commands::Refused::words)?;
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.is_alive()) {
        if let Some(mark) = script::named(&job.comment) {
            let job = format!("job {}", job.id);
            found.entry(mark.lease).or_default().push(job);
        }
    }
    let words = found.into_iter();
    Ok(words
        .map(|(lease, jobs)| (lease, jobs.join(", ")))
        .collect())
}

/// How long what is preempted has to save what it did, and Slurm's own KillWait where it requeues.
const GRACE: Duration = Duration::from_secs(30);

/// Jobs of a Slurm cluster.
#[derive(Debug)]
pub struct Slurm {
    settings: SlurmSettings,
    place: Place,
    tasks: Sender<Told>,
    wants: Wants,
    /// What is told when it is next asked.
    seen: Vec<Observation>,
    /// Orders that a broker before this one may have carried out.
    before: BTreeSet<(JobId, u64)>,
    retold: OrdersRetold,
}

impl Slurm {
    /// Logs, and how commands ended, are kept in `state`, which nodes of the cluster see under the same name.
    ///
    /// # Errors
    /// When nothing can be written there, or no thread started.
    pub(crate) fn new(
        settings: SlurmSettings,
        state: PathBuf,
        inbox: Sender<Incoming>,
        shows: Shows,
    ) -> io::Result<Self> {
        private(&state)?;
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
        let (tasks, told) = channel();
        let place = Place(state);
        let worker = Worker::new(settings.clone(), place.clone(), inbox, shows)?;
        thread::Builder::new()
            .name("slurm".into())
            .spawn(move || worker.run(&told))?;
        Ok(Self {
            settings,
            place,
            tasks,
            wants: Wants::default(),
            seen: Vec::new(),
            before: BTreeSet::new(),
            retold: OrdersRetold::default(),
        })
    }

    fn tell(&self, told: Told) {
        // The worker ends with the executor alone.
        let _ = self.tasks.send(told);
    }

    /// What is to run of a lease.
    fn start_of(
        &self,
        order: OrderId,
        lease: &Lease,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> Result<Start, String> {
        let parts = parts::of(lease, assignments, broker, &self.settings)?;
        for part in &parts {
            let folder = self.place.folder(lease.job());
            let log = self.place.log_file(lease.number, 0);
            let made = private(&folder).and_then(|()| log.parent().map_or(Ok(()), private));
            made.map_err(|error| format!("worker {}: nothing can be kept: {error}", part.worker))?;
        }
        Ok(Start {
            order,
            job: lease.job(),
            parts,
            asking: lease.ask.service.as_ref().map(Asking::of),
            known: false,
            maybe: self.before.contains(&(lease.job(), order.0)),
        })
    }

    fn want(&mut self, wanted: Wanted, broker: &Broker) {
        let refused = |order, why: &str| Observation::failed(order, why.into());
        match wanted {
            Wanted::Start {
                order,
                job,
                assignments,
            } => {
                let Some(lease) = broker.lease(job.0) else {
                    return;
                };
                match self.start_of(order, lease, &assignments, broker) {
                    Ok(start) => self.tell(Told::Start(start)),
                    Err(reason) => self.seen.push(Observation::failed(order, reason)),
                }
            }
            Wanted::Stop { order, job, grace } => {
                let grace = Duration::from_nanos(grace.0);
                self.tell(Told::Stop { order, job, grace });
            }
            // Slurm keeps the GPUs of a job that it suspends: who gives them up is requeued, and held.
            Wanted::GiveUp { order, job } => self.tell(Told::Requeue { order, job }),
            Wanted::Forget(job) => self.tell(Told::Forget(job)),
            Wanted::Nothing(order) | Wanted::Drop(order) => {
                self.seen.push(Observation::Done(order));
            }
            Wanted::Cut(order) => self.seen.push(refused(
                order,
                "GPUs of a Slurm cluster are cut by its administrator, in gres.conf",
            )),
            Wanted::Compose(order) => {
                self.seen
                    .push(refused(order, "Slurm attaches no GPUs to nodes"));
            }
            // What lies in the memory of its nodes is not ours to say.
            Wanted::Keep(order) => {
                self.seen
                    .push(refused(order, "Slurm's nodes read no weights ahead"));
            }
        }
    }
}

/// Features of nodes by name, as the fleet has them; empty where it says of none.
fn features(broker: &Broker) -> BTreeMap<String, Vec<String>> {
    let world = broker.world();
    if world.kinds().iter().all(|kind| kind.features.is_empty()) {
        return BTreeMap::new();
    }
    let of = |node: &gpuwise_sched::world::NodeState| {
        let kind = world.kind(world.gpu(*node.gpus.first()?)?.gpu.kind)?;
        Some((node.node.name.clone(), kind.features.clone()))
    };
    world.nodes().iter().filter_map(of).collect()
}

/// By what jobs of this log are known among all of the cluster: when it began, wherever its files lie. A broker of
/// before kept a name that it had drawn beside its files.
fn log_id(place: &Path, broker: &Broker) -> String {
    let drawn = fs::read_to_string(place.join("slurm.id")).unwrap_or_default();
    let drawn = drawn.trim();
    if drawn.len() == 12 && drawn.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return drawn.to_owned();
    }
    format!("{:x}", broker.begun().0)
}

/// A folder that nobody else may read.
fn private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

impl Executor for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        Some(Arc::new(self.place.clone()))
    }

    fn adopt(&mut self, broker: &Broker) {
        let told = broker.orders_by(Nanoseconds(u64::MAX));
        let before = told.filter_map(|order| Some((order.starts()?, order.id.0)));
        self.before = before.collect();
        let mut starts = Vec::new();
        for running in self.wants.adopt(broker) {
            let Running { order, job, .. } = running;
            let Some(lease) = broker.lease(job.0) else {
                continue;
            };
            match self.start_of(order, lease, &running.assignments, broker) {
                Ok(start) => starts.push(Start {
                    known: true,
                    ..start
                }),
                Err(reason) => self.seen.push(Observation::Exited {
                    job,
                    order,
                    code: None,
                    reason,
                    ago: None,
                }),
            }
        }
        self.tell(Told::Adopt(Adopted {
            log: log_id(&self.place.0, broker),
            starts,
            expected: self.before.clone(),
            features: features(broker),
        }));
    }

    fn take(&mut self, _now: Nanoseconds, order: &Order, broker: &Broker) {
        for wanted in self.wants.take(order, broker) {
            self.want(wanted, broker);
        }
    }

    fn observe(&mut self, _now: Nanoseconds) -> Vec<Observation> {
        if self.retold.is_done_at_this_look() {
            self.before.clear();
            self.tell(Told::All);
        }
        std::mem::take(&mut self.seen)
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        // What has been seen is to be told at once.
        (!self.seen.is_empty()).then_some(Nanoseconds(0))
    }
}
