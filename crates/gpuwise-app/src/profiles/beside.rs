//! Files that were recorded while a trace was: read, and laid on its time axis.

use super::{ProfileQuery, Profiled};
use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
};
use gpuwise_domain::profile::{
    figures::RankFigures,
    joined::{Joined, JoinedFile},
    timeline::Timeline,
};
use gpuwise_measure::joined::{Axis, JoinError, assign, give_clocks, join, unassigned};
use gpuwise_read::{
    recording::{self, RecordingError},
    telemetry::FieldNames,
};
use jiff::Timestamp;
use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

/// Flags of what was recorded beside a trace.
#[derive(Debug, clap::Args)]
#[group(id = "beside", multiple = true)]
pub struct BesideFlags {
    /// Lay this recording on the trace's time axis: GPU counters (nvidia-smi, DCGM), the host (sadf -d,
    /// node_exporter), metrics of the application (CSV, JSON lines, trainer_state.json); once for each
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// Seconds that are added to the times of --with: of all files, or of one; for a trace without a
    /// date, what makes them count from its first GPU work
    #[arg(long, value_name = "[FILE=]SECONDS", value_parser = offset, requires = "with", allow_hyphen_values = true)]
    pub offset: Vec<Offset>,
    /// When the first GPU work of the trace ran, where the trace does not say: 2026-07-14T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "with")]
    pub trace_start: Option<i64>,
}

/// What is added to times of one file, or of all.
#[derive(Debug, Clone)]
pub struct Offset {
    file: Option<String>,
    ns: i64,
}

fn offset(text: &str) -> Result<Offset, String> {
    let (file, number) = match text.rsplit_once('=') {
        Some((file, number)) => (Some(file.to_owned()), number),
        None => (None, text),
    };
    let seconds: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{number:?} is no number of seconds"))?;
    if seconds.abs() < 4e9 {
        let ns = (seconds * 1e9).round() as i64;
        Ok(Offset { file, ns })
    } else {
        Err("it is more than a hundred years".into())
    }
}

fn moment(text: &str) -> Result<i64, String> {
    let read: Result<Timestamp, _> = text.trim().parse();
    let read =
        read.map_err(|_| "write it with its time zone, as 2026-07-14T09:00:00Z".to_owned())?;
    i64::try_from(read.as_nanosecond()).map_err(|_| "it lies too far away".into())
}

/// Names of fields of telemetry, by the catalogue.
///
/// # Errors
/// When its rows cannot be read.
pub fn field_names(loaded: &Loaded) -> anyhow::Result<FieldNames> {
    let mut names = FieldNames::default();
    for (file, text) in catalogue::files(loaded, OwnRows::TelemetryFields) {
        names.add_fields(file, text)?;
    }
    for (file, text) in catalogue::files(loaded, OwnRows::DcgmFields) {
        names.add_dcgm(file, text)?;
    }
    Ok(names)
}

/// Lays files beside traces, whose findings are concluded again where a file has their clocks.
///
/// # Errors
/// When one cannot be read, or has no moment in common with the traces.
pub fn joined(
    flags: &BesideFlags,
    loaded: &Loaded,
    profiled: &mut [Profiled],
    query: &ProfileQuery,
) -> anyhow::Result<Joined> {
    if flags.with.is_empty() {
        return Ok(Joined::default());
    }
    if profiled.is_empty() {
        return Err(Problem::new("--with: none of the files is a trace with GPU work")
            .hint("name a trace of the PyTorch profiler, of Nsight Systems, or of TensorFlow or JAX")
            .into());
    }
    named(flags)?;
    let names = field_names(loaded)?;
    let figures: Vec<&RankFigures> = profiled.iter().map(|one| &one.measured.figures).collect();
    let timelines: Vec<&Timeline> = profiled.iter().map(|one| &one.timeline).collect();
    if flags.trace_start.is_some() && timelines.iter().any(|one| one.epoch_ns.is_some()) {
        return Err(
            Problem::new("--trace-start: the trace says itself when it was taken")
                .hint("--offset corrects a clock that is wrong")
                .into(),
        );
    }
    let axis = Axis::of(&timelines, &figures, flags.trace_start);
    let ranks: Vec<RankFigures> = figures.into_iter().cloned().collect();
    let mut joined = Joined {
        span_ns: axis.span_ns,
        started_at_ns: axis.started_at_ns,
        files: Vec::new(),
    };
    for path in &flags.with {
        let mut file = one(path, flags, &axis, &names)?;
        assign(&mut file, &ranks);
        if unassigned(&file) {
            file.notes.push(
                "which of its GPUs is the trace's is not known: findings do not use it".into(),
            );
        }
        joined.files.push(file);
    }
    for (place, one) in profiled.iter_mut().enumerate() {
        if give_clocks(&joined, place, &mut one.timeline, &one.measured.figures) {
            query.conclude_again(one);
        }
    }
    Ok(joined)
}

