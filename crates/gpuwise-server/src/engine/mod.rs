//! `gpuwise engine`: an inference engine that makes up its answers, at a given pace. It speaks OpenAI's API,
//! answers metrics by vLLM's names and sleeps as vLLM does, so that gateways, load generators and autoscalers
//! can be tried where there is no GPU.

mod answer;
mod metrics;

use crate::{
    listening::{BoundedListener, Connections, application},
    serve::ServeError,
    stopping,
};
use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::Response,
    routing::{get, post},
};
use metrics::Metrics;
use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// How it answers.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    pub listen: SocketAddr,
    /// The model that it says it serves.
    pub model: String,
    /// From when a request runs until its first token.
    pub ttft: Duration,
    /// Between tokens.
    pub tpot: Duration,
    /// Requests that run at once; others wait.
    pub concurrency: u32,
    /// From its start until it answers.
    pub load: Duration,
}

struct Engine {
    settings: EngineSettings,
    metrics: Metrics,
    slots: Semaphore,
    asleep: AtomicBool,
    loaded: AtomicBool,
}

type Shared = State<Arc<Engine>>;

/// Answers until it is told to end (SIGINT, SIGTERM); `say` hears where.
///
/// # Errors
/// When the address cannot be listened on.
pub fn engine(settings: EngineSettings, say: &mut dyn FnMut(SocketAddr)) -> Result<(), ServeError> {
    let address = settings.listen;
    let wrong = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    say(listener.local_addr().map_err(wrong)?);
    let thread = |source| ServeError::Thread {
        what: "the engine",
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(thread)?;
    runtime.block_on(async move {
        let told = stopping::told().map_err(thread)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
        let listener = BoundedListener::new(listener, &Connections::default());
        let slots = Semaphore::new(settings.concurrency as usize);
        let engine = Arc::new(Engine {
            metrics: Metrics::default(),
            slots,
            asleep: AtomicBool::new(false),
            loaded: AtomicBool::new(settings.load.is_zero()),
            settings,
        });
        let loading = Arc::clone(&engine);
        tokio::spawn(async move {
            tokio::time::sleep(loading.settings.load).await;
            loading.loaded.store(true, Ordering::Relaxed);
        });
        tokio::select! {
            served = axum::serve(listener, application(router(engine))).into_future() => served.map_err(thread),
            () = told => Ok(()),
        }
    })
}

fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/v1/models", get(answer::models))
        .route("/v1/completions", post(answer::completions))
        .route("/v1/chat/completions", post(answer::chat))
        .route("/metrics", get(metrics::show))
        .route("/sleep", post(sleep))
        .route("/wake_up", post(wake))
        .route("/is_sleeping", get(sleeps))
        .with_state(engine)
}

async fn health(State(engine): Shared) -> StatusCode {
    if engine.loaded.load(Ordering::Relaxed) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn sleep(State(engine): Shared) -> StatusCode {
    engine.asleep.store(true, Ordering::Relaxed);
    StatusCode::OK
}

async fn wake(State(engine): Shared) -> StatusCode {
    engine.asleep.store(false, Ordering::Relaxed);
    StatusCode::OK
}

async fn sleeps(State(engine): Shared) -> Response {
    let asleep = engine.asleep.load(Ordering::Relaxed);
    crate::http::json(
        StatusCode::OK,
        &serde_json::json!({ "is_sleeping": asleep }),
    )
}
