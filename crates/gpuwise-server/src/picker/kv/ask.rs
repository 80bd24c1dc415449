//! Which tokens prompts are: engines are asked (`/tokenize`), beside the requests and never before them.

use super::texts::Piece;
use crate::picker::pool::Pool;
use prost::bytes::Bytes;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, mpsc};

/// Prompts that wait to be asked about; of more it is not asked.
const QUEUE: usize = 64;
/// Questions at once.
const AT_ONCE: usize = 4;
/// A body at most of which it is asked, in bytes.
const LARGEST: usize = 1 << 20;
/// An engine that does not say is asked again after so long.
const AGAIN: Duration = Duration::from_mins(1);

/// The fields of a request that say which tokens it is; others an engine might refuse.
const FIELDS: [&str; 8] = [
    "model",
    "messages",
    "prompt",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "add_special_tokens",
];

/// Asks an engine at a host and port which tokens a prompt is; the body is that of its `/tokenize`.
pub type Asker = dyn Fn(&str, &[u8]) -> Result<Vec<u32>, String> + Send + Sync;

/// A prompt that was sent.
#[derive(Debug)]
pub(in crate::picker) struct Ask {
    pub(in crate::picker) address: String,
    pub(in crate::picker) body: Bytes,
    pub(in crate::picker) model: String,
    pub(in crate::picker) pieces: Vec<Piece>,
    /// Of the text.
    pub(in crate::picker) bytes: usize,
}

impl Ask {
    /// What an engine is asked; none where it is no prompt that it could say anything of.
    pub(super) fn question(&self) -> Option<Vec<u8>> {
        if self.body.len() > LARGEST {
            return None;
        }
        let read: serde_json::Map<_, _> = serde_json::from_slice(&self.body).ok()?;
        let is_text = read.get("prompt").is_some_and(serde_json::Value::is_string);
        if !is_text && !read.contains_key("messages") {
            return None;
        }
        let asked: serde_json::Map<_, _> = read
            .into_iter()
            .filter(|(key, _)| FIELDS.contains(&key.as_str()))
            .collect();
        serde_json::to_vec(&asked).ok()
    }
}

/// A place where prompts are left, and who asks about them, for as long as the runtime runs.
pub(in crate::picker) fn asks(asker: Arc<Asker>) -> (mpsc::Sender<Ask>, impl FnOnce(Arc<Pool>)) {
    let (send, prompts) = mpsc::channel(QUEUE);
    let start = |pool| drop(tokio::spawn(answers(pool, prompts, asker)));
    (send, start)
}

async fn answers(pool: Arc<Pool>, mut prompts: mpsc::Receiver<Ask>, asker: Arc<Asker>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let pending: Arc<Mutex<HashSet<u64>>> = Arc::default();
    let silent: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    while let Some(ask) = prompts.recv().await {
        let Some(key) = ask.pieces.last().map(|piece| piece.key) else {
            continue;
        };
        let silent_since = {
            let silent = silent.lock().unwrap_or_else(PoisonError::into_inner);
            silent.get(&ask.address).copied()
        };
        if silent_since.is_some_and(|since| since.elapsed() < AGAIN) {
            continue;
        }
        let Some(question) = ask.question() else {
            continue;
        };
        if !pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key)
        {
            continue;
        }
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let (pool, asker) = (Arc::clone(&pool), Arc::clone(&asker));
        let (pending, silent) = (Arc::clone(&pending), Arc::clone(&silent));
        tokio::task::spawn_blocking(move || {
            let said = asker(&ask.address, &question);
            pending
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&key);
            let mut silent = silent.lock().unwrap_or_else(PoisonError::into_inner);
            match said {
                Ok(tokens) => {
                    silent.remove(&ask.address);
                    if let Some(index) = pool.index() {
                        index.bind(&ask.pieces, ask.bytes, &tokens, &ask.model);
                    }
                }
                Err(_) => drop(silent.insert(ask.address, Instant::now())),
            }
            drop(permit);
        });
    }
}
