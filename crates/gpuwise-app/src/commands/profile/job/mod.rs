//! `gpuwise profile run`: a job is wrapped, and what it did is seen, kept and compared.

mod child;
mod hook;
mod sampled;
mod variants;

use super::{concluded, keep::KeepFlags};
use crate::schemas::AnswerName;
use crate::{
    catalogue,
    commands::{Context, Exit},
    error::Problem,
    profiles::{self, ProfileQuery},
    progress,
};
use child::Ended;
use gpuwise_domain::profile::figure::{Figure, Scope, Summary, Value};
use gpuwise_view::{
    figures,
    record::{self, Fields, Record},
};
use std::path::{Path, PathBuf};
use variants::Variant;

/// Flags of `gpuwise profile run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Steps to profile: from the first, before the last; of an optimizer, else of the outermost module
    #[arg(long, value_name = "FIRST..LAST", default_value = "5..10", value_parser = steps)]
    steps: (u32, u32),
    /// How to look
    #[arg(long, value_enum, default_value_t = How::Auto)]
    how: How,
    /// Run once with each of these batch sizes: {batch} in the command, and BATCH_SIZE
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    batch_sizes: Vec<u64>,
    /// Run once with each of these values: {name} in the command, and the variable NAME
    #[arg(long, value_name = "NAME=A,B", value_parser = variants::sweep)]
    sweep: Vec<(String, Vec<String>)>,
    /// Keep the traces here [default: they are read and removed]
    #[arg(long, value_name = "DIRECTORY")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepFlags,
    /// The job, such as -- python train.py --batch {batch}
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How a job is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// PyTorch's profiler where the job imports torch; samples of the GPUs where there is a driver
    Auto,
    /// PyTorch's profiler alone
    Pytorch,
    /// Nsight Systems, which must be installed
    Nsight,
    /// Samples of the GPUs alone, ten a second
    Sample,
}

/// `5..10`.
fn steps(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once("..").ok_or("write it as FIRST..LAST")?;
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|_| format!("{text:?} is no number of a step"))
    };
    match (number(first)?, number(last)?) {
        (first, last) if first < last => Ok((first, last)),
        _ => Err("the last step comes after the first".into()),
    }
}

/// What became of one variant.
pub(crate) struct Outcome {
    variant: Variant,
    ended: Ended,
    summary: Option<Summary>,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let wanted = ProfileQuery::new(&loaded)?;
    let variants = variants::all(&flags.batch_sizes, &flags.sweep);
    if flags.how == How::Nsight {
        child::nsight_is_there()?;
    }
    let store = flags
        .keep
        .save
        .then(|| flags.keep.database.open())
        .transpose()?;
    let mut outcomes = Vec::new();
    for variant in variants {
        if !variant.values.is_empty() {
            progress::say(&format!("-- {}", variant.shown()));
        }
        let folder = folder(flags.traces.as_deref(), &variant)?;
        let ended = child::run(flags, &variant, folder.path())?;
        let summary = concluded_of(
            flags,
            &wanted,
            &variant,
            folder.path(),
            &ended,
            store.as_ref(),
        )?;
        let stopped = ended.interrupted;
        outcomes.push(Outcome {
            variant,
            ended,
            summary,
        });
        if stopped {
            progress::say("interrupted: what was seen so far is below");
            break;
        }
    }
    context
        .answering(AnswerName::ProfileVariants)
        .table(&record::table(&outcomes))?;
    let worst = outcomes
        .iter()
        .map(|one| one.ended.code)
        .find(|code| *code != 0);
    Ok(worst.map_or(Exit::Yes, Exit::Code))
}

/// Where the traces of one variant lie.
enum Folder {
    Kept(PathBuf),
    Passing(tempfile::TempDir),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.path(),
        }
    }
}

fn folder(kept: Option<&Path>, variant: &Variant) -> anyhow::Result<Folder> {
    let Some(kept) = kept else {
        let folder = tempfile::Builder::new().prefix("gpuwise").tempdir();
        return Ok(Folder::Passing(folder.map_err(|error| {
            Problem::new("no place for a trace can be made").because(error)
        })?));
    };
    let path = match variant.file_name() {
        Some(name) => kept.join(name),
        None => kept.to_path_buf(),
    };
    std::fs::create_dir_all(&path)
        .map_err(|error| Problem::new(format!("cannot make {}", path.display())).because(error))?;
    Ok(Folder::Kept(std::path::absolute(&path).unwrap_or(path)))
}

