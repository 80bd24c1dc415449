//! Loading the catalogue: what the binary carries, and what the user adds to it.

pub mod check;
mod embedded;
mod merge;

pub use gpuwise_lab::Loaded;

use crate::error::Problem;
use anyhow::Context as _;
use gpuwise_domain::{
    catalogue::Catalogue, engine::EngineKind, evidence::EvidenceRow, facts::EngineFacts,
    offer::Offer,
};
use gpuwise_read::{catalogue as read, finding_thresholds};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Where a user's rows are.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Files, or directories of files, of the catalogue's form; later ones win.
    pub places: Vec<PathBuf>,
    /// Price lists of one's own: their offers stand beside those of the catalogue.
    pub prices: Vec<PathBuf>,
}

impl Overrides {
    /// With price lists of the user's own.
    #[must_use]
    pub fn with_prices(&self, prices: &[PathBuf]) -> Self {
        Self {
            prices: prices.to_vec(),
            ..self.clone()
        }
    }

    /// `$GPUWISE_CATALOGUE` (a path, or several as in `$PATH`), else `catalogue` in the user's
    /// configuration directory where there is one.
    pub fn from_environment() -> Self {
        let places = match env::var_os("GPUWISE_CATALOGUE") {
            Some(paths) => env::split_paths(&paths)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            None => user_directory()
                .map(|directory| directory.join("catalogue"))
                .filter(|directory| directory.is_dir())
                .into_iter()
                .collect(),
        };
        Self {
            places,
            prices: Vec::new(),
        }
    }
}

/// The user's configuration directory of gpuwise: `$XDG_CONFIG_HOME/gpuwise`, `~/.config/gpuwise`,
/// or `%APPDATA%\gpuwise`.
pub fn user_directory() -> Option<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = if cfg!(windows) {
        set("APPDATA")
    } else {
        // A relative path is to be ignored, as the XDG base directory specification says.
        set("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".config")))
    };
    base.map(|base| base.join("gpuwise"))
}

/// What a catalogue file holds, which its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gpus,
    MigProfiles,
    Hosts,
    Collectives,
    Offers,
    Quality,
    Benchmarks,
    Recipes,
    SizeClasses,
    MediaBenchmarks,
    Networks,
    Training,
    Models,
    FindingThresholds,
}

impl Kind {
    /// `gpus-of-ours.toml` holds GPUs, `offers.csv` offers, `networks.json` and the files of a folder
    /// `networks` diffusion, vision and embedding models, any other `.json` models.
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (stem, extension) = name.rsplit_once('.')?;
        let starts = |kind: &str| {
            stem == kind
                || stem
                    .strip_prefix(kind)
                    .is_some_and(|rest| rest.starts_with(['-', '_', '.']))
        };
        match extension {
            "toml" if starts("gpus") => Some(Self::Gpus),
            "toml" if starts("findings") => Some(Self::FindingThresholds),
            "toml" if starts("training") => Some(Self::Training),
            "json" if starts("networks") || is_within(path, "networks") => Some(Self::Networks),
            "json" => Some(Self::Models),
            "csv" if starts("mig_profiles") => Some(Self::MigProfiles),
            "csv" if starts("hosts") => Some(Self::Hosts),
            "csv" if starts("collectives") => Some(Self::Collectives),
            "csv" if starts("offers") || starts("prices") => Some(Self::Offers),
            "csv" if starts("quality") => Some(Self::Quality),
            "csv" if starts("benchmarks") => Some(Self::Benchmarks),
            "csv" if starts("recipes") => Some(Self::Recipes),
            "csv" if starts("size_classes") => Some(Self::SizeClasses),
            "csv" if starts("media_benchmarks") => Some(Self::MediaBenchmarks),
            _ => None,
        }
    }
}

/// Whether a file lies in a folder of this name.
fn is_within(path: &Path, folder: &str) -> bool {
    path.parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == folder)
}

