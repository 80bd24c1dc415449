//! Objects of a workload, written as our own fields alone.

use super::super::{
    lead::Term,
    traces::carried,
    writes::{Writer, Wrote},
};
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

/// The plan that an object was last written by.
pub(super) const PLAN: &str = "gpuwise.dev/plan";

/// Applies objects, owned by the workload: they go with it. What was written, or why not.
pub(super) async fn apply(
    term: &Term,
    writer: &Writer,
    object: &Object<GpuWorkloadSpec>,
    all: &[Value],
    plan: &str,
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
