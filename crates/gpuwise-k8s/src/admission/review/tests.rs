//! Pods that are gated, and those that are not.

use super::*;

fn answer(pod: Value) -> (Value, Vec<Value>, String) {
    let body = json!({"request": {"uid": "u1", "operation": "CREATE", "object": pod}}).to_string();
    let answer = review(body.as_bytes(), "2026-11-26T15:00:00.000Z", &|product| {
        product == "NVIDIA-H200"
    });
    let answer = answer.expect("a review is answered");
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["uid"], "u1");
    let patch = answer["response"]["patch"]
        .as_str()
        .map(|text| STANDARD.decode(text).expect("base64"));
    let patch = patch.map_or(Vec::new(), |text| {
        serde_json::from_slice(&text).expect("a patch")
    });
    let warnings = answer["response"]["warnings"].to_string();
    (answer, patch, warnings)
}

fn pod(limits: Value, metadata: Value) -> Value {
    json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}})
}

#[test]
fn pods_that_ask_for_gpus_get_the_gate() {
    let (_, patch, warnings) = answer(pod(json!({"nvidia.com/gpu": "8"}), json!({})));
    assert_eq!(
        patch[0],
        json!({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]})
    );
    assert_eq!(patch[1]["value"][GATED_AT], "2026-11-26T15:00:00.000Z");
    assert_eq!(warnings, "null");
    let mut other = pod(
        json!({"nvidia.com/gpu": 8}),
        json!({"annotations": {"a": "b"}}),
    );
    other["spec"]["schedulingGates"] = json!([{"name": "other"}]);
    let (_, patch, _) = answer(other);
    assert_eq!(patch[0]["path"], "/spec/schedulingGates/-");
    assert_eq!(
        patch[1]["path"],
        "/metadata/annotations/gpuwise.dev~1gated-at"
    );
}

#[test]
fn others_are_left_alone() {
    let (_, patch, _) = answer(pod(json!({"cpu": "8"}), json!({})));
    assert!(patch.is_empty());
    let mut gated = pod(json!({"nvidia.com/gpu": 8}), json!({}));
    gated["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    assert!(answer(gated).1.is_empty());
    let mut bound = pod(json!({"nvidia.com/gpu": 8}), json!({}));
    bound["spec"]["nodeName"] = "n1".into();
    assert!(answer(bound).1.is_empty());
    let mut other = pod(json!({"nvidia.com/gpu": 8}), json!({}));
    other["spec"]["schedulerName"] = "volcano".into();
    assert!(answer(other).1.is_empty());
}

#[test]
fn bad_input_is_allowed_and_said() {
    let bad = [
        pod(json!({"nvidia.com/gpu": "99999999999"}), json!({})),
        pod(
            json!({"nvidia.com/gpu": 1}),
            json!({"annotations": {"gpuwise.dev/gang-size": "none"}}),
        ),
    ];
    for one in bad {
        let (_, patch, warnings) = answer(one);
        assert!(
            warnings.contains("leaves this pod to kube-scheduler"),
            "{warnings}"
        );
        assert!(
            patch
                .iter()
                .all(|change| change["path"] != "/spec/schedulingGates"),
            "{patch:?}"
        );
    }
    let (_, patch, warnings) = answer(json!({"spec": {"containers": "none"}}));
    assert!(
        patch.is_empty() && warnings.contains("leaves this pod"),
        "{warnings}"
    );
    let unknown = pod(
        json!({"nvidia.com/gpu": 1}),
        json!({"annotations": {"gpuwise.dev/gpu": "NVIDIA-X9"}}),
    );
    let (_, patch, warnings) = answer(unknown);
    assert!(
        warnings.contains("NVIDIA-X9") && patch.len() == 2,
        "{warnings}"
    );
    assert_eq!(review(b"no json", "", &|_| true), None);
}
