//! `gpuwise replay`: traces of clusters through the scheduler, policies side by side.

mod files;
mod gavel;
mod genai;
#[cfg(feature = "serve")]
mod log;
mod openb;
mod past;
mod philly;

use super::{Context, Exit};
use crate::{catalogue, error::Problem, settings};
use files::Places;
use gpuwise_domain::placement::ReplayRow;
use gpuwise_read::fleet::{is_gavel_trace, is_gavel_unit_trace, is_past, is_philly_trace};
use gpuwise_sched::policy;
use std::path::Path;

pub fn run(context: &Context, flags: &settings::Replay) -> anyhow::Result<Exit> {
    let rows = rows(context, flags)?;
    context.table(&gpuwise_view::replay::rows(&rows))?;
    Ok(Exit::Yes)
}

/// Told by its name, or of a directory by what is in it.
fn rows(context: &Context, flags: &settings::Replay) -> anyhow::Result<Vec<ReplayRow>> {
    if let Some(file) = &flags.file {
        if flags.trace != "log" {
            let what = format!(
                "replay {} {}: one trace at a time",
                flags.trace,
                file.display()
            );
            return Err(Problem::new(what)
                .hint("`gpuwise replay log FILE` replays a broker's log")
                .into());
        }
        return of_file(context, flags, file);
    }
    if flags.trace == "log" && !Path::new("log").exists() {
        let what = "replay log: say which: the file that `gpuwise store export` wrote";
        return Err(Problem::new(what).into());
    }
    let (name, variant) = flags
        .trace
        .split_once(':')
        .unwrap_or((flags.trace.as_str(), ""));
    if name == "openb" {
        refuse_others(flags, Trace::Openb)?;
        return openb::rows(flags, None, variant);
    }
    if gavel::knows(&flags.trace) {
        refuse_others(flags, Trace::Gavel)?;
        return gavel::rows(flags, None);
    }
    let path = Path::new(&flags.trace);
    if path.is_file() {
        return of_file(context, flags, path);
    }
    if let Some((file, rate)) = flags.trace.rsplit_once('@')
        && Path::new(file).is_file()
    {
        refuse_others(flags, Trace::Gavel)?;
        return gavel::unit_rows(flags, Path::new(file), rate);
    }
    let is_genai = path.is_dir() && Places::new(Some(path), &[]).has("gpu_mem_mib_5min.csv");
    if name == "genai" || is_genai {
        refuse_others(flags, Trace::Genai)?;
        let loaded = catalogue::load(&context.app.overrides)?;
        return genai::rows(&loaded, flags, is_genai.then_some(path));
    }
    let is_philly = path.is_dir() && Places::new(Some(path), &[]).has(philly::FILES[1]);
    if name == "philly" || is_philly {
        refuse_others(flags, Trace::Philly)?;
        let only = if is_philly { "" } else { variant };
        return philly::rows(flags, is_philly.then_some(path), only);
    }
    if path.is_dir() {
        refuse_others(flags, Trace::Openb)?;
        if !openb::is_in(path) {
            return Err(Problem::new(format!(
                "{}: no trace that is known is in it",
                path.display()
            ))
            .hint(TRACES)
            .into());
        }
        return openb::rows(flags, Some(path), "");
    }
    Err(Problem::new(format!(
        "{:?} is no trace that is known, and no such file is there",
        flags.trace
    ))
    .hint(TRACES)
    .into())
}

/// A kind of trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    Openb,
    Philly,
    Genai,
    Gavel,
    /// Of somebody's own cluster.
    Past,
    /// Of a broker: its fleet is in it.
    #[cfg_attr(
        not(feature = "serve"),
        expect(dead_code, reason = "who has no broker has no log")
    )]
    Log,
}

/// Refuses flags that would change nothing on this kind of trace.
fn refuse_others(flags: &settings::Replay, trace: Trace) -> anyhow::Result<()> {
    let unknown = flags.durations != settings::Durations::Known;
    let given = [
        ("--lint", flags.lint, Trace::Openb, "openb"),
        ("--gpus", flags.gpus.is_some(), Trace::Genai, "genai"),
        (
            "--host-models",
            flags.host_models.is_some(),
            Trace::Genai,
            "genai",
        ),
        (
            "--fleet",
            flags.fleet.is_some() && trace != Trace::Past,
            Trace::Gavel,
            "gavel, or of your own cluster",
        ),
        ("--speeds", flags.speeds.is_some(), Trace::Gavel, "gavel"),
        ("--durations", unknown, Trace::Gavel, "gavel"),
        ("--no-sharing", flags.no_sharing, Trace::Gavel, "gavel"),
    ];
    match given
        .iter()
        .find(|(_, given, of, _)| *given && *of != trace)
    {
        Some((flag, _, _, of)) => Err(Problem::new(format!(
            "{flag} is for traces of {of}, and would change nothing on this one"
        ))
        .hint("leave it out")
        .into()),
        None => Ok(()),
    }
}

