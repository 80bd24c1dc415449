//! What ran on somebody's cluster, on a fleet file, under policies side by side.

use crate::{catalogue, error::Problem, fleet, policy::Rules, progress, settings};
use gpuwise_domain::{
    fleet::{Past, PastJob},
    placement::{
        DurationEstimate, Fleet, Gang, GpuAsk, Job, JobId, KindId, Kinds, Need, QueueId, ReplayRow,
        WorkerAsk,
    },
};
use gpuwise_lab::schedulers::past::{PastRun, replay_past};
use gpuwise_read::fleet::read_past;
use gpuwise_sched::world::World;
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeSet, path::Path, time::Instant};

/// A row for what happened, and one for each policy.
pub(super) fn rows(
    context: &super::Context,
    flags: &settings::Replay,
    path: &Path,
    text: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let shown = path.display().to_string();
    let past = read_past(&shown, text)?;
    let Some(on) = &flags.fleet else {
        return Err(
            Problem::new(format!("{shown} says what ran, and not on what"))
                .hint("name a fleet file: --fleet fleet.toml; `gpuwise fleet import` writes one")
                .into(),
        );
    };
    if past.jobs.is_empty() {
        return Err(Problem::new(format!("{shown}: no job in it had GPUs and has ended")).into());
    }
    if past.left_out > 0 {
        progress::say(&format!(
            "{} rows are left out: steps of jobs, jobs without GPUs, and those that never ran or still run",
            past.left_out
        ));
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let file = fleet::read(Path::new(on), &loaded.catalogue)?;
    let jobs = jobs(&past, &file.fleet, &loaded);
    let trace = path
        .file_name()
        .map_or(shown.clone(), |name| name.to_string_lossy().into());
    let named = if flags.policy.is_empty() {
        vec!["gpuwise".to_owned()]
    } else {
        flags.policy.clone()
    };
    let gpus = file.fleet.gpus.len() as u64;
    let mut found: Vec<ReplayRow> = recorded(&past, &trace).into_iter().collect();
    for name in named {
        let how = settings::HowFlags::of_policy(&name);
        let rules = Rules::of_flags(&how)?;
        let mut file = file.clone();
        rules.shape(&mut file.fleet)?;
        let world = fleet::world(&file, None)?;
        // What policies forecast from is what was asked for, as for `gpuwise place`.
        let asked = asked(&world, &jobs);
        let mut policy = rules.policy(&file.fleet.scheduling, Some(&asked), context.app.seed)?;
        progress::doing(&format!("{trace}, {}", rules.name()));
        let began = Instant::now();
        let run = replay_past(world, &jobs, &mut policy, &mut |_| {})
            .map_err(|refused| Problem::new("the replay went wrong").because(refused))?;
        let rate = run.decisions as f64 / began.elapsed().as_secs_f64();
        found.push(ReplayRow {
            decisions_per_s: flags.timing.then_some(rate.round()),
            ..row(&trace, rules.name(), &run, &file.fleet, gpus)
        });
    }
    progress::doing("");
    Ok(found)
}

/// A world in which all jobs were asked for, to say what is usually asked.
pub(super) fn asked(world: &World, jobs: &[Job]) -> World {
    let mut asked = world.clone();
    for job in jobs {
        let event = gpuwise_domain::placement::Event::Submitted(job.clone());
        let at = job.submitted;
        let _ = asked.apply(&gpuwise_domain::placement::TimestampedEvent { at, event });
    }
    asked
}

/// Jobs as they are put to the scheduler. GPU types and queues that the fleet does not have ask for any and
/// stand in no queue, which is said.
fn jobs(past: &Past, fleet: &Fleet, loaded: &catalogue::Loaded) -> Vec<Job> {
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    let widest = fleet.nodes.iter().map(|node| node.gpus.len() as u32).max();
    let widest = widest.unwrap_or(8).max(1);
    let mut out = Vec::with_capacity(past.jobs.len());
    for (one, id) in past.jobs.iter().zip(0..) {
        let kinds = match &one.gpu {
            None => Kinds::ANY,
            Some(name) => kinds_named(name, fleet, loaded),
        };
        if kinds == Kinds::NONE {
            unknown.extend(one.gpu.as_deref());
        }
        let kinds = if kinds == Kinds::NONE {
            Kinds::ANY
        } else {
            kinds
        };
        let workers = workers(one, widest);
        let queue = fleet
            .queues
            .iter()
            .position(|queue| queue.name == one.group);
        out.push(Job {
            tenant: one.user.clone(),
            queue: queue.map(|at| QueueId(at as u32)),
            submitted: one.submitted,
            gang: Gang::exactly(workers),
            duration: Some(DurationEstimate {
                expected: one.duration,
                spread: 0.0,
            }),
            ..Job::new(
                JobId(id),
                one.name.clone(),
                WorkerAsk {
                    cpu_milli: one.cpu_milli / u64::from(workers),
                    memory_mib: one.memory_mib / u64::from(workers),
                    gpu: GpuAsk::Whole {
                        count: one.gpus / workers,
                        kinds,
                        need: Need::default(),
                    },
                },
            )
        });
    }
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.into_iter().take(5).collect();
        progress::say(&format!(
            "the fleet has no {}: who had these may have any GPU",
            names.join(", ")
        ));
    }
    out
}

