//! Models in files of this machine.

use super::{
    ResolvedModel, checkpoint, gguf, shown,
    source::{self, LocalFile},
};
use crate::error::Problem;
use gpuwise_read::safetensors::{self, StoredTensor};
use std::{
    fs,
    path::{Path, PathBuf},
};

const CONFIG: &str = "config.json";
const INDEX: &str = "model.safetensors.index.json";
const WHOLE: &str = "model.safetensors";

/// A model at a path; `None` where the text is none.
pub(super) fn resolve(text: &str) -> anyhow::Result<Option<ResolvedModel>> {
    let path = expanded(text);
    let name = || text.trim_end_matches('/').to_owned();
    if path.is_dir() {
        let holds_one = [CONFIG, INDEX, WHOLE]
            .iter()
            .any(|file| path.join(file).is_file())
            || !files(&path, "gguf")?.is_empty()
            || !files(&path, "safetensors")?.is_empty();
        // A folder of any kind may happen to be called like a model.
        return if holds_one || is_written_as_path(text) {
            directory(&path, name()).map(Some)
        } else {
            Ok(None)
        };
    }
    if path.exists() {
        return file(&path, name()).map(Some);
    }
    if is_written_as_path(text) {
        return Err(Problem::new(format!("there is no file or directory {text:?}")).into());
    }
    Ok(None)
}