/// What one variant showed; it is kept where that is asked for.
fn concluded_of(
    flags: &Flags,
    wanted: &ProfileQuery,
    variant: &Variant,
    folder: &Path,
    ended: &Ended,
    store: Option<&gpuwise_store::Store>,
) -> anyhow::Result<Option<Summary>> {
    let mut files = profiles::expand(&[folder.to_path_buf()], true).unwrap_or_default();
    // Nsight Systems leaves its own report beside the export that is read.
    files.retain(|file| file.extension().is_none_or(|ending| ending != "nsys-rep"));
    let everything = profiles::measure(&files, wanted);
    let without_work = everything.profiled.is_empty();
    if without_work && ended.sampled.is_empty() {
        for file in &everything.unusable {
            progress::say(&format!("note: {}: {:#}", file.file, file.error));
        }
        progress::say(&format!("note: {}", hook::why_nothing(folder, flags.steps)));
        return Ok(None);
    }
    let source = if without_work { "sampling" } else { "profile" };
    let mut concluded = concluded::from(everything, &wanted.limits);
    // Each time is a run of its own, whatever it wrote.
    concluded
        .contents
        .push(format!("started {}", ended.started_at_ns));
    concluded.summary.files = vec![flags.command.join(" ")];
    concluded
        .summary
        .figures
        .extend(ended.sampled.iter().cloned());
    concluded.summary.figures.push(Figure {
        name: "job_seconds".into(),
        scope: Scope::default(),
        value: Value::Real(ended.seconds),
    });
    for product in &ended.products {
        if !concluded.summary.hardware.contains(product) {
            concluded.summary.hardware.push(product.clone());
        }
    }
    if concluded.summary.started_at_ns.is_none() {
        concluded.summary.started_at_ns = Some(ended.started_at_ns);
    }
    if let Some(store) = store {
        let mut run = flags.keep.run(&concluded, source, wanted, &variant.values);
        if flags.keep.name.is_none() {
            run.name = flags.command.join(" ");
        }
        super::keep::said(&run, store.save(&run)?);
    }
    Ok(Some(concluded.summary))
}

impl Outcome {
    fn figure(&self, name: &str) -> Option<f64> {
        let mut all = self.summary.as_ref()?.figures.iter();
        all.find_map(|figure| figure.value.real().filter(|_| figure.name == name))
    }

    fn first_finding(&self) -> Option<&str> {
        let first = self.summary.as_ref()?.findings.first()?;
        Some(&first.class)
    }
}

impl Record for Outcome {
    const NAME: &'static str = "Variant";

    fn fields(of: &mut Fields<'_, Self>) {
        let percent = |value: f64| format!("{value:.1}");
        of.column("variant", "variant", |o| o.variant.shown())
            .wrap(16);
        of.column("exit_code", "exit", |o| u32::from(o.ended.code));
        of.column("job_seconds", "job", |o| o.ended.seconds)
            .said_of(figures::seconds);
        of.column("step_median_ns", "step, median", |o| {
            o.figure("step_median_ns")
        })
        .said_of(|ns| figures::seconds(ns * 1e-9));
        of.column("idle_pct", "GPU idle, %", |o| o.figure("idle_pct"))
            .said_of(percent);
        of.column("gpu_util_mean", "GPU use, mean, %", |o| {
            o.figure("gpu_util_mean")
        })
        .said_of(|share| percent(share * 100.0))
        .priority(2);
        of.column("memory_used_peak_bytes", "memory, peak", |o| {
            o.figure("memory_used_peak")
        })
        .said_of(|bytes| figures::bytes(gpuwise_units::Bytes::from_f64(bytes)))
        .priority(3);
        of.column("first_finding", "limited by", Self::first_finding)
            .said_as(|class| class.replace('_', " "))
            .wrap(14)
            .priority(4);
    }
}
