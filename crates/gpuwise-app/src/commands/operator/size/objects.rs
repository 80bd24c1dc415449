//! Objects of a workload: those that `gpuwise plan --emit k8s` and `gpuwise scale emit` write, under its name.

use super::{GPU, LABEL};
use gpuwise_k8s::steer::{PREEMPTIBLE, PRODUCT, SLEEPS_AT, WARM};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How long a Deployment may take until its pods are there: the 30 minutes that an engine's startup probe gives it,
/// and one more.
const DEADLINE_S: u64 = 1860;

/// Objects under the workload's name, with its label, on GPUs of the plan's kind; `replicas` is `None` where something
/// else writes them.
pub(super) fn own(
    objects: &mut [Value],
    name: &str,
    replicas: Option<i32>,
    products: Option<&Vec<String>>,
) {
    let names: Vec<String> = objects
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let shortest = names.iter().map(String::len).min().unwrap_or_default();
    let base = names
        .iter()
        .find(|name| name.len() == shortest)
        .cloned()
        .unwrap_or_default();
    // Pools of prefill and decode are told apart by an ending.
    let pools = names.iter().any(|other| *other != base);
    let base = if pools {
        base.rsplit_once('-')
            .map_or(base.clone(), |(base, _)| base.to_owned())
    } else {
        base
    };
    let renamed: BTreeMap<&str, String> = names
        .iter()
        .map(|old| {
            (
                old.as_str(),
                format!("{name}{}", old.strip_prefix(&base).unwrap_or_default()),
            )
        })
        .collect();
    for object in objects {
        rename(object, &renamed);
        object["metadata"]["labels"][LABEL] = name.into();
        if object["kind"] != "Deployment" {
            continue;
        }
        match (pools, replicas) {
            (true, _) => {}
            (false, Some(replicas)) => object["spec"]["replicas"] = replicas.into(),
            (false, None) => {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.shift_remove("replicas");
                }
            }
        }
        // New pods come before old ones go: nobody is without an answer.
        object["spec"]["strategy"] = json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
        });
        object["spec"]["progressDeadlineSeconds"] = DEADLINE_S.into();
        let template = &mut object["spec"]["template"];
        template["metadata"]["labels"][LABEL] = name.into();
        if let Some(products) = products {
            template["metadata"]["annotations"] = json!({GPU: products.join(",")});
            // kube-scheduler goes by it, too, where no gate holds the pods.
            template["spec"]["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": PRODUCT, "operator": "In", "values": products}],
                }]},
            }});
        }
    }
}

fn rename(value: &mut Value, names: &BTreeMap<&str, String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = names.get(text.as_str()) {
                text.clone_from(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
        _ => {}
    }
}

/// Starts the engine of warm pods so that it can be put to sleep, and says where it is asked.
pub(super) fn sleeps(warm: &mut Value) {
    let template = &mut warm["spec"]["template"];
    let container = &mut template["spec"]["containers"][0];
    let port = container["ports"][0]["containerPort"].to_string();
    if let Some(words) = container["args"].as_array_mut() {
        words.push("--enable-sleep-mode".into());
    }
    if let Some(variables) = container["env"].as_array_mut() {
        // Its endpoints are those of development: whoever reaches the pod may ask them.
        variables.push(json!({"name": "VLLM_SERVER_DEV_MODE", "value": "1"}));
    }
    template["metadata"]["annotations"][SLEEPS_AT] = port.into();
}

/// The Deployment of pods that are kept warm beside it: the same pods, which its Service does not see. `pods` is `None`
/// where something else writes how many; `lend`: whether others may have their GPUs meanwhile.
pub(super) fn warm(objects: &[Value], name: &str, pods: Option<i32>, lend: bool) -> Option<Value> {
    let served =
        |object: &&Value| object["kind"] == "Deployment" && object["metadata"]["name"] == name;
    let mut one = objects.iter().find(served)?.clone();
    let warm = format!("{name}-warm");
    one["metadata"]["name"] = warm.as_str().into();
    one["metadata"]["labels"]["app"] = warm.as_str().into();
    if let Some(pods) = pods {
        one["spec"]["replicas"] = pods.into();
    } else {
        let spec = one["spec"].as_object_mut()?;
        spec.shift_remove("replicas");
    }
    one["spec"]["selector"]["matchLabels"] = json!({"app": warm, WARM: name});
    let labels = &mut one["spec"]["template"]["metadata"]["labels"];
    labels["app"] = warm.as_str().into();
    labels[WARM] = name.into();
    if !lend {
        one["spec"]["template"]["metadata"]["annotations"][PREEMPTIBLE] = "false".into();
    }
    Some(one)
}
