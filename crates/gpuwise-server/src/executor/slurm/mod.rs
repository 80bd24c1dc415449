//! A Slurm cluster: what is leased runs as batch jobs of it, on the nodes that were decided.
//!
//! Slurm's own commands are asked, as a user of it; nothing here needs root. A job says in its comment of which
//! log, lease, worker and order it is, so that a broker that starts again, or that has not heard whether a job
//! was taken, finds it. Which of a node's GPUs a job gets is Slurm's choice; how many and on which node is ours.

mod address;
mod commands;
mod held;
mod jobs;
mod listings;
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
use gpuwise_broker::{Broker, Lease, Observation, Order, OrderId, Running, Wanted, Wants};
use gpuwise_domain::placement::Assignment;
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};
use told::{Start, Told};
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
        let log = log_id(&state)?;
        let (tasks, told) = channel();
        let place = Place(state);
        let worker = Worker::new(settings.clone(), log, place.clone(), inbox, shows)?;
        thread::Builder::new()
            .name("slurm".into())
            .spawn(move || worker.run(&told))?;
        Ok(Self {
            settings,
            place,
            tasks,
            wants: Wants::default(),
            seen: Vec::new(),
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
            let made = fs::create_dir_all(folder)
                .and_then(|()| log.parent().map_or(Ok(()), fs::create_dir_all));
            made.map_err(|error| format!("worker {}: nothing can be kept: {error}", part.worker))?;
        }
        Ok(Start {
            order,
            job: lease.job(),
            parts,
            asking: lease.ask.service.as_ref().map(Asking::of),
            known: false,
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

/// By what jobs of this log are known among all of the cluster: drawn once, kept beside its logs.
fn log_id(state: &std::path::Path) -> io::Result<String> {
    fs::create_dir_all(state)?;
    let file = state.join("slurm.id");
    match fs::read_to_string(&file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut bytes = [0_u8; 6];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let id = bytes.map(|byte| format!("{byte:02x}")).concat();
    fs::write(&file, &id)?;
    Ok(id)
}

impl Executor for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        Some(Arc::new(self.place.clone()))
    }

    fn adopt(&mut self, broker: &Broker) {
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
                }),
            }
        }
        self.tell(Told::Adopt(starts, features(broker)));
    }

    fn take(&mut self, _now: Nanoseconds, order: &Order, broker: &Broker) {
        for wanted in self.wants.take(order, broker) {
            self.want(wanted, broker);
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
