//! Decisions where pods ask devices by claims.

use super::super::{
    Device, Devices, GangKind, Node, Place, Pool, Quota,
    tests::{decided, ganged, node, placed, pod, seen},
};
use super::*;
use std::sync::Arc;

pub(in crate::steer) const WHOLE: &str = "gpus";
pub(in crate::steer) const HALF: &str = "gpus where half";

/// A node with GPUs that are offered whole and in halves.
fn pool(gpus: u32) -> Pool {
    let mut pool = Pool::default();
    for gpu in 0..gpus {
        let counter = (format!("gpu{gpu}"), "slices".to_owned());
        pool.counters.insert(counter.clone(), 8);
        for (resource, takes) in [(WHOLE, 8), (HALF, 4), (HALF, 4)] {
            pool.devices.push(Device {
                at: pool.devices.len() as u32,
                takes: vec![(counter.clone(), takes)],
                serves: [resource.to_owned()].into(),
            });
        }
    }
    pool
}

pub(in crate::steer) fn claims(name: &str, resource: &str, count: u32) -> Pod {
    let mut pod = pod(name, count);
    pod.claims = Claims::Open;
    if let Some(ask) = &mut pod.ask {
        ask.resource = resource.into();
    }
    pod
}

pub(in crate::steer) fn cluster(pools: &[(&str, u32)], pods: Vec<Pod>) -> Seen {
    let bare = |name: &str| {
        let mut one = Node::clone(&node(name, 0, &[]));
        one.accelerators.clear();
        Arc::new(one)
    };
    let mut seen = seen(pools.iter().map(|(name, _)| bare(name)).collect(), pods);
    let most = pools.iter().map(|(_, gpus)| *gpus).max().unwrap_or(0);
    seen.devices = Arc::new(Devices {
        pools: pools
            .iter()
            .map(|(name, gpus)| ((*name).to_owned(), pool(*gpus)))
            .collect(),
        asked: [WHOLE.to_owned(), HALF.to_owned()].into(),
        parts: [HALF.to_owned()].into(),
        most: [(WHOLE.to_owned(), most), (HALF.to_owned(), 2 * most)].into(),
        ..Devices::default()
    });
    seen
}

/// Devices of a node's pool for all who were sent there, as an allocator gives them; whether all got theirs.
fn allocates(seen: &Seen, decision: &Decision) -> bool {
    let mut pools = seen.devices.pools.clone();
    decision.placed.iter().all(|one| {
        let ask = seen.pods[one.pod].ask.as_ref().expect("it asks");
        let pool = pools.get_mut(&one.node).expect("it has devices");
        pool.take(&ask.resource, ask.count).len() == ask.count as usize
    })
}

#[test]
fn no_more_is_placed_than_counters_allow() {
    // Six GPUs: whatever is asked in whatever order, what is placed can be allocated, and nothing that fits waits.
    for halves in 0..14_u32 {
        let mut pods: Vec<Pod> = (0..4)
            .map(|at| claims(&format!("w{at}"), WHOLE, 1))
            .collect();
        pods.extend((0..halves).map(|at| claims(&format!("h{at}"), HALF, 1)));
        for (at, pod) in (0_i32..).zip(&mut pods) {
            pod.priority = (at * 7) % 5;
        }
        let seen = cluster(&[("a", 2), ("b", 4)], pods);
        let decision = decided(&seen);
        assert!(allocates(&seen, &decision));
        let used: u32 = placed(&seen, &decision)
            .iter()
            .map(|(name, _)| if name.starts_with('w') { 2 } else { 1 })
            .sum();
        assert_eq!(
            used,
            (8 + halves).min(12) - u32::from(halves > 4 && used < 12),
            "{halves} halves"
        );
    }
}

#[test]
fn who_was_sent_holds_devices_before_they_are_allocated() {
    let mut sent = claims("sent", WHOLE, 1);
    sent.place = Place::Sent("a".into());
    let seen = cluster(&[("a", 1)], vec![sent, claims("half", HALF, 1)]);
    let decision = decided(&seen);
    assert!(decision.placed.is_empty());
    assert_eq!(decision.waits[0].reason, "TooFewGpus");
}

#[test]
fn claims_with_count_are_of_one_node_and_gangs_are_whole() {
    let seen = cluster(
        &[("a", 2), ("b", 3)],
        vec![claims("three", WHOLE, 3), claims("four", WHOLE, 4)],
    );
    let decision = decided(&seen);
    assert_eq!(
        placed(&seen, &decision),
        [("three".to_owned(), "b".to_owned())]
    );
    let gang = |size| -> Vec<Pod> {
        (0..size)
            .map(|at| {
                ganged(
                    claims(&format!("g{at}"), WHOLE, 2),
                    Some(size),
                    GangKind::Annotated,
                )
            })
            .collect()
    };
    let two = cluster(&[("a", 2), ("b", 3)], gang(2));
    assert_eq!(decided(&two).placed.len(), 2);
    let three = cluster(&[("a", 2), ("b", 3)], gang(3));
    assert!(decided(&three).placed.is_empty());
}

#[test]
fn quotas_count_whole_gpus_of_claims_and_of_plugins_together() {
    let mut held = pod("held", 2);
    held.place = Place::Bound("plugin".into());
    let mut seen = cluster(
        &[("a", 4)],
        vec![
            held,
            claims("one", WHOLE, 1),
            claims("two", WHOLE, 2),
            claims("half", HALF, 1),
        ],
    );
    seen.nodes.push(node("plugin", 8, &[]));
    seen.quotas.push(Quota {
        name: "team".into(),
        namespaces: vec!["team".into()],
        gpus: 3,
        borrowing: Some(0),
        lending: None,
        weight: 1,
    });
    let decision = decided(&seen);
    let names: Vec<String> = placed(&seen, &decision)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["half", "one"]);
    assert_eq!(decision.waits[0].reason, "Quota");
}

#[test]
fn what_is_missing_is_said_and_what_is_no_gpu_is_let_go() {
    let mut missing = claims("missing", WHOLE, 1);
    missing.ask = None;
    missing.claims = Claims::Wait {
        reason: "NoSuchClass",
        words: "there is no DeviceClass".into(),
    };
    let mut nic = missing.clone();
    nic.claims = Claims::Others("its claims are for no GPUs".into());
    let decision = decided(&seen(Vec::new(), vec![missing, nic]));
    assert_eq!(
        (decision.waits.len(), decision.waits[0].reason),
        (1, "NoSuchClass")
    );
    assert_eq!(decision.let_go.len(), 1);
    assert_eq!(decision.let_go[0].0, 1);
}
