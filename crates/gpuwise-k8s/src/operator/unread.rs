//! Objects of ours that cannot be read, as an older definition has dropped what they need or knows other values: they do
//! not count, and that is said.

use super::{
    lead::Term,
    look::Looks,
    now_seconds,
    seen::State,
    watches::{Own, api_resource},
    writes::{Wrote, event_document},
};
use crate::manifests::Mode;
use crate::resources::{
    Condition, GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, GpuWorkloadSpec, Object, Resource,
    Status, settled,
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::ApiResource,
};
use serde_json::json;
use std::collections::BTreeMap;

/// An object that cannot be read, and why.
struct Unread<'a> {
    object: &'a DynamicObject,
    why: String,
}

/// Of a kind: how the API has it, the condition that says so, and those that cannot be read.
struct Kind<'a> {
    name: &'static str,
    resource: ApiResource,
    condition: &'static str,
    unread: Vec<Unread<'a>>,
}

/// What was said last, by kind and uid.
pub(super) type Said = BTreeMap<String, String>;

impl Looks {
    /// Says which objects of ours do not count as they cannot be read.
    pub(super) async fn heed_unread(&mut self, term: &Term) {
        let mut there = Said::new();
        let mut words = Vec::new();
        for kind in kinds(&self.state) {
            let count = kind.unread.len() as u64;
            self.writer.metrics.unread(kind.name, count);
            for one in &kind.unread {
                let meta = &one.object.metadata;
                let name = meta.name.clone().unwrap_or_default();
                words.push(format!("{} {name}: {}", kind.name, one.why));
                let key = format!("{}/{}", kind.name, meta.uid.clone().unwrap_or_default());
                let known = self.unread.get(&key) == Some(&one.why);
                if known || self.say_unread(term, &kind, one).await == Wrote::Done {
                    there.insert(key, one.why.clone());
                }
            }
        }
        self.unread = there;
        let what = "objects that cannot be read do not count";
        if words.is_empty() {
            self.journal.over(what, "all can be read");
        } else {
            self.journal.say(what, &words.join("; "));
        }
    }

    async fn say_unread(&self, term: &Term, kind: &Kind<'_>, one: &Unread<'_>) -> Wrote {
        let meta = &one.object.metadata;
        // To write of it would drop for good what its definition does not keep: an event says it.
        if self.heeded.lacking.borrow().kinds().contains(kind.name) {
            return self.warn_unread(term, kind, one).await;
        }
        let generation = meta.generation.unwrap_or_default();
        let there = one.object.data["status"]["conditions"].clone();
        let there: Vec<Condition> = serde_json::from_value(there).unwrap_or_default();
        let condition = Condition {
            kind: kind.condition.to_owned(),
            status: Status::False,
            observed_generation: generation,
            last_transition_time: now_seconds(),
            reason: "Unreadable".into(),
            message: message(&one.why),
        };
        let (conditions, _) = settled(&there, condition);
        let client = self.writer.client.clone();
        let api = match &meta.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind.resource),
            None => Api::all_with(client, &kind.resource),
        };
        let status = json!({"observedGeneration": generation, "conditions": conditions});
        let name = meta.name.clone().unwrap_or_default();
        self.writer.status(term, &api, &name, &status).await
    }
}

impl Looks {
    async fn warn_unread(&self, term: &Term, kind: &Kind<'_>, one: &Unread<'_>) -> Wrote {
        if self.mode == Mode::Observe {
            return Wrote::Done;
        }
        let meta = &one.object.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let involved = json!({
            "apiVersion": kind.resource.api_version, "kind": kind.name, "name": meta.name,
            "namespace": meta.namespace, "uid": meta.uid,
        });
        let words = message(&one.why);
        let mut event = event_document(&involved, true, "Unreadable", &words);
        event["metadata"]["namespace"] = namespace.into();
        let Ok(event) = serde_json::from_value::<Event>(event) else {
            return Wrote::Failed("the event is none".into());
        };
        let api: Api<Event> = Api::namespaced(self.writer.client.clone(), namespace);
        let write = async { api.create(&PostParams::default(), &event).await.map(drop) };
        self.writer.fenced(term, "POST", write).await
    }
}

fn message(why: &str) -> String {
    format!("it does not count, as it cannot be read: {why}")
}

fn kinds(state: &State) -> [Kind<'_>; 4] {
    [
        of::<GpuPolicySpec>(state, Own::Policy, "Accepted"),
        of::<GpuPriceBookSpec>(state, Own::Prices, "Accepted"),
        of::<GpuQuotaSpec>(state, Own::Quota, "Accepted"),
        of::<GpuWorkloadSpec>(state, Own::Workload, "Sized"),
    ]
}

fn of<'a, T: Resource>(state: &'a State, which: Own, condition: &'static str) -> Kind<'a> {
    let unread = state.objects(which).filter_map(|object| {
        let read = serde_json::to_value(object).and_then(serde_json::from_value::<Object<T>>);
        let why = read.err()?.to_string();
        Some(Unread { object, why })
    });
    Kind {
        name: T::KIND,
        resource: api_resource::<T>(),
        condition,
        unread: unread.collect(),
    }
}
