//! Writes by which pods leave, move and find nodes closed: each counts only if nobody was faster.

use super::{
    lead::Term,
    now_seconds, now_text,
    seen::{MOVES_SINCE, MOVES_TO, PLAN, REASON, SURGE},
    writes::{Writer, Wrote},
};
use crate::{
    manifests::NAME,
    objects,
    resources::LEAVING,
    steer::{Pod, Surge},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::Status,
};
use serde_json::{Value, json};

/// Controllers end the pod with the lowest cost first where they have one too many.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The lowest that there is. Of a Deployment's pods that move only the one for which it has one more says so.
pub(super) const CHEAPEST: &str = "-2147483648";
/// The replicas that a Deployment has with the one more; what is other than that was set by somebody else.
const SURGE_REPLICAS: &str = "gpuwise.dev/surge-replicas";

/// What is to become of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeChange<'a> {
    /// A taint of ours, by key and value, that keeps pods away.
    pub taint: Option<(&'a str, &'a str)>,
    /// A taint of ours that comes off.
    pub untaint: Option<&'a str>,
    /// A label, by key and value.
    pub label: Option<(&'a str, &'a str)>,
}

impl Writer {
    fn ours() -> PatchParams {
        PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        }
    }

    /// Keeps room on a node for a pod that waits, and says so.
    pub(super) async fn nominate(&self, term: &Term, pod: &Pod, node: &str, words: &str) -> Wrote {
        let patch = json!({
            "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
            "status": {
                "nominatedNodeName": node,
                "conditions": [{
                    "type": "gpuwise.dev/Placed",
                    "status": "False",
                    "reason": "MakingRoom",
                    "message": words,
                    "lastTransitionTime": now_seconds(),
                }],
            },
        });
        self.pod_status(term, pod, &patch).await.0
    }

    /// Says of a pod that it is to leave, or need not any more; with its new resourceVersion.
    pub(super) async fn leaving(
        &self,
        term: &Term,
        pod: &Pod,
        leaves: bool,
        words: &str,
    ) -> (Wrote, Option<String>) {
        let patch = json!({
            "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
            "status": {"conditions": [{
                "type": LEAVING,
                "status": if leaves { "True" } else { "False" },
                "reason": if leaves { "Preempted" } else { "Spared" },
                "message": words,
                "lastTransitionTime": now_seconds(),
            }]},
        });
        self.pod_status(term, pod, &patch).await
    }

    async fn pod_status(&self, term: &Term, pod: &Pod, patch: &Value) -> (Wrote, Option<String>) {
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let mut version = None;
        let write = async {
            let patch = Patch::Strategic(patch);
            let pod = api.patch_status(&pod.name, &Self::ours(), &patch).await?;
            version = pod.metadata.resource_version;
            Ok(())
        };
        let ended = self.fenced(term, "PATCH", write).await;
        (ended, version)
    }

    /// Evicts a pod as it is in this version, as PodDisruptionBudgets allow, with the grace that it has.
    pub(super) async fn evict(&self, term: &Term, pod: &Pod, version: &str) -> Wrote {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": version}},
        });
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let write = async {
            let params = PostParams::default();
            let ended = api.create_subresource("eviction", &pod.name, &params, &body);
            ended.await.map(|_: Status| ())
        };
        self.fenced(term, "POST", write).await
    }

    /// Says where one more of a pod's Deployment is to start before it ends; `None`: it stays where it is.
    pub(super) async fn moves(
        &self,
        term: &Term,
        pod: &Pod,
        to: Option<&str>,
        words: &str,
        plan: &str,
    ) -> Wrote {
        let annotations = match to {
            Some(to) => json!({
                MOVES_TO: to, MOVES_SINCE: now_text(), PLAN: plan, REASON: words,
            }),
            None => json!({MOVES_TO: null, MOVES_SINCE: null, DELETION_COST: null}),
        };
        self.annotated(term, pod, &annotations).await
    }

    /// Has the controller of a pod that moves end it before all others.
    pub(super) async fn cheapest(&self, term: &Term, pod: &Pod) -> Wrote {
        self.annotated(term, pod, &json!({DELETION_COST: CHEAPEST}))
            .await
    }

    async fn annotated(&self, term: &Term, pod: &Pod, annotations: &Value) -> Wrote {
        let patch = json!({"metadata": {
            "uid": pod.uid, "resourceVersion": pod.version, "annotations": annotations,
        }});
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let write = async {
            let patch = Patch::Merge(&patch);
            api.patch(&pod.name, &Self::ours(), &patch).await.map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }

    /// Gives a Deployment one pod more for a pod that moves, once; or takes it back, once.
    pub(super) async fn surge(&self, term: &Term, surge: &Surge, more: bool, plan: &str) -> Wrote {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &surge.namespace);
        let mut anothers = false;
        let write = async {
            let there = api.get(&surge.name).await?;
            let labels = there.metadata.labels.as_ref();
            let label = labels.and_then(|labels| labels.get(SURGE));
            anothers = more && label.is_some_and(|pod| *pod != surge.pod);
            let Some(patch) = surged(&there, surge, more, plan) else {
                return Ok(());
            };
            let patch = Patch::Merge(&patch);
            api.patch(&surge.name, &Self::ours(), &patch)
                .await
                .map(drop)
        };
        match self.fenced(term, "PATCH", write).await {
            // It has one more for another pod: that comes first.
            Wrote::Done if anothers => Wrote::Changed,
            other => other,
        }
    }

    /// Changes a node that is as it was read; other taints stay as they are.
    pub(super) async fn node(
        &self,
        term: &Term,
        name: &str,
        change: &NodeChange<'_>,
        words: &str,
        plan: &str,
    ) -> Wrote {
        let api: Api<Node> = Api::all(self.client.clone());
        let write = async {
            let there = api.get(name).await?;
            let spec = there.spec.and_then(|spec| spec.taints);
            let mut taints = serde_json::to_value(spec.unwrap_or_default()).unwrap_or_default();
            if let Some(all) = taints.as_array_mut() {
                let key = change.untaint.or(change.taint.map(|(key, _)| key));
                all.retain(|taint| taint.get("key").and_then(Value::as_str) != key);
                if let Some((key, value)) = change.taint {
                    all.push(json!({"key": key, "value": value, "effect": "NoSchedule"}));
                }
            }
            // What is null is taken away: what stays is not named.
            let labels = change
                .label
                .map(|(key, value)| (key.to_owned(), json!(value)));
            let labels: serde_json::Map<String, Value> = labels.into_iter().collect();
            let patch = json!({
                "metadata": {
                    "resourceVersion": there.metadata.resource_version,
                    "labels": labels,
                    "annotations": {PLAN: plan, REASON: words},
                },
                "spec": {"taints": taints},
            });
            let patch = Patch::Merge(&patch);
            api.patch(name, &Self::ours(), &patch).await.map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }
}

