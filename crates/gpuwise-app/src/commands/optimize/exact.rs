//! Changes of a checkpoint in full numbers: with `--to` before weights become smaller, without it for
//! themselves.

use super::{
    super::{Context, Exit},
    checkpoint::{self, Shard},
    choose::{Fate, Reason},
    config, fuse,
    lora::{self, Adapter},
    prune::{self, Asked},
    rotate, settings, show,
    work::Work,
};
use crate::{
    error::Problem,
    progress,
    settings::{Fusion, MakeFlags, Optimize},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exact {
    lora: Option<PathBuf>,
    prune: Asked,
    rotate: bool,
    fuse: Vec<Fusion>,
}

impl Exact {
    pub(super) fn of(flags: &MakeFlags) -> anyhow::Result<Self> {
        let mut fuse = flags.fuse.clone();
        fuse.sort_unstable();
        fuse.dedup();
        Ok(Self {
            lora: flags.lora.clone(),
            prune: Asked::read(&flags.prune)?,
            rotate: flags.rotate,
            fuse,
        })
    }

    pub(super) fn is_asked(&self) -> bool {
        *self != Self::default()
    }

    /// What interrupted work is known by.
    pub(super) fn asked(&self) -> Value {
        let fuse: Vec<_> = self.fuse.iter().map(|one| one.name()).collect();
        json!({"lora": self.lora.as_deref().map(lora::identity), "prune": self.prune.said(), "rotate": self.rotate, "fuse": fuse})
    }

    /// The files of a model, with what is asked for, and what is to be said of it; `config` becomes that of the result.
    pub(super) fn shards(
        &self,
        model: &Path,
        config: &mut Value,
    ) -> anyhow::Result<(Vec<Shard>, Option<String>)> {
        let mut shards = checkpoint::shards(model)?;
        if let Some(directory) = &self.lora {
            Adapter::read(directory)?.apply(&mut shards, config)?;
        }
        let mut said = None;
        if !self.prune.is_none() {
            said = Some(prune::apply(&mut shards, config, (&self.prune, model))?.said());
        }
        if self.rotate {
            said = Some(rotate::apply(&mut shards, config, model)?.said());
        }
        if !self.fuse.is_empty() {
            fuse::apply(&mut shards, config, (&self.fuse, model))?;
        }
        Ok((shards, said))
    }
}

/// What interrupted work knows files by.
pub(super) fn files(shards: &[Shard]) -> Vec<Value> {
    let each = shards.iter();
    each.map(|shard| json!({"file": shard.name, "bytes": shard.length}))
        .collect()
}

pub(super) fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    if let Some(flag) = settings::of_forms(&flags.make) {
        return Err(Problem::new(format!("{flag} without --to"))
            .hint("it says how weights become smaller: name a form, such as --to fp8, or leave it out")
            .into());
    }
    let output = flags.make.output.as_deref().ok_or_else(|| {
        Problem::new("--output DIR is missing")
            .hint("the directory that is to be written, such as -o model-merged")
    })?;
    let exact = Exact::of(&flags.make)?;
    let mut config = config::read(&flags.model)?;
    config::not_quantized(&config, &flags.model)?;
    let (shards, said) = exact.shards(&flags.model, &mut config)?;
    let asked = json!({"model": flags.model, "exact": exact.asked(), "files": files(&shards)});
    let work = Work::begin(&flags.model, output, &asked)?;
    let mut done = Vec::new();
    for (at, shard) in shards.iter().enumerate() {
        let doing = super::doing(at, shards.len());
        let fates = vec![Fate::Kept(Reason::Exact); shard.tensors.len()];
        done.extend(work.file(shard, &fates, None, doing)?);
    }
    progress::doing("");
    work.finish(&config, &shards, &done)?;
    let written = output.display().to_string();
    let adapter = exact.lora.is_some();
    context.table(&show::table_of_exact(&done, &written, (adapter, said)))?;
    Ok(Exit::Yes)
}
