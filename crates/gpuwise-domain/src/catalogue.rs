//! The catalogue: what exists, each row with its source, and looking it up by name.

use crate::{
    gpu::{Gpu, MigProfile},
    offer::{Host, Offer},
    placement::{MigBoard, MigGeometry, SharingMeans, VgpuProfile},
    quality::QualityRow,
    question::Benchmark,
    recipe::Recipe,
    training_facts::TrainingFacts,
};
use alloc::{string::String, vec::Vec};

/// Facts about hardware, hosts and offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    pub gpus: Vec<Gpu>,
    pub mig: Vec<MigProfile>,
    /// How boards can be cut into MIG instances.
    pub boards: Vec<MigBoard>,
    pub hosts: Vec<Host>,
    /// Ways in which several workloads use one GPU.
    pub sharing: Vec<SharingMeans>,
    pub vgpu: Vec<VgpuProfile>,
    pub offers: Vec<Offer>,
    /// Quality of lower precisions.
    pub quality: Vec<QualityRow>,
    pub benchmarks: Vec<Benchmark>,
    /// With which settings published benchmarks launch engines.
    pub recipes: Vec<Recipe>,
    /// What training runs reach.
    pub training: TrainingFacts,
}

/// A class of model sizes as people name them, with a model that stands for it.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeClass {
    /// `8b`, `70b`.
    pub class: String,
    /// The catalogue's model that stands for it.
    pub model: String,
    /// The popular range of its memory in 10⁹ bytes, low and high, where there is one.
    pub popular_gb: Option<(f64, f64)>,
    pub source: String,
}

impl Catalogue {
    /// The GPU of this name or alias, however it is cased and separated.
    ///
    /// Digits that are run together (`H10080GB`) are understood where only one GPU can be meant.
    pub fn gpu(&self, name: &str) -> Option<&Gpu> {
        let wanted = folded(name);
        let known_as = |wanted: &str| {
            self.gpus.iter().find(|gpu| {
                let mut spellings = core::iter::once(&gpu.name).chain(&gpu.aliases);
                spellings.any(|spelling| is_spelled(spelling, wanted))
            })
        };
        let bare = VENDORS.iter().fold(wanted.as_str(), |rest, vendor| {
            rest.strip_prefix(vendor).unwrap_or(rest)
        });
        let only = |form: fn(&str) -> String| {
            let typed = form(bare);
            let mut like = self.gpus.iter().filter(|gpu| {
                let mut spellings = core::iter::once(&gpu.name).chain(&gpu.aliases);
                spellings.any(|spelling| form(spelling) == typed)
            });
            let only = like.next()?;
            like.next().is_none().then_some(only)
        };
        known_as(&wanted)
            .or_else(|| known_as(bare))
            .or_else(|| only(run_together))
            .or_else(|| only(without_memory))
    }

    pub fn mig_profiles<'a>(&'a self, gpu: &'a Gpu) -> impl Iterator<Item = &'a MigProfile> {
        self.mig
            .iter()
            .filter(|profile| profile.gpus.contains(&gpu.name))
    }

    /// How a GPU can be cut into MIG instances; `None` where the catalogue knows no profile of it.
    pub fn mig_geometry(&self, gpu: &Gpu) -> Option<&MigGeometry> {
        let board = self.boards.iter().find(|b| b.gpus.contains(&gpu.name))?;
        Some(&board.geometry)
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
        ranked
            .into_iter()
            .map(|(_, candidate)| candidate.into())
            .collect()
    }
}

/// Words before a GPU's name that say who makes it, in the order in which they stand.
const VENDORS: [&str; 7] = [
    "nvidia", "amd", "intel", "google", "aws", "instinct", "tesla",
];

/// Words of a GPU's name that do not tell it from others of its size: of what kind its memory is, and that it is one.
const MEMORIES: [&str; 12] = [
    "hbm2e",
    "hbm3e",
    "hbm2",
    "hbm3",
    "gddr6x",
    "gddr5",
    "gddr6",
    "gddr7",
    "tensorcore",
    "graphics",
    "card",
    "gpu",
];

/// A name [run together](run_together), less the kind of memory.
fn without_memory(name: &str) -> String {
    let together = run_together(name);
    MEMORIES
        .iter()
        .fold(together, |rest, word| rest.replace(word, ""))
}

/// A name as it is compared: lower case, only letters and digits, except that what separates two
/// digits stays, as a dot or else as a hyphen. So `llama3.1-8b` is `Llama-3.1 8B`, while `opt-1.3b`
/// is not `opt-13b` and `qwen2-57b` is not `qwen25-7b`. A plus is a word: `command-r+`.
pub fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    each_folded(name, |c| {
        out.push(c);
        true
    });
    out
}

/// Whether a name is one that was [folded](folded): most differ in the first letters.
fn is_spelled(name: &str, folded: &str) -> bool {
    let mut rest = folded.chars();
    each_folded(name, |c| rest.next() == Some(c)) && rest.next().is_none()
}

/// The letters of a folded name in turn, until one is refused; whether all were taken.
fn each_folded(name: &str, mut take: impl FnMut(char) -> bool) -> bool {
    let mut separator = None;
    let mut last = ' ';
    for c in name.chars() {
        if c == '+' {
            last = 's';
            if !"plus".chars().all(&mut take) {
                return false;
            }
            continue;
        }
        if !c.is_alphanumeric() {
            separator = separator
                .filter(|s| *s == '.')
                .or(Some(if c == '.' { '.' } else { '-' }));
            continue;
        }
        if let Some(between) = separator.take()
            && c.is_ascii_digit()
            && last.is_ascii_digit()
            && !take(between)
        {
            return false;
        }
        for lower in c.to_lowercase() {
            last = lower;
            if !take(lower) {
                return false;
            }
        }
    }
    true
}

/// A name without any separator. Different names may agree in it: what is found by it counts only
/// where it is the one.
pub fn run_together(name: &str) -> String {
    letters(name).collect()
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    let all = name.chars().filter(|c| c.is_alphanumeric());
    all.flat_map(char::to_lowercase)
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

#[cfg(test)]
mod tests {
    use super::{folded, is_spelled};

    #[test]
    fn one_name_in_many_spellings() {
        for (a, b) in [
            ("llama3.1-8b", "Llama-3.1 8B"),
            ("llama3.1-8b", "llama_3.1_8b"),
            ("H100 SXM5 80GB", "h100-sxm5-80gb"),
            ("RTX-PRO-6000", "rtx pro 6000"),
            ("meta-llama/Llama-3.1-8B", "meta llama llama 3.1 8b"),
            ("gpt-oss-20b", "GPT OSS 20B"),
            ("command-r+", "command-r-plus"),
        ] {
            assert_eq!(folded(a), folded(b), "{a} and {b}");
            assert!(is_spelled(a, &folded(b)), "{a} and {b}");
        }
    }

    #[test]
    fn numbers_are_told_apart() {
        for (a, b) in [
            ("opt-1.3b", "opt-13b"),
            ("qwen2-57b", "qwen2.5-7b"),
            ("qwen2-57b", "qwen25-7b"),
            ("llama-3-18b", "llama-3.1-8b"),
            ("command-r+", "command-r"),
        ] {
            assert_ne!(folded(a), folded(b), "{a} and {b}");
            assert!(!is_spelled(a, &folded(b)), "{a} and {b}");
        }
    }
}