/// Offsets are of files that are there.
fn named(flags: &BesideFlags) -> anyhow::Result<()> {
    let names: Vec<String> = flags
        .with
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    for offset in &flags.offset {
        if let Some(file) = offset.file.as_ref().filter(|file| !names.contains(file)) {
            return Err(Problem::new(format!(
                "--offset {file}=…: no file of --with has this name"
            ))
            .hint(format!("there is {}", names.join(", ")))
            .into());
        }
    }
    Ok(())
}

fn one(
    path: &Path,
    flags: &BesideFlags,
    axis: &Axis,
    names: &FieldNames,
) -> anyhow::Result<JoinedFile> {
    let shown = path.display().to_string();
    let text = content(path)
        .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
    let recording = recording::read(&text, names).map_err(|error| unreadable(&shown, &error))?;
    let own = flags
        .offset
        .iter()
        .rfind(|offset| offset.file.as_ref() == Some(&shown));
    let all = || flags.offset.iter().rfind(|offset| offset.file.is_none());
    let offset = own.or_else(all).map(|offset| offset.ns);
    join(axis, &shown, recording, offset).map_err(|error| apart(&shown, &error).into())
}

/// A file's text, unpacked where it is compressed.
fn content(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    gpuwise_read::kineto::open(std::fs::File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(file: &str, error: &RecordingError) -> Problem {
    let problem = Problem::new(format!("{file}: {error}"));
    match error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn apart(file: &str, error: &JoinError) -> Problem {
    match error {
        JoinError::NoStart => Problem::new(format!("{file}: the trace does not say when it was taken"))
            .hint("--trace-start 2026-07-14T09:00:00Z says when its first GPU work ran"),
        JoinError::NoDate => Problem::new(format!("{file}: its times count from a beginning of their own"))
            .hint(format!("--offset {file}=0 if that is the trace's first GPU work, else the seconds between")),
        JoinError::NoSteps => Problem::new(format!(
            "{file}: it has numbers of steps and no times, and the trace has no numbered steps"
        ))
        .hint("call the profiler's step() in the training loop, or record a time with each row"),
        JoinError::Apart { file: span, trace, zone_ns } => {
            let around = span.0 < trace.0 && span.1 > trace.1;
            let what = if around {
                "has no sample near the trace"
            } else {
                "does not overlap the trace"
            };
            let problem = Problem::new(format!(
                "{file} {what}: it spans {}, the trace {}",
                utc(*span),
                utc(*trace)
            ));
            match zone_ns {
                Some(zone) => problem.hint(format!(
                    "its times say no time zone and are taken as UTC: --offset {file}={} lays them beside the trace",
                    zone / 1_000_000_000
                )),
                None => problem.hint("record it while the trace is taken; --offset corrects a clock that is wrong"),
            }
        }
        JoinError::ApartFromStart { file: span, span_ns } => Problem::new(format!(
            "{file} does not overlap the trace: from its first GPU work on it spans {} s to {} s, the trace 0 to {} s",
            seconds(span.0),
            seconds(span.1),
            seconds(*span_ns)
        ))
        .hint("--offset says what is added to its times"),
        JoinError::ApartInSteps { file: span, trace } => Problem::new(format!(
            "{file} does not overlap the trace: it has steps {} to {}, the trace {} to {}",
            span.0, span.1, trace.0, trace.1
        )),
    }
}

fn seconds(ns: i64) -> String {
    gpuwise_units::significant(ns as f64 * 1e-9, 4)
}

fn utc((from, to): (i64, i64)) -> String {
    let at = |ns: i64| match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => format!("{ns} ns"),
    };
    format!("{} to {}", at(from), at(to))
}
