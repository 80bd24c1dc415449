//! Keys of an identity provider: read again as they grow old, and where a token names one that is not known.

use super::{OidcError, OidcSettings};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use serde_json::Value;
use std::{
    fs,
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Keys of this age are read again before one of them is believed: a withdrawn key is dropped then.
pub(super) const FRESH: Duration = Duration::from_mins(5);

/// Keys of this age are not believed any more, though the provider does not answer.
pub(super) const OLDEST: Duration = Duration::from_hours(1);

/// Time between two reads for keys that are not known: a bound of what random ids cost the provider, and of how
/// long a new key waits meanwhile.
pub(super) const UNKNOWN_AGAIN: Duration = Duration::from_secs(5);

/// Time between two reads for old keys, where the provider does not answer.
const OLD_AGAIN: Duration = Duration::from_secs(30);

/// Requests that wait at most for a read that is under way.
const WAITING: usize = 8;

/// How long the provider has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of its answers at most.
const LARGEST: u64 = 1 << 20;

/// What a provider said of its keys, and when.
#[derive(Debug)]
struct KeysRead {
    keys: JwkSet,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct ProviderKeys {
    settings: OidcSettings,
    known: RwLock<KeysRead>,
    /// When the provider was asked last, whatever it said; locked while it is asked.
    asked: Mutex<Instant>,
    waiting: AtomicUsize,
}

impl ProviderKeys {
    pub(super) fn new(settings: OidcSettings, now: Instant) -> Result<Self, OidcError> {
        let keys = keys(&settings)?;
        Ok(Self {
            settings,
            known: RwLock::new(KeysRead { keys, at: now }),
            asked: Mutex::new(now),
            waiting: AtomicUsize::new(0),
        })
    }

    /// The key of an id, as the provider has it.
    pub(super) fn key(&self, id: Option<&str>, now: Instant) -> Result<Jwk, String> {
        if self.age(now) >= FRESH
            && let Some(asked) = self.free()
        {
            self.read(asked, OLD_AGAIN, now);
        }
        if self.age(now) < OLDEST
            && let Some(key) = self.find(id)
        {
            return Ok(key);
        }
        if let Some(asked) = self.free().or_else(|| self.in_turn()) {
            self.read(asked, UNKNOWN_AGAIN, now);
        }
        let age = self.age(now);
        if age >= OLDEST {
            return Err(format!(
                "the keys of its provider were read {} s ago, and the provider does not answer since",
                age.as_secs()
            ));
        }
        self.find(id).ok_or_else(|| {
            format!(
                "it is signed with a key that its provider does not have (asked again every {} s at most)",
                UNKNOWN_AGAIN.as_secs()
            )
        })
    }

    fn age(&self, now: Instant) -> Duration {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(known.at)
    }

    fn find(&self, id: Option<&str>) -> Option<Jwk> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match id {
            Some(id) => known.keys.find(id).cloned(),
            // Without a name there must be no doubt.
            None => match known.keys.keys.as_slice() {
                [one] => Some(one.clone()),
                _ => None,
            },
        }
    }

    /// The right to ask, where the provider is not being asked.
    fn free(&self) -> Option<MutexGuard<'_, Instant>> {
        match self.asked.try_lock() {
            Ok(asked) => Some(asked),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The right to ask after those that ask now; `None`: too many wait for it, and a thread each is taken.
    fn in_turn(&self) -> Option<MutexGuard<'_, Instant>> {
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        let turn =
            (before < WAITING).then(|| self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        turn
    }

    /// Reads the keys again, where that was not done just now; those that are known stay where nothing answers.
    fn read(&self, mut asked: MutexGuard<'_, Instant>, again: Duration, now: Instant) {
        if now.saturating_duration_since(*asked) < again {
            return;
        }
        *asked = now;
        if let Ok(keys) = keys(&self.settings) {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            *known = KeysRead { keys, at: now };
        }
    }
}

fn keys(settings: &OidcSettings) -> Result<JwkSet, OidcError> {
    const WHAT: &str = "set of keys (JWKS)";
    if let Some(keys) = &settings.keys {
        return parsed(keys, WHAT);
    }
    let issuer = settings.issuer.trim_end_matches('/');
    let from = format!("{issuer}/.well-known/openid-configuration");
    let described: Value = parsed(&from, "description of a provider")?;
    let keys = described["jwks_uri"].as_str();
    let keys = keys.ok_or_else(|| OidcError::Form {
        from,
        what: "description of a provider",
        problem: "it has no jwks_uri".into(),
    })?;
    parsed(keys, WHAT)
}

fn parsed<T: serde::de::DeserializeOwned>(from: &str, what: &'static str) -> Result<T, OidcError> {
    let text = read(from).map_err(|problem| OidcError::Read {
        from: from.into(),
        problem,
    })?;
    serde_json::from_str(&text).map_err(|error| OidcError::Form {
        from: from.into(),
        what,
        problem: error.to_string(),
    })
}

fn read(from: &str) -> Result<String, String> {
    if !from.starts_with("http://") && !from.starts_with("https://") {
        return fs::read_to_string(from).map_err(|error| error.to_string());
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .build()
        .into();
    let mut said = agent.get(from).call().map_err(|error| error.to_string())?;
    let body = said.body_mut().with_config().limit(LARGEST);
    body.read_to_string().map_err(|error| error.to_string())
}
