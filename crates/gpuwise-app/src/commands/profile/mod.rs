//! `gpuwise profile`: what a job did on its GPUs, what limits it, what is missing in the input.

mod compat;
mod concluded;
#[cfg(feature = "database")]
mod each;
mod gpu;
#[cfg(all(feature = "database", feature = "bench"))]
mod job;
#[cfg(feature = "database")]
mod keep;
mod layouts;
mod operators;
#[cfg(feature = "database")]
mod shards;
mod streams;
mod written;

pub use concluded::Concluded;

use super::{Context, Exit};
use crate::{
    App,
    catalogue::{self, Loaded},
    error::Problem,
    names,
    profiles::{
        self, ProfileQuery, Unusable,
        beside::{BesideFlags, joined},
    },
    settings::Format,
};
use gpuwise_domain::profile::figures::Window;
use gpuwise_measure::figures::definitions::{FIGURES, definition};
use gpuwise_view::profile::{sources as of_sources, summary as view};
#[cfg(all(feature = "bench", feature = "cuda", feature = "database"))]
use gpuwise_view::{profile::streams as view_streams, record};
use gpuwise_wire::profile_to_json;
use std::{fmt::Write as _, path::PathBuf};
use streams::Part;
use written::Written;

/// Flags of `gpuwise profile`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    /// Profiles of one or many ranks, directories of them, or s3://BUCKET/PREFIX; the format is told by
    /// the content
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only this range of time, in milliseconds from the first GPU work on, such as 100..250
    #[arg(long, value_name = "FROM..TO", value_parser = window)]
    window: Option<Window>,
    /// Only the device of this number in the file
    #[arg(long, value_name = "NUMBER")]
    device: Option<i64>,
    /// The GPU, by its name in the catalogue, where a file does not name it or its peaks: for FLOPs
    /// utilisation, operators and the roofline of counters
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Say how each figure that is shown is computed, and where its definition is from
    #[arg(long)]
    explain: bool,
    /// Give the figures of another tool instead, by its own definitions (traces of the PyTorch profiler)
    #[arg(long, value_enum, value_name = "TOOL", conflicts_with_all = ["window", "device", "explain", "beside", "layouts"])]
    compat: Option<compat::Compat>,
    #[command(flatten)]
    part: streams::PartFlags,
    #[command(flatten)]
    beside: BesideFlags,
    #[command(flatten)]
    layouts: layouts::LayoutFlags,
    #[command(flatten)]
    written: written::Flags,
    /// Each file is a job of its own: one line for each
    #[cfg(feature = "database")]
    #[arg(long, conflicts_with_all = ["explain", "compat", "part", "written", "beside", "layouts"])]
    each: bool,
    #[cfg(feature = "database")]
    #[command(flatten)]
    sharding: shards::ShardFlags,
    #[cfg(feature = "database")]
    #[command(flatten)]
    keep: keep::KeepFlags,
}

/// What `gpuwise profile` does besides reading files.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run a job and profile some of its steps, once or with several batch sizes
    ///
    /// Python programs that use PyTorch are profiled by PyTorch's own profiler, without a change to
    /// them; GPUs of this machine are sampled ten times a second where there is a driver. The exit
    /// code is that of the job.
    #[cfg(all(feature = "database", feature = "bench"))]
    Run(job::Flags),
    /// Time what a GPU of this machine does: memory, copies, launches, matrix products
    ///
    /// Each is timed by events of the GPU, in bunches of two milliseconds at least, after a warm-up; what
    /// is shown is the median of the repeats. Weights of matrix products are never those of the product
    /// before, so that they come from memory.
    Gpu(Box<gpu::Flags>),
}

/// Milliseconds from one to another.
fn window(text: &str) -> Result<Window, String> {
    let (from, to) = text
        .split_once("..")
        .ok_or("write it as FROM..TO, in milliseconds")?;
    let nanoseconds = |text: &str| -> Result<i64, String> {
        let milliseconds: f64 = text
            .trim()
            .parse()
            .map_err(|_| format!("{text:?} is no number of milliseconds"))?;
        if milliseconds.is_finite() && (0.0..=1e12).contains(&milliseconds) {
            Ok((milliseconds * 1e6).round() as i64)
        } else {
            Err(format!("{text:?} is no time from the first work on"))
        }
    };
    let window = Window {
        start_ns: nanoseconds(from)?,
        end_ns: nanoseconds(to)?,
    };
    if window.length() > 0 {
        Ok(window)
    } else {
        Err("it ends before it begins".into())
    }
}

/// What a job did on its GPUs, by its files: figures, findings, what is missing.
///
/// # Errors
/// When no file can be used, or a setting names what is not known.
pub fn profile(app: &App, flags: &Flags) -> anyhow::Result<Concluded> {
    let loaded = catalogue::load(&app.overrides)?;
    let files = profiles::expand(&flags.files, app.offline)?;
    let query = query(app.offline, flags, &loaded)?;
    concluded(app, &files, &query, flags, &loaded)
}

/// What is asked of the files.
fn query(offline: bool, flags: &Flags, loaded: &Loaded) -> anyhow::Result<ProfileQuery> {
    let mut query = ProfileQuery::new(loaded)?;
    query.offline = offline;
    query.window = flags.window;
    query.device = flags.device;
    let gpu = flags.gpu.as_deref();
    let gpu = gpu.map(|name| names::gpu(&loaded.catalogue, "--gpu", name));
    query.gpu = gpu.transpose()?.cloned();
    #[cfg(feature = "database")]
    {
        query.identified = flags.keep.save;
        query.apart = flags.each;
    }
    Ok(query)
}

