//! Decisions on small clusters.

use super::*;

pub(super) fn node(name: &str, gpus: u32, labels: &[(&str, &str)]) -> Arc<Node> {
    let mut all: Names = labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    all.entry(PRODUCT.to_owned())
        .or_insert_with(|| "NVIDIA-H200".into());
    Arc::new(Node {
        name: name.into(),
        labels: all,
        taints: Vec::new(),
        open: true,
        cpu_milli: 96_000,
        memory_mib: 1 << 20,
        accelerators: [("nvidia.com/gpu".to_owned(), gpus)].into(),
        ailments: Vec::new(),
    })
}

pub(super) fn pod(name: &str, gpus: u32) -> Pod {
    Pod {
        namespace: "team".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        version: "1".into(),
        created: Nanoseconds(1_000_000_000),
        gated_at: None,
        owner: "Job/train".into(),
        priority: 0,
        ask: Some(Ask {
            resource: "nvidia.com/gpu".into(),
            count: gpus,
            products: Vec::new(),
            within: None,
            gang: None,
            preemptible: None,
        }),
        cpu_milli: 1000,
        memory_mib: 1024,
        place: Place::Gated,
        constraint: Arc::default(),
        claims: Claims::None,
        standing: Standing::default(),
    }
}

pub(super) fn ganged(mut pod: Pod, size: Option<u32>, by: GangKind) -> Pod {
    if let Some(ask) = &mut pod.ask {
        ask.gang = Some(GangName {
            by,
            name: "g".into(),
            size,
        });
    }
    pod
}

pub(super) fn seen(nodes: Vec<Arc<Node>>, pods: Vec<Pod>) -> Seen {
    Seen {
        nodes,
        pods: pods.into_iter().map(Arc::new).collect(),
        ..Seen::default()
    }
}

pub(super) fn decided(seen: &Seen) -> Decision {
    decide(seen, Nanoseconds(10_000_000_000)).expect("it is decided")
}

/// Names of pods that are placed, with their nodes.
pub(super) fn placed(seen: &Seen, decision: &Decision) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = decision
        .placed
        .iter()
        .map(|one| (seen.pods[one.pod].name.clone(), one.node.clone()))
        .collect();
    all.sort();
    all
}

#[test]
fn no_more_is_placed_than_there_is() {
    let pods = (0..5).map(|i| pod(&format!("p{i}"), 8)).collect();
    let seen = seen(vec![node("a", 8, &[]), node("b", 8, &[])], pods);
    let decision = decided(&seen);
    assert_eq!(decision.placed.len(), 2);
    assert_eq!(decision.waits.len(), 3);
    assert_eq!(decision.waits[0].reason, "TooFewGpus");
    assert!(
        decision.waits[0].words.contains("needs 8 GPUs"),
        "{}",
        decision.waits[0].words
    );
}

#[test]
fn who_is_bound_or_sent_holds_its_place() {
    let mut bound = pod("bound", 4);
    bound.place = Place::Bound("a".into());
    let mut sent = pod("sent", 3);
    sent.place = Place::Sent("a".into());
    let seen = seen(
        vec![node("a", 8, &[])],
        vec![bound, sent, pod("two", 2), pod("one", 1)],
    );
    let decision = decided(&seen);
    assert_eq!(
        placed(&seen, &decision),
        [("one".to_owned(), "a".to_owned())]
    );
}

#[test]
fn gangs_start_together_or_not() {
    let four = |size| {
        (0..4)
            .map(move |i| ganged(pod(&format!("w-{i}"), 8), size, GangKind::Annotated))
            .collect::<Vec<_>>()
    };
    let nodes = |n: usize| {
        (0..n)
            .map(|i| node(&format!("n{i}"), 8, &[]))
            .collect::<Vec<_>>()
    };
    let short = seen(nodes(3), four(Some(4)));
    assert!(decided(&short).placed.is_empty());
    let enough = seen(nodes(4), four(Some(4)));
    assert_eq!(decided(&enough).placed.len(), 4);
    let partly = seen(nodes(9), four(Some(5)));
    let decision = decided(&partly);
    assert_eq!(
        (decision.placed.len(), decision.waits[0].reason),
        (0, "GangIncomplete")
    );
    // One is sent already: three are left, and they go before one who came first.
    let mut begun = four(Some(4));
    begun[0].place = Place::Sent("n0".into());
    let mut first = pod("first", 8);
    first.created = Nanoseconds(0);
    begun.push(first);
    let begun = seen(nodes(4), begun);
    let decision = decided(&begun);
    assert_eq!(decision.placed.len(), 3);
    assert!(
        placed(&begun, &decision)
            .iter()
            .all(|(name, _)| name.starts_with("w-"))
    );
}

