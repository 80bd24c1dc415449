//! All objects that were asked about, and what is wanted for each.

use super::{
    Source,
    log::{self, Line},
    messages::ScaledObjectRef,
    service::{self, Read, Service, Wrong},
    watched::Watched,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::scale::ScalePods;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::watch;

/// Who is not asked about for so long is forgotten.
const FORGOTTEN_MS: u64 = 3_600_000;
/// Objects at most: whoever may connect may ask.
const MOST: usize = 10_000;
/// Objects whose queries are asked at once.
const AT_ONCE: usize = 8;

/// A service as a file says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Defined {
    /// Namespace and name.
    object: String,
    service: Service,
    /// Replicas that are warm now; `None`: nobody says.
    warm: Option<u32>,
    /// Its pods as they are now; `None`: nothing sees them.
    pods: Option<ScalePods>,
}

impl Defined {
    /// With so many pods ready now, and so many that are not ready yet.
    #[must_use]
    pub const fn with_pods(mut self, ready: u32, starting: u32) -> Self {
        self.pods = Some(ScalePods { ready, starting });
        self
    }

    /// With so many replicas warm now.
    #[must_use]
    pub const fn with_warm(mut self, warm: u32) -> Self {
        self.warm = Some(warm);
        self
    }

    /// Namespace and name.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// # Errors
    /// What is missing, unknown or no such value.
    pub fn new(
        namespace: &str,
        name: &str,
        fields: &HashMap<String, String>,
    ) -> Result<Self, String> {
        let object = format!("{namespace}/{name}");
        match service::alone(fields) {
            Ok(service) => Ok(Self {
                object,
                service,
                warm: None,
                pods: None,
            }),
            Err(why) => Err(Refused::Wrong { object, why }.to_string()),
        }
    }
}

struct Object {
    watched: Watched,
    /// Replicas that are warm now; `None`: nobody says.
    warm: Option<u32>,
    pods: Option<ScalePods>,
    asked_ms: u64,
    /// A file says it: nobody else may say it otherwise, and it is not forgotten.
    defined: bool,
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
        if !self.noted(&key) {
            let service = service::of(&asked.scaler_metadata).map_err(|why| Refused::Wrong {
                object: key.clone(),
                why,
            })?;
            self.take_on(&key, service, false)?;
        }
        self.look_if_unknown(&key);
        Ok(key)
    }

    /// Whether a file says an object; that it was asked about is noted.
    fn noted(&self, key: &str) -> bool {
        let mut all = self.all();
        let defined = all.get_mut(key).filter(|object| object.defined);
        let Some(object) = defined else { return false };
        object.asked_ms = now_ms();
        true
    }

    fn take_on(&self, key: &str, service: Service, defined: bool) -> Result<(), Refused> {
        let mut all = self.all();
        let count = all.len();
        match all.get_mut(key) {
            Some(object) => {
                if object.watched.service != service {
                    object.watched = Watched::new(service, self.period);
                }
                object.asked_ms = now_ms();
                object.defined = defined;
            }
            None if count >= MOST => return Err(Refused::TooMany),
            None => {
                let object = Object {
                    watched: Watched::new(service, self.period),
                    warm: None,
                    pods: None,
                    asked_ms: now_ms(),
                    defined,
                    active: watch::Sender::new(None),
                };
                all.insert(key.to_owned(), object);
            }
        }
        Ok(())
    }

    fn look_if_unknown(&self, key: &str) {
        let unknown = {
            let all = self.all();
            all.get(key)
                .is_some_and(|object| object.watched.wanted().is_none())
        };
        if unknown {
            self.look(key);
        }
    }

    /// Takes on what a file says now, in place of what it said before.
    pub(super) fn define(&self, services: Vec<Defined>) -> Result<(), Refused> {
        let keys: BTreeSet<String> = services.iter().map(|one| one.object.clone()).collect();
        self.all()
            .retain(|key, object| !object.defined || keys.contains(key));
        for one in services {
            self.take_on(&one.object, one.service, true)?;
            if let Some(object) = self.all().get_mut(&one.object) {
                object.warm = one.warm;
                object.pods = one.pods;
            }
        }
        Ok(())
    }

    /// How many replicas one is to have that a file says, or that KEDA asked about.
    pub(super) fn replicas_of(&self, namespace: &str, name: &str) -> Result<u32, Refused> {
        let key = format!("{namespace}/{name}");
        if !self.all().contains_key(&key) {
            let why = Wrong::Unknown;
            return Err(Refused::Wrong { object: key, why });
        }
        self.look_if_unknown(&key);
        self.wanted(&key)
    }

    /// How many replicas an object is to have.
    pub(super) fn replicas(&self, asked: &ScaledObjectRef) -> Result<u32, Refused> {
        let key = self.know(asked)?;
        self.wanted(&key)
    }

    pub(super) fn wanted(&self, key: &str) -> Result<u32, Refused> {
        let all = self.all();
        let wanted = all.get(key).and_then(|object| object.watched.wanted());
        wanted.ok_or_else(|| Refused::NotYet {
            object: key.to_owned(),
            why: "the source has given no rate yet".into(),
        })
    }

    /// The same, with those that are to be warm beside them, and why those.
    pub(super) fn with_warm(&self, key: &str) -> Result<(u32, Option<u32>, String), Refused> {
        let replicas = self.wanted(key)?;
        let all = self.all();
        let object = all.get(key);
        let warm = object.and_then(|object| object.watched.warm());
        let why = object.map_or_else(String::new, |object| object.watched.warm_why().to_owned());
        Ok((replicas, warm, why))
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
                open || object.defined || now.saturating_sub(object.asked_ms) < FORGOTTEN_MS
            });
            all.keys().cloned().collect()
        };
        // A source that is slow for one holds up few others.
        let each = keys.len().div_ceil(AT_ONCE).max(1);
        thread::scope(|scope| {
            for some in keys.chunks(each) {
                scope.spawn(move || some.iter().for_each(|key| self.look(key)));
            }
        });
    }

    /// Reads what comes for an object, and decides.
    fn look(&self, key: &str) {
        let service = {
            let all = self.all();
            all.get(key).map(|object| object.watched.service.clone())
        };
        let Some(service) = service else { return };
        // Nobody waits for the source but who asks about one that is new.
        let read = service::read(&service, &*self.source);
        let at = now_ms();
        let mut all = self.all();
        let Some(object) = all
            .get_mut(key)
            .filter(|one| one.watched.service == service)
        else {
            return;
        };
        let fresh = object.watched.is_fresh();
        let warm = object.warm.map(f64::from);
        let pods = object.pods;
        let read = read.map(|read| Read { warm, pods, ..read });
        let wanted = object.watched.decide(at, &read);
        let active = wanted.replicas.map(|replicas| replicas > 0);
        object.active.send_if_modified(|known| {
            let changed = *known != active;
            *known = active;
            changed
        });
        let line = log::line(
            at,
            key,
            self.period,
            (&object.watched.service, fresh),
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
