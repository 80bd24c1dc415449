//! Records late, repeated, out of order and wrong.

use crate::support::{SECOND, at, record, taken};
use gpuwise_account::{
    period::{DAY, HOUR, Interval, Month},
    usage::{
        EnergyRule, Grid, Limits, Meter, Outcome, Principal, Quantity, Reason, Sharer, Spans,
        UsageRecord, Used, divide_energy,
    },
};
use gpuwise_units::Nanoseconds;

fn november() -> Month {
    "2026-11".parse().unwrap()
}

#[test]
fn a_record_counts_once() {
    let mut meter = Meter::new(Limits::default());
    let now = at(2, 0);
    let one = record("a-1", at(1, 0), at(1, 600));
    assert_eq!(meter.record(now, &one), Outcome::Counted);
    for id in ["a-1", "a-2", "a-01", "0c5b8a6e-5f4a-4b6c-9d3e-2f1a0b9c8d7e"] {
        let mut again = one.clone();
        again.id = id.into();
        let wanted = if id == "a-1" {
            Outcome::Duplicate
        } else {
            Outcome::Counted
        };
        assert_eq!(meter.record(now, &again), wanted, "{id}");
        assert_eq!(meter.record(now, &again), Outcome::Duplicate, "{id}");
    }
    // The same id of another source is another record.
    let mut other = one;
    other.source = "node-2".into();
    assert_eq!(meter.record(now, &other), Outcome::Counted);
    assert_eq!(meter.duplicates()["node-1"], 5);
    // Granted time is a union: the same ten minutes.
    let held = meter.series()[0].spans.length_within(november().interval());
    assert_eq!(held, 600 * SECOND);
}

#[test]
fn wrong_records_are_kept_aside_by_name() {
    let mut meter = Meter::new(Limits::default());
    let now = at(20, 0);
    let long_ago = Nanoseconds(at(20, 0).0 - 93 * DAY);
    let cases = [
        (at(10, 60), at(10, 0), Reason::Negative),
        (at(20, 0), at(20, 301), Reason::Ahead),
        (long_ago, Nanoseconds(long_ago.0 + HOUR), Reason::TooOld),
        (Nanoseconds(0), at(10, 0), Reason::TooLong),
    ];
    for (index, (start, end, reason)) in cases.into_iter().enumerate() {
        let wrong = record(&format!("w-{index}"), start, end);
        assert_eq!(meter.record(now, &wrong), Outcome::Aside(reason));
        // Again: it is the same one that is aside.
        assert_eq!(meter.record(now, &wrong), Outcome::Aside(reason));
    }
    assert_eq!(meter.aside().count(), 4);
    assert_eq!(meter.aside_counts()[&Reason::Negative], 1);
    assert!(meter.series().is_empty());
    // The source puts it right under the same id.
    let right = record("w-0", at(10, 0), at(10, 60));
    assert_eq!(meter.record(now, &right), Outcome::Counted);
    assert_eq!(meter.aside().count(), 3);
}

#[test]
fn what_comes_after_the_grace_is_a_correction() {
    let mut meter = Meter::new(Limits::default());
    let late = record("late", at(30, 0), at(30, 60));
    let in_grace = Nanoseconds(at(1, 0).0 + 32 * DAY);
    let after = Nanoseconds(at(1, 0).0 + 33 * DAY);
    assert_eq!(meter.record(in_grace, &late), Outcome::Counted);
    let later = record("later", at(30, 60), at(30, 120));
    assert_eq!(meter.record(after, &later), Outcome::Correction(november()));
}

#[test]
fn order_does_not_matter() {
    let spans = [
        (0, 10),
        (20, 30),
        (10, 20),
        (5, 7),
        (40, 50),
        (29, 41),
        (60, 61),
    ];
    let mut forward = Spans::default();
    let mut backward = Spans::default();
    let interval = |(a, b)| Interval::new(Nanoseconds(a), Nanoseconds(b));
    for span in spans {
        forward.insert(interval(span));
    }
    for span in spans.into_iter().rev() {
        backward.insert(interval(span));
    }
    assert_eq!(forward, backward);
    assert_eq!(
        forward.iter().collect::<Vec<_>>(),
        [interval((0, 50)), interval((60, 61))]
    );
}

