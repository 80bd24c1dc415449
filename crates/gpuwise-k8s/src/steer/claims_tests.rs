//! Pods that ask devices by claims evict, are evicted and move.

use super::{
    rounds::tests::{HALF, WHOLE, claims, cluster},
    tests::{decided, ganged, node, placed, pod},
    *,
};
use proptest::prelude::*;

/// Allocates devices to pods that are bound, as kube-scheduler does, one after the other; who gets none is left out.
fn allocated(seen: &mut Seen) {
    let mut devices = (*seen.devices).clone();
    let mut there = Vec::new();
    for one in seen.pods.drain(..) {
        let node = one.place.node().map(str::to_owned);
        let Some(pool) = node.and_then(|node| devices.pools.get_mut(&node)) else {
            there.push(one);
            continue;
        };
        let ask = one.ask.as_ref().expect("it asks");
        let before = pool.devices.clone();
        if pool.count(&ask.resource) < ask.count {
            continue;
        }
        pool.take(&ask.resource, ask.count);
        let got = before
            .into_iter()
            .filter(|device| !pool.devices.contains(device));
        devices.held.insert(one.uid.clone(), got.collect());
        let mut one = Pod::clone(&one);
        one.claims = Claims::Allocated;
        there.push(Arc::new(one));
    }
    (seen.pods, seen.devices) = (there, Arc::new(devices));
}

fn bound(name: &str, resource: &str, node: &str, priority: i32) -> Pod {
    let mut one = claims(name, resource, 1);
    one.place = Place::Bound(node.into());
    one.priority = priority;
    one.standing.started = Some(Nanoseconds(1_000_000_000));
    one.standing.ready = true;
    one
}

fn urgent(name: &str, resource: &str, count: u32) -> Pod {
    let mut one = claims(name, resource, count);
    one.priority = 100;
    one
}

fn names(seen: &Seen, room: &Room) -> Vec<String> {
    let all = room.leavers.iter();
    all.map(|one| seen.pods[one.pod].name.clone()).collect()
}

/// These are gone and their claims given back.
fn give(seen: &Seen, gone: &[usize], pools: &mut BTreeMap<String, Pool>) {
    for at in gone {
        let one = &seen.pods[*at];
        let node = one.place.node().expect("it is there");
        let pool = pools.get_mut(node).expect("it has devices");
        pool.give(seen.devices.held.get(&one.uid).map_or(&[], Vec::as_slice));
    }
}

#[test]
fn a_whole_gpu_evicts_both_of_its_halves_and_no_other() {
    let pods = vec![
        bound("a-0", HALF, "a", 5),
        bound("a-1", HALF, "a", 1),
        bound("b-0", HALF, "b", 1),
        bound("b-1", HALF, "b", 1),
        bound("c-0", WHOLE, "c", 3),
        urgent("big", WHOLE, 1),
    ];
    let mut seen = cluster(&[("a", 1), ("b", 1), ("c", 1)], pods);
    allocated(&mut seen);
    let decision = decided(&seen);
    assert!(decision.rooms.is_empty(), "nobody may be evicted");
    assert_eq!(decision.waits[0].reason, "TooFewGpus");
    seen.rules.preemption = Preempts::LowerPriority;
    let decision = decided(&seen);
    let room = decision.rooms.first().expect("room is made");
    assert_eq!(decision.rooms.len(), 1);
    let (at, to) = room.pods.first().expect("somebody is to start");
    assert_eq!(seen.pods[*at].name, "big");
    let wanted: &[&str] = if to == "c" { &["c-0"] } else { &["b-0", "b-1"] };
    assert_eq!(names(&seen, room), wanted);
    assert!(decision.waits.is_empty());
}

#[test]
fn who_was_promised_room_starts_when_claims_are_given_back_and_not_before() {
    let mut big = urgent("big", WHOLE, 1);
    big.standing.nominated = Some("a".into());
    let mut left = bound("a-0", HALF, "a", 0);
    left.standing.leaves = true;
    let pods = vec![
        left,
        bound("a-1", HALF, "a", 0),
        big,
        claims("half", HALF, 1),
    ];
    let mut seen = cluster(&[("a", 1)], pods);
    allocated(&mut seen);
    seen.rules.preemption = Preempts::LowerPriority;
    // The other half does not leave: the promise cannot be kept, and is made anew.
    assert_eq!(decided(&seen).rooms.len(), 1);
    let other = Arc::make_mut(&mut seen.pods[1]);
    other.standing.leaves = true;
    let decision = decided(&seen);
    assert_eq!(decision.evict, [0, 1]);
    assert!(decision.placed.is_empty() && decision.rooms.is_empty());
    let reasons: Vec<&str> = decision.waits.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, ["MakingRoom", "TooFewGpus"]);
    // Both pods are gone, one claim is not.
    let mut devices = (*seen.devices).clone();
    let held = std::mem::take(&mut devices.held);
    let mut held = held.into_values();
    devices.going.insert("a".into(), held.next().expect("one"));
    let given_back = held.next().expect("the other");
    devices
        .pools
        .get_mut("a")
        .expect("a pool")
        .give(&given_back);
    seen.pods.drain(..2);
    seen.devices = Arc::new(devices.clone());
    let decision = decided(&seen);
    assert!(decision.placed.is_empty(), "{:?}", decision.placed);
    assert_eq!(decision.waits.len(), 2);
    let last = devices.going.remove("a").expect("the last");
    devices.pools.get_mut("a").expect("a pool").give(&last);
    seen.devices = Arc::new(devices);
    let decision = decided(&seen);
    assert_eq!(
        placed(&seen, &decision),
        [("big".to_owned(), "a".to_owned())]
    );
    assert_eq!(decision.waits.len(), 1);
}

