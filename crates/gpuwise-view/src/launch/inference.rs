//! A pool of the Gateway API's inference extension: a Deployment of engines, the InferencePool of its pods, the
//! endpoint picker that a gateway asks (`gpuwise epp`), and a route to the pool.
//!
//! Fields as `inference.networking.k8s.io/v1` (1.0.0) and `gateway.networking.k8s.io/v1` (1.4.0) have them.

use super::{EmitError, Form, arguments::Script, kubernetes, yaml};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts},
};
use serde_json::{Value, json};

/// Where the picker is asked, and where it answers figures.
const PICKER: u16 = 9002;
const FIGURES: u16 = 9090;

/// The image of the picker: this program's.
const IMAGE: &str = concat!("ghcr.io/gpuwise/gpuwise:", env!("CARGO_PKG_VERSION"));

/// Groups of InferenceObjectives: the extension's, and llm-d's, which took them on.
const OBJECTIVES: [&str; 2] = ["inference.networking.x-k8s.io", "llm-d.ai"];

const GROUP: &str = "inference.networking.k8s.io";

pub(super) fn manifests(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let [server] = script.servers.as_slice() else {
        return Err(EmitError::NotInForm {
            form: Form::Inference.name(),
            problem: "is for engines that do both prefill and decode".into(),
            instead: "emit llm-d, whose sidecar finds the prefill of each request".into(),
        });
    };
    let kind = kubernetes::Kind::Pods;
    let mut out = kubernetes::manifests(script, deployment, facts, context, kind)?;
    let name = kubernetes::name(deployment, server);
    let picker = format!("{name}-epp");
    let pool = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "targetPorts": [{"number": server.port}],
            // Where nobody picks, a gateway spreads requests by itself.
            "endpointPickerRef": {"name": picker, "port": {"number": PICKER}, "failureMode": "FailOpen"},
        },
    });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name},
        "spec": {
            "parentRefs": [{"name": "inference-gateway"}],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                "backendRefs": [{"group": GROUP, "kind": "InferencePool", "name": name}],
                // Long answers are streamed for minutes.
                "timeouts": {"request": "0s"},
            }],
        },
    });
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": picker}});
    let parts = [
        vec![pool, account],
        rights(&picker, &name),
        vec![endpoint_picker(&picker, &name), service(&picker)],
    ];
    for object in parts.iter().flatten() {
        out.push_str("---\n");
        out.push_str(&yaml::document(object));
    }
    out.push_str(
        "---\n# of a Gateway named inference-gateway, whose controller knows InferencePools\n",
    );
    out.push_str(&yaml::document(&route));
    Ok(out)
}

/// The least that a picker needs: to see its pool, and pods and objectives of its namespace.
fn rights(picker: &str, pool: &str) -> Vec<Value> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": picker},
        "rules": [
            {"apiGroups": [GROUP], "resources": ["inferencepools"], "resourceNames": [pool], "verbs": ["get", "list", "watch"]},
            {"apiGroups": OBJECTIVES, "resources": ["inferenceobjectives"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": picker},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": picker},
        "subjects": [{"kind": "ServiceAccount", "name": picker}],
    });
    vec![role, binding]
}

fn endpoint_picker(picker: &str, pool: &str) -> Value {
    let probe = |service: &str, period: u32| json!({"grpc": {"port": PICKER, "service": service}, "periodSeconds": period});
    let container = json!({
        "name": "epp",
        "image": IMAGE,
        "args": [
            "epp",
            "--pool", format!("$(NAMESPACE)/{pool}"),
            "--listen", format!("0.0.0.0:{PICKER}"),
            "--metrics", format!("0.0.0.0:{FIGURES}"),
        ],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [
            {"name": "grpc", "containerPort": PICKER},
            {"name": "metrics", "containerPort": FIGURES},
        ],
        "readinessProbe": probe("readiness", 2),
        "livenessProbe": probe("liveness", 10),
        "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": 65532,
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": picker, "labels": {"app": picker}},
        "spec": {
            // It remembers what was sent where: two would know half each.
            "replicas": 1,
            "selector": {"matchLabels": {"app": picker}},
            "template": {
                "metadata": {"labels": {"app": picker}},
                "spec": {"serviceAccountName": picker, "containers": [container]},
            },
        },
    })
}

fn service(picker: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": picker},
        "spec": {
            "selector": {"app": picker},
            "ports": [{"name": "grpc", "port": PICKER, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"}],
        },
    })
}
