//! Objects of one kind by namespace and name, as a list and the changes after it say.

use super::Text;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Where an object is; the namespace of a cluster's own is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: Text,
    pub name: Text,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

type Shelf<V> = Arc<BTreeMap<Text, Arc<V>>>;

/// Rows by key. A copy shares them all; a change copies one namespace of pointers.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<V> {
    shelves: BTreeMap<Text, Shelf<V>>,
    len: usize,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            shelves: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<V> Table<V> {
    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<V>> {
        self.shelves.get(namespace)?.get(name)
    }

    pub fn at(&self, key: &Key) -> Option<&Arc<V>> {
        self.get(&key.namespace, &key.name)
    }

    /// In the order of namespaces and names.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Arc<V>)> {
        self.shelves.iter().flat_map(|(namespace, rows)| {
            rows.iter().map(|(name, value)| {
                let key = Key {
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                (key, value)
            })
        })
    }

    pub fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.shelves.values().flat_map(|rows| rows.values())
    }

    /// Those of one namespace, by name.
    pub fn of(&self, namespace: &str) -> impl Iterator<Item = (&Text, &Arc<V>)> {
        self.shelves
            .get(namespace)
            .into_iter()
            .flat_map(|rows| rows.iter())
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &Text> {
        self.shelves.keys()
    }

    pub(super) fn insert(&mut self, key: &Key, value: Arc<V>) -> Option<Arc<V>> {
        let rows = self.shelves.entry(key.namespace.clone()).or_default();
        let old = Arc::make_mut(rows).insert(key.name.clone(), value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<V>> {
        let rows = self.shelves.get_mut(&key.namespace)?;
        if !rows.contains_key(&key.name) {
            return None;
        }
        let old = Arc::make_mut(rows).remove(&key.name);
        self.len -= usize::from(old.is_some());
        if rows.is_empty() {
            self.shelves.remove(&key.namespace);
        }
        old
    }
}

/// What tells an event that comes late from one that is new.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Of each object that is there.
    held: BTreeMap<Key, u64>,
    /// Of those that went lately.
    gone: BTreeMap<Key, u64>,
    /// Those that a list under way has named.
    listing: Option<BTreeSet<Key>>,
}

/// Deletions that are remembered; a list forgets them all, as it says what is there.
const GONE: usize = 16_384;

impl Versions {
    /// Whether what is said at this version is news. Without a version everything is.
    pub(super) fn newer(&mut self, key: &Key, version: Option<u64>) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        let Some(version) = version else { return true };
        if self.gone.get(key).is_some_and(|gone| *gone >= version) {
            return false;
        }
        if self.held.get(key).is_some_and(|held| *held > version) {
            return false;
        }
        self.gone.remove(key);
        self.held.insert(key.clone(), version);
        true
    }

    /// Whether an object that went at this version is not there again already.
    pub(super) fn left(&mut self, key: &Key, version: Option<u64>) -> bool {
        let held = self.held.get(key).copied();
        if let (Some(held), Some(version)) = (held, version)
            && held > version
        {
            return false;
        }
        self.held.remove(key);
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
        if let Some(version) = version {
            let known = self.gone.entry(key.clone()).or_default();
            *known = version.max(*known);
        }
        if self.gone.len() > GONE {
            let mut all: Vec<u64> = self.gone.values().copied().collect();
            all.sort_unstable();
            let middle = all.get(all.len() / 2).copied().unwrap_or_default();
            self.gone.retain(|_, version| *version > middle);
        }
        true
    }

    pub(super) fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// Whether a list that ends now has named it.
    pub(super) fn end(&mut self) -> Option<BTreeSet<Key>> {
        let named = self.listing.take()?;
        self.held.retain(|key, _| named.contains(key));
        self.gone.clear();
        Some(named)
    }
}