/// `~/` is the shell's, but quotes keep it from the shell.
fn expanded(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

fn is_written_as_path(text: &str) -> bool {
    let starts = ["./", "../", "/", "~/"]
        .iter()
        .any(|start| text.starts_with(start));
    let ends = ["/", ".json", ".gguf", ".safetensors"]
        .iter()
        .any(|end| text.ends_with(end));
    starts
        || ends
        || text == "."
        || text == ".."
        || text.contains('\\')
        || text.matches('/').count() > 1
}

/// A directory as model hubs lay it out.
pub(super) fn directory(path: &Path, name: String) -> anyhow::Result<ResolvedModel> {
    let config = path.join(CONFIG);
    let config = config.is_file().then_some(config);
    if let Some(weights) = Weights::of(path)? {
        return weights.resolve(config.as_deref(), name);
    }
    if let Some(config) = config {
        return configuration(&config, name);
    }
    let candidates: Vec<PathBuf> = files(path, "gguf")?
        .into_iter()
        .filter(|file| {
            file.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(gguf::is_first)
        })
        .collect();
    match candidates.as_slice() {
        [only] => gguf::resolve(only, name),
        [] => Err(Problem::new(format!("{} holds no model", shown(path)))
            .hint("expected a config.json, safetensors files or a GGUF file in it")
            .into()),
        several => {
            let names: Vec<String> = several.iter().map(|file| shown(file)).collect();
            Err(Problem::new(format!(
                "{} holds {} GGUF files",
                shown(path),
                several.len()
            ))
            .hint(format!("name one of them: {}", names.join(", ")))
            .into())
        }
    }
}

/// A file: a configuration, an index, safetensors or GGUF.
fn file(path: &Path, name: String) -> anyhow::Result<ResolvedModel> {
    let called = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let beside = path.with_file_name(CONFIG);
    let beside = beside.is_file().then_some(beside);
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if called == CONFIG {
        return match Weights::of(directory)? {
            Some(weights) => weights.resolve(Some(path), name),
            None => configuration(path, name),
        };
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gguf") => gguf::resolve(path, name),
        Some("safetensors") => {
            let index = directory.join(INDEX);
            // One shard of several says little: the index beside it names the others.
            let weights = if called.contains("-of-") && index.is_file() {
                Weights::indexed(&index, true)?
            } else {
                Weights::alone(vec![path.to_path_buf()])
            };
            weights.resolve(beside.as_deref(), name)
        }
        Some("json") if called.ends_with(".index.json") => {
            Weights::indexed(path, true)?.resolve(beside.as_deref(), name)
        }
        Some("json") => configuration(path, name),
        _ => Err(Problem::new(format!(
            "{}: the form of this file is not known",
            shown(path)
        ))
        .hint("expected config.json, a .safetensors file or its .index.json, or a .gguf file")
        .into()),
    }
}

fn configuration(path: &Path, name: String) -> anyhow::Result<ResolvedModel> {
    let text = source::document(path)?;
    Ok(ResolvedModel {
        name,
        origin: format!("configuration {}", shown(path)),
        architecture: checkpoint::architecture(Some((&shown(path), &text)), None)?,
        gguf: false,
    })
}

/// The safetensors files of one model.
#[derive(Debug)]
struct Weights {
    files: Vec<PathBuf>,
    /// Tensors that the index lists.
    listed: Option<u64>,
    /// Files that the index names and that are not there.
    missing: Vec<PathBuf>,
    /// Whether a missing file is an error: the user named the index.
    strict: bool,
}

impl Weights {
    fn alone(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            listed: None,
            missing: Vec::new(),
            strict: true,
        }
    }

    /// Those of a directory: by the index, else one file, else numbered shards.
    fn of(directory: &Path) -> anyhow::Result<Option<Self>> {
        let (index, whole) = (directory.join(INDEX), directory.join(WHOLE));
        if index.is_file() {
            return Self::indexed(&index, false).map(Some);
        }
        if whole.is_file() {
            return Ok(Some(Self::alone(vec![whole])));
        }
        let named = |file: &PathBuf| {
            file.file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("")
                .to_owned()
        };
        let all = files(directory, "safetensors")?;
        let model: Vec<PathBuf> = all
            .into_iter()
            .filter(|file| !named(file).starts_with("adapter"))
            .collect();
        let numbered: Vec<PathBuf> = model
            .iter()
            .filter(|file| named(file).contains("-of-"))
            .cloned()
            .collect();
        Ok(match (numbered.is_empty(), model.len()) {
            (false, _) => Some(Self::alone(numbered)),
            (true, 1) => Some(Self::alone(model)),
            (true, _) => None,
        })
    }

    fn indexed(index: &Path, strict: bool) -> anyhow::Result<Self> {
        let text = source::document(index)?;
        let read = safetensors::read_index(&text)
            .map_err(|error| Problem::new(format!("index {}", shown(index))).because(error))?;
        let paths = read.files.iter().map(|file| index.with_file_name(file));
        let (files, missing) = paths.partition(|path: &PathBuf| path.is_file());
        Ok(Self {
            files,
            listed: Some(read.tensors),
            missing,
            strict,
        })
    }

    fn resolve(self, config: Option<&Path>, name: String) -> anyhow::Result<ResolvedModel> {
        let text = config.map(source::document).transpose()?;
        let named = config.map(shown);
        let config = named.as_deref().zip(text.as_deref());
        if let Some(missing) = self.missing.first()
            && (self.strict || config.is_none())
        {
            return Err(Problem::new(format!(
                "the index names {}, which is not there",
                shown(missing)
            ))
            .hint("download all shards, or name the config.json alone to compute sizes from it")
            .into());
        }
        let origin = |headers: usize| match (&named, headers) {
            (Some(config), 0) => format!("configuration {config}"),
            (Some(config), 1) => format!("configuration {config} and the header of its tensors"),
            (Some(config), _) => {
                format!("configuration {config} and the headers of {headers} files of tensors")
            }
            (None, 1) => "header of its tensors".into(),
            (None, _) => format!("headers of {headers} files of tensors"),
        };
        if !self.missing.is_empty() {
            let mut architecture = checkpoint::architecture(config, None)?;
            let all = self.missing.len() + self.files.len();
            architecture.assumptions.push(format!(
                "{} of {all} files of tensors are not on this machine: sizes are computed from the configuration",
                self.missing.len()
            ));
            return Ok(ResolvedModel {
                name,
                origin: origin(0),
                architecture,
                gguf: false,
            });
        }
        let tensors = self.tensors()?;
        Ok(ResolvedModel {
            name,
            origin: origin(self.files.len()),
            architecture: checkpoint::architecture(config, Some(&tensors))?,
            gguf: false,
        })
    }

    fn tensors(&self) -> anyhow::Result<Vec<StoredTensor>> {
        let mut shards = Vec::new();
        for path in &self.files {
            let name = shown(path);
            let tensors = checkpoint::tensors(&name, &mut LocalFile::open(path)?)?;
            shards.push((name, tensors));
        }
        checkpoint::joined(shards, self.listed)
    }
}

/// The safetensors files of a model's directory, in their order.
///
/// # Errors
/// When there is none, or one that the index names is missing.
pub(crate) fn safetensors_of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Some(weights) = Weights::of(directory)? else {
        return Err(
            Problem::new(format!("{} has no safetensors files", shown(directory)))
                .hint("expected model.safetensors, or several with their index")
                .into(),
        );
    };
    match weights.missing.first() {
        Some(missing) => Err(Problem::new(format!(
            "the index names {}, which is not there",
            shown(missing)
        ))
        .hint("download all files")
        .into()),
        None => Ok(weights.files),
    }
}

/// Files of a directory with this extension, by name.
fn files(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable =
        |error| Problem::new(format!("cannot read {}", shown(directory))).because(error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|known| known == extension) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
