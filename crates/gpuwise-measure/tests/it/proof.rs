//! What became of proposals.

use crate::audit::{WINDOW, busy, compute, memory, rules, with_market};
use gpuwise_domain::usage::{Declared, Fleet, Holder, Scope, Usage, Window, remembered::State};
use gpuwise_measure::{
    audit::judge,
    proof::{outcome, remember},
};

fn fleet(usage: Usage, window: Window) -> Fleet {
    Fleet {
        scope: Scope::default(),
        declared: Declared::default(),
        window,
        workloads: vec![usage],
        unheld_devices: 0,
        notes: Vec::new(),
    }
}

/// What becomes of the proposal of a slice when the workload looks so a fortnight later.
fn later(change: impl FnOnce(&mut Usage)) -> (State, Option<i64>, Option<f64>) {
    let mut before = busy();
    memory(&mut before, 6.0);
    compute(&mut before, 0.05);
    before.dram_p95 = Some(0.05);
    with_market(|market| {
        let said = judge(&before, WINDOW, &rules(), market);
        let of = remember(&before, &said, &fleet(before.clone(), WINDOW), market)
            .expect("a slice was proposed");
        let mut after = before.clone();
        change(&mut after);
        let window = Window {
            start: WINDOW.end,
            end: WINDOW.end + 14 * 86_400,
        };
        let found = outcome(&of, &fleet(after, window), market);
        (
            found.state,
            found.saved.map(|money| money.micros),
            found.gpus,
        )
    })
}

#[test]
fn what_became_of_a_proposal() {
    assert_eq!(later(|_| {}).0, State::Open);
    let (state, saved, _) = later(|u| u.asked.slice = Some("1g.10gb".into()));
    assert_eq!((state, saved), (State::Proven, Some(1_714_286)));
    let (state, saved, _) = later(|u| u.asked.slice = Some("2g.20gb".into()));
    assert_eq!((state, saved), (State::Otherwise, Some(1_428_572)));
    // Right slice, but as many replicas as eat the saving up.
    let many = |u: &mut Usage| {
        u.asked.slice = Some("1g.10gb".into());
        u.asked.replicas = 6;
    };
    assert_eq!(later(many).0, State::Short);
    assert_eq!(later(|u| u.present = false).0, State::Untold);
    assert_eq!(later(|u| u.holder.name = "another".into()).0, State::Untold);
}

/// What became of the proposal to scale an idle workload to zero, a fortnight later in a fleet that was
/// changed so: other workloads of it are still there, and it is not.
fn idle_later(
    kind: &str,
    change: impl FnOnce(&mut Fleet, &Holder),
) -> (State, Option<i64>, String) {
    let mut before = busy();
    before.holder.kind = kind.into();
    before.holder.namespace = "team".into();
    compute(&mut before, 0.0);
    let mut other = busy();
    other.holder.namespace = "team".into();
    other.holder.name = "another".into();
    with_market(|market| {
        let said = judge(&before, WINDOW, &rules(), market);
        let then = fleet(before.clone(), WINDOW);
        let of = remember(&before, &said, &then, market).expect("it was idle");
        let window = Window {
            start: WINDOW.end,
            end: WINDOW.end + 14 * 86_400,
        };
        let mut later = fleet(other, window);
        change(&mut later, &before.holder);
        let found = outcome(&of, &later, market);
        (
            found.state,
            found.saved.map(|money| money.micros),
            found.why,
        )
    })
}

fn holder(namespace: &str, name: &str) -> Holder {
    Holder {
        namespace: namespace.into(),
        kind: "Deployment".into(),
        name: name.into(),
    }
}

/// The kind of the workload, what is changed, what becomes of the proposal, and what is said of it.
type Case = (&'static str, fn(&mut Fleet, &Holder), State, &'static str);

/// Looks that prove nothing.
fn unproven() -> [Case; 9] {
    [
        // kube-state-metrics lists Deployments, and may not list StatefulSets at all.
        (
            "StatefulSet",
            |fleet, _| {
                fleet.declared.whole = true;
                fleet.declared.replicas.insert(holder("team", "x"), 1);
            },
            State::Untold,
            "no StatefulSet is listed",
        ),
        ("Deployment", |_, _| (), State::Untold, "was not seen"),
        (
            "Deployment",
            |fleet, of| {
                let mut ended = fleet.workloads[0].clone();
                (ended.holder, ended.present) = (of.clone(), false);
                fleet.workloads.push(ended);
            },
            State::Untold,
            "before the end",
        ),
        // Listed are only others: of another namespace, which may be all that this look sees.
        (
            "Deployment",
            |fleet, _| {
                fleet.declared.whole = true;
                fleet.declared.replicas.insert(holder("other", "x"), 1);
            },
            State::Untold,
            "\"team\"",
        ),
        // Of its own namespace, but not all of them.
        (
            "Deployment",
            |fleet, _| {
                fleet.declared.replicas.insert(holder("team", "x"), 1);
            },
            State::Untold,
            "no list",
        ),
        (
            "Deployment",
            |fleet, of| {
                fleet.declared.replicas.insert(of.clone(), 2);
            },
            State::Untold,
            "2 replicas",
        ),
        (
            "Job",
            |fleet, _| {
                fleet.declared.whole = true;
                fleet.declared.replicas.insert(holder("team", "x"), 1);
            },
            State::Untold,
            "ended by itself",
        ),
        (
            "Deployment",
            |fleet, of| {
                fleet.declared.replicas.insert(of.clone(), 0);
                fleet.scope.matchers = Some("cluster=\"b\"".into());
            },
            State::Elsewhere,
            "cluster=\"b\"",
        ),
        (
            "Deployment",
            |fleet, of| {
                fleet.declared.replicas.insert(of.clone(), 0);
                fleet.window.end = WINDOW.end + 3600;
            },
            State::Open,
            "24 h",
        ),
    ]
}

#[test]
fn that_a_workload_is_not_seen_proves_nothing() {
    for (kind, change, state, why) in unproven() {
        let found = idle_later(kind, change);
        assert_eq!((found.0, found.1), (state, None), "{why}: {found:?}");
        assert!(found.2.contains(why), "{why}: {found:?}");
    }
}

#[test]
fn an_idle_one_that_was_scaled_to_zero_or_deleted_is_proven() {
    let zero = idle_later("Deployment", |fleet, of| {
        fleet.declared.replicas.insert(of.clone(), 0);
    });
    assert_eq!(
        (zero.0, zero.1),
        (State::Proven, Some(2_000_000)),
        "{}",
        zero.2
    );
    let deleted = idle_later("StatefulSet", |fleet, of| {
        fleet.declared.whole = true;
        let mut other = of.clone();
        other.namespace = "elsewhere".into();
        fleet.declared.replicas.insert(other, 1);
        fleet.declared.replicas.insert(holder("team", "x"), 1);
    });
    assert_eq!(
        (deleted.0, deleted.1),
        (State::Proven, Some(2_000_000)),
        "{}",
        deleted.2
    );
}
