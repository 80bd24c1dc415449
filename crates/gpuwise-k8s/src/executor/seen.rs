//! What Kubernetes says of a pod and of a node, as far as it matters to a lease.

use super::ask::{LEASE, ORDER, WORKER};
use gpuwise_broker::{NodeSeen, OrderId};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Node, Pod, PodStatus};

/// A pod of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodSeen {
    pub(super) lease: u32,
    pub(super) worker: u32,
    pub(super) order: OrderId,
    /// Where it was bound.
    pub(super) node: Option<String>,
    /// Where it answers, IPv6 in brackets.
    pub(super) address: Option<String>,
    pub(super) ready: bool,
    /// Whether it is told to end.
    pub(super) leaving: bool,
    pub(super) state: PodState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PodState {
    /// It has no node, or its container does not run yet.
    Waits {
        why: String,
        /// Whether it is its image that is not there.
        image: bool,
        /// Whether waiting does not help.
        hopeless: bool,
    },
    Runs,
    Over {
        /// As shells have it; `None`: nobody knows.
        code: Option<i32>,
        /// Whether its command ever ran.
        ran: bool,
        /// What Kubernetes says, where that is more than the code.
        why: Option<String>,
    },
}

/// Reasons for which a container waits for its image, as kubelets say them.
const IMAGE: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Reasons for which a container waits forever.
const HOPELESS: [&str; 4] = [
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// Reasons with which a container ends whose command never began.
const NEVER: [&str; 3] = ["StartError", "ContainerCannotRun", "ContainerStatusUnknown"];

fn said(reason: Option<&String>, message: Option<&String>) -> String {
    match (reason, message) {
        (Some(reason), Some(message)) => format!("{reason}: {}", message.trim()),
        (Some(one), None) | (None, Some(one)) => one.trim().to_owned(),
        (None, None) => "it has not been bound to its node".into(),
    }
}

fn over(end: &ContainerStateTerminated) -> PodState {
    let reason = end.reason.as_deref().unwrap_or_default();
    let never = NEVER.contains(&reason);
    let own = matches!(reason, "" | "Completed" | "Error");
    let signal = end.signal.filter(|signal| *signal > 0);
    PodState::Over {
        code: signal.map(|signal| 128 + signal).or(Some(end.exit_code)),
        ran: !never,
        why: (!own).then(|| said(end.reason.as_ref(), end.message.as_ref())),
    }
}

fn state(status: &PodStatus) -> PodState {
    let container = status.container_statuses.iter().flatten().next();
    let container = container.and_then(|one| one.state.as_ref());
    if let Some(end) = container.and_then(|state| state.terminated.as_ref()) {
        return over(end);
    }
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        return PodState::Over {
            code: None,
            ran: container.is_some_and(|state| state.running.is_some()),
            why: Some(said(status.reason.as_ref(), status.message.as_ref())),
        };
    }
    if let Some(waits) = container.and_then(|state| state.waiting.as_ref()) {
        let reason = waits.reason.as_deref().unwrap_or_default();
        return PodState::Waits {
            why: said(waits.reason.as_ref(), waits.message.as_ref()),
            image: IMAGE.contains(&reason),
            hopeless: HOPELESS.contains(&reason),
        };
    }
    if status.phase.as_deref() == Some("Running") {
        return PodState::Runs;
    }
    let bound = status.conditions.iter().flatten();
    let mut bound = bound.filter(|one| one.type_ == "PodScheduled");
    let bound = bound.next().filter(|one| one.status != "True");
    PodState::Waits {
        why: match bound {
            Some(one) => said(one.reason.as_ref(), one.message.as_ref()),
            None => said(status.reason.as_ref(), status.message.as_ref()),
        },
        image: false,
        hopeless: false,
    }
}

impl PodSeen {
    /// `None`: its labels are not those that we give.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let label = |key: &str| labels.get(key).map(String::as_str);
        let empty = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&empty);
        let ready = |one: &k8s_openapi::api::core::v1::PodCondition| {
            one.type_ == "Ready" && one.status == "True"
        };
        let ip = status.pod_ip.clone().filter(|ip| !ip.is_empty());
        Some(Self {
            lease: label(LEASE)?.strip_prefix("L-")?.parse().ok()?,
            worker: label(WORKER)?.parse().ok()?,
            order: OrderId(label(ORDER)?.parse().ok()?),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            address: ip.map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]")
                } else {
                    ip
                }
            }),
            ready: status.conditions.iter().flatten().any(ready),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            state: state(status),
        })
    }

    /// Whether its command runs or ran, so that there is something to read.
    pub(super) fn has_begun(&self) -> bool {
        matches!(
            self.state,
            PodState::Runs | PodState::Over { ran: true, .. }
        )
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, PodState::Over { .. })
    }
}

/// How a node is.
pub(super) fn node(node: &Node) -> NodeSeen {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    // Who knows that a node is off says so by this taint, and its pods are let go.
    if taints
        .clone()
        .any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    {
        return NodeSeen::Down;
    }
    let conditions = node.status.iter();
    let mut conditions = conditions.flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|one| one.type_ == "Ready");
    if ready.is_none_or(|one| one.status != "True") {
        return NodeSeen::Silent;
    }
    let closed = |spec: &k8s_openapi::api::core::v1::NodeSpec| spec.unschedulable == Some(true);
    if node.spec.as_ref().is_some_and(closed) {
        return NodeSeen::Draining;
    }
    NodeSeen::Up
}
