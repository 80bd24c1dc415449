//! An endpoint picker: a gateway (Envoy, and what is built on it) asks which endpoint of a pool gets each request.
//!
//! It asks by Envoy's external processing over gRPC, as the Gateway API's inference extension says. Nothing of a
//! request passes through a picker but what the gateway shows it.

mod admission;
mod choice;
mod exchange;
mod figures;
mod gateway;
mod grpc;
mod kv;
mod line;
mod messages;
mod objectives;
mod pool;
mod prompt;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests;
mod told;
mod under_way;

pub use admission::QueueSettings;
pub(crate) use exchange::{PickAsk, Refused};
pub use kv::{Asker, Port, PortError, Ports};
pub use objectives::Objectives;
pub use pool::{EngineLoad, PoolSettings};

use crate::{
    http::TlsFiles,
    listening::{BoundedListener, Connections, application},
    scaler::ScalerError,
    standing::Gate,
    stopping,
};
use admission::Admission;
use figures::Figures;
use gateway::OfGateway;
use grpc::Processor;
use pool::Pool;
use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::watch;
use tonic::{server::NamedService as _, transport::Server};
use tonic_health::ServingStatus;
use under_way::UnderWay;

/// Where a request goes.
pub(crate) struct Picked {
    /// By host and port, the first first; never empty.
    pub(crate) endpoints: Vec<String>,
    /// Headers of the request that are not the endpoint's business.
    pub(crate) hidden: &'static [&'static str],
    /// Dropped when the request is over.
    pub(crate) held: Box<dyn Held>,
}

/// A request that is under way.
pub(crate) trait Held: Send {
    /// Another endpoint than the first has it.
    fn served(&mut self, endpoint: &str);
}

impl Held for UnderWay {
    fn served(&mut self, endpoint: &str) {
        Self::served(self, endpoint);
    }
}

type Picking<'a> = Pin<Box<dyn Future<Output = Result<Picked, Refused>> + Send + 'a>>;

/// Who picks.
pub(crate) trait Picker: Send + Sync {
    fn pick(&self, ask: PickAsk) -> Picking<'_>;
}

type Look = dyn Fn(&str) -> Result<EngineLoad, String> + Send + Sync;

/// Who is in a pool, by host and port; at first that is not known.
#[derive(Debug, Clone)]
pub struct Membership(watch::Sender<Option<Vec<String>>>);

