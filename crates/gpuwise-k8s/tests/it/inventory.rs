//! What an inventory says of objects.

use super::given::{applied, at, deleted, inventory, node, pod, quantity, read};
use gpuwise_k8s::{
    inventory::{Change, Finding, Fold, Inventory, Kind, Phase, Unfit, Waiting},
    objects::{self, QuantityError},
};
use kube::runtime::watcher::Event;
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn quantities() {
    use QuantityError::{Malformed, Negative, Overflow};
    for (text, milli, whole) in [
        ("0", Ok(0), Ok(0)),
        ("8", Ok(8_000), Ok(8)),
        ("500m", Ok(500), Ok(1)),
        ("1500m", Ok(1_500), Ok(2)),
        ("0.1", Ok(100), Ok(1)),
        ("100n", Ok(1), Ok(1)),
        ("64Gi", Ok(64_000 << 30), Ok(64 << 30)),
        ("1.5Gi", Ok(1_500 << 30), Ok(3 << 29)),
        ("1e3", Ok(1_000_000), Ok(1000)),
        ("12E-1", Ok(1_200), Ok(2)),
        ("5k", Ok(5_000_000), Ok(5_000)),
        ("9223372036854775807", Err(Overflow), Ok(i64::MAX as u64)),
        ("9223372036854775808", Err(Overflow), Err(Overflow)),
        ("1e300", Err(Overflow), Err(Overflow)),
        ("16Ei", Err(Overflow), Err(Overflow)),
        (
            "99999999999999999999999999999999",
            Err(Overflow),
            Err(Overflow),
        ),
        ("0.00000000000000000000000000000000001", Ok(1), Ok(1)),
        ("-1", Err(Negative), Err(Negative)),
        ("-0", Ok(0), Ok(0)),
        ("", Err(Malformed), Err(Malformed)),
        (".", Err(Malformed), Err(Malformed)),
        ("1.2.3", Err(Malformed), Err(Malformed)),
        ("8 GPUs", Err(Malformed), Err(Malformed)),
        ("1eé", Err(Malformed), Err(Malformed)),
        ("NaN", Err(Malformed), Err(Malformed)),
    ] {
        assert_eq!(quantity(text), (milli, whole), "{text:?}");
    }
}

#[test]
fn what_is_held_is_what_pods_on_the_node_ask() {
    let all = inventory(&[
        pod("a", Some("gpu-1"), 2),
        node("gpu-1", 8),
        pod("b", Some("gpu-1"), 4),
        pod("c", None, 1),
    ]);
    let one = all.node("gpu-1").expect("a node");
    let held = all.held("gpu-1").expect("pods");
    assert_eq!((held.cpu_milli, held.memory), (8_000, 64 << 30));
    assert_eq!(
        (held.of("nvidia.com/gpu"), all.free(one, "nvidia.com/gpu")),
        (6, 2)
    );
    assert_eq!(
        (one.gpus(), one.product()),
        (8, Some("NVIDIA H100 80GB HBM3"))
    );
    let waiting: Vec<&str> = all.waiting().map(|pod| &*pod.name).collect();
    assert_eq!(waiting, ["c"]);
    assert!(all.findings().is_empty(), "{:?}", all.findings());
}

#[test]
fn ended_pods_and_those_that_went_hold_nothing() {
    let mut fold = Fold::new();
    fold.apply(applied(&node("gpu-1", 8)));
    fold.apply(applied(&at(pod("a", Some("gpu-1"), 2), 2)));
    fold.apply(applied(&at(pod("b", Some("gpu-1"), 3), 3)));
    let mut ended = at(pod("a", Some("gpu-1"), 2), 4);
    ended["status"]["phase"] = "Succeeded".into();
    assert!(fold.apply(applied(&ended)));
    assert_eq!(
        fold.inventory()
            .held("gpu-1")
            .map(|held| held.of("nvidia.com/gpu")),
        Some(3)
    );
    assert!(fold.apply(deleted(&at(pod("b", Some("gpu-1"), 3), 5))));
    assert_eq!(fold.inventory().held("gpu-1"), None);
    let a = fold.inventory().pods.get("default", "a").expect("a pod");
    assert_eq!((a.phase, a.waiting()), (Phase::Succeeded, None));
}

