//! What the operator's account may do, mode by mode, and why.

use super::{Installation, LEASE, Mode, NAME, SECRET};
use crate::resources::GROUP;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    /// In the operator's own namespace alone.
    Own,
}

/// One right, from which mode on it is given, and what for.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    pub from: Mode,
    pub scope: Scope,
    pub group: &'static str,
    pub resources: &'static [&'static str],
    /// Only these; empty: all.
    pub names: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub why: &'static str,
}

const READ: &[&str] = &["get", "list", "watch"];

/// All rights there are, in the order of modes.
pub const fn rights() -> &'static [Right] {
    RIGHTS
}

const RIGHTS: &[Right] = &[
    cluster(
        Mode::Observe,
        "",
        &["nodes", "pods"],
        READ,
        "what there is, who runs where, who waits",
    ),
    cluster(
        Mode::Observe,
        "scheduling.k8s.io",
        &["podgroups"],
        READ,
        "which pods start together",
    ),
    cluster(
        Mode::Observe,
        "policy",
        &["poddisruptionbudgets"],
        READ,
        "which pods may not be evicted now",
    ),
    cluster(
        Mode::Observe,
        "resource.k8s.io",
        &[
            "resourceslices",
            "resourceclaims",
            "resourceclaimtemplates",
            "deviceclasses",
        ],
        READ,
        "devices of Dynamic Resource Allocation, and who holds them",
    ),
    cluster(
        Mode::Observe,
        GROUP,
        &["gpuworkloads", "gpuquotas", "gpupolicies", "gpupricebooks"],
        READ,
        "what is asked of it",
    ),
    cluster(
        Mode::Observe,
        GROUP,
        &[
            "gpuworkloads/status",
            "gpuquotas/status",
            "gpupolicies/status",
            "gpupricebooks/status",
        ],
        &["patch"],
        "says what became of it",
    ),
    cluster(
        Mode::Observe,
        "apps",
        &["deployments"],
        READ,
        "how far is rolled out what a GpuWorkload is served by",
    ),
    own(
        "coordination.k8s.io",
        Mode::Observe,
        &["leases"],
        &[],
        &["create"],
        "one operator leads",
    ),
    own(
        "coordination.k8s.io",
        Mode::Observe,
        &["leases"],
        &[LEASE],
        &["get", "update"],
        "one operator leads",
    ),
    cluster(
        Mode::Propose,
        "",
        &["pods/status"],
        &["patch"],
        "says why a pod waits or leaves, and where room is kept for it",
    ),
    cluster(
        Mode::Propose,
        "",
        &["events"],
        &["create"],
        "says where a pod is placed, or why it waits",
    ),
    cluster(
        Mode::Act,
        "",
        &["pods"],
        &["patch"],
        "takes the gate off, and names the node; says where a pod moves to",
    ),
    cluster(
        Mode::Act,
        "",
        &["pods/eviction"],
        &["create"],
        "evicts within budgets, where the GpuPolicy allows it",
    ),
    cluster(
        Mode::Act,
        "",
        &["nodes"],
        &["patch"],
        "closes suspect nodes, and tells the MIG manager, where the GpuPolicy allows it",
    ),
    cluster(
        Mode::Act,
        "apps",
        &["deployments"],
        &["create", "patch"],
        "what a GpuWorkload is served by; one pod more while one moves",
    ),
    cluster(
        Mode::Act,
        "apps",
        &["statefulsets"],
        &["get", "list", "watch", "patch"],
        "which pod of one has its turn to move, and where to",
    ),
    cluster(
        Mode::Act,
        "apps",
        &["deployments/scale"],
        &["patch"],
        "replicas of a GpuWorkload follow what comes",
    ),
    cluster(
        Mode::Act,
        "apps",
        &["replicasets"],
        &["list"],
        "to which ReplicaSet a warm pod is given",
    ),
    cluster(
        Mode::Act,
        "keda.sh",
        &["scaledobjects"],
        &["get", "create", "patch"],
        "what a GpuWorkload is scaled by, where KEDA does it",
    ),
    cluster(
        Mode::Act,
        "autoscaling",
        &["horizontalpodautoscalers"],
        &["get", "create", "patch"],
        "the same, where Kubernetes' own autoscaler does it",
    ),
    cluster(
        Mode::Act,
        "autoscaling.x-k8s.io",
        &["capacitybuffers"],
        &["get", "create", "patch"],
        "for which replicas of a GpuWorkload an autoscaler of nodes keeps room",
    ),
    cluster(
        Mode::Act,
        "",
        &["services", "configmaps"],
        &["get", "create", "patch"],
        "what a GpuWorkload is reached by",
    ),
    own(
        "",
        Mode::Act,
        &["secrets"],
        &[],
        &["create"],
        "keeps the webhook's certificate",
    ),
    own(
        "",
        Mode::Act,
        &["secrets"],
        &[SECRET],
        &["get", "update"],
        "keeps and renews the webhook's certificate",
    ),
    Right {
        from: Mode::Act,
        scope: Scope::Cluster,
        group: "admissionregistration.k8s.io",
        resources: &["mutatingwebhookconfigurations"],
        names: &[NAME],
        verbs: &["get", "patch"],
        why: "tells the API server which authority signs that certificate",
    },
];

