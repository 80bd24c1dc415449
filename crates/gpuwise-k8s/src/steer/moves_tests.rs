//! Pods of Deployments that move, one more of them first; pods of StatefulSets that do, one after the other.

use super::{acts_tests::bound, tests::*, *};

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
fn pods_of_one_deployment_move_one_after_the_other() {
    let nodes = vec![node("a", 8, &[]), node("b", 4, &[]), node("c", 4, &[])];
    let moves = |name: &str, to: &str| {
        let mut one = web(name, "a");
        one.standing.moves = Some((to.into(), Nanoseconds(9_000_000_000)));
        one
    };
    let under_way = |pods: Vec<Pod>, surges: Vec<Surge>| {
        let mut all = seen(nodes.clone(), pods);
        all.rules.moves = Some(Moves {
            left: 2,
            consolidates: false,
        });
        all.surges = surges;
        decided(&all)
    };
    let (first, mut second) = (moves("w-0", "b"), moves("w-1", "c"));
    let raised = |pods: Vec<Pod>| under_way(pods, Vec::new()).steps;
    let raise = |pod| Step::Raise {
        pod,
        deployment: "web".into(),
    };
    assert_eq!(raised(vec![first.clone(), second.clone()]), [raise(0)]);
    // Begun by who led before: its controller would end that one first.
    second.standing.cheapest = true;
    assert_eq!(raised(vec![first.clone(), second.clone()]), [raise(1)]);
    // Who starts is in the stead of the one for which there is one more, and goes where its place is kept.
    let surge = Surge {
        namespace: "team".into(),
        name: "web".into(),
        pod: "uid-w-1".into(),
    };
    let mut gated = web("w-2", "c");
    gated.place = Place::Gated;
    gated.standing.ready = false;
    let sent = under_way(vec![first, second, gated], vec![surge]);
    let sent: Vec<_> = sent
        .placed
        .iter()
        .map(|one| (one.node.as_str(), one.replaces.as_deref()))
        .collect();
    assert_eq!(sent, [("c", Some("uid-w-1"))]);
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

fn db(ordinal: u32, on: &str) -> Pod {
    let mut one = bound(&format!("db-{ordinal}"), 4, on);
    one.owner = "StatefulSet/db".into();
    one.standing.set = Some(("db".into(), ordinal));
    one
}

fn turn(ordinal: u32, to: &str) -> Turn {
    Turn {
        namespace: "team".into(),
        set: "db".into(),
        pod: format!("db-{ordinal}"),
        uid: format!("uid-db-{ordinal}"),
        to: to.into(),
        since: Nanoseconds(9_000_000_000),
    }
}

/// Half of two nodes is held by pods of a StatefulSet, and somebody waits for a whole one.
fn scattered(budgeted: bool) -> Seen {
    let nodes = vec![node("a", 8, &[]), node("b", 8, &[])];
    let mut all = seen(nodes, vec![db(0, "a"), db(1, "b"), pod("wide", 8)]);
    all.rules.moves = Some(Moves {
        left: 4,
        consolidates: false,
    });
    if budgeted {
        all.budgeted = ["uid-db-0".into(), "uid-db-1".into()].into();
    }
    all
}

#[test]
fn a_pod_of_a_statefulset_moves_only_within_a_budget_that_lets_one_go() {
    let said = |all: &Seen| {
        let decision = decided(all);
        assert!(decision.rooms.is_empty(), "{decision:?}");
        decision.waits[0].words.clone()
    };
    assert!(said(&scattered(false)).contains("no PodDisruptionBudget"));
    let mut kept = scattered(true);
    kept.kept = kept.budgeted.clone();
    assert!(said(&kept).contains("lets nobody go now"));
    let decision = decided(&scattered(true));
    let leavers = &decision.rooms[0].leavers;
    assert_eq!(leavers.len(), 1);
    assert!(matches!(leavers[0].how, Leaves::Moves { .. }));
    // One that is not ready is waited for, and one that has its turn.
    for unsettle in [
        |all: &mut Seen| Arc::make_mut(&mut all.pods[0]).standing.ready = false,
        |all: &mut Seen| all.turns.push(turn(0, "a")),
    ] {
        let mut all = scattered(true);
        unsettle(&mut all);
        assert!(decided(&all).rooms.is_empty());
    }
}

#[test]
fn pods_of_a_statefulset_take_turns_from_the_highest_ordinal() {
    let nodes = ["a", "b", "c", "d"].map(|name| node(name, 8, &[]));
    let moving = |ordinal: u32, on: &str, to: &str| {
        let mut one = db(ordinal, on);
        one.standing.moves = Some((to.into(), Nanoseconds(9_000_000_000)));
        one
    };
    let under_way = |pods: Vec<Pod>, turns: Vec<Turn>| {
        let mut all = seen(nodes.to_vec(), pods);
        all.rules.moves = Some(Moves {
            left: 0,
            consolidates: false,
        });
        all.turns = turns;
        all
    };
    let both = || vec![moving(0, "a", "c"), moving(1, "b", "c")];
    // Where it goes is written before it goes; while it goes nobody else does.
    let steps = |pods, turns| decided(&under_way(pods, turns)).steps;
    assert_eq!(steps(both(), vec![]), [Step::Turn { pod: 1 }]);
    assert_eq!(steps(both(), vec![turn(1, "c")]), [Step::Evict { pod: 1 }]);
    let mut ending = both();
    ending[1].standing.ends = true;
    assert_eq!(steps(ending, vec![turn(1, "c")]), []);
    // Its successor starts where its place was kept, though others wait, and before it is there, too.
    let nodes_of_two = vec![node("a", 8, &[]), node("c", 8, &[])];
    let mut gap = seen(nodes_of_two, vec![db(0, "a"), pod("other", 8)]);
    assert_eq!(placed(&gap, &decided(&gap)).len(), 1);
    gap.turns.push(turn(1, "c"));
    assert_eq!(placed(&gap, &decided(&gap)), []);
    let mut pods = both();
    pods.truncate(1);
    pods.push(pod("other", 8));
    let mut successor = db(1, "");
    successor.uid = "uid-new".into();
    successor.place = Place::Gated;
    successor.standing.ready = false;
    pods.push(successor.clone());
    let gated = under_way(pods.clone(), vec![turn(1, "c")]);
    assert!(placed(&gated, &decided(&gated)).contains(&("db-1".into(), "c".into())));
    // The next one waits until it is ready.
    successor.place = Place::Bound("c".into());
    pods[2] = successor.clone();
    assert_eq!(steps(pods.clone(), vec![turn(1, "c")]), []);
    successor.standing.ready = true;
    pods[2] = successor;
    let over = steps(pods.clone(), vec![turn(1, "c")]);
    assert_eq!(over, [Step::Over(turn(1, "c"))]);
    assert_eq!(steps(pods, vec![]), [Step::Turn { pod: 0 }]);
}

#[test]
fn a_turn_that_takes_too_long_is_called_off() {
    let late = Nanoseconds(700_000_000_000);
    let mut moving = db(1, "b");
    moving.standing.moves = Some(("a".into(), Nanoseconds(0)));
    let mut all = seen(vec![node("a", 8, &[]), node("b", 8, &[])], vec![moving]);
    all.rules.moves = Some(Moves {
        left: 1,
        consolidates: false,
    });
    all.turns.push(turn(1, "a"));
    let steps = |all: &Seen| decide(all, late).expect("it is decided").steps;
    assert_eq!(steps(&all), [Step::Over(turn(1, "a"))]);
    all.turns.clear();
    assert_eq!(steps(&all), [Step::Stay { pod: 0 }]);
}
