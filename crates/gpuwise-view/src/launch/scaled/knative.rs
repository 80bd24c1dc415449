//! A Service of Knative (`serving.knative.dev/v1`) with what its autoscaler (KPA) goes by.

use super::{
    super::{
        EmitError,
        arguments::Server,
        containers::{entry_point, image},
        engine_at,
        kubernetes::resource,
        pods::{literal, mounts, resources, shared_gib, token, volumes},
    },
    Scaling,
};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts},
};
use serde_json::{Value, json};

/// Knative keeps a replica for an hour at most before it goes.
const LONGEST_S: u64 = 3600;

pub(super) fn service(
    name: &str,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
    server: &Server,
    scaling: &Scaling<'_>,
) -> Result<(Vec<String>, Vec<Value>), EmitError> {
    if server.file.is_some() {
        return Err(EmitError::Unsupported {
            engine: engine_at(deployment, facts),
            problem: "it reads settings from a file, which is not written for Knative; emit keda"
                .into(),
        });
    }
    let image = image(deployment, facts, context)?;
    let resource = resource(deployment, context);
    let shared = shared_gib(server, 1);
    let (entry, rest) = entry_point(facts, server);
    let words = rest.iter().map(String::as_str).chain(server.arguments());
    let mut container = json!({
        "name": "server",
        "image": image,
        "args": words.map(literal).collect::<Vec<String>>(),
        "ports": [{"containerPort": server.port}],
        "env": [token()],
        "resources": resources(server, &resource, server.gpus, shared),
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": server.port},
            "periodSeconds": 5,
        },
        "volumeMounts": mounts(),
    });
    if let (Some(entry), Value::Object(container)) = (entry, &mut container) {
        container.insert("command".into(), json!([literal(entry)]));
    }
    let key = |name: &str| format!("autoscaling.knative.dev/{name}");
    let annotations: serde_json::Map<String, Value> = [
        ("class", "kpa.autoscaling.knative.dev".to_owned()),
        ("metric", "rps".to_owned()),
        ("target", scaling.rate_text()),
        ("target-utilization-percentage", "100".to_owned()),
        ("min-scale", scaling.least.to_string()),
        ("max-scale", scaling.most.to_string()),
        (
            "scale-down-delay",
            format!("{}s", scaling.hold_s.min(LONGEST_S)),
        ),
        (
            "scale-to-zero-pod-retention-period",
            format!("{}s", scaling.idle_s.min(LONGEST_S)),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (key(name), value.into()))
    .collect();
    let object = json!({
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": scaling.namespace},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "containers": [container],
                    "volumes": volumes(shared),
                },
            },
        },
    });
    let comments = [
        "Knative's autoscaler counts requests itself and has no forecast; it holds requests while a replica starts.",
        "The volume takes its feature kubernetes.podspec-volumes-emptydir. Models that load for more than ten",
        "minutes need a longer progress-deadline (serving.knative.dev/progress-deadline).",
    ];
    Ok((comments.map(str::to_owned).to_vec(), vec![object]))
}
