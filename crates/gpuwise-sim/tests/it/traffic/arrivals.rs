//! When requests come.

use super::{gaps, mean, near, rate, time, variation};
use gpuwise_domain::{client::GapLaw, request::Request};
use gpuwise_sim::traffic::{
    Arrivals, Extent, Generator, Lengths, Pacing, Pattern, Rate, Shape, Source as _, Stage, State,
    TrafficError,
};
use gpuwise_units::Nanoseconds;

fn made(arrivals: Arrivals, extent: Extent, seed: u64) -> Vec<Request> {
    let pattern = Pattern::open(arrivals, Lengths::fixed(10, 10));
    let made: Vec<Request> = Generator::new(&pattern, extent, seed)
        .expect("a sound pattern")
        .collect();
    assert!(made.is_sorted_by_key(|request| request.due));
    made
}

fn with(gaps: GapLaw, rate: Rate) -> Arrivals {
    Arrivals {
        gaps,
        rate,
        exact: false,
    }
}

fn stage(per_second: f64, seconds: f64) -> Stage {
    Stage {
        rate: rate(per_second),
        duration: time(seconds),
    }
}

#[test]
fn rate_and_burstiness_are_as_asked() {
    for (arrivals, expect) in [
        (Arrivals::poisson(rate(8.0)), 1.0),
        (Arrivals::constant(rate(8.0)), 0.0),
        (Arrivals::gamma(rate(8.0), 0.0), 0.0),
        (Arrivals::gamma(rate(8.0), 0.5), 0.5),
        (Arrivals::gamma(rate(8.0), 4.0), 4.0),
    ] {
        let gaps = gaps(&made(arrivals, Extent::requests(50_000), 1));
        near(mean(&gaps), 0.125, 0.03);
        assert!((variation(&gaps) - expect).abs() <= 0.06 * expect + 1e-9);
    }
    // In a given time as many come as the rate says, however bursty they are.
    let mut counts = Vec::new();
    for seed in 0..400 {
        let bursty = Arrivals::gamma(rate(2.0), 16.0);
        counts.push(made(bursty, Extent::lasting(time(20.0)), seed).len() as f64);
    }
    near(mean(&counts), 40.0, 0.1);
}

#[test]
fn equal_gaps_are_exact() {
    let made = made(Arrivals::constant(rate(8.0)), Extent::lasting(time(1.0)), 1);
    let due: Vec<u64> = made.iter().map(|request| request.due.0).collect();
    let expect: Vec<u64> = (1..8).map(|number| number * 125_000_000).collect();
    assert_eq!(due, expect);
}

#[test]
fn stages_send_what_they_say() {
    let stages = || Rate::Stages(vec![stage(5.0, 60.0), stage(0.0, 10.0), stage(10.0, 30.0)]);
    for gaps in [GapLaw::Exponential, GapLaw::Constant] {
        let arrivals = Arrivals {
            exact: true,
            ..with(gaps, stages())
        };
        let made = made(arrivals, Extent::default(), 7);
        let of = |stage: u16| made.iter().filter(move |request| request.stage == stage);
        assert_eq!((of(0).count(), of(1).count(), of(2).count()), (300, 0, 300));
        // The last of a stage ends it.
        let last = |stage: u16| of(stage).next_back().map(|request| request.due.0);
        assert!(last(0).is_some_and(|due| due.abs_diff(60_000_000_000) < 10));
        assert!(last(2).is_some_and(|due| due.abs_diff(100_000_000_000) < 10));
    }
    let about = made(with(GapLaw::Exponential, stages()), Extent::default(), 7);
    assert!((500..700).contains(&about.len()) && about.len() != 600);
    assert!(about.iter().all(|request| {
        let second = request.due.0 / 1_000_000_000;
        request.stage == if second < 60 { 0 } else { 2 }
    }));
}

#[test]
fn ramps_follow_their_curve() {
    for (shape, first_half) in [
        // Of 2 a second rising to 10 over 1000 s, the first half sees 2 to 6.
        (Shape::Linear, 2_000.0),
        // It sees 2 to √20: (√20 - 2) / ln 5 · 1000.
        (
            Shape::Exponential,
            (20_f64.sqrt() - 2.0) / 5_f64.ln() * 1_000.0,
        ),
    ] {
        let ramp = Rate::Ramp {
            from: rate(2.0),
            to: rate(10.0),
            over: time(1_000.0),
            shape,
        };
        let smooth = made(
            with(GapLaw::Constant, ramp.clone()),
            Extent::lasting(time(2_000.0)),
            1,
        );
        let until = |seconds: u64| {
            let end = Nanoseconds(seconds * 1_000_000_000);
            smooth.iter().filter(|request| request.due <= end).count() as f64
        };
        assert!((until(500) - first_half).abs() <= 1.0, "{}", until(500));
        assert!((until(1_200) - until(1_000) - 2_000.0).abs() <= 1.0);
        let random = made(
            with(GapLaw::Exponential, ramp),
            Extent::lasting(time(500.0)),
            2,
        );
        near(random.len() as f64, first_half, 0.06);
    }
    let down = Rate::Ramp {
        from: rate(10.0),
        to: rate(0.0),
        over: time(10.0),
        shape: Shape::Linear,
    };
    let all = made(with(GapLaw::Constant, down), Extent::requests(1_000), 1);
    assert!((49..=50).contains(&all.len()), "{}", all.len());
}

