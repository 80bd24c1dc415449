//! What a catalogue file holds, which its name says.

use crate::error::Problem;
use gpuwise_lab::OwnRows;
use std::{collections::BTreeMap, path::Path};

/// What a catalogue file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gpus,
    MigProfiles,
    Hosts,
    Offers,
    Quality,
    Benchmarks,
    Recipes,
    SizeClasses,
    MediaBenchmarks,
    MediaConstants,
    SharingMeans,
    VgpuProfiles,
    Networks,
    Training,
    Models,
    FindingThresholds,
    /// Rows that are read where they are used.
    Own(OwnRows),
}

/// How names begin and end, and what such a file holds.
const NAMES: &[(&str, &str, Kind)] = &[
    ("gpus", "toml", Kind::Gpus),
    ("mig_profiles", "csv", Kind::MigProfiles),
    ("vgpu_profiles", "csv", Kind::VgpuProfiles),
    ("isolation", "toml", Kind::SharingMeans),
    ("hosts", "csv", Kind::Hosts),
    ("offers", "csv", Kind::Offers),
    ("prices", "csv", Kind::Offers),
    ("quality", "csv", Kind::Quality),
    ("recipes", "csv", Kind::Recipes),
    ("benchmarks", "csv", Kind::Benchmarks),
    ("media_benchmarks", "csv", Kind::MediaBenchmarks),
    ("size_classes", "csv", Kind::SizeClasses),
    ("evidence", "csv", Kind::Own(OwnRows::Evidence)),
    ("engines", "toml", Kind::Own(OwnRows::EngineFacts)),
    ("training", "toml", Kind::Training),
    ("reliability", "toml", Kind::Own(OwnRows::Reliability)),
    ("balance", "toml", Kind::Own(OwnRows::HostBalance)),
    ("tco", "toml", Kind::Own(OwnRows::Costs)),
    ("findings", "toml", Kind::FindingThresholds),
    ("kernels", "toml", Kind::Own(OwnRows::KernelNames)),
    (
        "kernel_counters",
        "toml",
        Kind::Own(OwnRows::KernelCounters),
    ),
    ("audit", "toml", Kind::Own(OwnRows::Audit)),
    ("telemetry", "toml", Kind::Own(OwnRows::TelemetryThresholds)),
    (
        "telemetry_fields",
        "csv",
        Kind::Own(OwnRows::TelemetryFields),
    ),
    ("telemetry_dcgm", "csv", Kind::Own(OwnRows::DcgmFields)),
    ("telemetry_xid", "csv", Kind::Own(OwnRows::XidErrors)),
    ("tier_rules", "toml", Kind::Own(OwnRows::TierRules)),
    ("pcie", "toml", Kind::Own(OwnRows::PcieCollectives)),
    ("constants", "toml", Kind::Own(OwnRows::Constants)),
    ("media", "toml", Kind::MediaConstants),
    ("operators", "csv", Kind::Own(OwnRows::Operators)),
    ("weight_loaders", "csv", Kind::Own(OwnRows::WeightLoaders)),
    ("networks", "json", Kind::Networks),
];

/// Folders of a catalogue that hold files of one kind, whatever these are called.
const FOLDERS: &[(&str, &str, Kind)] = &[
    ("models", "json", Kind::Models),
    ("networks", "json", Kind::Networks),
    ("engines", "toml", Kind::Own(OwnRows::EngineFacts)),
];

/// Files of the repository's catalogue that no answer reads: what rules of `tier` were judged by.
const SOURCES: &[&str] = &["tier_slos.csv"];

impl Kind {
    /// `gpus-of-ours.toml` holds GPUs, `offers.csv` offers, `networks.json` and the files of a folder
    /// `networks` diffusion, vision and embedding models, any other `.json` models.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (stem, extension) = name.rsplit_once('.')?;
        let folder = path.parent().and_then(Path::file_name);
        let within = FOLDERS
            .iter()
            .find(|(name, ending, _)| *ending == extension && folder.is_some_and(|of| of == *name));
        let named = NAMES.iter().find(|(begin, ending, _)| {
            *ending == extension
                && stem
                    .strip_prefix(begin)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
        });
        let other = (extension == "json").then_some(Self::Models);
        within.or(named).map(|(_, _, kind)| *kind).or(other)
    }
}

/// Whether files of a folder of this name belong to a catalogue.
pub(super) fn is_folder(name: &Path) -> bool {
    name.file_name()
        .is_some_and(|name| FOLDERS.iter().any(|(folder, ..)| name == *folder))
}

/// Whether a file of a catalogue is to be passed over: no table, or one that is not read.
pub(super) fn is_other(path: &Path) -> bool {
    let table = ["toml", "csv", "json"];
    let name = path.file_name().unwrap_or_default();
    !path
        .extension()
        .is_some_and(|ending| table.iter().any(|table| ending == *table))
        || SOURCES.iter().any(|source| name == *source)
}

/// A file whose name says nothing.
pub(super) fn unknown_kind(file: &Path) -> Problem {
    let mut by_ending: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (begin, ending, _) in NAMES {
        by_ending.entry(*ending).or_default().push(*begin);
    }
    let ways = by_ending
        .iter()
        .filter(|(ending, _)| **ending != "json")
        .map(|(ending, names)| format!("{} (.{ending})", names.join(", ")));
    Problem::new(format!(
        "{}: its name does not say which catalogue file it is",
        file.display()
    ))
    .hint(format!(
        "names begin with {}, or end in .json for models (networks*.json for diffusion, vision and embedding models)",
        ways.collect::<Vec<_>>().join("; ")
    ))
    .hint("`gpuwise example` lists the files, and prints the one that is named")
}

#[cfg(test)]
mod tests {
    use super::{Kind, OwnRows, is_other};
    use std::path::Path;

    #[test]
    fn files_say_by_their_names_what_they_hold() {
        for (name, kind) in [
            ("gpus.toml", Some(Kind::Gpus)),
            ("gpus-of-ours.toml", Some(Kind::Gpus)),
            ("gpusize.toml", None),
            ("training.toml", Some(Kind::Training)),
            ("offers.csv", Some(Kind::Offers)),
            ("prices_2026.csv", Some(Kind::Offers)),
            ("mine.json", Some(Kind::Models)),
            ("engines/vllm.toml", Some(Kind::Own(OwnRows::EngineFacts))),
            (
                "telemetry.toml",
                Some(Kind::Own(OwnRows::TelemetryThresholds)),
            ),
            (
                "telemetry_fields.csv",
                Some(Kind::Own(OwnRows::TelemetryFields)),
            ),
            ("media.toml", Some(Kind::MediaConstants)),
            ("media_benchmarks.csv", Some(Kind::MediaBenchmarks)),
            ("notes.txt", None),
            ("offers", None),
        ] {
            assert_eq!(Kind::of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn only_what_is_no_table_is_passed_over() {
        for (name, other) in [
            ("README.md", true),
            ("tier_slos.csv", true),
            ("gpu.toml", false),
        ] {
            assert_eq!(is_other(Path::new(name)), other, "{name}");
        }
    }
}
