//! A detector that must find a shift and must not find noise.

use gpuwise_measure::drift::{Detector, Settings};
use gpuwise_units::RandomStream;

/// Samples of a Gaussian, by Box and Muller.
fn noise(stream: &mut RandomStream) -> f64 {
    let (a, b) = (stream.uniform(), stream.uniform());
    (-2.0 * (1.0 - a).ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
}

#[test]
fn a_shift_of_three_deviations_is_found_soon_and_dated() {
    for seed in 0..50 {
        let mut stream = RandomStream::new(seed, "drift", 0);
        let mut detector = Detector::new(Settings::default());
        let mut said = Vec::new();
        for number in 0..400 {
            let level = if number < 200 { 10.0 } else { 13.0 };
            said.extend(detector.take(level + noise(&mut stream)));
        }
        let first = said.first().unwrap();
        assert!((200..=215).contains(&first.at), "seed {seed}: {first:?}");
        assert!(
            first.since.abs_diff(200) <= 12 && first.to > 11.5,
            "seed {seed}: {first:?}"
        );
        assert!(said.len() <= 2, "seed {seed}: {said:?}");
    }
}

#[test]
fn noise_and_single_outliers_are_no_drift() {
    let mut false_alarms = 0;
    let mut samples = 0_u64;
    for seed in 0..200 {
        let mut stream = RandomStream::new(seed, "no drift", 0);
        let mut detector = Detector::new(Settings::default());
        for number in 0..1000 {
            let outlier = if number % 250 == 249 { 6.0 } else { 0.0 };
            samples += 1;
            false_alarms += u64::from(detector.take(5.0 + noise(&mut stream) + outlier).is_some());
        }
    }
    println!("{false_alarms} false alarms in {samples} samples");
    assert!(
        false_alarms * 20_000 <= samples,
        "{false_alarms} false alarms in {samples} samples"
    );
}

#[test]
fn a_flat_series_that_moves_and_what_is_no_number() {
    let mut detector = Detector::new(Settings {
        least_spread: 0.01,
        ..Settings::default()
    });
    assert!((0..100).all(|_| detector.take(0.9).is_none()));
    assert!((0..100).all(|_| detector.take(f64::NAN).is_none()));
    let drift = (0..10).find_map(|_| detector.take(0.4)).unwrap();
    assert!((drift.to - 0.4).abs() < 1e-9, "{drift:?}");
    assert_eq!((drift.from, drift.at - drift.since), (0.9, 3));
    // The new level is learnt before anything is said again.
    assert!((0..100).all(|_| detector.take(0.4).is_none()));
}