#[test]
fn init_containers_sidecars_and_overhead_by_the_rule() {
    let asks =
        |cpu: &str, gpus: &str| json!({ "requests": { "cpu": cpu, "nvidia.com/gpu": gpus } });
    let mut object = pod("a", None, 1);
    object["spec"] = json!({
        "overhead": { "cpu": "250m" },
        "initContainers": [
            { "name": "one", "resources": asks("6", "2") },
            { "name": "side", "restartPolicy": "Always", "resources": asks("1", "0") },
            { "name": "two", "resources": asks("7", "1") },
        ],
        "containers": [{ "name": "a", "resources": asks("2", "1") }, { "name": "b", "resources": asks("1500m", "0") }],
    });
    let all = inventory(&[object.clone()]);
    let asked = &all.pods.get("default", "a").expect("a pod").shape.asks;
    // The second init container beside the sidecar: 1 + 7; the first asks for more GPUs than all that follow.
    assert_eq!((asked.cpu_milli, asked.of("nvidia.com/gpu")), (8_250, 2));
    object["spec"]["resources"] = json!({ "requests": { "cpu": "3" } });
    let all = inventory(&[object]);
    let asked = &all.pods.get("default", "a").expect("a pod").shape.asks;
    assert_eq!((asked.cpu_milli, asked.of("nvidia.com/gpu")), (3_250, 2));
}

#[test]
fn why_a_pod_waits() {
    let mut gated = pod("gated", None, 1);
    gated["spec"]["schedulingGates"] = json!([{ "name": "gpuwise.dev/place" }]);
    gated["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated" }]);
    let mut refused = pod("refused", None, 1);
    refused["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available",
    }]);
    let all = inventory(&[gated, refused, pod("unseen", None, 1)]);
    let why = |name: &str| all.pods.get("default", name).expect("a pod").waiting();
    assert_eq!(
        why("gated"),
        Some(Waiting::Gated(vec!["gpuwise.dev/place".into()].into()))
    );
    assert_eq!(
        why("refused"),
        Some(Waiting::Unschedulable("0/3 nodes are available".into()))
    );
    assert_eq!(why("unseen"), Some(Waiting::Unseen));
}

fn owned(kind: &str, name: &str, by: Option<(&str, &str)>) -> Value {
    let owners: Vec<Value> = by
        .into_iter()
        .map(|(kind, name)| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true }))
        .collect();
    json!({ "kind": kind, "metadata": { "name": name, "namespace": "default", "resourceVersion": "1", "ownerReferences": owners } })
}

#[test]
fn workloads_are_the_topmost_controllers() {
    let with = |name: &str, by: (&str, &str), labels: Value| {
        let mut out = pod(name, None, 1);
        out["metadata"]["ownerReferences"] =
            owned("Pod", name, Some(by))["metadata"]["ownerReferences"].clone();
        out["metadata"]["labels"] = labels;
        out
    };
    let all = inventory(&[
        with(
            "a",
            ("ReplicaSet", "chat-7d9f"),
            json!({ "pod-template-hash": "7d9f" }),
        ),
        with("b", ("ReplicaSet", "code-88"), json!({})),
        owned("ReplicaSet", "code-88", Some(("Rollout", "code"))),
        with("c", ("Job", "train"), json!({})),
        owned("Job", "train", Some(("CronJob", "nightly"))),
        with(
            "d",
            ("StatefulSet", "big-0"),
            json!({ "leaderworkerset.sigs.k8s.io/name": "big" }),
        ),
        pod("e", None, 1),
    ]);
    let of = |name: &str| {
        all.workload(all.pods.get("default", name).expect("a pod"))
            .to_string()
    };
    assert_eq!(of("a"), "Deployment default/chat");
    assert_eq!(of("b"), "Rollout default/code");
    assert_eq!(of("c"), "CronJob default/nightly");
    assert_eq!(of("d"), "LeaderWorkerSet default/big");
    assert_eq!(of("e"), "Pod default/e");
}

