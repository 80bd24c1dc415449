//! Finding a model by what the user wrote: a path, a name of the catalogue, an id in the local hub
//! cache or on the hub, or bare numbers.

mod cache;
mod checkpoint;
mod gguf;
#[cfg(feature = "hub")]
mod hub;
mod local;
mod numbers;
mod source;
mod stand_in;

pub(crate) use local::safetensors_of;
pub use numbers::Numbers;
pub use stand_in::stand_in;

use crate::{catalogue::Loaded, error::Problem, media};
use gpuwise_domain::{engine::EngineKind, model::Architecture, network::Network};
use gpuwise_read::catalogue::ResolveError;
use std::path::Path;

/// A model with its shape and where that was read.
#[derive(Debug, Clone)]
pub struct ResolvedModel {
    /// The name under which it is shown and launched.
    pub name: String,
    pub origin: String,
    pub architecture: Architecture,
    /// Whether it is stored as GGUF, which llama.cpp serves.
    pub gguf: bool,
}

impl ResolvedModel {
    /// The model, where its requests are counted in tokens.
    ///
    /// # Errors
    /// When it takes audio.
    pub fn of_text(self) -> anyhow::Result<Self> {
        if !self.architecture.takes_audio() {
            return Ok(self);
        }
        Err(media::no_language_model(&Network {
            name: self.name,
            task: "speech to text".into(),
            ..Network::default()
        })
        .into())
    }

    /// The engine that people serve it with, where none is asked for.
    pub fn usual_engine(&self) -> EngineKind {
        if self.gguf {
            EngineKind::LlamaCpp
        } else {
            EngineKind::Vllm
        }
    }
}

/// Finds a model.
///
/// A path that exists comes first, then the local hub cache for a full id (what was downloaded is
/// what will run), then the catalogue, then the hub where the network is allowed.
///
/// # Errors
/// When it is nowhere, what was found cannot be read, or it is a diffusion, vision or embedding model.
pub fn resolve(name: &str, loaded: &Loaded, offline: bool) -> anyhow::Result<ResolvedModel> {
    let wanted = name.trim();
    if wanted.is_empty() {
        return Err(Problem::new("the model is an empty text")
            .hint(
                "name a model of `gpuwise models`, a directory with a config.json, or a GGUF file",
            )
            .into());
    }
    let network = || media::known(wanted, loaded).map(|found| media::no_language_model(&found));
    match on_this_machine(wanted) {
        Ok(Some(found)) => return Ok(found),
        Ok(None) => {}
        Err(error) => return Err(network().map_or(error, Into::into)),
    }
    let unknown = match loaded.models.resolve(wanted) {
        Ok((entry, architecture)) => {
            return Ok(ResolvedModel {
                name: entry.id.clone(),
                origin: format!("catalogue: {}", entry.source),
                architecture,
                gguf: false,
            });
        }
        Err(error @ ResolveError::Config { .. }) => return Err(error.into()),
        Err(ResolveError::Unknown { like, .. }) => like,
    };
    if let Some(problem) = network() {
        return Err(problem.into());
    }
    if is_id(wanted) && wanted.contains('/') {
        return on_hub(wanted, offline, &unknown);
    }
    Err(not_found(wanted).did_you_mean(&unknown).hint(ways()).into())
}

fn on_this_machine(wanted: &str) -> anyhow::Result<Option<ResolvedModel>> {
    match local::resolve(wanted)? {
        None if is_id(wanted) => cache::resolve(wanted),
        found => Ok(found),
    }
}

#[cfg(feature = "hub")]
fn on_hub(id: &str, offline: bool, like: &[String]) -> anyhow::Result<ResolvedModel> {
    if offline {
        return Err(not_found(id)
            .did_you_mean(like)
            .hint("without --offline it would be looked up on the model hub")
            .into());
    }
    hub::resolve(id).map_err(|error| {
        not_found(id)
            .because(error)
            .did_you_mean(like)
            .hint(ways())
            .into()
    })
}

#[cfg(not(feature = "hub"))]
fn on_hub(id: &str, _offline: bool, like: &[String]) -> anyhow::Result<ResolvedModel> {
    Err(not_found(id).did_you_mean(like).hint(ways()).into())
}

fn not_found(name: &str) -> Problem {
    Problem::new(format!(
        "model {name:?} is neither a path, nor in the catalogue or the local hub cache"
    ))
}

fn ways() -> &'static str {
    "`gpuwise models` lists what is known; else give a directory with a config.json, a GGUF file, or --params and --layers"
}

/// Whether a text has the form of a hub id, `organisation/name` or `name`, so that it may become a
/// path or an address.
fn is_id(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match text.split_once('/') {
        Some((organisation, name)) => part(organisation) && part(name),
        None => part(text),
    }
}

/// A path as people read it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn ids_cannot_leave_their_folder() {
        for (text, id) in [
            ("meta-llama/Llama-3.1-8B", true),
            ("gpt2", true),
            ("../secret", false),
            ("a/..", false),
            ("a/b/c", false),
            ("/etc/passwd", false),
            ("a b/c", false),
            ("org/name?x=y", false),
            ("-o/name", false),
        ] {
            assert_eq!(is_id(text), id, "{text}");
        }
    }
}
