//! Objects of our own kinds, as their watches bring them.

use kube::{api::DynamicObject, runtime::watcher::Event};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Key = (String, String);

/// Objects of one kind of ours, and which of a list that comes anew were in it.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) all: BTreeMap<Key, DynamicObject>,
    fresh: Option<BTreeSet<Key>>,
}

impl Kept {
    /// Takes an event in; whether there is a reason to look again.
    pub(super) fn take(&mut self, event: Event<DynamicObject>) -> bool {
        let key = |object: &DynamicObject| {
            let meta = &object.metadata;
            (
                meta.namespace.clone().unwrap_or_default(),
                meta.name.clone().unwrap_or_default(),
            )
        };
        match event {
            Event::Init => {
                self.fresh = Some(BTreeSet::new());
                false
            }
            Event::InitApply(object) => {
                if let Some(fresh) = &mut self.fresh {
                    fresh.insert(key(&object));
                }
                self.put(key(&object), object)
            }
            Event::InitDone => {
                let fresh = self.fresh.take().unwrap_or_default();
                self.all.retain(|key, _| fresh.contains(key));
                true
            }
            Event::Apply(object) => self.put(key(&object), object),
            Event::Delete(object) => self.all.remove(&key(&object)).is_some(),
        }
    }

    fn put(&mut self, key: Key, mut object: DynamicObject) -> bool {
        object.metadata.managed_fields = None;
        // Their status is what only we write: no reason to look again.
        let generation = object.metadata.generation;
        let old = self.all.insert(key, object);
        old.is_none_or(|old| old.metadata.generation != generation)
    }
}