/// On how many nodes: as the record says, where GPUs are even over them; else as few as hold them evenly.
fn workers(one: &PastJob, widest: u32) -> u32 {
    let even = |nodes: &u32| *nodes > 0 && one.gpus.is_multiple_of(*nodes);
    if even(&one.nodes) && one.gpus / one.nodes <= widest {
        return one.nodes;
    }
    let least = one.gpus.div_ceil(widest).max(1);
    (least..=one.gpus).find(even).unwrap_or(one.gpus)
}

/// Kinds of the fleet that a name stands for: the catalogue's, or one that has it in its name.
fn kinds_named(name: &str, fleet: &Fleet, loaded: &catalogue::Loaded) -> Kinds {
    let known = fleet::known(&loaded.catalogue, name).map(|known| known.kind.name);
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(name);
    let is = |kind: &str| known.as_deref() == Ok(kind) || plain(kind).contains(&wanted);
    let kinds = fleet.kinds.iter().zip((0..).map(KindId));
    let there = kinds.filter(|(kind, _)| is(&kind.name));
    there.fold(Kinds::NONE, |set, (_, id)| set.with(id))
}

/// What happened, where the record says when jobs started.
fn recorded(past: &Past, trace: &str) -> Option<ReplayRow> {
    let mut waits: Vec<Nanoseconds> = Vec::new();
    let (mut completion, mut last) = (0_u128, 0_u64);
    for job in &past.jobs {
        let started = job.started?;
        waits.push(Nanoseconds(started.0.saturating_sub(job.submitted.0)));
        let end = started.0.saturating_add(job.duration.0);
        completion += u128::from(end.saturating_sub(job.submitted.0));
        last = last.max(end);
    }
    waits.sort_unstable();
    let count = past.jobs.len() as f64;
    Some(ReplayRow {
        trace: trace.into(),
        policy: "as recorded".into(),
        placed: past.jobs.len() as u64,
        jct_mean_s: Some(hundredths(completion as f64 / 1e9 / count)),
        makespan_s: Some(hundredths(last as f64 / 1e9)),
        more: waited(&waits),
        ..ReplayRow::default()
    })
}

pub(super) fn row(trace: &str, policy: &str, run: &PastRun, fleet: &Fleet, gpus: u64) -> ReplayRow {
    let whole = gpus as f64 * run.makespan.0 as f64;
    let held = run.held as f64 / 1000.0;
    let hours = |time: u128| hundredths(time as f64 / 1000.0 / 3.6e12);
    let mut more = waited(&run.waits);
    more.extend([
        ("gpu_hours_held", Some(hours(run.held))),
        (
            "gpu_hours_idle",
            Some(hundredths((whole - held).max(0.0) / 3.6e12)),
        ),
        ("gpu_hours_lost", Some(hours(run.lost))),
        ("stops", Some(run.stops as f64)),
    ]);
    if let Some(each) = price(fleet) {
        more.push(("cost_of_fleet", Some(hundredths(whole / 3.6e12 * each))));
    }
    let ended = run.ended.max(1) as f64;
    ReplayRow {
        trace: trace.into(),
        policy: policy.into(),
        gpu_allocated_percent: (whole > 0.0).then(|| hundredths(100.0 * held / whole)),
        placed: run.placed,
        pending: run.pending,
        jct_mean_s: Some(hundredths(run.completion as f64 / 1e9 / ended)),
        makespan_s: Some(hundredths(run.makespan.0 as f64 / 1e9)),
        plans_hash: Some(run.plans.value()),
        more,
        ..ReplayRow::default()
    }
}

/// What a GPU of the fleet costs an hour on average, where all have a price in one currency.
fn price(fleet: &Fleet) -> Option<f64> {
    let mut sum = 0.0;
    let mut currency = None;
    for gpu in &fleet.gpus {
        let price = fleet.kinds.get(gpu.kind.index())?.price?.0;
        if currency.is_some_and(|known| known != price.currency) {
            return None;
        }
        currency = Some(price.currency);
        sum += price.micros as f64 / 1e6;
    }
    (!fleet.gpus.is_empty()).then(|| sum / fleet.gpus.len() as f64)
}

/// Waits, shortest first: mean, ninety-fifth of a hundred, longest.
pub(super) fn waited(waits: &[Nanoseconds]) -> Vec<(&'static str, Option<f64>)> {
    let seconds = |time: Nanoseconds| hundredths(time.0 as f64 / 1e9);
    let sum: u128 = waits.iter().map(|wait| u128::from(wait.0)).sum();
    let mean = (!waits.is_empty()).then(|| hundredths(sum as f64 / 1e9 / waits.len() as f64));
    let rank = (waits.len() * 95).div_ceil(100).saturating_sub(1);
    vec![
        ("wait_mean_s", mean),
        ("wait_p95_s", waits.get(rank).copied().map(seconds)),
        ("wait_max_s", waits.last().copied().map(seconds)),
    ]
}

pub(super) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
