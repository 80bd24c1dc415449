//! Files that name services to watch: a `[[service]]` each, with its `namespace`, its `name`, and what a trigger of
//! KEDA would say of it.

use crate::{error::Problem, progress};
use gpuwise_read::catalogue::toml_line;
use gpuwise_server::Defined;
use serde::Deserialize;
use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A file of services, or a folder of such files.
pub(super) struct File {
    path: PathBuf,
    /// Files and when they were written, as they were last read.
    seen: Vec<(PathBuf, Option<SystemTime>)>,
    /// What was read and not taken yet.
    fresh: Option<Vec<Defined>>,
}

impl File {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let seen = files(path)?;
        let fresh = services(&seen)?;
        if fresh.is_empty() {
            let what = format!("--services {}: names no service", path.display());
            return Err(Problem::new(what)
                .hint("a [[service]] with namespace, name, query and rate")
                .into());
        }
        Ok(Self {
            path: path.to_owned(),
            seen,
            fresh: Some(fresh),
        })
    }

    /// The services, where they have changed since they were last asked for; what cannot be read changes nothing.
    pub(super) fn newer(&mut self) -> Option<Vec<Defined>> {
        if let Some(fresh) = self.fresh.take() {
            return Some(fresh);
        }
        let found = files(&self.path);
        let found = found.and_then(|now| {
            if now == self.seen {
                return Ok(None);
            }
            let services = services(&now);
            self.seen = now;
            services.map(Some)
        });
        found.unwrap_or_else(|problem| {
            progress::say(&format!("{problem:#}; services stay as they were"));
            None
        })
    }
}

fn unread(path: &Path, error: io::Error) -> anyhow::Error {
    let what = format!("--services: cannot read {}", path.display());
    Problem::new(what).because(error).into()
}

fn files(path: &Path) -> anyhow::Result<Vec<(PathBuf, Option<SystemTime>)>> {
    let written = |path: PathBuf| {
        // Follows links, by which Kubernetes shows a ConfigMap.
        let known = fs::metadata(&path).map_err(|error| unread(&path, error))?;
        anyhow::Ok((path, known.modified().ok()))
    };
    if !path.is_dir() {
        return Ok(vec![written(path.to_owned())?]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unread(path, error))? {
        let file = entry.map_err(|error| unread(path, error))?.path();
        if file.extension().is_some_and(|end| end == "toml") {
            all.push(written(file)?);
        }
    }
    all.sort();
    Ok(all)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    service: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    #[serde(default = "namespace")]
    namespace: String,
    name: String,
    #[serde(flatten)]
    fields: HashMap<String, toml::Value>,
}

fn namespace() -> String {
    "default".into()
}

fn services(files: &[(PathBuf, Option<SystemTime>)]) -> anyhow::Result<Vec<Defined>> {
    let (mut all, mut named) = (Vec::new(), BTreeSet::new());
    for (path, _) in files {
        let wrong = |why: String| Problem::new(format!("--services {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| unread(path, error))?;
        let written: Written = toml::from_str(&text).map_err(|error| {
            let line = toml_line(&text, &error);
            wrong(format!("line {line}: {}", error.message()))
        })?;
        for one in written.service {
            let fields = one.fields.into_iter().map(|(key, value)| {
                let said = value.as_str().map(str::to_owned);
                (key, said.unwrap_or_else(|| value.to_string()))
            });
            let defined = Defined::new(&one.namespace, &one.name, &fields.collect());
            let defined = defined.map_err(wrong)?;
            if !named.insert(defined.object().to_owned()) {
                return Err(wrong(format!("{} is named twice", defined.object())).into());
            }
            all.push(defined);
        }
    }
    Ok(all)
}
