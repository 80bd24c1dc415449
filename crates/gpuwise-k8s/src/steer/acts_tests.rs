//! Who leaves for whom, and what is promised meanwhile.

use super::{tests::*, *};

pub(super) fn bound(name: &str, gpus: u32, on: &str) -> Pod {
    let mut one = pod(name, gpus);
    one.place = Place::Bound(on.into());
    one.standing.ready = true;
    one.standing.ours = true;
    one.standing.started = Some(Nanoseconds(2_000_000_000));
    one
}

pub(super) fn willing(mut one: Pod) -> Pod {
    if let Some(ask) = &mut one.ask {
        ask.preemptible = Some(true);
    }
    one
}

fn urgent(name: &str, gpus: u32) -> Pod {
    Pod {
        priority: 100,
        ..pod(name, gpus)
    }
}

fn preempting(nodes: Vec<Arc<Node>>, pods: Vec<Pod>) -> Seen {
    let mut all = seen(nodes, pods);
    all.rules.preemption = Preempts::Annotated;
    all
}

fn leavers(seen: &Seen, decision: &Decision) -> Vec<String> {
    let all = decision.rooms.iter().flat_map(|room| &room.leavers);
    let mut names: Vec<String> = all.map(|one| seen.pods[one.pod].name.clone()).collect();
    names.sort();
    names
}

#[test]
fn who_says_so_makes_way_for_higher_priority() {
    let pods = || {
        vec![
            bound("held", 4, "a"),
            willing(bound("one", 4, "a")),
            willing(bound("two", 4, "b")),
            willing(bound("three", 4, "b")),
            urgent("urgent", 4),
        ]
    };
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    // Nobody is evicted where no policy says so.
    let plain = seen(nodes.clone(), pods());
    assert!(decided(&plain).rooms.is_empty());
    let all = preempting(nodes.clone(), pods());
    let decision = decided(&all);
    assert_eq!(leavers(&all, &decision).len(), 1);
    assert!(!leavers(&all, &decision).contains(&"held".to_owned()));
    assert!(decision.waits.is_empty(), "{:?}", decision.waits);
    // Not by its equals, and not by one that says that it takes nobody's place.
    let mut equal = pods();
    equal[4].priority = 0;
    assert!(decided(&preempting(nodes.clone(), equal)).rooms.is_empty());
    let mut modest = pods();
    modest[4].standing.never_preempts = true;
    assert!(decided(&preempting(nodes.clone(), modest)).rooms.is_empty());
    // Whom a budget keeps is no victim.
    let mut kept = preempting(nodes, pods());
    kept.kept = ["one", "two", "three"].map(|n| format!("uid-{n}")).into();
    assert!(decided(&kept).rooms.is_empty());
}

#[test]
fn a_kept_place_is_given_to_nobody_else_and_nobody_leaves_for_it_twice() {
    let mut leaving = willing(bound("low", 8, "a"));
    leaving.standing.leaves = true;
    let mut big = urgent("big", 8);
    big.standing.nominated = Some("a".into());
    let others = || willing(bound("other", 8, "b"));
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let mut all = preempting(
        nodes.clone(),
        vec![leaving, others(), big.clone(), pod("late", 8)],
    );
    let decision = decided(&all);
    assert!(decision.placed.is_empty() && decision.rooms.is_empty());
    assert_eq!(decision.evict, [0]);
    let reason = |decision: &Decision| {
        decision
            .waits
            .iter()
            .find(|one| one.pod == 2)
            .map(|w| w.reason)
    };
    assert_eq!(reason(&decision), Some("MakingRoom"));
    all.refused.insert("uid-low".into(), "a budget".into());
    assert_eq!(reason(&decided(&all)), Some("EvictionRefused"));
    // Once it is gone the room is that pod's alone, though another came first.
    let mut late = pod("late", 8);
    late.created = Nanoseconds(0);
    let freed = preempting(nodes.clone(), vec![others(), big.clone(), late]);
    let decision = decided(&freed);
    assert_eq!(
        placed(&freed, &decision),
        [("big".to_owned(), "a".to_owned())]
    );
    // Whoever nobody waits for may stay.
    let mut spared = willing(bound("low", 8, "a"));
    spared.standing.leaves = true;
    let calm = preempting(nodes, vec![spared]);
    assert_eq!(decided(&calm).spare, [0]);
}

