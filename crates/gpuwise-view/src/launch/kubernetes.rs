//! Kubernetes manifests: a Deployment and a Service for each pool.

use super::{
    EmitError,
    arguments::{Script, Server},
    containers::{SHARED_MEMORY, entry_point, image},
    shell::comments,
    vendor, within_host,
};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts, Vendor},
};
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
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  {file}: |\n"
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
            "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  selector:\n    app: {name}\n  \
             ports:\n    - name: http\n      port: {0}\n      targetPort: http\n",
            server.port
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
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  labels:\n    app: {name}\nspec:\n  \
         replicas: {}\n  selector:\n    matchLabels:\n      app: {name}\n  strategy:\n    # A new pod would wait for \
         GPUs that the old one holds.\n    rollingUpdate:\n      maxSurge: 0\n      maxUnavailable: 1\n  template:\n    \
         metadata:\n      labels:\n        app: {name}\n    spec:\n      containers:\n        - name: server\n          \
         image: {}\n",
        server.replicas,
        json!(image)
    );
    let (entry, rest) = entry_point(facts, server);
    if let Some(entry) = entry {
        let _ = writeln!(out, "          command: [{}]", json!(entry));
    }
    out.push_str("          args:\n");
    let words = rest.iter().map(String::as_str).chain(server.arguments());
    for word in words {
        let _ = writeln!(out, "            - {}", json!(word));
    }
    let _ = write!(
        out,
        "          ports:\n            - name: http\n              containerPort: {}\n          env:\n            - \
         name: HF_TOKEN\n              valueFrom:\n                secretKeyRef:\n                  name: hf-token\n                  \
         key: token\n                  optional: true\n          resources:\n            requests:\n              \
         {resource}: {gpus}\n            limits:\n              {resource}: {gpus}\n",
        server.port,
        gpus = server.gpus,
    );
    // Loading takes minutes; afterwards a server answers at once.
    for (probe, period, failures) in [
        ("startup", 10, 180),
        ("readiness", 5, 3),
        ("liveness", 10, 6),
    ] {
        let _ = write!(
            out,
            "          {probe}Probe:\n            httpGet:\n              path: /health\n              port: http\n            \
             periodSeconds: {period}\n            failureThreshold: {failures}\n"
        );
    }
    out.push_str(
        "          volumeMounts:\n            - name: shm\n              mountPath: /dev/shm\n",
    );
    if server.file.is_some() {
        out.push_str("            - name: config\n              mountPath: /config\n");
    }
    let _ = write!(
        out,
        "      volumes:\n        - name: shm\n          emptyDir:\n            medium: Memory\n            sizeLimit: {}\n",
        SHARED_MEMORY.1
    );
    if server.file.is_some() {
        let _ = write!(
            out,
            "        - name: config\n          configMap:\n            name: {name}\n"
        );
    }
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
