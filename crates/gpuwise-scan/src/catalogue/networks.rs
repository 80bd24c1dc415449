//! The networks of the catalogue that are run whole: parts by name, resolved on demand.

use super::{CatalogueError, ModelCatalogue};
use crate::{
    config::parse_lenient,
    network::{NetworkError, read_network_value, read_part},
};
use gpuwise_domain::{
    catalogue::{distance, folded},
    network::{InputSize, Network},
};
use serde_json::{Map, Value};

/// One network: its parts, and the input for which it is usually asked.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkEntry {
    /// Its name on the hub, or the usual one.
    pub id: String,
    pub aliases: Vec<String>,
    /// What it makes of what.
    pub task: String,
    /// Its parts in the order in which they run.
    pub parts: Vec<PartEntry>,
    /// The input for which it is usually asked.
    pub usual: InputSize,
    /// Where its facts come from.
    pub source: String,
}

/// One part: a configuration, or where it is found, with what differs.
#[derive(Debug, Clone, PartialEq)]
pub struct PartEntry {
    /// As its folder is named.
    pub name: String,
    /// A configuration, or what differs from that which is referred to.
    pub config: Map<String, Value>,
    /// `ID:PART` of another network.
    pub same: Option<String>,
    /// A model of the catalogue of language models.
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetworkCatalogue {
    entries: Vec<NetworkEntry>,
}

/// Parts that refer to parts that refer: more steps than this are a circle.
const MOST_STEPS: usize = 8;

impl NetworkCatalogue {
    /// Adds the networks of one file; a later file overrides entries of the same id.
    ///
    /// # Errors
    /// When the file is not a list of networks, or a network lacks its id, source or parts.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), CatalogueError> {
        let value = parse_lenient(text)
            .map_err(|error| CatalogueError::new(file, "file", error.to_string()))?;
        let Value::Array(items) = value else {
            return Err(CatalogueError::new(
                file,
                "file",
                "expected a list of networks",
            ));
        };
        for (position, item) in items.into_iter().enumerate() {
            let entry = entry(file, position, item)?;
            self.entries.retain(|known| known.id != entry.id);
            self.entries.push(entry);
        }
        Ok(())
    }

    /// All entries, in the order of their files.
    pub fn entries(&self) -> &[NetworkEntry] {
        &self.entries
    }

    /// The entry of this id, alias, or last part of an id.
    pub fn entry(&self, name: &str) -> Option<&NetworkEntry> {
        let wanted = folded(name);
        let ids = |entry: &&NetworkEntry| folded(&entry.id) == wanted;
        let aliases =
            |entry: &&NetworkEntry| entry.aliases.iter().any(|alias| folded(alias) == wanted);
        let last = |entry: &&NetworkEntry| {
            let short = entry.id.split_once('/').map(|(_, short)| short);
            short.is_some_and(|short| folded(short) == wanted)
        };
        let all = || self.entries.iter();
        all()
            .find(ids)
            .or_else(|| all().find(aliases))
            .or_else(|| all().find(last))
    }

    /// The network of a name; a name that only the models have is read from there, where its class
    /// is run whole.
    ///
    /// # Errors
    /// When there is no such name, with names like it; or when a part cannot be read.
    pub fn resolve(&self, name: &str, models: &ModelCatalogue) -> Result<Network, NetworkError> {
        let Some(entry) = self.entry(name) else {
            return self.of_models(name, models);
        };
        let mut network = Network {
            name: entry.id.clone(),
            task: entry.task.clone(),
            usual: entry.usual,
            ..Network::default()
        };
        for part in &entry.parts {
            let config = self.config(part, models, 0)?;
            network.components.extend(read_part(&part.name, &config)?);
        }
        Ok(network)
    }

    fn of_models(&self, name: &str, models: &ModelCatalogue) -> Result<Network, NetworkError> {
        let unknown = || NetworkError::Unknown {
            name: name.into(),
            like: self.names_like(name),
        };
        let entry = models.entry(name).ok_or_else(unknown)?;
        let config = models.config(entry).ok_or_else(unknown)?;
        let crossed = matches!(
            config["model_type"].as_str(),
            Some("t5" | "mt5" | "umt5" | "whisper" | "bart" | "mbart")
        );
        if crossed {
            read_network_value(&entry.id, &config)
        } else {
            Err(unknown())
        }
    }

