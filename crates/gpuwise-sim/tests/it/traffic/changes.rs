//! What is done to traffic.

use super::{line, near, rate, time};
use gpuwise_domain::{
    client::GapLaw,
    request::{Request, Segment},
};
use gpuwise_sim::traffic::{
    Alongside, Arrivals, Change, Contents, Extent, Generator, Label, Lengths, Merged, Pacing,
    Pattern, Recorded, Repeated, Resampled, Source, Spliced, Summary,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn request(milliseconds: u64, input: u32, output: u32) -> Request {
    Request {
        due: Nanoseconds(milliseconds * 1_000_000),
        input,
        output,
        ..Request::default()
    }
}

fn shared(milliseconds: u64, content: u64, session: u32) -> Request {
    Request {
        prefix: Some(Box::new([Segment {
            content,
            tokens: 40,
        }])),
        session: Some(session),
        ..request(milliseconds, 100, 10)
    }
}

fn three() -> Recorded {
    Recorded::new(vec![
        request(0, 100, 10),
        request(500, 7, 1),
        shared(2000, 3, 4),
    ])
}

#[test]
fn what_comes_beside_another_lasts_as_long() {
    let every = |milliseconds: u64, count: u64, input: u32| {
        let all = (0..count).map(|n| request(n * milliseconds, input, 1));
        Recorded::new(all.collect()).boxed()
    };
    let both: Vec<Request> = Alongside::new(every(100, 5, 1), every(30, 1_000, 2)).collect();
    assert!(both.is_sorted_by_key(|one| one.due));
    let of = |input: u32| both.iter().filter(|one| one.input == input).count();
    assert_eq!((of(1), of(2)), (5, 14));
    assert_eq!(both.last().map(|one| one.input), Some(1));
    // One that ends sooner leaves the first alone.
    let short = Alongside::new(every(100, 5, 1), every(30, 2, 2));
    assert_eq!(short.count(), 7);
}

#[test]
fn bursts_move_times_and_nothing_else() {
    let even: Vec<Request> = (0..4_000)
        .map(|n| request(100 * n, 10 + n as u32 % 7, 1 + n as u32 % 5))
        .collect();
    let burst = |seed| {
        let change = Change::Bursts {
            variation: 8.0,
            seed,
        };
        let made = Recorded::new(even.clone()).changed(change);
        made.expect("a sound change").collect::<Vec<_>>()
    };
    let moved = burst(3);
    assert_eq!(moved, burst(3));
    assert_ne!(moved, burst(4));
    assert!(moved.is_sorted_by_key(|request| request.due));
    let lengths =
        |list: &[Request]| -> Vec<_> { list.iter().map(|one| (one.input, one.output)).collect() };
    assert_eq!(lengths(&moved), lengths(&even));
    let gaps = &super::gaps(&moved)[1..];
    near(super::mean(gaps), 0.1, 0.2);
    near(super::variation(gaps), 8.0, 0.35);
}

#[test]
fn the_last_of_each_session_closes_it() {
    let trace = Recorded::new(vec![
        shared(0, 1, 4),
        request(5, 1, 1),
        shared(10, 1, 9),
        shared(20, 1, 4),
        shared(30, 1, 4),
    ]);
    let closing: Vec<u64> = trace
        .filter(|one| one.closes)
        .map(|one| one.due.0 / 1_000_000)
        .collect();
    assert_eq!(closing, [10, 30]);
}

#[track_caller]
fn check(change: Change, expect: &str) {
    let got = three().changed(change).expect("a sound change");
    assert_eq!(line(got), expect);
}

#[test]
fn one_change_at_a_time() {
    check(Change::Faster(2.0), "0:100/10 250:7/1 1000:100/10+3x40s4");
    check(Change::Faster(0.5), "0:100/10 1000:7/1 4000:100/10+3x40s4");
    check(Change::First(2), "0:100/10 500:7/1");
    check(Change::First(0), "");
    let window = |from: u64, to: u64| Change::Window {
        from: Nanoseconds(from * 1_000_000),
        to: Nanoseconds(to * 1_000_000),
    };
    check(window(500, 2000), "0:7/1");
    check(window(1, 2001), "499:7/1 1999:100/10+3x40s4");
    check(window(3000, 4000), "");
    let stretch = |input: f64, output: f64| Change::Stretch { input, output };
    check(stretch(2.0, 3.0), "0:200/30 500:14/3 2000:200/30+3x40s4");
    check(stretch(0.3, 0.01), "0:30/1 500:2/1 2000:30/1+3x30s4");
    let longest = Change::Longest {
        input: 20,
        output: 5,
    };
    check(longest, "0:20/5 500:7/1 2000:20/5+3x20s4");
    check(Change::Unshared, "0:100/10 500:7/1 2000:100/10s4");
    // The rate doubles every second: 2 s of requests are due after log2(1 + 2 ln 2) s.
    let growth = Change::Growth {
        by: 1.0,
        every: time(1.0),
    };
    check(growth, "0:100/10 429.293075:7/1 1254.772018:100/10+3x40s4");
    let standing = Change::Growth {
        by: 0.0,
        every: time(1.0),
    };
    check(standing, "0:100/10 500:7/1 2000:100/10+3x40s4");
    // Halving every second, a rate of 1 sends 1/ln 2 more than what is sent at once, and no more.
    let decline = Change::Growth {
        by: -0.5,
        every: time(1.0),
    };
    check(decline, "0:100/10 613.903329:7/1");
    check(
        Change::Thin { keep: 1.0, seed: 1 },
        "0:100/10 500:7/1 2000:100/10+3x40s4",
    );
    check(Change::Thin { keep: 0.0, seed: 1 }, "");
    let label = Label {
        tenant: 2,
        priority: -1,
        adapter: 3,
    };
    let all = Change::Labels {
        shares: vec![(1.0, label)],
        seed: 1,
    };
    check(
        all,
        "0:100/10t2p-1a3 500:7/1t2p-1a3 2000:100/10+3x40s4t2p-1a3",
    );
}

#[test]
fn changes_that_cannot_be_are_named() {
    for (change, expect) in [
        (Change::Faster(0.0), "the speed-up is 0"),
        (Change::Faster(f64::NAN), "the speed-up is NaN"),
        (
            Change::Thin { keep: 1.1, seed: 1 },
            "the share to keep is 1.1",
        ),
        (
            Change::Stretch {
                input: -1.0,
                output: 1.0,
            },
            "the factor of prompts is -1",
        ),
        (
            Change::Growth {
                by: -1.0,
                every: time(1.0),
            },
            "the growth is -1",
        ),
        (
            Change::Growth {
                by: 1.0,
                every: time(0.0),
            },
            "the period of growth is 0",
        ),
        (
            Change::Labels {
                shares: Vec::new(),
                seed: 1,
            },
            "there are no shares",
        ),
        (
            Change::Paced(Pacing::InFlight(0)),
            "the number of concurrent requests is 0",
        ),
    ] {
        let error = three().changed(change).expect_err("it cannot be");
        assert!(error.to_string().contains(expect), "{error}");
    }
}

#[test]
fn how_many_are_to_come_is_known_where_it_can_be() {
    let left = |change: Change| three().changed(change).expect("a sound change").remaining();
    assert_eq!(left(Change::Faster(2.0)), Some(3));
    assert_eq!(left(Change::First(2)), Some(2));
    assert_eq!(left(Change::First(9)), Some(3));
    assert_eq!(left(Change::Thin { keep: 0.5, seed: 1 }), None);
    let paced = three()
        .changed(Change::Paced(Pacing::InFlight(2)))
        .expect("a sound change");
    assert_eq!(
        (paced.pacing(), three().pacing()),
        (Pacing::InFlight(2), Pacing::default())
    );
}

fn poisson(seed: u64, count: u64) -> Generator {
    let pattern = Pattern::open(Arrivals::poisson(rate(10.0)), Lengths::fixed(10, 10));
    Generator::new(&pattern, Extent::requests(count), seed).expect("a sound pattern")
}

#[test]
fn what_is_kept_at_one_share_is_kept_at_a_greater() {
    let kept = |keep: f64| -> BTreeSet<u64> {
        let thin = poisson(1, 20_000).changed(Change::Thin { keep, seed: 4 });
        thin.expect("a sound change")
            .map(|request| request.due.0)
            .collect()
    };
    let (some, more) = (kept(0.3), kept(0.6));
    near(some.len() as f64, 6_000.0, 0.03);
    near(more.len() as f64, 12_000.0, 0.03);
    assert!(some.is_subset(&more));
    // A session is kept or dropped as a whole.
    let talk: Vec<Request> = (0..300).map(|k| shared(k, 1, k as u32 % 30)).collect();
    let thin = Recorded::new(talk).changed(Change::Thin { keep: 0.5, seed: 4 });
    let mut counts = std::collections::BTreeMap::new();
    for request in thin.expect("a sound change") {
        *counts.entry(request.session).or_insert(0) += 1;
    }
    assert!((5..25).contains(&counts.len()) && counts.values().all(|count| *count == 10));
}

#[test]
fn labels_by_their_shares() {
    let label = |tenant: u16| Label {
        tenant,
        ..Label::default()
    };
    let change = Change::Labels {
        shares: vec![(3.0, label(1)), (0.0, label(2)), (1.0, label(3))],
        seed: 2,
    };
    let mut counts = [0.0; 4];
    for request in poisson(1, 20_000).changed(change).expect("a sound change") {
        counts[usize::from(request.tenant)] += 1.0;
    }
    near(counts[1], 15_000.0, 0.03);
    assert!(counts[0] + counts[2] < 0.5, "{counts:?}");
}

#[test]
fn clients_think() {
    let think = |law: GapLaw| {
        let mean = time(4.0);
        let change = Change::Think { mean, law, seed: 3 };
        let made = poisson(1, 20_000).changed(change).expect("a sound change");
        made.map(|request| request.think.seconds().get())
            .collect::<Vec<f64>>()
    };
    near(super::mean(&think(GapLaw::Exponential)), 4.0, 0.03);
    assert!(
        think(GapLaw::Constant)
            .iter()
            .all(|seconds| seconds.to_bits() == 4_f64.to_bits())
    );
}

#[test]
fn changes_say_what_they_do() {
    let said: Vec<String> = [
        Change::Faster(2.0),
        Change::Thin {
            keep: 0.25,
            seed: 1,
        },
        Change::Growth {
            by: 0.1,
            every: time(3600.0),
        },
        Change::First(12_000),
        Change::Window {
            from: time(60.0),
            to: time(120.0),
        },
        Change::Stretch {
            input: 4.0,
            output: 1.0,
        },
        Change::Unshared,
        Change::Paced(Pacing::InFlight(8)),
        Change::Paced(Pacing::Scheduled { cap: Some(9) }),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        said,
        [
            "replayed 2× as fast",
            "25 % kept",
            "growing by 10 % every 1 h",
            "first 12,000 requests",
            "from 60 s to 2 min",
            "prompts ×4, answers ×1",
            "nothing shared",
            "8 concurrent",
            "at most 9 concurrent",
        ]
    );
}

#[test]
fn growth_raises_the_rate_period_by_period() {
    let change = Change::Growth {
        by: 0.5,
        every: time(100.0),
    };
    let grown: Vec<Request> = poisson(1, 20_000)
        .changed(change)
        .expect("a sound change")
        .collect();
    let within = |from: f64, to: f64| {
        let inside = |request: &&Request| (time(from)..time(to)).contains(&request.due);
        grown.iter().filter(inside).count() as f64
    };
    let first = within(0.0, 100.0);
    // The mean of 10·1.5^(t/100) over the first period.
    near(first, 1_000.0 * 0.5 / 1.5_f64.ln(), 0.06);
    near(within(300.0, 400.0) / first, 1.5_f64.powi(3), 0.08);
}

#[test]
fn superposed_in_order() {
    let merged = Merged::new(vec![three().boxed(), three().boxed()]);
    assert_eq!(merged.remaining(), Some(6));
    let all: Vec<Request> = merged.collect();
    let due: Vec<u64> = all
        .iter()
        .map(|request| request.due.0 / 1_000_000)
        .collect();
    assert_eq!(due, [0, 0, 500, 500, 2000, 2000]);
    assert_eq!(all[4].session, Some(4));
    assert_ne!(all[5].session, Some(4), "sessions are told apart");
    assert_eq!(
        all[4].prefix, all[5].prefix,
        "contents are those that they are"
    );
    let apart = three().changed(Change::Apart(1)).expect("a sound change");
    let merged: Vec<Request> = Merged::new(vec![three().boxed(), apart.boxed()]).collect();
    assert_ne!(merged[4].prefix, merged[5].prefix);
    assert_eq!(Merged::new(Vec::new()).count(), 0);
}

#[test]
fn one_after_the_other() {
    let spliced = Spliced::new(
        vec![three().boxed(), three().boxed()],
        Nanoseconds(1_000_000),
    );
    assert_eq!(spliced.remaining(), Some(6));
    assert_eq!(
        line(spliced),
        "0:100/10 500:7/1 2000:100/10+3x40s4 2001:100/10 2501:7/1 4001:100/10+3x40s4"
    );
}

#[test]
fn again_at_the_same_rate() {
    let kept = Repeated::new(three(), 2, Contents::Kept);
    assert_eq!(kept.remaining(), Some(6));
    let all: Vec<Request> = kept.collect();
    let due: Vec<u64> = all
        .iter()
        .map(|request| request.due.0 / 1_000_000)
        .collect();
    assert_eq!(due, [0, 500, 2000, 3000, 3500, 5000]);
    assert_eq!(all[2].prefix, all[5].prefix);
    assert_ne!(all[2].session, all[5].session);
    let share = |contents: Contents| {
        let summary = Summary::of(Repeated::new(three(), 10, contents));
        summary.shared_tokens.expect("a prompt shares")
    };
    near(share(Contents::Kept), 9.0 * 40.0 / 2070.0, 1e-9);
    assert!(share(Contents::Distinct).abs() < 1e-12);
    assert_eq!(Repeated::new(three(), 0, Contents::Kept).count(), 0);
    let nothing = Recorded::new(Vec::new());
    assert_eq!(Repeated::new(nothing, u64::MAX, Contents::Kept).count(), 0);
    let once = Recorded::new(vec![request(0, 1, 1)]);
    assert_eq!(Repeated::new(once, 4, Contents::Kept).count(), 4);
}

#[test]
fn drawn_anew_by_windows() {
    let trace = Recorded::new(poisson(3, 10_000).collect());
    let before = Summary::of(trace.clone());
    let draw = |seed: u64| Resampled::new(trace.clone(), time(20.0), seed).expect("a sound trace");
    let drawn: Vec<Request> = draw(1).collect();
    assert!(drawn.is_sorted_by_key(|request| request.due));
    near(drawn.len() as f64, 10_000.0, 0.03);
    near(
        drawn.last().expect("some").due.0 as f64,
        before.span.0 as f64,
        0.01,
    );
    assert_eq!(drawn, draw(1).collect::<Vec<_>>());
    assert_ne!(drawn, draw(2).collect::<Vec<_>>());
    assert!(Resampled::new(Recorded::new(Vec::new()), time(1.0), 1).is_err());
    assert!(Resampled::new(trace.clone(), Nanoseconds(0), 1).is_err());
    let whole = Resampled::new(three(), time(1_000.0), 1).expect("one window");
    assert_eq!(whole.count(), 3);
}

proptest! {
    #[test]
    fn every_change_keeps_the_order(
        dues in proptest::collection::vec(0_u64..100_000, 0..60),
        by in 0.01_f64..50.0,
        keep in 0.0_f64..1.0,
        from in 0_u64..100_000,
        tag in any::<u64>(),
    ) {
        let requests: Vec<Request> = dues.iter().map(|due| shared(*due, *due % 7, *due as u32 % 5)).collect();
        let mut source = Recorded::new(requests).boxed();
        for change in [
            Change::Faster(by),
            Change::Growth { by: keep - 0.5, every: time(3.0) },
            Change::Thin { keep, seed: tag },
            Change::Stretch { input: by, output: keep + 0.001 },
            Change::Apart(tag),
            Change::Window { from: Nanoseconds(from * 1_000), to: Nanoseconds(u64::MAX) },
            Change::First(from % 50),
        ] {
            source = source.changed(change).expect("a sound change").boxed();
        }
        let all: Vec<Request> = source.collect();
        prop_assert!(all.is_sorted_by_key(|request| request.due));
        prop_assert!(all.len() as u64 <= from % 50 && all.len() <= dues.len());
        for request in &all {
            prop_assert!(request.input >= 1 && request.output >= 1);
            prop_assert!(request.covered() <= u64::from(request.input));
        }
    }
}
