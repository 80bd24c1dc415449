//! What the load generator adds to what it measures.
//!
//! `cargo bench -p gpuwise-probe` starts a server of known timing as a process of its own, sends it
//! load, and compares each client stamp with the server's log of when that token was written, by the
//! clock that both share. The client adds the difference: the way through the kernel, and all that it
//! waits for itself.

#![allow(clippy::print_stdout, reason = "a bench shows what it measured")]

mod server;

use gpuwise_domain::request::{Outcome, Request};
use gpuwise_probe::bench::{
    Interface, Load, LoadEvent, Measured, Options, Pacing, Prepared, Stop, Target, Trust, prepare,
    run,
};
use gpuwise_units::Nanoseconds;
use server::{Timing, Written};
use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Read as _},
    ops::ControlFlow,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

struct Scene {
    name: &'static str,
    in_flight: u32,
    requests: u64,
    tokens: u32,
    timing: Timing,
}

const SCENES: [Scene; 2] = [
    Scene {
        name: "16 in flight, a token each 5 ms: 3,200 tokens/s",
        in_flight: 16,
        requests: 160,
        tokens: 100,
        timing: Timing {
            first: Duration::from_millis(20),
            gap: Duration::from_millis(5),
        },
    },
    Scene {
        name: "2,000 in flight, a token each 40 ms: 50,000 tokens/s",
        in_flight: 2000,
        requests: 4000,
        tokens: 200,
        timing: Timing {
            first: Duration::from_millis(200),
            gap: Duration::from_millis(40),
        },
    },
];

/// What one run shows. Times are milliseconds, errors shares.
struct Shown {
    delay: [f64; 3],
    ttft: f64,
    tpot: f64,
    inter_token: f64,
    inter_token_p99: f64,
    end_to_end: f64,
    client_delay: f64,
    tokens_per_second: f64,
    processor: f64,
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "--serve") {
        let number = |offset: usize| arguments[place + offset].parse().expect("a number");
        let timing = Timing {
            first: Duration::from_micros(number(1)),
            gap: Duration::from_micros(number(2)),
        };
        server::serve(timing).expect("the server runs");
        return;
    }
    // `cargo test --benches` only asks whether it runs.
    let quick = !arguments.iter().any(|argument| argument == "--bench");
    let runs = env::var("RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs: usize = runs.unwrap_or(if quick { 1 } else { 5 });
    for scene in &SCENES {
        if quick && scene.in_flight > 100 {
            continue;
        }
        println!("{}", scene.name);
        let shown: Vec<Shown> = (0..runs).map(|_| once(scene)).collect();
        for (number, one) in shown.iter().enumerate() {
            println!(
                "  run {}: delay p50 {:.3} p99 {:.3} p99.9 {:.3} ms; own error TTFT {:+.2} % TPOT {:+.3} % ITL {:+.3} % (p99 {:+.2} %) E2E {:+.3} %; sent late p99 {:.3} ms; {:.0} tokens/s; client {:.2} cores",
                number + 1,
                one.delay[0],
                one.delay[1],
                one.delay[2],
                one.ttft * 100.0,
                one.tpot * 100.0,
                one.inter_token * 100.0,
                one.inter_token_p99 * 100.0,
                one.end_to_end * 100.0,
                one.client_delay,
                one.tokens_per_second,
                one.processor,
            );
        }
        let of = |figure: fn(&Shown) -> f64| median(shown.iter().map(figure).collect());
        println!(
            "  median of {runs}: delay p50 {:.3} p99 {:.3} ms; own error TTFT {:+.2} % TPOT {:+.3} % ITL {:+.3} % (p99 {:+.2} %) E2E {:+.3} %; client {:.2} cores",
            of(|one| one.delay[0]),
            of(|one| one.delay[1]),
            of(|one| one.ttft) * 100.0,
            of(|one| one.tpot) * 100.0,
            of(|one| one.inter_token) * 100.0,
            of(|one| one.inter_token_p99) * 100.0,
            of(|one| one.end_to_end) * 100.0,
            of(|one| one.processor),
        );
    }
}

