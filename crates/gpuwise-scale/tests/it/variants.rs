//! What the controller of several variants does, told by hand.

use gpuwise_scale::{
    controller::variants::{
        Limit, MixController, MixDecision, MixRules, MixSeen, Mixed, MixedBy, Need, VariantSeen,
    },
    controller::{Because, Decision, Rules, Wanted},
    fluid::Demand,
    step::{Fleet, Form, Tenant, run},
    variant::{Price, Spot, Variant, pools},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn variant(name: &str, rate: f64, price: f64) -> Variant {
    Variant {
        name: name.into(),
        pool: name.into(),
        gpus: 1,
        rate,
        service: 4.0,
        prices: vec![Price {
            from: Nanoseconds(0),
            per_hour: price,
        }],
        start: Nanoseconds(180 * SECOND),
        wake: Nanoseconds(5 * SECOND),
        warm_cost: Some(0.1),
        spot: None,
    }
}

const LOSSES: Spot = Spot {
    notice: Nanoseconds(30 * SECOND),
    share: 1.0,
    a_day: 0.5,
    outage: Nanoseconds(600 * SECOND),
};

fn mixed(variants: Vec<Variant>) -> Mixed {
    Mixed::new(MixRules::new(Rules::default(), variants))
}

/// So many requests a second are to be served, of which so many arrive now.
fn need(controller: &Mixed, serve: f64, arrives: f64) -> Need {
    let unit = controller.rules().unit();
    Need {
        unit,
        decision: Decision {
            wanted: Wanted {
                replicas: (serve / unit - 1e-9).ceil() as u32,
                warm: 0,
            },
            because: Because::Demand,
            demand: arrives,
            covered: serve,
        },
    }
}

fn seen(ready: &[u32]) -> MixSeen {
    let each = ready.iter().map(|ready| VariantSeen {
        ready: *ready,
        ..VariantSeen::default()
    });
    MixSeen {
        variants: each.collect(),
        ..MixSeen::default()
    }
}

fn replicas(decision: &MixDecision) -> Vec<u32> {
    decision
        .wanted
        .iter()
        .map(|one| one.wanted.replicas)
        .collect()
}

fn by(decision: &MixDecision) -> Vec<MixedBy> {
    decision.wanted.iter().map(|one| one.by).collect()
}

#[test]
fn a_large_one_stands_beside_small_ones() {
    let of = mixed(vec![
        variant("large", 10.0, 3.0),
        variant("small", 2.0, 0.8),
    ]);
    let need = need(&of, 14.0, 13.0);
    // From nothing: 1 × 3.00 + 2 × 0.80 is less than 2 × 3.00 and 7 × 0.80.
    let decision = of.choose(&need, &seen(&[0, 0]), &[]);
    assert_eq!(replicas(&decision), [1, 2]);
    assert_eq!(by(&decision), [MixedBy::Cheapest, MixedBy::Cheapest]);
    assert!((decision.per_hour - 4.6).abs() < 1e-9);
    // Seven small ones do it now: 1.00 an hour more, which pays for the start of a large one (3 × 0.05 h) within the
    // hour. They stay until it serves.
    let decision = of.choose(&need, &seen(&[0, 7]), &[]);
    assert_eq!(
        (replicas(&decision), decision.limit),
        (vec![1, 7], Some(Limit::UntilReady))
    );
    let decision = of.choose(&need, &seen(&[1, 7]), &[]);
    assert_eq!((replicas(&decision), decision.limit), (vec![1, 2], None));
    assert_eq!(by(&decision)[1], MixedBy::Fewer);
    // Streams of an hour and a half: draining five of them costs more than they do within the hour.
    let mut long = seen(&[1, 7]);
    long.variants[1].frees = vec![Nanoseconds(5400 * SECOND); 7];
    assert_eq!(replicas(&of.choose(&need, &long, &[])), [0, 7]);
}

#[test]
fn what_is_warm_is_woken_before_anything_starts() {
    let of = mixed(vec![
        variant("large", 10.0, 3.0),
        variant("small", 2.0, 0.7),
    ]);
    let mut seen = seen(&[1, 0]);
    seen.variants[1].warm = 2;
    let decision = of.choose(&need(&of, 14.0, 13.0), &seen, &[]);
    assert_eq!(replicas(&decision), [1, 2]);
    assert_eq!(by(&decision), [MixedBy::Kept, MixedBy::Woken]);
    assert_eq!(decision.warm(), 0);
}

#[test]
fn the_loss_of_a_spot_pool_leaves_enough() {
    let never = |one: Variant| Variant {
        warm_cost: None,
        ..one
    };
    let spot = Variant {
        spot: Some(LOSSES),
        ..variant("spot", 2.0, 0.3)
    };
    // 20 are to be served, of which 12 arrive now. Half a band more are to be left: 12 + (7 % of 12 + √(12 ÷ 60)) ÷ 2.
    // Where nothing can be warm, seven of two each serve on machines of one's own.
    let own = variant("own", 2.0, 0.7);
    let of = mixed(vec![never(own.clone()), never(spot.clone())]);
    let asks = need(&of, 20.0, 12.0);
    let decision = of.choose(&asks, &seen(&[0, 0]), &[]);
    assert_eq!(
        (replicas(&decision), decision.limit),
        (vec![7, 3], Some(Limit::Loss))
    );
    // What is there is enough as long as it is: 12 are left.
    let decision = of.choose(&asks, &seen(&[6, 4]), &[]);
    assert_eq!(
        (replicas(&decision), decision.limit),
        (vec![6, 4], Some(Limit::Loss))
    );
    // Two pools that are not lost together: either is enough.
    let other = Variant {
        pool: "other".into(),
        ..spot.clone()
    };
    let of = mixed(vec![never(own.clone()), never(spot.clone()), never(other)]);
    assert_eq!(
        replicas(&of.choose(&asks, &seen(&[0, 0, 0]), &[])),
        [0, 7, 7]
    );
    // What is warm wakes in seconds, and costs a tenth.
    let of = mixed(vec![own.clone(), spot.clone()]);
    let decision = of.choose(&asks, &seen(&[0, 0]), &[]);
    assert_eq!(
        (replicas(&decision), decision.wanted[0].wanted.warm),
        (vec![0, 10], 7)
    );
    // Told early enough, what is lost is started elsewhere in time.
    let told = Variant {
        spot: Some(Spot {
            notice: Nanoseconds(240 * SECOND),
            ..LOSSES
        }),
        ..spot
    };
    let of = mixed(vec![own, told]);
    let decision = of.choose(&asks, &seen(&[0, 0]), &[]);
    assert_eq!((replicas(&decision), decision.warm()), (vec![0, 10], 0));
}

/// Two spot pools that each serve all of it cost more than what is never lost: seldom found by a search among all
/// counts of all kinds, whose steps end before.
#[test]
fn what_is_not_lost_takes_the_place_of_two_pools_that_are() {
    let cold = |one: Variant| Variant {
        warm_cost: None,
        ..one
    };
    let spot = |name: &str, price: f64| Variant {
        spot: Some(LOSSES),
        ..cold(variant(name, 1.6, price))
    };
    let of = mixed(vec![
        cold(variant("small", 1.6, 0.7)),
        spot("east", 0.31),
        spot("west", 0.40),
        cold(variant("large", 39.0, 11.07)),
    ]);
    let need = need(&of, 112.0, 102.0);
    let now = of.choose(&need, &seen(&[0, 67, 67, 0]), &[]);
    assert_eq!(replicas(&now)[3], 3, "{now:?}");
    let then = of.choose(&need, &seen(&[0, 67, 67, 3]), &[]);
    assert_eq!(replicas(&then), [0, 0, 0, 3]);
    assert!(then.per_hour < 0.75 * 67.0 * 0.71);
}

#[test]
fn there_are_only_so_many_gpus_and_so_much_money() {
    let mut rules = MixRules::new(
        Rules::default(),
        vec![variant("large", 10.0, 3.0), variant("small", 2.0, 0.7)],
    );
    let of = Mixed::new(rules.clone());
    let asks = need(&of, 30.0, 30.0);
    let decision = of.choose(&asks, &seen(&[0, 0]), &[1, 3]);
    assert_eq!(
        (replicas(&decision), decision.limit),
        (vec![1, 3], Some(Limit::Inventory))
    );
    // Those that leave hold theirs.
    let mut leaving = seen(&[0, 0]);
    leaving.variants[0].leaving = 1;
    assert_eq!(replicas(&of.choose(&asks, &leaving, &[1, 3])), [0, 3]);
    rules.per_hour = Some(6.5);
    let of = Mixed::new(rules);
    let decision = of.choose(&asks, &seen(&[0, 0]), &[]);
    assert_eq!(decision.limit, Some(Limit::Budget));
    assert!(
        decision.per_hour <= 6.5 && decision.per_hour > 5.5,
        "{decision:?}"
    );
}

#[test]
fn a_price_that_rises_moves_what_it_pays_to_move() {
    let mut dear = variant("a", 5.0, 1.0);
    dear.prices.push(Price {
        from: Nanoseconds(3600 * SECOND),
        per_hour: 2.0,
    });
    let of = mixed(vec![dear, variant("b", 5.0, 1.2)]);
    let need = need(&of, 20.0, 18.0);
    let mut asked = seen(&[4, 0]);
    assert_eq!(replicas(&of.choose(&need, &asked, &[])), [4, 0]);
    asked.now = Nanoseconds(3601 * SECOND);
    let decision = of.choose(&need, &asked, &[]);
    assert_eq!(
        (replicas(&decision), decision.limit),
        (vec![4, 4], Some(Limit::UntilReady))
    );
    let mut ready = seen(&[4, 4]);
    ready.now = Nanoseconds(3800 * SECOND);
    assert_eq!(replicas(&of.choose(&need, &ready, &[])), [0, 4]);
}

#[test]
fn what_is_there_stays_while_nothing_is_much_cheaper() {
    let of = |price: f64| mixed(vec![variant("a", 5.0, 1.0), variant("b", 5.0, price)]);
    let asks = |of: &Mixed, serve: f64, because: Because| {
        let mut need = need(of, serve, serve * 0.9);
        need.decision.because = because;
        need
    };
    // 12 % an hour is 2 % of what half an hour and the starts cost; half the price is gone to.
    let near = of(0.88);
    let there = seen(&[4, 0]);
    let stays = near.choose(&asks(&near, 20.0, Because::Band), &there, &[]);
    assert_eq!(replicas(&stays), [4, 0]);
    let far = of(0.5);
    let goes = far.choose(&asks(&far, 20.0, Because::Band), &there, &[]);
    assert_eq!(replicas(&goes), [4, 4]);
    // More: what is missing alone is started. Fewer: nothing is.
    let more = near.choose(&asks(&near, 25.0, Because::Demand), &there, &[]);
    assert_eq!(replicas(&more), [4, 1]);
    let fewer = near.choose(&asks(&near, 15.0, Because::Demand), &seen(&[3, 2]), &[]);
    assert_eq!(replicas(&fewer), [1, 2]);
}

/// A day of two waves with a crowd on them, four variants of which two are spot.
#[test]
fn a_mix_changes_seldom() {
    let spot = |name: &str, price: f64| Variant {
        spot: Some(LOSSES),
        ..variant(name, 1.6, price)
    };
    let variants = vec![
        variant("small", 1.6, 0.7),
        spot("east", 0.31),
        spot("west", 0.40),
        variant("large", 39.0, 11.07),
    ];
    let rates = (0..144).map(|at| {
        let wave = 60.0 + 30.0 * (f64::from(at) / 144.0 * std::f64::consts::TAU * 2.0).sin();
        if at % 36 == 20 { wave * 1.3 } else { wave }
    });
    let tenant = Tenant {
        name: "service".into(),
        demand: Demand {
            period: 600.0,
            rates: rates.collect(),
        },
        controller: Box::new(mixed(variants.clone())),
        variants,
        wait: 2.0,
        objective: 0.99,
        dispersion: 3.0,
        guaranteed: Vec::new(),
        budget: None,
        engines: None,
    };
    let fleet = Fleet {
        gpus: Vec::new(),
        form: Form::Flow,
        seed: 1,
    };
    let out = run(&fleet, &mut [tenant], |_| {}).remove(0);
    // 3,000 in fourteen days.
    assert!(out.changes <= 214, "{}", out.changes);
    assert!(out.kept() > 0.99, "{}", out.kept());
    assert!(out.cost / out.bound < 1.45, "{}", out.cost / out.bound);
}

/// Goes along with what is decided: what is wanted is there at the next period.
fn periods(of: &mut Mixed, from: u64, until: u64, there: &mut MixSeen) -> Vec<String> {
    let mut decisions = Vec::new();
    for period in from..until {
        there.now = Nanoseconds(period * 15 * SECOND);
        let rate = 20.0 + 12.0 * (period as f64 / 40.0).sin();
        there.arrived = (period % 97 != 13).then_some(rate * 15.0);
        there.requests += rate * 15.0;
        let need = of.need(there);
        let decision = of.choose(&need, there, &[]);
        for (one, wanted) in there.variants.iter_mut().zip(&decision.wanted) {
            (one.ready, one.warm) = (wanted.wanted.replicas, wanted.wanted.warm);
        }
        decisions.push(serde_json::to_string(&decision).expect("JSON"));
    }
    decisions
}

#[test]
fn a_state_read_back_decides_the_same_to_the_byte() {
    let variants = || vec![variant("large", 10.0, 3.0), variant("small", 2.0, 0.7)];
    let (mut whole, mut there) = (mixed(variants()), seen(&[2, 0]));
    let all = periods(&mut whole, 1, 800, &mut there);
    let (mut first, mut there) = (mixed(variants()), seen(&[2, 0]));
    periods(&mut first, 1, 400, &mut there);
    let state = serde_json::to_string(&first).expect("JSON");
    let there = serde_json::to_string(&there).expect("JSON");
    let mut again: Mixed = serde_json::from_str(&state).expect("a state");
    let mut there: MixSeen = serde_json::from_str(&there).expect("what is there");
    assert_eq!(periods(&mut again, 400, 800, &mut there), all[399..]);
    // What is not known changes nothing.
    assert!(all[12].contains("no_metrics"), "{}", all[12]);
}

fn variants() -> impl Strategy<Value = Vec<Variant>> {
    let one = (1.0..9.0_f64, 0.2..4.0_f64, any::<bool>(), 1..3_u32);
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let each = all.into_iter().enumerate();
        each.map(|(at, (rate, price, spot, gpus))| Variant {
            gpus,
            spot: (spot && at > 0).then_some(LOSSES),
            ..variant(&format!("v{at}"), rate, price)
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn a_mix_serves_and_is_never_dearer_than_one_variant(variants in variants(), serve in 1.0..80.0_f64, part in 0.3..1.0_f64) {
        let of = mixed(variants.clone());
        let there = seen(&vec![0; variants.len()]);
        let asks = need(&of, serve, serve * part);
        let decision = of.choose(&asks, &there, &[]);
        let counts = replicas(&decision);
        let of_pool = |without: &str| -> f64 {
            let each = variants.iter().zip(&decision.wanted).filter(|(one, _)| one.pool != without);
            each.map(|(one, of)| one.rate * f64::from(of.wanted.replicas + of.wanted.warm)).sum()
        };
        let served: f64 = variants.iter().zip(&counts).map(|(one, count)| one.rate * f64::from(*count)).sum();
        prop_assert!(served >= asks.serve() - 1e-6);
        // What is left when a pool is lost does for what arrives.
        for one in variants.iter().filter(|one| one.spot.is_some()) {
            prop_assert!(of_pool(&one.pool) >= asks.decision.demand.min(asks.serve()) - 1e-6, "{decision:?}");
        }
        // One variant alone, on machines that nobody takes away.
        for one in variants.iter().filter(|one| one.spot.is_none()) {
            let alone = (asks.serve() / one.rate - 1e-9).ceil() * one.prices[0].per_hour;
            // Starts are counted in what is chosen: a twentieth of an hour.
            prop_assert!(decision.per_hour <= alone * 1.05 + 1e-6, "{} of {alone}", decision.per_hour);
        }
    }

    #[test]
    fn nobody_has_more_gpus_than_there_are(variants in variants(), serve in 1.0..80.0_f64, gpus in prop::collection::vec(0_u32..9, 3)) {
        let of = mixed(variants.clone());
        let mut asks = need(&of, serve, serve);
        asks.decision.wanted.warm = 5;
        let decision = of.choose(&asks, &seen(&vec![0; variants.len()]), &gpus);
        for (at, pool) in pools(&variants).into_iter().enumerate() {
            let each = variants.iter().zip(&decision.wanted).filter(|(one, _)| one.pool == pool);
            let held: u32 = each.map(|(one, of)| (of.wanted.replicas + of.wanted.warm) * one.gpus).sum();
            prop_assert!(held <= gpus[at]);
        }
    }
}