/// What can be named.
const TRACES: &str = "traces: openb, openb:VARIANT, genai, gavel, gavel:continuous-single@RATE, philly, philly:CLUSTER, a directory or file of one of these forms, or what ran on your cluster (sacct --parsable2, kubectl get pods -A -o json), or a job file (TOML)";

/// A file of a trace, told by its header; what belongs to it stands beside it.
fn of_file(
    context: &Context,
    flags: &settings::Replay,
    path: &Path,
) -> anyhow::Result<Vec<ReplayRow>> {
    let text = files::text(path)?;
    if past::is_job_file(path) {
        refuse_others(flags, Trace::Past)?;
        return past::rows(context, flags, path, &text);
    }
    let on_fleet = flags
        .fleet
        .as_deref()
        .is_some_and(|on| Path::new(on).is_file());
    #[cfg(feature = "serve")]
    if log::is_backup(&text) {
        let what = format!("{} is a backup of a broker's log", path.display());
        return Err(Problem::new(what)
            .hint("`gpuwise store restore` puts it into a database, and `store export` writes what is replayed")
            .into());
    }
    #[cfg(feature = "serve")]
    if log::is_log(&text) {
        refuse_others(flags, Trace::Log)?;
        return log::rows(context, flags, path, &text);
    }
    let other = is_gavel_trace(&text) || is_gavel_unit_trace(&text) || is_philly_trace(&text);
    if (on_fleet || !other) && is_past(&text) {
        refuse_others(flags, Trace::Past)?;
        return past::rows(context, flags, path, &text);
    }
    if is_gavel_trace(&text) {
        refuse_others(flags, Trace::Gavel)?;
        return gavel::rows(flags, Some(path));
    }
    if is_gavel_unit_trace(&text) {
        let shown = path.display();
        return Err(Problem::new(format!(
            "{shown} counts time in mean times between two jobs, and it is not said how long that is"
        ))
        .hint(format!("name a rate, such as {shown}@2.0 for two jobs an hour"))
        .into());
    }
    if is_philly_trace(&text) {
        refuse_others(flags, Trace::Philly)?;
        return philly::file_rows(flags, path, &text);
    }
    let (folder, stem) = (files::folder(path), files::stem(path));
    let places = Places::new(Some(folder), &[]);
    if let Some(variant) = stem.strip_prefix("openb_pod_list_") {
        refuse_others(flags, Trace::Openb)?;
        // The lists lie in one directory, the orders in which pods come in another beside it.
        let root = folder
            .parent()
            .filter(|root| root.join("openb_seq").is_dir());
        return openb::rows(flags, Some(root.unwrap_or(folder)), variant);
    }
    if genai::FILES
        .iter()
        .any(|name| files::stem(Path::new(name)) == stem)
        && places.has("gpu_mem_mib_5min.csv")
    {
        refuse_others(flags, Trace::Genai)?;
        let loaded = catalogue::load(&context.app.overrides)?;
        return genai::rows(&loaded, flags, Some(folder));
    }
    Err(Problem::new(format!(
        "{} is no trace that is known: its header is {:?}",
        path.display(),
        text.lines().next().unwrap_or("")
    ))
    .hint(TRACES)
    .into())
}

/// Seeds as a range (`42..46`, both ends included) or a list; `None`: all that there are.
fn seeds(given: Option<&str>, there: &[u64]) -> anyhow::Result<Vec<u64>> {
    let Some(given) = given else {
        return Ok(there.to_vec());
    };
    let wanted = range(given)?;
    if let Some(missing) = wanted.iter().find(|seed| !there.contains(seed)) {
        let known: Vec<String> = there.iter().map(u64::to_string).collect();
        return Err(
            Problem::new(format!("--seeds {given}: the trace has no seed {missing}"))
                .hint(format!("it has {}", known.join(", ")))
                .into(),
        );
    }
    Ok(wanted)
}

/// Seeds as they are given.
fn range(given: &str) -> anyhow::Result<Vec<u64>> {
    let wrong = || {
        Problem::new(format!("--seeds {given}: expected a range or a list"))
            .hint("such as --seeds 42..46 or --seeds 42,44")
    };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    Ok(match given.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
            if first > last || last - first > 10_000 {
                return Err(wrong().into());
            }
            (first..=last).collect()
        }
        None => given.split(',').map(number).collect::<Result<_, _>>()?,
    })
}

/// Policies that were asked for, or all: what `find` gives for their names.
fn policies<T>(
    wanted: &[String],
    trace: &str,
    known: &[&str],
    find: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<Vec<T>> {
    if wanted.is_empty() {
        return Ok(known.iter().filter_map(|name| find(name)).collect());
    }
    let wanted = wanted.iter().map(|name| {
        find(name).ok_or_else(|| {
            let problem = Problem::new(format!(
                "--policy {name}: there is no such policy on {trace}"
            ))
            .hint(format!("policies there: {}", known.join(", ")));
            if policy::find(name).is_some() {
                problem.hint(format!(
                    "{name} chooses nodes for jobs: on openb, and in `gpuwise place`"
                ))
            } else {
                problem
            }
            .into()
        })
    });
    wanted.collect()
}
