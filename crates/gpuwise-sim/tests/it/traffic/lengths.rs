//! How long requests are, and what of them is shared.

use super::{mean, near, rate, variation};
use gpuwise_domain::{
    client::LengthFigures,
    workload::{LengthDistribution, Lengths as Given, Limits, Slo, Traffic, Workload},
};
use gpuwise_sim::traffic::{Curve, Extent, LengthLaw, Summary, from_workload};
use gpuwise_units::{RandomStream, Tokens};

fn drawn(law: &LengthLaw) -> Vec<f64> {
    let mut stream = RandomStream::new(2, "test", 0);
    (0..100_000)
        .map(|_| f64::from(law.draw(&mut stream)))
        .collect()
}

fn given(mean: f64, variation: f64, longest: u64) -> LengthDistribution {
    LengthDistribution {
        mean,
        variation,
        longest: Tokens(longest),
    }
}

#[test]
fn mean_and_variation_hold_though_the_longest_are_cut() {
    for (average, spread, longest) in [
        (1024.0, 0.5, 100_000),
        (1024.0, 0.5, 2048),
        (1155.0, 1.5, 14_050),
        (12_035.0, 1.8, 126_195),
        (211.0, 0.6, 1000),
        (100.0, 0.05, 150),
    ] {
        let law = LengthLaw::of(&given(average, spread, longest)).expect("a sound law");
        let drawn = drawn(&law);
        near(mean(&drawn), average, 0.02);
        near(variation(&drawn), spread, 0.06);
        let most = drawn.iter().copied().fold(0.0, f64::max);
        assert!(most <= longest as f64, "{most} > {longest}");
    }
}

#[test]
fn lengths_that_cannot_vary_are_fixed() {
    for (mean, variation, longest, expect) in [
        (100.0, 0.0, 500, 100),
        (0.0, 0.0, 500, 1),
        (100.4, 0.0, 500, 100),
        (700.0, 0.3, 500, 500),
        (1.0, 0.3, 1, 1),
    ] {
        let law = LengthLaw::of(&given(mean, variation, longest)).expect("a sound law");
        assert_eq!(law, LengthLaw::Fixed(expect));
    }
    for (mean, variation) in [
        (-1.0, 0.0),
        (f64::NAN, 0.0),
        (10.0, -1.0),
        (10.0, f64::INFINITY),
    ] {
        assert!(LengthLaw::of(&given(mean, variation, 100)).is_err());
    }
}

#[test]
fn four_figures_are_met() {
    for (average, p50, p95, max) in [
        (427.53, 275.0, 422.0, 5073.0),
        (147.47, 73.0, 271.0, 2576.0),
        (1.3658, 1.0, 1.0, 288.0),
        (73.164, 47.0, 223.0, 8193.0),
        (296.11, 315.0, 348.0, 348.0),
        (12.222, 2.0, 79.0, 79.0),
    ] {
        let curve = Curve::of(&LengthFigures {
            mean: average,
            p50,
            p95,
            max,
        });
        near(curve.at(0.5), p50, 1e-9);
        near(curve.at(0.95), p95, 1e-9);
        near(curve.at(1.0), max, 1e-9);
        near(curve.mean(), average, 0.02);
        let drawn = drawn(&LengthLaw::Quantiles(curve));
        near(mean(&drawn), average, 0.06);
    }
}

#[test]
fn a_curve_goes_through_its_points() {
    let curve = Curve::through(&[(0.1, 10.0), (0.5, 100.0), (1.0, 400.0)]).expect("it rises");
    for (probability, expect) in [
        (0.0, 10.0),
        (0.1, 10.0),
        (0.3, 1000_f64.sqrt()),
        (0.75, 200.0),
        (1.0, 400.0),
    ] {
        near(curve.at(probability), expect, 1e-9);
    }
    let drawn = drawn(&LengthLaw::Quantiles(curve.clone()));
    near(mean(&drawn), curve.mean(), 0.01);
    for points in [
        &[][..],
        &[(0.5, 10.0), (0.4, 20.0)],
        &[(0.5, 10.0), (0.6, 9.0)],
        &[(1.5, 10.0)],
        &[(0.5, f64::NAN)],
    ] {
        assert!(Curve::through(points).is_err(), "{points:?}");
    }
}

fn workload(input: LengthDistribution, prefix_hit: f64) -> Workload {
    Workload {
        traffic: Traffic::Open {
            rate: rate(8.0),
            burstiness: 2.0,
        },
        lengths: Given {
            input,
            output: given(200.0, 1.0, 4000),
        },
        prefix_hit,
        slo: Slo::default(),
        limits: Limits::default(),
    }
}

#[test]
fn traffic_is_as_the_workload_says() {
    for (input, hit, within) in [
        (given(1024.0, 0.0, 1024), 0.5, 0.005),
        (given(1024.0, 0.0, 1024), 0.0, 0.0),
        (given(1155.0, 1.2, 14_050), 0.37, 0.02),
        (given(1155.0, 1.2, 14_050), 0.8, 0.02),
        (given(2000.0, 0.3, 8192), 0.95, 0.02),
    ] {
        let workload = workload(input.clone(), hit);
        let made = from_workload(&workload, Extent::requests(20_000), 3).expect("a sound workload");
        let got = Summary::of(made);
        assert_eq!(got.requests, 20_000);
        near(got.rate.expect("it has times").get(), 8.0, 0.03);
        near(got.burstiness.expect("it has times"), 2.0, 0.08);
        near(got.input.mean, input.mean, 0.03);
        near(got.output.mean, 200.0, 0.03);
        if hit > 0.0 {
            near(got.shared_tokens.expect("prompts share"), hit, within);
        } else {
            assert_eq!(got.shared_tokens, None);
        }
    }
    let endless = from_workload(&workload(given(10.0, 0.0, 10), 0.0), Extent::default(), 1);
    assert!(endless.is_err());
}
