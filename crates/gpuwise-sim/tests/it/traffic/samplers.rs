//! Draws against the distribution functions of their laws.

use super::{mean, near, variation};
use gpuwise_domain::client::GapLaw;
use gpuwise_sim::traffic::sample::{
    Zipf, exponential, first_gap, gamma, gap, log_normal, normal, normal_below, normal_quantile,
    weibull,
};
use gpuwise_units::RandomStream;

const DRAWS: usize = 40_000;

/// The largest distance between the draws' distribution and the law's is such as chance leaves in all
/// but one of a thousand cases (Kolmogorov and Smirnov).
#[track_caller]
fn follows(draw: impl Fn(&mut RandomStream) -> f64, below: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut stream = RandomStream::new(11, "test", 0);
    let mut draws: Vec<f64> = (0..DRAWS).map(|_| draw(&mut stream)).collect();
    draws.sort_by(f64::total_cmp);
    let count = DRAWS as f64;
    let distance = draws
        .iter()
        .enumerate()
        .map(|(place, x)| {
            let expect = below(*x);
            (expect - place as f64 / count)
                .abs()
                .max((expect - (place + 1) as f64 / count).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance * count.sqrt() < 1.95, "distance {distance}");
    draws
}

/// Regularised lower incomplete gamma function, by its series and by its continued fraction.
fn gamma_below(shape: f64, x: f64) -> f64 {
    let front = (shape * x.ln() - x - libm::lgamma(shape)).exp();
    if x < shape + 1.0 {
        let mut term = 1.0 / shape;
        let mut sum = term;
        for step in 1..500 {
            term *= x / (shape + f64::from(step));
            sum += term;
        }
        return front * sum;
    }
    let (mut above, mut below) = (1e300, 1.0 / (x + 1.0 - shape));
    let mut fraction = below;
    for step in 1..500 {
        let step = f64::from(step);
        let numerator = step * (shape - step);
        let denominator = x + 1.0 - shape + 2.0 * step;
        below = 1.0 / (denominator + numerator * below);
        above = denominator + numerator / above;
        fraction *= above * below;
    }
    1.0 - front * fraction
}

#[test]
fn quantiles_of_the_normal_law() {
    for (probability, expect) in [
        (0.5, 0.0),
        (0.975, 1.959_963_984_540_054),
        (0.001, -3.090_232_306_167_813_5),
        (1e-10, -6.361_340_902_404_056),
        (1e-30, -11.464_024_688_443_617),
    ] {
        near(normal_quantile(probability), expect, 1e-13);
    }
    for step in -70..=70 {
        let x = f64::from(step) / 10.0;
        let round = normal_quantile(normal_below(-x.abs()));
        assert!((round + x.abs()).abs() < 1e-9, "{x}: {round}");
    }
}

#[test]
fn draws_follow_their_laws() {
    let drawn = follows(exponential, |x| 1.0 - (-x).exp());
    near(mean(&drawn), 1.0, 0.01);
    near(variation(&drawn), 1.0, 0.03);
    follows(normal, normal_below);
    for shape in [0.02, 0.06, 0.5, 1.0, 4.0, 50.0] {
        let drawn = follows(
            |stream| gamma(stream, shape),
            |x| gamma_below(shape, x * shape),
        );
        near(mean(&drawn), 1.0, 0.12);
        near(variation(&drawn), 1.0 / shape, 0.2);
    }
    for shape in [0.375_f64, 1.0, 3.0] {
        let scale = 1.0 / libm::tgamma(1.0 + 1.0 / shape);
        let drawn = follows(
            |stream| weibull(stream, shape),
            |x| 1.0 - (-(x / scale).powf(shape)).exp(),
        );
        near(mean(&drawn), 1.0, 0.05);
    }
    for sigma in [0.3, 1.2] {
        let drawn = follows(
            |stream| log_normal(stream, sigma),
            |x| normal_below((x.ln() + sigma * sigma / 2.0) / sigma),
        );
        near(mean(&drawn), 1.0, 0.03);
    }
}

#[test]
fn the_first_gap_is_what_is_left_of_one_that_is_met() {
    // In equilibrium the mean is half of one plus the squared coefficient of variation.
    for (law, variation) in [
        (GapLaw::Exponential, 1.0),
        (GapLaw::Gamma { shape: 0.25 }, 4.0),
        (GapLaw::Gamma { shape: 4.0 }, 0.25),
        (GapLaw::Weibull { shape: 0.5 }, 5.0),
        (GapLaw::LogNormal { sigma: 0.8 }, 0.64_f64.exp() - 1.0),
    ] {
        let mut stream = RandomStream::new(3, "test", 0);
        let drawn: Vec<f64> = (0..DRAWS).map(|_| first_gap(&mut stream, law)).collect();
        near(mean(&drawn), f64::midpoint(1.0, variation), 0.05);
    }
    // Of exponential gaps it is one of them, and of equal gaps a whole one.
    follows(
        |stream| first_gap(stream, GapLaw::Gamma { shape: 1.0 }),
        |x| 1.0 - (-x).exp(),
    );
    let mut stream = RandomStream::new(3, "test", 1);
    assert_eq!(
        [
            first_gap(&mut stream, GapLaw::Constant).to_bits(),
            gap(&mut stream, GapLaw::Constant).to_bits()
        ],
        [1.0_f64.to_bits(); 2]
    );
}

#[test]
fn zipf_by_its_weights() {
    for (count, exponent) in [
        (1, 1.0),
        (2, 0.0),
        (10, 0.0),
        (10, 1.0),
        (50, 1.3),
        (1_000, 0.7),
    ] {
        let law = Zipf::new(count, exponent);
        let mut stream = RandomStream::new(5, "test", count);
        let mut seen = vec![0.0; count as usize];
        for _ in 0..DRAWS {
            seen[law.draw(&mut stream) as usize] += 1.0;
        }
        let weight = |k: usize| ((k + 1) as f64).powf(-exponent);
        let all: f64 = (0..seen.len()).map(weight).sum();
        let mut squares = 0.0;
        for (k, seen) in seen.iter().enumerate() {
            let expect = weight(k) / all * DRAWS as f64;
            squares += (seen - expect) * (seen - expect) / expect;
        }
        // Pearson's sum: its mean is the number of classes less one, its variance twice that.
        let freedom = count as f64 - 1.0;
        let limit = freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0;
        assert!(squares <= limit, "{count}, {exponent}: {squares} > {limit}");
    }
}
