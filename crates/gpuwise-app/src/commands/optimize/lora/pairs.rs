//! Tensors of an adapter, by the layers that they change.

use super::{BEFORE, settings::Settings};
use crate::commands::optimize::{
    checkpoint::Shard,
    made::{self, Factor, Update},
};
use gpuwise_read::safetensors::Place;
use std::{collections::BTreeMap, sync::Arc};

/// How the names of both matrices end: of linear layers, and of embeddings.
const ENDS: [(&str, &str, bool); 2] = [
    (".lora_A.weight", ".lora_B.weight", false),
    (".lora_embedding_A", ".lora_embedding_B", true),
];

/// `B · A` of a layer.
pub(super) struct Pair<'a> {
    a: &'a Place,
    b: &'a Place,
    embedding: bool,
}

/// All tensors of an adapter.
pub(super) struct Sorted<'a> {
    /// By layer.
    pub(super) pairs: BTreeMap<String, Pair<'a>>,
    /// What replaces a tensor of the model, by that one's name.
    pub(super) whole: BTreeMap<String, &'a Place>,
}

/// Every tensor has its place here.
///
/// # Errors
/// When one has none, or the other one of two is missing.
pub(super) fn sorted(adapter: &Shard) -> Result<Sorted<'_>, String> {
    let mut halves: BTreeMap<(String, bool), [Option<&Place>; 2]> = BTreeMap::new();
    let mut whole = BTreeMap::new();
    for tensor in &adapter.tensors {
        let name = tensor.name.strip_prefix(BEFORE);
        let name =
            name.ok_or_else(|| format!("tensor `{}` does not begin with {BEFORE}", tensor.name))?;
        let half = ENDS.iter().find_map(|(a, b, embedding)| {
            let [a, b] = [a, b].map(|end| name.strip_suffix(end));
            let at = usize::from(a.is_none());
            Some((a.or(b)?.to_owned(), *embedding, at))
        });
        if let Some((layer, embedding, at)) = half {
            halves.entry((layer, embedding)).or_default()[at] = Some(tensor);
        } else if name.contains("lora_") {
            return Err(format!(
                "tensor `{}` is neither A nor B of a layer",
                tensor.name
            ));
        } else {
            let plain = name
                .replace(".base_layer.", ".")
                .replace(".modules_to_save.", ".");
            if whole.insert(plain, tensor).is_some() {
                return Err(format!("tensor `{}` is there twice", tensor.name));
            }
        }
    }
    let mut pairs = BTreeMap::new();
    for ((layer, embedding), half) in halves {
        let [Some(a), Some(b)] = half else {
            let (there, end) = if half[0].is_some() {
                ("A", "B")
            } else {
                ("B", "A")
            };
            return Err(format!("layer `{layer}` has {there} and no {end}"));
        };
        if pairs
            .insert(layer.clone(), Pair { a, b, embedding })
            .is_some()
        {
            return Err(format!("layer `{layer}` has two adapters"));
        }
    }
    Ok(Sorted { pairs, whole })
}

impl Pair<'_> {
    /// What it adds to `target`.
    ///
    /// # Errors
    /// When shapes do not fit: names them.
    pub(super) fn update(
        &self,
        adapter: &Shard,
        settings: &Settings,
        layer: &str,
        target: &Place,
    ) -> Result<Arc<Update>, String> {
        let (a, b, w) = (&self.a.shape, &self.b.shape, &target.shape);
        let (&[rank, inputs], &[outputs, of_b], &[rows, columns]) =
            (a.as_slice(), b.as_slice(), w.as_slice())
        else {
            return Err(format!(
                "layer `{layer}`: A is {a:?}, B is {b:?}, the weight {w:?}; only matrices are merged here"
            ));
        };
        let straight = (rows, columns) == (outputs, inputs) && !self.embedding;
        let turned = (rows, columns) == (inputs, outputs);
        if rank != of_b || !(straight || turned) {
            return Err(format!(
                "layer `{layer}`: A is {a:?} and B is {b:?}, which do not make the weight's {w:?}"
            ));
        }
        let said = settings.rank(layer);
        if rank != said {
            return Err(format!(
                "layer `{layer}`: its rank is {rank}, by `r` and `rank_pattern` {said}"
            ));
        }
        // Where only one way fits, that is it; PEFT also stores weights the other way about without saying so.
        let turned = turned && (!straight || settings.transposed);
        let factor = |tensor: &Place, columns, transposed| {
            let numbers = made::numbers(adapter, tensor).map_err(|error| error.to_string())?;
            Ok::<_, String>(Factor {
                numbers,
                columns,
                transposed,
            })
        };
        let (left, right) = if turned {
            (factor(self.a, inputs, true)?, factor(self.b, rank, true)?)
        } else {
            (factor(self.b, rank, false)?, factor(self.a, inputs, false)?)
        };
        Ok(Arc::new(Update {
            left,
            right,
            rank,
            scale: settings.scale(layer) as f32,
        }))
    }
}
