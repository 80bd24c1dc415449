//! One run, and many at once.

use super::{
    cluster::{BESIDE, Cluster, FIRST},
    deployment::Simulated,
    traffic::Sent,
    traffic::is_one,
};
use crate::error::Problem;
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{EngineUse, Origin, Repeat, RunReport, Spent},
    workload::{self, Slo},
};
use gpuwise_lab::spread;
use gpuwise_sim::{
    cluster::{self, Observer},
    engine::StepRun,
    metrics::{Frame, Recorder, RecorderSettings},
    traffic::{Alongside, Change, Label, Source as _, Traffic},
};
use gpuwise_size::{
    constants::Constants,
    power::{Activity, watts},
    serving::Cycle,
    speed::{Batch, StepShape},
};
use gpuwise_units::{Joules, Money, PerSecond, group_thousands};
use std::{num::NonZero, sync::Arc, thread};

#[derive(Debug, Clone)]
pub struct Run<'a> {
    pub simulated: &'a Simulated<'a>,
    /// What stands beside it on the same GPUs, under which traffic: that is the same at every load.
    pub beside: Option<(&'a Simulated<'a>, &'a Sent)>,
    /// With what between it and the clients.
    pub cluster: Cluster,
    pub sent: Sent,
    /// At how many times its rate.
    pub load: f64,
    pub seed: u64,
    pub slo: Slo,
}

/// Runs, telling another listener too.
///
/// # Errors
/// When the traffic or the cluster cannot be.
pub fn run(
    run: &Run<'_>,
    constants: &Constants,
    listener: &mut impl Observer,
) -> anyhow::Result<RunReport> {
    let beside = run.beside.map(|(simulated, _)| simulated);
    let scenario = run.cluster.scenario(run.simulated, beside, run.seed)?;
    let source = source(run)?;
    let replicas: u32 = scenario
        .pools
        .iter()
        .map(|pool| {
            pool.replicas
                .iter()
                .map(|(_, count)| u32::from(*count))
                .max()
                .unwrap_or(0)
        })
        .sum();
    let blocks = scenario
        .pools
        .iter()
        .map(|pool| {
            let count = pool
                .replicas
                .iter()
                .map(|(_, count)| *count)
                .max()
                .unwrap_or(0);
            pool.engine.cache.blocks * u64::from(pool.engine.ranks) * u64::from(count)
        })
        .sum();
    let warm_up = run.sent.warm_up(run.load);
    let mut recorder = Recorder::new(RecorderSettings {
        steady_from: warm_up,
        slo: run.slo.clone(),
        slo_of: run.beside.map(|_| FIRST),
        replicas,
        cache_blocks: blocks,
        measured: false,
        tenants: names(run),
        stages: run.sent.stages.clone(),
    });
    let cache = run.simulated.engine.settings.cache;
    let reasons = Reasons {
        recorder: &mut recorder,
        context: run.simulated.engine.settings.max_context,
        cache: cache.blocks.saturating_sub(u64::from(cache.null_block))
            * u64::from(cache.block_tokens),
    };
    cluster::run(&scenario, source, &mut (reasons, listener))
        .map_err(|error| Problem::new("the deployment cannot be simulated").because(error))?;
    let mut report = recorder.finish(frame(run));
    if warm_up.0 > 0 && report.span.steady_from >= report.span.steady_to {
        return Err(
            Problem::new(format!("--warm-up {warm_up}: no request is due after it"))
                .hint("say a shorter one, or more --requests or a longer --duration")
                .into(),
        );
    }
    report.spent = spent(run, &report, constants);
    report.limited_by = limit(run, &report);
    Ok(report)
}

/// Records, and says why requests can never be served.
struct Reasons<'a> {
    recorder: &'a mut Recorder,
    /// Tokens of a request at most.
    context: u32,
    /// Tokens that the cache of one rank holds.
    cache: u64,
}

impl Observer for Reasons<'_> {
    fn record(&mut self, record: &RequestRecord) {
        self.recorder.request(record);
        if record.outcome != Outcome::Impossible {
            return;
        }
        let grouped = |tokens: u64| group_thousands(&tokens.to_string());
        let context = format!(
            "longer than the context of {} tokens that the deployment serves, prompt and answer together \
             (`gpuwise plan --context` sets it)",
            grouped(u64::from(self.context))
        );
        // What became of it does not say how long its answer was to be.
        let cache = format!(
            "larger than all of the KV cache, {} tokens",
            grouped(self.cache)
        );
        let text = if self.cache >= u64::from(self.context) || record.input > self.context {
            context
        } else if u64::from(record.input) > self.cache {
            cache
        } else {
            format!("{cache}, or {context}")
        };
        self.recorder.reason(record.outcome, &text, || {
            format!(
                "request {}: a prompt of {} tokens",
                record.number, record.input
            )
        });
    }

    fn steps(&mut self, replica: u16, run: &StepRun) {
        Observer::steps(self.recorder, replica, run);
    }

    fn gaps(&mut self, replica: u16, time: u64, gap: u64, tokens: u32) {
        Observer::gaps(self.recorder, replica, time, gap, tokens);
    }
}

