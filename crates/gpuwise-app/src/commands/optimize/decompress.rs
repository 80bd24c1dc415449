//! A checkpoint of smaller weights back to plain numbers, as engines read them: what was lost stays lost.

use super::{
    checkpoint::{Shard, Source},
    convert::{self, Done, Entry, Sink},
    stored,
};
use crate::error::Problem;
use gpuwise_compress::{PartKind, Scheme, Stored, decode};
use gpuwise_read::safetensors::Place;
use std::{collections::BTreeMap, path::Path};

/// The parts of a layer: of which file, and where there.
type Parts<'a> = BTreeMap<PartKind, (usize, &'a Place)>;

/// A checkpoint that is being decompressed.
pub(super) struct Compressed<'a> {
    scheme: Scheme,
    to: Stored,
    shards: &'a [Shard],
    layers: BTreeMap<&'a str, Parts<'a>>,
}

/// A weight of several parts.
struct Weight<'a> {
    layer: &'a str,
    parts: &'a Parts<'a>,
    codes: &'a Place,
    rows: u64,
    columns: u64,
    scale: Stored,
}

fn wrong(layer: &str, what: &str) -> anyhow::Error {
    Problem::new(format!("layer `{layer}`: {what}"))
        .hint("quantization_config in config.json and the tensors do not belong together: fetch the model again")
        .into()
}

impl<'a> Compressed<'a> {
    /// # Errors
    /// Where a layer has parts of a weight and not what they are parts of.
    pub(super) fn new(scheme: Scheme, to: Stored, shards: &'a [Shard]) -> anyhow::Result<Self> {
        let mut layers: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
        for (file, shard) in shards.iter().enumerate() {
            for tensor in &shard.tensors {
                if let Some((layer, kind)) = stored::part(scheme, &tensor.name) {
                    layers
                        .entry(layer)
                        .or_default()
                        .insert(kind, (file, tensor));
                }
            }
        }
        // A weight without any other part is a weight as it always was.
        layers.retain(|_, parts| parts.keys().any(|kind| *kind != PartKind::Weight));
        for (layer, parts) in &layers {
            if let Some(kind) = parts.keys().next()
                && !parts.keys().any(|kind| holds_codes(*kind))
            {
                let what = format!("has `{}` and no weight", kind.suffix());
                return Err(wrong(layer, &what));
            }
        }
        Ok(Self {
            scheme,
            to,
            shards,
            layers,
        })
    }

    /// Whether there is anything to undo.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Writes what file `at` becomes: each weight lies where its codes lay.
    pub(super) fn file(
        &self,
        at: usize,
        to: &Path,
        doing: impl Fn(&str),
    ) -> anyhow::Result<Vec<Done>> {
        let unwritable = |error| convert::unwritable(to, error);
        let shard = &self.shards[at];
        let mut weights = Vec::new();
        let mut entries = Vec::new();
        let mut kept = Vec::new();
        for tensor in &shard.tensors {
            let of = stored::part(self.scheme, &tensor.name);
            let of = of.and_then(|(layer, kind)| Some((self.layers.get_key_value(layer)?, kind)));
            match of {
                Some(((layer, parts), kind)) if holds_codes(kind) => {
                    let weight = self.weight(layer, parts, tensor)?;
                    entries.push(Entry {
                        name: format!("{layer}.weight"),
                        dtype: self.to.name().into(),
                        shape: vec![weight.rows, weight.columns],
                        bytes: weight.rows * weight.columns * self.to.bytes() as u64,
                    });
                    weights.push(weight);
                }
                Some(_) => {}
                None => {
                    entries.push(Entry {
                        name: tensor.name.clone(),
                        dtype: tensor.dtype.clone(),
                        shape: tensor.shape.clone(),
                        bytes: tensor.end - tensor.begin,
                    });
                    kept.push(tensor);
                }
            }
        }
        let layout = convert::laid_out(entries);
        let begin = |name: &str| layout.begins.get(name).copied().unwrap_or_default();
        let mut sink = Sink::create(to, &layout).map_err(unwritable)?;
        let mut done = Vec::new();
        for tensor in kept {
            let bytes = self.read(at, tensor)?;
            sink.put(begin(&tensor.name), &bytes).map_err(unwritable)?;
            let why = Some("not quantized".into());
            let elements = tensor.shape.iter().product();
            done.push(said(
                &tensor.name,
                elements,
                tensor,
                bytes.len() as u64,
                why,
            ));
        }
        for weight in weights {
            doing(&weight.codes.name);
            let bytes = self.numbers(&weight)?;
            let name = format!("{}.weight", weight.layer);
            sink.put(begin(&name), &bytes).map_err(unwritable)?;
            let elements = weight.rows * weight.columns;
            done.push(said(
                &name,
                elements,
                weight.codes,
                bytes.len() as u64,
                None,
            ));
        }
        sink.sync().map_err(unwritable)?;
        Ok(done)
    }

