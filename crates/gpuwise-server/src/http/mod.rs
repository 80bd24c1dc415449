//! HTTP: one table of routes, which says path, access, documents and function of each.

mod audit;
pub(crate) mod call;
mod documents;
pub(crate) mod door;
mod dry;
mod events;
mod fleet;
mod images;
mod leases;
mod logged;
mod logs;
mod metrics;
mod offers;
mod open;
mod openapi;
mod page;
mod people;
mod plans;
mod policies;
mod prices;
mod problem;
mod proposals;
mod reservations;
mod routes;
mod rules;
mod scaling;
mod secrets;
mod secure;
mod slos;
mod statement_page;
mod statements;
mod tags;
mod tenants;
mod tokens;
mod usage;

pub(crate) use metrics::{Counters, Monitored};
pub use openapi::openapi;
pub(crate) use secure::Secure;
pub use secure::{TlsError, TlsFiles};

use crate::{
    clock::Clock,
    conservation::Unconserved,
    desk::Desk,
    endpoints::Endpoints,
    executor::{Accounts, Logs, Queued, Remains},
    gateway,
    limits::Limits,
    listening::{BoundedListener, Connection, Connections, application},
    message::{Answer, Command, Failure, Incoming, Message, Origin},
    observe::{HEADER, Line, Lines, Traces, request_id},
    oidc::Oidc,
    picker::of_gateway,
    serve::ServeError,
    standing::{Gate, Standing},
    tenant_bounds::{EventStreams, UsageUnderWay},
    writer::Shown,
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, on},
};
use call::Call;
pub(crate) use events::LateReads;
use gpuwise_broker::Broker;
use gpuwise_store::LogEntry;
use gpuwise_units::Nanoseconds;
pub(crate) use logged::Reader;
pub(crate) use problem::Problem;
use routes::{ROUTES, Route};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, PoisonError, RwLockReadGuard, mpsc::Sender},
    time::{Duration, Instant},
};
use tokio::sync::{broadcast, oneshot, watch};

/// How long the body of a request may take where its connection does not say.
const BODY: Duration = Duration::from_mins(1);

/// A body of a request at most, in bytes.
pub(crate) const LARGEST: usize = 1 << 20;

/// How long open requests have when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);

/// What every request may use.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) shown: Shown,
    pub(crate) inbox: Sender<Incoming>,
    pub(crate) followers: broadcast::Sender<Arc<LogEntry>>,
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) clock: Clock,
    /// When this daemon began, by its clock.
    pub(crate) began: Nanoseconds,
    /// The address of the log, to read what a follower missed.
    pub(crate) store: String,
    pub(crate) executor: &'static str,
    /// Values of tenants' secrets.
    pub(crate) secrets: crate::secrets::Secrets,
    /// Whether a lease may name an image.
    pub(crate) takes_images: bool,
    /// What it keeps of what processes write.
    pub(crate) logs: Option<Arc<dyn Logs>>,
    /// Where services answer, who asks them, and what was asked.
    pub(crate) endpoints: Endpoints,
    /// Leases whose jobs wait at the system that runs them.
    pub(crate) queued: Queued,
    /// What leases that end wait for.
    pub(crate) remains: Remains,
    /// What the system that runs jobs keeps of tenants' accounts.
    pub(crate) accounts: Accounts,
    pub(crate) client: gateway::Client,
    /// How long engines may be silent.
    pub(crate) patience: gateway::EnginePatience,
    pub(crate) traffic: gateway::Traffic,
    /// What is asked of services that follow demand.
    pub(crate) demand: gateway::Demand,
    /// What comes to simulated services, by the names under which they serve.
    pub(crate) rehearsed: Vec<(String, crate::scaling::Rehearsal)>,
    /// Bytes of each node's memory in which weights may lie.
    pub(crate) warm_memory: u64,
    pub(crate) standing: Standing,
    /// Whether whoever asks does so by TLS.
    pub(crate) tls: bool,
    /// The identity provider whose tokens are believed beside our own.
    pub(crate) oidc: Option<Oidc>,
    /// Becomes true when the daemon ends.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) counters: metrics::Counters,
    /// Connections that there are, and how many were closed.
    pub(crate) connections: Connections,
    /// How much a tenant may ask.
    pub(crate) limits: Limits,
    /// Bytes of a request for a lease at most.
    pub(crate) lease_bytes: u64,
    /// Streams of events that there are.
    pub(crate) streams: EventStreams,
    /// Usage that tenants tell now.
    pub(crate) usage: UsageUnderWay,
    /// Reads the log for streams that begin late, one page at a time.
    pub(crate) late_reads: LateReads,
    /// Whether what was granted is charged.
    pub(crate) unconserved: Unconserved,
    /// Reads the log for who asks after what was; opened when it is first asked.
    pub(crate) reader: Reader,
    /// How asking a monitoring system goes.
    pub(crate) monitored: metrics::Monitored,
    pub(crate) lines: Lines,
    pub(crate) traces: Traces,
    /// The description of all this.
    pub(crate) openapi: String,
}

