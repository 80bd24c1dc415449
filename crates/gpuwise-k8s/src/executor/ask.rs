//! A lease as pods: one for each worker, on the node that was decided.

use gpuwise_broker::{Broker, Host, Launch, Lease, OrderId, Readiness};
use gpuwise_domain::placement::Assignment;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::{
    Settings,
    devices::{self, Device, Gives},
};

/// Whose log, by when it began.
pub(super) const LOG: &str = "gpuwise.dev/log";
pub(super) const LEASE: &str = "gpuwise.dev/lease";
pub(super) const WORKER: &str = "gpuwise.dev/worker";
pub(super) const ORDER: &str = "gpuwise.dev/order";
const TENANT: &str = "gpuwise.dev/tenant";

/// The container of each pod.
pub(super) const CONTAINER: &str = "worker";

/// How long a pod has to save what it did, where nobody says.
const GRACE: u64 = 30;

/// Whole GPUs, where nothing is known of the node.
pub(super) const WHOLE: &str = "nvidia.com/gpu";

/// What a pod calls its claim.
const CLAIM: &str = "gpus";

/// A pod to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) lease: u32,
    pub(super) worker: usize,
    pub(super) order: OrderId,
    tenant: String,
    pub(super) node: String,
    /// What it is made of, where the lease says it.
    image: Option<String>,
    /// GPUs and parts of them.
    devices: BTreeMap<Device, u32>,
    /// 0: as the namespace has it.
    cpu_milli: u64,
    memory_mib: u64,
    /// Of a service.
    pub(super) service: Option<(u16, Readiness)>,
    words: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// The pods of a lease, or why a cluster cannot be asked so.
pub(super) fn of(
    lease: &Lease,
    order: OrderId,
    assignments: &[Assignment],
    broker: &Broker,
    host: &dyn Host,
    (port, by_claims): (u16, bool),
) -> Result<Vec<Ask>, String> {
    let world = broker.world();
    let asked = world.job(lease.job()).map(|state| &state.job.worker);
    let readiness = lease.ask.service.as_ref().map(Readiness::of);
    let each = assignments.iter().enumerate().map(|(worker, one)| {
        let service = readiness.clone().map(|readiness| (port, readiness));
        let own = std::slice::from_ref(one);
        let port = service.as_ref().map(|(port, _)| *port);
        let launch = Launch::of(lease, own, worker, port, host.trace(lease));
        let node = world.node(one.node);
        Ok(Ask {
            lease: lease.number,
            worker,
            order,
            tenant: lease.ask.tenant.clone(),
            node: node.map_or_else(String::new, |state| state.node.name.clone()),
            image: lease.ask.image.clone(),
            devices: devices::of(one, broker, by_claims)?,
            cpu_milli: asked.map_or(0, |worker| worker.cpu_milli),
            memory_mib: asked.map_or(0, |worker| worker.memory_mib),
            service,
            words: launch.words,
            environment: launch.environment,
        })
    });
    each.collect()
}

/// What a value of a label may be, of any text: up to 63 letters, digits, `-`, `_` and `.`.
fn label(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text: String = text
        .chars()
        .take(63)
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    let edge = |c: char| !c.is_ascii_alphanumeric();
    text.trim_matches(edge).to_owned()
}

/// `$(NAME)` is a variable to Kubernetes, and `$$` a `$`.
fn literally(text: &str) -> String {
    text.replace('$', "$$")
}

fn template(class: &str, count: u32) -> String {
    format!("gpuwise-{count}-{class}")
}

impl Ask {
    /// By what it is known again, whoever looks: a start that is told twice makes one pod.
    pub(super) fn name(&self, log: &str) -> String {
        format!(
            "gpuwise-l{}-w{}-o{}-{log}",
            self.lease, self.worker, self.order.0
        )
    }