#[test]
fn nodes_that_will_do() {
    let mut one = node("gpu-1", 8);
    one["spec"]["taints"] =
        json!([{ "key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule" }]);
    one["metadata"]["labels"]["cpus"] = "96".into();
    let mut asks = pod("a", None, 1);
    asks["spec"]["tolerations"] = json!([{ "key": "nvidia.com/gpu", "operator": "Exists" }]);
    asks["spec"]["nodeSelector"] = json!({ "topology.kubernetes.io/zone": "a" });
    asks["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "cpus", "operator": "Gt", "values": ["64"] }] },
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["gpu-9"] }] },
        ],
    } } });
    let all = inventory(&[one, asks, pod("b", None, 1)]);
    let node = all.node("gpu-1").expect("a node");
    let shape = |name: &str| all.pods.get("default", name).expect("a pod").shape.clone();
    assert_eq!(shape("a").fits(node), Ok(()));
    assert!(matches!(shape("b").fits(node), Err(Unfit::Taint(_))));
    let mut other = node.as_ref().clone();
    other.labels.insert("cpus".into(), "64".into());
    assert_eq!(shape("a").fits(&other), Err(Unfit::Affinity));
    other.labels.remove("topology.kubernetes.io/zone");
    assert_eq!(
        shape("a").fits(&other),
        Err(Unfit::Selector("topology.kubernetes.io/zone"))
    );
    other.unschedulable = true;
    assert_eq!(shape("a").fits(&other), Err(Unfit::Unschedulable));
}

fn names(all: &Inventory) -> Vec<(&'static str, String)> {
    let found = all.findings().into_iter();
    found
        .map(|Finding { what, about, .. }| (what.name(), about))
        .collect()
}

#[test]
fn a_device_plugin_that_lies_is_a_finding() {
    let mut lies = node("gpu-1", 8);
    lies["status"]["allocatable"]["nvidia.com/gpu"] = "2".into();
    let mut more = node("gpu-2", 8);
    more["status"]["capacity"]["nvidia.com/gpu"] = "9".into();
    more["status"]["allocatable"]["nvidia.com/gpu"] = "9".into();
    let all = inventory(&[
        lies,
        more,
        pod("a", Some("gpu-1"), 4),
        pod("b", Some("gone"), 1),
    ]);
    assert_eq!(
        names(&all),
        [
            ("held-beyond-offered", "gpu-1".to_owned()),
            ("counts-disagree", "gpu-2".to_owned()),
            ("gpus-unhealthy", "gpu-1".to_owned()),
            ("node-missing", "gone".to_owned()),
        ]
    );
    let node = all.node("gpu-1").expect("a node");
    assert_eq!(all.free(node, "nvidia.com/gpu"), 0);
}

#[test]
fn quantities_that_overflow_are_said_and_summed() {
    let mut vast = pod("vast", Some("gpu-1"), 1);
    vast["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1e30".into();
    let mut odd = node("gpu-1", 8);
    odd["status"]["allocatable"]["memory"] = "lots".into();
    let mut fold = Fold::new();
    for object in [&odd, &vast, &pod("b", Some("gpu-1"), 1)] {
        fold.apply(applied(object));
    }
    let all = fold.inventory();
    assert_eq!(
        all.held("gpu-1").map(|held| held.of("nvidia.com/gpu")),
        Some(i128::from(i64::MAX) + 1)
    );
    let kinds: Vec<&str> = names(all).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        ["held-beyond-offered", "quantity", "quantity", "quantity"]
    );
    fold.apply(deleted(&at(vast, 2)));
    assert_eq!(
        fold.inventory()
            .held("gpu-1")
            .map(|held| held.of("nvidia.com/gpu")),
        Some(1)
    );
}

