//! Replicas that batch continuously, against sums that can be done by hand, and controllers on them.

use gpuwise_scale::{
    controller::{
        Controller, Decision, Gpuwise, Observed, RequestTokens, Rules,
        variants::{MixSeen, Single},
    },
    fluid::Demand,
    step::{Engine, Engines, Fleet, Form, Grid, Length, Lengths, StepOutcome, Tenant, run},
    variant::{Price, Variant},
};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;

/// One replica, looked at every quarter of a minute.
struct One;

impl Controller for One {
    fn period(&self) -> Nanoseconds {
        Nanoseconds(15 * SECOND)
    }

    fn decide(&mut self, _: &Observed) -> Decision {
        Decision::replicas(1)
    }
}

/// A step takes 10 ms, 1 ms for each sequence that decodes, and 0.1 ms for each token of a prompt.
fn engine() -> Engine {
    Engine {
        decode: Grid {
            rows: vec![0.0, 64.0],
            columns: vec![0.0],
            values: vec![vec![0.010], vec![0.074]],
        },
        prompts: Grid {
            rows: vec![0.0],
            columns: vec![0.0, 4096.0],
            values: vec![vec![0.0, 0.4096]],
        },
        cache: 1e6,
        sequences: 64,
        step_tokens: 2048.0,
        cached: 0.0,
    }
}

const fn all(tokens: f64) -> Length {
    Length {
        mean: tokens,
        variation: 0.0,
        longest: 1e6,
    }
}

fn engines(prompt: f64, answer: f64) -> Engines {
    Engines {
        of: vec![engine()],
        prompt: all(prompt),
        answer: all(answer),
        over_time: Vec::new(),
        first_token: 1.0,
        token: None,
    }
}

fn tenant(rates: &[f64], engines: Engines, controller: Box<dyn Controller>) -> Tenant {
    Tenant {
        name: "service".into(),
        demand: Demand {
            period: 600.0,
            rates: rates.to_vec(),
        },
        variants: vec![Variant {
            name: "one".into(),
            pool: "gpu".into(),
            gpus: 1,
            rate: 4.0,
            service: 4.0,
            prices: vec![Price {
                from: Nanoseconds(0),
                per_hour: 1.0,
            }],
            start: Nanoseconds(180 * SECOND),
            wake: Nanoseconds(5 * SECOND),
            warm_cost: None,
            spot: None,
        }],
        controller: Box::new(Single(controller)),
        wait: 1.0,
        objective: 0.99,
        dispersion: 1.0,
        guaranteed: Vec::new(),
        budget: None,
        engines: Some(engines),
    }
}

fn runs(tenant: Tenant, mut told: impl FnMut(&MixSeen)) -> StepOutcome {
    let fleet = Fleet {
        gpus: Vec::new(),
        form: Form::Requests(Lengths::Exponential),
        seed: 1,
    };
    run(&fleet, &mut [tenant], |one| told(one.seen)).remove(0)
}

/// The mean of what is seen once everything has come to be usual.
fn mean(tenant: Tenant, of: impl Fn(&MixSeen) -> f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    runs(tenant, |seen| {
        if seen.now.0 > 600 * SECOND {
            sum += of(seen);
            count += 1.0;
        }
    });
    sum / count
}

#[test]
fn as_many_run_as_come_while_one_does() {
    // Little's law: steps of 10 ms whatever runs, 200 tokens each, so 2 s; three a second.
    let mut flat = engines(1.0, 200.0);
    flat.of[0].decode.values = vec![vec![0.010], vec![0.010]];
    flat.of[0].prompts.values = vec![vec![0.0, 0.0]];
    let found = mean(tenant(&[3.0; 12], flat, Box::new(One)), |seen| seen.running);
    assert!((found / 6.0 - 1.0).abs() < 0.03, "{found}");
}

#[test]
fn a_full_engine_decodes_what_its_steps_yield() {
    // 64 sequences each step, which takes 74 ms, and 0.1 ms for each prompt of one token that takes the place of one
    // that ended.
    let flooded = tenant(&[40.0; 12], engines(1.0, 100.0), Box::new(One));
    let found = mean(flooded, |seen| seen.tokens.map_or(0.0, |one| one.answers)) / 15.0;
    let expected = 64.0 / (0.074 + 0.64 * 0.0001);
    assert!(
        (found / expected - 1.0).abs() < 0.02,
        "{found} of {expected}"
    );
}

