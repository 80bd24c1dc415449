//! A Kubernetes cluster: what is leased runs as pods of it, on the nodes that were decided.
//!
//! Each worker of a lease is a pod whose affinity names one node; kube-scheduler binds it there. A pod says in its
//! labels of which log, lease, worker and order it is and has its name by that, so that a start that is told twice
//! makes one pod, and a broker that starts again finds it. Watches tell what happens; nothing is asked again and
//! again. Which of a node's GPUs a pod gets is its device plugin's choice, or kube-scheduler's where they are claimed; how
//! many and on which node is ours.

mod ask;
mod devices;
mod held;
mod logs;
mod nodes;
mod reconcile;
mod rights;
mod seen;
mod starting;
#[cfg(test)]
mod tests;
mod told;
mod work;
mod writes;

pub use rights::manifest;

use crate::watch::{ConnectError, Source, connect};
use gpuwise_broker::{
    Broker, Executor, Host, Logs, MakesExecutor, Observation, Order, OrderId, OrdersRetold,
    Running, Wanted, Wants,
};
use gpuwise_domain::placement::{Assignment, Health, JobId};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc, thread, time::Duration};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use told::{Adopted, Start, Told};
use work::Worker;

/// How a cluster is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub source: Source,
    /// Where pods are made.
    pub namespace: String,
    /// What their container is made of where the lease does not say.
    pub image: String,
    /// Secrets of the namespace with which registries are asked for images.
    pub pull_secrets: Vec<String>,
    /// The account of pods; `None`: the namespace's own, without a token.
    pub service_account: Option<String>,
    /// On which services listen: each pod has an address of its own.
    pub port: u16,
    /// Whole GPUs are claimed as devices of this DeviceClass; `None`: they are asked of device plugins.
    pub device_class: Option<String>,
    /// How long pods may wait for their node and image, which the kernel takes for free.
    pub patience: Duration,
}

/// How long what is preempted has to save what it did.
const GRACE: Duration = Duration::from_secs(30);

impl Settings {
    /// With what registries are asked, in words.
    fn secrets(&self) -> String {
        match &self.pull_secrets[..] {
            [] => "without a pull secret".into(),
            [one] => format!("with the pull secret {one}"),
            many => format!("with the pull secrets {}", many.join(", ")),
        }
    }

    /// Whether the cluster can be spoken of at all; nothing is asked of it.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or used, or this is no pod.
    pub fn checked(&self) -> Result<(), ConnectError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ConnectError::of_machine)?;
        runtime.block_on(connect(&self.source)).map(|_| ())
    }
}

impl MakesExecutor for Settings {
    fn make(&self, state: PathBuf, host: Arc<dyn Host>) -> io::Result<Box<dyn Executor>> {
        let pods = Kubernetes::new(self.clone(), state, host)?;
        Ok(Box::new(pods))
    }
}

/// Pods of a cluster.
#[derive(Debug)]
struct Kubernetes {
    port: u16,
    by_claims: bool,
    host: Arc<dyn Host>,
    place: logs::Place,
    tasks: UnboundedSender<Told>,
    wants: Wants,
    retold: OrdersRetold,
    /// What is told when it is next asked.
    seen: Vec<Observation>,
}

impl Kubernetes {
    fn new(settings: Settings, state: PathBuf, host: Arc<dyn Host>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime
            .block_on(connect(&settings.source))
            .map_err(io::Error::other)?;
        let (tasks, told) = unbounded_channel();
        let place = logs::Place(state);
        let (port, by_claims) = (settings.port, settings.device_class.is_some());
        let (worker, reads) = Worker::new(settings, client, Arc::clone(&host), place.clone());
        thread::Builder::new()
            .name("kubernetes".into())
            .spawn(move || runtime.block_on(worker.run(told, reads)))?;
        Ok(Self {
            port,
            by_claims,
            host,
            place,
            tasks,
            wants: Wants::default(),
            retold: OrdersRetold::default(),
            seen: Vec::new(),
        })
    }

