//! A directory that is being written: it has its name only when all of it is there, and what was interrupted goes on.

use super::{
    checkpoint::{self, Shard},
    choose::Fate,
    config,
    convert::{self, Done},
    fused::Fused,
};
use crate::{
    error::Problem,
    write::{self, Pending},
};
use gpuwise_compress::Scheme;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a directory that is being written has of how it is written.
const ASKED: &str = ".asked.json";
/// What was done of a file, beside it until all is done.
const DONE: &str = ".done.json";

/// What is kept of a file that is finished.
#[derive(Serialize, Deserialize)]
struct Finished {
    /// When what it was made of had changed last: it is made anew of what changed since.
    changed: Option<Duration>,
    done: Vec<Done>,
}

/// A directory that is being written, beside the one that it is to be.
pub(super) struct Work {
    model: PathBuf,
    output: PathBuf,
    folder: PathBuf,
}

/// Whether anything was written before: what was interrupted before it said what it is has nothing that counts.
fn begun(folder: &Path) -> anyhow::Result<bool> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        listed => listed,
    };
    let unreadable =
        |error| Problem::new(format!("cannot read {}", folder.display())).because(error);
    for entry in listed.map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if !write::is_unfinished(&name.to_string_lossy()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unwritable(path: &Path, error: io::Error) -> anyhow::Error {
    Problem::new(format!("cannot write {}", path.display()))
        .because(error)
        .into()
}

fn put(path: &Path, value: &Value) -> anyhow::Result<()> {
    Pending::new(path)?.finish(&format!("{value:#}\n"))
}

impl Work {
    /// Begins, or goes on where the same was interrupted: `asked` tells that.
    pub(super) fn begin(model: &Path, output: &Path, asked: &Value) -> anyhow::Result<Self> {
        if output.exists() {
            return Err(
                Problem::new(format!("{} is there already", output.display()))
                    .hint("name another directory, or remove it")
                    .into(),
            );
        }
        let mut name = output
            .file_name()
            .ok_or_else(|| Problem::new(format!("{}: no name of a directory", output.display())))?
            .to_owned();
        name.push(".partial");
        let folder = output.with_file_name(name);
        let path = folder.join(ASKED);
        if begun(&folder)? {
            let before = fs::read(&path).ok();
            let before = before.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            if before.as_ref() != Some(asked) {
                let what = format!("{} is there, of something else", folder.display());
                return Err(Problem::new(what)
                    .hint("remove it, or name another directory")
                    .into());
            }
        } else {
            fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, error))?;
            put(&path, asked)?;
        }
        Ok(Self {
            model: model.into(),
            output: output.into(),
            folder,
        })
    }

    /// A file of it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a file becomes, where that is not there yet.
    pub(super) fn file<'a>(
        &self,
        shard: &'a Shard,
        fates: &[Fate],
        how: Option<(Scheme, &Fused<'a>)>,
        doing: impl Fn(&str),
    ) -> anyhow::Result<Vec<Done>> {
        let path = self.folder.join(&shard.name);
        let beside = self.folder.join(format!("{}{DONE}", shard.name));
        if let Ok(text) = fs::read(&beside)
            && let Ok(before) = serde_json::from_slice::<Finished>(&text)
            && before.changed == shard.changed
        {
            return Ok(before.done);
        }
        let done = convert::convert(shard, fates, how, &path, doing)?;
        let changed = shard.changed;
        let finished = Finished { changed, done };
        put(&beside, &json!(finished))?;
        Ok(finished.done)
    }

    /// What else belongs to a model; then the directory gets its name.
    pub(super) fn finish(
        &self,
        config: &Value,
        shards: &[Shard],
        done: &[Done],
    ) -> anyhow::Result<()> {
        put(&self.folder.join("config.json"), config)?;
        let mut files = BTreeMap::new();
        for shard in shards {
            let written = checkpoint::tensors(&self.folder.join(&shard.name))?;
            files.extend(
                written
                    .into_iter()
                    .map(|tensor| (tensor, shard.name.clone())),
            );
        }
        if shards.len() > 1 {
            let bytes = done.iter().map(|one| one.bytes_after).sum();
            let index = config::index(&files, bytes);
            put(&self.folder.join(checkpoint::INDEX), &index)?;
        }
        self.copy(&self.model)?;
        for shard in shards {
            let beside = self.folder.join(format!("{}{DONE}", shard.name));
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unwritable(&beside, error));
                }
                _ => {}
            }
        }
        // What was interrupted may have left some.
        for entry in fs::read_dir(&self.folder).map_err(|error| unwritable(&self.folder, error))? {
            let path = entry
                .map_err(|error| unwritable(&self.folder, error))?
                .path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(write::is_unfinished) {
                fs::remove_file(&path).map_err(|error| unwritable(&path, error))?;
            }
        }
        let asked = self.folder.join(ASKED);
        fs::remove_file(&asked).map_err(|error| unwritable(&asked, error))?;
        fs::rename(&self.folder, &self.output).map_err(|error| unwritable(&self.output, error))
    }

    /// Tokenizer, chat template, licence: all files but weights and what was written.
    fn copy(&self, from: &Path) -> anyhow::Result<()> {
        let unreadable =
            |error| Problem::new(format!("cannot read {}", from.display())).because(error);
        for entry in fs::read_dir(from).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|_| path.is_file()) else {
                continue;
            };
            let weights = [
                ".safetensors",
                ".bin",
                ".pth",
                ".pt",
                ".gguf",
                ".index.json",
            ];
            let to = self.folder.join(name);
            if weights.iter().any(|end| name.ends_with(end)) || to.exists() {
                continue;
            }
            fs::copy(&path, &to).map_err(|error| unwritable(&to, error))?;
        }
        Ok(())
    }
}
