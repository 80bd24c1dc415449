//! Objects for tests, as a server would write them.

use gpuwise_k8s::{
    inventory::{Change, Fold, Inventory},
    objects,
};
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn node(name: &str, gpus: u32) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {
            "name": name, "uid": format!("n-{name}"), "resourceVersion": "1",
            "labels": {
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": gpus.to_string(),
                "topology.kubernetes.io/zone": "a",
            },
        },
        "spec": {},
        "status": {
            "capacity": { "cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": gpus.to_string() },
            "allocatable": { "cpu": "95500m", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string() },
            "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-26T10:00:00Z" }],
        },
    })
}

pub(crate) fn pod(name: &str, on: Option<&str>, gpus: u32) -> Value {
    let mut out = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("p-{name}"), "resourceVersion": "1",
            "creationTimestamp": "2026-11-26T10:00:00Z", "labels": { "app": "chat" },
            "managedFields": [{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": { "containers": [{
            "name": "c", "image": "x",
            "resources": {
                "limits": { "nvidia.com/gpu": gpus.to_string() },
                "requests": { "cpu": "4", "memory": "32Gi", "nvidia.com/gpu": gpus.to_string() },
            },
        }] },
        "status": { "phase": "Pending" },
    });
    if let Some(on) = on {
        out["spec"]["nodeName"] = on.into();
        out["status"] =
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    }
    out
}

/// A change of the object with this version.
pub(crate) fn at(mut object: Value, version: u64) -> Value {
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object
}

pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("an object of the API")
}

/// The event of an object by its kind.
pub(crate) fn applied(object: &Value) -> Change {
    event(object, true)
}

pub(crate) fn deleted(object: &Value) -> Change {
    event(object, false)
}

fn event(object: &Value, there: bool) -> Change {
    fn of<T: DeserializeOwned>(object: &Value, there: bool) -> Event<T> {
        if there {
            Event::Apply(read(object))
        } else {
            Event::Delete(read(object))
        }
    }
    match object["kind"].as_str().expect("a kind") {
        "Node" => Change::Node(of(object, there)),
        "Pod" => Change::Pod(of(object, there)),
        "ReplicaSet" => Change::ReplicaSet(of(object, there)),
        "StatefulSet" => Change::StatefulSet(of(object, there)),
        "Job" => Change::Job(of(object, there)),
        "ResourceQuota" => Change::Quota(of(object, there)),
        "PodDisruptionBudget" => Change::Budget(of(object, there)),
        "PodGroup" => Change::PodGroup(of(object, there)),
        "ResourceSlice" => Change::Slice(of(object, there)),
        "DeviceClass" => Change::Class(of(object, there)),
        "ResourceClaim" => Change::Claim(of(object, there)),
        "ResourceClaimTemplate" => Change::Template(of(object, there)),
        other => panic!("no kind {other}"),
    }
}

/// The inventory of these.
pub(crate) fn inventory(objects: &[Value]) -> Inventory {
    let mut fold = Fold::new();
    for object in objects {
        fold.apply(applied(object));
    }
    fold.inventory().clone()
}

pub(crate) fn quantity(
    text: &str,
) -> (
    Result<u64, objects::QuantityError>,
    Result<u64, objects::QuantityError>,
) {
    (objects::milli(text), objects::whole(text))
}
