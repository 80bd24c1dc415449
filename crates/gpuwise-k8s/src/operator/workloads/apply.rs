//! Objects of a workload, written as our own fields alone.

use super::super::{
    lead::Term,
    seen::PLAN,
    traces::carried,
    writes::{Writer, Wrote},
};
use super::{Hands, warm::kept_warm};
use crate::{
    manifests::NAME,
    resources::{GROUP, GpuWorkloadSpec, Object, Resource, VERSION},
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

/// Who a Deployment's replicas belong to once a workload no longer says how many there are.
const KEEPER: &str = "gpuwise-replicas";

/// Applies objects, owned by the workload: they go with it. What was written, or why not.
pub(super) async fn apply(
    hands: &Hands<'_>,
    object: &Object<GpuWorkloadSpec>,
    all: &[Value],
    plan: &str,
) -> Result<String, String> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut names = Vec::new();
    let warm = kept_warm(&object.metadata.name);
    for one in all {
        let mut one = one.clone();
        let kind = text(&one["kind"]);
        let name = text(&one["metadata"]["name"]);
        one["metadata"]["namespace"] = namespace.into();
        if !plan.is_empty() {
            one["metadata"]["annotations"][PLAN] = plan.into();
        }
        one["metadata"]["ownerReferences"] = json!([{
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": GpuWorkloadSpec::KIND,
            "name": object.metadata.name,
            "uid": object.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": false,
        }]);
        carried(&mut one, object);
        let known = (kind == "Deployment").then(|| {
            hands
                .state
                .replicas_of(&object.metadata.uid, namespace, &name)
        });
        let known = known.flatten();
        if known.is_none() && name == warm && one["spec"]["replicas"].is_null() {
            // None before the forecast says how many; whoever says nothing gets one.
            one["spec"]["replicas"] = 0.into();
        }
        match written(hands, namespace, &one, known).await {
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
    cool(hands, object, all).await?;
    Ok(names.join(", "))
}

/// Applies one object; of a Deployment of ours, with so many replicas now, these stay as they are where nothing is
/// said of them, and become what is said.
async fn written(hands: &Hands<'_>, namespace: &str, one: &Value, there: Option<u32>) -> Wrote {
    let name = text(&one["metadata"]["name"]);
    let said = one["spec"]["replicas"].as_u64();
    match (there, said) {
        // A field that nobody applies any more goes back to its default: one replica.
        (Some(there), None) => {
            let keeps = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"replicas": there},
            });
            match patched(hands, namespace, &keeps, KEEPER).await {
                // Another has set another number since: it is his.
                Wrote::Done | Wrote::Changed => patched(hands, namespace, one, NAME).await,
                failed => failed,
            }
        }
        // What was scaled before is to be scaled: an apply would be refused.
        (Some(there), Some(said)) if u64::from(there) != said => {
            match patched(hands, namespace, one, NAME).await {
                Wrote::Changed => {
                    let said = u32::try_from(said).unwrap_or(u32::MAX);
                    match scale(hands.term, hands.writer, namespace, &name, said).await {
                        Wrote::Done => patched(hands, namespace, one, NAME).await,
                        failed => failed,
                    }
                }
                other => other,
            }
        }
        _ => patched(hands, namespace, one, NAME).await,
    }
}

async fn patched(hands: &Hands<'_>, namespace: &str, one: &Value, manager: &str) -> Wrote {
    let (kind, name) = (text(&one["kind"]), text(&one["metadata"]["name"]));
    let version = text(&one["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let client = hands.writer.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let params = PatchParams::apply(manager);
    let write = async {
        api.patch(&name, &params, &Patch::Apply(one))
            .await
            .map(drop)
    };
    hands.writer.fenced(hands.term, "PATCH", write).await
}

/// Warm pods that are wanted no more go.
async fn cool(
    hands: &Hands<'_>,
    object: &Object<GpuWorkloadSpec>,
    all: &[Value],
) -> Result<(), String> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let warm = kept_warm(&object.metadata.name);
    let wanted = all.iter().any(|one| text(&one["metadata"]["name"]) == warm);
    let there = hands
        .state
        .replicas_of(&object.metadata.uid, namespace, &warm);
    if wanted || there.is_none_or(|there| there == 0) {
        return Ok(());
    }
    match scale(hands.term, hands.writer, namespace, &warm, 0).await {
        Wrote::Done => Ok(()),
        Wrote::Changed => Err(format!("Deployment {warm} is another now")),
        Wrote::Fenced => Err("another operator leads".into()),
        Wrote::Failed(why) | Wrote::Refused(why) => Err(format!("Deployment {warm}: {why}")),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Sets the replicas of a Deployment, unless it has them.
pub(super) async fn scale(
    term: &Term,
    writer: &Writer,
    namespace: &str,
    name: &str,
    replicas: u32,
) -> Wrote {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    let api: Api<DynamicObject> = Api::namespaced_with(writer.client.clone(), namespace, &resource);
    let patch = json!({"spec": {"replicas": replicas}});
    let params = PatchParams {
        field_manager: Some(NAME.into()),
        ..PatchParams::default()
    };
    let write = async {
        api.patch_subresource("scale", name, &params, &Patch::Merge(&patch))
            .await
            .map(drop)
    };
    writer.fenced(term, "PATCH", write).await
}
