//! What is said of a workload: conditions in its status, and events on it.

use super::super::{
    lead::Term,
    now_seconds,
    watches::api_resource,
    writes::{Writer, Wrote, event_document},
};
use crate::{
    manifests::NAME,
    resources::{
        Condition, GROUP, GpuWorkloadSpec, GpuWorkloadStatus, Object, Resource, Status, VERSION,
        settled,
    },
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Puts a condition into a status.
pub(super) fn condition(
    status: &mut GpuWorkloadStatus,
    (kind, holds): (&str, Status),
    reason: &str,
    words: &str,
) {
    let condition = Condition {
        kind: kind.into(),
        status: holds,
        observed_generation: status.observed_generation,
        last_transition_time: now_seconds(),
        reason: reason.into(),
        message: words.to_owned(),
    };
    (status.conditions, _) = settled(&status.conditions, condition);
}

/// Writes a status, if nobody has changed the object since it was read; gives the version that it is now.
pub(super) async fn write(
    term: &Term,
    writer: &Writer,
    object: &Object<GpuWorkloadSpec>,
    version: &str,
    status: &GpuWorkloadStatus,
) -> Result<String, Wrote> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let resource = api_resource::<GpuWorkloadSpec>();
    let api: Api<DynamicObject> = Api::namespaced_with(writer.client.clone(), namespace, &resource);
    let patch = json!({
        "metadata": {"uid": object.metadata.uid, "resourceVersion": version},
        "status": status,
    });
    let params = PatchParams {
        field_manager: Some(NAME.into()),
        ..PatchParams::default()
    };
    let mut newer = None;
    let write = async {
        let answer = api
            .patch_status(&object.metadata.name, &params, &Patch::Merge(patch))
            .await?;
        newer = answer.metadata.resource_version;
        Ok(())
    };
    match writer.fenced(term, "PATCH", write).await {
        Wrote::Done => Ok(newer.unwrap_or_default()),
        other => Err(other),
    }
}

/// Says something of a workload, as an event of it; `warns`: somebody should look.
pub(super) async fn event(
    term: &Term,
    writer: &Writer,
    object: &Object<GpuWorkloadSpec>,
    said: (&str, bool),
    words: &str,
) {
    let involved = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": GpuWorkloadSpec::KIND,
        "name": object.metadata.name, "namespace": object.metadata.namespace,
        "uid": object.metadata.uid,
    });
    event_of(term, writer, &involved, said, words).await;
}

/// The same of any object of a namespace.
pub(super) async fn event_of(
    term: &Term,
    writer: &Writer,
    involved: &Value,
    (reason, warns): (&str, bool),
    words: &str,
) {
    let namespace = involved["namespace"].as_str().unwrap_or_default();
    let event = event_document(involved, warns, reason, words);
    writer.metrics.told(reason);
    let Ok(event) = serde_json::from_value::<Event>(event) else {
        return;
    };
    let api: Api<Event> = Api::namespaced(writer.client.clone(), namespace);
    let write = async { api.create(&PostParams::default(), &event).await.map(drop) };
    // An event more or less changes nothing: nobody waits for it.
    let _ = writer.fenced(term, "POST", write).await;
}