#[test]
fn a_pod_group_says_how_many_start_together() {
    let pods = || {
        (0..2)
            .map(|i| ganged(pod(&format!("w-{i}"), 8), None, GangKind::PodGroup))
            .collect::<Vec<_>>()
    };
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let unknown = seen(nodes.clone(), pods());
    assert!(
        decided(&unknown).waits[0]
            .words
            .contains("no such PodGroup")
    );
    let mut known = seen(nodes, pods());
    known.groups.insert(("team".into(), "g".into()), 2);
    assert_eq!(decided(&known).placed.len(), 2);
}

#[test]
fn a_gang_of_unlike_pods_starts_together_or_not() {
    let mut leader = ganged(pod("leader", 1), Some(2), GangKind::LeaderWorkerSet);
    leader.cpu_milli = 2000;
    let pods = || {
        vec![
            leader.clone(),
            ganged(pod("worker", 8), Some(2), GangKind::LeaderWorkerSet),
        ]
    };
    let short = seen(vec![node("a", 8, &[])], pods());
    let decision = decided(&short);
    assert_eq!((decision.placed.len(), decision.waits.len()), (0, 2));
    let enough = seen(vec![node("a", 8, &[]), node("b", 8, &[])], pods());
    assert_eq!(decided(&enough).placed.len(), 2);
}

#[test]
fn labels_taints_and_products_are_kept() {
    let tainted = Node {
        taints: vec![Taint {
            key: "k".into(),
            value: String::new(),
            effect: "NoSchedule".into(),
        }],
        ..(*node("tainted", 8, &[])).clone()
    };
    let nodes = vec![
        Arc::new(tainted),
        node("l4", 8, &[(PRODUCT, "NVIDIA-L4")]),
        node("east", 8, &[("zone", "east")]),
    ];
    let mut chosen = pod("chosen", 1);
    chosen.constraint = Arc::new(Constraint {
        node_selector: [("zone".to_owned(), "east".to_owned())].into(),
        ..Constraint::default()
    });
    let mut small = pod("small", 1);
    if let Some(ask) = &mut small.ask {
        ask.products = vec!["NVIDIA-L4".into()];
    }
    let mut strange = pod("strange", 1);
    if let Some(ask) = &mut strange.ask {
        ask.products = vec!["NVIDIA-X9".into()];
    }
    let seen = seen(nodes, vec![chosen, small, strange]);
    let decision = decided(&seen);
    let wanted = [
        ("chosen".to_owned(), "east".to_owned()),
        ("small".to_owned(), "l4".to_owned()),
    ];
    assert_eq!(placed(&seen, &decision), wanted);
    assert_eq!(decision.waits[0].reason, "NoSuchGpu");
}

#[test]
fn closed_nodes_take_nobody_and_keep_whom_they_have() {
    let closed = Node {
        open: false,
        ..(*node("closed", 8, &[])).clone()
    };
    let mut bound = pod("bound", 8);
    bound.place = Place::Bound("closed".into());
    let seen = seen(vec![Arc::new(closed)], vec![bound, pod("p", 1)]);
    let decision = decided(&seen);
    assert!(
        decision.placed.is_empty() && decision.troubles.is_empty(),
        "{:?}",
        decision.troubles
    );
}

#[test]
fn a_device_plugin_that_counts_too_few_is_said() {
    let mut bound = pod("bound", 8);
    bound.place = Place::Bound("a".into());
    let seen = seen(vec![node("a", 4, &[])], vec![bound, pod("p", 1)]);
    let decision = decided(&seen);
    assert!(decision.placed.is_empty());
    assert!(
        decision.troubles[0].contains("4 more of its GPUs"),
        "{:?}",
        decision.troubles
    );
}

#[test]
fn parts_of_gpus_are_taken_as_the_plugin_gives_them() {
    let mut sliced = (*node("a", 0, &[])).clone();
    sliced.accelerators = [("nvidia.com/mig-1g.18gb".to_owned(), 2)].into();
    let mut pods: Vec<Pod> = (0..3).map(|i| pod(&format!("s{i}"), 1)).collect();
    for pod in &mut pods {
        if let Some(ask) = &mut pod.ask {
            ask.resource = "nvidia.com/mig-1g.18gb".into();
        }
    }
    let seen = seen(vec![Arc::new(sliced), node("b", 8, &[])], pods);
    let decision = decided(&seen);
    assert_eq!(decision.placed.len(), 2);
    assert!(decision.placed.iter().all(|one| one.node == "a"));
}

#[test]
fn a_wrong_policy_is_refused() {
    let mut seen = seen(vec![], vec![]);
    seen.rules.placement = Some("best".into());
    assert!(decide(&seen, Nanoseconds(1)).is_err());
}
