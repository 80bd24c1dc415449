//! Kubernetes manifests: for each pool a Deployment and a Service, or an InferenceService of KServe.

use super::{
    EmitError,
    arguments::{Script, Server},
    containers::{entry_point, image, shared_gib},
    engine_at,
    shell::comments,
    vendor, within_host,
};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts, Vendor},
};
use gpuwise_units::Bytes;
use serde_json::json;
use std::fmt::Write as _;

/// What runs the containers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A Deployment behind a Service.
    Pods,
    /// An InferenceService of KServe (`serving.kserve.io/v1beta1`) with a container of its own; it
    /// routes to the port by itself.
    InferenceService,
}

pub(super) fn manifests(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
    kind: Kind,
) -> Result<String, EmitError> {
    let image = image(deployment, facts, context)?;
    if kind == Kind::InferenceService && script.servers.len() > 1 {
        return Err(EmitError::Unsupported {
            engine: engine_at(deployment, facts),
            problem:
                "pools of prefill and decode find one another by services of their own; emit k8s"
                    .into(),
        });
    }
    let mut out = comments(script);
    out.push_str(
        "# gated models need: kubectl create secret generic hf-token --from-literal=token=…\n",
    );
    for (index, server) in script.servers.iter().enumerate() {
        within_host(deployment, server.gpus)?;
        let name = name(deployment, server);
        if index > 0 {
            out.push_str("---\n");
        }
        if let Some((file, text)) = &server.file {
            let _ = write!(
                out,
                r"apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
  {file}: |
"
            );
            for line in text.lines() {
                let _ = writeln!(out, "    {line}");
            }
            out.push_str("---\n");
        }
        let resource = resource(deployment, context);
        match kind {
            Kind::Pods => pods(&mut out, &name, server),
            Kind::InferenceService => inference_service(&mut out, &name, server),
        }
        container(&mut out, &name, &image, facts, server, &resource, kind);
        if kind == Kind::InferenceService {
            continue;
        }
        let _ = write!(
            out,
            r"---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector:
    app: {name}
  ports:
    - name: http
      port: {port}
      targetPort: http
",
            port = server.port
        );
    }
    Ok(out)
}

/// The Deployment of one pool, up to its container.
fn pods(out: &mut String, name: &str, server: &Server) {
    let _ = write!(
        out,
        r"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels:
    app: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: {name}
  strategy:
    # A new pod would wait for GPUs that the old one holds.
    rollingUpdate:
      maxSurge: 0
      maxUnavailable: 1
  template:
    metadata:
      labels:
        app: {name}
    spec:
      # Variables of a service that is named like an engine would set its port.
      enableServiceLinks: false
",
        replicas = server.replicas,
    );
}

/// The InferenceService of one pool, up to its container.
fn inference_service(out: &mut String, name: &str, server: &Server) {
    let _ = write!(
        out,
        r"apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {name}
spec:
  predictor:
    # What was sized; without scaling by load, as the plan has none.
    minReplicas: {replicas}
    maxReplicas: {replicas}
",
        replicas = server.replicas,
    );
}

/// The container of a pool with its volumes, as deep as its kind has it.
fn container(
    out: &mut String,
    name: &str,
    image: &str,
    facts: &EngineFacts,
    server: &Server,
    resource: &str,
    kind: Kind,
) {
    let mut text = String::new();
    let called = match kind {
        Kind::Pods => "server",
        // KServe adds to the container of this name.
        Kind::InferenceService => "kserve-container",
    };
    let _ = write!(
        text,
        "      containers:\n        - name: {called}\n          image: {}\n",
        json!(image)
    );
    container_text(&mut text, name, facts, server, resource);
    // The text is that of a pod's template, which lies two deeper than a predictor.
    let less = match kind {
        Kind::Pods => 0,
        Kind::InferenceService => 2,
    };
    for line in text.lines() {
        out.push_str(line.get(less..).unwrap_or(line));
        out.push('\n');
    }
}

