//! `gpuwise optimize`: a checkpoint with smaller weights, made without data and without a GPU.

mod checkpoint;
mod choose;
mod config;
mod convert;
mod settings;
mod show;

use super::{Context, Exit};
use crate::{error::Problem, progress, settings::Optimize, write::Pending};
use checkpoint::Shard;
use choose::Fate;
use convert::Done;
use serde_json::{Value, json};
use settings::Chosen;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

/// What a directory that is being written has of how it is written.
const ASKED: &str = ".asked.json";
/// What was done of a file, beside it until all is done.
const DONE: &str = ".done.json";

pub fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    let chosen = Chosen::of(flags)?;
    let config = config::read(&flags.model)?;
    let shards = checkpoint::shards(&flags.model)?;
    let fates: Vec<Vec<Fate>> = shards
        .iter()
        .map(|shard| {
            let each = shard.tensors.iter();
            each.map(|tensor| choose::fate(tensor, chosen.scheme, &flags.keep))
                .collect()
        })
        .collect();
    if fates
        .iter()
        .flatten()
        .all(|fate| matches!(fate, Fate::Kept(_)))
    {
        return Err(Problem::new(format!(
            "{} has no linear layer that can be stored as {}",
            flags.model.display(),
            flags.to.name()
        ))
        .hint("linear layers are matrices called `….weight`, in BF16, F16 or F32")
        .into());
    }
    let work = Work::begin(flags, &shards)?;
    let mut done = Vec::new();
    for (at, (shard, fates)) in shards.iter().zip(&fates).enumerate() {
        let doing = |tensor: &str| {
            progress::doing(&format!("file {} of {}: {tensor}", at + 1, shards.len()));
        };
        done.extend(work.file(shard, fates, chosen, doing)?);
    }
    progress::doing("");
    work.finish(flags, config, chosen, &shards, &done)?;
    context.table(&show::table(&done, &flags.output.display().to_string()))?;
    Ok(Exit::Yes)
}

/// A directory that is being written, beside the one that it is to be.
struct Work {
    folder: PathBuf,
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
    /// Begins, or goes on where the same was interrupted.
    fn begin(flags: &Optimize, shards: &[Shard]) -> anyhow::Result<Self> {
        let output = &flags.output;
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
        let files: Vec<Value> = shards
            .iter()
            .map(|shard| json!({"file": shard.name, "bytes": shard.length}))
            .collect();
        let asked = json!({
            "model": flags.model,
            "to": flags.to.name(),
            "scales": flags.scales,
            "asymmetric": flags.asymmetric,
            "keep": flags.keep,
            "files": files,
        });
        let path = folder.join(ASKED);
        if folder.exists() {
            let before = fs::read(&path).ok();
            let before = before.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            if before.as_ref() != Some(&asked) {
                let what = format!("{} is there, of something else", folder.display());
                return Err(Problem::new(what)
                    .hint("remove it, or name another directory")
                    .into());
            }
        } else {
            fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, error))?;
            put(&path, &asked)?;
        }
        Ok(Self { folder })
    }

    /// What a file becomes, where that is not there yet.
    fn file(
        &self,
        shard: &Shard,
        fates: &[Fate],
        chosen: Chosen,
        doing: impl Fn(&str),
    ) -> anyhow::Result<Vec<Done>> {
        let path = self.folder.join(&shard.name);
        let beside = self.folder.join(format!("{}{DONE}", shard.name));
        if let Ok(text) = fs::read(&beside)
            && let Ok(done) = serde_json::from_slice(&text)
        {
            return Ok(done);
        }
        let done = convert::convert(shard, fates, chosen.scheme, &path, doing)?;
        put(&beside, &json!(done))?;
        Ok(done)
    }

    /// What else belongs to a model; then the directory gets its name.
    fn finish(
        &self,
        flags: &Optimize,
        mut config: Value,
        chosen: Chosen,
        shards: &[Shard],
        done: &[Done],
    ) -> anyhow::Result<()> {
        let kept = done.iter().filter(|one| one.kept.is_some());
        let mut kept: BTreeSet<String> = kept
            .filter_map(|one| choose::layer(&one.tensor).map(str::to_owned))
            .collect();
        // Where it shares the embeddings it has no tensor.
        kept.insert("lm_head".into());
        let kept: Vec<String> = kept.into_iter().collect();
        config["quantization_config"] = config::quantization(&chosen, &kept);
        put(&self.folder.join("config.json"), &config)?;
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
            put(&self.folder.join("model.safetensors.index.json"), &index)?;
        }
        self.copy(&flags.model)?;
        for shard in shards {
            let beside = self.folder.join(format!("{}{DONE}", shard.name));
            fs::remove_file(&beside).map_err(|error| unwritable(&beside, error))?;
        }
        let asked = self.folder.join(ASKED);
        fs::remove_file(&asked).map_err(|error| unwritable(&asked, error))?;
        fs::rename(&self.folder, &flags.output).map_err(|error| unwritable(&flags.output, error))
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
