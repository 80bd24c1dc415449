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

fn web(name: &str, on: &str) -> Pod {
    let mut one = bound(name, 4, on);
    one.owner = "ReplicaSet/web-1".into();
    one.standing.deployment = Some("web".into());
    one
}

#[test]
fn a_pod_moves_only_after_one_more_is_ready() {
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let wide = pod("wide", 8);
    let mut all = seen(
        nodes.clone(),
        vec![web("w-0", "a"), bound("stays", 4, "b"), wide.clone()],
    );
    all.rules.moves = Some(Moves {
        left: 1,
        consolidates: false,
    });
    let decision = decided(&all);
    let Some(room) = decision.rooms.first() else {
        panic!("{decision:?}");
    };
    assert_eq!(room.pods, [(2, "a".to_owned())]);
    assert_eq!(room.leavers[0].how, Leaves::Moves { to: "b".into() });
    all.rules.moves = Some(Moves {
        left: 0,
        consolidates: false,
    });
    assert!(decided(&all).rooms.is_empty());

    // Under way: the Deployment gets one more, that is sent where its place is kept, and then it gets one less.
    let at = Nanoseconds(9_000_000_000);
    let mut moving = web("w-0", "a");
    moving.standing.moves = Some(("b".into(), at));
    let mut wide = wide;
    wide.standing.nominated = Some("a".into());
    let pods = vec![moving, bound("stays", 4, "b"), wide];
    let under_way = |pods: Vec<Pod>, surges: Vec<Surge>| {
        let mut all = seen(nodes.clone(), pods);
        all.rules.moves = Some(Moves {
            left: 1,
            consolidates: false,
        });
        all.surges = surges;
        decided(&all)
    };
    let begun = under_way(pods.clone(), Vec::new());
    assert_eq!(
        begun.steps,
        [Step::Raise {
            pod: 0,
            deployment: "web".into()
        }]
    );
    assert!(begun.placed.is_empty() && begun.rooms.is_empty());
    let surge = || {
        vec![Surge {
            namespace: "team".into(),
            name: "web".into(),
            pod: "uid-w-0".into(),
        }]
    };
    let mut double = web("w-1", "b");
    double.standing.replaces = Some("uid-w-0".into());
    let mut gated = web("w-1", "b");
    gated.place = Place::Gated;
    gated.standing.ready = false;
    let mut with = pods.clone();
    with.push(gated);
    let sent = under_way(with, surge());
    assert_eq!((sent.placed.len(), sent.placed[0].node.as_str()), (1, "b"));
    assert_eq!(sent.placed[0].replaces.as_deref(), Some("uid-w-0"));
    assert!(sent.steps.is_empty());
    let mut with = pods.clone();
    double.standing.ready = false;
    with.push(double.clone());
    assert!(under_way(with.clone(), surge()).steps.is_empty());
    double.standing.ready = true;
    with[3] = double;
    assert_eq!(
        under_way(with, surge()).steps,
        [Step::Lower(surge()[0].clone())]
    );
}

#[test]
fn a_move_that_takes_too_long_is_called_off() {
    let mut moving = web("w-0", "a");
    moving.standing.moves = Some(("b".into(), Nanoseconds(0)));
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let mut all = seen(nodes, vec![moving]);
    all.rules.moves = Some(Moves {
        left: 1,
        consolidates: false,
    });
    let late = Nanoseconds(601_000_000_000);
    let decision = decide(&all, late).expect("it is decided");
    assert_eq!(decision.steps, [Step::Stay { pod: 0 }]);
    // Who moved is gone: what the Deployment has more is taken back.
    all.surges = vec![Surge {
        namespace: "team".into(),
        name: "web".into(),
        pod: "gone".into(),
    }];
    let decision = decide(&all, late).expect("it is decided");
    assert_eq!(decision.steps, [Step::Lower(all.surges[0].clone())]);
}

#[test]
fn pods_move_together_where_that_makes_room_for_larger_ones() {
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[]), node("c", 8, &[])];
    let other = |name: &str, on: &str, of: &str| {
        let mut one = web(name, on);
        one.standing.deployment = Some(of.into());
        one
    };
    let mut all = seen(
        nodes,
        vec![
            other("w-0", "a", "x"),
            other("w-1", "b", "y"),
            bound("large", 8, "c"),
            bound("l2", 8, "c"),
        ],
    );
    all.rules.moves = Some(Moves {
        left: 4,
        consolidates: true,
    });
    let hour = Nanoseconds(3_600_000_000_000);
    let decision = decide(&all, hour).expect("it is decided");
    assert_eq!(decision.rooms.len(), 1, "{decision:?}");
    all.rules.moves = Some(Moves {
        left: 4,
        consolidates: false,
    });
    assert!(decide(&all, hour).expect("it is decided").rooms.is_empty());
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
