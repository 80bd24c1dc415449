//! The catalogue: what exists, each row with its source, and looking it up by name.

use crate::{
    gpu::{Collective, Gpu, MigProfile},
    offer::{Host, Offer},
    quality::QualityRow,
};
use alloc::{string::String, vec::Vec};

/// Facts about hardware, hosts and offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    /// Accelerators.
    pub gpus: Vec<Gpu>,
    /// MIG profiles.
    pub mig: Vec<MigProfile>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Measured collectives.
    pub collectives: Vec<Collective>,
    /// Offers.
    pub offers: Vec<Offer>,
    /// Quality of lower precisions.
    pub quality: Vec<QualityRow>,
}

impl Catalogue {
    /// The GPU of this name or alias, however it is cased and separated.
    pub fn gpu(&self, name: &str) -> Option<&Gpu> {
        let wanted = folded(name);
        let known_as = |wanted: &str| {
            self.gpus.iter().find(|gpu| {
                folded(&gpu.name) == wanted || gpu.aliases.iter().any(|a| folded(a) == wanted)
            })
        };
        let bare = VENDORS
            .iter()
            .fold(wanted.as_str(), |rest, vendor| rest.strip_prefix(vendor).unwrap_or(rest));
        known_as(&wanted).or_else(|| known_as(bare))
    }

    /// The MIG profiles of a GPU.
    pub fn mig_profiles<'a>(&'a self, gpu: &'a Gpu) -> impl Iterator<Item = &'a MigProfile> {
        self.mig
            .iter()
            .filter(|profile| profile.gpus.contains(&gpu.name))
    }

    /// Names like this one, best first, for "did you mean".
    pub fn gpus_like(&self, name: &str) -> Vec<String> {
        let typed = folded(name);
        let mut ranked: Vec<(usize, &str)> = self
            .gpus
            .iter()
            .map(|gpu| {
                let spellings = core::iter::once(&gpu.name).chain(&gpu.aliases);
                let nearest = spellings.map(|s| distance(&folded(s), &typed)).min();
                (nearest.unwrap_or(usize::MAX), gpu.name.as_str())
            })
            .collect();
        ranked.sort_unstable();
        ranked.truncate(3);
        ranked.into_iter().map(|(_, candidate)| candidate.into()).collect()
    }
}

/// Words before a GPU's name that say who makes it, in the order in which they stand.
const VENDORS: [&str; 7] = ["nvidia", "amd", "intel", "google", "aws", "instinct", "tesla"];

/// Lower case, without anything but letters and digits.
pub fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Edit distance, where leaving out a character of the longer name costs little:
/// people type the beginning or the middle of a name.
pub fn distance(known: &str, typed: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut previous: Vec<usize> = (0..=known.len()).collect();
    for (row, c) in typed.chars().enumerate() {
        let mut current = alloc::vec![(row + 1) * 3];
        for (column, k) in known.iter().enumerate() {
            let substituted = previous[column] + if *k == c { 0 } else { 3 };
            let inserted = current[column] + 1;
            let deleted = previous[column + 1] + 3;
            current.push(substituted.min(inserted).min(deleted));
        }
        previous = current;
    }
    previous.last().copied().unwrap_or(usize::MAX)
}
