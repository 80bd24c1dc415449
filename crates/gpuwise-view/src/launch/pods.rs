//! What containers of a server have in Kubernetes, as values: for the forms that are written whole.

use super::{arguments::Server, containers::SHARED_MEMORY};
use gpuwise_units::Bytes;
use serde_json::{Map, Value, json};

/// A word as Kubernetes hands it on: `$(NAME)` would be a variable.
pub(super) fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

/// Shared memory of each of so many containers that make up a server, in GiB.
pub(super) fn shared_gib(server: &Server, containers: u32) -> u64 {
    let each = server
        .host_cache
        .count()
        .div_ceil(u64::from(containers.max(1)));
    SHARED_MEMORY + each.div_ceil(1 << 30)
}

/// GPUs as requests and limits; with prefixes kept on the host, the memory that takes for certain.
pub(super) fn resources(server: &Server, resource: &str, gpus: u32, shared_gib: u64) -> Value {
    let count = json!({ resource: gpus });
    let mut requests = Map::new();
    if server.host_cache > Bytes::ZERO {
        requests.insert("memory".into(), format!("{shared_gib}Gi").into());
    }
    requests.insert(resource.into(), gpus.into());
    json!({"requests": requests, "limits": count})
}

/// Probes of a server that answers at `/health` once it has loaded, which takes minutes.
pub(super) fn probes() -> Map<String, Value> {
    [
        ("startup", 10, 180),
        ("readiness", 5, 3),
        ("liveness", 10, 6),
    ]
    .into_iter()
    .map(|(probe, period, failures)| {
        let asked = json!({
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": period,
            "failureThreshold": failures,
        });
        (format!("{probe}Probe"), asked)
    })
    .collect()
}

pub(super) fn ports(port: u16) -> Value {
    json!([{"name": "http", "containerPort": port}])
}

/// The token for gated models, from a secret that need not be there.
pub(super) fn token() -> Value {
    let key = json!({"name": "hf-token", "key": "token", "optional": true});
    json!({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}})
}

/// Where ranks of a server exchange messages.
pub(super) fn mounts() -> Value {
    json!([{"name": "shm", "mountPath": "/dev/shm"}])
}

/// The volume that is mounted there.
pub(super) fn volumes(shared_gib: u64) -> Value {
    let memory = json!({"medium": "Memory", "sizeLimit": format!("{shared_gib}Gi")});
    json!([{"name": "shm", "emptyDir": memory}])
}
