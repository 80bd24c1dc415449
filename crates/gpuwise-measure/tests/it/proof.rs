//! What became of proposals.

use crate::audit::{WINDOW, busy, compute, memory, rules, with_market};
use gpuwise_domain::usage::{Fleet, Usage, Window, remembered::State};
use gpuwise_measure::{
    audit::judge,
    proof::{outcome, remember},
};

fn fleet(usage: Usage, window: Window) -> Fleet {
    Fleet {
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
        let of = remember(&before, &said, WINDOW.end, market).expect("a slice was proposed");
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

#[test]
fn an_idle_one_that_went_is_proven() {
    let mut before = busy();
    compute(&mut before, 0.0);
    with_market(|market| {
        let said = judge(&before, WINDOW, &rules(), market);
        let of = remember(&before, &said, WINDOW.end, market).expect("it was idle");
        let soon = Window {
            start: WINDOW.start + 3600,
            end: WINDOW.end + 3600,
        };
        let mut after = before.clone();
        after.present = false;
        assert_eq!(
            outcome(&of, &fleet(after.clone(), soon), market).state,
            State::Open,
            "an hour is too early"
        );
        let window = Window {
            start: WINDOW.end,
            end: WINDOW.end + 14 * 86_400,
        };
        let found = outcome(&of, &fleet(after, window), market);
        assert_eq!(
            (found.state, found.saved.map(|m| m.micros)),
            (State::Proven, Some(2_000_000))
        );
    });
}
