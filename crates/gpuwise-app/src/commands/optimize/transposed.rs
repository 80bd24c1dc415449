//! Layers that are stored the other way about, as `Conv1D` of GPT-2 is: loaders read scales of linear layers alone.

use super::{checkpoint::Shard, choose};
use crate::error::Problem;
use std::{collections::BTreeMap, path::Path};

/// Refuses layers whose columns are outputs: a bias, of which there is one for each output, tells.
///
/// # Errors
/// When there is any; names the first.
pub(super) fn refuse(shards: &[Shard], model: &Path) -> anyhow::Result<()> {
    let tensors = || shards.iter().flat_map(|shard| &shard.tensors);
    let shapes: BTreeMap<&str, &[u64]> = tensors()
        .map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice()))
        .collect();
    let transposed = tensors().filter(|tensor| {
        let bias = choose::layer(&tensor.name).map(|layer| format!("{layer}.bias"));
        let bias = bias.and_then(|name| shapes.get(name.as_str()).copied());
        matches!((tensor.shape.as_slice(), bias), ([rows, columns], Some([outputs])) if rows != columns && columns == outputs)
    });
    let mut names = transposed.map(|tensor| tensor.name.as_str());
    let Some(first) = names.next() else {
        return Ok(());
    };
    let what = format!(
        "{}: `{first}` and {} more tensors are stored transposed, a row for each input, as Conv1D of GPT-2 is",
        model.display(),
        names.count()
    );
    Err(Problem::new(what)
        .hint(
            "loaders read scales of linear layers alone, and would compute with codes or random weights: `--gguf q8_0` \
             makes a smaller file for llama.cpp, which knows these architectures",
        )
        .into())
}