    fn read(&self, file: usize, tensor: &Place) -> anyhow::Result<Vec<u8>> {
        let count = usize::try_from(tensor.end - tensor.begin)?;
        let mut bytes = vec![0; count];
        Source::open(&self.shards[file])?.read(tensor.begin, &mut bytes)?;
        Ok(bytes)
    }

    /// What its parts say of a weight, held against the scheme.
    fn weight(
        &self,
        layer: &'a str,
        parts: &'a Parts<'a>,
        codes: &'a Place,
    ) -> anyhow::Result<Weight<'a>> {
        let shape = parts.get(&PartKind::Shape);
        let stated = match shape.or_else(|| parts.get(&PartKind::SparseShape)) {
            Some((file, tensor)) => {
                let bytes = self.read(*file, tensor)?;
                let (pairs, _) = bytes.as_chunks::<8>();
                match pairs {
                    [rows, columns] => Some([rows, columns].map(|one| u64::from_le_bytes(*one))),
                    _ => return Err(wrong(layer, "its shape is not two whole numbers")),
                }
            }
            None => None,
        };
        let (rows, columns) = stored::shape(self.scheme, codes, stated).ok_or_else(|| {
            wrong(
                layer,
                "its codes are no matrix of the rows and columns that are said",
            )
        })?;
        let scale = parts.get(&PartKind::Scale).map_or(codes, |(_, of)| *of);
        let scale = stored::numbers(scale);
        let wanted = self.scheme.parts(rows, columns, scale);
        for part in wanted.map_err(|why| wrong(layer, &why.to_string()))? {
            let Some((_, there)) = parts.get(&part.kind) else {
                return Err(wrong(
                    layer,
                    &format!("`{}` is missing", part.kind.suffix()),
                ));
            };
            let elements = |shape: &[u64]| {
                shape
                    .iter()
                    .try_fold(1_u64, |all, one| all.checked_mul(*one))
            };
            if there.dtype != part.dtype || elements(&there.shape) != elements(&part.shape) {
                let what = format!(
                    "`{}` is {} {:?}, expected {} {:?}",
                    part.kind.suffix(),
                    there.dtype,
                    there.shape,
                    part.dtype,
                    part.shape
                );
                return Err(wrong(layer, &what));
            }
        }
        Ok(Weight {
            layer,
            parts,
            codes,
            rows,
            columns,
            scale,
        })
    }

    fn numbers(&self, weight: &Weight<'_>) -> anyhow::Result<Vec<u8>> {
        let mut parts = BTreeMap::new();
        for (kind, (file, tensor)) in weight.parts {
            parts.insert(*kind, self.read(*file, tensor)?);
        }
        let shape = (weight.rows, weight.columns);
        let values = decode(self.scheme, shape, weight.scale, &parts)
            .ok_or_else(|| wrong(weight.layer, "its parts do not fit one another"))?;
        let odd = |value: &f32| !self.to.round(*value).is_finite();
        if let Some(at) = values.iter().position(odd) {
            let (row, column) = (at as u64 / weight.columns, at as u64 % weight.columns);
            return Err(Problem::new(format!(
                "layer `{}`: row {row}, column {column} is NaN or infinite in {}",
                weight.layer,
                self.to.name()
            ))
            .hint("a code or a scale of it is no number: fetch the model again")
            .into());
        }
        let mut bytes = Vec::with_capacity(values.len() * self.to.bytes());
        for value in values {
            self.to.put(value, &mut bytes);
        }
        Ok(bytes)
    }
}

/// Whether a part is the weight itself, as it is stored.
fn holds_codes(kind: PartKind) -> bool {
    matches!(
        kind,
        PartKind::Weight | PartKind::Packed | PartKind::Compressed
    )
}

fn said(name: &str, elements: u64, from: &Place, after: u64, kept: Option<String>) -> Done {
    Done {
        tensor: name.to_owned(),
        elements,
        bytes_before: from.end - from.begin,
        bytes_after: after,
        lost: 0.0,
        power: 0.0,
        kept,
        merged: None,
    }
}
