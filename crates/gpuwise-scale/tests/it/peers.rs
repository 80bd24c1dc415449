//! Others' controllers, held to the examples of their documentation, and the flow on which all run.

use gpuwise_scale::{
    compare::{POLICIES, Policy, compare, compare_by_request},
    controller::{Controller, Observed},
    fluid::{Demand, Service, negative_binomial},
    peers::{Dynamo, Hpa, Kpa, Metric, Wva},
};
use gpuwise_units::{Nanoseconds, RandomStream};

/// Kubernetes: twice the target doubles, half of it halves; within a tenth nothing changes.
#[test]
fn the_autoscaler_of_kubernetes_follows_its_formula() {
    let hpa = Hpa::new(Metric::Rate, 100.0);
    assert_eq!(hpa.desired(3, 600.0), 6);
    assert_eq!(hpa.desired(4, 200.0), 2);
    assert_eq!(hpa.desired(10, 1090.0), 10);
    // The tolerance swallows 11 -> 12 and 20 -> 19.
    assert_eq!(hpa.desired(11, 1200.0), 11);
    assert_eq!(hpa.desired(20, 1900.0), 20);
}

/// Knative's own case: at most 1.1 times as many, concurrency 3, two ready, target 1: three.
#[test]
fn knative_goes_up_no_faster_than_allowed() {
    assert_eq!(Kpa::new(1.0).with_most_up(1.1).desired(3.0, 2), 3);
    assert_eq!(Kpa::new(10.0).desired(5.0, 20), 10);
}

#[test]
fn keda_goes_to_none_after_its_cooldown_and_back() {
    let mut keda = Hpa::keda(Metric::Rate, 5.0);
    let at = |second: u64, arrived: f64, ready: u32| Observed {
        now: Nanoseconds(second * 1_000_000_000),
        arrived: Some(arrived),
        ready,
        ..Observed::default()
    };
    keda.decide(&at(15, 30.0, 1));
    let idle: Vec<u32> = (2..30)
        .map(|step| keda.decide(&at(step * 15, 0.0, 1)).wanted.replicas)
        .collect();
    // A minute until the mean is nothing, then five.
    let none = idle
        .iter()
        .position(|count| *count == 0)
        .expect("it goes to none");
    assert_eq!((none as u64 + 2) * 15, 360);
    assert_eq!(keda.decide(&at(600, 1.0, 0)).wanted.replicas, 1);
}

#[test]
fn a_planner_counts_requests_of_its_interval() {
    // 1,800 requests in 180 s at 4 a second a worker.
    assert_eq!(Dynamo::new(4.0, 2.0).needed(1800.0, 180.0), 3);
}

#[test]
fn saturation_adds_one_and_takes_one() {
    let wva = Wva::new(20.0);
    assert_eq!(
        wva.desired(3, 0.71, 0.0),
        4,
        "a tenth of the cache is not left"
    );
    assert_eq!(
        wva.desired(3, 0.5, 2.5),
        4,
        "three of the queue are not left"
    );
    assert_eq!(wva.desired(3, 0.5, 0.0), 3, "two would be too full");
    assert_eq!(wva.desired(3, 0.4, 0.0), 2);
    assert_eq!(wva.desired(1, 0.0, 0.0), 1);
}

/// Counts have the mean and variance that they are said to have, by inversion and as normal numbers.
#[test]
fn counts_vary_as_said() {
    for (mean, dispersion) in [(2.0, 1.0), (50.0, 3.0), (1500.0, 3.0), (5000.0, 3.0)] {
        let mut stream = RandomStream::new(1, "counts", 0);
        let all: Vec<f64> = (0..4000)
            .map(|_| negative_binomial(&mut stream, mean, dispersion))
            .collect();
        let average = all.iter().sum::<f64>() / 4000.0;
        let variance = all.iter().map(|one| (one - average).powi(2)).sum::<f64>() / 3999.0;
        let error = (mean * dispersion / 4000.0_f64).sqrt();
        assert!(
            (average - mean).abs() < 4.0 * error,
            "mean {average} of {mean}"
        );
        let ratio = variance / average / dispersion;
        assert!(
            (0.9..1.1).contains(&ratio),
            "dispersion {ratio} of what is said, at {mean}"
        );
    }
}

/// Nobody can be cheaper than the bound without queues; nobody creates requests; the same seed says the same.
#[test]
fn costs_are_no_less_than_the_bound() {
    let rates = (0..288).map(|at| 60.0 + 40.0 * (f64::from(at) / 46.0).sin());
    let demand = Demand {
        period: 300.0,
        rates: rates.collect(),
    };
    let service = Service::default();
    let came: Vec<f64> = POLICIES
        .iter()
        .map(|policy| {
            let one = compare(*policy, &demand, &service, 0.99, 3);
            assert_eq!(
                one,
                compare(*policy, &demand, &service, 0.99, 3),
                "{}",
                policy.name()
            );
            let out = one.outcome;
            if out.kept() >= 0.99 && *policy != Policy::Static {
                assert!(out.ratio() > 0.97, "{}: {}", policy.name(), out.ratio());
            }
            out.requests
        })
        .collect();
    assert!(
        came.windows(2)
            .all(|pair| pair[0].to_bits() == pair[1].to_bits()),
        "all are asked the same: {came:?}"
    );
}

/// A constant number is there from the beginning, though the first reading needs less.
#[test]
fn what_is_static_is_there_from_the_beginning() {
    let demand = Demand {
        period: 300.0,
        rates: std::iter::once(5.0).chain([100.0; 12]).collect(),
    };
    let service = Service::default();
    for policy in [Policy::Static, Policy::Perfect] {
        let found = compare(policy, &demand, &service, 0.99, 3);
        assert!(
            found.outcome.kept() >= 0.99,
            "{}: {}",
            policy.name(),
            found.outcome.kept()
        );
    }
    let (target, out) = compare_by_request(Policy::Static, &demand, &service, 0.99, 3);
    assert!(out.kept() >= 0.99, "{target:?}: {}", out.kept());
}
