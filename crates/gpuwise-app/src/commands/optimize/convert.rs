//! A file of a checkpoint becomes a smaller one: some rows at a time, on all cores, so that memory does not grow with
//! the model.

use super::{
    checkpoint::{Shard, Source},
    choose::Fate,
};
use crate::error::Problem;
use gpuwise_compress::{Encoded, PartKind, Scan, Scheme, Stored};
use gpuwise_read::safetensors::Place;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    mem,
    path::Path,
    thread,
};

/// Bytes that are read at once.
const CHUNK: u64 = 32 << 20;

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
}

/// A tensor of the new file.
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
}

/// Where each part of each tensor begins.
struct Layout {
    header: Vec<u8>,
    begins: BTreeMap<String, u64>,
    length: u64,
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
struct Sink {
    file: File,
    data: u64,
}

impl Sink {
    fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.data + at))?;
        self.file.write_all(bytes)
    }
}

/// Writes what a file becomes; `doing` hears of each tensor.
pub(super) fn convert(
    shard: &Shard,
    fates: &[Fate],
    scheme: Scheme,
    to: &Path,
    doing: impl Fn(&str),
) -> anyhow::Result<Vec<Done>> {
    let unwritable = |error: io::Error| {
        let problem = Problem::new(format!("cannot write {}", to.display()));
        let problem = match error.kind() {
            io::ErrorKind::StorageFull => {
                problem.hint("make room and run it again: finished files stay")
            }
            _ => problem,
        };
        problem.because(error)
    };
    let layout = layout(shard, fates);
    let mut source = Source::open(shard)?;
    let mut file = File::create(to).map_err(unwritable)?;
    file.write_all(&layout.header).map_err(unwritable)?;
    file.set_len(layout.length).map_err(unwritable)?;
    let mut sink = Sink {
        file,
        data: layout.header.len() as u64,
    };
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
        };
        match fate {
            Fate::Kept(reason) => {
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
            Fate::Encoded {
                stored,
                rows,
                columns,
                parts,
            } => {
                one.bytes_after = parts.iter().map(gpuwise_compress::Part::bytes).sum();
                let matrix = Matrix {
                    tensor,
                    stored: *stored,
                    rows: *rows,
                    columns: *columns,
                };
                let mut at: BTreeMap<PartKind, u64> = parts
                    .iter()
                    .filter_map(|part| {
                        let name = part_name(&tensor.name, part.kind);
                        Some((part.kind, *layout.begins.get(&name)?))
                    })
                    .collect();
                matrix.encode(scheme, &mut source, |run| {
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
        done.push(one);
    }
    sink.file.sync_all().map_err(unwritable)?;
    Ok(done)
}

struct Matrix<'a> {
    tensor: &'a Place,
    stored: Stored,
    rows: u64,
    columns: u64,
}

impl Matrix<'_> {
    fn row(&self) -> u64 {
        self.columns * self.stored.bytes() as u64
    }

    /// Runs of rows one after the other, each as pieces of whole rows for all cores.
    fn runs(
        &self,
        together: u64,
        source: &mut Source,
        mut each: impl FnMut(&[&[u8]]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
        let unit = self.row() * together;
        let size = (CHUNK / (unit * cores)).max(1) * unit * cores;
        let whole = self.row() * self.rows;
        let mut bytes = Vec::new();
        for at in (0..whole).step_by(usize::try_from(size).unwrap_or(usize::MAX)) {
            let count = size.min(whole - at);
            bytes.resize(count as usize, 0);
            source.read(self.tensor.begin + at, &mut bytes)?;
            let pieces: Vec<&[u8]> = bytes.chunks((size / cores) as usize).collect();
            each(&pieces)?;
        }
        Ok(())
    }

    fn scan(&self, scheme: Scheme, pieces: &[&[u8]]) -> Scan {
        let stored = self.stored;
        let see = |piece: &[u8]| {
            let mut scan = Scan::of(scheme);
            scan.see(stored, piece, &mut Vec::new());
            scan
        };
        let scans = over_cores(pieces, see);
        scans.into_iter().fold(Scan::default(), Scan::then)
    }

    fn encode(
        &self,
        scheme: Scheme,
        source: &mut Source,
        mut put: impl FnMut(&Encoded) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut all = Scan::of(scheme);
        if scheme.asks_all() {
            self.runs(1, source, |pieces| {
                all = mem::take(&mut all).then(self.scan(scheme, pieces));
                self.finite(&all)
            })?;
        }
        // Elements of the runs before.
        let mut before = 0;
        self.runs(scheme.rows_together(), source, |pieces| {
            let encode = |piece: &[u8]| scheme.encode(self.stored, self.columns, piece, &all);
            let runs = over_cores(pieces, encode);
            if runs.iter().any(|run| run.odd) {
                let mut seen = self.scan(scheme, pieces);
                seen.first = seen.first.map(|first| first + before);
                self.finite(&seen)?;
            }
            before += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>()
                / self.stored.bytes() as u64;
            runs.iter().try_for_each(&mut put)
        })?;
        let once = Encoded {
            parts: scheme.once(self.rows, self.columns, self.stored, &all),
            ..Encoded::default()
        };
        put(&once)
    }

    fn finite(&self, seen: &Scan) -> anyhow::Result<()> {
        let Some(first) = seen.first else {
            return Ok(());
        };
        let (row, column) = (first / self.columns, first % self.columns);
        Err(Problem::new(format!(
            "tensor `{}`: row {row}, column {column} is NaN or infinite, {} such elements so far",
            self.tensor.name, seen.not_finite
        ))
        .hint("no scale holds it: check the checkpoint, or leave the layer as it is with --keep")
        .into())
    }
}

/// One piece on each core.
fn over_cores<T: Send>(pieces: &[&[u8]], work: impl Fn(&[u8]) -> T + Sync) -> Vec<T> {
    let work = &work;
    match pieces {
        [one] => vec![work(one)],
        several => thread::scope(|scope| {
            let started: Vec<_> = several
                .iter()
                .map(|piece| scope.spawn(move || work(piece)))
                .collect();
            let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }),
    }
}
