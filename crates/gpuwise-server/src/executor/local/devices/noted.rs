//! Which instances are ours: what somebody else made is not destroyed.

use gpuwise_domain::placement::{CutError, CutInstance};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

#[derive(Debug)]
pub(super) struct Noted {
    file: PathBuf,
    /// By GPU and start: the profile.
    made: Mutex<BTreeMap<String, BTreeMap<u8, String>>>,
}

impl Noted {
    pub(super) fn new(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        Self {
            file,
            made: Mutex::new(serde_json::from_str(&text).unwrap_or_default()),
        }
    }

    pub(super) fn made(&self, gpu: &str, instance: &CutInstance) -> Result<(), CutError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let own = made.entry(gpu.to_owned()).or_default();
        own.insert(instance.start, instance.profile.clone());
        keep(&self.file, &*made)
    }

    pub(super) fn gone(&self, gpu: &str, start: u8) -> Result<(), CutError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let own = made.get_mut(gpu).and_then(|own| own.remove(&start));
        match own {
            Some(_) => keep(&self.file, &*made),
            None => Ok(()),
        }
    }

    pub(super) fn all(&self) -> Vec<(String, u8)> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let each = |(gpu, own): (&String, &BTreeMap<u8, String>)| {
            let gpu = gpu.clone();
            let starts: Vec<u8> = own.keys().copied().collect();
            starts.into_iter().map(move |start| (gpu.clone(), start))
        };
        made.iter().flat_map(each).collect()
    }
}

/// Writes a document in the place of the one before.
pub(super) fn keep(path: &Path, document: &impl Serialize) -> Result<(), CutError> {
    let write = || -> std::io::Result<()> {
        let new = path.with_extension("new");
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        let mut file = File::create(&new)?;
        file.write_all(serde_json::to_string(document)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)
    };
    write().map_err(|error| CutError::Failed {
        doing: format!("noting instances in {}", path.display()),
        said: error.to_string(),
    })
}
