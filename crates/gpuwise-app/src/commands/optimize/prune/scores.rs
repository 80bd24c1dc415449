//! What a channel or a head can add, by its weights alone: the product of how strongly it is written to and how strongly
//! it is read.

use super::{At, Width};
use crate::commands::optimize::{
    checkpoint::{Shard, Source},
    pieces::CHUNK,
};
use gpuwise_compress::Stored;
use std::{collections::BTreeMap, sync::Arc};

/// A layer that is to be scored.
pub(super) struct Layer<'a> {
    /// Its tensors, by their names in it.
    pub tensors: &'a BTreeMap<String, At>,
    pub width: Width,
    /// Why it cannot be scored.
    pub missing: &'a dyn Fn(String) -> anyhow::Error,
}

/// Sums of squares of a matrix's rows and columns.
struct Squares {
    rows: Vec<f64>,
    columns: Vec<f64>,
}

fn squares(
    shards: &[Shard],
    (file, at): At,
    [rows, columns]: [u64; 2],
    gains: Option<&[f32]>,
) -> anyhow::Result<Squares> {
    let tensor = &shards[file].tensors[at];
    let stored = Stored::named(&tensor.dtype)
        .ok_or_else(|| anyhow::anyhow!("tensor `{}`: stored as {}", tensor.name, tensor.dtype))?;
    let mut source = Source::open(&shards[file])?;
    let wide = usize::try_from(columns)?.max(1);
    let row = columns * stored.bytes() as u64;
    let run = (CHUNK / row.max(1)).max(1);
    let mut all = Squares {
        rows: Vec::new(),
        columns: vec![0.0; wide],
    };
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for first in (0..rows).step_by(usize::try_from(run)?) {
        let count = run.min(rows - first);
        bytes.resize(usize::try_from(count * row)?, 0);
        source.read(tensor.begin + first * row, &mut bytes)?;
        stored.widen(&bytes, &mut values);
        for (line, row) in values.chunks_exact(wide).enumerate() {
            let mut sum = 0.0;
            for (column, value) in row.iter().enumerate() {
                let gain = gains.map_or(1.0, |gains| f64::from(gains[column]));
                let square = (f64::from(*value) * gain).powi(2);
                if !square.is_finite() {
                    return Err(odd(&tensor.name, first + line as u64, column));
                }
                sum += square;
                all.columns[column] += square;
            }
            all.rows.push(sum);
        }
    }
    Ok(all)
}

fn odd(name: &str, row: u64, column: usize) -> anyhow::Error {
    crate::error::Problem::new(format!(
        "tensor `{name}`: row {row}, column {column} is NaN or infinite"
    ))
    .hint("what is made of it means nothing: check the checkpoint")
    .into()
}

impl Layer<'_> {
    fn find(&self, name: &str) -> anyhow::Result<At> {
        let found = self.tensors.get(name).copied();
        found.ok_or_else(|| (self.missing)(format!("has no `{name}`")))
    }

    /// What a norm multiplies by, as long as the stream is wide.
    fn gains(&self, shards: &[Shard], name: &str) -> anyhow::Result<Vec<f32>> {
        let (file, at) = self.find(name)?;
        let pieces = shards[file].pieces(at)?;
        let values = pieces.iter().map(|piece| piece.numbers.values());
        let values = values.collect::<anyhow::Result<Vec<_>>>()?.concat();
        if values.len() as u64 != self.width.hidden {
            return Err((self.missing)(format!(
                "`{name}` has {} numbers",
                values.len()
            )));
        }
        Ok(values)
    }

    /// Of a matrix that reads the stream through a norm: the squares of each row.
    fn reads(
        &self,
        shards: &[Shard],
        (name, rows): (&str, u64),
        gains: &[f32],
    ) -> anyhow::Result<Vec<f64>> {
        let shape = [rows, self.width.hidden];
        Ok(squares(shards, self.find(name)?, shape, Some(gains))?.rows)
    }

    /// Of a matrix that writes into the stream: the squares of each column.
    fn writes(&self, shards: &[Shard], name: &str, columns: u64) -> anyhow::Result<Vec<f64>> {
        let shape = [self.width.hidden, columns];
        Ok(squares(shards, self.find(name)?, shape, None)?.columns)
    }

    /// Of each channel of its MLP: ‖gate‖ · ‖up‖ · ‖down‖, with the norm's gains in what reads.
    pub(super) fn mlp(&self, shards: &[Shard]) -> anyhow::Result<Vec<f64>> {
        let between = self.width.between;
        let gains = self.gains(shards, "post_attention_layernorm.weight")?;
        let gate = self.reads(shards, ("mlp.gate_proj.weight", between), &gains)?;
        let up = self.reads(shards, ("mlp.up_proj.weight", between), &gains)?;
        let down = self.writes(shards, "mlp.down_proj.weight", between)?;
        let each = gate.iter().zip(&up).zip(&down);
        Ok(each
            .map(|((gate, up), down)| (gate * up * down).sqrt())
            .collect())
    }

    /// Of each head of keys and values: ‖values‖ · ‖output‖, of all heads of its group. Where these look says nothing of
    /// how much they add.
    pub(super) fn attention(&self, shards: &[Shard]) -> anyhow::Result<Vec<f64>> {
        let width = self.width;
        let gains = self.gains(shards, "input_layernorm.weight")?;
        let values = self.reads(
            shards,
            ("self_attn.v_proj.weight", width.groups * width.head),
            &gains,
        )?;
        let output = self.writes(shards, "self_attn.o_proj.weight", width.heads * width.head)?;
        let head = usize::try_from(width.head)?;
        let group = head * usize::try_from(width.heads / width.groups)?;
        let each = values.chunks_exact(head).zip(output.chunks_exact(group));
        Ok(each
            .map(|(values, output)| {
                let heads = output.chunks_exact(head);
                let output: f64 = heads.map(|head| head.iter().sum::<f64>().sqrt()).sum();
                values.iter().sum::<f64>().sqrt() * output
            })
            .collect())
    }
}

/// The largest, in their order; of two that are equal the first. Adds what went, and what there was.
pub(super) fn best(scores: &[f64], count: u64, gone: &mut (f64, f64)) -> Arc<Vec<u32>> {
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
    let (kept, rest) = order.split_at((count as usize).min(order.len()));
    gone.0 += rest.iter().map(|at| scores[*at as usize]).sum::<f64>();
    gone.1 += scores.iter().sum::<f64>();
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    Arc::new(kept)
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_largest_stay_in_their_order() {
        let mut gone = (0.0, 0.0);
        let kept = best(&[3.0, 1.0, 4.0, 1.0, 5.0], 3, &mut gone);
        assert_eq!(*kept, [0, 2, 4]);
        assert_eq!(gone, (2.0, 14.0));
        assert_eq!(*best(&[2.0, 2.0, 2.0], 2, &mut gone), [0, 1]);
    }
}
