//! Samples that come late, twice, or after a restart; findings that begin and end; conditions.

use super::{found, said, steady, subject};
use Arrival::{Duplicate, Late, Reset, Same, Taken};
use gpuwise_domain::telemetry::{Missing, Quantity as Q, Reading, ReadingValue, Telemetry};
use gpuwise_measure::telemetry::{Arrival, Changes, State, Track, Trigger};
use gpuwise_read::telemetry::read_condition;
use proptest::prelude::*;

#[test]
fn counters_gain_across_restarts() {
    let mut track = Track::default();
    let arrivals: Vec<Arrival> = [
        (0.0, 10.0),
        (1.0, 15.0),
        (2.0, 4.0),
        (3.0, 6.0),
        (2.5, 99.0),
        (3.0, 7.0),
        (3.0, 6.0),
    ]
    .into_iter()
    .map(|(at, value)| track.take(at, value, true))
    .collect();
    assert_eq!(
        arrivals,
        [Taken, Taken, Reset, Taken, Late, Duplicate, Same]
    );
    // 5, then 4 from 0, then 2.
    assert_eq!(track.increase(), Some(11.0));
}

#[test]
fn what_was_wrong_with_samples_is_counted() {
    let mut state = State::new(60.0);
    for (at, value) in [(10.0, 5.0), (9.0, 5.0), (10.0, 6.0), (11.0, 1.0)] {
        state.take(&said(&subject(), at, &[(Q::Energy, value)]), 0.0);
    }
    state.take(
        &Telemetry {
            subjects: vec![subject()],
            readings: vec![Reading {
                subject: 0,
                at: None,
                quantity: Q::SmActive,
                value: ReadingValue::Unknown(Missing::NotANumber),
            }],
            ..Telemetry::default()
        },
        12.0,
    );
    let seen = state.anomalies;
    assert_eq!(
        (seen.late, seen.duplicate, seen.reset, seen.not_a_number),
        (1, 1, 1, 1)
    );
    assert_eq!(
        state.rows()[0].missing(Q::SmActive),
        Some(Missing::NotANumber)
    );
    assert_eq!(state.rows()[0].last(Q::SmActive), None);
}

#[test]
fn a_finding_ends_when_it_was_not_seen_for_a_while() {
    let hot = found(&steady(
        &subject(),
        &[(Q::GpuUtil, 1.0), (Q::ClockReasons, 64.0)],
    ));
    let mut changes = Changes::new(60.0);
    let begun = changes.take(0.0, hot.clone());
    assert_eq!((begun.len(), begun[0].ended), (1, None));
    assert_eq!(changes.take(10.0, hot.clone()), []);
    assert_eq!(changes.take(50.0, Vec::new()), [], "one gap ends nothing");
    assert_eq!(changes.take(55.0, hot), [], "and begins nothing");
    let ended = changes.take(120.0, Vec::new());
    assert_eq!(
        (ended.len(), ended[0].began, ended[0].ended),
        (1, 0.0, Some(55.0))
    );
    assert_eq!(changes.holding().count(), 0);
}

#[test]
fn a_condition_fires_once_when_it_has_held_long_enough() {
    let mut trigger = Trigger::new(read_condition("tensor_active < 0.2 for 30s").unwrap(), 0.0);
    let mut state = State::new(300.0);
    let mut fired = Vec::new();
    // Low, a moment above, low for 40 s and more, above, low again.
    for step in 0..20 {
        let at = f64::from(step) * 10.0;
        let value = if matches!(step, 2 | 12) { 0.5 } else { 0.1 };
        state.take(&said(&subject(), at, &[(Q::TensorActive, value)]), at);
        for one in trigger.look(&state, &[], at) {
            fired.push((step, one.seconds));
        }
    }
    assert_eq!(fired, [(6, 30.0), (16, 30.0)]);
}

#[test]
fn the_users_own_metric_can_be_a_condition() {
    let mut trigger = Trigger::new(read_condition("accuracy < 90%").unwrap(), 0.0);
    let state = State::new(300.0);
    let mut at = |value: f64, now: f64| {
        trigger
            .look(&state, &[("accuracy".into(), value)], now)
            .len()
    };
    assert_eq!(
        [
            at(0.95, 0.0),
            at(0.85, 1.0),
            at(0.85, 2.0),
            at(f64::NAN, 3.0),
            at(0.8, 4.0)
        ],
        [0, 1, 0, 0, 1]
    );
}

#[test]
fn conditions_that_cannot_be() {
    for (text, part) in [
        ("tensor_active 0.2", "no <"),
        ("a b < 1", "one figure"),
        ("x < ", "no number"),
        ("x < y", "no number"),
        ("x < 1 for", "may follow"),
        ("x < 1 for 5 parsecs", "may follow"),
        ("x < 1 for 5p", "no duration"),
    ] {
        let error = read_condition(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn quantiles_are_those_of_a_sorted_list(values in prop::collection::vec(-1e6_f64..1e6, 1..200), share in 0.0_f64..=1.0) {
        let mut track = Track::default();
        for (at, value) in values.iter().enumerate() {
            track.take(at as f64, *value, false);
        }
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let below = |limit: f64| values.iter().filter(|value| **value <= limit).count() as f64 / values.len() as f64;
        let found = track.quantile(share).unwrap();
        prop_assert!(below(found) >= share - 1e-12);
        // No smaller value does.
        let smaller = sorted.iter().rev().find(|value| **value < found);
        prop_assert!(smaller.is_none_or(|value| below(*value) < share + 1e-12));
    }

    #[test]
    fn thousands_of_samples_stay_few_and_counters_lose_nothing(steps in prop::collection::vec(0_u32..50, 1..20_000), restart in 0_usize..20_000) {
        let mut track = Track::default();
        let (mut total, mut value) = (0.0, 0.0);
        for (at, step) in steps.iter().enumerate() {
            if at == restart && at > 0 {
                value = 0.0;
                track.take(at as f64 - 0.5, 0.0, true);
            }
            value += f64::from(*step);
            if at > 0 {
                total += f64::from(*step);
            }
            track.take(at as f64, value, true);
        }
        prop_assert!(track.len() <= 8192 + 1);
        prop_assert!(steps.len() == 1 || track.increase() == Some(total), "{:?} {total}", track.increase());
    }
}

#[test]
fn a_source_whose_clock_is_wrong_is_watched_all_the_same() {
    let mut state = State::new(60.0);
    // The source's clock is an hour behind ours.
    for step in 0..20 {
        let at = 1000.0 + 10.0 * f64::from(step);
        state.take(&said(&subject(), at, &[(Q::GpuUtil, 0.5)]), at + 3600.0);
        state.forget(at + 3600.0);
    }
    assert_eq!(state.rows()[0].track(Q::GpuUtil).unwrap().len(), 7);
    // Nothing came for more than a window: nothing is concluded, and the row stays for a while.
    state.forget(1190.0 + 3600.0 + 61.0);
    assert!(state.rows()[0].track(Q::GpuUtil).unwrap().is_empty());
    state.forget(1190.0 + 3600.0 + 601.0);
    assert!(state.rows().is_empty());
}
