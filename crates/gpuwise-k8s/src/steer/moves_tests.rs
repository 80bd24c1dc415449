//! Pods of Deployments that move, one more of them first.

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
