//! What is written into the cluster: at most three writes for a pod that is placed.

use super::{
    lead::Term,
    metrics::Metrics,
    now_seconds,
    seen::{HOSTNAME, NODE, PLAN, REASON, REPLACES},
    unanswered::LEFT,
};
use crate::{
    manifests::NAME,
    objects,
    steer::{GATE, Placed, Pod},
};
use k8s_openapi::api::core::v1::Event as Said;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::response::StatusDetails,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::{Instant, timeout};

/// How a write went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrote {
    Done,
    /// The object is another now, or gone: the next look sees what is.
    Changed,
    /// We no longer lead: nothing was written.
    Fenced,
    /// A PodDisruptionBudget keeps the pod for now; what the API server said.
    Refused(String),
    Failed(String),
}

#[derive(Clone)]
pub(super) struct Writer {
    pub client: Client,
    pub metrics: Arc<Metrics>,
}

impl Writer {
    /// Takes the gate off and names the node, if nobody has changed the pod since.
    pub(super) async fn release(
        &self,
        term: &Term,
        pod: &Pod,
        placed: &Placed,
        hostname: &str,
        plan: &str,
    ) -> Wrote {
        let patch = json!({
            "metadata": {
                "uid": pod.uid,
                "resourceVersion": pod.version,
                "annotations": {
                    NODE: placed.node, PLAN: plan, REASON: placed.words, REPLACES: placed.replaces,
                },
            },
            "spec": {
                "schedulingGates": [{"$patch": "delete", "name": GATE}],
                "nodeSelector": {HOSTNAME: hostname},
            },
        });
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PatchParams::apply(NAME);
        let write = async {
            api.patch(
                &pod.name,
                &PatchParams {
                    force: false,
                    ..params
                },
                &Patch::Strategic(patch),
            )
            .await
            .map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }

    /// Takes the gate off and says nothing of where it goes, if nobody has changed the pod since.
    pub(super) async fn let_go(&self, term: &Term, pod: &Pod, words: &str) -> Wrote {
        let patch = json!({
            "metadata": {
                "uid": pod.uid,
                "resourceVersion": pod.version,
                "annotations": {REASON: format!("{LEFT}{words}")},
            },
            "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
        });
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        let write = async {
            let patch = Patch::Strategic(patch);
            api.patch(&pod.name, &params, &patch).await.map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }

    /// Says why a pod waits, as a condition of it.
    pub(super) async fn condition(
        &self,
        term: &Term,
        pod: &Pod,
        reason: &str,
        words: &str,
    ) -> Wrote {
        let patch = json!({
            "metadata": {"uid": pod.uid},
            "status": {"conditions": [{
                "type": "gpuwise.dev/Placed",
                "status": "False",
                "reason": reason,
                "message": words,
                "lastTransitionTime": now_seconds(),
            }]},
        });
        let api: Api<objects::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        let write = async {
            api.patch_status(&pod.name, &params, &Patch::Strategic(patch))
                .await
                .map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }

    /// Says something of a pod, as an event.
    pub(super) async fn event(&self, term: &Term, pod: &Pod, reason: &str, words: &str) -> Wrote {
        let involved = json!({
            "apiVersion": "v1", "kind": "Pod", "name": pod.name,
            "namespace": pod.namespace, "uid": pod.uid,
        });
        let event = event_document(&involved, false, reason, words);
        let Ok(event) = serde_json::from_value::<Said>(event) else {
            return Wrote::Failed("the event is none".into());
        };
        let api: Api<Said> = Api::namespaced(self.client.clone(), &pod.namespace);
        let write = async { api.create(&PostParams::default(), &event).await.map(drop) };
        self.fenced(term, "POST", write).await
    }

    /// Sets the status of an object of ours.
    pub(super) async fn status(
        &self,
        term: &Term,
        api: &Api<kube::api::DynamicObject>,
        name: &str,
        status: &Value,
    ) -> Wrote {
        let patch = json!({"status": status});
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        let write = async {
            api.patch_status(name, &params, &Patch::Merge(patch))
                .await
                .map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }

    /// Writes only while we lead, and not for ever.
    pub(super) async fn fenced(
        &self,
        term: &Term,
        method: &'static str,
        write: impl Future<Output = Result<(), kube::Error>>,
    ) -> Wrote {
        if !term.holds() {
            return Wrote::Fenced;
        }
        let began = Instant::now();
        let answer = timeout(term.longest, write).await;
        let (status, ended) = match answer {
            Ok(Ok(())) => (200, Wrote::Done),
            Ok(Err(kube::Error::Api(error))) => match error.code {
                code @ (404 | 409) => (code, Wrote::Changed),
                429 if error.details.as_ref().is_some_and(is_budget) => {
                    (429, Wrote::Refused(error.message))
                }
                code => (code, Wrote::Failed(error.message)),
            },
            Ok(Err(error)) => (0, Wrote::Failed(error.to_string())),
            Err(_) => (
                0,
                Wrote::Failed(format!(
                    "the API server did not answer in {} s",
                    term.longest.as_secs_f64()
                )),
            ),
        };
        self.metrics
            .wrote(method, status, began.elapsed().as_secs_f64());
        ended
    }
}

/// What is said of an object as an event; `warns`: somebody should look.
pub(super) fn event_document(involved: &Value, warns: bool, reason: &str, words: &str) -> Value {
    let now = now_seconds();
    let name = involved["name"].as_str().unwrap_or_default();
    json!({
        "metadata": {"generateName": format!("{name}."), "namespace": involved["namespace"]},
        "involvedObject": involved,
        "type": if warns { "Warning" } else { "Normal" },
        "reason": reason,
        "message": words,
        "source": {"component": NAME},
        "reportingComponent": NAME,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}

/// Whether what is in the way is a PodDisruptionBudget, and not too many requests.
fn is_budget(details: &StatusDetails) -> bool {
    let causes = details.causes.iter();
    causes
        .into_iter()
        .any(|cause| cause.reason == "DisruptionBudget")
}
