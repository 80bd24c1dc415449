//! Reads that are under way: each page is read once at a time, and of each tenant so many side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Pages = BTreeMap<String, BTreeSet<String>>;

/// By tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads(Arc<Mutex<Pages>>);

/// A read that is under way, as long as this is there.
#[derive(Debug)]
pub(crate) struct UnderWay {
    all: Reads,
    tenant: String,
    page: String,
}

impl Reads {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read a page; `None`: it is being read, or its tenant has as many reads under way as it may.
    pub(crate) fn begin(&self, tenant: &str, page: &str, most: usize) -> Option<UnderWay> {
        let mut all = self.lock();
        let own = all.entry(tenant.to_owned()).or_default();
        let begins = own.len() < most && own.insert(page.to_owned());
        begins.then(|| UnderWay {
            all: self.clone(),
            tenant: tenant.to_owned(),
            page: page.to_owned(),
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(own) = all.get_mut(&self.tenant) {
            own.remove(&self.page);
            if own.is_empty() {
                all.remove(&self.tenant);
            }
        }
    }
}
