//! What recording costs a request, on one core: what each adds, and the report at the end.

use divan::{Bencher, black_box, counter::ItemsCount};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Origin, Repeat, Spent, Subject},
    workload::{Slo, Target},
};
use gpuwise_sim::{
    engine::StepRun,
    metrics::{Frame, Recorder, RecorderSettings},
};
use gpuwise_units::{Nanoseconds, Percentile, RandomStream, Seconds};

const FEW: u64 = 200_000;
/// Enough that values are counted and no longer kept.
const MANY: u64 = 3_000_000;

fn main() {
    divan::main();
}

fn settings() -> RecorderSettings {
    let target = |seconds: f64| {
        Some(Target {
            percentile: Some(Percentile::P95),
            at_most: Seconds::new(seconds),
        })
    };
    RecorderSettings {
        steady_from: Nanoseconds(1_000_000_000),
        slo: Slo {
            ttft: target(0.5),
            tpot: target(0.03),
            ..Slo::default()
        },
        replicas: 1,
        cache_blocks: 30_000,
        ..RecorderSettings::default()
    }
}

fn frame() -> Frame {
    Frame {
        subject: Subject::default(),
        origin: Origin::Simulated,
        repeat: Repeat::default(),
        words: String::new(),
        open: true,
        offered: None,
        concurrent: None,
        spent: Spent::default(),
        tokens: None,
        engine: None,
        limited_by: None,
        notes: Vec::new(),
    }
}

/// Ten requests a second that stay for some seconds.
fn records(count: u64) -> Vec<RequestRecord> {
    let mut random = RandomStream::new(7, "bench", 0);
    let mut record = |number: u64| {
        let due = number * 100_000_000;
        let first = due + 50_000_000 + random.below(400_000_000);
        let output = 64 + random.below(128) as u32;
        let end = first + u64::from(output) * (18_000_000 + random.below(9_000_000));
        RequestRecord {
            number,
            due: Nanoseconds(due),
            sent: Nanoseconds(due),
            scheduled: Some(Nanoseconds(due + 20_000_000)),
            first_token: Some(Nanoseconds(first)),
            end: Nanoseconds(end),
            input: 512 + random.below(1024) as u32,
            output,
            cached: Some(0),
            preemptions: 0,
            retries: 0,
            tenant: 0,
            stage: 0,
            session: None,
            replica: Some(0),
            outcome: Outcome::Completed,
        }
    };
    (0..count).map(&mut record).collect()
}

fn record(bencher: Bencher, count: u64) {
    let records = records(count);
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut recorder = Recorder::new(settings());
        for record in &records {
            recorder.request(record);
        }
        black_box(recorder.finish(frame()))
    });
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn requests_kept(bencher: Bencher) {
    record(bencher, FEW);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn requests_counted(bencher: Bencher) {
    record(bencher, MANY);
}

/// Runs of steps whose length and batch vary: what a request of 128 tokens leaves are a few.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn runs_of_steps(bencher: Bencher) {
    let mut random = RandomStream::new(7, "bench", 1);
    let mut start = 0;
    let mut run = || {
        let run = StepRun {
            start,
            steps: 1 + random.below(40) as u32,
            first: 20_000_000_000 + random.below(5_000_000_000),
            increment: 500_000,
            decodes: 25,
            regular: 25,
            tokens: 25,
            prefill: 0,
            context: 30_000,
            kv_used: 2000 + random.below(9000),
            running: 25,
            waiting: 0,
        };
        start = run.end();
        run
    };
    let runs: Vec<StepRun> = (0..FEW).map(|_| run()).collect();
    bencher.counter(ItemsCount::new(FEW)).bench_local(|| {
        let mut recorder = Recorder::new(settings());
        for run in &runs {
            recorder.steps(run);
        }
        black_box(recorder.finish(frame()))
    });
}