#[test]
fn amounts_are_divided_by_time_and_sum_to_the_record() {
    let mut meter = Meter::new(Limits::default());
    let mut grid = Grid::default();
    grid.cut(at(1, 3600 + 1200));
    meter.regrid(&grid);
    // From half past midnight to three: half an hour, 20 and 40 minutes, an hour.
    let mut long = record("long", at(1, 1800), at(1, 3 * 3600));
    long.used = Used {
        energy_mj: Some(1000),
        ..Used::default()
    };
    taken(meter.record(at(2, 0), &long));
    let cells = meter.series()[0].cells(november().interval());
    let energy: Vec<_> = cells
        .iter()
        .map(|cell| cell.used.get(Quantity::Energy))
        .collect();
    assert_eq!(energy, [Some(200), Some(133), Some(267), Some(400)]);
    assert_eq!(
        cells[0].used.get(Quantity::TokensIn),
        None,
        "nobody measured it"
    );
    // A cut that comes later divides what is there.
    grid.cut(at(1, 2 * 3600 + 900));
    meter.regrid(&grid);
    let cells = meter.series()[0].cells(november().interval());
    let energy: Vec<_> = cells
        .iter()
        .map(|cell| cell.used.get(Quantity::Energy))
        .collect();
    assert_eq!(
        energy,
        [Some(200), Some(133), Some(267), Some(100), Some(300)]
    );
}

#[test]
fn a_boards_energy_is_divided_and_sums_to_it() {
    let sharer = |granted, active| Sharer { granted, active };
    // 100 kJ, of which 40 while idle, by granted halves and quarters; the rest by activity.
    let told = [sharer(2, Some(10)), sharer(1, Some(50)), sharer(1, Some(0))];
    let divided = divide_energy(100, 40, &told);
    assert_eq!(divided, (vec![20 + 10, 10 + 50, 10], EnergyRule::Activity));
    let untold = [sharer(2, Some(10)), sharer(1, None), sharer(1, Some(0))];
    let divided = divide_energy(101, 40, &untold);
    assert_eq!(divided, (vec![51, 25, 25], EnergyRule::Granted));
    // A board that reads less than it is said to use when idle.
    let divided = divide_energy(10, 40, &told);
    assert_eq!(divided.0.iter().sum::<u64>(), 10);
}

#[test]
fn an_id_counts_once_for_each_principal_and_lease() {
    let mut meter = Meter::new(Limits::default());
    let now = at(2, 0);
    let client = |name: &str| Principal::Client(name.into());
    let mut of = |principal: Principal, lease: &str, source: &str| {
        let one = UsageRecord {
            principal,
            lease: lease.into(),
            source: source.into(),
            ..record("1", at(1, 0), at(1, 600))
        };
        meter.record(now, &one)
    };
    // Whoever tells the ids of the broker's grants first takes none of them away.
    assert_eq!(of(client("mallory"), "L-1", "grants"), Outcome::Counted);
    assert_eq!(of(Principal::Broker, "L-2", "grants"), Outcome::Counted);
    assert_eq!(of(client("alice"), "L-1", "grants"), Outcome::Counted);
    assert_eq!(of(client("alice"), "L-2", "grants"), Outcome::Counted);
    assert_eq!(of(client("alice"), "L-2", "grants"), Outcome::Duplicate);
    // The broker numbers its grants through all leases.
    assert_eq!(of(Principal::Broker, "L-3", "grants"), Outcome::Duplicate);
    // What a log kept before it kept principals is not counted again.
    assert_eq!(of(Principal::Collector, "L-4", "dcgm"), Outcome::Counted);
    assert_eq!(of(client("alice"), "L-4", "dcgm"), Outcome::Duplicate);
}

#[test]
fn equal_parts_of_one_device_are_each_held() {
    let mut meter = Meter::new(Limits::default());
    for part in 0..3 {
        let one = UsageRecord {
            part,
            ..record(&format!("p-{part}"), at(1, 0), at(1, 600))
        };
        assert_eq!(meter.record(at(2, 0), &one), Outcome::Counted);
    }
    let held: u64 = meter
        .series()
        .iter()
        .map(|series| series.spans.length_within(november().interval()))
        .sum();
    assert_eq!(held, 3 * 600 * SECOND);
}
