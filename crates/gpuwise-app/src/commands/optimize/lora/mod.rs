//! `gpuwise optimize --lora`: an adapter is added to the weights that it was trained for. Hu et al. 2021, as PEFT
//! stores it.

mod pairs;
mod settings;
mod shared;

use super::{
    checkpoint::Shard,
    made::{self, Piece},
};
use crate::error::Problem;
use gpuwise_read::safetensors::Place;
use pairs::Pair;
use serde_json::{Value, json};
use settings::Settings;
use shared::{embedding, head};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

pub(super) const WEIGHTS: &str = "adapter_model.safetensors";
/// What PEFT puts before each name.
const BEFORE: &str = "base_model.model.";
/// Names that a message has at most.
const NAMED: usize = 5;

/// An adapter that was read.
pub(super) struct Adapter {
    file: Shard,
    settings: Settings,
}

/// Where the tensors of a model are: file, and which of the file's tensors.
type Found<'a> = BTreeMap<&'a str, (usize, usize)>;

/// What an adapter is made of, by which interrupted work knows it again.
pub(super) fn identity(directory: &Path) -> Value {
    let each = [settings::FILE, WEIGHTS].map(|name| {
        let metadata = fs::metadata(directory.join(name)).ok();
        let changed = metadata.as_ref().and_then(|one| one.modified().ok());
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        json!({"bytes": metadata.map(|one| one.len()), "changed": changed})
    });
    json!({"directory": directory, "files": each})
}

