//! The loop: leads or waits, sees, decides, writes.
//!
//! Level-triggered: each look makes its decision from all that is there, so that a missed event, a restart or a
//! second operator changes when something is done and not what. Nothing is asked for by the clock: a change that a
//! watch brings starts a look, or the end of a back-off.

mod acts;
mod claims;
mod clock;
mod definitions;
mod enact;
mod followed;
mod health;
mod heed;
mod journal;
mod keep;
mod kept;
mod lead;
mod look;
mod marks;
mod meter;
mod metrics;
mod moves;
mod nodes;
mod once;
mod own;
mod read;
mod release;
mod rules;
mod say;
mod seen;
mod served;
mod stands;
mod surges;
mod traces;
mod turns;
mod unanswered;
mod unread;
mod watches;
mod why;
mod workloads;
mod writes;

pub use journal::Journal;
pub use lead::{Lead, Term};
pub use meter::Measures;
pub use metrics::Metrics;
pub use once::{Asked, Which, price_book, read_workload, workload};
pub use why::{Answer, Why, why};
pub use workloads::{
    AuditAsk, Audited, Following, Meter, MeterAsk, PriceBook, Sized, Sizer, Sleeper, WorkloadAsk,
};

use crate::{
    admission,
    manifests::Mode,
    watch::{ConnectError, Source, Trouble, connect as cluster},
};
use gpuwise_otlp::{Collector, Queue};
use kube::{Client, client::ClientBuilder};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{mpsc, watch};
use tower::util::MapFutureLayer;

/// How an operator runs.
pub struct Settings {
    pub connection: Connection,
    /// Where its lease and its secret are.
    pub namespace: String,
    pub mode: Mode,
    /// Where it answers of its health and its figures.
    pub listen: SocketAddr,
    /// Where the API server asks; `None`: there is no webhook.
    pub webhook: Option<SocketAddr>,
    /// Names of the webhook beside those of its Service.
    pub webhook_names: Vec<String>,
    /// How long a certificate of the webhook is good; a new one is made after two thirds of it.
    pub certificate: Duration,
    /// As whom it leads: no two may have the same.
    pub identity: String,
    /// How long a lease holds that nobody renews.
    pub lease: Duration,
    /// Sizes what GpuWorkloads ask for; `None`: they are left as they are.
    pub sizer: Option<Arc<dyn Sizer>>,
    /// Measures what workloads do; `None`: nothing follows what is measured.
    pub measures: Option<Measures>,
    /// Puts engines of warm pods to sleep; `None`: nobody does.
    pub sleeper: Option<Arc<dyn Sleeper>>,
    /// Where traces go (OTLP over HTTP), such as `http://localhost:4318`; `None`: nowhere.
    pub otlp: Option<String>,
    pub journal: Arc<Journal>,
    pub boards: Boards,
}

/// Profiles of MIG of a product as nodes call it, each as resources spell it, and how many of it one GPU has at most;
/// none: it is not cut.
pub type Boards = Arc<dyn Fn(&str) -> BTreeMap<String, u32> + Send + Sync>;

/// How the cluster is reached.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `None`: as kubectl would, or as a pod of the cluster.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the operator cannot run")]
    Runtime(#[source] io::Error),
    #[error("{0}")]
    Trouble(Trouble),
    #[error("the API server has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("there is no pod {0}")]
    NoPod(String),
    #[error("there is no GpuWorkload {0}")]
    NoWorkload(String),
    #[error("{0}")]
    Rules(String),
}

impl Connection {
    /// A client that waits for no answer for ever.
    ///
    /// # Errors
    /// When nothing says where the cluster is.
    pub async fn client(&self) -> Result<Client, OperatorError> {
        let mut config = if self.kubeconfig.is_some() || self.context.is_some() {
            let source = Source::Kubeconfig {
                file: self.kubeconfig.clone(),
                context: self.context.clone(),
            };
            cluster::config(&source).await?
        } else {
            cluster::found().await?
        };
        config.connect_timeout = Some(Duration::from_secs(5));
        // Watches are quiet for minutes; the server ends each of them by itself before this.
        config.read_timeout = Some(Duration::from_secs(295));
        config.write_timeout = Some(Duration::from_secs(10));
        // What is refused is tried again by who asked, with its own back-off: a budget that keeps a pod says so at once.
        config.default_retry = false;
        let builder = ClientBuilder::try_from(config).map_err(cluster::unusable)?;
        Ok(builder
            .with_layer(&MapFutureLayer::new(clock::read))
            .build())
    }
}

