//! Where files of traces are, and what is in them.

use crate::error::Problem;
use gpuwise_read::traffic::decompress;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Bytes of a file at most, decompressed.
const LARGEST: u64 = 1 << 30;

/// Directories in which files of traces are looked for, the first first.
pub(super) struct Places(Vec<PathBuf>);

impl Places {
    /// A directory that was named, then `fleet` under `$GPUWISE_DATA` or `../shared/data`; in each the
    /// directory itself and these below it.
    pub(super) fn new(named: Option<&Path>, below: &[&str]) -> Self {
        let data =
            env::var_os("GPUWISE_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
        let roots = named.map(Path::to_path_buf).into_iter();
        let mut places = Vec::new();
        for root in roots.chain([data.join("fleet")]) {
            places.push(root.clone());
            places.extend(below.iter().map(|name| root.join(name)));
        }
        Self(places)
    }

    /// Whether the first place has a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let first = self.0.first();
        first.is_some_and(|place| {
            place.join(name).is_file() || place.join(format!("{name}.gz")).is_file()
        })
    }

    /// The file of this name, as it is or compressed.
    pub(super) fn find(&self, name: &str) -> anyhow::Result<PathBuf> {
        let tries = self.0.iter().flat_map(|place| {
            let plain = place.join(name);
            [plain.clone(), plain.with_file_name(format!("{name}.gz"))]
        });
        let mut tries = tries.filter(|path| path.is_file());
        tries.next().ok_or_else(|| {
            let places: Vec<String> = self.0.iter().map(|p| p.display().to_string()).collect();
            Problem::new(format!("there is no {name} in {}", places.join(", ")))
                .hint("set GPUWISE_DATA to the directory that holds `fleet`, or name a directory with the trace's files")
                .into()
        })
    }

    /// What stands between `prefix` and `.csv` or `.csv.gz` in names of files, of the first place that
    /// has any; sorted.
    pub(super) fn middles(&self, prefix: &str) -> Vec<String> {
        for place in &self.0 {
            let Ok(entries) = fs::read_dir(place) else {
                continue;
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut found: Vec<String> = names
                .filter_map(|name| {
                    let middle = name.strip_prefix(prefix)?;
                    let middle = middle.strip_suffix(".gz").unwrap_or(middle);
                    Some(middle.strip_suffix(".csv")?.to_owned())
                })
                .collect();
            if !found.is_empty() {
                found.sort();
                found.dedup();
                return found;
            }
        }
        Vec::new()
    }
}

pub(super) fn folder(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A file's name without what says that it is a table or compressed.
pub(super) fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

/// A file's text, decompressed.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    let wrong = |error: anyhow::Error| {
        Problem::new(format!("cannot read {}", path.display())).because(error)
    };
    let bytes = fs::read(path).map_err(|error| wrong(error.into()))?;
    let plain = decompress(&bytes, LARGEST).map_err(|error| wrong(error.into()))?;
    Ok(String::from_utf8(plain.into_owned()).map_err(|error| wrong(error.into()))?)
}
