//! Requests one by one, against queues whose answers are known, and against the flow.

use gpuwise_scale::{
    controller::variants::Single,
    controller::{Controller, Decision, Observed},
    fluid::{Demand, Service},
    peers::Static,
    step::{Fleet, Form, Lengths, StepOutcome, Tenant, run},
    variant::{Price, Spot, Variant},
};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;

fn variant(rate: f64, service: f64) -> Variant {
    Variant {
        name: "one".into(),
        pool: "gpu".into(),
        gpus: 1,
        rate,
        service,
        prices: vec![Price {
            from: Nanoseconds(0),
            per_hour: 1.0,
        }],
        start: Nanoseconds(180 * SECOND),
        wake: Nanoseconds(5 * SECOND),
        warm_cost: Some(0.1),
        spot: None,
    }
}

fn tenant(variant: Variant, rates: &[f64], controller: Box<dyn Controller>) -> Tenant {
    Tenant {
        name: "service".into(),
        demand: Demand {
            period: 600.0,
            rates: rates.to_vec(),
        },
        variants: vec![variant],
        controller: Box::new(Single(controller)),
        wait: 2.0,
        objective: 0.99,
        dispersion: 1.0,
        guaranteed: Vec::new(),
        budget: None,
        engines: None,
    }
}

fn runs(form: Form, tenant: Tenant) -> StepOutcome {
    let fleet = Fleet {
        gpus: Vec::new(),
        form,
        seed: 1,
    };
    run(&fleet, &mut [tenant], |_| {}).remove(0)
}

/// Erlang's C: the chance that all of so many servers are busy, under a load in servers.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let mut blocked = 1.0;
    for server in 1..=servers {
        let offered = load * blocked;
        blocked = offered / (f64::from(server) + offered);
    }
    blocked / (1.0 - load / f64::from(servers) * (1.0 - blocked))
}

#[test]
fn waits_are_those_of_a_queue_with_many_servers() {
    // Three replicas that each run four at once, for a second in the mean: 12 servers, arrivals by chance.
    for rate in [9.0, 10.5, 11.2] {
        let rates = vec![rate; 150];
        let out = runs(
            Form::Requests(Lengths::Exponential),
            Tenant {
                wait: 0.5,
                ..tenant(variant(4.0, 1.0), &rates, Box::new(Static(3)))
            },
        );
        // Longer than t waits C exp(-(c µ - λ) t).
        let late = erlang_c(12, rate) * (-(12.0 - rate) * 0.5_f64).exp();
        let found = 1.0 - out.kept();
        assert!(
            (found - late).abs() < 0.06 * late + 0.002,
            "{rate}: {found} of {late}"
        );
    }
}

/// Asks for what it is told, from when on.
struct Listed(Vec<(u64, u32)>);

impl Controller for Listed {
    fn period(&self) -> Nanoseconds {
        Nanoseconds(15 * SECOND)
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        let since = self
            .0
            .iter()
            .rev()
            .find(|(from, _)| from * SECOND <= seen.now.0);
        Decision::replicas(since.map_or(1, |(_, count)| *count))
    }
}

#[test]
fn what_is_held_is_paid_for() {
    // One replica; at 600 s two more, which cost from then on and serve at 780; at 1,200 s one, and the others leave
    // when nothing runs on them, which is at once.
    let listed = Listed(vec![(0, 1), (600, 3), (1200, 1)]);
    let out = runs(
        Form::Requests(Lengths::Fixed),
        tenant(variant(5.0, 4.0), &[0.0, 0.0, 0.0], Box::new(listed)),
    );
    let hours = (1800.0 + 2.0 * 600.0 + 2.0 * 5.0) / 3600.0;
    assert!((out.cost - hours).abs() < 1e-9, "{} of {hours}", out.cost);
    assert_eq!((out.changes, out.variants[0].starts), (2, 2));
    assert!(out.requests.abs() < 1e-9 && out.late.abs() < 1e-9);
}

#[test]
fn a_request_that_finds_nothing_wakes_a_replica() {
    let listed = Listed(vec![(0, 0), (700, 1)]);
    let out = runs(
        Form::Requests(Lengths::Fixed),
        tenant(variant(5.0, 4.0), &[0.0, 0.0, 0.2, 0.2], Box::new(listed)),
    );
    assert!(out.variants[0].starts >= 1);
    assert!(out.held > 0.0 && out.late > 0.0 && out.late < out.requests);
}

#[test]
fn machines_that_are_taken_away_begin_their_requests_anew() {
    let spot = Some(Spot {
        notice: Nanoseconds(5 * SECOND),
        share: 1.0,
        a_day: 24.0,
        outage: Nanoseconds(0),
    });
    let rates = vec![8.0; 144];
    let out = runs(
        Form::Requests(Lengths::Exponential),
        tenant(
            Variant {
                spot,
                ..variant(5.0, 40.0)
            },
            &rates,
            Box::new(Static(3)),
        ),
    );
    // Some 24 times in the day that this is, three replicas each, with most of what ran on them.
    assert!((36..=120).contains(&out.interrupted), "{}", out.interrupted);
    assert!(
        out.restarted > 100.0 && out.late >= out.restarted,
        "{out:?}"
    );
}

#[test]
fn a_fleet_has_no_more_gpus_than_it_has() {
    let fleet = Fleet {
        gpus: vec![("gpu".into(), 4)],
        form: Form::Flow,
        seed: 1,
    };
    let rates = vec![40.0; 12];
    let mut tenants = [
        tenant(variant(5.0, 4.0), &rates, Box::new(Static(8))),
        tenant(variant(5.0, 4.0), &rates, Box::new(Static(8))),
    ];
    let mut most = 0;
    let out = run(&fleet, &mut tenants, |told| {
        let one = &told.seen.variants[0];
        most = most.max(one.serving() + one.leaving);
    });
    let hours: f64 = out.iter().map(|one| one.cost).sum();
    assert!(hours <= 4.0 * 2.0 + 4.0 + 1e-6, "{hours}");
    assert!(most <= 4, "{most}");
}

#[test]
fn a_flow_and_its_requests_cost_the_same() {
    let rates: Vec<f64> = (0..288)
        .map(|at| 40.0 + 25.0 * (f64::from(at) / 288.0 * std::f64::consts::TAU * 2.0).sin())
        .collect();
    let service = Service::default();
    let cost = |form| {
        let rules = gpuwise_scale::compare::rules(&service, 0.99);
        let ours = gpuwise_scale::controller::Gpuwise::new(rules);
        let one = Tenant {
            dispersion: 3.0,
            ..tenant(variant(5.0, 4.0), &rates, Box::new(ours))
        };
        runs(form, one)
    };
    let (flow, each) = (cost(Form::Flow), cost(Form::Requests(Lengths::Exponential)));
    assert!(
        (each.cost / flow.cost - 1.0).abs() < 0.05,
        "{} {}",
        each.cost,
        flow.cost
    );
    assert!((each.requests - flow.requests).abs() < 1e-6);
    assert!(
        each.kept() > 0.98 && flow.kept() > 0.98,
        "{} {}",
        each.kept(),
        flow.kept()
    );
}
