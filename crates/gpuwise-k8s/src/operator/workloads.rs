//! GpuWorkloads: sized as `gpuwise plan` does, and what they are served by made.

use super::{
    lead::Term,
    now_seconds,
    seen::State,
    watches::{Own, api_resource},
    writes::{Writer, Wrote},
};
use crate::{
    manifests::NAME,
    resources::{
        Condition, Decided, GROUP, GpuWorkloadSpec, Object, Resource, Status, VERSION, settled,
    },
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be sized.
#[derive(Debug, Clone)]
pub struct WorkloadAsk {
    pub name: String,
    pub spec: GpuWorkloadSpec,
    /// Products of GPUs that the cluster has, as its nodes call them.
    pub products: BTreeSet<String>,
}

/// What was decided for it, and what it is served by: objects without a namespace.
#[derive(Debug, Clone)]
pub struct Sized {
    pub decided: Decided,
    pub objects: Vec<Value>,
}

/// Sizes what a GpuWorkload asks for: the same function as that of `gpuwise plan`.
pub trait Sizer: Send + Sync {
    /// # Errors
    /// When it is wrong, or no GPU keeps the SLO; what is short, in words.
    fn size(&self, ask: &WorkloadAsk) -> Result<Sized, String>;
}

/// Workloads that are done, by uid: of which generation, with which products.
#[derive(Default)]
pub(super) struct Done(BTreeMap<String, (i64, BTreeSet<String>)>);

impl Done {
    /// Sizes those that are new or another; where nobody acts what was decided is said and nothing is made.
    pub(super) async fn look(
        &mut self,
        term: &Term,
        writer: &Writer,
        state: &State,
        sizer: &dyn Sizer,
        acts: bool,
    ) {
        let products = state.products();
        for object in state.own::<GpuWorkloadSpec>(Own::Workload) {
            let now = (object.metadata.generation, products.clone());
            let gone = object.metadata.deletion_timestamp.is_some();
            if gone || self.0.get(&object.metadata.uid) == Some(&now) {
                continue;
            }
            let ask = WorkloadAsk {
                name: object.metadata.name.clone(),
                spec: object.spec.clone(),
                products: products.clone(),
            };
            let decided = tokio::task::block_in_place(|| sizer.size(&ask));
            if settle(term, writer, &object, decided, acts).await {
                self.0.insert(object.metadata.uid.clone(), now);
            }
        }
    }
}

/// Makes what was decided and says so; whether all of that was written.
async fn settle(
    term: &Term,
    writer: &Writer,
    object: &Object<GpuWorkloadSpec>,
    sized: Result<Sized, String>,
    acts: bool,
) -> bool {
    let mut conditions: Vec<Condition> = object
        .status
        .as_ref()
        .and_then(|status| serde_json::from_value(status.get("conditions")?.clone()).ok())
        .unwrap_or_default();
    let mut say = |kind: &str, status: Status, reason: &str, words: &str| {
        let condition = Condition {
            kind: kind.into(),
            status,
            observed_generation: object.metadata.generation,
            last_transition_time: now_seconds(),
            reason: reason.into(),
            message: words.to_owned(),
        };
        (conditions, _) = settled(&conditions, condition);
    };
    let mut status = json!({"observedGeneration": object.metadata.generation});
    let mut written = true;
    match sized {
        Err(why) => say("Sized", Status::False, "NoPlan", &why),
        Ok(sized) => {
            say("Sized", Status::True, "Sized", &sized.decided.why);
            status["decision"] = json!(sized.decided);
            status["replicas"] = sized.decided.replicas.into();
            status["selector"] = json!(format!("gpuwise.dev/workload={}", object.metadata.name));
            if acts {
                match apply(term, writer, object, &sized.objects).await {
                    Ok(names) => say("Applied", Status::True, "Applied", &names),
                    Err(why) => {
                        written = false;
                        say("Applied", Status::False, "Failed", &why);
                    }
                }
            } else {
                say(
                    "Applied",
                    Status::False,
                    "Proposed",
                    "nothing is made: the operator does not act (--mode act)",
                );
            }
        }
    }
    status["conditions"] = json!(conditions);
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::namespaced_with(
        writer.client.clone(),
        namespace,
        &api_resource::<GpuWorkloadSpec>(),
    );
    let said = writer
        .status(term, &api, &object.metadata.name, &status)
        .await;
    written && said == Wrote::Done
}

/// Applies objects as our own fields alone, owned by the workload: they go with it.
async fn apply(
    term: &Term,
    writer: &Writer,
    object: &Object<GpuWorkloadSpec>,
    all: &[Value],
) -> Result<String, String> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut names = Vec::new();
    for one in all {
        let mut one = one.clone();
        let kind = one["kind"].as_str().unwrap_or_default().to_owned();
        let name = one["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let version = one["apiVersion"].as_str().unwrap_or_default().to_owned();
        one["metadata"]["namespace"] = namespace.into();
        one["metadata"]["ownerReferences"] = json!([{
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": GpuWorkloadSpec::KIND,
            "name": object.metadata.name,
            "uid": object.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": false,
        }]);
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> =
            Api::namespaced_with(writer.client.clone(), namespace, &resource);
        let params = PatchParams::apply(NAME);
        let write = async {
            api.patch(&name, &params, &Patch::Apply(&one))
                .await
                .map(drop)
        };
        match writer.fenced(term, "PATCH", write).await {
            Wrote::Done => names.push(format!("{kind} {name}")),
            Wrote::Changed => {
                return Err(format!(
                    "{kind} {name} is another's, or its namespace is going: it is not taken over"
                ));
            }
            Wrote::Fenced => return Err("another operator leads".into()),
            Wrote::Failed(why) | Wrote::Refused(why) => {
                return Err(format!("{kind} {name}: {why}"));
            }
        }
    }
    Ok(names.join(", "))
}
