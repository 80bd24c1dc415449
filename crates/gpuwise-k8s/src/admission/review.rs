//! An AdmissionReview in, an AdmissionReview out: a function of its arguments. It never refuses a pod.

use crate::steer::{Ask, GATE, Names, Said, Unclear, ask, is_accelerator};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

/// The label of namespaces whose pods are gated, with the value `true`.
pub const NAMESPACE_LABEL: &str = "gpuwise.dev/managed";
/// When the gate was put on, by the webhook's clock (RFC 3339 with milliseconds).
pub const GATED_AT: &str = "gpuwise.dev/gated-at";
/// Why a pod that asks for GPUs got no gate.
pub const WARNING: &str = "gpuwise.dev/warning";

/// What is read of a review.
#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    object: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<Names>,
    labels: Option<Names>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    node_selector: Option<Names>,
    node_name: Option<String>,
    scheduler_name: Option<String>,
    scheduling_gates: Option<Vec<Gate>>,
    scheduling_group: Option<Group>,
    affinity: Option<Affinity>,
    topology_spread_constraints: Option<Vec<serde::de::IgnoredAny>>,
    resource_claims: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    pod_affinity: Option<serde::de::IgnoredAny>,
    pod_anti_affinity: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    limits: Option<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
struct Gate {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    pod_group_name: Option<String>,
}

/// Answers a review. `now` is written into pods that are gated; `knows` says whether the cluster has such a
/// product. `None`: it is no review, and nobody can be answered.
pub fn review(body: &[u8], now: &str, knows: &dyn Fn(&str) -> bool) -> Option<Value> {
    let review: Review = serde_json::from_slice(body).ok()?;
    let request = review.request;
    let mut warnings = Vec::new();
    let mut patch = Vec::new();
    if request.operation.is_empty() || request.operation == "CREATE" {
        match serde_json::from_value::<Pod>(request.object) {
            Ok(pod) => changes(&pod, now, knows, &mut patch, &mut warnings),
            Err(error) => warnings.push(format!("gpuwise leaves this pod as it is: {error}")),
        }
    }
    let mut response = json!({"uid": request.uid, "allowed": true});
    if let Some(response) = response.as_object_mut() {
        if !patch.is_empty() {
            let text = Value::Array(patch).to_string();
            response.insert("patchType".into(), "JSONPatch".into());
            response.insert("patch".into(), STANDARD.encode(text).into());
        }
        if !warnings.is_empty() {
            response.insert("warnings".into(), json!(warnings));
        }
    }
    Some(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

/// What the API server puts into one answer of warnings, in bytes, with room to spare.
const LONGEST: usize = 240;

fn changes(
    pod: &Pod,
    now: &str,
    knows: &dyn Fn(&str) -> bool,
    patch: &mut Vec<Value>,
    warnings: &mut Vec<String>,
) {
    let gates = pod.spec.scheduling_gates.as_deref().unwrap_or_default();
    let scheduler = pod.spec.scheduler_name.as_deref().unwrap_or_default();
    // Who has it already was gated by its template; another scheduler's pods are that one's.
    if pod.spec.node_name.is_some()
        || !matches!(scheduler, "" | "default-scheduler")
        || gates.iter().any(|gate| gate.name == GATE)
    {
        return;
    }
    match asked(pod) {
        Ok(None) => {}
        Ok(Some(ask)) => {
            patch.push(match &pod.spec.scheduling_gates {
                None => {
                    json!({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]})
                }
                Some(_) => {
                    json!({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}})
                }
            });
            annotate(pod, GATED_AT, now, patch);
            let strange = ask.products.iter().filter(|product| !knows(product));
            for product in strange {
                warnings.push(format!(
                    "gpuwise: no node has the GPU {product} now; this pod waits until one has"
                ));
            }
        }
        Err(why) => {
            let text = format!("gpuwise leaves this pod to kube-scheduler: {why}");
            annotate(pod, WARNING, &text, patch);
            warnings.push(text);
        }
    }
    for text in warnings {
        let end = text
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= LONGEST);
        text.truncate(end.unwrap_or(text.len()));
    }
}

fn asked(pod: &Pod) -> Result<Option<Ask>, Unclear> {
    let empty = Names::new();
    let mut owned = Vec::new();
    for container in &pod.spec.containers {
        for (name, quantity) in container.resources.limits.iter().flatten() {
            let text = match quantity {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            owned.push((name.as_str(), text));
        }
    }
    let resources: Vec<(&str, &str)> = owned
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    // What claims are for is not said in the pod: who decides has them before its eyes, and lets go of what is no GPU.
    let counted = resources.iter().any(|(name, _)| is_accelerator(name));
    let claims = pod.spec.resource_claims.as_ref();
    let claims = claims.is_some_and(|all| !all.is_empty());
    ask(Said {
        resources: &resources,
        annotations: pod.metadata.annotations.as_ref().unwrap_or(&empty),
        labels: pod.metadata.labels.as_ref().unwrap_or(&empty),
        node_selector: pod.spec.node_selector.as_ref().unwrap_or(&empty),
        pod_group: pod
            .spec
            .scheduling_group
            .as_ref()
            .and_then(|group| group.pod_group_name.as_deref()),
        minds_others: minds_others(&pod.spec),
        devices: (claims && !counted).then_some(("resourceClaims", 1)),
    })
}

fn minds_others(spec: &Spec) -> bool {
    let affinity = spec.affinity.as_ref();
    let beside = |of: &Affinity| of.pod_affinity.is_some() || of.pod_anti_affinity.is_some();
    affinity.is_some_and(beside)
        || spec
            .topology_spread_constraints
            .as_ref()
            .is_some_and(|all| !all.is_empty())
}

/// Adds an annotation, and the place for it where there is none.
fn annotate(pod: &Pod, key: &str, value: &str, patch: &mut Vec<Value>) {
    if pod.metadata.annotations.is_none() {
        patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": {key: value}}));
        return;
    }
    let key = key.replace('~', "~0").replace('/', "~1");
    let at = format!("/metadata/annotations/{key}");
    patch.push(json!({"op": "add", "path": at, "value": value}));
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "values are written where they are used"
)]
mod tests;