const fn cluster(
    from: Mode,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    why: &'static str,
) -> Right {
    Right {
        from,
        scope: Scope::Cluster,
        group,
        resources,
        names: &[],
        verbs,
        why,
    }
}

const fn own(
    group: &'static str,
    from: Mode,
    resources: &'static [&'static str],
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    why: &'static str,
) -> Right {
    Right {
        from,
        scope: Scope::Own,
        group,
        resources,
        names,
        verbs,
        why,
    }
}

/// Roles and their bindings.
pub(super) fn objects(installation: &Installation) -> Vec<Value> {
    let account = json!([{
        "kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace,
    }]);
    let version = "rbac.authorization.k8s.io/v1";
    let role =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    let rules = |scope| json!({"rules": rules(installation.mode, scope)});
    let bound = |kind| json!({"roleRef": role(kind), "subjects": account});
    let mut all = vec![
        installation.named(version, "ClusterRole", rules(Scope::Cluster)),
        installation.named(version, "ClusterRoleBinding", bound("ClusterRole")),
        installation.named(version, "Role", rules(Scope::Own)),
        installation.named(version, "RoleBinding", bound("Role")),
    ];
    for one in &mut all {
        let wide = one["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("Cluster"));
        if let Some(metadata) = one["metadata"].as_object_mut().filter(|_| wide) {
            metadata.shift_remove("namespace");
        }
    }
    all
}

fn rules(mode: Mode, scope: Scope) -> Vec<Value> {
    let given = RIGHTS
        .iter()
        .filter(|right| right.from <= mode && right.scope == scope);
    given
        .map(|right| {
            let mut rule = json!({
                "apiGroups": [right.group],
                "resources": right.resources,
                "verbs": right.verbs,
            });
            if let Some(rule) = rule.as_object_mut().filter(|_| !right.names.is_empty()) {
                rule.insert("resourceNames".into(), json!(right.names));
            }
            rule
        })
        .collect()
}

/// All rights as a table in Markdown.
pub fn rights_table() -> String {
    let mut out =
        String::from("| from mode | where | what | verbs | why |\n|---|---|---|---|---|\n");
    for right in RIGHTS {
        let place = match right.scope {
            Scope::Cluster => "cluster",
            Scope::Own => "own namespace",
        };
        let group = if right.group.is_empty() {
            String::new()
        } else {
            format!(" ({})", right.group)
        };
        let only = if right.names.is_empty() {
            String::new()
        } else {
            format!(", only `{}`", right.names.join("`, `"))
        };
        let _ = writeln!(
            out,
            "| {} | {place} | {}{group}{only} | {} | {} |",
            right.from.name(),
            right.resources.join(", "),
            right.verbs.join(", "),
            right.why
        );
    }
    out
}