#[test]
fn whoever_leaves_already_is_counted_on_and_not_spared() {
    // The operator before told one of two, and no more.
    let mut told = willing(bound("told", 4, "a"));
    told.standing.leaves = true;
    let mut big = urgent("big", 8);
    big.standing.nominated = Some("a".into());
    let others = ["two", "three", "four"].map(|name| {
        let on = if name == "two" { "a" } else { "b" };
        willing(bound(name, 4, on))
    });
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let pods = [told, big].into_iter().chain(others).collect();
    let all = preempting(nodes, pods);
    let decision = decided(&all);
    assert_eq!(leavers(&all, &decision), ["two"]);
    assert!(decision.spare.is_empty(), "{:?}", decision.spare);
}

#[test]
fn a_promise_that_cannot_be_kept_is_decided_anew() {
    let mut big = urgent("big", 8);
    big.standing.nominated = Some("a".into());
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    // Another is there who does not leave; the other node is free.
    let all = preempting(nodes, vec![bound("in", 1, "a"), big]);
    let decision = decided(&all);
    assert_eq!(
        placed(&all, &decision),
        [("big".to_owned(), "b".to_owned())]
    );
}

#[test]
fn a_gang_leaves_whole_and_a_gang_is_let_in_whole() {
    let member =
        |name: &str, on: &str| willing(ganged(bound(name, 8, on), Some(2), GangKind::Annotated));
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let all = preempting(
        nodes.clone(),
        vec![member("v-0", "a"), member("v-1", "b"), urgent("u", 8)],
    );
    assert_eq!(leavers(&all, &decided(&all)), ["v-0", "v-1"]);
    let promised = |name: &str, on: &str| {
        let mut one = ganged(urgent(name, 8), Some(2), GangKind::Annotated);
        one.owner = "Job/other".into();
        one.standing.nominated = Some(on.into());
        one
    };
    let mut ends = willing(bound("low", 8, "b"));
    ends.standing.ends = true;
    let pods = vec![promised("w-0", "a"), promised("w-1", "b"), ends];
    let half = preempting(nodes.clone(), pods.clone());
    assert!(decided(&half).placed.is_empty());
    let whole = preempting(nodes, pods[..2].to_vec());
    assert_eq!(decided(&whole).placed.len(), 2);
}

#[test]
fn what_was_lent_is_taken_back() {
    let theirs = |name: &str| {
        let mut one = willing(bound(name, 4, "a"));
        one.namespace = "other".into();
        one
    };
    let mut all = preempting(
        vec![node("a", 8, &[])],
        vec![theirs("x"), theirs("y"), pod("back", 4)],
    );
    all.quotas = ["other", "team"]
        .map(|name| Quota {
            name: name.into(),
            namespaces: vec![name.into()],
            gpus: 4,
            borrowing: None,
            lending: None,
            weight: 1,
        })
        .to_vec();
    assert!(decided(&all).rooms.is_empty());
    all.rules.reclaims = true;
    assert_eq!(leavers(&all, &decided(&all)).len(), 1);
}

#[test]
fn a_moment_at_which_somebody_has_waited_for_too_long_is_known() {
    let mut all = seen(
        vec![node("a", 8, &[])],
        vec![bound("in", 8, "a"), pod("waits", 8)],
    );
    all.rules.starvation = Some(Nanoseconds(60_000_000_000));
    // It was made at 1 s.
    assert_eq!(decided(&all).wake, Some(Nanoseconds(61_000_000_000)));
}
