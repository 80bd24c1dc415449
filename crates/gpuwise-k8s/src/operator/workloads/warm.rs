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

/// The Deployment of pods that are kept warm beside a workload.
pub(super) fn kept_warm(name: &str) -> String {
    format!("{name}-warm")
}

/// Makes up to so many ready warm pods replicas; how many are. What it cannot do the Deployment does by pods of its
/// own.
pub(super) async fn adopt(
    hands: &Hands<'_>,
    ask: &WorkloadAsk,
    more: u32,
    began: Instant,
) -> usize {
    let mut ready: Vec<_> = hands
        .state
        .warm(&ask.namespace, &ask.name, WARM)
        .cloned()
        .collect();
    if ready.is_empty() || more == 0 {
        return 0;
    }
    let warm = newest(hands, &ask.namespace, &kept_warm(&ask.name)).await;
    let own = newest(hands, &ask.namespace, &ask.name).await;
    let (Some((replica_set, uid, hash)), Some((_, _, warm))) = (own, warm) else {
        return 0;
    };
    // Those that a change has not reached yet are not what its pods are now.
    ready.retain(|pod| pod.label(HASH) == Some(warm.as_str()));
    ready.truncate(more as usize);
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

/// The ReplicaSet that a Deployment makes pods by: name, uid, and the hash of its template.
async fn newest(hands: &Hands<'_>, namespace: &str, app: &str) -> Option<(String, String, String)> {
    let api: Api<objects::ReplicaSet> = Api::namespaced(hands.writer.client.clone(), namespace);
    let mine = ListParams::default().labels(&format!("app={app}"));
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
