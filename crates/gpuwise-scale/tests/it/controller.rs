//! What our controller does in the hard cases: each a flow, or what it is told by hand.

use gpuwise_scale::{
    compare::rules,
    controller::{Because, Controller, Decision, Gpuwise, Observed, Rules},
    fluid::{Demand, Outcome, Service, run},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn flows(
    rates: impl IntoIterator<Item = f64>,
    period: f64,
    service: &Service,
) -> (Outcome, Vec<(Observed, Decision)>) {
    let demand = Demand {
        period,
        rates: rates.into_iter().collect(),
    };
    let mut ours = Gpuwise::new(rules(service, 0.99));
    let mut told = Vec::new();
    let outcome = run(&demand, service, &mut ours, 1, |seen, decision| {
        told.push((*seen, *decision));
    });
    (outcome, told)
}

fn hours(
    told: &[(Observed, Decision)],
    from: f64,
    until: f64,
) -> impl Iterator<Item = &(Observed, Decision)> {
    told.iter()
        .filter(move |(seen, _)| (from..until).contains(&(seen.now.seconds().get() / 3600.0)))
}

#[test]
fn a_constant_demand_keeps_a_constant_number() {
    let (outcome, told) = flows((0..288).map(|_| 100.0), 300.0, &Service::default());
    assert!(outcome.kept() > 0.99, "{}", outcome.kept());
    assert!(outcome.ratio() < 1.2, "{}", outcome.ratio());
    let changes = hours(&told, 12.0, 24.0)
        .filter(|(seen, decision)| decision.wanted.replicas != seen.ready + seen.starting);
    assert!(changes.count() < 25);
}

#[test]
fn a_step_to_five_times_is_served_and_held() {
    let (_, told) = flows(
        (0..288).map(|at| if at < 144 { 40.0 } else { 200.0 }),
        300.0,
        &Service::default(),
    );
    let late = |from: f64, until: f64| {
        let of: Vec<f64> = hours(&told, from, until)
            .map(|(seen, _)| seen.late)
            .collect();
        of.last().copied().unwrap_or(0.0) - of.first().copied().unwrap_or(0.0)
    };
    assert!(
        late(14.0, 24.0) < 0.01 * 200.0 * 36_000.0,
        "two hours after the step: {}",
        late(14.0, 24.0)
    );
    let last = told.last().expect("it was asked").1.wanted;
    assert!((40..=50).contains(&last.replicas), "{last:?}");
}

#[test]
fn a_flash_crowd_of_ninety_seconds_leaves_no_swing() {
    // Eight times as much for 90 s, once.
    let rates = (0..960).map(|at| if at == 480 || at == 481 { 320.0 } else { 40.0 });
    let (_, told) = flows(rates, 45.0, &Service::default());
    let crowd = 480.0 * 45.0 / 3600.0;
    let after: Vec<u32> = hours(&told, crowd + 1.0, crowd + 6.0)
        .map(|(_, decision)| decision.wanted.replicas)
        .collect();
    let (least, most) = (after.iter().min().copied(), after.iter().max().copied());
    assert!(
        least >= Some(8) && most <= Some(12),
        "{least:?} to {most:?}"
    );
}

#[test]
fn an_outage_does_not_divide_by_nothing_and_demand_comes_back() {
    // 84 windows of nothing.
    let rates = (0..432).map(|at| if (200..284).contains(&at) { 0.0 } else { 80.0 });
    let (_, told) = flows(rates, 600.0, &Service::default());
    assert!(
        told.iter()
            .all(|(_, decision)| decision.demand.is_finite() && decision.covered.is_finite())
    );
    let back = 284.0 / 6.0;
    let ready = hours(&told, back + 0.5, back + 1.0)
        .map(|(seen, _)| seen.ready)
        .min();
    assert!(ready >= Some(16), "{ready:?}");
}

#[test]
fn what_falls_slowly_is_followed_in_few_steps() {
    // From 100 to 60 replicas within two hours, of which 480 decisions know.
    let mut ours = Gpuwise::new(Rules {
        warm_cost: Some(0.1),
        ..service_of(1.0)
    });
    let (mut ready, mut changes) = (110, 0);
    for step in 1..=480_u64 {
        let rate = 100.0 - 40.0 * step as f64 / 480.0;
        let wanted = ours
            .decide(&seen(step * 15, ready, Some(rate * 15.0)))
            .wanted;
        changes += u32::from(wanted.replicas != ready);
        ready = wanted.replicas;
        assert!(f64::from(ready) >= rate, "{step}: {ready}");
    }
    assert!((3..=10).contains(&changes), "{changes}");
    assert!(ready <= 75, "{ready}");
}

#[test]
fn a_large_replica_is_left_alone_at_night() {
    // A third of what one serves: the second is not kept for a band.
    let mut ours = Gpuwise::new(Rules {
        warm_cost: Some(0.1),
        ..service_of(39.0)
    });
    let mut ready = 2;
    for step in 1..=40 {
        ready = ours
            .decide(&seen(step * 15, ready, Some(13.0 * 15.0)))
            .wanted
            .replicas;
    }
    assert_eq!(ready, 1);
}

#[test]
fn what_is_on_its_way_out_is_not_decided_again() {
    // Ten were wanted, and five more serve until those are ready: ten are wanted still.
    let mut ours = Gpuwise::new(Rules {
        warm_cost: Some(0.1),
        ..service_of(5.0)
    });
    let mut last = Decision::default();
    for step in 1..=40 {
        last = ours.decide(&seen(step * 15, 10, Some(45.0 * 15.0)));
    }
    assert_eq!(last.wanted.replicas, 10);
    let beside = ours.decide(&seen(41 * 15, 15, Some(45.0 * 15.0)));
    assert_eq!(
        (beside.wanted.replicas, beside.because),
        (10, Because::Band)
    );
}

fn seen(second: u64, ready: u32, arrived: Option<f64>) -> Observed {
    Observed {
        now: Nanoseconds(second * SECOND),
        arrived,
        ready,
        ..Observed::default()
    }
}

fn service_of(rate: f64) -> Rules {
    Rules {
        rate,
        ..Rules::default()
    }
}

#[test]
fn what_is_there_stays_while_metrics_say_nothing() {
    let mut ours = Gpuwise::new(service_of(5.0));
    for step in 1..100 {
        ours.decide(&seen(step * 15, 10, Some(40.0 * 15.0)));
    }
    // Ten minutes of nothing, of no number, of less than nothing.
    for (step, arrived) in (100..140).zip(
        [None, Some(f64::NAN), Some(-1.0), Some(f64::INFINITY)]
            .into_iter()
            .cycle(),
    ) {
        let decision = ours.decide(&Observed {
            warm: 2,
            warming: 1,
            ..seen(step * 15, 10, arrived)
        });
        assert_eq!((decision.wanted.replicas, decision.wanted.warm), (10, 3));
        assert_eq!(decision.because, Because::NoMetrics);
    }
}

#[test]
fn replicas_that_never_get_ready_are_not_added_to() {
    let mut ours = Gpuwise::new(service_of(5.0));
    let mut starting = 0;
    let mut told = Vec::new();
    for step in 1..2000_u64 {
        // Twice as much comes while those of the beginning still start.
        let rate = if step < 1000 { 50.0 } else { 100.0 };
        let decision = ours.decide(&Observed {
            starting,
            queued: (step * 15) as f64 * 50.0,
            ..seen(step * 15, 2, Some(rate * 15.0))
        });
        starting = decision.wanted.replicas.saturating_sub(2);
        told.push((starting, decision.because));
    }
    // Demand needs ten, and a queue as many again.
    let most = told.iter().map(|(starting, _)| *starting).max();
    assert!(most <= Some(24), "{most:?}");
    assert_eq!(told.last().map(|one| one.1), Some(Because::NotReady));
}

#[test]
fn starts_that_take_three_times_as_long_are_learned() {
    let mut ours = Gpuwise::new(service_of(5.0));
    let mut covered = [0.0; 2];
    for (round, took) in [180, 540].into_iter().enumerate() {
        for step in 0..4000_u64 {
            let at = (round as u64 * 4000 + step + 1) * 15;
            let wave = 100.0 + 60.0 * ((at as f64) / 1500.0).sin();
            let decision = ours.decide(&Observed {
                started: (step % 40 == 0).then_some(Nanoseconds(took * SECOND)),
                ..seen(at, 32, Some(wave * 15.0))
            });
            if step > 2000 {
                covered[round] += decision.covered;
            }
        }
    }
    assert!(covered[1] > covered[0] * 1.05, "{covered:?}");
}

#[test]
fn nothing_is_held_where_nothing_comes_and_none_may_be() {
    let mut ours = Gpuwise::new(Rules {
        min: 0,
        ..service_of(5.0)
    });
    let mut last = Decision::default();
    for step in 1..20 {
        last = ours.decide(&seen(step * 15, 1, Some(15.0)));
    }
    assert_eq!(last.wanted.replicas, 1);
    let mut ready = 1;
    for step in 20..200 {
        last = ours.decide(&seen(step * 15, ready, Some(0.0)));
        ready = last.wanted.replicas;
    }
    assert_eq!((last.wanted.replicas, last.because), (0, Because::Idle));
    let woken = ours.decide(&Observed {
        queued: 1.0,
        ..seen(200 * 15, 0, Some(1.0))
    });
    assert_eq!(woken.wanted.replicas, 1);
}

/// One request, and a start that takes longer than nothing may come: idle counts from when it serves, and not over a
/// time of which nothing is known.
#[test]
fn what_starts_or_is_not_known_is_not_idle() {
    for (queued, running, silent) in [
        (0.0, 0.0, false),
        (1.0, 0.0, false),
        (0.0, 1.0, false),
        (0.0, 0.0, true),
    ] {
        let mut ours = Gpuwise::new(Rules {
            min: 0,
            idle: Nanoseconds(300 * SECOND),
            ..service_of(5.0)
        });
        let mut zero = None;
        for step in 1..200_u64 {
            let at = step * 15;
            let serves = at >= 1200;
            let waits = (300..1500).contains(&at);
            let arrived = if silent && at > 1200 && at < 1500 {
                None
            } else {
                Some(f64::from(u8::from(at == 300)))
            };
            let decision = ours.decide(&Observed {
                queued: if waits { queued } else { 0.0 },
                running: if waits && serves { running } else { 0.0 },
                starting: u32::from(at > 300 && !serves && zero.is_none()),
                ..seen(at, u32::from(serves && zero.is_none()), arrived)
            });
            if at > 300 && decision.wanted.replicas == 0 {
                zero = zero.or(Some(at));
            }
        }
        let last = if queued + running > 0.0 || silent {
            1485
        } else {
            1200
        };
        assert_eq!(
            zero,
            Some(last + 300),
            "queued {queued}, running {running}, silent {silent}"
        );
    }
}

/// A counter that was reset gives a billion in a period: nothing is started for it.
#[test]
fn one_sample_beyond_all_that_is_known_is_held_back() {
    let mut ours = Gpuwise::new(service_of(5.0));
    for step in 1..40_u64 {
        ours.decide(&seen(step * 15, 20, Some(75.0 * 15.0)));
    }
    let glitch = ours.decide(&seen(600, 20, Some(1e9)));
    assert_eq!(
        (glitch.wanted.replicas, glitch.because),
        (20, Because::Implausible)
    );
    let after = ours.decide(&seen(615, 20, Some(75.0 * 15.0)));
    assert!(
        (15..=24).contains(&after.wanted.replicas) && after.demand < 80.0,
        "{after:?}"
    );
    // Twice in a row it is believed.
    ours.decide(&seen(630, 20, Some(60_000.0 * 15.0)));
    let believed = ours.decide(&seen(645, 20, Some(60_000.0 * 15.0)));
    assert!(believed.wanted.replicas > 1000, "{believed:?}");
}

#[test]
fn bounds_hold() {
    let mut ours = Gpuwise::new(Rules {
        min: 2,
        max: 6,
        warm_cost: Some(0.1),
        ..service_of(5.0)
    });
    for step in 1..400_u64 {
        let rate = if step < 200 { 1.0 } else { 500.0 };
        let wanted = ours.decide(&seen(step * 15, 4, Some(rate * 15.0))).wanted;
        assert!(
            (2..=6).contains(&wanted.replicas) && wanted.replicas + wanted.warm <= 6,
            "{wanted:?}"
        );
    }
}

fn told() -> impl Strategy<Value = Observed> {
    let arrived = prop_oneof![
        Just(None),
        (0.0..1e6_f64).prop_map(Some),
        Just(Some(0.0)),
        Just(Some(f64::NAN))
    ];
    (
        arrived,
        0.0..1e7_f64,
        0_u32..50,
        0_u32..50,
        0_u32..50,
        0.0..1e9_f64,
        0.0..1e9_f64,
    )
        .prop_map(
            |(arrived, queued, ready, starting, warm, requests, late)| Observed {
                arrived,
                queued,
                ready,
                starting,
                warm,
                requests,
                late,
                ..Observed::default()
            },
        )
}

proptest! {
    /// Written down at any moment and read back it decides the same; and whatever it is told, it stays in bounds.
    #[test]
    fn a_controller_is_a_document(all in prop::collection::vec(told(), 1..120), at in 0_usize..120) {
        let mut ours = Gpuwise::new(Rules { max: 100, warm_cost: Some(0.1), ..service_of(5.0) });
        let mut read: Option<Gpuwise> = None;
        for (step, one) in all.into_iter().enumerate() {
            let one = Observed { now: Nanoseconds(step as u64 * 15 * SECOND), ..one };
            if step == at {
                let text = serde_json::to_string(&ours).expect("a document");
                read = Some(serde_json::from_str(&text).expect("is read back"));
            }
            let decision = ours.decide(&one);
            if decision.because != Because::NoMetrics && decision.because != Because::NotReady {
                prop_assert!(decision.wanted.replicas <= 100 && decision.wanted.replicas + decision.wanted.warm <= 100);
            }
            prop_assert!(decision.demand.is_finite() && decision.covered.is_finite());
            if let Some(read) = &mut read {
                prop_assert_eq!(read.decide(&one), decision);
            }
        }
    }
}

/// A daemon that was held up tells of a minute at once: the same rate as before, and no more replicas.
#[test]
fn who_is_asked_late_sees_no_burst() {
    let rules = Rules {
        rate: 10.0,
        ..Rules::default()
    };
    let period = rules.period.0;
    let mut ours = Gpuwise::new(rules);
    let mut now = 0;
    let mut ready = 1;
    let mut most = 0;
    for at in 0..400_u64 {
        let spent = if at % 50 == 49 { 5 * period } else { period };
        now += spent;
        let decision = ours.decide(&Observed {
            now: Nanoseconds(now),
            arrived: Some(25.0 * spent as f64 / 1e9),
            ready,
            ..Observed::default()
        });
        ready = decision.wanted.replicas;
        if at > 50 {
            most = most.max(ready);
            assert!((decision.demand - 25.0).abs() < 1.0, "{at}: {decision:?}");
        }
    }
    assert!(most <= 5, "{most}");
}
