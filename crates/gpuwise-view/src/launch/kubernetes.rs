//! Kubernetes manifests: a Deployment and a Service for each pool.

use super::{
    EmitError,
    arguments::{Script, Server},
    containers::{entry_point, image, shared_gib},
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

pub(super) fn manifests(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let image = image(deployment, facts, context)?;
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
        workload(&mut out, &name, &image, facts, server, &resource);
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

/// The Deployment of one pool.
fn workload(
    out: &mut String,
    name: &str,
    image: &str,
    facts: &EngineFacts,
    server: &Server,
    resource: &str,
) {
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
      containers:
        - name: server
          image: {image}
",
        replicas = server.replicas,
        image = json!(image)
    );
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
fn resource(deployment: &Deployment, context: &Context) -> String {
    match (vendor(context), &deployment.slice) {
        // `1g.10gb+me` is `mig-1g.10gb.me`: a plus cannot stand in a resource's name.
        (Vendor::Nvidia, Some(slice)) => format!("nvidia.com/mig-{}", slice.replace('+', ".")),
        (Vendor::Nvidia, None) => "nvidia.com/gpu".into(),
        (Vendor::Amd, _) => "amd.com/gpu".into(),
        (Vendor::Intel, _) => "gpu.intel.com/i915".into(),
    }
}

/// A name by DNS rules from the model's: lower case, letters, digits and hyphens, at most 63.
fn name(deployment: &Deployment, server: &Server) -> String {
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
