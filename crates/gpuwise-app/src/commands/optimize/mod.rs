//! `gpuwise optimize`: a checkpoint with smaller weights, made without data and without a GPU.

mod checkpoint;
mod choose;
mod config;
mod convert;
mod decompress;
mod fused;
mod matrix;
mod settings;
mod show;
mod stored;

use super::{Context, Exit};
use crate::{error::Problem, progress, settings::Optimize, write::{self, Pending}};
use checkpoint::Shard;
use choose::{Fate, Reason};
use convert::Done;
use decompress::Compressed;
use fused::Fused;
use gpuwise_compress::{Scheme, Stored};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settings::Chosen;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a directory that is being written has of how it is written.
const ASKED: &str = ".asked.json";
/// What was done of a file, beside it until all is done.
const DONE: &str = ".done.json";

pub fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    if let Some(to) = settings::plain(flags)? {
        return back(context, flags, to);
    }
    let chosen = Chosen::of(flags)?;
    let mut config = config::read(&flags.model)?;
    config::not_quantized(&config, &flags.model)?;
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
    let fused = Fused::new(chosen.scheme, &shards, &fates);
    let work = Work::begin(flags, &shards)?;
    let mut done = Vec::new();
    for (at, (shard, fates)) in shards.iter().zip(&fates).enumerate() {
        let doing = |tensor: &str| {
            progress::doing(&format!("file {} of {}: {tensor}", at + 1, shards.len()));
        };
        done.extend(work.file(shard, fates, (chosen.scheme, &fused), doing)?);
    }
    progress::doing("");
    config["quantization_config"] = config::quantization(&chosen, &kept(&shards, &fates));
    work.finish(flags, &config, &shards, &done)?;
    context.table(&show::table(&done, &flags.output.display().to_string()))?;
    Ok(Exit::Yes)
}

/// Smaller weights to plain numbers.
fn back(context: &Context, flags: &Optimize, to: Stored) -> anyhow::Result<Exit> {
    let mut config = config::read(&flags.model)?;
    let scheme = stored::scheme(&config, &flags.model.join("config.json"))?;
    let shards = checkpoint::shards(&flags.model)?;
    let compressed = Compressed::new(scheme, to, &shards);
    if compressed.is_empty() {
        return Err(Problem::new(format!(
            "{}: config.json says that weights are quantized, and none is",
            flags.model.display()
        ))
        .hint("weights with scales are called `….weight` or `….weight_packed` beside `….weight_scale`")
        .into());
    }
    let work = Work::begin(flags, &shards)?;
    let mut done = Vec::new();
    for (at, shard) in shards.iter().enumerate() {
        let doing = |tensor: &str| {
            progress::doing(&format!("file {} of {}: {tensor}", at + 1, shards.len()));
        };
        done.extend(compressed.file(at, &work.path(&shard.name), doing)?);
    }
    progress::doing("");
    if let Some(config) = config.as_object_mut() {
        config.remove("quantization_config");
        // Before transformers 5 it had another name.
        let name = ["dtype", "torch_dtype"]
            .into_iter()
            .find(|name| config.contains_key(*name));
        config.insert(
            name.unwrap_or("torch_dtype").into(),
            json!(stored::dtype(to)),
        );
    }
    work.finish(flags, &config, &shards, &done)?;
    context.table(&show::table_of_plain(
        &done,
        &flags.output.display().to_string(),
    ))?;
    Ok(Exit::Yes)
}

/// Linear layers that stay, by their names: norms and embeddings are none, and engines would ask for them.
fn kept(shards: &[Shard], fates: &[Vec<Fate>]) -> Vec<String> {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    let stay = tensors.zip(fates.iter().flatten()).filter(|(_, fate)| {
        let Fate::Kept(reason) = fate else {
            return false;
        };
        !matches!(reason, Reason::NoMatrix | Reason::Embedding)
    });
    let mut kept: BTreeSet<String> = stay
        .filter_map(|(tensor, _)| choose::layer(&tensor.name).map(str::to_owned))
        .collect();
    // Where it shares the embeddings it has no tensor.
    kept.insert("lm_head".into());
    kept.into_iter().collect()
}

/// What is kept of a file that is finished.
#[derive(Serialize, Deserialize)]
struct Finished {
    /// When what it was made of had changed last: it is made anew of what changed since.
    changed: Option<Duration>,
    done: Vec<Done>,
}

/// A directory that is being written, beside the one that it is to be.
struct Work {
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
        if begun(&folder)? {
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

    /// A file of it.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a file becomes, where that is not there yet.
    fn file<'a>(
        &self,
        shard: &'a Shard,
        fates: &[Fate],
        how: (Scheme, &Fused<'a>),
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
    fn finish(
        &self,
        flags: &Optimize,
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
        self.copy(&flags.model)?;
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
            let path = entry.map_err(|error| unwritable(&self.folder, error))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(write::is_unfinished) {
                fs::remove_file(&path).map_err(|error| unwritable(&path, error))?;
            }
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
