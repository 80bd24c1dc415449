//! The models of the catalogue: configurations by name, resolved on demand.

use super::CatalogueError;
use crate::config::{ConfigError, parse_lenient, read_config_value};
use gpuwise_domain::{
    catalogue::{distance, folded, run_together},
    model::Architecture,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One model: a configuration of its own, or a base and what differs from it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// `organisation/name`.
    pub id: String,
    pub aliases: Vec<String>,
    /// The configuration, if it has its own.
    pub config: Option<Value>,
    /// The entry that it is derived from.
    pub base: Option<String>,
    /// What differs from the base.
    pub patch: Map<String, Value>,
    /// Where its facts come from.
    pub source: String,
}

/// Configurations by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelCatalogue {
    entries: Vec<ModelEntry>,
    /// Names in lower case, otherwise as they are written.
    written: BTreeMap<String, Named>,
    index: BTreeMap<String, Named>,
    /// Names without separators to the one entry that they can mean; `None` where several.
    loose: BTreeMap<String, Option<usize>>,
}

/// What a name means: an entry, which holds it as its id (first), as an alias, or as the part of its
/// id after the organisation.
type Named = (u8, usize);

/// Why a name does not lead to an architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("no model {name:?} in the catalogue")]
    Unknown { name: String, like: Vec<String> },
    /// Its configuration cannot be read.
    #[error("model {id:?}: its configuration: {source}")]
    Config { id: String, source: ConfigError },
}

impl ModelCatalogue {
    /// Adds the models of one file; a later file overrides entries of the same id.
    ///
    /// # Errors
    /// When the file is not a list of models, or a model lacks its id, source or configuration.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), CatalogueError> {
        let value = parse_lenient(text)
            .map_err(|error| CatalogueError::new(file, "file", error.to_string()))?;
        let Value::Array(items) = value else {
            return Err(CatalogueError::new(
                file,
                "file",
                "expected a list of models",
            ));
        };
        for (position, item) in items.into_iter().enumerate() {
            let entry = entry(file, position, item)?;
            let known = self.entries.iter().position(|known| known.id == entry.id);
            let at = known.unwrap_or(self.entries.len());
            if at < self.entries.len() {
                self.entries[at] = entry;
            } else {
                self.entries.push(entry);
            }
            self.name(at);
        }
        Ok(())
    }

    /// Puts the names of an entry into the indexes; of two entries with one name, that which holds
    /// it more closely keeps it, and else the earlier one.
    fn name(&mut self, at: usize) {
        let entry = &self.entries[at];
        let id = entry.id.as_str();
        let short = id.split_once('/').map(|(_, short)| (2, short));
        let aliases = entry.aliases.iter().map(|alias| (1, alias.as_str()));
        for (rank, name) in [(0, id)].into_iter().chain(aliases).chain(short) {
            for (index, key) in [
                (&mut self.written, name.to_lowercase()),
                (&mut self.index, folded(name)),
            ] {
                let held = index.entry(key).or_insert((rank, at));
                if rank < held.0 {
                    *held = (rank, at);
                }
            }
            self.loose
                .entry(run_together(name))
                .and_modify(|known| *known = known.filter(|known| *known == at))
                .or_insert(Some(at));
        }
    }

    /// All entries, in the order of their files.
    pub fn entries(&self) -> &[ModelEntry] {
        &self.entries
    }

    /// The entry of this id or alias; where there is none, the only one that is spelled like it
    /// but for separators between digits.
    pub fn entry(&self, name: &str) -> Option<&ModelEntry> {
        let named = self
            .written
            .get(&name.to_lowercase())
            .or_else(|| self.index.get(&folded(name)))
            .map(|named| named.1);
        let at = named.or_else(|| self.loose.get(&run_together(name)).copied().flatten())?;
        self.entries.get(at)
    }

    /// The configuration of an entry, with its base's fields: a patch is merged into them as
    /// RFC 7386 has it, object by object, and null removes.
    pub fn config(&self, entry: &ModelEntry) -> Option<Value> {
        let mut config = match (&entry.config, &entry.base) {
            (Some(own), _) => own.clone(),
            (None, Some(base)) => self.entry(base)?.config.clone()?,
            (None, None) => return None,
        };
        merge(&mut config, &entry.patch);
        Some(config)
    }

    /// The architecture of a name: its entry's, or that of the model of which the name is a
    /// quantized or tuned variant by its suffix.
    ///
    /// # Errors
    /// When there is no such name, with names like it; or when its configuration is wrong.
    pub fn resolve(&self, name: &str) -> Result<(&ModelEntry, Architecture), ResolveError> {
        let entry = self.entry(name).ok_or_else(|| ResolveError::Unknown {
            name: name.into(),
            like: self.names_like(name),
        })?;
        let config = self.config(entry).unwrap_or(Value::Null);
        let architecture = read_config_value(&config).map_err(|source| ResolveError::Config {
            id: entry.id.clone(),
            source,
        })?;
        Ok((entry, architecture))
    }

    /// Up to three ids like a name, best first.
    pub fn names_like(&self, name: &str) -> Vec<String> {
        let typed = folded(name);
        let mut ranked: Vec<(usize, &str)> = self
            .index
            .iter()
            .map(|(key, (_, at))| (distance(key, &typed), self.entries[*at].id.as_str()))
            .collect();
        ranked.sort_unstable();
        let mut out: Vec<String> = Vec::new();
        for (_, id) in ranked {
            if out.len() < 3 && !out.iter().any(|known| known == id) {
                out.push(id.into());
            }
        }
        out
    }
}

/// Merges a patch into an object, object by object; what is no object gives way to one.
fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.shift_remove(name);
            }
            Value::Object(inner) => merge(fields.entry(name.clone()).or_insert(Value::Null), inner),
            value => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

fn entry(file: &str, position: usize, item: Value) -> Result<ModelEntry, CatalogueError> {
    let name = item["id"].as_str().map_or_else(
        || format!("model {}", position + 1),
        |id| format!("model {id:?}"),
    );
    let fail = |problem: &str| CatalogueError::new(file, name.clone(), problem);
    let Value::Object(mut fields) = item else {
        return Err(fail("expected an object"));
    };
    let mut text = |field: &str| match fields.remove(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
        _ => None,
    };
    let id = text("id").ok_or_else(|| fail("`id` is missing"))?;
    let source = text("source").ok_or_else(|| fail("`source` is missing"))?;
    let base = text("base");
    let config = fields.remove("config");
    if base.is_some() == config.is_some() {
        return Err(fail("expected either `config` or `base`"));
    }
    let patch = match fields.remove("patch") {
        None => Map::new(),
        Some(Value::Object(patch)) => patch,
        Some(_) => return Err(fail("`patch` must be an object")),
    };
    let aliases = match fields.remove("aliases") {
        None => Vec::new(),
        Some(Value::Array(list)) => list
            .into_iter()
            .map(|alias| match alias {
                Value::String(alias) => Ok(alias),
                _ => Err(fail("`aliases` must be a list of texts")),
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(fail("`aliases` must be a list of texts")),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(fail(&format!("unknown field `{unknown}`")));
    }
    Ok(ModelEntry {
        id,
        aliases,
        config,
        base,
        patch,
        source,
    })
}
