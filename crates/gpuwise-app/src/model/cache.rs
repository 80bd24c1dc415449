//! The local hub cache: `models--organisation--name` with `refs` and `snapshots`.

use super::{ResolvedModel, local};
use crate::error::Problem;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// A model of this id in the cache; `None` where it is not there, or without its configuration.
pub(super) fn resolve(id: &str) -> anyhow::Result<Option<ResolvedModel>> {
    let folder = format!("models--{}", id.replace('/', "--"));
    let snapshots = folders()
        .into_iter()
        .filter_map(|root| snapshot(&root.join(&folder)));
    let Some(snapshot) = snapshots.into_iter().find(|snapshot| holds_model(snapshot)) else {
        return Ok(None);
    };
    let found = local::directory(&snapshot, id.into()).map_err(|error| {
        Problem::new(format!("model {id:?} in the local hub cache")).because(error)
    })?;
    Ok(Some(ResolvedModel {
        origin: format!("local hub cache: {}", found.origin),
        ..found
    }))
}

/// Tokenizers alone are cached too.
fn holds_model(snapshot: &Path) -> bool {
    let gguf = || {
        let entries = fs::read_dir(snapshot).into_iter().flatten().flatten();
        entries
            .filter(|entry| {
                entry
                    .path()
                    .extension()
                    .is_some_and(|known| known == "gguf")
            })
            .count()
            == 1
    };
    snapshot.join("config.json").is_file() || gguf()
}

/// Where caches are, in the order in which hub clients look.
fn folders() -> Vec<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let explicit = set("HF_HUB_CACHE")
        .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| set("HF_HOME").map(|home| home.join("hub")));
    let usual = || {
        set("XDG_CACHE_HOME")
            .or_else(|| {
                set("HOME")
                    .or_else(|| set("USERPROFILE"))
                    .map(|home| home.join(".cache"))
            })
            .map(|cache| cache.join("huggingface").join("hub"))
    };
    explicit.or_else(usual).into_iter().collect()
}

/// The snapshot that `main` refers to; where there is no such reference, the newest.
fn snapshot(model: &Path) -> Option<PathBuf> {
    let snapshots = model.join("snapshots");
    let revision = fs::read_to_string(model.join("refs").join("main")).ok();
    let named = revision
        .as_deref()
        .map(str::trim)
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric()));
    if let Some(main) = named
        .filter(|name| !name.is_empty())
        .map(|name| snapshots.join(name))
        && main.is_dir()
    {
        return Some(main);
    }
    let entries = fs::read_dir(&snapshots)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_dir());
    let newest = entries.max_by_key(|entry| {
        (
            entry.metadata().and_then(|m| m.modified()).ok(),
            entry.file_name(),
        )
    })?;
    Some(newest.path())
}