fn concluded(
    app: &App,
    files: &[PathBuf],
    query: &ProfileQuery,
    flags: &Flags,
    loaded: &Loaded,
) -> anyhow::Result<Concluded> {
    let everything = profiles::measure(files, query);
    if everything.profiled.is_empty() && everything.sources.is_empty() {
        return Err(none(everything.unusable, files.len()));
    }
    let gpu = flags.gpu.as_deref();
    concluded::with(
        everything,
        &query.limits,
        |profiled| joined(&flags.beside, loaded, profiled, query),
        |timelines, figures| {
            layouts::compared(app, &flags.layouts, loaded, gpu, (timelines, figures))
        },
    )
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    match &flags.command {
        #[cfg(all(feature = "database", feature = "bench"))]
        Some(Command::Run(flags)) => return job::run(context, flags),
        Some(Command::Gpu(flags)) => return gpu::run(context, flags),
        None => {}
    }
    #[cfg(feature = "database")]
    if let Some(done) = shards::emitted(context, flags)? {
        return Ok(done);
    }
    let written = Written::new(&flags.written)?;
    if flags.written.compares_nothing(flags.part.part()) {
        return Err(
            Problem::new("--compare: nothing shows the two side by side")
                .hint("--html FILE writes a page of both, --operators compares them by operator")
                .into(),
        );
    }
    if let Some(tool) = flags.compat {
        return compat::run(context, &flags.files, tool);
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let wanted = query(context.app.offline, flags, &loaded)?;
    let part = flags.part.part();
    #[cfg(feature = "database")]
    if flags.keep.save && part.is_some() {
        return Err(Problem::new("--save keeps a profile, not one table of it")
            .hint("keep it by a run without --operators, --streams, --ranges or --series")
            .into());
    }
    let files = profiles::expand(&flags.files, wanted.offline)?;
    match part {
        Some(Part::Operators) => {
            return operators::run(context, &files, &flags.files, &wanted, written);
        }
        Some(part) => return streams::run(context, &files, &wanted, part),
        None => {}
    }
    #[cfg(feature = "database")]
    if flags.each {
        return each::run(context, flags, &files, &wanted);
    }
    let concluded = concluded(&context.app, &files, &wanted, flags, &loaded)?;
    written.finish(&concluded, &flags.files, &wanted)?;
    let (figures, summary) = (&concluded.figures, &concluded.summary);
    let sources = concluded.sources.as_slice();
    match context.form.format {
        Format::Table => {
            let style = context.form.style;
            let mut text = String::new();
            if !figures.ranks.is_empty() || sources.is_empty() {
                text += &view::text(figures, summary, style);
                if !sources.is_empty() {
                    text.push('\n');
                }
            }
            text += &of_sources::text(sources, style);
            if figures.ranks.is_empty() {
                for line in &summary.missing {
                    text.push('\n');
                    text += &style.wrap_after("missing: ", line, 2);
                    text.push('\n');
                }
            }
            if flags.explain {
                text += &explained(summary);
            }
            context.data(&text)?;
        }
        Format::Json => context.data(&profile_to_json(figures, sources, summary))?,
        Format::Csv => context.table(&view::figures(&summary.figures, |name| {
            definition(name).map_or("", |figure| figure.unit)
        }))?,
        Format::Md => {
            let mut text = String::new();
            if !figures.ranks.is_empty() || sources.is_empty() {
                text += &view::markdown(figures, summary);
            }
            text += &of_sources::markdown(sources);
            if flags.explain {
                text += &explained(summary);
            }
            context.data(&text)?;
        }
    }
    #[cfg(feature = "database")]
    if flags.keep.save {
        flags.keep.keep(&concluded, &wanted)?;
    }
    Ok(Exit::Yes)
}

/// The error of a run without any usable file.
fn none(mut unusable: Vec<Unusable>, files: usize) -> anyhow::Error {
    if unusable.len() == 1 {
        return unusable.remove(0).error;
    }
    let first = unusable.into_iter().next();
    let problem = Problem::new(format!("none of {files} files can be used"));
    match first {
        Some(first) => problem.because(first.error).into(),
        None => problem.hint("name a profile").into(),
    }
}

/// How the figures that are there are computed.
fn explained(summary: &gpuwise_domain::profile::figure::Summary) -> String {
    let mut text = String::from("\nFigures\n");
    for figure in FIGURES {
        if summary
            .figures
            .iter()
            .any(|known| known.name == figure.name)
        {
            let _ = writeln!(
                text,
                "- {} ({}): {} {}. Source: {}.",
                figure.name, figure.unit, figure.meaning, figure.formula, figure.source
            );
        }
    }
    text
}

/// Schemas of its answers that are rows.
#[cfg(all(feature = "bench", feature = "cuda", feature = "database"))]
pub(crate) fn schemas() -> [(&'static str, String); 7] {
    let each = record::rows_schema::<each::Job>("profile-each", "Files, each a job of its own");
    let variants = record::rows_schema::<job::Outcome>("profile-variants", "Variants of a job");
    let timed = gpu::schema("profile-gpu");
    [
        ("profile-each", each),
        ("profile-variants", variants),
        ("profile-gpu", timed),
        ("profile-operators", operators::schema("profile-operators")),
        (
            "profile-streams",
            record::rows_schema::<view_streams::StreamRow>(
                "profile-streams",
                "Streams of a profile",
            ),
        ),
        (
            "profile-ranges",
            record::rows_schema::<view_streams::RangeRow>("profile-ranges", "Ranges of a profile"),
        ),
        (
            "profile-series",
            record::rows_schema::<view_streams::SampleRow>(
                "profile-series",
                "A series of a profile",
            ),
        ),
    ]
}
