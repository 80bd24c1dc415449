//! A file of a checkpoint becomes a smaller one: some rows at a time, on all cores, so that memory does not grow with
//! the model.

use super::{
    checkpoint::{Shard, Source},
    choose::Fate,
    fused::Fused,
    made::Merged,
    matrix::Matrix,
    pieces::CHUNK,
};
use crate::error::Problem;
use gpuwise_compress::{PartKind, Scheme};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    path::Path,
};

/// What became of a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) tensor: String,
    pub(super) elements: u64,
    pub(super) bytes_before: u64,
    pub(super) bytes_after: u64,
    /// Sums of squares: of what was lost, and of what there was. Both are 0 of what was kept.
    pub(super) lost: f64,
    pub(super) power: f64,
    /// Why it is as it was.
    pub(super) kept: Option<String>,
    /// What an adapter did to it before.
    #[serde(default)]
    pub(super) merged: Option<Merged>,
}

/// A tensor of the new file.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: u64,
}

/// Where each part of each tensor begins.
pub(super) struct Layout {
    pub(super) header: Vec<u8>,
    pub(super) begins: BTreeMap<String, u64>,
    pub(super) length: u64,
}

/// How wide an element is: wide ones come first, so that each begins where its width divides.
fn width(dtype: &str) -> u32 {
    match dtype {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        _ => 1,
    }
}

fn part_name(tensor: &str, kind: PartKind) -> String {
    let layer = super::choose::layer(tensor).unwrap_or(tensor);
    format!("{layer}.{}", kind.suffix())
}

fn layout(shard: &Shard, fates: &[Fate]) -> Layout {
    let mut entries = Vec::new();
    for (tensor, fate) in shard.tensors.iter().zip(fates) {
        match fate {
            Fate::Kept(_) => entries.push(Entry {
                name: tensor.name.clone(),
                dtype: tensor.dtype.clone(),
                shape: tensor.shape.clone(),
                bytes: tensor.end - tensor.begin,
            }),
            Fate::Encoded { parts, .. } => entries.extend(parts.iter().map(|part| Entry {
                name: part_name(&tensor.name, part.kind),
                dtype: part.dtype.to_owned(),
                shape: part.shape.clone(),
                bytes: part.bytes(),
            })),
        }
    }
    laid_out(entries)
}

/// Where tensors lie in a new file, and its header.
pub(super) fn laid_out(mut entries: Vec<Entry>) -> Layout {
    entries.sort_by(|a, b| {
        let wide = width(&b.dtype).cmp(&width(&a.dtype));
        wide.then_with(|| a.name.cmp(&b.name))
    });
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    let (mut begins, mut end) = (BTreeMap::new(), 0);
    for entry in entries {
        let begin = end;
        end += entry.bytes;
        let said =
            json!({"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [begin, end]});
        begins.insert(entry.name.clone(), begin);
        header.insert(entry.name, said);
    }
    let mut text = serde_json::Value::Object(header).to_string().into_bytes();
    // So that the tensors begin where 8 divides.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend(text);
    let length = header.len() as u64 + end;
    Layout {
        header,
        begins,
        length,
    }
}

/// The new file.
pub(super) struct Sink {
    file: File,
    data: u64,
}

impl Sink {
    /// A file with its header and as many bytes as it is to have.
    pub(super) fn create(to: &Path, layout: &Layout) -> io::Result<Self> {
        let mut file = File::create(to)?;
        file.write_all(&layout.header)?;
        file.set_len(layout.length)?;
        Ok(Self {
            file,
            data: layout.header.len() as u64,
        })
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.data + at))?;
        self.file.write_all(bytes)
    }
}

/// Why a file of weights cannot be written.
pub(super) fn unwritable(to: &Path, error: io::Error) -> Problem {
    let problem = Problem::new(format!("cannot write {}", to.display()));
    let problem = match error.kind() {
        io::ErrorKind::StorageFull => {
            problem.hint("make room and run it again: finished files stay")
        }
        _ => problem,
    };
    problem.because(error)
}

/// Writes what a file becomes; `doing` hears of each tensor.
pub(super) fn convert<'a>(
    shard: &'a Shard,
    fates: &[Fate],
    how: Option<(Scheme, &Fused<'a>)>,
    to: &Path,
    doing: impl Fn(&str),
) -> anyhow::Result<Vec<Done>> {
    let unwritable = |error| unwritable(to, error);
    let layout = layout(shard, fates);
    let mut source = Source::open(shard)?;
    let mut sink = Sink::create(to, &layout).map_err(unwritable)?;
    let mut done = Vec::new();
    for (tensor, fate) in shard.tensors.iter().zip(fates) {
        doing(&tensor.name);
        let bytes_before = tensor.end - tensor.begin;
        let mut one = Done {
            tensor: tensor.name.clone(),
            elements: tensor.shape.iter().product(),
            bytes_before,
            bytes_after: bytes_before,
            lost: 0.0,
            power: 0.0,
            kept: None,
            merged: None,
        };
        match (fate, how) {
            (Fate::Encoded { .. }, None) => {}
            (Fate::Kept(reason), _) => {
                one.kept = Some(reason.text());
                let begin = layout.begins.get(&tensor.name).copied().unwrap_or_default();
                let mut bytes = Vec::new();
                for at in (0..bytes_before).step_by(CHUNK as usize) {
                    let count = CHUNK.min(bytes_before - at);
                    bytes.resize(count as usize, 0);
                    source.read(tensor.begin + at, &mut bytes)?;
                    sink.put(begin + at, &bytes).map_err(unwritable)?;
                }
            }
            (Fate::Encoded { shape, parts }, Some((scheme, fused))) => {
                one.bytes_after = parts.iter().map(gpuwise_compress::Part::bytes).sum();
                let matrix = Matrix {
                    file: &shard.name,
                    tensor,
                    shape: *shape,
                };
                let mut at: BTreeMap<PartKind, u64> = parts
                    .iter()
                    .filter_map(|part| {
                        let name = part_name(&tensor.name, part.kind);
                        Some((part.kind, *layout.begins.get(&name)?))
                    })
                    .collect();
                let beside = fused.largest(&tensor.name)?;
                matrix.encode(scheme, &mut source, beside, |run| {
                    (one.lost, one.power) = (one.lost + run.lost, one.power + run.power);
                    for (kind, bytes) in &run.parts {
                        let begin = at.entry(*kind).or_default();
                        sink.put(*begin, bytes).map_err(unwritable)?;
                        *begin += bytes.len() as u64;
                    }
                    Ok(())
                })?;
            }
        }
        one.merged = source.merged(tensor);
        done.push(one);
    }
    sink.sync().map_err(unwritable)?;
    Ok(done)
}
