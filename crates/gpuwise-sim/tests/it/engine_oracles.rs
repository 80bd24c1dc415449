//! The engine against queues whose answers are known, and against laws that hold for all of them.

use crate::engine_naive::{serve, settings};
use gpuwise_domain::request::Request;
use gpuwise_sim::{
    cost::{Linear, StepCost},
    engine::{Done, Policy, Replica, Settings, Sink, StepRun, VllmRules},
};
use gpuwise_units::RandomStream;

const SECOND: f64 = 1e12;

fn exponential(stream: &mut RandomStream, mean: f64) -> f64 {
    -libm::log(1.0 - stream.uniform()) * mean
}

/// Poisson arrivals of requests whose answers have the lengths that `output` draws.
fn traffic(
    count: u64,
    rate: f64,
    output: impl Fn(&mut RandomStream) -> u32,
) -> impl Iterator<Item = (u64, Request)> {
    let mut gaps = RandomStream::new(11, "gaps", 0);
    let mut lengths = RandomStream::new(11, "lengths", 0);
    let mut time = 0.0;
    let next = move || {
        time += exponential(&mut gaps, SECOND / rate);
        let request = Request {
            input: 1,
            output: output(&mut lengths),
            ..Request::default()
        };
        (time as u64, request)
    };
    core::iter::repeat_with(next).take(count as usize)
}

/// Steps that all take ten microseconds.
const STEADY: Linear = Linear {
    step: 10_000_000,
    sequence: 0,
    token: 0,
    context: 0,
};

fn slots(count: u32) -> Settings {
    let mut slots = Settings {
        max_sequences: count,
        max_batched_tokens: 8192,
        max_context: 1 << 20,
        ..settings(Policy::Vllm(VllmRules::default()))
    };
    slots.cache.blocks = 1 << 24;
    slots
}

fn mean(done: &[Done], of: impl Fn(&Done) -> u64) -> f64 {
    done.iter().map(|done| of(done) as f64).sum::<f64>() / done.len() as f64
}

fn wait(done: &Done) -> u64 {
    done.scheduled.expect("it ran") - done.submitted
}

/// Mean waiting time of requests in seconds.
fn mean_wait(settings: &Settings, arrivals: impl Iterator<Item = (u64, Request)>) -> f64 {
    #[derive(Default)]
    struct Waits(f64);
    impl Sink for Waits {
        fn ended(&mut self, done: Done) {
            self.0 += wait(&done) as f64;
        }
    }
    let mut replica = Replica::new(settings.clone(), STEADY).expect("good settings");
    let mut waits = Waits::default();
    let mut count = 0;
    for (time, request) in arrivals {
        replica.advance(time, &mut waits);
        assert!(replica.submit(time, count, request).is_ok());
        count += 1;
    }
    replica.advance(u64::MAX, &mut waits);
    waits.0 / count as f64 / SECOND
}

#[track_caller]
fn near(got: f64, expected: f64, share: f64) {
    let error = (got - expected).abs() / expected;
    assert!(
        error <= share,
        "{got} is not {expected}: {:.2} %",
        error * 100.0
    );
}

#[test]
fn one_slot_and_equal_answers_are_m_d_1() {
    for load in [0.3, 0.5, 0.8] {
        let arrivals = traffic(400_000, load / 1e-3, |_| 100);
        let expected = load / (2.0 * (1.0 - load)) * 1e-3;
        near(mean_wait(&slots(1), arrivals), expected, 0.01);
    }
}

#[test]
fn one_slot_and_exponential_answers_are_m_m_1() {
    // 2,000 steps on average, so that whole steps are near the exponential law.
    for load in [0.3, 0.5] {
        let service = 2000.0 * 1e-5;
        let arrivals = traffic(700_000, load / service, |lengths| {
            exponential(lengths, 2000.0).ceil() as u32
        });
        let expected = load / (1.0 - load) * service;
        near(mean_wait(&slots(1), arrivals), expected, 0.01);
    }
}

/// The chance to wait with `slots` servers, by Erlang.
fn erlang_c(slots: u32, offered: f64) -> f64 {
    let mut blocked = 1.0;
    for server in 1..=slots {
        blocked = offered * blocked / (f64::from(server) + offered * blocked);
    }
    let load = offered / f64::from(slots);
    blocked / (1.0 - load * (1.0 - blocked))
}

