//! `isolation.toml` and `vgpu_profiles.csv`: ways of sharing a GPU.

use super::{CatalogueError, tables::rows};
use gpuwise_domain::placement::{Apart, SharingMeans, VgpuProfile};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    means: Vec<Means>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Means {
    name: String,
    title: String,
    memory: Word,
    compute: Word,
    faults: Word,
    most: Option<u32>,
    meaning: String,
    source: String,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Word {
    None,
    Software,
    Hardware,
}

impl From<Word> for Apart {
    fn from(word: Word) -> Self {
        match word {
            Word::None => Self::None,
            Word::Software => Self::Software,
            Word::Hardware => Self::Hardware,
        }
    }
}

/// Reads `isolation.toml`.
///
/// # Errors
/// When it is not of this form, a name is there twice, or a row has no source.
pub fn read_sharing_means(file: &str, text: &str) -> Result<Vec<SharingMeans>, CatalogueError> {
    let read: File = toml::from_str(text)
        .map_err(|error| CatalogueError::new(file, "the file", error.to_string()))?;
    let mut found: Vec<SharingMeans> = Vec::new();
    for means in read.means {
        let wrong = |problem: &str| CatalogueError::new(file, means.name.as_str(), problem);
        if found.iter().any(|known| known.name == means.name) {
            return Err(wrong("it is there twice"));
        }
        if means.source.trim().is_empty() {
            return Err(wrong("`source` is empty"));
        }
        found.push(SharingMeans {
            memory: means.memory.into(),
            compute: means.compute.into(),
            faults: means.faults.into(),
            most: means.most,
            name: means.name,
            title: means.title,
            meaning: means.meaning,
            source: means.source,
        });
    }
    Ok(found)
}

#[derive(Deserialize)]
struct VgpuRow {
    gpus: String,
    profile: String,
    frame_buffer_mib: u32,
    max_equal: u32,
    max_mixed: Option<u32>,
    source: String,
}

/// Reads `vgpu_profiles.csv`.
///
/// # Errors
/// When a row is not of this form, or has no frame buffer.
pub fn read_vgpu_profiles(file: &str, text: &str) -> Result<Vec<VgpuProfile>, CatalogueError> {
    let mut found = Vec::new();
    for (line, row) in rows::<VgpuRow>(file, text)? {
        if row.frame_buffer_mib == 0 || row.max_equal == 0 {
            let problem = "`frame_buffer_mib` and `max_equal` must be at least 1";
            return Err(CatalogueError::new(file, format!("line {line}"), problem));
        }
        found.push(VgpuProfile {
            gpus: row.gpus.split('|').map(|gpu| gpu.trim().into()).collect(),
            profile: row.profile,
            frame_buffer_mib: row.frame_buffer_mib,
            most: row.max_equal,
            most_mixed: row.max_mixed,
            source: row.source,
        });
    }
    Ok(found)
}