/// What is to be written of a Deployment; `None`: it is so already.
fn surged(there: &Deployment, surge: &Surge, more: bool, plan: &str) -> Option<Value> {
    let meta = &there.metadata;
    let label = meta.labels.as_ref().and_then(|all| all.get(SURGE));
    let replicas = there.spec.as_ref()?.replicas.unwrap_or(1);
    if more {
        // For this pod or another it has one more already.
        if label.is_some() {
            return None;
        }
        let raised = replicas.checked_add(1)?;
        return Some(json!({
            "metadata": {
                "resourceVersion": meta.resource_version,
                "labels": {SURGE: surge.pod},
                "annotations": {SURGE_REPLICAS: raised.to_string(), PLAN: plan},
            },
            "spec": {"replicas": raised},
        }));
    }
    if label != Some(&surge.pod) {
        return None;
    }
    let said = meta.annotations.as_ref();
    let said = said.and_then(|all| all.get(SURGE_REPLICAS)?.parse::<i32>().ok());
    let mut patch = json!({"metadata": {
        "resourceVersion": meta.resource_version,
        "labels": {SURGE: null},
        "annotations": {SURGE_REPLICAS: null},
    }});
    // Whoever has set another number since has said how many there are to be.
    if said == Some(replicas)
        && let Some(patch) = patch.as_object_mut()
    {
        patch.insert(
            "spec".into(),
            json!({"replicas": replicas.saturating_sub(1)}),
        );
    }
    Some(patch)
}
