//! MIG instances of GPUs that are only declared: kept in a file, as those of a machine outlive the broker.

use super::Cutter;
use gpuwise_domain::placement::{CutError, CutInstance};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub(super) struct Declared {
    file: PathBuf,
    /// `None`: it was not read yet.
    state: Mutex<Option<State>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    /// Instances that were ever made, so that none is called as another.
    made: u64,
    gpus: BTreeMap<String, Vec<CutInstance>>,
}

impl Declared {
    pub(super) const fn new(file: PathBuf) -> Self {
        Self {
            file,
            state: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_none() {
            let text = fs::read_to_string(&self.file).unwrap_or_default();
            *state = Some(serde_json::from_str(&text).unwrap_or_default());
        }
        state
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, CutError>,
    ) -> Result<T, CutError> {
        let mut state = self.state();
        let mut next = state.clone().unwrap_or_default();
        let done = change(&mut next)?;
        super::noted::keep(&self.file, &next)?;
        *state = Some(next);
        Ok(done)
    }
}

impl Cutter for Declared {
    /// There is no mode to switch: a declared GPU is cut as it is asked.
    fn mode(&self, gpu: &str) -> Result<bool, CutError> {
        Ok(!self.instances(gpu)?.is_empty())
    }

    fn set_mode(&self, gpu: &str, on: bool) -> Result<(), CutError> {
        if !on && !self.instances(gpu)?.is_empty() {
            return Err(CutError::InUse(gpu.into()));
        }
        Ok(())
    }

    fn instances(&self, gpu: &str) -> Result<Vec<CutInstance>, CutError> {
        let state = self.state();
        let found = state.as_ref().and_then(|state| state.gpus.get(gpu));
        Ok(found.cloned().unwrap_or_default())
    }

    fn create(&self, gpu: &str, wanted: &CutInstance) -> Result<String, CutError> {
        self.change(|state| {
            let own = state.gpus.entry(gpu.to_owned()).or_default();
            let same =
                |one: &&CutInstance| one.start == wanted.start && one.profile == wanted.profile;
            if let Some(uuid) = own.iter().find(same).and_then(|one| one.uuid.clone()) {
                return Ok(uuid);
            }
            let over = own.iter().find(|one| {
                one.start < wanted.start + wanted.size && wanted.start < one.start + one.size
            });
            if let Some(over) = over {
                return Err(CutError::Resources {
                    gpu: gpu.into(),
                    profile: wanted.profile.clone(),
                    start: wanted.start,
                    beside: format!(": there is {} at {}", over.profile, over.start),
                });
            }
            state.made += 1;
            let hash = crate::token::hash(&format!("{gpu} {}", state.made));
            let part = |from: usize, to: usize| hash.get(from..to).unwrap_or_default();
            let uuid = format!(
                "MIG-{}-{}-{}-{}-{}",
                part(0, 8),
                part(8, 12),
                part(12, 16),
                part(16, 20),
                part(20, 32)
            );
            own.push(CutInstance {
                uuid: Some(uuid.clone()),
                ..wanted.clone()
            });
            Ok(uuid)
        })
    }

    fn destroy(&self, gpu: &str, start: u8) -> Result<(), CutError> {
        self.change(|state| {
            if let Some(own) = state.gpus.get_mut(gpu) {
                own.retain(|one| one.start != start);
            }
            Ok(())
        })
    }
}
