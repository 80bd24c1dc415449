//! Training jobs over GPUs of several kinds, round by round (Gavel's traces).

use super::{files, files::Places, past, policies};
use crate::{error::Problem, policy::Rules, progress, settings};
use gpuwise_domain::placement::ReplayRow;
use gpuwise_lab::schedulers::{
    gavel::{Outcome, ROUND_S, Trace, TraceJob},
    past::replay_past,
    rounds::{RoundContext, Speeds, named, names},
};
use gpuwise_read::fleet::{
    GavelJob, GavelSpeeds, read_gavel_programs, read_gavel_speeds, read_gavel_trace,
    read_gavel_units,
};
use gpuwise_sched::world::World;
use std::{path::Path, time::Instant};

/// The trace that the name alone means.
const USUAL: &str = "trace_physical_continuous.csv";
/// The fleet of the published runs of that trace.
const FLEET: &str = "8xv100,16xp100,24xk80";
const SWEEP_FLEET: &str = "36xv100,36xp100,36xk80";
/// The jobs that the published sweeps measure.
const SWEEP_MEASURED: std::ops::Range<usize> = 4000..5000;
const SPEEDS: &str = "simulation_throughputs.json";
const MOST_GPUS: u32 = 100_000;

/// Whether a name means a trace of this kind.
pub(super) fn knows(name: &str) -> bool {
    name == "gavel" || name.starts_with("gavel:")
}

/// Rows of every policy and seed that is asked for.
pub(super) fn rows(
    flags: &settings::Replay,
    path: Option<&Path>,
) -> anyhow::Result<Vec<ReplayRow>> {
    let places = Places::new(None, &["gavel"]);
    let (jobs, sweep) = match (path, flags.trace.strip_prefix("gavel:")) {
        (Some(path), _) => (read_gavel_trace(&flags.trace, &files::text(path)?)?, false),
        (None, None) => {
            let path = places.find(USUAL)?;
            (
                read_gavel_trace(&path.display().to_string(), &files::text(&path)?)?,
                false,
            )
        }
        (None, Some(variant)) => (named_units(variant, &places)?, true),
    };
    replayed(flags, &trace(flags, &places, &jobs, sweep)?)
}

/// Rows of a unit trace at so many jobs an hour.
pub(super) fn unit_rows(
    flags: &settings::Replay,
    path: &Path,
    rate: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let places = Places::new(Some(files::folder(path)), &["gavel"]);
    let rate = rate
        .parse()
        .ok()
        .filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    let rate = rate.ok_or_else(|| {
        Problem::new(format!(
            "{}: expected jobs an hour after the @",
            flags.trace
        ))
    })?;
    let jobs = units(path, rate, &places)?;
    replayed(flags, &trace(flags, &places, &jobs, true)?)
}

fn replayed(flags: &settings::Replay, trace: &Trace) -> anyhow::Result<Vec<ReplayRow>> {
    // Files are policies of the scheduler itself.
    let is_file = |name: &String| Path::new(name).is_file();
    let (files, names): (Vec<String>, Vec<String>) =
        flags.policy.iter().cloned().partition(is_file);
    let mut rows = Vec::new();
    if !names.is_empty() || files.is_empty() {
        rows = by_rounds(flags, &names, trace)?;
    }
    for file in files {
        rows.push(by_file(flags, &file, trace)?);
    }
    progress::doing("");
    Ok(rows)
}

/// A policy file, on the trace's jobs as the scheduler sees them.
fn by_file(flags: &settings::Replay, file: &str, trace: &Trace) -> anyhow::Result<ReplayRow> {
    if trace.measured.is_some() {
        let what = format!(
            "--policy {file}: sweeps are measured by some of their jobs, which only policies of rounds do"
        );
        return Err(Problem::new(what)
            .hint(format!("policies there: {}", names().join(", ")))
            .into());
    }
    let (fleet, jobs) = trace.fleet_and_jobs();
    let rules = Rules::of_flags(&settings::HowFlags::of_policy(file))?;
    let mut shaped = fleet.clone();
    rules.shape(&mut shaped)?;
    let world = World::new(&shaped);
    let asked = past::asked(&world, &jobs);
    let mut policy = rules.policy(&shaped.scheduling, Some(&asked), 0)?;
    progress::doing(rules.name());
    let run = replay_past(world, &jobs, &mut policy, &mut |_| {})
        .map_err(|refused| Problem::new("the replay went wrong").because(refused))?;
    let gpus = shaped.gpus.len() as u64;
    Ok(past::row(&flags.trace, rules.name(), &run, &shaped, gpus))
}

fn by_rounds(
    flags: &settings::Replay,
    wanted: &[String],
    trace: &Trace,
) -> anyhow::Result<Vec<ReplayRow>> {
    let context = RoundContext {
        seed: 0,
        known: flags.durations == settings::Durations::Known,
        sharing: !flags.no_sharing,
    };
    let policies = policies(wanted, "gavel", &names(), |name| {
        named(name, &context).map(|_| name.to_owned())
    })?;
    // Policies draw from seeds themselves: every one will do.
    let seeds = match flags.seeds.as_deref() {
        Some(given) => super::range(given)?,
        None => vec![0],
    };
    let mut rows = Vec::new();
    for name in &policies {
        for seed in &seeds {
            progress::doing(&format!("{name}, seed {seed}"));
            let context = RoundContext {
                seed: *seed,
                ..context
            };
            let Some(mut policy) = named(name, &context) else {
                continue;
            };
            let began = Instant::now();
            let outcome = trace.replay(policy.as_mut(), |_, _| {})?;
            let spent = began.elapsed().as_secs_f64();
            let usual = ReplayRow {
                trace: flags.trace.clone(),
                policy: name.clone(),
                seed: Some(*seed),
                decisions_per_s: flags
                    .timing
                    .then(|| (outcome.starts as f64 / spent).round()),
                ..ReplayRow::default()
            };
            rows.push(row(trace, &outcome, usual));
        }
    }
    Ok(rows)
}

