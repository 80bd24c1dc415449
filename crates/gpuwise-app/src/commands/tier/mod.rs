//! `gpuwise tier`: which tier for each workload.

mod evaluate;
mod model_file;
mod page;
mod show;
mod tiers;
mod workloads;

pub(crate) use show::schema;

use super::{Context, Exit};
use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    names,
    operators::functions,
    questions::read_text,
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::tier::{Job, TierRules};
use gpuwise_measure::{
    learn::forest::{Forest, ForestSettings},
    tier::{
        engine::{Deciders, Decision, decide},
        learned::{Lesson, learn},
        scaling::Tier,
    },
};
use gpuwise_operators::Functions;
use gpuwise_read::tier::{read_jobs, read_rules};
use std::path::{Path, PathBuf};

/// Flags of `gpuwise tier`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Workloads as they were profiled, one a row (CSV, also .gz; `-` is standard input)
    #[arg(value_name = "JOBS", required_unless_present_any = ["evaluate", "save"])]
    jobs: Option<PathBuf>,
    /// Rules of your own, which decide before operator times do (TOML)
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Learn a forest from workloads that were measured on two tiers (columns measured_gpu, measured_s)
    #[arg(long, value_name = "FILE")]
    learn: Vec<PathBuf>,
    /// Write the learned forest into a file
    #[arg(long, value_name = "FILE", requires = "learn")]
    save: Option<PathBuf>,
    /// Use a forest that was learned before
    #[arg(long, value_name = "FILE", conflicts_with = "learn")]
    forest: Option<PathBuf>,
    /// Forest and operator times abstain where they expect to lose more than this, in percent of the cost
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    abstain_above: f64,
    /// Choose only among these GPUs, and what each runs on
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    gpus: Vec<String>,
    /// A price list of one's own (CSV)
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// Say what rules, forest and physics each think and why, and why other tiers do not fit
    #[arg(long)]
    explain: bool,
    /// Judge tier choice on measured rows that were not learned from, as Markdown (takes minutes)
    #[arg(long, conflicts_with_all = ["jobs", "learn", "save", "forest"])]
    evaluate: bool,
    #[command(flatten, next_help_heading = "What to judge on")]
    judged: evaluate::AccuracyFlags,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides.with_prices(&flags.prices))?;
    if flags.evaluate {
        return evaluate::run(context, &loaded, &flags.judged);
    }
    let rules = rules(flags.rules.as_deref(), &loaded)?;
    let functions = functions(&loaded)?;
    let saved = flags.save.as_deref().map(Pending::new).transpose()?;
    let forest = match &flags.forest {
        Some(file) => Some(model_file::read(file)?),
        None if flags.learn.is_empty() => None,
        None => {
            let by = (&rules, &functions);
            Some(learned(&loaded, &flags.learn, by, context.app.seed)?)
        }
    };
    if let (Some(file), Some(forest)) = (saved, &forest) {
        file.finish(&model_file::write(forest)?)?;
    }
    let Some(jobs) = &flags.jobs else {
        return Ok(Exit::Yes);
    };
    let only = flags
        .gpus
        .iter()
        .map(|name| names::gpu(&loaded.catalogue, "--gpus", name).map(|gpu| gpu.name.clone()))
        .collect::<anyhow::Result<Vec<String>>>()?;
    let by = Deciders {
        rules: &rules,
        rules_first: flags.rules.is_some(),
        functions: &functions,
        forest: forest.as_ref(),
        most_regret: flags.abstain_above / 100.0,
    };
    let mut decided = Vec::new();
    for job in jobs_of(jobs)? {
        decided.push(decision(&loaded, job, &only, &by)?);
    }
    show::show(context, &decided, flags.explain)?;
    let all = decided.iter().all(|one| one.decision.decided.is_some());
    Ok(if all { Exit::Yes } else { Exit::No })
}

/// A job with the tiers it was decided among.
struct Decided {
    job: Job,
    now: Tier,
    tiers: Vec<Tier>,
    decision: Decision,
}

fn decision(
    loaded: &Loaded,
    job: Job,
    only: &[String],
    by: &Deciders<'_>,
) -> anyhow::Result<Decided> {
    let now = present(loaded, &job)?;
    let tiers = tiers::all(loaded, &now, only);
    let decision = decide(&job, &now, &tiers, by);
    Ok(Decided {
        job,
        now,
        tiers,
        decision,
    })
}

fn present(loaded: &Loaded, job: &Job) -> anyhow::Result<Tier> {
    let gpu = names::gpu(&loaded.catalogue, "gpu", &job.gpu)
        .with_context(|| format!("job {:?}", job.name))?;
    Ok(tiers::whole(loaded, gpu, job.gpus))
}

fn jobs_of(path: &Path) -> anyhow::Result<Vec<Job>> {
    let text = read_text(path)?;
    let jobs = read_jobs(&text).map_err(|error| {
        Problem::new(format!("{}", path.display()))
            .because(error)
            .hint("`gpuwise example jobs.csv` prints a table, and `gpuwise tier --help` says what it is")
    })?;
    if jobs.is_empty() {
        return Err(Problem::new(format!("{} holds no job", path.display())).into());
    }
    Ok(jobs)
}

fn rules(file: Option<&Path>, loaded: &Loaded) -> anyhow::Result<TierRules> {
    match file {
        None => {
            let (file, text) = catalogue::file(loaded, OwnRows::TierRules);
            read_rules(text).with_context(|| file.to_owned())
        }
        Some(path) => read_rules(&read_text(path)?).map_err(|error| {
            Problem::new(format!("{}", path.display()))
                .because(error)
                .hint("`gpuwise example tier_rules.toml` prints those that are used without")
                .into()
        }),
    }
}

/// Least rows and jobs that a forest is grown on: below, its range would rest on chance.
const LEAST_LESSONS: usize = 20;

fn learned(
    loaded: &Loaded,
    files: &[PathBuf],
    (rules, functions): (&TierRules, &Functions),
    seed: u64,
) -> anyhow::Result<Forest> {
    let mut taught = Vec::new();
    for file in files {
        for job in jobs_of(file)? {
            let Some(measured) = job.measured.clone() else {
                continue;
            };
            let from = present(loaded, &job)?;
            let gpu = names::gpu(&loaded.catalogue, "measured_gpu", &measured.gpu)
                .with_context(|| format!("job {:?}", job.name))?;
            let to = tiers::whole(loaded, gpu, measured.gpus);
            taught.push((job, from, to, measured.seconds));
        }
    }
    let lessons: Vec<Lesson<'_>> = taught
        .iter()
        .map(|(job, from, to, seconds)| Lesson {
            job,
            from,
            to,
            seconds: *seconds,
        })
        .collect();
    let (forest, rows) = learn(
        &lessons,
        (&rules.scaling, functions),
        &ForestSettings::default(),
        seed,
    );
    if rows < LEAST_LESSONS {
        return Err(Problem::new(format!(
            "only {rows} rows can be learned from, {LEAST_LESSONS} are needed"
        ))
        .hint("a row needs measured_gpu, measured_s, and where its time goes (compute_s and memory_s, flops and bytes, or matmuls)")
        .into());
    }
    Ok(forest)
}
