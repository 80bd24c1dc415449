//! One engine under a file of arrivals, with step times that other simulators can be told as well.
//!
//! ```text
//! peer arrivals.csv step=8e-3 token=25e-6 sequence=20e-6 context=20e-9
//! ```
//!
//! The file has a header and a request a line: when it arrives in microseconds, tokens of its prompt,
//! tokens to generate. What is measured is what a report needs: every distribution and time series of
//! [`gpuwise_sim::metrics::Recorder`], not an engine that nobody listens to. The answer is one line of
//! JSON; `benches/peers/run.py` reads it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program of its own that reads a file and a clock; the crate beside it does neither"
)]

use gpuwise_domain::{
    request::{Outcome, Request, RequestRecord},
    run::{Metric, Origin, Repeat, RunReport, Spent, Subject},
};
use gpuwise_sim::{
    cache::PoolSettings,
    cost::{CostSegment, Picoseconds, RequestOverhead, StepCost, StepWork},
    engine::{Done, Policy, Replica, Role, Settings, Sink, StepRun, VllmRules},
    metrics::{Frame, Recorder, RecorderSettings},
};
use gpuwise_units::{Nanoseconds, Percentile};
use std::{error::Error, fmt::Write, fs, time::Instant};

/// Picoseconds of a nanosecond, and of a second.
const NANOSECOND: u64 = 1000;
const SECOND: f64 = 1e12;

/// Sums of constants: what the step models of the peers have in common. All in picoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    step: u64,
    /// A step that computes prompts, on top.
    prefill: u64,
    /// A step in which a sequence decodes, on top.
    decode: u64,
    sequence: u64,
    token: u64,
    /// Each token of context that a decoding sequence attends to.
    context: u64,
}

impl StepCost for Sum {
    fn decode(&mut self, sequences: u32, _context: u64, _replica: u64) -> CostSegment {
        let base = self.step + self.decode + self.sequence * u64::from(sequences);
        CostSegment {
            base: i64::try_from(base).unwrap_or(i64::MAX),
            slope: self.context,
            until: u64::MAX,
        }
    }

    fn mixed(&mut self, work: &StepWork, _replica: u64) -> Picoseconds {
        let present = |count: u32, cost| if count > 0 { cost } else { 0 };
        Picoseconds::at_least_one(
            self.step
                + present(work.prefill, self.prefill)
                + present(work.decodes, self.decode)
                + self.sequence * u64::from(work.decodes)
                + self.token * u64::from(work.prefill)
                + self.context * work.context,
        )
    }

    fn around(&self, _input: u32) -> RequestOverhead {
        RequestOverhead::default()
    }
}

/// Hands what an engine tells to a recorder.
struct Listener {
    recorder: Recorder,
    finished: u64,
}

impl Sink for Listener {
    fn gaps(&mut self, time: u64, gap: u64, tokens: u32) {
        self.recorder.gaps(time, gap, tokens);
    }

    fn steps(&mut self, run: &StepRun) {
        self.recorder.steps(run);
    }