impl Default for Membership {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Membership {
    /// These, and nobody else.
    pub fn set(&self, addresses: Vec<String>) {
        self.0.send_replace(Some(addresses));
    }
}

/// A picker of one pool.
pub struct PickerSettings {
    pub listen: SocketAddr,
    /// Where figures are answered in plain HTTP, at /metrics.
    pub metrics: Option<SocketAddr>,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    pub pool: PoolSettings,
    pub members: Membership,
    /// Reads what an engine says of itself; an error: it does not answer.
    pub look: Arc<Look>,
    /// Between two looks at an engine.
    pub every: Duration,
    /// What requests are for.
    pub objectives: Objectives,
    pub queue: QueueSettings,
    /// Where engines say what they have cached, and who asks them about tokens; `None`: they do not.
    pub events: Option<(Ports, Arc<Asker>)>,
    /// Tells whoever runs the picker.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Answers gateways until the process is told to end; `listening` is told where, and where figures are.
///
/// # Errors
/// When nobody can be listened to.
pub fn picker(
    settings: PickerSettings,
    listening: impl FnOnce(SocketAddr, Option<SocketAddr>),
) -> Result<(), ScalerError> {
    let grpc = crate::scaler::listener(settings.listen)?;
    let metrics = settings.metrics.map(crate::scaler::listener).transpose()?;
    let runs = ScalerError::Runtime;
    let at = grpc.local_addr().map_err(runs)?;
    let figures_at = metrics.as_ref().map(std::net::TcpListener::local_addr);
    let figures_at = figures_at.transpose().map_err(runs)?;
    let mut server = Server::builder();
    if let Some(files) = &settings.tls {
        let tls = crate::scaler::tls(files)?;
        server = server.tls_config(tls).map_err(ScalerError::Tls)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(runs)?;
    let ended = runtime.block_on(async move {
        let told = stopping::told().map_err(runs)?;
        let incoming = tokio::net::TcpListener::from_std(grpc).map_err(runs)?;
        let connections = Connections::default();
        let incoming = BoundedListener::streams(incoming, &connections);
        let metrics = metrics.map(tokio::net::TcpListener::from_std);
        let metrics = metrics.transpose().map_err(runs)?;
        let (ports, asker) = settings.events.unzip();
        let (asks, asking) = asker.map(kv::asks).unzip();
        let pool = Arc::new(Pool::new(settings.pool, asks));
        if let Some(start) = asking {
            start(Arc::clone(&pool));
        }
        if let Some(ports) = ports {
            let membership = settings.members.clone();
            tokio::spawn(kv::follows(Arc::clone(&pool), membership, ports));
        }
        let admission = Admission::new(
            Arc::clone(&pool),
            settings.objectives,
            settings.queue,
            settings.say,
        );
        let admission = Arc::new(admission);
        tokio::spawn(Arc::clone(&admission).run());
        let figures = Arc::new(Figures::default());
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter
            .set_service_status("liveness", ServingStatus::Serving)
            .await;
        tokio::spawn(members(Arc::clone(&pool), settings.members, reporter));
        tokio::spawn(looks(Arc::clone(&pool), settings.look, settings.every));
        let processor = Processor {
            picker: Arc::clone(&admission) as Arc<dyn Picker>,
            figures: Arc::clone(&figures),
        };
        listening(at, figures_at);
        let serving = server
            .add_service(health)
            .add_service(processor)
            .serve_with_incoming(incoming);
        let answering = async move {
            let Some(listener) = metrics else {
                return std::future::pending().await;
            };
            let text = move || async move { figures.text(&pool, &admission) };
            let app = axum::Router::new().route("/metrics", axum::routing::get(text));
            let listener = BoundedListener::new(listener, &connections);
            axum::serve(listener, application(app)).await
        };
        tokio::select! {
            result = serving => result.map_err(ScalerError::Server),
            result = answering => result.map_err(ScalerError::External),
            () = told => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Answers gateways about the services of a broker, for as long as the runtime runs.
///
/// # Errors
/// When nobody can be answered any more.
pub(crate) async fn of_gateway(
    listener: tokio::net::TcpListener,
    connections: &Connections,
    tls: Option<&TlsFiles>,
    gate: Arc<Gate>,
) -> Result<(), ScalerError> {
    let mut server = Server::builder();
    if let Some(files) = tls {
        let tls = crate::scaler::tls(files)?;
        server = server.tls_config(tls).map_err(ScalerError::Tls)?;
    }
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in ["liveness", "readiness", Processor::NAME] {
        let status = ServingStatus::Serving;
        reporter.set_service_status(service, status).await;
    }
    let processor = Processor {
        picker: Arc::new(OfGateway(gate)),
        figures: Arc::default(),
    };
    let incoming = BoundedListener::streams(listener, connections);
    let serving = server.add_service(health).add_service(processor);
    let ended = serving.serve_with_incoming(incoming).await;
    ended.map_err(ScalerError::Server)
}

/// Takes on who is in the pool, and says whether that is known.
async fn members(
    pool: Arc<Pool>,
    membership: Membership,
    reporter: tonic_health::server::HealthReporter,
) {
    for service in ["", "readiness", Processor::NAME] {
        reporter
            .set_service_status(service, ServingStatus::NotServing)
            .await;
    }
    let mut endpoints = membership.0.subscribe();
    let mut ready = false;
    loop {
        let now = endpoints.borrow_and_update().clone();
        if let Some(addresses) = now {
            pool.set(&addresses);
        }
        if !ready && pool.is_known() {
            ready = true;
            for service in ["", "readiness", Processor::NAME] {
                reporter
                    .set_service_status(service, ServingStatus::Serving)
                    .await;
            }
        }
        // It never ends: who says it is held here.
        if endpoints.changed().await.is_err() {
            return;
        }
    }
}

/// Asks every engine what it has to do, again and again.
async fn looks(pool: Arc<Pool>, look: Arc<Look>, every: Duration) {
    let mut due = tokio::time::interval(every);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let asked = pool.addresses().into_iter().map(|address| {
            let (pool, look) = (Arc::clone(&pool), Arc::clone(&look));
            tokio::task::spawn_blocking(move || {
                let load = look(&address).ok();
                pool.tell(&address, load);
            })
        });
        for one in asked.collect::<Vec<_>>() {
            // The runtime ends.
            if one.await.is_err() {
                return;
            }
        }
    }
}
