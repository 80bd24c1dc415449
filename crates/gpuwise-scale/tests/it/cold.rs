//! Cold starts: sums of stages, and what is learned.

use gpuwise_scale::cold::{ColdStart, Level, Machine, STATES, State};
use gpuwise_units::{Bytes, Nanoseconds};

fn seconds(cold: &ColdStart, level: Level) -> f64 {
    cold.at(level).seconds().get()
}

#[test]
fn what_is_there_is_not_waited_for() {
    let machine = Machine::default();
    let all: Vec<f64> = STATES
        .iter()
        .map(|state| {
            seconds(
                &ColdStart::prior(Bytes::new(16_000_000_000), *state, &machine),
                Level::P90,
            )
        })
        .collect();
    assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
    // vLLM issue 48337: 16 GB are awake in 2.2 s; llm-d issue 1071: a pod takes 2 to 8 minutes, often 10.
    let asleep = ColdStart::prior(Bytes::new(16_000_000_000), State::Asleep, &machine);
    assert!((1.9..2.6).contains(&seconds(&asleep, Level::Median)));
    let nothing = ColdStart::prior(Bytes::new(16_000_000_000), State::Nothing, &machine);
    assert!((420.0..600.0).contains(&seconds(&nothing, Level::Median)));
}

/// The mean of a sum is the sum of means: simulated, not by the same formula.
#[test]
fn levels_are_those_of_the_sum_of_stages() {
    use gpuwise_units::RandomStream;
    let mut stream = RandomStream::new(5, "stages", 0);
    let mut normal = || (0..12).map(|_| stream.uniform()).sum::<f64>() - 6.0;
    let stage = |median: f64, p90: f64, z: f64| median * ((p90 / median).ln() / 1.2816 * z).exp();
    let mut sums: Vec<f64> = (0..20_000)
        .map(|_| {
            stage(200.0, 320.0, normal())
                + stage(16.0, 25.6, normal())
                + stage(75.0, 120.0, normal())
        })
        .collect();
    sums.sort_by(f64::total_cmp);
    let cold = ColdStart::prior(
        Bytes::new(16_000_000_000),
        State::NodeUp,
        &Machine::default(),
    );
    for (level, share) in [(Level::Median, 0.5), (Level::P90, 0.9), (Level::P99, 0.99)] {
        let came = sums[(share * 20_000.0) as usize];
        let said = seconds(&cold, level);
        assert!(
            (said / came - 1.0).abs() < 0.04,
            "{share}: {said} of {came}"
        );
    }
}

#[test]
fn what_is_observed_moves_it() {
    let mut cold = ColdStart::of_p90(Nanoseconds(180_000_000_000));
    assert!((seconds(&cold, Level::P90) - 180.0).abs() < 1e-6);
    for _ in 0..30 {
        cold.learn(Nanoseconds(540_000_000_000));
    }
    assert!(
        (450.0..750.0).contains(&seconds(&cold, Level::P90)),
        "{}",
        seconds(&cold, Level::P90)
    );
    assert_eq!(cold.observed(), 30);
}
