//! How much of the weights stays as it was though no flag asked for that: it is said, and most of them is refused.

use super::{
    checkpoint::Shard,
    choose::{Fate, Reason},
};
use crate::error::Problem;
use gpuwise_read::safetensors::Place;
use std::{collections::BTreeMap, path::Path};

/// Tensors that stay for one reason.
struct Kind<'a> {
    count: u64,
    bytes: u64,
    first: &'a str,
}

/// Bytes of weights before: of all tensors, of those that become smaller, and of those that stay unasked.
pub(super) struct Left<'a> {
    all: u64,
    smaller: u64,
    /// Where flags leave layers, others beside them stay by these flags.
    flagged: bool,
    stays: BTreeMap<&'a Reason, Kind<'a>>,
}

fn bytes(tensor: &Place) -> u64 {
    tensor.end - tensor.begin
}

impl<'a> Left<'a> {
    /// `flagged`: whether `--keep` or `--max-error` leaves layers.
    pub(super) fn of(shards: &'a [Shard], fates: &'a [Vec<Fate>], flagged: bool) -> Self {
        let tensors = shards.iter().flat_map(|shard| &shard.tensors);
        let mut left = Self {
            all: 0,
            smaller: 0,
            flagged,
            stays: BTreeMap::new(),
        };
        for (tensor, fate) in tensors.zip(fates.iter().flatten()) {
            left.all += bytes(tensor);
            match fate {
                Fate::Encoded { .. } => left.smaller += bytes(tensor),
                Fate::Kept(reason) if reason.is_unasked() || *reason == Reason::Tower => {
                    let kind = left.stays.entry(reason).or_insert(Kind {
                        count: 0,
                        bytes: 0,
                        first: &tensor.name,
                    });
                    kind.count += 1;
                    kind.bytes += bytes(tensor);
                }
                Fate::Kept(_) => {}
            }
        }
        left
    }

    fn share(&self, bytes: u64) -> String {
        format!("{:.0} %", bytes as f64 / self.all.max(1) as f64 * 100.0)
    }

    /// What stays and no flag asked for, nor left beside another.
    fn unasked(&self) -> impl Iterator<Item = (&'a Reason, &Kind<'a>)> {
        let stays = self.stays.iter().map(|(reason, kind)| (*reason, kind));
        stays.filter(|(reason, _)| {
            reason.is_unasked() && !(self.flagged && matches!(reason, Reason::Beside(_)))
        })
    }

    /// # Errors
    /// When more bytes of matrices would stay than become smaller; `form` is what they were to become.
    pub(super) fn check(&self, model: &Path, form: &str) -> anyhow::Result<()> {
        let stays: u64 = self.unasked().map(|(_, kind)| kind.bytes).sum();
        let most = self.unasked().max_by_key(|(_, kind)| kind.bytes);
        let Some((reason, kind)) = most.filter(|_| stays > self.smaller) else {
            return Ok(());
        };
        let hint = match reason {
            Reason::Fused | Reason::Unnamed => {
                "only matrices with a tensor each, called `….weight`, become smaller; a checkpoint with a tensor for each \
                 expert does, and `--gguf` lets llama.cpp convert the model"
            }
            Reason::Format(_) => "take the checkpoint in BF16, F16 or F32 that it was made from",
            _ => {
                "another form or other --scales divide its rows: --scales channel, or a smaller group"
            }
        };
        let what = format!(
            "{}: {} of the bytes would stay as they are and {} become {form}: {} (`{}` and {} more)",
            model.display(),
            self.share(self.all - self.smaller),
            self.share(self.smaller),
            reason.text(),
            kind.first,
            kind.count - 1
        );
        let part = kind
            .first
            .rsplit_once('.')
            .map_or(kind.first, |(_, last)| last);
        Err(Problem::new(what)
            .hint(hint)
            .hint(format!(
                "to leave them on purpose name them with --keep, such as --keep {part}"
            ))
            .into())
    }

    /// What stays unasked, with its share of the bytes; `None` where nothing does.
    pub(super) fn said(&self) -> Option<String> {
        let mut kinds: Vec<_> = self.stays.iter().collect();
        kinds.sort_by_key(|(_, kind)| u64::MAX - kind.bytes);
        let each: Vec<String> = kinds
            .iter()
            .map(|(reason, kind)| {
                let share = self.share(kind.bytes);
                format!("{share} of the bytes, {} ({})", reason.text(), kind.first)
            })
            .collect();
        (!each.is_empty()).then(|| format!("stays as it was, unasked: {}", each.join("; ")))
    }
}
