//! Rules and what is seen at the ends of what numbers can be: a controller answers, and never panics.

use gpuwise_scale::{
    controller::{
        Controller, Gpuwise, Observed, RequestTokens, Rules, TokensSeen,
        variants::{MixController, MixRules, MixSeen, Mixed, VariantSeen},
    },
    variant::{Price, Spot, Variant},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

fn times() -> impl Strategy<Value = Nanoseconds> {
    let ends = [
        0,
        1,
        SECOND,
        15 * SECOND,
        3_000 * DAY,
        u64::MAX / 3,
        u64::MAX - 1,
        u64::MAX,
    ];
    prop_oneof![prop::sample::select(ends.to_vec()), any::<u64>()].prop_map(Nanoseconds)
}

fn counts() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 7, 4_000_000_000, u32::MAX]),
        any::<u32>()
    ]
}

fn numbers() -> impl Strategy<Value = f64> {
    let ends = [
        0.0,
        f64::MIN_POSITIVE,
        0.99,
        1.0,
        60.0,
        1e9,
        1e18,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        -1.0,
    ];
    prop::sample::select(ends.to_vec())
}

fn rules() -> impl Strategy<Value = Rules> {
    let times = (times(), times(), times(), times(), times());
    let numbers = (numbers(), numbers(), prop::option::of(numbers()));
    let tokens = prop::option::of((self::numbers(), self::numbers()));
    (times, numbers, counts(), counts(), tokens).prop_map(
        |((period, wait, start, wake, idle), (rate, objective, warm_cost), min, max, tokens)| {
            Rules {
                period,
                rate,
                objective,
                wait,
                start,
                wake,
                warm_cost,
                min,
                max,
                idle,
                tokens: tokens.map(|(prompt, answer)| RequestTokens { prompt, answer }),
            }
        },
    )
}

fn seen() -> impl Strategy<Value = Observed> {
    let replicas = (counts(), counts(), counts(), counts());
    let work = (
        prop::option::of(numbers()),
        numbers(),
        numbers(),
        numbers(),
        numbers(),
    );
    let rest = (
        prop::option::of(times()),
        prop::option::of((numbers(), numbers())),
        prop::option::of(numbers()),
    );
    (times(), replicas, work, rest).prop_map(
        |(
            now,
            (ready, starting, warm, warming),
            (arrived, queued, running, requests, late),
            rest,
        )| {
            let (started, tokens, cache) = rest;
            Observed {
                now,
                arrived,
                queued,
                running,
                ready,
                starting,
                warm,
                warming,
                requests,
                late,
                started,
                tokens: tokens.map(|(prompts, answers)| TokensSeen { prompts, answers }),
                cache,
            }
        },
    )
}

fn variants() -> impl Strategy<Value = Vec<(Variant, VariantSeen)>> {
    let one = (
        counts(),
        (1.0..1e9_f64, 0.0..1e6_f64),
        (times(), times()),
        prop::option::of(0.0..1.0_f64),
        prop::option::of((times(), 0.0..1.0_f64)),
        prop::collection::vec(counts(), 6),
        prop::collection::vec(times(), 0..3),
    );
    let one = one.prop_map(
        |(gpus, (rate, per_hour), (start, wake), warm_cost, spot, counts, frees)| {
            let variant = Variant {
                name: "a".into(),
                pool: if spot.is_some() { "spot" } else { "own" }.into(),
                gpus,
                rate,
                service: 1.0,
                prices: vec![Price {
                    from: Nanoseconds(0),
                    per_hour,
                }],
                start,
                wake,
                warm_cost,
                spot: spot.map(|(notice, share)| Spot {
                    notice,
                    share,
                    a_day: 1.0,
                    outage: notice,
                }),
            };
            let seen = VariantSeen {
                ready: counts[0],
                waking: counts[1],
                starting: counts[2],
                warm: counts[3],
                warming: counts[4],
                leaving: counts[5],
                started: frees.first().copied(),
                frees,
                outage: false,
            };
            (variant, seen)
        },
    );
    prop::collection::vec(one, 1..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// What a log already has is replayed, whatever its rules say.
    #[test]
    fn no_rule_and_nothing_that_is_seen_makes_a_controller_panic(
        rules in rules(),
        then in self::rules(),
        seen in prop::collection::vec(seen(), 1..12),
    ) {
        let mut ours = Gpuwise::new(rules);
        for one in &seen {
            ours.decide(one);
        }
        let mut ours = ours.under(then);
        for one in &seen {
            ours.decide(one);
        }
    }

    #[test]
    fn no_mix_makes_a_controller_panic(
        rules in rules(),
        seen in prop::collection::vec(seen(), 1..4),
        variants in variants(),
        gpus in prop::collection::vec(counts(), 0..3),
    ) {
        let (of, there): (Vec<_>, Vec<_>) = variants.into_iter().unzip();
        let mut mixed = Mixed::new(MixRules::new(rules, of));
        for one in seen {
            let seen = MixSeen {
                now: one.now,
                arrived: one.arrived,
                queued: one.queued,
                running: one.running,
                requests: one.requests,
                late: one.late,
                tokens: one.tokens,
                cache: one.cache,
                variants: there.clone(),
            };
            let need = mixed.need(&seen);
            let decided = mixed.choose(&need, &seen, &gpus);
            // Sums of what is wanted.
            let _ = (decided.replicas(), decided.warm());
        }
    }
}

/// A start of 3,000 days ended the broker, and each start of it after that.
#[test]
fn a_start_of_years_is_decided_by() {
    let rules = Rules {
        start: Nanoseconds(u64::MAX - DAY),
        ..Rules::default()
    };
    let mut ours = Gpuwise::new(rules);
    for second in 0..3_u64 {
        ours.decide(&Observed {
            now: Nanoseconds(u64::MAX / 4 * (second + 1)),
            arrived: Some(30.0),
            starting: 1,
            ..Observed::default()
        });
    }
}

/// What makes rules wrong.
type Change = fn(&mut Rules);

#[test]
fn what_is_beyond_its_bounds_is_named() {
    let of = |change: fn(&mut Rules)| {
        let mut rules = Rules {
            max: 5,
            ..Rules::default()
        };
        change(&mut rules);
        rules
            .problem()
            .map(|problem| (problem.field, problem.to_string()))
    };
    assert_eq!(of(|_| {}), None);
    let cases: [(&str, Change, &str); 9] = [
        (
            "period",
            |one| one.period = Nanoseconds(1),
            "expected 1 s to 1 d",
        ),
        (
            "period",
            |one| one.period = Nanoseconds(2 * DAY),
            "expected 1 s to 1 d",
        ),
        (
            "start",
            |one| one.start = Nanoseconds(3_000 * DAY),
            "expected 0 s to 1 d",
        ),
        (
            "wake",
            |one| one.wake = Nanoseconds(2 * DAY),
            "expected 0 s to 1 d",
        ),
        (
            "wait",
            |one| one.wait = Nanoseconds(2 * DAY),
            "expected 0 s to 1 d",
        ),
        (
            "idle",
            |one| one.idle = Nanoseconds(400 * DAY),
            "expected 0 s to 366 d",
        ),
        ("rate", |one| one.rate = 1e18, "1000000000 at most"),
        (
            "min",
            |one| (one.min, one.max) = (4_000_000_000, u32::MAX),
            "0 to 10000",
        ),
        ("max", |one| one.max = u32::MAX, "1 to 10000"),
    ];
    for (field, change, expected) in cases {
        let (found, what) = of(change).expect(field);
        assert_eq!(found, field);
        assert!(what.contains(expected), "{field}: {what}");
    }
}