/// One run against a fresh server.
fn once(scene: &Scene) -> Shown {
    let micros = |duration: Duration| duration.as_micros().to_string();
    let mut server = Command::new(env::current_exe().expect("this program"))
        .args([
            "--serve",
            &micros(scene.timing.first),
            &micros(scene.timing.gap),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut out = BufReader::new(server.stdout.take().expect("its output"));
    let mut address = String::new();
    out.read_line(&mut address).expect("its address");
    let prepared = prepare(options(address.trim())).expect("the server answers");
    let before = processor_seconds();
    let (measured, ended) = load(scene, &prepared);
    let processor = (processor_seconds() - before) / ended.span.seconds().get();
    drop(server.stdin.take());
    let mut bytes = Vec::new();
    out.read_to_end(&mut bytes).expect("its log");
    server.wait().expect("the server ends");
    // The time zero of the run, by the clock that both share.
    let apart = Instant::now().duration_since(ended.clock).as_nanos() as u64;
    let zero = server::now() - apart + ended.start.0;
    compare(&measured, &server::log(&bytes), zero, processor)
}

fn options(address: &str) -> Options {
    Options {
        target: Target::parse(address).expect("an address"),
        interface: Some(Interface::Completions),
        model: None,
        key: None,
        trust: Trust::default(),
        stream: true,
        timeout: Duration::from_mins(2),
        patience: Duration::from_secs(10),
        retry_after: false,
        extra: serde_json::Map::new(),
        prompt_seed: 1,
        longest_input: 64,
    }
}

fn load(scene: &Scene, prepared: &Prepared) -> (Vec<Measured>, gpuwise_probe::bench::Ended) {
    let tokens = scene.tokens;
    let requests = (0..scene.requests).map(move |_| Request {
        input: 64,
        output: tokens,
        ..Request::default()
    });
    let load = Load {
        requests: Box::new(requests),
        pacing: Pacing::InFlight(scene.in_flight),
        until: None,
        first_number: 0,
        connections: scene.in_flight as usize,
        threads: 1,
    };
    let mut measured = Vec::new();
    let ended = run(prepared, load, &Stop::default(), |event| {
        if let LoadEvent::Measured(one) = event {
            measured.push(one);
        }
        ControlFlow::Continue(())
    })
    .expect("the load is sent");
    (measured, ended)
}

fn compare(measured: &[Measured], log: &[Written], zero: u64, processor: f64) -> Shown {
    let mut written: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for line in log {
        let tokens = written.entry(line.request).or_default();
        assert_eq!(tokens.len(), line.token as usize, "the log is in order");
        tokens.push(line.at);
    }
    let mut delays = Vec::new();
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    let mut late = Vec::new();
    let mut last = 0;
    for one in measured {
        let record = &one.record;
        assert_eq!(record.outcome, Outcome::Completed, "{:?}", one.failure);
        let true_times = &written[&record.cached.expect("its place in the log")];
        assert_eq!(one.pieces.len(), true_times.len(), "every token is seen");
        for (seen, sent) in one.pieces.iter().zip(true_times) {
            delays.push((seen.0 + zero) as f64 - *sent as f64);
        }
        let sent: Vec<u64> = true_times
            .iter()
            .map(|at| at.saturating_sub(zero))
            .collect();
        let seen: Vec<u64> = one.pieces.iter().map(|at| at.0).collect();
        ours.add(record.due, &seen);
        theirs.add(record.due, &sent);
        late.push((record.sent.0.saturating_sub(record.due.0)) as f64);
        last = last.max(record.end.0);
    }
    let milli = |nanoseconds: f64| nanoseconds / 1e6;
    let error = |figure: fn(&Figures) -> f64| figure(&ours) / figure(&theirs) - 1.0;
    let count = delays.len() as f64;
    Shown {
        delay: [0.5, 0.99, 0.999].map(|share| milli(quantile(&mut delays, share))),
        ttft: error(|figures| median(figures.ttft.clone())),
        tpot: error(|figures| median(figures.tpot.clone())),
        inter_token: error(|figures| median(figures.gaps.clone())),
        inter_token_p99: error(|figures| quantile(&mut figures.gaps.clone(), 0.99)),
        end_to_end: error(|figures| median(figures.end_to_end.clone())),
        client_delay: milli(quantile(&mut late, 0.99)),
        tokens_per_second: count / (last as f64 / 1e9),
        processor,
    }
}

/// Latencies of all requests, in nanoseconds.
#[derive(Default)]
struct Figures {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    gaps: Vec<f64>,
    end_to_end: Vec<f64>,
}

impl Figures {
    fn add(&mut self, due: Nanoseconds, times: &[u64]) {
        let (first, last) = (times[0], times[times.len() - 1]);
        self.ttft.push(first as f64 - due.0 as f64);
        self.end_to_end.push(last as f64 - due.0 as f64);
        self.tpot
            .push((last - first) as f64 / (times.len() - 1) as f64);
        self.gaps
            .extend(times.windows(2).map(|pair| (pair[1] - pair[0]) as f64));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// By linear interpolation.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = share * (values.len() - 1) as f64;
    let (low, high) = (values[place as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// Processor time of this process so far.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
