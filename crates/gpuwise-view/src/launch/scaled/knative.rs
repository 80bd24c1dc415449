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
/// How long a request may take where a revision does not say it (`revision-timeout-seconds`).
const TIMEOUT_S: u64 = 300;

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
    .chain([(
        "serving.knative.dev/progress-deadline".to_owned(),
        format!("{}s", deadline_s(scaling)).into(),
    )])
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
        "The volume takes its feature kubernetes.podspec-volumes-emptydir. A replica that does not serve within its",
        "progress-deadline is given up: three starts, and ten minutes at least.",
    ];
    let mut comments = comments.map(str::to_owned).to_vec();
    if scaling.least == 0 && scaling.start_s > TIMEOUT_S {
        comments.push(format!(
            "A start takes {} s, and a request waits {TIMEOUT_S} s for it unless timeoutSeconds says more, up to the",
            scaling.start_s
        ));
        comments
            .push("cluster's max-revision-timeout-seconds: raise both, or say --min 1.".to_owned());
    }
    Ok((comments, vec![object]))
}

/// Within so many seconds a replica that starts is to serve: as many starts as our controller gives it, and no less
/// than Knative does.
fn deadline_s(scaling: &Scaling<'_>) -> u64 {
    scaling.start_s.saturating_mul(3).max(600)
}
