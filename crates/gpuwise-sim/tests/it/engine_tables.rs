//! Engines as tables, on which weeks are run, against the engine that is run step by step.

use crate::engine_naive::{serve, settings};
use gpuwise_domain::request::Request;
use gpuwise_scale::{
    controller::{Controller, Decision, Observed, variants::Single},
    fluid::Demand,
    step::{Engines, Fleet, Form, Length, Lengths, Tenant, run},
    variant::{Price, Variant},
};
use gpuwise_sim::{
    cost::Linear,
    engine::{Policy, Settings, VllmRules},
    tables::{Usual, tables},
};
use gpuwise_units::{Nanoseconds, RandomStream};

const SECOND: f64 = 1e12;
const PROMPT: u32 = 600;
const ANSWER: u32 = 120;

/// 8 ms a step, 0.4 ms for each that decodes, 60 µs for each token of a prompt, 20 ns for each of context.
const COST: Linear = Linear {
    step: 8_000_000_000,
    sequence: 400_000_000,
    token: 60_000_000,
    context: 20_000,
};

fn engine() -> Settings {
    let mut engine = Settings {
        max_sequences: 128,
        max_batched_tokens: 2048,
        max_context: 4096,
        ..settings(Policy::Vllm(VllmRules::default()))
    };
    engine.cache.blocks = 1 << 20;
    engine
}

/// One replica, whatever is seen.
struct One;

impl Controller for One {
    fn period(&self) -> Nanoseconds {
        Nanoseconds(15_000_000_000)
    }

    fn decide(&mut self, _: &Observed) -> Decision {
        Decision::replicas(1)
    }
}

/// The share of requests whose first token, and whose further tokens, take no longer than this; by tables.
fn by_tables(rate: f64, first_token: f64, token: Option<f64>) -> f64 {
    let usual = Usual {
        prompt: f64::from(PROMPT),
        cached: 0.0,
    };
    let all = |tokens: u32| Length {
        mean: f64::from(tokens),
        variation: 0.0,
        longest: 4096.0,
    };
    let engines = Engines {
        of: vec![tables(&engine(), &mut COST.clone(), usual).unwrap()],
        prompt: all(PROMPT),
        answer: all(ANSWER),
        over_time: Vec::new(),
        first_token,
        token,
    };
    let tenant = Tenant {
        name: "service".into(),
        demand: Demand {
            period: 600.0,
            rates: vec![rate; 30],
        },
        variants: vec![Variant {
            name: "one".into(),
            pool: "gpu".into(),
            gpus: 1,
            // One replica is there from the beginning.
            rate: 1000.0,
            service: 1.0,
            prices: vec![Price {
                from: Nanoseconds(0),
                per_hour: 1.0,
            }],
            start: Nanoseconds(0),
            wake: Nanoseconds(0),
            warm_cost: None,
            spot: None,
        }],
        controller: Box::new(Single(Box::new(One))),
        wait: 1.0,
        objective: 0.99,
        dispersion: 1.0,
        guaranteed: Vec::new(),
        budget: None,
        engines: Some(engines),
    };
    let fleet = Fleet {
        gpus: Vec::new(),
        form: Form::Requests(Lengths::Fixed),
        seed: 3,
    };
    run(&fleet, &mut [tenant], |_| {}).remove(0).kept()
}

/// Seconds to the first token and for each further one, of requests run step by step.
fn by_steps(rate: f64) -> Vec<(f64, f64)> {
    let mut gaps = RandomStream::new(5, "gaps", 0);
    let mut time = 0.0;
    let arrivals = (0..(rate * 18_000.0) as u64).map(|_| {
        time += -libm::log(1.0 - gaps.uniform()) * SECOND / rate;
        let request = Request {
            input: PROMPT,
            output: ANSWER,
            ..Request::default()
        };
        (time as u64, request)
    });
    let arrivals: Vec<(u64, Request)> = arrivals.collect();
    let (witness, _) = serve(&engine(), COST, &arrivals);
    let each = witness.done.iter().map(|done| {
        let first = done.first_token.unwrap();
        let seconds = |from: u64, to: u64| (to - from) as f64 / SECOND;
        let token = seconds(first, done.end) / f64::from(ANSWER - 1);
        (seconds(done.submitted, first), token)
    });
    each.collect()
}

#[test]
fn tables_say_what_steps_come_to() {
    // From hardly anything to nine tenths of what one engine can do.
    for rate in [2.0, 8.0, 11.0] {
        let steps = by_steps(rate);
        let quantile = |of: &dyn Fn(&(f64, f64)) -> f64, level: f64| {
            let mut all: Vec<f64> = steps.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[((all.len() - 1) as f64 * level) as usize]
        };
        // Where half, and nineteen in twenty, of the requests are in time step by step, so are they by tables, within
        // what half a step of waiting and chance make of it: at limits that are 8 % longer and shorter.
        for level in [0.5, 0.95] {
            let token = quantile(&|one| one.1, level);
            let (less, more) = (
                by_tables(rate, 1e9, Some(token * 0.92)),
                by_tables(rate, 1e9, Some(token * 1.08)),
            );
            assert!(
                less < level && level < more + 0.02,
                "{rate}: {less} {level} {more}"
            );
        }
        let first = quantile(&|one| one.0, 0.95);
        let step = 0.008 + 0.0004 * rate * 2.0;
        let (less, more) = (
            by_tables(rate, first * 0.75 - step, None),
            by_tables(rate, first * 1.25, None),
        );
        assert!(less < 0.95 && more > 0.95, "{rate}: {less} {more}");
    }
}