#[test]
fn slots_that_do_not_slow_each_other_are_m_m_c() {
    let (count, load, service) = (4, 0.6, 0.02);
    let offered = load * f64::from(count);
    let arrivals = traffic(1_500_000, offered / service, |lengths| {
        exponential(lengths, 2000.0).ceil() as u32
    });
    // A request that finds a free slot waits for the step that runs: half a step if any runs.
    let step = 1e-5 / 2.0;
    let expected = erlang_c(count, offered) * service / (f64::from(count) - offered) + step;
    near(mean_wait(&slots(count), arrivals), expected, 0.01);
}

/// Serves `clients` that each send `rounds` requests, one after the answer to the other.
fn closed(settings: &Settings, cost: Linear, clients: u64, rounds: u64, request: &Request) -> f64 {
    #[derive(Default)]
    struct Recorder(Vec<Done>);
    impl Sink for Recorder {
        fn ended(&mut self, done: Done) {
            self.0.push(done);
        }
    }
    let mut replica = Replica::new(settings.clone(), cost).expect("good settings");
    let mut recorder = Recorder::default();
    for client in 0..clients {
        replica.submit(0, client, request.clone()).expect("it fits");
    }
    let (mut served, mut now) = (0, 0);
    while let Some(time) = replica.next_event(&mut recorder) {
        now = time;
        replica.advance(time, &mut recorder);
        for done in std::mem::take(&mut recorder.0) {
            served += 1;
            let number = done.number + clients;
            if number < clients * rounds {
                replica
                    .submit(now, number, request.clone())
                    .expect("it fits");
            }
        }
    }
    assert_eq!(served, clients * rounds);
    served as f64 / (now as f64 / SECOND)
}

#[test]
fn closed_loops_reach_their_limits() {
    let request = Request {
        input: 100,
        output: 50,
        ..Request::default()
    };
    let cost = Linear {
        step: 1_000_000_000,
        sequence: 100_000_000,
        token: 1_000_000,
        context: 0,
    };
    // One client: each request takes its prefill and 49 decode steps.
    let alone = 1e-3 + 100.0 * 1e-6 + 49.0 * (1e-3 + 1e-4);
    near(
        closed(&slots(64), cost, 1, 200, &request),
        1.0 / alone,
        1e-6,
    );
    // Eight clients whose requests end together.
    let eight = 1e-3 + 800.0 * 1e-6 + 49.0 * (1e-3 + 8e-4);
    near(
        closed(&slots(64), cost, 8, 200, &request),
        8.0 / eight,
        1e-6,
    );
    // Four slots for eight clients: four at a time.
    let four = 1e-3 + 400.0 * 1e-6 + 49.0 * (1e-3 + 4e-4);
    near(closed(&slots(4), cost, 8, 200, &request), 4.0 / four, 1e-6);
    // However many: no more than N/R(1), and no more than one per its own work.
    for clients in [2, 16, 200] {
        let rate = closed(&slots(256), cost, clients, 50, &request);
        let own = 100.0 * 1e-6 + 49.0 * 1e-4;
        assert!(rate <= clients as f64 / alone * 1.000_001 && rate <= 1.0 / own);
    }
}

#[test]
fn a_lone_request_takes_the_sum_of_its_steps() {
    let mut cost = Linear {
        step: 8_000_000_000,
        sequence: 20_000_000,
        token: 5_000_000,
        context: 20_000,
    };
    for overlap in [false, true] {
        let settings = Settings {
            overlap,
            ..slots(8)
        };
        let request = Request {
            input: 1024,
            output: 300,
            ..Request::default()
        };
        let (witness, _) = serve(&settings, cost, &[(7, request)]);
        let prompt = gpuwise_sim::cost::StepWork {
            prefill: 1024,
            prefill_context: 1024 * 1025 / 2,
            finished: 1,
            ..Default::default()
        };
        let first = 7 + cost.mixed(&prompt, 1024).get();
        let decodes: u64 = (1..300)
            .map(|step| cost.decode(1, 1024 + step, 1).at(1024 + step).get())
            .sum();
        assert_eq!(witness.done[0].first_token, Some(first));
        assert_eq!(witness.done[0].end, first + decodes);
        // All decode steps but the ends of the run are one event.
        assert!(witness.runs.len() <= 4, "{:?}", witness.runs);
    }
}

