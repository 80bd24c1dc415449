//! Values for the Helm chart of llm-d's model service, which starts vLLM in pools of prefill and
//! decode, or in one that does both.
//!
//! Keys as the chart has them at 0.4.12: `charts/llm-d-modelservice/values.yaml` and
//! `templates/_helpers.tpl` of llm-d-incubation/llm-d-modelservice. With `modelCommand: vllmServe` the
//! chart itself writes the model, the port, and the sizes of tensor and data parallelism.

use super::{
    EmitError, Form,
    arguments::{Script, Server},
    containers::image,
    engine_at,
    kubernetes::{name, resource},
    pods::{literal, mounts, ports, probes, resources, shared_gib, volumes},
    shell::comments,
    vendor, within_host, yaml,
};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts, PoolRole, Vendor},
    layout::Layout,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Where the chart has vLLM listen: behind the sidecar of decode pods, and elsewhere.
const BEHIND_SIDECAR: u16 = 8200;
const SERVICE: u16 = 8000;

/// Where NIXL's side channel listens, as the chart's example of two pools has it.
const SIDE_CHANNEL: u16 = 5600;

/// Flags that the chart writes from its own keys.
const BY_CHART: [&str; 3] = ["--tensor-parallel-size", "--data-parallel-size", "--port"];

pub(super) fn values(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    hub_name(&deployment.model)?;
    let image = image(deployment, facts, context)?;
    if facts
        .command(deployment.release)
        .map(|command| command.words.join(" "))
        .as_deref()
        != Some("vllm serve")
    {
        return Err(EmitError::Unsupported {
            engine: engine_at(deployment, facts),
            problem: "llm-d's chart starts `vllm serve`, which this release does not have".into(),
        });
    }
    let pools = script.servers.len() > 1;
    let mut out = comments(script);
    let serves = script
        .servers
        .iter()
        .find(|server| server.role != Some(PoolRole::Prefill));
    let called = serves.map_or_else(String::new, |server| name(deployment, server));
    let called = called.trim_end_matches("-decode");
    let _ = writeln!(
        out,
        "# helm repo add llm-d-modelservice https://llm-d-incubation.github.io/llm-d-modelservice/\n\
         # helm install {called} llm-d-modelservice/llm-d-modelservice -f values.yaml\n\
         # requests come by an InferencePool and a gateway over the label llm-d.ai/model\n\
         # needs: kubectl create secret generic hf-token --from-literal=HF_TOKEN=… (or no authSecretName)"
    );
    let resource = resource(deployment, context);
    let mut root = json!({
        "fullnameOverride": called,
        "multinode": false,
        "modelArtifacts": {
            "name": deployment.model,
            "uri": format!("hf://{}", deployment.model),
            "authSecretName": "hf-token",
            "labels": {
                "llm-d.ai/inference-serving": "true",
                "llm-d.ai/model": called,
            },
        },
        "accelerator": accelerator(context, &resource),
        "routing": {"servicePort": SERVICE, "proxy": {"enabled": pools}},
    });
    for server in &script.servers {
        within_host(deployment, server.gpus)?;
        let prefill = deployment
            .prefill
            .filter(|_| server.role == Some(PoolRole::Prefill));
        let layout = prefill.map_or(deployment.layout, |pool| pool.layout);
        let key = server.pool().unwrap_or("decode");
        root[key] = pool(&image, &resource, server, &layout);
    }
    if !pools {
        root["prefill"] = json!({"create": false});
    }
    out.push_str(&yaml::document(&root));
    Ok(out)
}

/// Refuses what the chart, which writes it without quotes, could not take for a name of the hub.
fn hub_name(model: &str) -> Result<(), EmitError> {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let parts: Vec<&str> = model.split('/').collect();
    if parts.len() <= 2 && parts.into_iter().all(part) {
        return Ok(());
    }
    Err(EmitError::NotInForm {
        form: Form::LlmD.name(),
        problem: format!("takes models of the hub by name, and {model:?} is none"),
        instead:
            "emit k8s and mount the model, or put it on a volume and plan with its name on the hub"
                .into(),
    })
}

fn accelerator(context: &Context, resource: &str) -> Value {
    let kind = match vendor(context) {
        Vendor::Nvidia => "nvidia",
        Vendor::Amd => "amd",
        Vendor::Intel => "intel-i915",
    };
    json!({"type": kind, "resources": {kind: resource}})
}

fn pool(image: &str, resource: &str, server: &Server, layout: &Layout) -> Value {
    let shared = shared_gib(server, 1);
    let port = match server.role {
        Some(PoolRole::Decode) => BEHIND_SIDECAR,
        Some(PoolRole::Prefill) | None => SERVICE,
    };
    let env = if server.role.is_some() {
        json!([
            {
                "name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
                "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
            },
            {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": SIDE_CHANNEL.to_string()},
        ])
    } else {
        json!([])
    };
    let container = json!({
        "name": "vllm",
        "image": image,
        "modelCommand": "vllmServe",
        "args": arguments(server),
        "env": env,
        "ports": ports(port),
        "resources": resources(server, resource, server.gpus, shared),
        // The chart would limit the model's volume to a size that is not known here.
        "mountModelVolume": false,
        "volumeMounts": mounts(),
        "extraConfig": probes(),
    });
    json!({
        "create": true,
        "replicas": server.replicas,
        // A new pod would wait for GPUs that the old one holds.
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        },
        "enableServiceLinks": false,
        "parallelism": {
            "tensor": layout.tensor,
            "data": layout.attention_data.max(1),
            "dataLocal": layout.attention_data.max(1),
            "workers": 1,
        },
        "containers": [container],
        "volumes": volumes(shared),
    })
}

/// Flags but those that the chart writes.
fn arguments(server: &Server) -> Vec<String> {
    server
        .flags
        .iter()
        .filter(|(flag, _)| !BY_CHART.contains(&flag.as_str()))
        .flat_map(|(flag, value)| [Some(flag.as_str()), value.as_deref()])
        .flatten()
        .map(literal)
        .collect()
}
