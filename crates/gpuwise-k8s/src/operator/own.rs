//! Statuses of our own objects: whether they count.

use super::{
    lead::Term,
    now_seconds,
    seen::State,
    watches::{Own, api_resource},
    writes::{Writer, Wrote},
};
use crate::resources::{
    Condition, GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, Object, Resource, Status, settled,
};
use kube::Api;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What was last written of each, without times: what says the same is not written again.
#[derive(Default)]
pub(super) struct Written {
    last: BTreeMap<String, Value>,
    /// Kinds of which nothing is written: their definitions would drop what is in the objects.
    pub(super) held: BTreeSet<&'static str>,
}

impl Written {
    /// Says of policies, price books and quotas whether they count. `wrong`: why the policy does not.
    pub(super) async fn accept(
        &mut self,
        term: &Term,
        writer: &Writer,
        state: &State,
        wrong: Option<&str>,
        troubles: &[String],
    ) {
        for object in state.own::<GpuPolicySpec>(Own::Policy) {
            let (holds, words) = match wrong {
                Some(why) => (false, why.to_owned()),
                None if troubles.is_empty() => (true, "decisions are made by it".to_owned()),
                None => (
                    true,
                    format!("decisions are made by it; {}", troubles.join("; ")),
                ),
            };
            self.status(term, writer, &object, holds, &words, json!({}))
                .await;
        }
        for object in state.own::<GpuPriceBookSpec>(Own::Prices) {
            self.status(term, writer, &object, true, "its prices count", json!({}))
                .await;
        }
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for object in state.own::<GpuQuotaSpec>(Own::Quota) {
            let name = &object.metadata.name;
            let twice = object.spec.namespaces.iter().find_map(|namespace| {
                taken
                    .get(namespace)
                    .map(|first| (namespace.clone(), first.clone()))
            });
            for namespace in &object.spec.namespaces {
                taken
                    .entry(namespace.clone())
                    .or_insert_with(|| name.clone());
            }
            let used = state.held(&object.spec.namespaces);
            let (holds, words) = match twice {
                None => (true, "it counts".to_owned()),
                Some((namespace, first)) => (
                    false,
                    format!(
                        "namespace {namespace} is in GpuQuota {first} too, which counts for it; take it out of one"
                    ),
                ),
            };
            self.status(term, writer, &object, holds, &words, json!({"used": used}))
                .await;
        }
    }

    async fn status<T: Resource>(
        &mut self,
        term: &Term,
        writer: &Writer,
        object: &Object<T>,
        holds: bool,
        words: &str,
        mut status: Value,
    ) {
        if self.held.contains(T::KIND) {
            return;
        }
        let generation = object.metadata.generation;
        let condition = Condition {
            kind: "Accepted".into(),
            status: Status::from(holds),
            observed_generation: generation,
            last_transition_time: now_seconds(),
            reason: if holds { "Accepted" } else { "Invalid" }.into(),
            message: words.to_owned(),
        };
        let there = object
            .status
            .as_ref()
            .and_then(|status| status.get("conditions"));
        let there: Vec<Condition> = there
            .and_then(|all| serde_json::from_value(all.clone()).ok())
            .unwrap_or_default();
        let (conditions, _) = settled(&there, condition);
        if let Some(status) = status.as_object_mut() {
            status.insert("observedGeneration".into(), generation.into());
            status.insert("conditions".into(), json!(conditions));
        }
        let key = format!("{}/{}", T::KIND, object.metadata.uid);
        let mut plain = status.clone();
        if let Some(all) = plain.get_mut("conditions").and_then(Value::as_array_mut) {
            for one in all.iter_mut().filter_map(Value::as_object_mut) {
                one.shift_remove("lastTransitionTime");
            }
        }
        if self.last.get(&key) == Some(&plain) {
            return;
        }
        let api = Api::all_with(writer.client.clone(), &api_resource::<T>());
        if writer
            .status(term, &api, &object.metadata.name, &status)
            .await
            == Wrote::Done
        {
            self.last.insert(key, plain);
        }
    }
}