/// Time with so many requests, summed over all numbers.
#[derive(Default)]
struct Area {
    in_queue: f64,
    done: Vec<Done>,
    busy: u64,
    served: f64,
}

impl Sink for Area {
    fn steps(&mut self, run: &StepRun) {
        self.busy += run.duration();
        self.served += run.duration() as f64 * f64::from(run.decodes);
    }

    fn ended(&mut self, done: Done) {
        self.in_queue += wait(&done) as f64;
        self.done.push(done);
    }
}

#[test]
fn littles_law_holds_for_the_queue_and_for_the_batch() {
    // The number in the system, by counting arrivals and ends, against rate times latency.
    let arrivals: Vec<_> = traffic(20_000, 30.0, |lengths| 1 + lengths.below(60) as u32).collect();
    let cost = Linear {
        step: 5_000_000_000,
        sequence: 100_000_000,
        token: 1_000_000,
        context: 1_000,
    };
    let mut replica = Replica::new(slots(16), cost).expect("good settings");
    let (mut area, mut last, mut present) = (Area::default(), 0, 0.0);
    let mut queued = 0.0;
    let mut account = |replica: &Replica<Linear>, now: u64, last: &mut u64| {
        let load = replica.load(now);
        let span = (now - *last) as f64;
        present += span * f64::from(load.waiting + load.running);
        queued += span * f64::from(load.waiting);
        *last = now;
    };
    let mut coming = (0..).zip(&arrivals).peekable();
    loop {
        let turn = replica.next_event(&mut area);
        let arrival = coming.peek().map(|(_, own)| own.0);
        let Some(now) = turn.into_iter().chain(arrival).min() else {
            break;
        };
        account(&replica, now, &mut last);
        replica.advance(now, &mut area);
        while let Some((number, (_, request))) = coming.next_if(|(_, own)| own.0 == now) {
            replica
                .submit(now, number, request.clone())
                .expect("it fits");
        }
    }
    let total: f64 = area
        .done
        .iter()
        .map(|done| (done.end - done.submitted) as f64)
        .sum();
    near(present, total, 1e-9);
    near(queued, area.in_queue, 1e-9);
    let statistics = replica.statistics();
    assert_eq!(statistics.busy, area.busy);
    assert_eq!(area.done.len(), 20_000);
}

#[test]
fn mean_latency_rises_with_the_rate_and_falls_with_memory_and_slots() {
    let cost = Linear {
        step: 5_000_000_000,
        sequence: 50_000_000,
        token: 2_000_000,
        context: 2_000,
    };
    let at = |rate: f64, blocks: u64, sequences: u32| {
        let mut settings = Settings {
            max_sequences: sequences,
            ..slots(1)
        };
        settings.cache.blocks = blocks;
        settings.cache.caching = false;
        // The same draws, closer together.
        let mut arrivals: Vec<_> =
            traffic(3000, rate, |lengths| 20 + lengths.below(100) as u32).collect();
        for (_, request) in &mut arrivals {
            request.input = 400;
        }
        let (witness, _) = serve(&settings, cost, &arrivals);
        (
            mean(&witness.done, |done| done.end - done.submitted),
            witness.preempted,
        )
    };
    let rising = |values: &[f64]| assert!(values.is_sorted(), "{values:?}");
    rising(&[5.0, 15.0, 30.0, 45.0, 60.0].map(|rate| at(rate, 4000, 64).0));
    rising(&[1 << 20, 2000, 1000, 400].map(|blocks| at(30.0, blocks, 64).0));
    rising(&[256, 32, 16, 8, 4].map(|sequences| at(30.0, 1 << 20, sequences).0));
    // Memory above the peak demand of all slots: nobody ever loses its place.
    assert_eq!(at(60.0, 64 * 33, 64).1, 0);
    assert!(at(60.0, 400, 64).1 > 0);
}