#[test]
fn quotas_with_what_is_used() {
    let quota = json!({
        "kind": "ResourceQuota", "metadata": { "name": "gpus", "namespace": "a", "resourceVersion": "3" },
        "spec": { "hard": { "requests.nvidia.com/gpu": "6" } },
        "status": { "hard": { "requests.nvidia.com/gpu": "6" }, "used": { "requests.nvidia.com/gpu": "4" } },
    });
    let all = inventory(&[quota]);
    let spent = all
        .quotas
        .get("a", "gpus")
        .expect("a quota")
        .of("nvidia.com/gpu")
        .expect("GPUs");
    assert_eq!((spent.hard_milli, spent.left_milli()), (6000, Some(2000)));
}

/// The shape of `examples/dra-mig.yaml`: a GPU with partitions that share counters.
fn partitioned() -> Vec<Value> {
    let slice = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["driver"] = "gpu.example.com".into();
        spec["nodeName"] = "gpu-0".into();
        spec["pool"] = json!({ "name": "gpu-0", "generation": 1, "resourceSliceCount": 2 });
        json!({ "kind": "ResourceSlice", "metadata": { "name": name, "resourceVersion": "1" }, "spec": spec })
    };
    let device = |name: &str, profile: &str, memory: &str| {
        json!({
            "name": name, "attributes": { "profile": { "string": profile } },
            "capacity": { "memory": { "value": memory } },
            "consumesCounters": [{ "counterSet": "gpu0", "counters": { "memory-slices": { "value": "4" } } }],
        })
    };
    let mut plain = node("gpu-0", 0);
    plain["metadata"]["labels"] = json!({});
    plain["status"]["allocatable"] = json!({ "cpu": "8", "memory": "64Gi" });
    plain["status"]["capacity"] = json!({});
    vec![
        plain,
        slice(
            "counters",
            json!({ "sharedCounters": [{ "name": "gpu0", "counters": { "memory-slices": { "value": "8" } } }] }),
        ),
        slice(
            "devices",
            json!({ "devices": [
            device("gpu0-full", "full", "141Gi"), device("gpu0-3g-0", "3g.71gb", "71Gi"), device("gpu0-3g-1", "3g.71gb", "71Gi"),
        ] }),
        ),
    ]
}

fn claim(name: &str, device: Option<&str>) -> Value {
    let results: Vec<Value> = device
        .into_iter()
        .map(|device| json!({ "request": "gpu", "driver": "gpu.example.com", "pool": "gpu-0", "device": device }))
        .collect();
    let mut out = json!({
        "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "default", "resourceVersion": "2" },
        "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "mig", "count": 1 } }] } },
    });
    if device.is_some() {
        out["status"] = json!({ "allocation": { "devices": { "results": results } } });
    }
    out
}

#[test]
fn devices_by_dynamic_allocation() {
    let mut objects = partitioned();
    objects.push(claim("a-gpu", Some("gpu0-3g-0")));
    let all = inventory(&objects);
    let gpus = all.device_gpus();
    let [gpu] = gpus.get("gpu-0").expect("devices").as_slice() else {
        panic!("one GPU: {gpus:?}");
    };
    assert_eq!(
        (&*gpu.name, gpu.memory, gpu.parts.len()),
        ("gpu0", Some(141 << 30), 2)
    );
    let found = all.found_nodes();
    let mig = found[0].gpus[0].mig.as_ref().expect("cut");
    assert_eq!(mig.len(), 1);
    assert!(all.findings().is_empty(), "{:?}", all.findings());
    // The same device again, one that is not offered, and a pool of which a slice is missing.
    objects.push(claim("b-gpu", Some("gpu0-3g-0")));
    objects.push(claim("c-gpu", Some("gpu0-9g")));
    let all = inventory(&objects);
    let kinds: Vec<&str> = names(&all).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["device-held-twice", "device-unknown"]);
    objects.remove(1);
    let all = inventory(&objects);
    assert!(all.device_gpus().is_empty());
    let kinds: Vec<&str> = names(&all).iter().map(|(kind, _)| *kind).collect();
    assert!(kinds.contains(&"pool-incomplete"), "{kinds:?}");
}