#[test]
fn prompts_take_the_time_of_who_decodes() {
    // Half of all time goes to prompts: 1,000 tokens are 100 ms, and five a second come. What decodes has the rest.
    let share = |prompt: f64| {
        let one = tenant(&[5.0; 12], engines(prompt, 40.0), Box::new(One));
        mean(one, |seen| seen.running)
    };
    // So many run that steps of 10 + n ms, of which half is left, yield 200 tokens a second: n = 2 s (10 + n) / 10 ms.
    let (without, with) = (share(1.0), share(1000.0));
    let decoding = |left: f64| 200.0 * 0.010 / (left - 200.0 * 0.001);
    assert!((without / decoding(1.0) - 1.0).abs() < 0.1, "{without}");
    assert!(with > decoding(0.5), "{with}");
    assert!(with < 2.5 * decoding(0.5), "{with}");
}

#[test]
fn a_request_is_late_by_its_first_token_or_by_the_others() {
    let share = |prompt: f64, first_token: f64, token: Option<f64>| {
        let asked = Engines {
            first_token,
            token,
            ..engines(prompt, 50.0)
        };
        1.0 - runs(tenant(&[0.2; 12], asked, Box::new(One)), |_| {}).kept()
    };
    // Alone, a prompt of 1,000 tokens takes 110 ms and every further token 11 ms.
    assert!(share(1000.0, 0.10, None) > 0.999);
    assert!(share(1000.0, 0.12, None) < 0.1);
    assert!(share(10.0, 1.0, Some(0.0105)) > 0.999);
    assert!(share(10.0, 1.0, Some(0.0125)) < 0.1);
}

#[test]
fn a_cache_that_is_full_lets_nobody_in() {
    let mut small = engines(100.0, 100.0);
    small.of[0].cache = 1000.0;
    let mut most: f64 = 0.0;
    let crowded = tenant(&[20.0; 3], small, Box::new(One));
    let out = runs(crowded, |seen| {
        // Those that were there at first have drained by then.
        let drained = seen.now.0 > 120 * SECOND;
        assert!(!drained || seen.running <= 5.0 + 1e-9, "{}", seen.running);
        most = most.max(seen.cache.unwrap_or(0.0));
    });
    assert!(most > 0.7 && most <= 1.0, "{most}");
    assert!(out.kept() < 0.5);
}

#[test]
fn answers_that_become_longer_are_followed_by_tokens_and_not_by_requests() {
    // Twenty requests a second all along; after four hours answers are twice as long.
    let hours = 8;
    let over_time = (0..hours * 6).map(|at| (200.0, if at < hours * 3 { 150.0 } else { 300.0 }));
    let asked = Engines {
        over_time: over_time.collect(),
        token: Some(0.045),
        ..engines(200.0, 150.0)
    };
    let replayed = |tokens| {
        let rules = Rules {
            rate: 4.0,
            wait: Nanoseconds(SECOND),
            tokens,
            ..Rules::default()
        };
        let rates = vec![20.0; hours * 6];
        let (mut before, mut after) = (0, 0);
        let one = tenant(&rates, asked.clone(), Box::new(Gpuwise::new(rules)));
        let out = runs(one, |seen| {
            let serving = seen.variants[0].serving();
            if seen.now.0 < hours as u64 * 1800 * SECOND {
                before = serving;
            }
            after = serving;
        });
        (out.kept(), before, after)
    };
    let (kept, before, after) = replayed(Some(RequestTokens {
        prompt: 200.0,
        answer: 150.0,
    }));
    assert!(kept > 0.99, "{kept}");
    assert!(
        f64::from(after) > 1.7 * f64::from(before),
        "{before} {after}"
    );
    let (kept, before, after) = replayed(None);
    assert!(kept < 0.9, "{kept}");
    assert!(
        f64::from(after) < 1.4 * f64::from(before),
        "{before} {after}"
    );
}

#[test]
fn one_seed_gives_one_result() {
    let once = || {
        let rules = Rules {
            rate: 4.0,
            ..Rules::default()
        };
        let one = tenant(
            &[9.0, 30.0, 12.0],
            engines(300.0, 80.0),
            Box::new(Gpuwise::new(rules)),
        );
        runs(one, |_| {})
    };
    assert_eq!(once(), once());
}
