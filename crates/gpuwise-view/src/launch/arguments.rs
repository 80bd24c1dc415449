//! Settings to flags, each held against the release.

use super::{EmitError, hosts::Hosts};
use gpuwise_domain::{
    engine::Release,
    facts::{EngineFacts, FlagKind, PoolRole},
};
use gpuwise_units::Bytes;
use serde_json::{Map, Value};

/// All servers of a deployment, and what to know about them.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) servers: Vec<Server>,
    pub(super) notes: Vec<String>,
}

/// A server of a pool, started once for each replica.
#[derive(Debug)]
pub(super) struct Server {
    /// Its part in disaggregated serving.
    pub(super) role: Option<PoolRole>,
    /// How many are started.
    pub(super) replicas: u32,
    /// GPUs or slices of each.
    pub(super) gpus: u32,
    /// Words that start it, the model last.
    pub(super) words: Vec<String>,
    pub(super) flags: Vec<(String, Option<String>)>,
    /// Its settings file: name and text.
    pub(super) file: Option<(&'static str, String)>,
    pub(super) port: u16,
    /// Host memory for prefixes that its GPUs' caches have no room for; 0: none.
    pub(super) host_cache: Bytes,
    /// Where it spans hosts and the form starts all of them.
    pub(super) hosts: Option<Hosts>,
}

impl Server {
    /// `prefill`, `decode`, or nothing.
    pub(super) fn pool(&self) -> Option<&'static str> {
        self.role.map(|role| match role {
            PoolRole::Prefill => "prefill",
            PoolRole::Decode => "decode",
        })
    }

    /// Flags and values as words.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.flags
            .iter()
            .flat_map(|(flag, value)| core::iter::once(flag.as_str()).chain(value.as_deref()))
    }
}

/// A value as it is written behind a flag.
pub(super) struct ArgumentValue(String);

macro_rules! told {
    ($($kind:ty),*) => {$(
        impl From<$kind> for ArgumentValue {
            fn from(value: $kind) -> Self {
                Self(value.to_string())
            }
        }
    )*};
}
told!(&str, String, u16, u32, u64, f64, Value);

/// Flags of a server as they are gathered.
pub(super) struct Arguments<'a> {
    facts: &'a EngineFacts,
    release: Release,
    /// Engine and release in words.
    pub(super) engine: String,
    pub(super) flags: Vec<(String, Option<String>)>,
    /// Keys of the settings file.
    pub(super) keys: Map<String, Value>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(facts: &'a EngineFacts, release: Option<Release>) -> Self {
        let release = facts.resolve(release);
        Self {
            facts,
            release,
            engine: format!("{} {}", facts.title, facts.spelled(release)),
            flags: Vec::new(),
            keys: Map::new(),
        }
    }

    /// Whether the release has a flag for a setting.
    pub(super) fn has(&self, setting: &str) -> bool {
        self.facts.flag_for(setting, Some(self.release)).is_some()
    }

    /// Whether the release's flag for a setting takes this value.
    pub(super) fn takes(&self, setting: &str, value: &str) -> bool {
        self.facts
            .flag_for(setting, Some(self.release))
            .is_some_and(|flag| chosen(&flag.kind, value))
    }

    pub(super) fn set(
        &mut self,
        setting: &str,
        value: impl Into<ArgumentValue>,
    ) -> Result<(), EmitError> {
        let ArgumentValue(value) = value.into();
        let flag = self
            .facts
            .flag_for(setting, Some(self.release))
            .ok_or_else(|| self.missing(setting, &value))?;
        if !chosen(&flag.kind, &value) {
            return Err(self.no_choice(&flag.name, &value, &flag.kind));
        }
        self.flags.push((flag.name.clone(), Some(value)));
        Ok(())
    }

    pub(super) fn switch(&mut self, setting: &str) -> Result<(), EmitError> {
        let flag = self
            .facts
            .flag_for(setting, Some(self.release))
            .ok_or_else(|| self.missing(setting, "on"))?;
        self.flags.push((flag.name.clone(), None));
        Ok(())
    }

    /// The release's flag for a setting, which takes this value.
    pub(super) fn flag(&self, setting: &str, value: &str) -> Result<String, EmitError> {
        self.facts
            .flag_for(setting, Some(self.release))
            .map(|flag| flag.name.clone())
            .ok_or_else(|| self.missing(setting, value))
    }

    /// Sets a setting where it is more than one rank.
    pub(super) fn ranks(&mut self, setting: &str, ranks: u32) -> Result<(), EmitError> {
        if ranks > 1 {
            self.set(setting, ranks)
        } else {
            Ok(())
        }
    }

    /// Sets a key of the settings file.
    pub(super) fn key(&mut self, setting: &str, value: Value) -> Result<(), EmitError> {
        let plain = value
            .as_str()
            .map_or_else(|| value.to_string(), String::from);
        let key = self
            .facts
            .key_for(setting, Some(self.release))
            .ok_or_else(|| self.missing(setting, &plain))?;
        let path = key.name.trim_start_matches("yaml:");
        if !chosen(&key.kind, &plain) {
            return Err(self.no_choice(path, &plain, &key.kind));
        }
        match path.split_once('.') {
            Some((object, key)) => {
                let inner = self
                    .keys
                    .entry(object)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(inner) = inner {
                    inner.insert(key.into(), value);
                }
            }
            None => {
                self.keys.insert(path.into(), value);
            }
        }
        Ok(())
    }

    /// Something that the engine cannot do.
    pub(super) fn unsupported(&self, problem: impl Into<String>) -> EmitError {
        EmitError::Unsupported {
            engine: self.engine.clone(),
            problem: problem.into(),
        }
    }

    fn missing(&self, setting: &str, value: &str) -> EmitError {
        let flags = self
            .facts
            .flags
            .iter()
            .filter(|flag| flag.setting == setting);
        let said = flags.map(|flag| match (flag.span.since, flag.span.until) {
            (Some(since), _) if since > self.release => {
                format!(": `{}` came with {}", flag.name, self.facts.spelled(since))
            }
            (_, Some(until)) => {
                format!(": `{}` went with {}", flag.name, self.facts.spelled(until))
            }
            _ => String::new(),
        });
        EmitError::NoFlag {
            engine: self.engine.clone(),
            setting: setting.replace('_', " "),
            value: value.into(),
            releases: said.max().unwrap_or_default(),
        }
    }

    fn no_choice(&self, flag: &str, value: &str, kind: &FlagKind) -> EmitError {
        let choices = match kind {
            FlagKind::Choice(choices) => choices.join(", "),
            _ => String::new(),
        };
        EmitError::NoChoice {
            engine: self.engine.clone(),
            flag: flag.into(),
            value: value.into(),
            choices,
        }
    }
}

fn chosen(kind: &FlagKind, value: &str) -> bool {
    match kind {
        FlagKind::Choice(choices) => choices.iter().any(|choice| choice == value),
        _ => true,
    }
}
