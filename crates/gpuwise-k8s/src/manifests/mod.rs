//! What is installed into a cluster: definitions, an account with the least rights, the operator and its webhook.

mod rights;
#[cfg(test)]
mod tests;
mod yaml;

pub use rights::{Right, Scope, rights, rights_table};
pub(crate) use yaml::documents;
pub use yaml::{NoManifest, read};

use crate::{
    admission::{NAMESPACE_LABEL, WEBHOOK_PATH},
    resources::definitions,
};
use serde_json::{Value, json};

gpuwise_units::named! {
    /// How much the operator may do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Mode: name {
        /// Reads, and keeps the status of its own objects; nothing else is written.
        Observe = "observe",
        /// Says of pods that wait where they would be placed, or why they wait: events and conditions.
        Propose = "propose",
        /// Takes gates off pods and says on which node; makes what a GpuWorkload asks for.
        Act = "act",
    }
}

/// Name of all that is installed.
pub const NAME: &str = "gpuwise-operator";
/// The secret with the webhook's certificate.
pub const SECRET: &str = "gpuwise-webhook-tls";
/// The lease by which one operator leads.
pub const LEASE: &str = "gpuwise-operator";
/// The Service before the webhook.
pub const SERVICE: &str = "gpuwise-operator";
/// Where the operator answers of its health and its figures.
pub const HEALTH_PORT: u16 = 8080;
pub const WEBHOOK_PORT: u16 = 9443;

/// What is to be installed.
#[derive(Debug, Clone)]
pub struct Installation {
    pub namespace: String,
    pub mode: Mode,
    pub image: String,
    pub replicas: u32,
    /// Where the API server reaches the webhook, where that is not by the Service.
    pub webhook_url: Option<String>,
    /// The Prometheus that it asks what workloads do.
    pub prometheus: Option<String>,
    /// The collector that it tells traces.
    pub otlp: Option<String>,
}

impl Installation {
    /// All objects, in the order in which they are to be created.
    pub fn objects(&self) -> Vec<Value> {
        let mut all = vec![self.namespace_object()];
        all.extend(definitions());
        all.push(self.named("v1", "ServiceAccount", json!({})));
        all.extend(rights::objects(self));
        all.push(self.deployment());
        all.push(self.service());
        all.push(self.budget());
        if self.mode == Mode::Act {
            all.push(self.webhook());
        }
        all
    }

    /// The same as one file for `kubectl apply`.
    pub fn yaml(&self) -> String {
        yaml::documents(&self.objects())
    }

    fn named(&self, version: &str, kind: &str, rest: Value) -> Value {
        let mut object = json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": NAME, "namespace": self.namespace, "labels": labels()},
        });
        if let (Value::Object(all), Value::Object(rest)) = (&mut object, rest) {
            all.extend(rest);
        }
        object
    }

    fn namespace_object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": self.namespace,
                "labels": {
                    "app.kubernetes.io/name": "gpuwise",
                    "pod-security.kubernetes.io/enforce": "restricted",
                },
            },
        })
    }

    fn deployment(&self) -> Value {
        let mut args = vec![
            json!("operator"),
            json!("run"),
            json!(format!("--mode={}", self.mode.name())),
            json!(format!("--namespace={}", self.namespace)),
            json!(format!("--listen=0.0.0.0:{HEALTH_PORT}")),
        ];
        let prometheus = self.prometheus.iter();
        args.extend(prometheus.map(|url| json!(format!("--prometheus={url}"))));
        let otlp = self.otlp.iter();
        args.extend(otlp.map(|url| json!(format!("--otlp={url}"))));
        let mut ports = vec![json!({"name": "health", "containerPort": HEALTH_PORT})];
        if self.mode == Mode::Act {
            args.push(json!(format!("--webhook=0.0.0.0:{WEBHOOK_PORT}")));
            ports.push(json!({"name": "webhook", "containerPort": WEBHOOK_PORT}));
        }
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
        let container = json!({
            "name": "operator",
            "image": self.image,
            "args": args,
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": ports,
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        });
        self.named(
            "apps/v1",
            "Deployment",
            json!({"spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selector()},
                "template": {
                    "metadata": {"labels": labels()},
                    "spec": {
                        "serviceAccountName": NAME,
                        "priorityClassName": "system-cluster-critical",
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": 65532,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": selector()},
                        }],
                        "containers": [container],
                    },
                },
            }}),
        )
    }

    fn service(&self) -> Value {
        let mut ports =
            vec![json!({"name": "metrics", "port": HEALTH_PORT, "targetPort": "health"})];
        if self.mode == Mode::Act {
            ports.push(json!({"name": "webhook", "port": 443, "targetPort": "webhook"}));
        }
        self.named(
            "v1",
            "Service",
            json!({"spec": {"selector": selector(), "ports": ports}}),
        )
    }

    fn budget(&self) -> Value {
        self.named(
            "policy/v1",
            "PodDisruptionBudget",
            json!({"spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": selector()},
            }}),
        )
    }

    /// The webhook. Who cannot reach it gets pods without a gate, and kube-scheduler places them as always.
    fn webhook(&self) -> Value {
        let client = match &self.webhook_url {
            Some(url) => json!({"url": format!("{}{WEBHOOK_PATH}", url.trim_end_matches('/'))}),
            None => json!({"service": {
                "name": SERVICE, "namespace": self.namespace, "path": WEBHOOK_PATH, "port": 443,
            }}),
        };
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME, "labels": labels()},
            "webhooks": [{
                "name": "pods.gpuwise.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "Never",
                "matchPolicy": "Equivalent",
                "timeoutSeconds": 2,
                // The operator puts the authority's certificate beside it, and keeps it up to date.
                "clientConfig": client,
                "rules": [{
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }],
                "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: "true"}},
                // Pods that are bound already, as those of DaemonSets' own making, are nobody's to place.
                "matchConditions": [{"name": "not-bound", "expression": "!has(object.spec.nodeName)"}],
            }],
        })
    }
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "gpuwise", "app.kubernetes.io/component": "operator"})
}

fn selector() -> Value {
    labels()
}