/// Runs in parallel; results come in the order of the runs, whatever the number of threads.
///
/// # Errors
/// That of the first run that cannot be.
pub fn run_many(
    runs: &[Run<'_>],
    constants: &Constants,
    done: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<RunReport>> {
    let threads = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(runs.len())
        .max(1);
    let mut out = spread(threads, |first| {
        let mine = runs.iter().enumerate().skip(first).step_by(threads);
        mine.map(|(at, one)| {
            let observed = run(one, constants, &mut cluster::NullObserver);
            done();
            (at, observed)
        })
        .collect()
    });
    out.sort_by_key(|(at, _)| *at);
    out.into_iter().map(|(_, observed)| observed).collect()
}

/// The requests: those of both deployments, where two stand side by side.
fn source(run: &Run<'_>) -> anyhow::Result<Traffic> {
    let own = run.sent.source(run.seed, run.load)?;
    let Some((_, other)) = run.beside else {
        return Ok(own);
    };
    if run.sent.is_closed() || other.is_closed() {
        return Err(Problem::new(
            "--beside: a concurrency is kept, and two loads side by side are followed at their rates",
        )
        .hint("say --rate in place of --concurrency, and save the other deployment with a rate")
        .into());
    }
    let cannot = |error| Problem::new("the traffic cannot be made").because(error);
    let labelled = |source: Traffic, tenant: u16| {
        let label = Label {
            tenant,
            ..Label::default()
        };
        let change = Change::Labels {
            shares: vec![(1.0, label)],
            seed: run.seed,
        };
        source.changed(change).map_err(cannot)
    };
    let other = other.source(run.seed.wrapping_add(1), 1.0)?;
    let other = other.changed(Change::Apart(1)).map_err(cannot)?.boxed();
    let own = labelled(own, FIRST)?.boxed();
    let other = labelled(other, BESIDE)?.boxed();
    Ok(Alongside::new(own, other).boxed())
}

/// Names of tenants by number; tenant 0 is whoever is not told apart.
fn names(run: &Run<'_>) -> Vec<String> {
    let others = || "others".to_owned();
    if let Some((beside, _)) = run.beside {
        let own = &run.simulated.deployment.model;
        return vec![others(), own.clone(), beside.deployment.model.clone()];
    }
    let tenants = &run.sent.tenants;
    if tenants.is_empty() {
        return Vec::new();
    }
    std::iter::once(others())
        .chain(tenants.iter().cloned())
        .collect()
}

fn frame(run: &Run<'_>) -> Frame {
    let mut notes = run.sent.notes.clone();
    if let Some((beside, sent)) = run.beside {
        notes.push(format!(
            "{} stands beside it on the same GPUs, under {}; the SLO and goodput are those of {}",
            beside.deployment.model, sent.words, run.simulated.deployment.model
        ));
        notes.extend(crowded(run.simulated, beside));
    }
    if run.sent.has_priorities() && !run.cluster.by_priority {
        notes.push(
            "the trace's priorities change nothing: the engine takes requests in the order in which they came (--scheduling-policy priority)"
                .into(),
        );
    }
    if run.cluster.by_priority && !run.sent.has_priorities() {
        notes.push(
            "--scheduling-policy priority changes nothing: all requests have one priority (a trace's column `priority` gives them others)"
                .into(),
        );
    }
    notes.extend(run.simulated.notes.iter().cloned());
    let concurrent = match run.sent.workload.traffic {
        workload::Traffic::Open { .. } => None,
        workload::Traffic::Closed { concurrency } => {
            Some((concurrency as f64 * run.load).round() as u64)
        }
    };
    let words = if is_one(run.load) {
        run.sent.words.clone()
    } else {
        format!("{}, at {} × its rate", run.sent.words, run.load)
    };
    let mut subject = run.simulated.subject();
    if let Some(replicas) = run.cluster.replicas {
        subject.replicas = Some(u64::from(replicas));
        subject.gpus = Some(u64::from(devices(run)));
    }
    Frame {
        subject,
        origin: Origin::Simulated,
        repeat: Repeat {
            version: env!("CARGO_PKG_VERSION").into(),
            arguments: std::env::args().skip(1).collect(),
            seed: run.seed,
        },
        words,
        open: !run.sent.is_closed(),
        offered: offered(run),
        concurrent,
        spent: Spent::default(),
        tokens: None,
        engine: None,
        limited_by: None,
        notes,
    }
}

/// Requests a second as they are meant to come; those of what stands beside it are its own.
fn offered(run: &Run<'_>) -> Option<PerSecond> {
    let rate = run.sent.offered()?.get();
    Some(PerSecond::new(rate * run.load))
}

/// That two engines take more memory than there is, where they share whole GPUs.
fn crowded(one: &Simulated<'_>, other: &Simulated<'_>) -> Option<String> {
    if one.deployment.slice.is_some() || other.deployment.slice.is_some() {
        return None;
    }
    let (first, second) = (&one.deployment.memory, &other.deployment.memory);
    let both = first.budget.gib() + second.budget.gib();
    (both > first.visible.gib()).then(|| {
        format!(
            "together they may take {both:.0} GiB of {:.0} on each GPU: start them with smaller memory fractions, and size them for these",
            first.visible.gib()
        )
    })
}

/// GPUs or slices of all replicas.
fn devices(run: &Run<'_>) -> u32 {
    let deployment = &run.simulated.deployment;
    let replicas = run.cluster.replicas.unwrap_or(deployment.layout.replicas);
    let prefill = deployment
        .prefill
        .as_ref()
        .map_or(0, |pool| pool.layout.gpus());
    deployment.layout.replica_gpus() * replicas + prefill
}

/// GPU time, energy and money of the whole span.
fn spent(run: &Run<'_>, report: &RunReport, constants: &Constants) -> Spent {
    let seconds = report.span.whole().get();
    let gpu_seconds = seconds * f64::from(devices(run));
    let energy = power(run, &report.engine, seconds, constants)
        .map(|watts| Joules::new(watts * gpu_seconds));
    Spent {
        gpu_seconds: Some(gpu_seconds),
        energy,
        money: money(run, seconds),
        ..report.spent
    }
}

/// Mean watts of one device over the span.
fn power(run: &Run<'_>, used: &EngineUse, seconds: f64, constants: &Constants) -> Option<f64> {
    let setup = &run.simulated.setup;
    let (busy, batch) = (used.busy?, used.batch?.mean);
    if run.simulated.prefill.is_some() || run.beside.is_some() {
        // What each pool does is not told apart.
        return None;
    }
    let cycle = Cycle::new(setup, Arc::new(StepShape::new(setup)), constants);
    let prompts = used.prefill_tokens? as f64;
    let groups = f64::from(setup.layout.attention_data.max(1))
        * f64::from(
            run.cluster
                .replicas
                .unwrap_or(run.simulated.deployment.layout.replicas),
        );
    let chunk = setup.settings.batched_tokens as f64;
    let per_token = cycle.prefill(1.0, chunk, 0.0) / chunk;
    let working = (busy * seconds * groups).max(1e-9);
    let compute = (prompts * per_token / working).min(1.0);
    let context =
        run.sent.workload.lengths.input.mean + 0.5 * run.sent.workload.lengths.output.mean;
    let step = cycle.steps.time(&Batch {
        decodes: batch.max(1.0),
        context,
        ..Batch::default()
    });
    let reading = (step.dense + step.experts + step.attention) / step.total().max(1e-12);
    watts(
        &setup.device,
        Activity {
            busy,
            memory: reading * (1.0 - compute),
            compute,
        },
    )
}

/// What the instances cost for so long, where their price is known and their number is that of the
/// deployment.
fn money(run: &Run<'_>, seconds: f64) -> Option<Money> {
    let deployment = &run.simulated.deployment;
    let same = run
        .cluster
        .replicas
        .is_none_or(|replicas| replicas == deployment.layout.replicas);
    let rental = deployment.rental.as_ref().filter(|_| same)?;
    let hourly = rental.price?.0;
    let micros = i128::from(hourly.micros) * i128::from(rental.instances) * (seconds * 1e9) as i128
        / 3_600_000_000_000;
    Some(Money {
        micros: i64::try_from(micros).ok()?,
        currency: hourly.currency,
    })
}

/// What limits, by what the engines did.
fn limit(run: &Run<'_>, report: &RunReport) -> Option<String> {
    let used = &report.engine;
    let most = f64::from(run.simulated.engine.settings.max_sequences)
        * f64::from(run.simulated.engine.settings.ranks);
    let (waiting, batch) = (used.waiting?, used.batch?);
    if used.preemptions.is_some_and(|count| count > 0) {
        return Some(format!(
            "KV cache memory: {} preemptions",
            group_thousands(&used.preemptions.unwrap_or(0).to_string())
        ));
    }
    if waiting.mean >= 1.0 && batch.highest >= most {
        return Some(format!("the engine's limit of {most} sequences"));
    }
    if waiting.mean >= 1.0 && used.cache_use.is_some_and(|used| used.highest > 0.95) {
        return Some("KV cache memory: requests wait for blocks".into());
    }
    let busy = used.busy.unwrap_or(0.0);
    let prompts = used.prefill_tokens? as f64;
    let answers = used.decode_tokens? as f64;
    if busy > 0.95 && waiting.mean >= 1.0 {
        return Some(if prompts > 8.0 * answers {
            "computing prompts".into()
        } else {
            "the steps of decoding".into()
        });
    }
    None
}
