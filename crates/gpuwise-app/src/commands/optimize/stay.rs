//! Layers that stay beside those that are named: for the sake of a matrix that engines make of several, or of the error.

use super::{
    checkpoint::{Shard, Source},
    choose::{self, Fate, Reason},
    fused::{self, Fused},
    matrix::Matrix,
};
use gpuwise_compress::Scheme;
use std::collections::BTreeMap;

/// What engines hold in one format: the experts of a block, and the layers that they make one matrix of.
fn unit(tensor: &str) -> Option<(&str, &str)> {
    match tensor.split_once(".experts.") {
        Some((block, _)) => Some((block, "experts")),
        None => fused::whole(tensor),
    }
}

/// Where one layer of a matrix stays the others stay too: engines refuse a matrix that is quantized in part.
pub(super) fn together(shards: &[Shard], fates: &mut [Vec<Fate>]) {
    let mut stays: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (tensor, fate) in of(shards).zip(fates.iter().flatten()) {
        if let (Fate::Kept(_), Some(layer), Some(unit)) =
            (fate, choose::layer(tensor), unit(tensor))
        {
            stays.entry(unit).or_insert(layer);
        }
    }
    for (tensor, fate) in of(shards).zip(fates.iter_mut().flatten()) {
        let stays = unit(tensor).and_then(|unit| stays.get(&unit));
        if let (Fate::Encoded { .. }, Some(layer)) = (&fate, stays) {
            *fate = Fate::Kept(Reason::Beside((*layer).to_owned()));
        }
    }
}

fn of(shards: &[Shard]) -> impl Iterator<Item = &str> {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    tensors.map(|tensor| tensor.name.as_str())
}

/// Keeps layers that would lose more than `most`, relative in the Frobenius norm. It reads and encodes all of them, and
/// writes nothing.
pub(super) fn exact(
    shards: &[Shard],
    fates: &mut [Vec<Fate>],
    scheme: Scheme,
    most: f64,
    doing: impl Fn(&str),
) -> anyhow::Result<()> {
    let before = fates.to_vec();
    let fused = Fused::new(scheme, shards, &before);
    for (shard, fates) in shards.iter().zip(fates.iter_mut()) {
        let mut source = Source::open(shard)?;
        for (tensor, fate) in shard.tensors.iter().zip(fates) {
            let Fate::Encoded { shape, .. } = &*fate else {
                continue;
            };
            doing(&tensor.name);
            let matrix = Matrix {
                file: &shard.name,
                tensor,
                shape: *shape,
            };
            let (mut lost, mut power) = (0.0, 0.0);
            matrix.encode(scheme, &mut source, fused.largest(&tensor.name)?, |run| {
                (lost, power) = (lost + run.lost, power + run.power);
                Ok(())
            })?;
            let error = gpuwise_compress::relative_error(lost, power);
            if error > most {
                *fate = Fate::Kept(Reason::Error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn experts_of_a_block_are_of_one_format() {
        let one = unit("model.layers.3.mlp.experts.0.gate_proj.weight");
        assert!(one.is_some());
        assert_eq!(one, unit("model.layers.3.mlp.experts.7.down_proj.weight"));
        assert_ne!(one, unit("model.layers.4.mlp.experts.0.gate_proj.weight"));
        assert_eq!(unit("model.layers.3.self_attn.o_proj.weight"), None);
    }
}