    /// The configuration of a part, with what differs merged into what it refers to.
    fn config(
        &self,
        part: &PartEntry,
        models: &ModelCatalogue,
        step: usize,
    ) -> Result<Value, NetworkError> {
        let unknown = |name: &str| NetworkError::Unknown {
            name: name.into(),
            like: Vec::new(),
        };
        let mut config = match (&part.same, &part.model) {
            (Some(same), _) => {
                let found = same.rsplit_once(':').and_then(|(id, part)| {
                    let entry = self.entries.iter().find(|entry| entry.id == id)?;
                    entry.parts.iter().find(|known| known.name == part)
                });
                match found {
                    Some(other) if step < MOST_STEPS => self.config(other, models, step + 1)?,
                    _ => return Err(unknown(same)),
                }
            }
            (None, Some(model)) => models
                .entry(model)
                .and_then(|entry| models.config(entry))
                .ok_or_else(|| unknown(model))?,
            (None, None) => Value::Object(Map::new()),
        };
        if let Value::Object(fields) = &mut config {
            for (name, value) in &part.config {
                fields.insert(name.clone(), value.clone());
            }
        }
        Ok(config)
    }

    /// Up to three ids like a name, best first.
    pub fn names_like(&self, name: &str) -> Vec<String> {
        let typed = folded(name);
        let mut ranked: Vec<(usize, &str)> = self
            .entries
            .iter()
            .flat_map(|entry| {
                let names = entry.aliases.iter().chain([&entry.id]);
                names.map(|known| (distance(&folded(known), &typed), entry.id.as_str()))
            })
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

fn entry(file: &str, position: usize, item: Value) -> Result<NetworkEntry, CatalogueError> {
    let name = item["id"].as_str().map_or_else(
        || format!("network {}", position + 1),
        |id| format!("network {id:?}"),
    );
    let fail = |problem: String| CatalogueError::new(file, name.clone(), problem);
    let Value::Object(mut fields) = item else {
        return Err(fail("expected an object".into()));
    };
    let id = taken(&mut fields, "id").ok_or_else(|| fail("`id` is missing".into()))?;
    let source = taken(&mut fields, "source").ok_or_else(|| fail("`source` is missing".into()))?;
    let task = taken(&mut fields, "task").unwrap_or_default();
    let aliases = match fields.remove("aliases") {
        None => Vec::new(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|alias| alias.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| fail("`aliases` must be a list of texts".into()))?,
        Some(_) => return Err(fail("`aliases` must be a list of texts".into())),
    };
    let parts = match fields.remove("parts") {
        Some(Value::Array(parts)) if !parts.is_empty() => parts
            .into_iter()
            .map(part)
            .collect::<Result<Vec<_>, _>>()
            .map_err(&fail)?,
        _ => return Err(fail("`parts` must be a list of parts".into())),
    };
    let usual = match fields.remove("usual") {
        None => InputSize::default(),
        Some(Value::Object(usual)) => input(usual).map_err(&fail)?,
        Some(_) => return Err(fail("`usual` must be an object".into())),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(fail(format!("unknown field `{unknown}`")));
    }
    Ok(NetworkEntry {
        id,
        aliases,
        task,
        parts,
        usual,
        source,
    })
}

/// A text that is there and not empty.
fn taken(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
        _ => None,
    }
}

fn part(value: Value) -> Result<PartEntry, String> {
    let Value::Object(mut fields) = value else {
        return Err("a part must be an object".into());
    };
    let name = taken(&mut fields, "name").ok_or("a part has no `name`")?;
    let same = taken(&mut fields, "same");
    let model = taken(&mut fields, "model");
    let config = match fields.remove("config") {
        None if same.is_some() || model.is_some() => Map::new(),
        Some(Value::Object(config)) => config,
        _ => {
            return Err(format!(
                "part {name:?} needs a `config`, or `same` or `model`"
            ));
        }
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("part {name:?}: unknown field `{unknown}`"));
    }
    Ok(PartEntry {
        name,
        config,
        same,
        model,
    })
}

fn input(fields: Map<String, Value>) -> Result<InputSize, String> {
    let mut usual = InputSize::default();
    for (name, value) in fields {
        let wrong = || format!("`usual.{name}` is {value}, which is no such size");
        let count = || value.as_u64().map(Some).ok_or_else(wrong);
        let real = || value.as_f64().map(Some).ok_or_else(wrong);
        match name.as_str() {
            "width" => usual.width = count()?,
            "height" => usual.height = count()?,
            "frames" => usual.frames = count()?,
            "steps" => usual.steps = count()?,
            "text_tokens" => usual.text_tokens = count()?,
            "written_tokens" => usual.written_tokens = count()?,
            "seconds" => usual.seconds = real()?,
            "windows" => usual.windows = real()?,
            "guided" => usual.guided = Some(value.as_bool().ok_or_else(wrong)?),
            _ => return Err(format!("unknown field `usual.{name}`")),
        }
    }
    Ok(usual)
}