fn container_text(
    out: &mut String,
    name: &str,
    facts: &EngineFacts,
    server: &Server,
    resource: &str,
) {
    let (entry, rest) = entry_point(facts, server);
    if let Some(entry) = entry {
        let _ = writeln!(out, "          command: [{}]", json!(entry));
    }
    out.push_str("          args:\n");
    for word in rest.iter().map(String::as_str).chain(server.arguments()) {
        let _ = writeln!(out, "            - {}", json!(word));
    }
    surroundings(out, server, resource);
    if server.file.is_some() {
        let _ = write!(
            out,
            r"        - name: config
          configMap:
            name: {name}
"
        );
    }
}

/// Ports, token, GPUs, probes and volumes of a container; the volumes come last.
fn surroundings(out: &mut String, server: &Server, resource: &str) {
    let _ = write!(
        out,
        r"          ports:
            - name: http
              containerPort: {port}
          env:
            - name: HF_TOKEN
              valueFrom:
                secretKeyRef:
                  name: hf-token
                  key: token
                  optional: true
          resources:
            requests:
{memory}              {resource}: {gpus}
            limits:
              {resource}: {gpus}
",
        port = server.port,
        gpus = server.gpus,
        memory = memory(server),
    );
    // Loading takes minutes; afterwards a server answers at once.
    for (probe, period, failures) in [
        ("startup", 10, 180),
        ("readiness", 5, 3),
        ("liveness", 10, 6),
    ] {
        let _ = write!(
            out,
            r"          {probe}Probe:
            httpGet:
              path: /health
              port: http
            periodSeconds: {period}
            failureThreshold: {failures}
"
        );
    }
    let mounts: &[(&str, &str)] = match server.file {
        Some(_) => &[("shm", "/dev/shm"), ("config", "/config")],
        None => &[("shm", "/dev/shm")],
    };
    out.push_str("          volumeMounts:\n");
    for (name, path) in mounts {
        let _ = writeln!(
            out,
            "            - name: {name}\n              mountPath: {path}"
        );
    }
    let _ = write!(
        out,
        r"      volumes:
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: {}Gi
",
        shared_gib(server)
    );
}

/// The host memory that a pod needs for certain, where prefixes are kept there.
fn memory(server: &Server) -> String {
    if server.host_cache == Bytes::ZERO {
        return String::new();
    }
    format!(
        "              # Prefixes kept on the host, and shared memory; the engine's own comes on top.\n              memory: {}Gi\n",
        shared_gib(server)
    )
}

/// What a pod asks for: whole GPUs or slices, as device plugins name them.
pub(super) fn resource(deployment: &Deployment, context: &Context) -> String {
    match (vendor(context), &deployment.slice) {
        // `1g.10gb+me` is `mig-1g.10gb.me`: a plus cannot stand in a resource's name.
        (Vendor::Nvidia, Some(slice)) => format!("nvidia.com/mig-{}", slice.replace('+', ".")),
        (Vendor::Nvidia, None) => "nvidia.com/gpu".into(),
        (Vendor::Amd, _) => "amd.com/gpu".into(),
        (Vendor::Intel, _) => "gpu.intel.com/i915".into(),
    }
}

/// A name by DNS rules from the model's: lower case, letters, digits and hyphens, at most 63.
pub(super) fn name(deployment: &Deployment, server: &Server) -> String {
    let base = deployment
        .model
        .rsplit('/')
        .next()
        .unwrap_or(&deployment.model);
    let mut name = String::new();
    for c in base.chars().take(48).map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    // It has to begin with a letter.
    let prefix = if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        ""
    } else {
        "model-"
    };
    let pool = server
        .pool()
        .map_or(String::new(), |pool| format!("-{pool}"));
    format!(
        "{prefix}{}{pool}",
        if name.is_empty() { "server" } else { name }
    )
}
