//! Whom warm pods make way for.

use super::{acts_tests::bound, tests::*, *};

fn warm(of: &str, mut one: Pod) -> Pod {
    one.standing.serves = Some(Serves::Warm(of.into()));
    one.priority = WARM_PRIORITY;
    one
}

fn replica(of: &str, mut one: Pod) -> Pod {
    one.standing.serves = Some(Serves::Replica(of.into()));
    one
}

fn firm(mut one: Pod) -> Pod {
    if let Some(ask) = &mut one.ask {
        ask.preemptible = Some(false);
    }
    one
}

fn leavers(seen: &Seen) -> Vec<String> {
    let decision = decided(seen);
    let all = decision.rooms.iter().flat_map(|room| &room.leavers);
    all.map(|one| seen.pods[one.pod].name.clone()).collect()
}

#[test]
fn who_is_warm_leaves_for_anybody_and_who_serves_for_nobody() {
    let nodes = vec![node("a", 8, &[])];
    let serving = || replica("chat", bound("serves", 4, "a"));
    let idle = || warm("chat", bound("warm", 4, "a"));
    let all = seen(nodes.clone(), vec![serving(), idle(), pod("batch", 4)]);
    assert_eq!(leavers(&all), ["warm"]);
    assert!(
        decided(&all).rooms[0].leavers[0]
            .words
            .contains("lent to team/batch"),
        "{:?}",
        decided(&all).rooms
    );
    // It is not enough, is not to be lent, or who waits takes nobody's place.
    let large = seen(nodes.clone(), vec![serving(), idle(), pod("batch", 8)]);
    assert!(leavers(&large).is_empty());
    let kept = seen(
        nodes.clone(),
        vec![serving(), firm(idle()), pod("batch", 4)],
    );
    assert!(leavers(&kept).is_empty());
    let mut modest = pod("batch", 4);
    modest.standing.never_preempts = true;
    assert!(leavers(&seen(nodes, vec![serving(), idle(), modest])).is_empty());
}

#[test]
fn nobody_makes_way_for_who_would_be_warm() {
    let nodes = vec![node("a", 8, &[])];
    let mut all = seen(
        nodes.clone(),
        vec![
            warm("chat", bound("other", 4, "a")),
            bound("low", 4, "a"),
            warm("code", pod("refill", 4)),
        ],
    );
    all.rules.preemption = Preempts::LowerPriority;
    assert!(leavers(&all).is_empty());
    // Everybody else goes first, though it came before.
    let mut refill = warm("code", pod("refill", 8));
    refill.created = Nanoseconds(0);
    let both = seen(nodes, vec![refill, pod("batch", 8)]);
    assert_eq!(
        placed(&both, &decided(&both)),
        [("batch".to_owned(), "a".to_owned())]
    );
}

#[test]
fn a_warm_pod_becomes_its_own_replica_and_leaves_no_room_for_it() {
    let nodes = vec![node("a", 8, &[])];
    let pods = |of: &str| {
        vec![
            warm("chat", bound("warm", 8, "a")),
            replica(of, pod("more", 8)),
        ]
    };
    assert!(leavers(&seen(nodes.clone(), pods("chat"))).is_empty());
    assert_eq!(leavers(&seen(nodes.clone(), pods("code"))), ["warm"]);
    // While its pods become others none is.
    let mut changing = seen(nodes, pods("chat"));
    changing.changing.insert(("team".into(), "chat".into()));
    assert_eq!(leavers(&changing), ["warm"]);
}
