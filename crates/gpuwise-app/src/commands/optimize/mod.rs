//! `gpuwise optimize`: a checkpoint with smaller weights, made without data and without a GPU.

mod advise;
mod checkpoint;
mod choose;
mod config;
mod convert;
mod decompress;
mod recipe;
mod settings;
mod show;
mod stored;

use super::{Context, Exit};
use crate::{
    error::Problem,
    progress,
    settings::{Form, Optimize},
    write::Pending,
};
use checkpoint::Shard;
use choose::{Fate, Reason};
use convert::Done;
use decompress::Compressed;
use gpuwise_compress::Stored;
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

/// What is made of which model.
struct Making {
    model: PathBuf,
    to: Form,
    output: PathBuf,
    scales: Option<String>,
    asymmetric: bool,
    keep: Vec<String>,
}

impl Making {
    fn of(flags: &Optimize) -> anyhow::Result<Self> {
        let make = flags.make.clone();
        let missing =
            |what: &str, hint: &str| Problem::new(format!("{what} is missing")).hint(hint);
        Ok(Self {
            model: flags.model.clone(),
            to: make.to.ok_or_else(|| {
                missing(
                    "--to FORM",
                    "such as --to fp8; --advise says which form is worth it",
                )
            })?,
            output: make.output.ok_or_else(|| {
                missing(
                    "--output DIR",
                    "the directory that is to be written, such as -o model-fp8",
                )
            })?,
            scales: make.scales,
            asymmetric: make.asymmetric,
            keep: make.keep,
        })
    }
}

pub fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    if flags.advise {
        return advise::run(context, &flags.model.display().to_string(), &flags.asked);
    }
    if let Some(recipe) = flags.recipe {
        return recipe::run(context, &flags.model, &flags.make, recipe);
    }
    make(context, &Making::of(flags)?)
}

fn make(context: &Context, flags: &Making) -> anyhow::Result<Exit> {
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
    let work = Work::begin(flags, &shards)?;
    let mut done = Vec::new();
    for (at, (shard, fates)) in shards.iter().zip(&fates).enumerate() {
        let doing = |tensor: &str| {
            progress::doing(&format!("file {} of {}: {tensor}", at + 1, shards.len()));
        };
        done.extend(work.file(shard, fates, chosen, doing)?);
    }
    progress::doing("");
    config["quantization_config"] = config::quantization(&chosen, &kept(&shards, &fates));
    work.finish(flags, &config, &shards, &done)?;
    context.table(&show::table(&done, &flags.output.display().to_string()))?;
    Ok(Exit::Yes)
}

/// Smaller weights to plain numbers.
fn back(context: &Context, flags: &Making, to: Stored) -> anyhow::Result<Exit> {
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
    fn begin(flags: &Making, shards: &[Shard]) -> anyhow::Result<Self> {
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

    /// A file of it.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
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
        flags: &Making,
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
            put(&self.folder.join("model.safetensors.index.json"), &index)?;
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
