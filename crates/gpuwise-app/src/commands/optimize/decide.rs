//! What becomes of each tensor, and how far scales reach where that is left to be chosen.

use super::{
    Making,
    checkpoint::Shard,
    choose::{self, Asked, Fate},
    settings::{Chosen, GROUPS},
    stay,
};
use crate::{error::Problem, progress};
use gpuwise_compress::{Part, Scheme, Strategy};
use gpuwise_read::stored::tower;
use gpuwise_units::Bytes;

/// What was decided.
pub(super) struct Decided {
    pub(super) scheme: Scheme,
    pub(super) fates: Vec<Vec<Fate>>,
    /// What is to be said of it.
    pub(super) said: Option<String>,
}

pub(super) fn decide(flags: &Making, shards: &[Shard]) -> anyhow::Result<Decided> {
    let chosen = Chosen::of(flags)?;
    let mut decided = if chosen.any_group {
        by_bytes(flags, chosen.scheme, shards)
    } else {
        Decided {
            scheme: chosen.scheme,
            fates: fates(flags, chosen.scheme, shards),
            said: None,
        }
    };
    if let Some(most) = flags.max_error {
        let doing = |tensor: &str| progress::doing(&format!("error of {tensor}"));
        stay::exact(shards, &mut decided.fates, decided.scheme, most, doing)?;
        progress::doing("");
        stay::together(shards, &mut decided.fates);
    }
    let mut all = decided.fates.iter().flatten();
    if all.all(|fate| matches!(fate, Fate::Kept(_))) {
        return Err(nothing(flags));
    }
    Ok(decided)
}

/// Whether a model has towers of images or sound: one that is nothing else is no tower of another.
pub(super) fn has_towers(shards: &[Shard]) -> bool {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    let matrices = tensors.filter(|tensor| tensor.shape.len() == 2);
    let mut towers = matrices.map(|tensor| tower(&tensor.name).is_some());
    let first = towers.next();
    first.is_some_and(|first| towers.any(|other| other != first))
}

fn fates(flags: &Making, scheme: Scheme, shards: &[Shard]) -> Vec<Vec<Fate>> {
    let asked = Asked {
        scheme,
        keep: &flags.keep,
        towers_stay: !flags.towers && has_towers(shards),
    };
    let each = shards.iter().map(|shard| {
        let tensors = shard.tensors.iter();
        tensors.map(|tensor| choose::fate(tensor, asked)).collect()
    });
    let mut fates: Vec<Vec<Fate>> = each.collect();
    stay::together(shards, &mut fates);
    fates
}

/// Bytes of a checkpoint once it is written.
fn written(shards: &[Shard], fates: &[Vec<Fate>]) -> u64 {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    let each = tensors.zip(fates.iter().flatten());
    let bytes = each.map(|(tensor, fate)| match fate {
        Fate::Kept(_) => tensor.end - tensor.begin,
        Fate::Encoded { parts, .. } => {
            let each = parts.iter().map(Part::bytes);
            each.fold(0, u64::saturating_add)
        }
    });
    bytes.fold(0, u64::saturating_add)
}

/// The size of groups that makes the fewest bytes; the usual one among equals. Rows that a group does not divide stay in
/// 16 bits, so that a smaller one with more scales may be less.
fn by_bytes(flags: &Making, usual: Scheme, shards: &[Shard]) -> Decided {
    let of = |group| match usual {
        Scheme::Packed {
            bits, symmetric, ..
        } => Scheme::Packed {
            bits,
            strategy: Strategy::Group(group),
            symmetric,
        },
        other => other,
    };
    let each = GROUPS.map(|group| {
        let fates = fates(flags, of(group), shards);
        (written(shards, &fates), group, fates)
    });
    let usual = each[0].0;
    let mut each = each.into_iter();
    let first = each.next().unwrap_or_default();
    let (bytes, group, fates) =
        each.fold(first, |best, one| if one.0 < best.0 { one } else { best });
    let said = (group != GROUPS[0]).then(|| {
        format!(
            "scales: groups of {group}, with which {} are written; groups of {} do not divide the rows of all layers, and \
             would leave {}",
            Bytes::new(bytes),
            GROUPS[0],
            Bytes::new(usual)
        )
    });
    Decided {
        scheme: of(group),
        fates,
        said,
    }
}

/// Why there is nothing to write.
fn nothing(flags: &Making) -> anyhow::Error {
    let what = format!(
        "{} has no linear layer that can be stored as {}",
        flags.model.display(),
        flags.to.name()
    );
    let hint = if flags.max_error.is_some() {
        "all lose more than --max-error; a finer form or smaller groups lose less"
    } else {
        "linear layers are matrices called `….weight`, in BF16, F16 or F32, whose rows groups and blocks divide; \
         --scales channel takes any"
    };
    Problem::new(what).hint(hint).into()
}