/// Runs until the process is told to end; `listening` is told where its health is answered.
///
/// # Errors
/// When it cannot begin.
pub fn run(settings: Settings, listening: impl FnOnce(SocketAddr)) -> Result<(), OperatorError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(OperatorError::Runtime)?;
    let ended = runtime.block_on(operate(settings, listening));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn operate(
    settings: Settings,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), OperatorError> {
    let told = told_to_end().map_err(OperatorError::Runtime)?;
    let client = settings.connection.client().await?;
    let metrics = Arc::new(Metrics::default());
    let bind = |address| async move {
        admission::listen(address)
            .await
            .map_err(|source| OperatorError::Listen { address, source })
    };
    let health = bind(settings.listen).await?;
    let address = health.local_addr().map_err(OperatorError::Runtime)?;
    let (products, known) = watch::channel(Arc::<BTreeSet<String>>::default());
    if let Some(webhook) = settings.webhook {
        let listener = bind(webhook).await?;
        let (renew, newest) = watch::channel(None);
        let answered = Arc::clone(&metrics);
        let served = admission::Served {
            // Before the first look nothing is called unknown.
            knows: Box::new(move |product| {
                let known = Arc::clone(&known.borrow());
                known.is_empty() || known.contains(product)
            }),
            told: Box::new(move |gated, seconds| answered.reviewed(gated, seconds)),
        };
        tokio::spawn(admission::serve(listener, newest, served));
        let keeper = keep::Keeper::new(client.clone(), &settings, renew, Arc::clone(&metrics));
        tokio::spawn(keeper.keep());
    }
    let (lead, terms) = Lead::new(
        client.clone(),
        &settings.namespace,
        &settings.identity,
        settings.lease,
    );
    let (end, ends) = watch::channel(false);
    let leading = tokio::spawn(lead.run(ends, Arc::clone(&metrics)));
    let (send, changes) = mpsc::channel(4096);
    let troubles = watches::start(&client, &send, settings.mode == Mode::Act).await;
    let definitions = definitions::Definitions {
        client: client.clone(),
        journal: Arc::clone(&settings.journal),
        metrics: Arc::clone(&metrics),
    };
    let lacking = definitions.follow().await;
    tokio::spawn(health::serve(health, Arc::clone(&metrics)));
    listening(address);
    let wanted = settings.measures.clone().map(|measures| {
        let (wanted, wants) = watch::channel(Arc::default());
        tokio::spawn(meter::audit(measures.clone(), wants.clone(), send.clone()));
        tokio::spawn(meter::measure(measures, wants, send.clone()));
        wanted
    });
    let traces = traced(&settings, &metrics)?;
    let told_of = traces.clone().map(traces::Traces::new);
    let looks = look::Looks::new(
        client,
        &settings,
        terms,
        products,
        (metrics, wanted, told_of),
        heed::Heeded::new(lacking, troubles),
    );
    tokio::select! {
        () = looks.run(changes) => {}
        () = told => {}
    }
    // The next one need not wait until the lease ends.
    end.send_replace(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), leading).await;
    if let Some(traces) = traces {
        let flush = tokio::task::spawn_blocking(move || traces.flush(Duration::from_secs(2)));
        let _ = flush.await;
    }
    Ok(())
}

/// The way to the collector of traces, where there is one.
fn traced(settings: &Settings, metrics: &Metrics) -> Result<Option<Queue>, OperatorError> {
    let Some(endpoint) = &settings.otlp else {
        return Ok(None);
    };
    let queue = Queue::new(Collector::new(endpoint, "gpuwise-operator"));
    let queue = queue.map_err(OperatorError::Runtime)?;
    metrics.traced(queue.clone());
    Ok(Some(queue))
}

fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The present moment as the API writes it, with milliseconds.
pub(crate) fn now_text() -> String {
    format!("{:.3}", clock::now())
}

/// The same to the second, as conditions have it.
fn now_seconds() -> String {
    format!("{:.0}", clock::now())
}