impl Adapter {
    /// # Errors
    /// When it is none that can be merged, or has a number that is none.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let settings = Settings::read(directory)?;
        let path = directory.join(WEIGHTS);
        if !path.is_file() {
            let what = format!("{} is not there", path.display());
            return Err(Problem::new(what)
                .hint("an adapter_model.bin is not read, as it may hold programs: save it again with PEFT 0.6 or newer")
                .into());
        }
        let adapter = Self {
            file: Shard::open(path)?,
            settings,
        };
        if adapter.file.tensors.is_empty() {
            return Err(adapter.wrong("it has no tensors", "training may have saved none of them"));
        }
        adapter.file.tensors.iter().try_for_each(|tensor| {
            let values = made::numbers(&adapter.file, tensor)?.values()?;
            let Some(at) = values.iter().position(|one| !one.is_finite()) else {
                return Ok(());
            };
            let what = format!("tensor `{}`: element {at} is NaN or infinite", tensor.name);
            Err(adapter.wrong(
                &what,
                "training may have failed: take an earlier state of it",
            ))
        })?;
        Ok(adapter)
    }

    fn path(&self) -> &PathBuf {
        &self.file.path
    }

    fn wrong(&self, what: &str, hint: &str) -> anyhow::Error {
        let what = format!("{}: {what}", self.path().display());
        Problem::new(what).hint(hint).into()
    }

    /// Lets the model's tensors be what they are with it.
    ///
    /// # Errors
    /// When a tensor of it has no place in the model, or does not fit there.
    pub(super) fn apply(&self, shards: &mut [Shard], config: &Value) -> anyhow::Result<()> {
        let sorted = pairs::sorted(&self.file).map_err(|what| {
            self.wrong(
                &what,
                "expected lora_A and lora_B of each layer, as PEFT names them",
            )
        })?;
        let names: Vec<(String, (usize, usize))> = shards
            .iter()
            .enumerate()
            .flat_map(|(file, shard)| {
                let tensors = shard.tensors.iter().enumerate();
                tensors.map(move |(at, tensor)| (tensor.name.clone(), (file, at)))
            })
            .collect();
        let found: Found<'_> = names
            .iter()
            .map(|(name, at)| (name.as_str(), *at))
            .collect();
        self.all_used(&sorted, &found)?;
        self.all_whole(&sorted, &found)?;
        for (name, tensor) in &sorted.whole {
            if let Some(place) = place(&found, name) {
                self.replace(shards, place, tensor, (&found, config))?;
            }
        }
        for (layer, pair) in &sorted.pairs {
            if let Some(place) = place(&found, &format!("{layer}.weight")) {
                self.add(shards, place, (layer, pair), (&found, config))?;
            }
        }
        Ok(())
    }

    fn all_used(&self, sorted: &pairs::Sorted<'_>, found: &Found<'_>) -> anyhow::Result<()> {
        let layers = sorted.pairs.keys().map(|layer| format!("{layer}.weight"));
        let lost: Vec<String> = layers
            .chain(sorted.whole.keys().cloned())
            .filter(|name| place(found, name).is_none())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        if lost.is_empty() {
            return self.all_once(sorted, found);
        }
        let named = lost.iter().take(NAMED).map(|name| format!("`{name}`"));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match lost.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(self.wrong(
            &format!("the model has no {named}{more}, which the adapter changes"),
            "it belongs to another model, or to one whose layers are stored under other names; a head that shares the embeddings has no tensor of its own",
        ))
    }

    /// Two names may stand for one tensor.
    fn all_once(&self, sorted: &pairs::Sorted<'_>, found: &Found<'_>) -> anyhow::Result<()> {
        let layers = sorted.pairs.keys().map(|layer| format!("{layer}.weight"));
        for names in [
            layers.collect::<Vec<_>>(),
            sorted.whole.keys().cloned().collect(),
        ] {
            let mut seen = BTreeMap::new();
            for name in &names {
                if let Some(other) = place(found, name).and_then(|place| seen.insert(place, name)) {
                    let what = format!("`{other}` and `{name}` are one tensor of the model");
                    return Err(self.wrong(&what, "files of two adapters may be mixed"));
                }
            }
        }
        Ok(())
    }

    /// What was trained as a whole must be there, or it would be lost.
    fn all_whole(&self, sorted: &pairs::Sorted<'_>, found: &Found<'_>) -> anyhow::Result<()> {
        // PEFT lists the usual names of a head, of which a model has one.
        let of = |name: &str, module: &str| format!(".{name}").contains(&format!(".{module}."));
        for wanted in &self.settings.whole {
            let there = sorted.whole.keys().any(|name| of(name, wanted));
            if !there && found.keys().any(|name| of(name, wanted)) {
                let what = format!("`modules_to_save` names {wanted:?}, and no tensor is of it");
                return Err(self.wrong(&what, "the file is cut short, or was saved without it"));
            }
        }
        for (name, tensor) in &sorted.whole {
            let listed = self.settings.whole.iter().any(|one| of(name, one));
            let bias = self.settings.biases && name.strip_suffix(".bias").is_some();
            if !listed && !bias && !embedding(name) && !head(name) {
                let what = format!(
                    "tensor `{}` is neither of a layer's adapter nor of `modules_to_save`",
                    tensor.name
                );
                return Err(self.wrong(
                    &what,
                    "what it is for is not known here: merge it with PEFT",
                ));
            }
        }
        Ok(())
    }

    fn replace(
        &self,
        shards: &mut [Shard],
        (file, at): (usize, usize),
        tensor: &Place,
        model: (&Found<'_>, &Value),
    ) -> anyhow::Result<()> {
        let target = &shards[file].tensors[at];
        if target.shape != tensor.shape {
            let what = format!(
                "tensor `{}` is {:?}, the model's {:?}",
                tensor.name, tensor.shape, target.shape
            );
            return Err(self.wrong(
                &what,
                "where the vocabulary grew, resize the model's embeddings first, as training did",
            ));
        }
        // PEFT also saves embeddings that were not trained, beside an adapter of them.
        let listed = self
            .settings
            .whole
            .iter()
            .any(|one| tensor.name.contains(one.as_str()));
        if listed {
            self.not_shared(&target.name, model)?;
        }
        made::numbers(&shards[file], target)?;
        let numbers = made::numbers(&self.file, tensor)?;
        let (update, turn) = (None, None);
        shards[file].make(
            at,
            vec![Piece {
                numbers,
                update,
                turn,
            }],
        )
    }

    fn add(
        &self,
        shards: &mut [Shard],
        (file, at): (usize, usize),
        (layer, pair): (&str, &Pair<'_>),
        model: (&Found<'_>, &Value),
    ) -> anyhow::Result<()> {
        let target = &shards[file].tensors[at];
        self.not_shared(&target.name, model)?;
        let update = pair.update(&self.file, &self.settings, layer, target);
        let update = update.map_err(|what| {
            self.wrong(
                &what,
                "the adapter and its configuration, or the model, do not belong together",
            )
        })?;
        let mut pieces = shards[file].pieces(at)?;
        for piece in &mut pieces {
            piece.update = Some(update.clone());
        }
        shards[file].make(at, pieces)
    }

    /// A head without a tensor of its own would change with the embeddings, which the adapter does not.
    fn not_shared(&self, name: &str, (found, config): (&Found<'_>, &Value)) -> anyhow::Result<()> {
        if !shared::is_both(name, found, config) {
            return Ok(());
        }
        let what =
            format!("it changes `{name}`, and the model has one matrix for head and embeddings");
        Err(self.wrong(
            &what,
            "merged, it would change both, which it does not now: give the head a tensor of its own (tie_word_embeddings = false) first",
        ))
    }
}

/// A tensor by the name that the adapter has for it: the model without its head has no first part of names.
fn place(found: &Found<'_>, name: &str) -> Option<(usize, usize)> {
    let short = || found.get(name.split_once('.')?.1);
    found.get(name).or_else(short).copied()
}
