//! Choices and what they cost.

use gpuwise_measure::tier::{
    choice::{Cost, choose, choose_under_slo, keeps},
    regret::{Case, Decided, judge, risk_coverage},
    workloads::{Chooser, Performance, Trial, decide},
};
use gpuwise_units::RandomStream;

fn cost(value: f64, spread: f64) -> Option<Cost> {
    Some(Cost { value, spread })
}

/// A standard normal of two uniform draws (Box and Muller).
fn normal(chance: &mut RandomStream) -> f64 {
    let radius = (-2.0 * (1.0 - chance.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * chance.uniform()).cos()
}

#[test]
fn the_expected_regret_is_that_of_many_draws() {
    for (other, spreads) in [(1.1, (0.1, 0.05)), (1.0, (0.2, 0.2)), (2.0, (0.3, 0.1))] {
        let said = choose(&[cost(1.0, spreads.0), cost(other, spreads.1)]).unwrap();
        let mut chance = RandomStream::new(9, "draws", 0);
        let draws = 200_000;
        let sum: f64 = (0..draws)
            .map(|_| {
                let first = spreads.0 * normal(&mut chance);
                let second = f64::ln(other) + spreads.1 * normal(&mut chance);
                (first - second).max(0.0)
            })
            .sum();
        let drawn = sum / f64::from(draws);
        assert!(
            (said.expected_regret - drawn).abs() < 2e-3,
            "{said:?} {drawn}"
        );
    }
}

#[test]
fn the_cheapest_known_one_is_chosen() {
    for (costs, chosen) in [
        (vec![cost(3.0, 0.1), cost(2.0, 0.1), None], Some(1)),
        (vec![None, None], None),
        (vec![], None),
        (
            vec![cost(f64::NAN, 0.1), cost(-1.0, 0.1), cost(5.0, 0.0)],
            Some(2),
        ),
        (vec![cost(1.0, 0.0), cost(1.0, 0.0)], Some(0)),
    ] {
        assert_eq!(
            choose(&costs).map(|choice| choice.chosen),
            chosen,
            "{costs:?}"
        );
    }
    assert_eq!(choose(&[cost(1.0, 0.5)]).unwrap().expected_regret, 0.0);
}

#[test]
fn regret_is_over_the_best_that_keeps_the_promise() {
    let case = Case {
        predicted: vec![cost(1.0, 0.1), cost(2.0, 0.1)],
        actual: vec![Some(3.0), Some(2.0), Some(2.5), None],
    };
    let decided = case.decide().unwrap();
    assert_eq!((decided.chosen, decided.regret), (0, Some(0.5)));
    assert_eq!(case.judge(3, 0.0).unwrap().regret, None);
    let nothing = Case {
        actual: vec![None, None],
        ..case
    };
    assert_eq!(nothing.decide(), None);
}

#[test]
fn fewer_decisions_of_less_expected_regret_cost_less() {
    let decided: Vec<Decided> = [(0.0, 0.01), (0.04, 0.02), (0.5, 0.3), (0.1, 0.2)]
        .into_iter()
        .map(|(regret, expected)| Decided {
            chosen: 0,
            regret: Some(regret),
            expected,
        })
        .collect();
    let curve = risk_coverage(&decided, &[1.0, 0.5]);
    assert!((curve[0].1.mean - 0.16).abs() < 1e-12);
    assert!((curve[0].1.top - 0.5).abs() < 1e-12);
    assert!((curve[1].1.mean - 0.02).abs() < 1e-12);
    let missed = Decided {
        chosen: 0,
        regret: None,
        expected: 0.0,
    };
    let judged = judge([decided[0], missed].iter());
    assert_eq!((judged.decisions, judged.missed), (1, 1));
}

fn trial(gpu: &str, hourly: Option<f64>, measured: (f64, f64), predicted: (f64, f64)) -> Trial {
    let performance = |(rate, latency): (f64, f64), wide: f64| Performance {
        rate,
        latencies: vec![latency],
        ranges: vec![(latency / wide, latency * wide)],
        spread: 0.1,
    };
    Trial {
        group: "a".into(),
        gpu: gpu.into(),
        gpus: 1,
        hourly,
        measured: performance(measured, 1.0),
        predicted: Some(performance(predicted, 1.1)),
    }
}

#[test]
fn whole_workloads_are_judged_under_their_promise() {
    let trials = [
        trial("L4", Some(1.0), (1.0, 3.0), (1.0, 3.0)),
        trial("A100", Some(2.0), (4.0, 0.8), (3.0, 0.9)),
        trial("H100", Some(4.0), (10.0, 0.4), (5.0, 0.5)),
        trial("free", None, (99.0, 0.1), (99.0, 0.1)),
    ];
    let of = |chooser, limit: f64| {
        let verdicts = decide(&trials, &[limit], 3, chooser);
        assert_eq!(verdicts.len(), 1);
        verdicts[0].decided
    };
    // Predicted a token on the A100 costs 2/3, on the H100 4/5; measured 1/2 and 2/5.
    let regret = of(Chooser::Prediction, 1.0).unwrap().regret.unwrap();
    assert!((regret - 0.25).abs() < 1e-12);
    assert_eq!(of(Chooser::CheapestThatFits, 1.0).unwrap().regret, None);
    assert_eq!(of(Chooser::Always("H100"), 1.0).unwrap().regret, Some(0.0));
    assert_eq!(of(Chooser::Always("B200"), 1.0), None);
    // Where only one keeps it, the others' predictions do not count.
    assert_eq!(of(Chooser::Prediction, 0.6).unwrap().regret, Some(0.0));
    assert!(decide(&trials, &[0.1], 3, Chooser::Prediction).is_empty());
    assert!(decide(&trials[..2], &[1.0], 3, Chooser::Prediction).is_empty());
}

#[test]
fn of_costs_that_are_alike_the_surest_to_keep_its_slo_is_taken() {
    let costs = [
        cost(1.0, 0.1),
        cost(1.05, 0.1),
        cost(1.2, 0.1),
        cost(0.5, 0.1),
    ];
    for (keeps, chosen) in [
        ([0.6, 0.9, 0.99, 0.4], 1),
        ([0.9, 0.6, 0.99, 0.4], 0),
        ([0.9, 0.9, 0.99, 0.4], 0),
        ([0.1, 0.3, 0.2, 0.05], 1),
    ] {
        let choice = choose_under_slo(&costs, &keeps).unwrap();
        assert_eq!(choice.chosen, chosen, "{keeps:?}");
    }
    assert_eq!(choose_under_slo(&[None], &[1.0]), None);
}

#[test]
fn the_chance_of_keeping_a_limit_follows_the_range() {
    for (limit, chance) in [(1.0, 0.5), (1.2, 0.9), (0.9, 0.1), (100.0, 1.0)] {
        assert!(
            (keeps((1.0, 0.9, 1.2), limit) - chance).abs() < 1e-6,
            "{limit}"
        );
    }
    assert_eq!(
        (keeps((1.0, 1.0, 1.0), 1.0), keeps((1.0, 1.0, 1.0), 0.99)),
        (1.0, 0.0)
    );
}
