//! InferenceObjectives of a pool: what requests are for, and how much that matters.

use super::pool::PoolName;
use futures_util::{Stream, StreamExt as _, stream};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event},
    },
};
use std::{collections::BTreeMap, pin::Pin};

/// Groups that have had them: the inference extension's, and llm-d's, which took them on.
const GROUPS: [&str; 2] = ["inference.networking.x-k8s.io", "llm-d.ai"];

type Events = Pin<Box<dyn Stream<Item = (usize, watcher::Result<Event<DynamicObject>>)> + Send>>;

/// Follows both kinds, of which either may be missing in a cluster.
pub(super) struct Objectives {
    events: Events,
    pool: String,
    /// Of each kind, those that are this pool's.
    known: [BTreeMap<String, i64>; 2],
    listed: [bool; 2],
}

impl Objectives {
    pub(super) fn of(client: &Client, pool: &PoolName) -> Self {
        let follow = |(at, group): (usize, &str)| {
            let kind = GroupVersionKind::gvk(group, "v1alpha2", "InferenceObjective");
            let kind = ApiResource::from_gvk(&kind);
            let api = Api::namespaced_with(client.clone(), &pool.namespace, &kind);
            let events = watcher::watcher(api, Config::default()).default_backoff();
            events.map(move |event| (at, event)).boxed()
        };
        let all = GROUPS.into_iter().enumerate().map(follow);
        Self {
            events: stream::select_all(all).boxed(),
            pool: pool.name.clone(),
            known: Default::default(),
            listed: [false; 2],
        }
    }

    /// What is known of them next: all of them, or why they cannot be seen.
    pub(super) async fn next(&mut self) -> Option<Result<BTreeMap<String, i64>, String>> {
        loop {
            let (at, event) = self.events.next().await?;
            match event {
                Ok(event) => self.take(at, event),
                // A cluster without them.
                Err(error) if is_unknown(&error) => continue,
                Err(error) => {
                    return Some(Err(format!(
                        "InferenceObjectives of {}: {error}",
                        GROUPS[at]
                    )));
                }
            }
            if self.listed[at] {
                let [old, new] = self.known.clone();
                return Some(Ok(old.into_iter().chain(new).collect()));
            }
        }
    }

    fn take(&mut self, at: usize, event: Event<DynamicObject>) {
        let known = &mut self.known[at];
        match event {
            Event::Init => {
                known.clear();
                self.listed[at] = false;
            }
            Event::InitDone => self.listed[at] = true,
            Event::Apply(object) | Event::InitApply(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                match priority(&object, &self.pool) {
                    Some(priority) => known.insert(name, priority),
                    None => known.remove(&name),
                };
            }
            Event::Delete(object) => {
                known.remove(&object.metadata.name.unwrap_or_default());
            }
        }
    }
}

/// Of an objective of this pool; one that says none has 0.
fn priority(object: &DynamicObject, pool: &str) -> Option<i64> {
    let spec = &object.data["spec"];
    (spec["poolRef"]["name"] == pool).then(|| spec["priority"].as_i64().unwrap_or(0))
}

fn is_unknown(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_objectives_of_the_pool_count_and_none_said_is_nought() {
        let of = |spec: serde_json::Value| {
            let object: DynamicObject =
                serde_json::from_value(json!({"metadata": {"name": "o"}, "spec": spec}))
                    .expect("an object");
            priority(&object, "llama")
        };
        assert_eq!(
            of(json!({"poolRef": {"name": "llama"}, "priority": -7})),
            Some(-7)
        );
        assert_eq!(of(json!({"poolRef": {"name": "llama"}})), Some(0));
        assert_eq!(
            of(json!({"poolRef": {"name": "other"}, "priority": 7})),
            None
        );
        assert_eq!(of(json!({})), None);
    }
}