impl Shared {
    /// The state that is durable.
    pub(crate) fn broker(&self) -> RwLockReadGuard<'_, Broker> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the writer.
    pub(crate) async fn ask(&self, command: Command) -> Result<Answer, Failure> {
        self.ask_for(None, command).await
    }

    /// The same; that it was asked for, and by whom, is kept with what happens.
    pub(crate) async fn ask_for(
        &self,
        origin: impl Into<Option<Origin>>,
        command: Command,
    ) -> Result<Answer, Failure> {
        let (answer, said) = oneshot::channel();
        let message = Incoming::Asked(Message {
            command,
            origin: origin.into(),
            answer,
        });
        self.inbox.send(message).map_err(|_| Failure::Closed)?;
        said.await.map_err(|_| Failure::Closed)?
    }
}

/// Answers until it is told to stop.
pub(crate) fn run(
    listener: TcpListener,
    picker: Option<TcpListener>,
    tls: Option<TlsFiles>,
    connections: Connections,
    gate: Arc<Gate>,
    mut closing: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let thread = |source| ServeError::Thread {
        what: "the HTTP server",
        source,
    };
    let tls = match tls {
        Some(files) => {
            let config = files.config()?;
            Some((files, config))
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(thread)?;
    let snapshots = closing.clone();
    let result = runtime.block_on(async move {
        tokio::spawn(snapshots_behind(Arc::clone(&gate), snapshots));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let listener = BoundedListener::new(listener, &connections);
        let mut told = closing.clone();
        let ended = async move {
            let _ = told.wait_for(|closing| *closing).await;
        };
        // Ends with the runtime.
        tokio::spawn(gateway::watch(Arc::clone(&gate)));
        tokio::spawn(gateway::check(Arc::clone(&gate)));
        tokio::spawn(crate::scaling::watch(Arc::clone(&gate)));
        let files = tls.as_ref().map(|(files, _)| files.clone());
        let picking = picker.map(tokio::net::TcpListener::from_std).transpose()?;
        let behind = Arc::clone(&gate);
        let picking = async move {
            match picking {
                Some(listener) => of_gateway(listener, &connections, files.as_ref(), behind).await,
                None => std::future::pending().await,
            }
        };
        let app = application(router(&gate));
        let serving = async move {
            if let Some((files, config)) = tls {
                let listener = Secure::new(listener, files, config)?;
                let serving = axum::serve(listener, app).with_graceful_shutdown(ended);
                return serving.await;
            }
            let serving = axum::serve(listener, app).with_graceful_shutdown(ended);
            serving.await
        };
        let limit = async move {
            // Whoever is slow to take an answer does not hold up the end.
            let _ = closing.wait_for(|closing| *closing).await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            result = serving => result,
            result = picking => result.map_err(std::io::Error::other),
            () = limit => Ok(()),
        }
    });
    runtime.shutdown_timeout(GRACE);
    result.map_err(thread)
}

/// Makes snapshots once this daemon writes the log.
async fn snapshots_behind(gate: Arc<Gate>, closing: watch::Receiver<bool>) {
    loop {
        let over = *closing.borrow();
        if over {
            return;
        }
        if let Some(shared) = gate.shared() {
            return crate::snapshots::keep_up(shared.store.clone(), closing).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The route of a path at which services answer completions.
pub(crate) fn completion_route(path: &str) -> Option<&'static Route> {
    let of = |route: &&Route| route.path == path && route.takes == Some("CompletionAsk");
    ROUTES.iter().find(of)
}

fn router(gate: &Arc<Gate>) -> Router {
    let mut paths: BTreeMap<&str, Vec<&'static Route>> = BTreeMap::new();
    for route in ROUTES {
        paths.entry(route.path).or_default().push(route);
    }
    let mut router = Router::new();
    for (path, routes) in paths {
        for route in &routes {
            let gate = Arc::clone(gate);
            let filter = MethodFilter::try_from(route.method()).unwrap_or(MethodFilter::GET);
            let route: &'static Route = route;
            let answer = move |request: Request| answer(Arc::clone(&gate), route, request);
            router = router.route(path, on(filter, answer));
        }
    }
    let gate = Arc::clone(gate);
    router
        .fallback(move || {
            if let Some(shared) = gate.shared() {
                shared.counters.count("none", StatusCode::NOT_FOUND);
            }
            let problem = Problem::not_found("there is nothing here; GET /openapi.json lists all");
            // Clients of OpenAI's API ask for more than there is.
            async move { problem.into_openai() }
        })
        .method_not_allowed_fallback(|method: Method| async move {
            let what = format!("{method} is not possible here; GET /openapi.json lists all");
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", what).into_openai()
        })
}

async fn answer(gate: Arc<Gate>, route: &'static Route, request: Request) -> Response {
    let Some(shared) = gate.shared() else {
        return open::closed(&gate.standing, route);
    };
    let started = Instant::now();
    let id = request_id(request.headers());
    let path = request.uri().path().to_owned();
    let (said, who) = called(shared, route, request).await;
    let mut response = said.unwrap_or_else(|problem| route.answer(problem));
    shared.counters.count(route.id, response.status());
    shared.lines.write(&Line {
        id: &id,
        route: route.id,
        path: &path,
        who,
        status: response.status(),
        took: started.elapsed(),
    });
    response.headers_mut().insert(HEADER, id);
    response
}

/// Answers, and says who asked.
async fn called(
    shared: &Arc<Shared>,
    route: &'static Route,
    request: Request,
) -> (Result<Response, Problem>, Option<String>) {
    let (parts, body) = request.into_parts();
    let connection = parts.extensions.get::<ConnectInfo<Connection>>();
    let patience = connection.map_or(BODY, |ConnectInfo(one)| one.patience());
    let mut call = match Call::new(Arc::clone(shared), route, &parts) {
        Ok(call) => call,
        Err(problem) => return (Err(problem), None),
    };
    let who = call.who();
    call.body = match read(body, route.largest(), patience).await {
        Ok(body) => body,
        Err(problem) => return (Err(problem), who),
    };
    ((route.run)(call).await, who)
}

async fn read(body: Body, largest: usize, patience: Duration) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(patience, axum::body::to_bytes(body, largest));
    let read = read.await.map_err(|_| {
        let what = format!("the body did not come within {} s", patience.as_secs_f64());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body-late", what)
    })?;
    read.map_err(|_| {
        let what = format!("the body is larger than {largest} bytes, or was cut off");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body", what)
    })
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        text + "\n",
    )
        .into_response()
}
