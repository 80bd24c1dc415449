//! What a header says about its architecture: keys under the architecture's name, and tensors.

use super::{GgufHeader, GgufValue};
use std::collections::BTreeSet;

/// A header with its architecture's name, and the tensors of its layers by name.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    header: &'a GgufHeader,
    pub(super) name: &'a str,
    /// Layers that have a tensor, as `(suffix, layer)`.
    in_layers: BTreeSet<(&'a str, u64)>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(header: &'a GgufHeader, name: &'a str) -> Self {
        let in_layers = header.tensors.iter().filter_map(|tensor| {
            let (layer, suffix) = tensor.name.strip_prefix("blk.")?.split_once('.')?;
            Some((suffix, layer.parse().ok()?))
        });
        Self {
            header,
            name,
            in_layers: in_layers.collect(),
        }
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a GgufValue> {
        self.header.value(&format!("{}.{key}", self.name))
    }

    /// A whole number; of a list, the largest.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.counts(key)?.into_iter().max()
    }

    /// A whole number that is not 0.
    pub(super) fn some(&self, key: &str) -> Option<u64> {
        self.count(key).filter(|count| *count > 0)
    }

    pub(super) fn counts(&self, key: &str) -> Option<Vec<u64>> {
        self.value(key)?.counts()
    }

    /// One value a layer, where layers differ.
    pub(super) fn uneven(&self, key: &str) -> Option<Vec<u64>> {
        let counts = self.counts(key)?;
        let differ = counts.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then_some(counts)
    }

    /// Whether any layer has a tensor of this name after `blk.N.`.
    pub(super) fn has(&self, suffix: &str) -> bool {
        self.in_layers
            .range((suffix, 0)..=(suffix, u64::MAX))
            .next()
            .is_some()
    }

    pub(super) fn layer_has(&self, layer: u64, suffix: &str) -> bool {
        self.in_layers.contains(&(suffix, layer))
    }

    /// The shape of a tensor, outermost first.
    pub(super) fn shape(&self, name: &str) -> Option<&'a [u64]> {
        let tensor = self
            .header
            .tensors
            .iter()
            .find(|tensor| tensor.name == name)?;
        Some(&tensor.shape)
    }

    /// The shape of the first layer's tensor of this name that there is, outermost first.
    pub(super) fn layer_shape(&self, suffix: &str) -> Option<&'a [u64]> {
        let (_, layer) = self
            .in_layers
            .range((suffix, 0)..=(suffix, u64::MAX))
            .next()?;
        self.shape(&format!("blk.{layer}.{suffix}"))
    }

    /// Rows of the embedding: of its tensor, else the stated vocabulary, else the tokenizer's.
    pub(super) fn vocabulary(&self) -> Option<u64> {
        let rows = self
            .shape("token_embd.weight")
            .and_then(|shape| shape.first().copied());
        rows.or_else(|| self.some("vocab_size"))
            .or_else(|| self.header.value("tokenizer.ggml.tokens")?.length())
            .filter(|rows| *rows > 0)
    }
}
