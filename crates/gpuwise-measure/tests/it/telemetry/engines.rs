//! Findings of serving engines.

use super::{classes, found, serving};
use gpuwise_domain::telemetry::{ServingSample, Telemetry};
use gpuwise_measure::telemetry::State;

fn sample(replica: &str, at: f64) -> ServingSample {
    ServingSample {
        engine: "vllm".into(),
        model: Some("m".into()),
        replica: replica.into(),
        at: Some(at),
        ..ServingSample::default()
    }
}

/// Six samples in a minute of one replica, each made by its number from 0 to 1.
fn run(make: impl Fn(f64, &mut ServingSample)) -> State {
    let mut state = State::new(300.0);
    for step in 0..6 {
        let part = f64::from(step) / 5.0;
        let mut one = sample("a", 1000.0 + 60.0 * part);
        make(part, &mut one);
        serving(&mut state, &[one]);
    }
    state
}

fn check(make: impl Fn(f64, &mut ServingSample), expected: &[&str]) {
    assert_eq!(classes(&found(&run(make))), expected);
}

#[test]
fn queues() {
    check(|_, one| one.waiting = Some(5.0), &["queueing"]);
    check(|_, one| one.waiting = Some(0.0), &[]);
    // One burst in the minute.
    check(
        |part, one| one.waiting = Some(if part == 1.0 { 30.0 } else { 0.0 }),
        &[],
    );
    // 100 requests waited 80 s together, then 10 s.
    check(
        |part, one| one.queued = Some((80.0 * part, 100.0 * part)),
        &["queueing"],
    );
    check(
        |part, one| one.queued = Some((10.0 * part, 100.0 * part)),
        &[],
    );
    let full = |share: f64| {
        let state = run(move |_, one| {
            one.waiting = Some(5.0);
            one.cache_use = Some(share);
        });
        found(&state)[0].advice[0].clone()
    };
    assert!(full(0.97).contains("cache is full") && full(0.4).contains("cache has room"));
}

#[test]
fn preemptions_over_requests_that_ended() {
    let lost = |count: f64| {
        move |part: f64, one: &mut ServingSample| {
            one.preempted = Some(count * part);
            one.finished = Some(500.0 + 100.0 * part);
        }
    };
    check(lost(20.0), &["preemption"]);
    check(lost(0.0), &[]);
    check(|part, one| one.preempted = Some(20.0 * part), &[]);
}

#[test]
fn a_prefix_cache_that_finds_less_while_it_gives_up() {
    // Found: all of the first half's tokens, none of the second's.
    let falling = |part: f64, one: &mut ServingSample| {
        one.prefix_queries = Some(1000.0 * part);
        one.prefix_hits = Some(1000.0 * part.min(0.4));
    };
    check(falling, &[]);
    check(
        |part, one| {
            falling(part, one);
            one.evicted = Some(10.0 * part);
        },
        &["cache_thrash"],
    );
    check(
        |part, one| {
            falling(part, one);
            one.cache_use = Some(0.99);
        },
        &["cache_thrash"],
    );
    check(
        |part, one| {
            one.prefix_queries = Some(1000.0 * part);
            one.prefix_hits = Some(400.0 * part);
            one.evicted = Some(10.0 * part);
        },
        &[],
    );
}

#[test]
fn slots_computed_for_nothing() {
    check(|_, one| one.padding = Some((3.0, 8.0)), &["padding"]);
    check(|_, one| one.padding = Some((1.0, 8.0)), &[]);
}

#[test]
fn replicas_with_unequal_loads() {
    let of = |loads: [f64; 3]| {
        let mut state = State::new(300.0);
        for step in 0..6 {
            let samples: Vec<_> = ["a", "b", "c"]
                .iter()
                .zip(loads)
                .map(|(name, load)| ServingSample {
                    running: Some(load),
                    ..sample(name, 1000.0 + f64::from(step))
                })
                .collect();
            serving(&mut state, &samples);
        }
        classes(&found(&state)).join(" ")
    };
    assert_eq!(of([30.0, 8.0, 7.0]), "uneven_replicas");
    assert_eq!(of([10.0, 8.0, 9.0]), "");
    assert_eq!(of([2.0, 0.0, 0.0]), "", "too few requests to tell");
}

#[test]
fn a_replica_that_went_is_forgotten_and_holds_no_finding() {
    let mut state = State::new(300.0);
    // The full one goes, the idle one stays; a look every 30 s.
    for look in 0..40 {
        let now = 1000.0 + 30.0 * f64::from(look);
        let mut said = Telemetry::default();
        let mut speak = |replica: &str, running: f64| {
            let mut one = sample(replica, now);
            one.running = Some(running);
            said.serving.push(one);
        };
        speak("stays", 4.0);
        if look < 20 {
            speak("goes", 40.0);
        }
        state.take(&said, now);
        state.forget(now);
        let gone = look > 29;
        let found = found(&state);
        let classes = classes(&found);
        assert_eq!(classes.is_empty(), gone || look < 2, "{look}: {classes:?}");
        assert_eq!(state.replicas().count(), if gone { 1 } else { 2 }, "{look}");
    }
}
