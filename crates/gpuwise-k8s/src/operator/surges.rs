//! Deployments that have one pod more than was asked, for a move, as their watch brings them.

use super::{kept::Key, seen::SURGE};
use crate::{objects, steer::Surge};
use kube::runtime::watcher::Event;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Surges {
    all: BTreeMap<Key, Surge>,
    /// Those of a list that comes anew.
    fresh: Option<BTreeSet<Key>>,
    read: bool,
}

impl Surges {
    pub(super) const fn is_read(&self) -> bool {
        self.read
    }

    pub(super) fn all(&self) -> Vec<Surge> {
        self.all.values().cloned().collect()
    }

    /// One has a pod more or no longer, before the watch shows it.
    pub(super) fn wrote(&mut self, surge: &Surge, there: bool) {
        let key = (surge.namespace.clone(), surge.name.clone());
        if there {
            self.all.insert(key, surge.clone());
        } else {
            self.all.remove(&key);
        }
    }

    /// Takes an event in; whether anything is other than before.
    pub(super) fn take(&mut self, event: Event<objects::Deployment>) -> bool {
        let read = |object: &objects::Deployment| {
            let meta = &object.metadata;
            let labels = meta.labels.as_ref();
            let pod = labels.and_then(|labels| labels.get(SURGE)).cloned();
            let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
            Surge {
                namespace: namespace.unwrap_or_default(),
                name: name.unwrap_or_default(),
                pod: pod.unwrap_or_default(),
            }
        };
        let key = |one: &Surge| (one.namespace.clone(), one.name.clone());
        match event {
            Event::Init => {
                self.fresh = Some(BTreeSet::new());
                false
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let one = read(&object);
                if let Some(fresh) = &mut self.fresh {
                    fresh.insert(key(&one));
                }
                self.all.insert(key(&one), one.clone()) != Some(one)
            }
            Event::InitDone => {
                let fresh = self.fresh.take().unwrap_or_default();
                let before = self.all.len();
                self.all.retain(|key, _| fresh.contains(key));
                let first = !std::mem::replace(&mut self.read, true);
                first || self.all.len() != before
            }
            Event::Delete(object) => self.all.remove(&key(&read(&object))).is_some(),
        }
    }
}
