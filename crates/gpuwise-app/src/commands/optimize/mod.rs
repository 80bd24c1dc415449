//! `gpuwise optimize`: a checkpoint with smaller weights, made without data and without a GPU.

mod advise;
mod checkpoint;
mod choose;
mod config;
mod convert;
mod decompress;
mod exact;
mod fuse;
mod fused;
mod gguf;
mod lora;
mod made;
mod matrix;
mod measure;
mod onnx;
mod pieces;
mod prune;
mod recipe;
mod rotate;
mod settings;
mod show;
mod stay;
mod stored;
mod turn;
mod unfinished;
mod work;

use super::{Context, Exit};
use crate::{
    error::Problem,
    progress,
    settings::{AdviseFlags, CacheName, Form, Optimize, SparseName},
    write::Pending,
};
use checkpoint::Shard;
use choose::{Fate, Reason};
use decompress::Compressed;
use exact::Exact;
use fused::Fused;
use gpuwise_compress::Stored;
use gpuwise_read::workload;
use serde_json::{Value, json};
use settings::Chosen;
use show::Lost;
use std::{collections::BTreeSet, path::PathBuf};
use work::Work;

/// What is made of which model.
struct Making {
    model: PathBuf,
    to: Form,
    /// Plain numbers, where it is those.
    plain: Option<Stored>,
    output: PathBuf,
    exact: Exact,
    scales: Option<String>,
    asymmetric: bool,
    sparse_as: Option<SparseName>,
    keep: Vec<String>,
    /// The largest relative error of a layer.
    max_error: Option<f64>,
    kv: Option<CacheName>,
    report: Option<PathBuf>,
}

impl Making {
    fn of(flags: &Optimize) -> anyhow::Result<Self> {
        let make = flags.make.clone();
        let missing =
            |what: &str, hint: &str| Problem::new(format!("{what} is missing")).hint(hint);
        let to = make.to.ok_or_else(|| {
            missing(
                "--to FORM",
                "such as --to fp8; --advise says which form is worth it",
            )
        })?;
        Ok(Self {
            model: flags.model.clone(),
            to,
            plain: settings::plain(&make, to)?,
            output: make.output.ok_or_else(|| {
                missing(
                    "--output DIR",
                    "the directory that is to be written, such as -o model-fp8",
                )
            })?,
            exact: Exact::of(&flags.make)?,
            scales: make.scales,
            asymmetric: make.asymmetric,
            sparse_as: make.sparse_as,
            keep: make.keep,
            max_error: make.max_error.as_deref().map(max_error).transpose()?,
            kv: make.kv,
            report: make.report,
        })
    }

    /// What interrupted work is known by.
    fn asked(&self, shards: &[Shard]) -> Value {
        json!({
            "model": self.model,
            "to": self.to.name(),
            "scales": self.scales,
            "asymmetric": self.asymmetric,
            "bitmask": self.sparse_as == Some(SparseName::Bitmask),
            "keep": self.keep,
            "max_error": self.max_error,
            "kv": self.kv.is_some(),
            "exact": self.exact.asked(),
            "files": exact::files(shards),
        })
    }
}

fn max_error(text: &str) -> anyhow::Result<f64> {
    workload::share(text).map_err(|error| Problem::new(format!("--max-error: {error}")).into())
}

pub fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    if flags.advise {
        return advise::run(context, &flags.model.display().to_string(), &flags.asked);
    }
    if flags.asked != AdviseFlags::default() {
        return Err(Problem::new("traffic, SLO, limits, engine and picture without --advise")
            .hint("what is made depends on none of them: add --advise to hear what each form would need, or leave them out")
            .into());
    }
    if flags.measured.measure {
        return measure::run(context, flags);
    }
    measure::asks_nobody(&flags.measured)?;
    if let Some(kind) = &flags.gguf {
        return gguf::run(context, flags, kind);
    }
    if onnx::is_graph(&flags.model) {
        return onnx::run(context, flags);
    }
    if let Some(recipe) = flags.recipe {
        let how = (recipe, flags.teacher.as_deref());
        return recipe::run(context, &flags.model, &flags.make, how);
    }
    if flags.make.to.is_none() && Exact::of(&flags.make)?.is_asked() {
        return exact::run(context, flags);
    }
    make(context, &Making::of(flags)?)
}

fn make(context: &Context, flags: &Making) -> anyhow::Result<Exit> {
    if let Some(to) = flags.plain {
        return back(context, flags, to);
    }
    let chosen = Chosen::of(flags)?;
    let mut config = config::read(&flags.model)?;
    config::not_quantized(&config, &flags.model)?;
    let (shards, said) = flags.exact.shards(&flags.model, &mut config)?;
    let mut fates: Vec<Vec<Fate>> = shards
        .iter()
        .map(|shard| {
            let each = shard.tensors.iter();
            each.map(|tensor| choose::fate(tensor, chosen.scheme, &flags.keep))
                .collect()
        })
        .collect();
    stay::together(&shards, &mut fates);
    if let Some(most) = flags.max_error {
        let doing = |tensor: &str| progress::doing(&format!("error of {tensor}"));
        stay::exact(&shards, &mut fates, chosen.scheme, most, doing)?;
        progress::doing("");
        stay::together(&shards, &mut fates);
    }
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
        .hint(if flags.max_error.is_some() {
            "all lose more than --max-error; a finer form or smaller groups lose less"
        } else {
            "linear layers are matrices called `….weight`, in BF16, F16 or F32"
        })
        .into());
    }
    let fused = Fused::new(chosen.scheme, &shards, &fates);
    let report = flags.report.as_deref().map(Pending::new).transpose()?;
    let work = Work::begin(&flags.model, &flags.output, &flags.asked(&shards))?;
    let mut done = Vec::new();
    for (at, (shard, fates)) in shards.iter().zip(&fates).enumerate() {
        let doing = doing(at, shards.len());
        done.extend(work.file(shard, fates, Some((chosen.scheme, &fused)), doing)?);
    }
    progress::doing("");
    let kept = kept(&shards, &fates);
    if let Some(said) = config::quantization(chosen.scheme, &kept, flags.kv, &done) {
        config["quantization_config"] = said;
    }
    work.finish(&config, &shards, &done)?;
    let lost = Lost::by(chosen.scheme);
    if let Some(file) = report {
        file.finish(&show::tensors(&done, lost).to_csv())?;
    }
    let written = flags.output.display().to_string();
    context.table(&show::table(&done, lost, (&written, said)))?;
    Ok(Exit::Yes)
}

/// Says at which tensor of which file the work is.
fn doing(file: usize, files: usize) -> impl Fn(&str) {
    move |tensor| progress::doing(&format!("file {} of {files}: {tensor}", file + 1))
}

/// Smaller weights to plain numbers.
fn back(context: &Context, flags: &Making, to: Stored) -> anyhow::Result<Exit> {
    let mut config = config::read(&flags.model)?;
    let scheme = stored::scheme(&config, &flags.model.join("config.json"))?;
    let shards = checkpoint::shards(&flags.model)?;
    let compressed = Compressed::new(scheme, to, &shards)?;
    if compressed.is_empty() {
        return Err(Problem::new(format!(
            "{}: config.json says that weights are quantized, and none is",
            flags.model.display()
        ))
        .hint("weights with scales are called `….weight` or `….weight_packed` beside `….weight_scale`")
        .into());
    }
    let work = Work::begin(&flags.model, &flags.output, &flags.asked(&shards))?;
    let mut done = Vec::new();
    for (at, shard) in shards.iter().enumerate() {
        let doing = doing(at, shards.len());
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
    work.finish(&config, &shards, &done)?;
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