/// Reads the catalogue that the binary carries and puts the user's rows over it.
///
/// # Errors
/// When a file of the user's cannot be read, or a row of it is wrong.
pub fn load(overrides: &Overrides) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded {
        media: gpuwise_lab::media::read_constants(embedded::MEDIA)?,
        ..Loaded::default()
    };
    for (kind, file, text) in embedded::FILES {
        add(&mut loaded, *kind, file, text).context("the catalogue that gpuwise carries")?;
    }
    for place in &overrides.places {
        for file in files_of(place)? {
            let kind = Kind::of(&file).ok_or_else(|| unknown_kind(&file))?;
            add_file(&mut loaded, kind, file)?;
        }
    }
    for file in &overrides.prices {
        add_file(&mut loaded, Kind::Offers, file.clone())?;
    }
    Ok(loaded)
}

fn add_file(loaded: &mut Loaded, kind: Kind, file: PathBuf) -> anyhow::Result<()> {
    let shown = file.display().to_string();
    let text = fs::read_to_string(&file).map_err(|error| {
        Problem::new(format!("cannot read catalogue file {shown}")).because(error)
    })?;
    match kind {
        Kind::Offers => add_offers(&mut loaded.catalogue, &shown, &text)?,
        kind => add(loaded, kind, &shown, &text)?,
    }
    loaded.files.push(file);
    Ok(())
}

/// The offers of price lists of the user's own, later files over earlier ones.
///
/// # Errors
/// When a file cannot be read, is no price list, or names a GPU that is not known.
pub fn listed(files: &[PathBuf], catalogue: &Catalogue) -> anyhow::Result<Vec<Offer>> {
    let mut all = Vec::new();
    for file in files {
        let shown = file.display().to_string();
        let text = fs::read_to_string(file)
            .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
        merge::over(
            &mut all,
            own_offers(catalogue, &shown, &text)?,
            merge::same_offer,
        );
    }
    Ok(all)
}

fn add_offers(catalogue: &mut Catalogue, file: &str, text: &str) -> anyhow::Result<()> {
    let offers = own_offers(catalogue, file, text)?;
    merge::over(&mut catalogue.offers, offers, merge::same_offer);
    Ok(())
}

/// A price list of the user's: its GPUs may be called by any of their names.
fn own_offers(catalogue: &Catalogue, file: &str, text: &str) -> anyhow::Result<Vec<Offer>> {
    let mut offers = read::read_offers(file, text)?;
    for offer in &mut offers {
        let Some(gpu) = catalogue.gpu(&offer.gpu) else {
            let line = text.lines().position(|line| line.contains(&offer.gpu));
            let line = line.map_or_else(String::new, |at| format!(" line {}:", at + 1));
            return Err(Problem::new(format!(
                "{file}:{line} GPU {:?} is not in the catalogue",
                offer.gpu
            ))
            .did_you_mean(&catalogue.gpus_like(&offer.gpu))
            .hint("`gpuwise gpus` lists those that are known; a file of your own adds more")
            .into());
        };
        offer.gpu.clone_from(&gpu.name);
    }
    Ok(offers)
}

