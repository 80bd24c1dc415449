//! Changes are found where they are, and rarely where there are none.

use gpuwise_domain::profile::figure::Better;
use gpuwise_measure::regress::{Settings, changes};
use gpuwise_units::RandomStream;

/// Normal noise from twelve uniform draws.
fn noise(stream: &mut RandomStream) -> f64 {
    (0..12).map(|_| stream.uniform()).sum::<f64>() - 6.0
}

fn at(values: &[f64]) -> Vec<usize> {
    changes(values, Settings::USUAL)
        .iter()
        .map(|change| change.at)
        .collect()
}

#[test]
fn cases() {
    let check = |values: &[f64], expect: &[usize]| assert_eq!(at(values), expect, "{values:?}");
    let level = |value: f64, count: usize| vec![value; count];
    check(&[], &[]);
    check(&[1.0, 2.0, 3.0, 4.0, 5.0], &[]);
    check(&level(7.0, 20), &[]);
    check(&[level(7.0, 10), level(8.0, 10)].concat(), &[10]);
    check(
        &[level(7.0, 10), level(8.0, 4), level(7.0, 10)].concat(),
        &[10, 14],
    );
    // One run, or two, are no new level; neither is a change of less than 2 %.
    check(
        &[level(7.0, 10), level(70.0, 1), level(7.0, 10)].concat(),
        &[],
    );
    check(&[level(7.0, 10), level(70.0, 2)].concat(), &[]);
    check(&[level(100.0, 10), level(101.0, 10)].concat(), &[]);
    check(&[level(0.0, 10), level(5.0, 10)].concat(), &[10]);
    check(&[1.0, 1.0, 1.0, f64::NAN, 9.0, 9.0, 9.0], &[]);
}

#[test]
fn the_direction_is_told() {
    let slower = changes(
        &[10.0, 10.1, 9.9, 10.0, 12.0, 12.1, 11.9, 12.0],
        Settings::USUAL,
    );
    assert_eq!(slower.len(), 1);
    assert!(slower[0].is_worse(Better::Lower));
    assert!(!slower[0].is_worse(Better::Higher));
    let share = slower[0].share().expect("there was a level");
    assert!((share - 0.2).abs() < 0.005, "{share}");
}

#[test]
fn noise_is_rarely_cut() {
    let mut cut = 0;
    for seed in 0..1_000 {
        let mut stream = RandomStream::new(seed, "noise", 0);
        let count = [20, 50, 200][(seed % 3) as usize];
        // A scatter of 5 %, so that the least share of 2 % does not decide.
        let values: Vec<f64> = (0..count)
            .map(|_| 100.0 + 5.0 * noise(&mut stream))
            .collect();
        cut += usize::from(!at(&values).is_empty());
    }
    assert!(cut <= 20, "{cut} of 1,000 series of noise were cut");
}

#[test]
fn a_change_of_two_scatters_is_found_within_a_run_or_two() {
    let (mut found, mut near) = (0, 0);
    for seed in 0..500 {
        let mut stream = RandomStream::new(seed, "jump", 0);
        let values: Vec<f64> = (0..60)
            .map(|run| if run < 35 { 100.0 } else { 110.0 } + 5.0 * noise(&mut stream))
            .collect();
        let cuts = at(&values);
        found += usize::from(cuts.len() == 1);
        near += usize::from(cuts.iter().any(|cut| cut.abs_diff(35) <= 2));
    }
    assert!(
        found >= 475 && near >= 450,
        "{found} found, {near} near, of 500"
    );
}