fn row(trace: &Trace, outcome: &Outcome, usual: ReplayRow) -> ReplayRow {
    let measured = trace.measured();
    let ended = outcome.ended(measured.clone());
    let gpus: u32 = trace.supply.iter().map(|(_, count)| count).sum();
    let whole = outcome.makespan_s * f64::from(gpus);
    ReplayRow {
        gpu_allocated_percent: (whole > 0.0).then(|| outcome.busy_gpu_s / whole * 100.0),
        placed: ended,
        pending: measured.len() as u64 - ended,
        jct_mean_s: outcome.mean_s(measured),
        makespan_s: Some(outcome.makespan_s),
        plans_hash: Some(outcome.plans.value()),
        more: vec![
            ("rounds", Some(outcome.rounds as f64)),
            ("starts", Some(outcome.starts as f64)),
        ],
        ..usual
    }
}

/// A trace of jobs, with its fleet and speeds.
fn trace(
    flags: &settings::Replay,
    places: &Places,
    jobs: &[GavelJob],
    sweep: bool,
) -> anyhow::Result<Trace> {
    let path = match &flags.speeds {
        Some(path) => path.clone(),
        None => places.find(SPEEDS)?,
    };
    let measured = read_gavel_speeds(&path.display().to_string(), &files::text(&path)?)?;
    let usual = if sweep { SWEEP_FLEET } else { FLEET };
    let supply = fleet(flags.fleet.as_deref().unwrap_or(usual), &measured)?;
    let kinds: Vec<String> = supply.iter().map(|(kind, _)| kind.clone()).collect();
    let (speeds, classes) = Speeds::measured(&kinds, &measured.alone, &measured.beside);
    let jobs = jobs
        .iter()
        .map(|job| {
            let key = (job.program.clone(), job.gpus);
            let class = classes.get(&key).copied().ok_or_else(|| {
                let (program, gpus) = (&job.program, job.gpus);
                Problem::new(format!("no speed is known of {program} on {gpus} GPUs"))
                    .hint("name a file that has it with --speeds")
            })?;
            Ok(TraceJob {
                came_s: job.came,
                class,
                steps: job.steps,
                weight: job.weight,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let measured = (sweep && jobs.len() >= SWEEP_MEASURED.end).then_some(SWEEP_MEASURED);
    Ok(Trace {
        jobs,
        speeds,
        supply,
        round_s: ROUND_S,
        measured,
    })
}

/// `continuous-single@3.2`: a unit trace at so many jobs an hour.
fn named_units(variant: &str, places: &Places) -> anyhow::Result<Vec<GavelJob>> {
    let known = places.middles("trace_continuous_");
    let wrong = || {
        let names: Vec<String> = known
            .iter()
            .map(|name| format!("continuous-{}@2.0", name.trim_end_matches("_seed0")))
            .collect();
        Problem::new(format!("gavel:{variant} is no trace")).hint(format!(
            "expected {}, with jobs per hour after the @",
            names.join(" or ")
        ))
    };
    let (name, rate) = variant.split_once('@').ok_or_else(wrong)?;
    let rate: f64 = rate.parse().map_err(|_| wrong())?;
    let name = name.strip_prefix("continuous-").ok_or_else(wrong)?;
    if rate <= 0.0 || !rate.is_finite() || !known.contains(&format!("{name}_seed0")) {
        return Err(wrong().into());
    }
    let path = places.find(&format!("trace_continuous_{name}_seed0.csv"))?;
    units(&path, rate, places)
}

/// A unit trace at so many jobs an hour.
fn units(path: &Path, rate: f64, places: &Places) -> anyhow::Result<Vec<GavelJob>> {
    let table = places.find("job_table.csv")?;
    let programs = read_gavel_programs(&table.display().to_string(), &files::text(&table)?)?;
    let mut jobs = read_gavel_units(&path.display().to_string(), &files::text(path)?, &programs)?;
    for job in &mut jobs {
        job.came *= 3600.0 / rate;
    }
    Ok(jobs)
}

/// `8xv100,16xp100`: kinds of which speeds are known, and how many.
fn fleet(text: &str, measured: &GavelSpeeds) -> anyhow::Result<Vec<(String, u32)>> {
    let mut known: Vec<&str> = measured
        .alone
        .iter()
        .map(|(kind, ..)| kind.as_str())
        .collect();
    known.sort_unstable();
    known.dedup();
    let wrong = |why: String| {
        Problem::new(format!("--fleet {text}: {why}")).hint(format!(
            "such as --fleet {FLEET}; speeds are known of {}",
            known.join(", ")
        ))
    };
    let mut supply: Vec<(String, u32)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (count, kind) = part
            .split_once('x')
            .ok_or_else(|| wrong(format!("{part:?} is not COUNTxKIND")))?;
        let count = count
            .parse::<u32>()
            .ok()
            .filter(|count| *count <= MOST_GPUS);
        let count = count.ok_or_else(|| wrong(format!("{part:?} is not COUNTxKIND")))?;
        let kind = kind.to_ascii_lowercase();
        if !known.contains(&kind.as_str()) {
            return Err(wrong(format!("no speeds are known of {kind}")).into());
        }
        if supply.iter().any(|(other, _)| *other == kind) {
            return Err(wrong(format!("{kind} is there twice")).into());
        }
        supply.push((kind, count));
    }
    Ok(supply)
}
