//! Pods that are kept warm beside the replicas of a workload: `NAME-warm`, a Deployment of its own, makes and refills
//! them; one becomes a replica by other labels and another owner, in a write.

use super::{Hands, WorkloadAsk};
use crate::{manifests::NAME, objects, operator::writes::Wrote};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::json;
use tokio::time::Instant;

/// The label of warm pods: of which workload.
pub(super) const WARM: &str = "gpuwise.dev/warm";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Makes up to so many ready warm pods replicas; how many are. What it cannot do the Deployment does by pods of its
/// own.
pub(super) async fn adopt(
    hands: &Hands<'_>,
    ask: &WorkloadAsk,
    more: u32,
    began: Instant,
) -> usize {
    let ready: Vec<_> = hands
        .state
        .warm(&ask.namespace, &ask.name, WARM)
        .take(more as usize)
        .cloned()
        .collect();
    if ready.is_empty() {
        return 0;
    }
    let Some((replica_set, uid, hash)) = newest(hands, ask).await else {
        return 0;
    };
    let api: Api<objects::Pod> = Api::namespaced(hands.writer.client.clone(), &ask.namespace);
    let params = PatchParams {
        field_manager: Some(NAME.into()),
        ..PatchParams::default()
    };
    let mut adopted = 0;
    for pod in ready {
        let patch = json!({"metadata": {
            "uid": &*pod.uid,
            "resourceVersion": &*pod.version,
            "labels": {WARM: null, "app": ask.name, HASH: hash},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": uid,
                "controller": true, "blockOwnerDeletion": false,
            }],
        }});
        let write = async {
            api.patch(&pod.name, &params, &Patch::Merge(patch))
                .await
                .map(drop)
        };
        if hands.writer.fenced(hands.term, "PATCH", write).await == Wrote::Done {
            hands.writer.metrics.adopted(began.elapsed().as_secs_f64());
            adopted += 1;
        }
    }
    adopted
}

/// The ReplicaSet that a workload's Deployment makes pods by: name, uid, and the hash of its template.
async fn newest(hands: &Hands<'_>, ask: &WorkloadAsk) -> Option<(String, String, String)> {
    let api: Api<objects::ReplicaSet> =
        Api::namespaced(hands.writer.client.clone(), &ask.namespace);
    let mine = ListParams::default().labels(&format!("app={}", ask.name));
    let all = api.list_metadata(&mine).await.ok()?;
    let revision = |one: &PartialObjectMeta<objects::ReplicaSet>| {
        let notes = one.metadata.annotations.as_ref();
        let text = notes.and_then(|all| all.get(REVISION));
        text.and_then(|text| text.parse::<u64>().ok())
    };
    let one = all.items.into_iter().max_by_key(revision)?;
    let hash = one.metadata.labels.as_ref()?.get(HASH)?.clone();
    Some((one.metadata.name?, one.metadata.uid?, hash))
}
