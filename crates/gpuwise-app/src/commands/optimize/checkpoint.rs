//! Safetensors files of a model, with where their tensors lie.

use super::made::{self, Made, Maker, Merged, Piece};
use crate::{error::Problem, model};
use anyhow::Context as _;
use gpuwise_compress::Stored;
use gpuwise_read::safetensors::{self, Place};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Which file holds which tensor, where there are several.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Bytes before the header, which give its length.
const LENGTH_BYTES: u64 = 8;

/// One file of a checkpoint.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// In the order of their bytes.
    pub(super) tensors: Vec<Place>,
    /// Where the tensors' bytes begin.
    pub(super) data: u64,
    /// Bytes in all.
    pub(super) length: u64,
    /// When it changed last, since 1970; `None` where the file system does not say.
    pub(super) changed: Option<Duration>,
    /// Tensors that are made as they are read.
    made: Arc<Vec<Made>>,
}

impl Shard {
    pub(super) fn open(path: PathBuf) -> anyhow::Result<Self> {
        let named = path.display().to_string();
        let unreadable = |error| Problem::new(format!("cannot read {named}")).because(error);
        let mut file = File::open(&path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let length = metadata.len();
        let changed = metadata.modified().ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut first = [0; LENGTH_BYTES as usize];
        file.read_exact(&mut first).map_err(unreadable)?;
        let span = safetensors::header_span(first, length).with_context(|| named.clone())?;
        let size = usize::try_from(span).context("more bytes than this machine can address")?;
        let mut json = vec![0; size];
        file.read_exact(&mut json).map_err(unreadable)?;
        let data = LENGTH_BYTES + span;
        let tensors =
            safetensors::read_places(&json, length - data).with_context(|| named.clone())?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name
            .ok_or_else(|| Problem::new(format!("{named}: its name is no text")))?
            .to_owned();
        Ok(Self {
            path,
            name,
            tensors,
            data,
            length,
            changed,
            made: Arc::default(),
        })
    }

    /// What tensor `at` consists of.
    pub(super) fn pieces(&self, at: usize) -> anyhow::Result<Vec<Piece>> {
        let tensor = &self.tensors[at];
        if let Some(made) = self.made.iter().find(|made| made.name == tensor.name) {
            return Ok(made.pieces.clone());
        }
        let numbers = made::numbers(self, tensor)?;
        let (update, turn) = (None, None);
        Ok(vec![Piece {
            numbers,
            update,
            turn,
        }])
    }

    /// From now on tensor `at` is what is made of these pieces.
    pub(super) fn make(&mut self, at: usize, pieces: Vec<Piece>) -> anyhow::Result<()> {
        let last = self.made.iter().map(Made::end).max();
        let tensor = &mut self.tensors[at];
        tensor.begin = last.unwrap_or(self.length - self.data);
        let made = Made {
            name: tensor.name.clone(),
            stored: Stored::named(&tensor.dtype)
                .with_context(|| format!("tensor `{}`: its numbers are none", tensor.name))?,
            columns: tensor.shape.last().copied().unwrap_or(1),
            begin: tensor.begin,
            pieces,
        };
        tensor.end = made.end();
        let all = Arc::make_mut(&mut self.made);
        all.retain(|other| other.name != made.name);
        all.push(made);
        Ok(())
    }
}

/// Files of a model in their order.
pub(super) fn shards(directory: &Path) -> anyhow::Result<Vec<Shard>> {
    let files = model::safetensors_of(directory)?;
    let shards = files
        .into_iter()
        .map(Shard::open)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut lies: BTreeMap<&str, &Shard> = BTreeMap::new();
    for shard in &shards {
        for tensor in &shard.tensors {
            if let Some(other) = lies.insert(&tensor.name, shard) {
                return Err(Problem::new(format!(
                    "tensor `{}` is in {} and in {}",
                    tensor.name, other.name, shard.name
                ))
                .hint("files of two models may be mixed: fetch the model again")
                .into());
            }
        }
    }
    if let Some((index, map)) = weight_map(directory)? {
        for (tensor, file) in map {
            if lies
                .get(tensor.as_str())
                .is_none_or(|shard| shard.name != file)
            {
                return Err(Problem::new(format!(
                    "{index} names tensor `{tensor}` in {file}, which is not there"
                ))
                .hint("files may be of another version than their index: fetch the model again")
                .into());
            }
        }
    }
    Ok(shards)
}

/// Which file holds which tensor, as the index says it, with the name of the index.
fn weight_map(directory: &Path) -> anyhow::Result<Option<(String, BTreeMap<String, String>)>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = directory.join(INDEX);
    if !path.is_file() {
        return Ok(None);
    }
    let named = path.display().to_string();
    let text = fs::read(&path)
        .map_err(|error| Problem::new(format!("cannot read {named}")).because(error))?;
    let index: Index = serde_json::from_slice(&text)
        .map_err(|error| Problem::new(format!("{named}: no index of tensors")).because(error))?;
    Ok(Some((named, index.weight_map)))
}

/// A part of a file.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    named: String,
    data: u64,
    /// Bytes of the file after the header.
    length: u64,
    maker: Maker,
}

impl Source {
    pub(super) fn open(shard: &Shard) -> anyhow::Result<Self> {
        let named = shard.path.display().to_string();
        let file = File::open(&shard.path)
            .map_err(|error| Problem::new(format!("cannot read {named}")).because(error))?;
        Ok(Self {
            file,
            named,
            data: shard.data,
            length: shard.length - shard.data,
            maker: Maker::of(&shard.made),
        })
    }

    /// Fills `to` with the bytes from `at` after the header on.
    pub(super) fn read(&mut self, at: u64, to: &mut [u8]) -> anyhow::Result<()> {
        if at >= self.length && !to.is_empty() {
            return self.maker.read(at, to);
        }
        let read = self
            .file
            .seek(SeekFrom::Start(self.data + at))
            .and_then(|_| self.file.read_exact(to));
        read.map_err(|error| {
            Problem::new(format!("cannot read {}", self.named))
                .because(error)
                .into()
        })
    }

    /// What an adapter did to a tensor that was read last, if it was one that is made.
    pub(super) fn merged(&self, tensor: &Place) -> Option<Merged> {
        self.maker.merged(&tensor.name)
    }
}

/// Names of the tensors of a file.
pub(super) fn tensors(path: &Path) -> anyhow::Result<Vec<String>> {
    let shard = Shard::open(path.to_path_buf())?;
    Ok(shard.tensors.into_iter().map(|one| one.name).collect())
}
