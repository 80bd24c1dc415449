//! Readings at any times become one a period.

use gpuwise_scale::forecast::series::{SeriesError, regular};
use gpuwise_units::Nanoseconds;

const MINUTE: Nanoseconds = Nanoseconds(60_000_000_000);

#[test]
fn gaps_doubles_and_disorder_are_set_right_and_said() {
    let readings = [
        (180.0, 4.0),
        (0.0, 1.0),
        (60.0, 2.0),
        (60.0, 4.0),
        (240.0, f64::NAN),
        (300.0, -1.0),
        (360.0, 7.0),
    ];
    let series = regular(&readings, None).expect("a series");
    assert_eq!(series.period, MINUTE);
    let expected = [Some(1.0), Some(3.0), None, Some(4.0), None, None, Some(7.0)];
    assert_eq!(series.readings, expected);
    assert_eq!((series.several, series.gaps, series.nothing), (1, 3, 2));
    assert_eq!(series.notes().len(), 3);
}

#[test]
fn another_period_takes_means() {
    let readings: Vec<(f64, f64)> = (0..6)
        .map(|at| (f64::from(at) * 60.0, f64::from(at)))
        .collect();
    let series = regular(&readings, Some(Nanoseconds(120_000_000_000))).expect("a series");
    assert_eq!(series.readings.len(), 4);
    // Two readings lie around each of the inner moments.
    assert_eq!(series.readings[1], Some(1.5));
    assert_eq!(series.readings[2], Some(3.5));
}

#[test]
fn what_is_no_series_is_told() {
    let check = |readings: &[(f64, f64)], period, told| {
        assert_eq!(regular(readings, period).expect_err("none"), told);
    };
    check(&[], None, SeriesError::Empty);
    check(&[(5.0, 1.0)], None, SeriesError::One);
    check(&[(5.0, 1.0), (5.0, 2.0)], None, SeriesError::One);
    check(
        &[(0.0, 1.0), (1e12, 2.0)],
        Some(MINUTE),
        SeriesError::TooMany(16_666_666_668),
    );
    check(&[(f64::NAN, 1.0)], Some(MINUTE), SeriesError::Time);
    assert_eq!(
        regular(&[(5.0, 1.0)], Some(MINUTE)).expect("one").readings,
        [Some(1.0)]
    );
}

/// Of ten minutes and hours in which nobody looked, ten minutes are the period.
#[test]
fn an_outage_is_no_period() {
    let made = regular(&[(0.0, 1.0), (600.0, 2.0), (18_000.0, 3.0)], None).expect("is read");
    assert_eq!(made.period.0, 600_000_000_000);
    assert_eq!((made.readings.len(), made.gaps), (31, 28));
}