    /// The template that the pod's claim is made of, where GPUs are claimed: what its name says and nothing else, so that
    /// one that is there already is it.
    pub(super) fn template(&self, settings: &Settings) -> Option<Value> {
        let (class, count) = self.claimed(settings)?;
        let request = json!({"name": CLAIM, "exactly": {
            "deviceClassName": class, "allocationMode": "ExactCount", "count": count
        }});
        Some(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {
                "name": template(class, count),
                "namespace": settings.namespace,
                "labels": {"app.kubernetes.io/managed-by": "gpuwise"},
            },
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }))
    }

    /// How many devices of which class.
    fn claimed<'a>(&self, settings: &'a Settings) -> Option<(&'a str, u32)> {
        let class = settings.device_class.as_deref()?;
        let count = self.devices.get(&Device::Whole).copied()?;
        Some((class, count))
    }

    /// What it is made of.
    pub(super) fn image<'a>(&'a self, settings: &'a Settings) -> &'a str {
        self.image.as_ref().unwrap_or(&settings.image)
    }

    /// The pod, on a node that gives its GPUs so.
    ///
    /// # Errors
    /// When that node does not give what it has; the text says why.
    pub(super) fn pod(
        &self,
        log: &str,
        gives: Gives,
        settings: &Settings,
    ) -> Result<Value, String> {
        let mut labels = Map::new();
        labels.insert("app.kubernetes.io/managed-by".into(), json!("gpuwise"));
        labels.insert(LOG.into(), json!(log));
        labels.insert(LEASE.into(), json!(format!("L-{}", self.lease)));
        labels.insert(WORKER.into(), json!(self.worker.to_string()));
        labels.insert(ORDER.into(), json!(self.order.0.to_string()));
        labels.insert(TENANT.into(), json!(label(&self.tenant)));
        let here = json!({"key": "metadata.name", "operator": "In", "values": [self.node]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [here]}]
        }}});
        let tolerated =
            |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
        let mut spec = json!({
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE,
            "affinity": affinity,
            "tolerations": [
                tolerated(WHOLE, "NoSchedule"),
                tolerated("amd.com/gpu", "NoSchedule"),
                // Whether a node that does not answer is lost is for the broker to say, not after five minutes.
                tolerated("node.kubernetes.io/not-ready", "NoExecute"),
                tolerated("node.kubernetes.io/unreachable", "NoExecute"),
            ],
            "containers": [self.container(gives, settings)?],
        });
        if let Some(account) = &settings.service_account {
            spec["serviceAccountName"] = json!(account);
        } else {
            // A lease has nothing to say to the API server.
            spec["automountServiceAccountToken"] = json!(false);
        }
        if !settings.pull_secrets.is_empty() {
            let secrets = settings.pull_secrets.iter();
            let secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
            spec["imagePullSecrets"] = json!(secrets);
        }
        if let Some((class, count)) = self.claimed(settings) {
            let claim = json!({"name": CLAIM, "resourceClaimTemplateName": template(class, count)});
            spec["resourceClaims"] = json!([claim]);
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name(log), "namespace": settings.namespace, "labels": labels},
            "spec": spec,
        }))
    }

    fn container(&self, gives: Gives, settings: &Settings) -> Result<Value, String> {
        let mut limits = Map::new();
        let claims = self.claimed(settings).is_some();
        if !claims {
            for (name, count) in gives.resources(&self.devices, &self.node)? {
                limits.insert(name, json!(count.to_string()));
            }
        }
        let mut requests = limits.clone();
        if self.cpu_milli > 0 {
            requests.insert("cpu".into(), json!(format!("{}m", self.cpu_milli)));
        }
        if self.memory_mib > 0 {
            requests.insert("memory".into(), json!(format!("{}Mi", self.memory_mib)));
        }
        let words: Vec<String> = self.words.iter().map(|word| literally(word)).collect();
        let env: Vec<Value> = self
            .environment
            .iter()
            .map(|(name, value)| json!({"name": name, "value": literally(value)}))
            .collect();
        let mut container = json!({
            "name": CONTAINER,
            "image": self.image(settings),
            "command": words,
            "env": env,
            "resources": {"limits": limits, "requests": requests},
        });
        if claims {
            container["resources"]["claims"] = json!([{"name": CLAIM}]);
        }
        if let Some((port, readiness)) = &self.service {
            container["ports"] = json!([{"name": "http", "containerPort": port}]);
            container["readinessProbe"] = json!({
                "httpGet": {"path": readiness.path, "port": port},
                "periodSeconds": 1,
                "timeoutSeconds": 5,
            });
        }
        Ok(container)
    }
}
