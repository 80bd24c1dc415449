//! Layers that engines make one of: queries with keys and values, gates with what goes up. Of NVFP4 they take one scale
//! for all of such a matrix, the largest that they find, so that all of its layers are to be written with the same.
//! `CompressedTensorsW4A16Fp4` of vLLM and SGLang.

use super::{checkpoint::Shard, choose::Fate, matrix};
use gpuwise_compress::Scheme;
use std::{cell::RefCell, collections::BTreeMap};

/// What becomes one, by the last part of the layers' names: Llama and most others, Mixtral, DeepSeek, BERT.
const TOGETHER: [&[&str]; 5] = [
    &["q_proj", "k_proj", "v_proj"],
    &["gate_proj", "up_proj"],
    &["w1", "w3"],
    &["q_a_proj", "kv_a_proj_with_mqa"],
    &["query", "key", "value"],
];

/// Which matrix of an engine a layer is a part of: what stands before its name, and the first of its kind.
pub(super) fn whole(tensor: &str) -> Option<(&str, &'static str)> {
    let layer = super::choose::layer(tensor)?;
    let (before, last) = layer.rsplit_once('.')?;
    let kind = TOGETHER.into_iter().find(|names| names.contains(&last))?;
    Some((before, kind[0]))
}

/// Whether engines put another layer below this one, in one matrix.
pub(super) fn is_before(tensor: &str) -> bool {
    let last = super::choose::layer(tensor).and_then(|layer| layer.rsplit('.').next());
    let before = |names: &&[&str]| names[..names.len() - 1].contains(&last.unwrap_or_default());
    TOGETHER.iter().any(before)
}

/// Such a matrix, as [`whole`] names it.
type Matrix<'a> = (&'a str, &'static str);
/// A layer: its file, which of the file's tensors it is, and what becomes of it.
type Layer<'a> = (&'a Shard, usize, &'a Fate);

/// The layers of each such matrix, of all files.
pub(super) struct Fused<'a> {
    layers: BTreeMap<Matrix<'a>, Vec<Layer<'a>>>,
    seen: RefCell<BTreeMap<Matrix<'a>, f32>>,
}

impl<'a> Fused<'a> {
    /// Empty where the scheme has no scale that engines take together.
    pub(super) fn new(scheme: Scheme, shards: &'a [Shard], fates: &'a [Vec<Fate>]) -> Self {
        let mut layers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (shard, fates) in shards.iter().zip(fates) {
            for (at, (tensor, fate)) in shard.tensors.iter().zip(fates).enumerate() {
                if scheme == Scheme::Nvfp4
                    && matches!(fate, Fate::Encoded { .. })
                    && let Some(matrix) = whole(&tensor.name)
                {
                    layers.entry(matrix).or_default().push((shard, at, fate));
                }
            }
        }
        layers.retain(|_, layers| layers.len() > 1);
        Self {
            layers,
            seen: RefCell::default(),
        }
    }

    /// The largest absolute value of all layers that `tensor` becomes one with; 0 where it stays alone.
    pub(super) fn largest(&self, tensor: &'a str) -> anyhow::Result<f32> {
        let found = whole(tensor).and_then(|matrix| self.layers.get_key_value(&matrix));
        let Some((matrix, layers)) = found else {
            return Ok(0.0);
        };
        if let Some(largest) = self.seen.borrow().get(matrix) {
            return Ok(*largest);
        }
        let mut largest = 0_f32;
        for (shard, at, fate) in layers {
            largest = largest.max(matrix::largest(shard, &shard.tensors[*at], fate)?);
        }
        self.seen.borrow_mut().insert(*matrix, largest);
        Ok(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn layers_of_one_block_become_one() {
        let of = |name| whole(name);
        let queries = of("model.layers.3.self_attn.q_proj.weight");
        assert!(queries.is_some());
        assert_eq!(queries, of("model.layers.3.self_attn.v_proj.weight"));
        assert_ne!(queries, of("model.layers.4.self_attn.v_proj.weight"));
        assert_ne!(queries, of("model.layers.3.self_attn.o_proj.weight"));
        assert_ne!(
            of("model.layers.3.mlp.experts.0.gate_proj.weight"),
            of("model.layers.3.mlp.experts.1.up_proj.weight")
        );
    }
}
