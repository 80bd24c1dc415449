//! What is said to the API server and what it says, without one.

use super::{
    rights,
    seen::{PodSeen, PodState, node},
};
use gpuwise_broker::NodeSeen;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use std::path::Path;

fn pod(status: &Value) -> PodSeen {
    let labels = json!({
        "gpuwise.dev/lease": "L-7", "gpuwise.dev/worker": "1", "gpuwise.dev/order": "12",
    });
    let pod = json!({"metadata": {"name": "p", "labels": labels}, "status": status});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    PodSeen::of(&pod).expect("is ours")
}

fn over(state: &Value) -> PodState {
    let container = json!({
        "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": state},
    });
    pod(&json!({"phase": "Failed", "containerStatuses": [container]})).state
}

#[test]
fn ends_are_told_apart() {
    assert_eq!(
        over(&json!({"exitCode": 3, "reason": "Error"})),
        PodState::Over {
            code: Some(3),
            ran: true,
            why: None
        }
    );
    assert_eq!(
        over(&json!({"exitCode": 137, "reason": "OOMKilled"})),
        PodState::Over {
            code: Some(137),
            ran: true,
            why: Some("OOMKilled".into())
        }
    );
    let never = over(
        &json!({"exitCode": 128, "reason": "StartError", "message": "exec: \"x\": not found"}),
    );
    assert!(
        matches!(&never, PodState::Over { ran: false, why: Some(why), .. } if why.contains("\"x\"")),
        "{never:?}"
    );
    let evicted =
        pod(&json!({"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "no room"}));
    assert!(
        matches!(
            &evicted.state,
            PodState::Over {
                code: None,
                ran: false,
                ..
            }
        ),
        "{evicted:?}"
    );
}

#[test]
fn what_waits_says_why() {
    let unbound = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"});
    let waits = pod(&json!({"phase": "Pending", "conditions": [unbound]})).state;
    assert_eq!(
        waits,
        PodState::Waits {
            why: "Unschedulable: 0/4 nodes".into(),
            image: false,
            hopeless: false
        }
    );
    for (reason, of_image, forever) in [
        ("InvalidImageName", true, true),
        ("ImagePullBackOff", true, false),
        ("CreateContainerError", false, true),
        ("ContainerCreating", false, false),
    ] {
        let container = json!({
            "name": "worker", "image": "?", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason}},
        });
        let waits = pod(&json!({"phase": "Pending", "containerStatuses": [container]})).state;
        assert_eq!(
            waits,
            PodState::Waits {
                why: reason.into(),
                image: of_image,
                hopeless: forever
            }
        );
    }
}

#[test]
fn nodes_are_up_draining_silent_or_down() {
    let is = |spec: Value, ready: &str| {
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        let made: Node =
            serde_json::from_value(json!({"spec": spec, "status": status})).expect("a node");
        node(&made)
    };
    assert_eq!(is(json!({}), "True"), NodeSeen::Up);
    assert_eq!(
        is(json!({"unschedulable": true}), "True"),
        NodeSeen::Draining
    );
    assert_eq!(
        is(json!({"unschedulable": true}), "Unknown"),
        NodeSeen::Silent
    );
    let off =
        json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    assert_eq!(is(off, "Unknown"), NodeSeen::Down);
}

/// `GPUWISE_UPDATE_DOCS=1` writes it anew.
#[test]
fn the_shipped_account_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/executor.yaml");
    let made = rights::manifest("gpuwise");
    if std::env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("a file");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "{} is not what is made: GPUWISE_UPDATE_DOCS=1 cargo test -p gpuwise-k8s",
        path.display()
    );
}
