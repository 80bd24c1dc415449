//! Nodes that are cut anew or closed.

use super::{
    acts_tests::{bound, willing},
    tests::*,
    *,
};

fn cuttable(name: &str) -> Node {
    let labels = [
        ("nvidia.com/gpu.count", "8"),
        (MIG_CONFIG, "all-disabled"),
        (MIG_STATE, "success"),
        ("nvidia.com/mig.strategy", "mixed"),
    ];
    (*node(name, 8, &labels)).clone()
}

fn slice(name: &str) -> Pod {
    let mut one = pod(name, 1);
    if let Some(ask) = &mut one.ask {
        ask.resource = "nvidia.com/mig-1g.18gb".into();
    }
    one
}

fn cutting(nodes: Vec<Node>, pods: Vec<Pod>) -> Seen {
    let mut all = seen(nodes.into_iter().map(Arc::new).collect(), pods);
    all.rules.repartitions = true;
    let profiles = [("1g.18gb".to_owned(), 7)].into();
    all.boards = Arc::new([("NVIDIA-H200".to_owned(), profiles)].into());
    all
}

fn found_cut(seen: &Seen) -> Option<Cut> {
    let now = Nanoseconds(10_000_000_000);
    cut(seen, &decided(seen).waits, &|_| true, now)
}

#[test]
fn a_node_is_cut_for_those_who_ask_for_instances() {
    let all = cutting(
        vec![cuttable("a"), cuttable("b")],
        vec![bound("in", 1, "a"), slice("s")],
    );
    let found = found_cut(&all).expect("a node is cut");
    assert_eq!(
        (found.node.as_str(), found.config.as_str(), found.empty),
        ("b", "all-1g.18gb", true)
    );
    assert_eq!(found.pods, [1]);
    // Who is in the way goes only if it may be evicted for them.
    let busy = |in_the_way: Pod| {
        let mut all = cutting(vec![cuttable("a")], vec![in_the_way, slice("s")]);
        all.rules.preemption = Preempts::Annotated;
        Arc::make_mut(&mut all.pods[1]).priority = 10;
        all
    };
    assert_eq!(found_cut(&busy(bound("in", 8, "a"))), None);
    let drained = found_cut(&busy(willing(bound("in", 8, "a")))).expect("it is drained");
    assert_eq!((drained.empty, drained.leavers.len()), (false, 1));
    let mut off = all;
    off.rules.repartitions = false;
    assert_eq!(found_cut(&off), None);
}

#[test]
fn a_node_that_is_cut_takes_nobody_until_it_gives_what_was_asked() {
    let mut node = cuttable("a");
    node.taints = vec![Taint {
        key: CUTTING.into(),
        value: "all-1g.18gb".into(),
        effect: "NoSchedule".into(),
    }];
    let mut wanted = slice("s");
    wanted.standing.nominated = Some("a".into());
    let stage = |node: &Node| {
        let all = cutting(vec![node.clone()], vec![wanted.clone()]);
        assert!(decided(&all).placed.is_empty());
        stages(&all).pop().map(|(_, stage)| stage)
    };
    assert_eq!(stage(&node), Some(Stage::Label("all-1g.18gb".into())));
    node.labels.insert(MIG_CONFIG.into(), "all-1g.18gb".into());
    // The state is still of what was before.
    assert_eq!(stage(&node), Some(Stage::Waits));
    node.labels.insert(MIG_STATE.into(), "failed".into());
    assert_eq!(stage(&node), Some(Stage::Open { cut: false }));
    node.labels.insert(MIG_STATE.into(), "success".into());
    node.accelerators = [("nvidia.com/mig-1g.18gb".to_owned(), 56)].into();
    assert_eq!(stage(&node), Some(Stage::Open { cut: true }));
    node.taints.clear();
    let all = cutting(vec![node], vec![wanted]);
    assert_eq!(decided(&all).placed.len(), 1);
}

#[test]
fn no_more_suspect_nodes_are_closed_than_may_be_and_none_at_once() {
    let sick = |name: &str| {
        let mut one = (*node(name, 8, &[])).clone();
        one.ailments = vec!["7 of 8 nvidia.com/gpu may be allocated".into()];
        Arc::new(one)
    };
    let nodes = vec![sick("a"), sick("b"), node("c", 8, &[]), node("d", 8, &[])];
    let mut all = seen(nodes, Vec::new());
    let second = Nanoseconds(1_000_000_000);
    let cordons = Some(Cordons {
        after: second,
        well: second + second,
        most_percent: 25,
    });
    let mut health = Health::default();
    let at = |s: u64| Nanoseconds(s * second.0);
    let first = judge(&all, cordons, &mut health, at(10));
    assert_eq!((first.cordon.len(), first.wake), (0, Some(at(11))));
    let then = judge(&all, cordons, &mut health, at(11));
    assert_eq!((then.cordon.len(), then.beyond.len()), (1, 1));
    let mut closed = (*all.nodes[0]).clone();
    closed.taints = vec![Taint {
        key: SUSPECT.into(),
        value: "gpu".into(),
        effect: "NoSchedule".into(),
    }];
    closed.ailments.clear();
    all.nodes[0] = Arc::new(closed);
    assert!(
        judge(&all, cordons, &mut health, at(12))
            .uncordon
            .is_empty()
    );
    assert_eq!(judge(&all, cordons, &mut health, at(14)).uncordon, ["a"]);
    // Without a policy everything that we closed is open.
    assert_eq!(judge(&all, None, &mut health, at(15)).uncordon, ["a"]);
}
