//! Loading the catalogue: what the binary carries, and what the user adds to it.

pub mod check;
mod embedded;
mod kind;
mod merge;
mod own;

pub use embedded::carried;
pub use gpuwise_lab::{Loaded, OwnRows};
pub use kind::Kind;
pub use own::{all_engine_facts, engine_facts, evidence, file, files};

use crate::error::Problem;
use anyhow::Context as _;
use gpuwise_domain::{catalogue::Catalogue, offer::Offer};
use gpuwise_lab::OwnFile;
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
    /// Tables of rows that were measured, besides those that the user keeps: what a broker has learned.
    pub measured: Vec<String>,
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
            measured: Vec::new(),
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

/// Reads the catalogue that the binary carries and puts the user's rows over it.
///
/// # Errors
/// When a file of the user's cannot be read, or a row of it is wrong.
pub fn load(overrides: &Overrides) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded {
        media: gpuwise_lab::media::read_constants("media.toml", embedded::MEDIA)?,
        measured: overrides.measured.clone(),
        ..Loaded::default()
    };
    for (kind, file, text) in embedded::FILES {
        add(&mut loaded, *kind, file, text).context("the catalogue that gpuwise carries")?;
    }
    for place in &overrides.places {
        for file in files_of(place)? {
            let kind = Kind::of(&file).ok_or_else(|| kind::unknown_kind(&file))?;
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
    let text = fs::read_to_string(&file)
        .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
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
    if offers.is_empty() {
        return Err(Problem::new(format!("{file}: no offer is in it"))
            .hint("`gpuwise example prices.csv` prints a price list")
            .into());
    }
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
///
/// # Errors
/// When the place cannot be read.
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
        if path.is_dir() {
            if kind::is_folder(&path) {
                found.extend(files_of(&path)?);
            }
        } else if !kind::is_other(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
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
        Kind::Offers => merge::over(
            &mut catalogue.offers,
            read::read_offers(file, text)?,
            merge::same_offer,
        ),
        Kind::Quality => merge::over(
            &mut catalogue.quality,
            read::read_quality(file, text)?,
            merge::same_quality,
        ),
        Kind::SharingMeans => merge::over(
            &mut catalogue.sharing,
            read::read_sharing_means(file, text)?,
            |a, b| a.name == b.name,
        ),
        Kind::VgpuProfiles => merge::over(
            &mut catalogue.vgpu,
            read::read_vgpu_profiles(file, text)?,
            merge::same_vgpu,
        ),
        Kind::MediaConstants => {
            loaded.media = gpuwise_lab::media::read_constants(file, text)?;
        }
        Kind::Own(rows) => loaded.own.push(OwnFile {
            rows,
            file: file.into(),
            text: text.into(),
        }),
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
}
