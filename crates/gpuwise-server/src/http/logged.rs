//! Reading the log for answers.

use super::{Problem, call::Call};
use axum::http::StatusCode;
use gpuwise_store::{LogEntry, Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};

/// A connection to the log that is opened when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Reader(Arc<Mutex<Option<Store>>>);

/// Events of some kinds before one, the newest first.
pub(crate) async fn events_of(
    call: &Call,
    kinds: &'static [&'static str],
    before: u64,
    most: u32,
) -> Result<Vec<LogEntry>, Problem> {
    let (reader, address) = (Arc::clone(&call.shared.reader.0), call.shared.store.clone());
    let read = tokio::task::spawn_blocking(move || {
        let mut store = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match store.take() {
            Some(open) => open,
            None => Store::open(&address)?,
        };
        let read = open.events_of(kinds, before, most);
        // One that failed is opened anew.
        *store = read.is_ok().then_some(open);
        read
    });
    let problem = |error: StoreError| {
        let what = format!("the log cannot be read: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store", what).later(5)
    };
    let ended = |_| {
        let what = "the log could not be read: this is an error of gpuwise";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", what)
    };
    read.await.map_err(ended)?.map_err(problem)
}
