//! Moves of running workloads, by scripted series.

use gpuwise_measure::tier::online::{Observation, Reluctance, Watch};
use gpuwise_units::Nanoseconds;

const MINUTE: u64 = 60_000_000_000;

fn reluctance() -> Reluctance {
    let minutes = |count: u64| Nanoseconds(count * MINUTE);
    Reluctance {
        saving: 0.2,
        patience: minutes(30),
        urgency: minutes(5),
        rest: minutes(120),
        gap: minutes(10),
    }
}

fn seen(minute: u64, best: &str, best_cost: f64, kept: bool) -> Observation {
    Observation {
        at: Nanoseconds(minute * MINUTE),
        best: best.into(),
        best_cost,
        present_cost: 1.0,
        kept,
    }
}

/// Minutes of moves and where to, of a workload that starts on `large`.
fn moves(script: impl IntoIterator<Item = Observation>) -> Vec<(u64, String)> {
    let mut watch = Watch::new("large", reluctance());
    script
        .into_iter()
        .filter_map(|seen| watch.see(&seen))
        .map(|made| (made.at.0 / MINUTE, made.to))
        .collect()
}

fn steady(minutes: std::ops::Range<u64>, best: &str, cost: f64, kept: bool) -> Vec<Observation> {
    minutes
        .map(|minute| seen(minute, best, cost, kept))
        .collect()
}

#[test]
fn a_lasting_saving_moves_once() {
    let script = steady(0..100, "small", 0.5, true);
    assert_eq!(moves(script), vec![(30, "small".into())]);
}

#[test]
fn what_comes_and_goes_moves_nothing() {
    let flapping = (0..600).map(|minute| {
        let small = (minute / 20) % 2 == 0;
        seen(minute, if small { "small" } else { "large" }, 0.5, true)
    });
    assert_eq!(moves(flapping), vec![]);
}

#[test]
fn a_small_saving_moves_nothing() {
    assert_eq!(moves(steady(0..300, "small", 0.85, true)), vec![]);
}

#[test]
fn a_missed_promise_waits_less_and_may_cost_more() {
    let mut script = steady(0..10, "large", 1.0, true);
    script.extend(steady(10..40, "huge", 2.5, false));
    assert_eq!(moves(script), vec![(15, "huge".into())]);
}

#[test]
fn nothing_moves_while_it_rests() {
    let mut watch = Watch::new("large", reluctance());
    let mut made = Vec::new();
    for minute in 0..400 {
        // Wherever it is, the other one looks better.
        let best = if watch.tier == "large" {
            "small"
        } else {
            "large"
        };
        if let Some(step) = watch.see(&seen(minute, best, 0.5, true)) {
            made.push(step.at.0 / MINUTE);
        }
    }
    assert_eq!(made, vec![30, 150, 270, 390]);
}

#[test]
fn a_gap_starts_the_wait_again() {
    let mut script = steady(0..25, "small", 0.5, true);
    script.extend(steady(60..95, "small", 0.5, true));
    assert_eq!(moves(script), vec![(90, "small".into())]);
}

#[test]
fn late_and_repeated_samples_change_nothing() {
    let mut script = steady(0..31, "small", 0.5, true);
    script.insert(20, seen(3, "large", 1.0, true));
    script.insert(21, seen(19, "large", 1.0, true));
    assert_eq!(moves(script), vec![(30, "small".into())]);
}

#[test]
fn another_wish_starts_the_wait_again() {
    let mut script = steady(0..20, "small", 0.5, true);
    script.extend(steady(20..60, "tiny", 0.4, true));
    assert_eq!(moves(script), vec![(50, "tiny".into())]);
}

#[test]
fn the_reason_has_its_figures() {
    let mut watch = Watch::new("large", reluctance());
    let made = steady(0..31, "small", 0.5, true)
        .iter()
        .find_map(|seen| watch.see(seen))
        .unwrap();
    assert_eq!(made.reason, "50 % cheaper for 30 min");
    assert_eq!((made.from.as_str(), made.to.as_str()), ("large", "small"));
}