    fn tell(&self, told: Told) {
        // The thread ends with the executor alone.
        let _ = self.tasks.send(told);
    }

    fn start_of(
        &self,
        (order, job): (OrderId, JobId),
        assignments: &[Assignment],
        known: bool,
        broker: &Broker,
    ) -> Option<Result<Start, String>> {
        let lease = broker.lease(job.0)?;
        let asks = ask::of(
            lease,
            order,
            assignments,
            broker,
            &*self.host,
            (self.port, self.by_claims),
        );
        Some(asks.map(|asks| Start {
            order,
            job,
            asks,
            known,
        }))
    }

    fn want(&mut self, wanted: Wanted, broker: &Broker) {
        let refused = |order, why: &str| Observation::failed(order, why.into());
        match wanted {
            Wanted::Start {
                order,
                job,
                assignments,
            } => match self.start_of((order, job), &assignments, false, broker) {
                Some(Ok(start)) => self.tell(Told::Start(start)),
                Some(Err(reason)) => self.seen.push(Observation::failed(order, reason)),
                None => {}
            },
            Wanted::Stop { order, job, grace } => {
                let grace = Duration::from_nanos(grace.0);
                self.tell(Told::Stop { order, job, grace });
            }
            // A pod that gives its GPUs up is deleted; it starts again as another one.
            Wanted::GiveUp { order, job } => self.tell(Told::Stop {
                order,
                job,
                grace: GRACE,
            }),
            Wanted::Forget(job) => self.tell(Told::Forget(job)),
            Wanted::Nothing(order) | Wanted::Drop(order) => {
                self.seen.push(Observation::Done(order));
            }
            Wanted::Cut(order) => self.seen.push(refused(
                order,
                "GPUs of the cluster are cut by its MIG manager: `gpuwise operator` labels nodes for it",
            )),
            Wanted::Compose(order) => {
                self.seen
                    .push(refused(order, "Kubernetes attaches no GPUs to nodes"));
            }
            Wanted::Keep(order) => self.seen.push(refused(
                order,
                "nodes of the cluster read no weights ahead",
            )),
        }
    }
}

/// Nodes of the fleet, and whether the log has them up.
fn fleet(broker: &Broker) -> BTreeMap<String, bool> {
    let nodes = broker.world().nodes().iter();
    let nodes = nodes.filter(|state| !state.left || state.fence().is_some());
    nodes
        .map(|state| {
            let up = state.fence().is_none() && state.node.health == Health::Up;
            (state.node.name.clone(), up)
        })
        .collect()
}

impl Executor for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        Some(Arc::new(self.place.clone()))
    }

    fn takes_images(&self) -> bool {
        true
    }

    fn adopt(&mut self, broker: &Broker) {
        let mut starts = Vec::new();
        for running in self.wants.adopt(broker) {
            let Running {
                order,
                job,
                assignments,
            } = running;
            match self.start_of((order, job), &assignments, true, broker) {
                Some(Ok(start)) => starts.push(start),
                Some(Err(reason)) => self.seen.push(Observation::Exited {
                    job,
                    order,
                    code: None,
                    reason,
                    ago: None,
                }),
                None => {}
            }
        }
        // A broker of this log that runs elsewhere, or ran before, has the same.
        let log = format!("{:x}", broker.begun().0);
        let told = broker.orders_by(Nanoseconds(u64::MAX));
        self.tell(Told::Adopt(Adopted {
            log,
            starts,
            expected: told
                .filter_map(|order| Some((order.starts()?, order.id)))
                .collect(),
            fleet: fleet(broker),
        }));
    }

    fn take(&mut self, _now: Nanoseconds, order: &Order, broker: &Broker) {
        for wanted in self.wants.take(order, broker) {
            self.want(wanted, broker);
        }
    }

    fn observe(&mut self, _now: Nanoseconds) -> Vec<Observation> {
        if self.retold.is_done_at_this_look() {
            self.tell(Told::All);
        }
        std::mem::take(&mut self.seen)
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        // What has been seen is to be told at once.
        (!self.seen.is_empty()).then_some(Nanoseconds(0))
    }
}
