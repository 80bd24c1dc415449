//! All objects that were asked about, and what is wanted for each.

use super::{
    Source,
    log::Line,
    messages::ScaledObjectRef,
    service::{Service, Watched, Wrong},
};
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::watch;

/// Who is not asked about for so long is forgotten.
const FORGOTTEN_MS: u64 = 3_600_000;
/// Objects at most: whoever may connect may ask.
const MOST: usize = 10_000;

struct Object {
    watched: Watched,
    asked_ms: u64,
    /// Whether it is to have a replica; `None`: nothing is known yet.
    active: watch::Sender<Option<bool>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Refused {
    #[error("{object}: {why}")]
    Wrong { object: String, why: Wrong },
    #[error("{MOST} objects are watched already")]
    TooMany,
    /// Nothing was ever read of it: KEDA keeps what there is, or falls back.
    #[error("{object}: {why}")]
    NotYet { object: String, why: String },
}

type Log = Mutex<Option<Box<dyn Write + Send>>>;

pub(super) struct Objects {
    all: Mutex<BTreeMap<String, Object>>,
    source: Arc<Source>,
    period: Nanoseconds,
    log: Log,
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

impl Objects {
    pub(super) fn new(
        source: Arc<Source>,
        period: Nanoseconds,
        log: Option<Box<dyn Write + Send>>,
    ) -> Self {
        Self {
            all: Mutex::default(),
            source,
            period,
            log: Mutex::new(log),
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an object on, or notes that it was asked about; of one that is new it is read what comes. Waits for
    /// the source.
    pub(super) fn know(&self, asked: &ScaledObjectRef) -> Result<String, Refused> {
        let key = format!("{}/{}", asked.namespace, asked.name);
        let service = Service::of(&asked.scaler_metadata).map_err(|why| Refused::Wrong {
            object: key.clone(),
            why,
        })?;
        let now = now_ms();
        let fresh = {
            let mut all = self.all();
            let count = all.len();
            match all.get_mut(&key) {
                Some(object) if object.watched.service == service => {
                    object.asked_ms = now;
                    object.watched.wanted().is_none()
                }
                Some(object) => {
                    object.watched = Watched::new(service, self.period);
                    object.asked_ms = now;
                    true
                }
                None if count >= MOST => return Err(Refused::TooMany),
                None => {
                    let object = Object {
                        watched: Watched::new(service, self.period),
                        asked_ms: now,
                        active: watch::Sender::new(None),
                    };
                    all.insert(key.clone(), object);
                    true
                }
            }
        };
        if fresh {
            self.look(&key);
        }
        Ok(key)
    }

    /// How many replicas an object is to have.
    pub(super) fn replicas(&self, asked: &ScaledObjectRef) -> Result<u32, Refused> {
        let key = self.know(asked)?;
        let all = self.all();
        let wanted = all.get(&key).and_then(|object| object.watched.wanted());
        wanted.ok_or_else(|| Refused::NotYet {
            object: key.clone(),
            why: "the source has given no rate yet".into(),
        })
    }

    /// Whether an object is to have a replica, now and whenever that changes.
    pub(super) fn activity(
        &self,
        asked: &ScaledObjectRef,
    ) -> Result<watch::Receiver<Option<bool>>, Refused> {
        let key = self.know(asked)?;
        let all = self.all();
        let object = all.get(&key).ok_or(Refused::TooMany)?;
        Ok(object.active.subscribe())
    }

    /// A period is over: all are looked at, and those are forgotten about whom nobody asks any more.
    pub(super) fn tick(&self) {
        let now = now_ms();
        let keys: Vec<String> = {
            let mut all = self.all();
            all.retain(|_, object| {
                let open = object.active.receiver_count() > 0;
                open || now.saturating_sub(object.asked_ms) < FORGOTTEN_MS
            });
            all.keys().cloned().collect()
        };
        for key in keys {
            self.look(&key);
        }
    }

    /// Reads what comes for an object, and decides.
    fn look(&self, key: &str) {
        let query = {
            let all = self.all();
            all.get(key)
                .map(|object| object.watched.service.query.clone())
        };
        let Some(query) = query else { return };
        // Nobody waits for the source but who asks about one that is new.
        let read = (self.source)(&query);
        let at = now_ms();
        let mut all = self.all();
        let Some(object) = all
            .get_mut(key)
            .filter(|one| one.watched.service.query == query)
        else {
            return;
        };
        let fresh = object.watched.is_fresh();
        let wanted = object.watched.decide(at, &read);
        let active = wanted.replicas.map(|replicas| replicas > 0);
        object.active.send_if_modified(|known| {
            let changed = *known != active;
            *known = active;
            changed
        });
        let line = Line::new(
            at,
            key,
            self.period,
            &object.watched.service,
            fresh,
            &read,
            wanted,
        );
        self.say(&line);
    }

    fn say(&self, line: &Line) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(out) = log.as_mut()
            && let Ok(mut text) = serde_json::to_string(line)
        {
            text.push('\n');
            // A full disk does not stop what scales.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}