#[test]
fn what_a_list_does_not_name_is_gone() {
    let mut fold = Fold::new();
    fold.apply(applied(&node("gpu-1", 8)));
    fold.apply(applied(&pod("a", Some("gpu-1"), 2)));
    fold.apply(applied(&pod("b", Some("gpu-1"), 3)));
    fold.apply(Change::Pod(Event::Init));
    fold.apply(Change::Pod(Event::InitApply(read(&pod(
        "b",
        Some("gpu-1"),
        3,
    )))));
    assert_eq!(fold.inventory().pods.len(), 2);
    assert!(fold.apply(Change::Pod(Event::InitDone)));
    assert_eq!(fold.inventory().pods.len(), 1);
    assert_eq!(
        fold.inventory()
            .held("gpu-1")
            .map(|held| held.of("nvidia.com/gpu")),
        Some(3)
    );
}

#[test]
fn a_heartbeat_changes_nothing() {
    let mut fold = Fold::new();
    assert!(fold.apply(applied(&node("gpu-1", 8))));
    let mut again = at(node("gpu-1", 8), 9);
    again["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-26T10:05:00Z".into();
    assert!(!fold.apply(applied(&again)));
}

#[test]
fn complete_is_when_all_were_listed_or_cannot_be() {
    let mut fold = Fold::new();
    for kind in Kind::ALL {
        assert!(!fold.inventory().complete());
        let change = match kind {
            Kind::Nodes => Change::Node(Event::InitDone),
            Kind::Pods => Change::Pod(Event::<objects::Pod>::InitDone),
            kind => Change::Absent(kind, "not served".into()),
        };
        fold.apply(change);
    }
    assert!(fold.inventory().complete());
    fold.apply(Change::Absent(Kind::Pods, "forbidden".into()));
    assert!(!fold.inventory().complete());
}

/// One step of an object: its version, whether it is there, where and how large.
#[derive(Debug, Clone)]
struct Step {
    object: usize,
    there: bool,
    gpus: u32,
    on: Option<usize>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0_usize..6,
        prop::bool::weighted(0.8),
        0_u32..9,
        prop::option::of(0_usize..3),
    );
    let step = step.prop_map(|(object, there, gpus, on)| Step {
        object,
        there,
        gpus,
        on,
    });
    prop::collection::vec(step, 1..40)
}

/// Objects 0–2 are nodes, 3–5 pods.
fn object(step: &Step, version: u64) -> Value {
    let out = if step.object < 3 {
        node(&format!("n{}", step.object), step.gpus)
    } else {
        let on = step.on.map(|at| format!("n{at}"));
        pod(&format!("p{}", step.object), on.as_deref(), step.gpus)
    };
    at(out, version)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Events in any order, some of them again: the inventory is that of what is there in the end.
    #[test]
    fn order_and_repetition_change_nothing(steps in steps(), order in prop::collection::vec(any::<prop::sample::Index>(), 0..80)) {
        let events: Vec<(Value, bool)> = (1..)
            .zip(&steps)
            .map(|(version, step)| (object(step, version), step.there))
            .collect();
        let mut last: std::collections::BTreeMap<usize, &(Value, bool)> = std::collections::BTreeMap::new();
        for (step, event) in steps.iter().zip(&events) {
            last.insert(step.object, event);
        }
        let left: Vec<Value> = last.values().filter(|(_, there)| *there).map(|(object, _)| object.clone()).collect();
        // Each event once at least: chosen ones first, in any order, then all, the last ones first.
        let chosen = order.iter().map(|index| index.get(&events));
        let mut fold = Fold::new();
        for (object, there) in chosen.chain(events.iter().rev()) {
            fold.apply(if *there { applied(object) } else { deleted(object) });
        }
        prop_assert_eq!(fold.inventory(), &inventory(&left));
    }
}
