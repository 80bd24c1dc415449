//! `gpuwise optimize`: a checkpoint with smaller weights, made without data and without a GPU.

mod advise;
mod checkpoint;
mod choose;
mod config;
mod convert;
mod decide;
mod decompress;
mod exact;
mod fuse;
mod fused;
mod gguf;
mod left;
mod loaders;
mod lora;
mod made;
mod matrix;
mod measure;
mod names;
mod onnx;
mod pieces;
mod prune;
mod recipe;
mod rotate;
mod settings;
mod show;
mod stay;
mod stored;
mod transposed;
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
use decide::Decided;
use decompress::Compressed;
use exact::Exact;
use fused::Fused;
use gpuwise_compress::Stored;
use gpuwise_read::workload;
use left::Left;
use serde_json::{Value, json};
use show::Lost;
use std::path::PathBuf;
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
    towers: bool,
    unchecked: bool,
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
            towers: make.towers,
            unchecked: make.unchecked,
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
            "towers": self.towers,
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
    let mut config = config::read(&flags.model)?;
    config::not_quantized(&config, &flags.model)?;
    let (shards, before) = flags.exact.shards(&flags.model, &mut config)?;
    transposed::refuse(&shards, &flags.model)?;
    let Decided {
        scheme,
        fates,
        said,
    } = decide::decide(flags, &shards)?;
    let flagged = flags.max_error.is_some() || !flags.keep.is_empty();
    let left = Left::of(&shards, &fates, flagged);
    left.check(&flags.model, flags.to.name())?;
    let form = loaders::form(scheme, flags.towers && decide::has_towers(&shards));
    let opened = loaders::opened(context, &config, form, flags.unchecked)?;
    let said = [before, said, left.said(), opened];
    let fused = Fused::new(scheme, &shards, &fates);
    let report = flags.report.as_deref().map(Pending::new).transpose()?;
    let work = Work::begin(&flags.model, &flags.output, &flags.asked(&shards))?;
    let mut done = Vec::new();
    for (at, (shard, fates)) in shards.iter().zip(&fates).enumerate() {
        let doing = doing(at, shards.len());
        done.extend(work.file(shard, fates, Some((scheme, &fused)), doing)?);
    }
    progress::doing("");
    let kept = names::kept(&shards, &fates, &config);
    if let Some(said) = config::quantization(scheme, &kept, flags.kv, &done) {
        config["quantization_config"] = said;
    }
    work.finish(&config, &shards, &done)?;
    let lost = Lost::by(scheme);
    if let Some(file) = report {
        file.finish(&show::tensors(&done, lost).to_csv())?;
    }
    let written = flags.output.display().to_string();
    context.table(&show::table(&done, lost, (&written, &said)))?;
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
