//! What quotas and racks allow.

use super::{tests::*, *};

#[test]
fn quotas_count_what_runs() {
    let mut bound = pod("bound", 2);
    bound.place = Place::Bound("a".into());
    let mut seen = seen(vec![node("a", 8, &[])], vec![bound, pod("p", 3)]);
    seen.quotas = vec![Quota {
        name: "team".into(),
        namespaces: vec!["team".into()],
        gpus: 4,
        borrowing: Some(0),
        lending: None,
        weight: 1,
    }];
    let decision = decided(&seen);
    assert_eq!(
        decision.waits.first().map(|one| one.reason),
        Some("Quota"),
        "{decision:?}"
    );
    seen.quotas[0].gpus = 5;
    assert_eq!(decided(&seen).placed.len(), 1);
}

#[test]
fn racks_hold_a_gang_together() {
    let rack = |name: &str, rack: &str| node(name, 8, &[("topology.kubernetes.io/rack", rack)]);
    let nodes = vec![rack("a1", "a"), rack("a2", "a"), rack("b1", "b")];
    let wide = |size: u32| {
        let pods =
            (0..size).map(|i| ganged(pod(&format!("w-{i}"), 8), Some(size), GangKind::Annotated));
        let mut pods: Vec<Pod> = pods.collect();
        for ask in pods.iter_mut().filter_map(|pod| pod.ask.as_mut()) {
            ask.within = Some(gpuwise_domain::placement::Level::Rack);
        }
        pods
    };
    let two = seen(nodes.clone(), wide(2));
    let decision = decided(&two);
    assert!(
        placed(&two, &decision)
            .iter()
            .all(|(_, node)| node.starts_with('a')),
        "{decision:?}"
    );
    assert_eq!(decision.placed.len(), 2);
    let three = seen(nodes, wide(3));
    assert_eq!(
        decided(&three).waits.first().map(|one| one.reason),
        Some("LargerThanCluster")
    );
}

/// A device plugin may say any number: no sum overflows, and no more of it is believed than a node can have.
#[test]
fn a_device_plugin_that_makes_up_counts_breaks_nothing() {
    let nodes = vec![
        node("a", u32::MAX, &[]),
        node("b", u32::MAX, &[]),
        node("c", 8, &[]),
    ];
    let all = seen(nodes, vec![pod("p", 1), pod("vast", u32::MAX)]);
    let decision = decided(&all);
    assert_eq!(decision.placed.len(), 1, "{decision:?}");
    assert_eq!(decision.waits.len(), 1, "{decision:?}");
    assert!(
        decision.troubles.iter().any(|one| one.contains("node a")),
        "{decision:?}"
    );
}