#[test]
fn claims_that_others_share_keep_their_pods() {
    let mut shared = bound("shared", WHOLE, "a", 0);
    shared.standing.sharing = Sharing::Shared;
    let mut seen = cluster(&[("a", 1)], vec![shared, urgent("big", WHOLE, 1)]);
    allocated(&mut seen);
    seen.rules.preemption = Preempts::LowerPriority;
    assert!(decided(&seen).rooms.is_empty());
}

#[test]
fn pods_with_claims_of_their_own_move_for_others_and_those_that_name_one_do_not() {
    let replica = |sharing| {
        let mut one = bound("web-0", WHOLE, "a", 0);
        one.standing.ours = true;
        one.standing.deployment = Some("web".into());
        one.standing.sharing = sharing;
        one
    };
    for sharing in [Sharing::Own, Sharing::Named] {
        let pods = vec![replica(sharing), claims("two", WHOLE, 2)];
        let mut seen = cluster(&[("a", 2), ("b", 1)], pods);
        allocated(&mut seen);
        let moves = Moves {
            left: 1,
            consolidates: false,
        };
        seen.rules.moves = Some(moves);
        let rooms = decided(&seen).rooms;
        let how = rooms.first().map(|room| room.leavers[0].how.clone());
        let moves = Leaves::Moves { to: "b".into() };
        assert_eq!(how, (sharing == Sharing::Own).then_some(moves));
    }
}

#[test]
fn a_gang_that_asks_in_both_ways_starts_together_or_not() {
    for plugins in [8, 7] {
        let mut one = pod("plugin", 8);
        one.priority = 1;
        let gang = [one, claims("claim", WHOLE, 1)];
        let gang = gang.map(|one| ganged(one, Some(2), GangKind::Annotated));
        let mut seen = cluster(&[("a", 1)], gang.into());
        seen.nodes.push(node("plugin", plugins, &[]));
        let decision = decided(&seen);
        let (there, wait) = (decision.placed.len(), decision.waits.len());
        assert_eq!((there, wait), if plugins == 8 { (2, 0) } else { (0, 2) });
    }
}

#[test]
fn the_rest_of_a_gang_that_asks_in_both_ways_goes_before_gangs_that_have_not_begun() {
    let gang = |name: &str| {
        [
            pod(&format!("p-{name}"), 1),
            claims(&format!("c-{name}"), WHOLE, 1),
        ]
        .map(|one| {
            let mut one = ganged(one, Some(2), GangKind::Annotated);
            if let Some(gang) = one.ask.as_mut().and_then(|ask| ask.gang.as_mut()) {
                gang.name = name.into();
            }
            one
        })
    };
    let mut pods: Vec<Pod> = ["a", "b", "z"].iter().flat_map(|name| gang(name)).collect();
    // Its operator died between the two.
    pods[4].place = Place::Sent("plugin".into());
    let mut seen = cluster(&[("n", 2)], pods);
    seen.nodes.push(node("plugin", 8, &[]));
    let placed = placed(&seen, &decided(&seen));
    let names: Vec<&str> = placed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["c-a", "c-z", "p-a"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever holds what, at whatever priority: rooms are there once those have left who leave for them, and nobody
    /// leaves for somebody who is not more urgent, or needlessly.
    #[test]
    fn rooms_can_be_allocated(
        held in prop::collection::vec((any::<bool>(), 0..3_u8, 0..6_i32), 0..14),
        asked in prop::collection::vec((any::<bool>(), 0..8_i32), 1..4),
    ) {
        let of = |half: bool| if half { HALF } else { WHOLE };
        let nodes = ["a", "b", "c"];
        let mut pods: Vec<Pod> = Vec::new();
        for (at, (half, node, priority)) in held.into_iter().enumerate() {
            pods.push(bound(&format!("held-{at}"), of(half), nodes[usize::from(node)], priority));
        }
        for (at, (half, priority)) in asked.into_iter().enumerate() {
            let mut one = claims(&format!("asked-{at}"), of(half), 1);
            one.priority = priority;
            pods.push(one);
        }
        let mut seen = cluster(&[("a", 1), ("b", 2), ("c", 1)], pods);
        allocated(&mut seen);
        seen.rules.preemption = Preempts::LowerPriority;
        let decision = decided(&seen);
        let gone: Vec<usize> = decision.rooms.iter().flat_map(|room| &room.leavers).map(|one| one.pod).collect();
        let fits = |gone: &[usize]| {
            // Who is placed finds his while those who leave are there.
            let mut pools = seen.devices.pools.clone();
            let mut all = |at: usize, node: &str, gone: &[usize]| {
                give(&seen, gone, &mut pools);
                let ask = seen.pods[at].ask.as_ref().expect("it asks");
                let pool = pools.get_mut(node).expect("it has devices");
                pool.take(&ask.resource, ask.count).len() == ask.count as usize
            };
            let placed = decision.placed.iter().all(|one| all(one.pod, &one.node, &[]));
            let mut gone = gone.to_vec();
            let mut seats = decision.rooms.iter().flat_map(|room| &room.pods);
            placed && seats.all(|(at, node)| all(*at, node, &std::mem::take(&mut gone)))
        };
        prop_assert!(fits(&gone), "{decision:?}");
        for room in &decision.rooms {
            let least = room.pods.iter().map(|(at, _)| seen.pods[*at].priority).min();
            for one in &room.leavers {
                prop_assert!(Some(seen.pods[one.pod].priority) < least);
            }
        }
        for at in &gone {
            let rest: Vec<usize> = gone.iter().copied().filter(|one| one != at).collect();
            prop_assert!(!fits(&rest), "{} leaves needlessly: {decision:?}", seen.pods[*at].name);
        }
    }
}