#[test]
fn rates_by_the_hour_come_again() {
    let cycle = Rate::Cycle(vec![stage(1.0, 100.0), stage(9.0, 100.0)]);
    let all = made(
        with(GapLaw::Constant, cycle),
        Extent::lasting(time(1_000.0)),
        1,
    );
    assert!((4_998..=5_000).contains(&all.len()));
    let busy = all.iter().filter(|request| request.stage == 1).count();
    assert!((4_490..=4_510).contains(&busy));
}

#[test]
fn states_change_the_rate_at_random() {
    let states = |dwell: [f64; 3]| {
        Rate::Modulated(
            [1.0, 10.0, 40.0]
                .iter()
                .zip(dwell)
                .map(|(per_second, dwell)| State {
                    rate: rate(*per_second),
                    dwell: time(dwell),
                })
                .collect(),
        )
    };
    let arrivals = with(GapLaw::Exponential, states([30.0, 10.0, 5.0]));
    near(arrivals.mean_rate().get(), 330.0 / 45.0, 1e-12);
    let long = made(arrivals.clone(), Extent::lasting(time(100_000.0)), 4);
    near(long.len() as f64 / 1e5, 330.0 / 45.0, 0.06);
    assert!(variation(&gaps(&long)) > 3.0);
    // The first state is drawn by how long each lasts.
    let first: Vec<f64> = (0..2_000)
        .map(|seed| {
            let one = made(arrivals.clone(), Extent::requests(1), seed);
            f64::from(u8::from(one[0].stage == 0))
        })
        .collect();
    // A slow state that ends before a request came shows the next one.
    assert!((0.55..0.70).contains(&mean(&first)), "{}", mean(&first));
}

#[test]
fn other_lengths_move_no_arrival() {
    let of = |lengths: Lengths| {
        let pattern = Pattern::open(Arrivals::gamma(rate(3.0), 2.0), lengths);
        let made = Generator::new(&pattern, Extent::requests(500), 9).expect("a sound pattern");
        made.map(|request| request.due).collect::<Vec<_>>()
    };
    let pairs = Lengths::Pairs([(1, 2), (30, 4)].into());
    assert_eq!(of(Lengths::fixed(5, 5)), of(pairs));
}

#[track_caller]
fn check_refused(arrivals: Arrivals, expect: &str) {
    let pattern = Pattern::open(arrivals, Lengths::fixed(1, 1));
    let error = Generator::new(&pattern, Extent::requests(1), 1).expect_err("it cannot be");
    assert!(error.to_string().contains(expect), "{error}");
}

#[test]
fn what_cannot_be_is_named() {
    check_refused(Arrivals::poisson(rate(0.0)), "every rate is 0");
    check_refused(
        Arrivals::poisson(rate(-1.0)),
        "a rate is -1; expected requests a second",
    );
    check_refused(Arrivals::poisson(rate(f64::NAN)), "a rate is NaN");
    check_refused(Arrivals::poisson(rate(f64::INFINITY)), "a rate is inf");
    check_refused(
        Arrivals::gamma(rate(1.0), 1e9),
        "the shape of the gamma law",
    );
    check_refused(
        with(GapLaw::Exponential, Rate::Stages(Vec::new())),
        "every rate is 0",
    );
    check_refused(
        with(GapLaw::Exponential, Rate::Stages(vec![stage(1.0, 0.0)])),
        "the duration of a stage is 0",
    );
    check_refused(
        with(
            GapLaw::Exponential,
            Rate::Ramp {
                from: rate(0.0),
                to: rate(1.0),
                over: time(1.0),
                shape: Shape::Exponential,
            },
        ),
        "an end of the ramp is 0; expected more than 0",
    );
    let idle = Pattern {
        arrivals: None,
        in_flight: Some(0),
        lengths: Lengths::fixed(1, 1),
        prefix: None,
    };
    assert!(Generator::new(&idle, Extent::requests(1), 1).is_err());
    let empty = Pattern::open(Arrivals::poisson(rate(1.0)), Lengths::Pairs([].into()));
    assert_eq!(
        Generator::new(&empty, Extent::requests(1), 1).err(),
        Some(TrafficError::Nothing("lengths to draw from"))
    );
}

#[test]
fn a_closed_loop_has_a_pace_and_no_times() {
    let pattern = Pattern::closed(16, Lengths::fixed(100, 10));
    let mut made = Generator::new(&pattern, Extent::requests(3), 1).expect("a sound pattern");
    assert_eq!(
        (made.pacing(), made.remaining()),
        (Pacing::InFlight(16), Some(3))
    );
    assert!(made.all(|request| request.due.0 == 0));
    let capped = Pattern {
        in_flight: Some(4),
        ..Pattern::open(Arrivals::poisson(rate(1.0)), Lengths::fixed(1, 1))
    };
    let made = Generator::new(&capped, Extent::requests(3), 1).expect("a sound pattern");
    assert_eq!(made.pacing(), Pacing::Scheduled { cap: Some(4) });
}