    fn ended(&mut self, done: Done) {
        let nanoseconds = |time: u64| Nanoseconds(time / NANOSECOND);
        self.finished += u64::from(done.outcome == Outcome::Completed);
        self.recorder.request(&RequestRecord {
            number: done.number,
            due: done.request.due,
            sent: nanoseconds(done.submitted),
            scheduled: done.scheduled.map(nanoseconds),
            first_token: done.first_token.map(nanoseconds),
            end: nanoseconds(done.end),
            input: done.request.input,
            output: done.generated,
            cached: Some(done.cached),
            preemptions: done.preemptions,
            retries: 0,
            tenant: done.request.tenant,
            stage: done.request.stage,
            session: done.request.session,
            replica: Some(0),
            outcome: done.outcome,
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .ok_or("give a file of arrivals, then what a step costs in seconds: `step=8e-3`")?;
    let mut cost = Sum::default();
    let mut settings = settings();
    for argument in arguments {
        set(&argument, &mut cost, &mut settings)?;
    }
    let started = Instant::now();
    let requests = read(&fs::read_to_string(&file)?)?;
    let read = started.elapsed().as_secs_f64();
    let count = requests.len();
    let started = Instant::now();
    let (report, finished, steps) = run(requests, cost, settings)?;
    let simulated = started.elapsed().as_secs_f64();
    println!(
        "{}",
        line(&report, count, finished, steps, (read, simulated))?
    );
    Ok(())
}

/// vLLM V1 with what no peer models left out: steps are planned one at a time.
fn settings() -> Settings {
    Settings {
        policy: Policy::Vllm(VllmRules::default()),
        ranks: 1,
        max_sequences: 256,
        max_batched_tokens: 8192,
        max_context: 40_960,
        cache: PoolSettings {
            blocks: 20_000,
            block_tokens: 16,
            caching: true,
            null_block: true,
            unhashed_first: true,
        },
        overlap: false,
        ends_by_stop: false,
        speculation: None,
        role: Role::Whole,
        max_adapters: None,
        max_queued: None,
        max_queued_tokens: None,
    }
}

fn set(argument: &str, cost: &mut Sum, settings: &mut Settings) -> Result<(), Box<dyn Error>> {
    let (name, value) = argument
        .split_once('=')
        .ok_or_else(|| format!("`{argument}`: write NAME=VALUE"))?;
    let seconds = || -> Result<u64, Box<dyn Error>> {
        let seconds: f64 = value.parse()?;
        Ok((seconds * SECOND).round() as u64)
    };
    match name {
        "step" => cost.step = seconds()?,
        "prefill" => cost.prefill = seconds()?,
        "decode" => cost.decode = seconds()?,
        "sequence" => cost.sequence = seconds()?,
        "token" => cost.token = seconds()?,
        "context" => cost.context = seconds()?,
        "max_sequences" => settings.max_sequences = value.parse()?,
        "max_batched_tokens" => settings.max_batched_tokens = value.parse()?,
        "blocks" => settings.cache.blocks = value.parse()?,
        "block_tokens" => settings.cache.block_tokens = value.parse()?,
        "caching" => settings.cache.caching = value.parse()?,
        "overlap" => settings.overlap = value.parse()?,
        _ => return Err(format!("`{name}` is nothing that can be set").into()),
    }
    Ok(())
}

fn read(text: &str) -> Result<Vec<Request>, Box<dyn Error>> {
    let mut requests = Vec::new();
    for (at, row) in text.lines().enumerate().skip(1) {
        let mut fields = row.split(',');
        let mut field = || -> Result<u64, Box<dyn Error>> {
            let number = fields.next().and_then(|field| field.parse().ok());
            Ok(number.ok_or_else(|| format!("line {}: three whole numbers", at + 1))?)
        };
        let due = Nanoseconds(field()?.saturating_mul(1000));
        requests.push(Request {
            due,
            input: u32::try_from(field()?)?,
            output: u32::try_from(field()?)?,
            ..Request::default()
        });
    }
    Ok(requests)
}

fn run(
    requests: Vec<Request>,
    cost: Sum,
    settings: Settings,
) -> Result<(RunReport, u64, u64), Box<dyn Error>> {
    let mut listener = Listener {
        recorder: Recorder::new(RecorderSettings {
            replicas: 1,
            cache_blocks: settings.cache.blocks,
            ..RecorderSettings::default()
        }),
        finished: 0,
    };
    let mut replica = Replica::new(settings, cost)?;
    for (number, request) in (0..).zip(requests) {
        let now = request.due.0.saturating_mul(NANOSECOND);
        replica.advance(now, &mut listener);
        if let Err(refused) = replica.submit(now, number, request) {
            listener.ended(*refused);
        }
    }
    replica.advance(u64::MAX, &mut listener);
    let steps = replica.statistics().steps;
    let report = listener.recorder.finish(Frame {
        subject: Subject::default(),
        origin: Origin::Simulated,
        repeat: Repeat::default(),
        words: "a file of arrivals".into(),
        open: true,
        offered: None,
        concurrent: None,
        spent: Spent::default(),
        tokens: None,
        engine: None,
        limited_by: None,
        notes: Vec::new(),
    });
    Ok((report, listener.finished, steps))
}

fn line(
    report: &RunReport,
    count: usize,
    finished: u64,
    steps: u64,
    (read, simulated): (f64, f64),
) -> Result<String, Box<dyn Error>> {
    let mut text = format!(
        r#"{{"requests":{count},"finished":{finished},"steps":{steps},"read_s":{read:.6},"simulated_s":{simulated:.6}"#
    );
    for (name, metric) in [
        ("ttft", Metric::Ttft),
        ("tpot", Metric::Tpot),
        ("e2e", Metric::EndToEnd),
    ] {
        let found = report.distribution(metric);
        let found = found.ok_or_else(|| format!("no request has a {name}"))?;
        write!(text, r#","{name}_mean_s":{:.9}"#, found.mean)?;
        for percentile in [Percentile::P50, Percentile::P99] {
            if let Some(value) = found.at(percentile) {
                write!(text, r#","{name}_{percentile}_s":{value:.9}"#)?;
            }
        }
    }
    text.push('}');
    Ok(text)
}
