//! Jobs by number, cheap to copy: see [`super::pages`].

use super::JobState;
use gpuwise_domain::placement::JobId;
use std::{collections::BTreeMap, sync::Arc};

const NUMBERS: u32 = 256;

type Page = Vec<(JobId, Arc<JobState>)>;

#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct JobTable {
    pages: BTreeMap<u32, Arc<Page>>,
}

impl JobTable {
    pub(crate) fn get(&self, id: JobId) -> Option<&JobState> {
        let page = self.pages.get(&(id.0 / NUMBERS))?;
        let at = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        page.get(at).map(|(_, state)| &**state)
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut JobState> {
        let page = self.pages.get_mut(&(id.0 / NUMBERS))?;
        let at = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, state) = Arc::make_mut(page).get_mut(at)?;
        Some(Arc::make_mut(state))
    }

    pub(crate) fn insert(&mut self, id: JobId, state: JobState) {
        let page = self.pages.entry(id.0 / NUMBERS).or_default();
        let page = Arc::make_mut(page);
        match page.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => {
                if let Some((_, old)) = page.get_mut(at) {
                    *old = Arc::new(state);
                }
            }
            Err(at) => page.insert(at, (id, Arc::new(state))),
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<JobState> {
        let number = id.0 / NUMBERS;
        let page = self.pages.get_mut(&number)?;
        let at = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, state) = Arc::make_mut(page).remove(at);
        if page.is_empty() {
            self.pages.remove(&number);
        }
        Some(Arc::unwrap_or_clone(state))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&JobId, &JobState)> {
        let rows = self.pages.values().flat_map(|page| page.iter());
        rows.map(|(id, state)| (id, &**state))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &JobState> {
        self.iter().map(|(_, state)| state)
    }
}
