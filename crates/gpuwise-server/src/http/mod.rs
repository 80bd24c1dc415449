//! HTTP: one table of routes, which says path, access, documents and function of each.

mod call;
mod documents;
mod events;
mod fleet;
mod leases;
mod metrics;
mod open;
mod openapi;
mod page;
mod problem;
mod routes;
mod statements;
mod tenants;
mod tokens;

pub(crate) use metrics::Counters;
pub use openapi::openapi;

use crate::{
    clock::Clock,
    desk::Desk,
    message::{Answer, Command, Failure, Incoming, Message},
    serve::ServeError,
    standing::{Gate, Standing},
    writer::Shown,
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, on},
};
use call::Call;
use gpuwise_broker::Broker;
use gpuwise_store::LogEntry;
use problem::Problem;
use routes::{ROUTES, Route};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, PoisonError, RwLockReadGuard, mpsc::Sender},
    time::Duration,
};
use tokio::sync::{broadcast, oneshot, watch};

/// A body of a request at most, in bytes.
const LARGEST: usize = 1 << 20;

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
    /// The address of the log, to read what a follower missed.
    pub(crate) store: String,
    pub(crate) executor: &'static str,
    pub(crate) standing: Standing,
    /// Becomes true when the daemon ends.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) counters: metrics::Counters,
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
        let (answer, said) = oneshot::channel();
        let message = Incoming::Asked(Message { command, answer });
        self.inbox.send(message).map_err(|_| Failure::Closed)?;
        said.await.map_err(|_| Failure::Closed)?
    }
}

/// Answers until it is told to stop.
pub(crate) fn run(
    listener: TcpListener,
    gate: Arc<Gate>,
    mut closing: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let thread = |source| ServeError::Thread {
        what: "the HTTP server",
        source,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(thread)?;
    let snapshots = closing.clone();
    let result = runtime.block_on(async move {
        tokio::spawn(snapshots_behind(Arc::clone(&gate), snapshots));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut told = closing.clone();
        let ended = async move {
            let _ = told.wait_for(|closing| *closing).await;
        };
        let serving = axum::serve(listener, router(&gate)).with_graceful_shutdown(ended);
        let limit = async move {
            // Whoever is slow to take an answer does not hold up the end.
            let _ = closing.wait_for(|closing| *closing).await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            result = serving.into_future() => result,
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
            async move { problem.into_response() }
        })
        .method_not_allowed_fallback(|method: Method| async move {
            let what = format!("{method} is not possible here; GET /openapi.json lists all");
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", what).into_response()
        })
}

async fn answer(gate: Arc<Gate>, route: &'static Route, request: Request) -> Response {
    let Some(shared) = gate.shared() else {
        return open::closed(&gate.standing, route.id);
    };
    let response = match called(shared, route, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    shared.counters.count(route.id, response.status());
    response
}

async fn called(
    shared: &Arc<Shared>,
    route: &'static Route,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut call = Call::new(Arc::clone(shared), route, &parts)?;
    call.body = read(body).await?;
    (route.run)(call).await
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    axum::body::to_bytes(body, LARGEST).await.map_err(|_| {
        let what = format!("the body is larger than {LARGEST} bytes, or was cut off");
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