/// The catalogue files at a place: itself, or those of a directory in the order of their names.
pub fn files_of(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = |error| {
        Problem::new(format!("cannot read the catalogue at {}", place.display())).because(error)
    };
    if !fs::metadata(place).map_err(unreadable)?.is_dir() {
        return Ok(vec![place.to_path_buf()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(place).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir()
            && path
                .file_name()
                .is_some_and(|name| name == "models" || name == "networks")
        {
            found.extend(files_of(&path)?);
        } else if path.is_file() && Kind::of(&path).is_some() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn unknown_kind(file: &Path) -> Problem {
    Problem::new(format!("{}: its name does not say which catalogue file it is", file.display())).hint(
        "names begin with gpus, training or findings (.toml), mig_profiles, hosts, collectives, offers, quality, benchmarks, recipes or size_classes (.csv), or end in .json for models (networks*.json for diffusion, vision and embedding models)",
    )
}

fn add(loaded: &mut Loaded, kind: Kind, file: &str, text: &str) -> anyhow::Result<()> {
    let catalogue = &mut loaded.catalogue;
    match kind {
        Kind::Gpus => merge::over(
            &mut catalogue.gpus,
            read::read_gpus(file, text)?,
            merge::same_gpu,
        ),
        Kind::MigProfiles => {
            let (profiles, boards) = (
                read::read_mig_profiles(file, text)?,
                read::read_mig_boards(file, text)?,
            );
            merge::over(&mut catalogue.mig, profiles, merge::same_profile);
            merge::over(&mut catalogue.boards, boards, merge::same_board);
        }
        Kind::Hosts => merge::over(
            &mut catalogue.hosts,
            read::read_hosts(file, text)?,
            merge::same_host,
        ),
        Kind::Collectives => catalogue
            .collectives
            .extend(read::read_collectives(file, text)?),
        Kind::Offers => merge::over(
            &mut catalogue.offers,
            read::read_offers(file, text)?,
            merge::same_offer,
        ),
        Kind::Quality => catalogue.quality.extend(read::read_quality(file, text)?),
        Kind::Benchmarks => merge::over(
            &mut catalogue.benchmarks,
            read::read_benchmarks(file, text)?,
            merge::same_benchmark,
        ),
        Kind::Recipes => catalogue.recipes.extend(read::read_recipes(file, text)?),
        Kind::SizeClasses => merge::over(
            &mut loaded.size_classes,
            read::read_size_classes(file, text)?,
            merge::same_class,
        ),
        Kind::MediaBenchmarks => merge::over(
            &mut loaded.media_benchmarks,
            read::read_media_benchmarks(file, text)?,
            |a, b| a.prefix == b.prefix,
        ),
        Kind::Training => merge::over_training(
            &mut catalogue.training,
            read::read_training_facts(file, text)?,
        ),
        Kind::FindingThresholds => loaded
            .finding_thresholds
            .extend(finding_thresholds::read(file, text)?),
        Kind::Networks => loaded.networks.add(file, text)?,
        Kind::Models => loaded.models.add(file, text)?,
    }
    Ok(())
}

/// Facts of every engine that has a file of them.
///
/// # Errors
/// Never in a release: a test reads them.
pub fn all_engine_facts() -> anyhow::Result<Vec<EngineFacts>> {
    let known = EngineKind::ALL.into_iter();
    known
        .filter(|kind| embedded::engine(*kind).is_some())
        .map(engine_facts)
        .collect()
}

/// What the engine's releases do, for engines of which the catalogue knows facts.
///
/// # Errors
/// When there are none for this engine, or they cannot be read.
pub fn engine_facts(kind: EngineKind) -> anyhow::Result<EngineFacts> {
    let (file, text) = embedded::engine(kind).ok_or_else(|| {
        Problem::new(format!("the catalogue has no facts about {}", kind.title()))
    })?;
    Ok(read::read_engine_facts(file, text)?)
}

/// The published measurements that the binary carries.
///
/// # Errors
/// When they cannot be read.
pub fn evidence() -> anyhow::Result<Vec<EvidenceRow>> {
    Ok(read::read_evidence("evidence.csv.gz", embedded::EVIDENCE)?)
}

#[cfg(test)]
mod tests {
    use super::{Kind, embedded};
    use std::{collections::BTreeSet, path::Path};

    #[test]
    fn every_model_file_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/models");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the catalogue")
            .map(|entry| {
                format!(
                    "models/{}",
                    entry.expect("an entry").file_name().to_string_lossy()
                )
            })
            .collect();
        let carried = embedded::FILES
            .iter()
            .filter(|(kind, ..)| *kind == Kind::Models);
        assert_eq!(
            there,
            carried.map(|(_, file, _)| (*file).to_owned()).collect()
        );
    }

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
            ("notes.txt", None),
            ("offers", None),
        ] {
            assert_eq!(Kind::of(Path::new(name)), kind, "{name}");
        }
    }
}
