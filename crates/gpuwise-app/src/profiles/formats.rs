//! Files of every format, as timelines and as what they say beyond one.

use super::content::{self, Content};
use crate::error::Problem;
use gpuwise_domain::profile::{
    flight_recorder::FlightRecord, kernel_counters::CounterRules, sources::SourceContent,
    timeline::Timeline,
};
use gpuwise_measure::{kernel_counters, memory_snapshot, planes};
use gpuwise_read::{
    flight_recorder,
    kernel_counters::read_kernel_counters,
    kineto,
    memory_snapshot::{from_pickle, read_category_timeline},
    pickle::Pickle,
    trace_viewer, xplane,
};
use std::{
    fs::File,
    io::{BufReader, Read as _, Seek as _},
    path::Path,
};

/// What `profile` reads, for who gave another file.
const READS: &str = "traces of the PyTorch profiler, exports of Nsight Systems (.sqlite, .nsys-rep) and Nsight Compute (CSV, .ncu-rep), XPlane and trace-viewer files of JAX and TensorFlow, memory snapshots of PyTorch, and dumps of the NCCL flight recorder are read";

/// Bytes of a file, unpacked, that is read as a whole: all but traces and SQLite. A snapshot of the
/// default hundred thousand events with their stacks has some hundred megabytes.
const LARGEST: u64 = 4 << 30;

#[derive(Debug, Default)]
pub(super) struct Opened {
    /// What ran, by process: a name for it where the file holds several, and what it did.
    pub(super) timelines: Vec<(Option<String>, Timeline)>,
    /// What it says beyond that.
    pub(super) content: Option<SourceContent>,
    /// A dump of a flight recorder.
    pub(super) flight: Option<FlightRecord>,
}

impl Opened {
    fn timeline(timeline: Timeline) -> Self {
        Self {
            timelines: vec![(None, timeline)],
            ..Self::default()
        }
    }

    fn content(content: SourceContent) -> Self {
        Self {
            content: Some(content),
            ..Self::default()
        }
    }
}

fn problem(file: &Path, error: impl Into<anyhow::Error>) -> anyhow::Error {
    Problem::new(format!("{}", file.display()))
        .hint(READS)
        .because(error)
        .into()
}

fn cannot(file: &Path, error: std::io::Error) -> anyhow::Error {
    Problem::new(format!("cannot read {}", file.display()))
        .because(error)
        .into()
}

/// Reads a file, whichever profiler wrote it.
pub(super) fn read(file: &Path, rules: &CounterRules) -> anyhow::Result<Opened> {
    #[cfg(feature = "nsight")]
    if let Some(kind) = gpuwise_probe::nsight::report_kind(file)
        && file.is_file()
    {
        return super::nsight::report(file, kind, rules);
    }
    let mut opened = File::open(file).map_err(|error| cannot(file, error))?;
    let mut head = Vec::new();
    let limit = content::HEAD as u64;
    let read = opened.by_ref().take(limit).read_to_end(&mut head);
    read.map_err(|error| cannot(file, error))?;
    opened.rewind().map_err(|error| cannot(file, error))?;
    let content = content::of(&head);
    drop(head);
    match content {
        Content::Trace => {
            let reader = kineto::open(BufReader::new(opened));
            let (vocabulary, limits) = (kineto::Vocabulary::default(), kineto::Limits::default());
            let timeline = kineto::read(reader, &vocabulary, &limits);
            timeline.map(Opened::timeline).map_err(|e| problem(file, e))
        }
        Content::Sqlite => sqlite(file, opened),
        Content::Unknown(what) => Err(Problem::new(format!("{}: {what}", file.display()))
            .hint(READS)
            .into()),
        whole => of_bytes(file, whole, &unpacked(file, opened)?, rules),
    }
}

#[cfg(feature = "nsight")]
fn sqlite(file: &Path, opened: File) -> anyhow::Result<Opened> {
    super::nsight::export(file, opened)
}

#[cfg(not(feature = "nsight"))]
fn sqlite(file: &Path, _: File) -> anyhow::Result<Opened> {
    let what = format!(
        "{}: this gpuwise was built without SQLite exports",
        file.display()
    );
    Err(Problem::new(what)
        .hint("build it with the feature `nsight`")
        .into())
}

/// The bytes of a file without its gzip.
fn unpacked(file: &Path, opened: File) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = kineto::open(BufReader::new(opened));
    let mut reader = reader.take(LARGEST + 1);
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| cannot(file, error))?;
    if bytes.len() as u64 > LARGEST {
        let what = format!("{}: more than 4 GiB unpacked", file.display());
        return Err(Problem::new(what)
            .hint("record a shorter history, or a part of the job")
            .into());
    }
    Ok(bytes)
}

/// Reads a file that is held as a whole.
pub(super) fn of_bytes(
    file: &Path,
    content: Content,
    bytes: &[u8],
    rules: &CounterRules,
) -> anyhow::Result<Opened> {
    let name = file.file_name().map(|name| name.to_string_lossy());
    let rank = name.and_then(|name| flight_recorder::rank_of_name(&name));
    match content {
        Content::TraceViewer => trace_viewer::read_trace_viewer(bytes)
            .map(Opened::timeline)
            .map_err(|error| problem(file, error)),
        Content::Planes => {
            let read = xplane::read_planes(bytes).map_err(|error| problem(file, error))?;
            let timeline = xplane::timeline(&read);
            let timelines = if timeline.work.is_empty() {
                Vec::new()
            } else {
                vec![(None, timeline)]
            };
            Ok(Opened {
                timelines,
                content: Some(SourceContent::Planes(planes::planes_source(&read))),
                flight: None,
            })
        }
        Content::Pickle if !flight_recorder::is_flight_record(bytes) => {
            let pickle = Pickle::read(bytes).map_err(|error| problem(file, error))?;
            let snapshot = from_pickle(&pickle).map_err(|error| problem(file, error))?;
            let source = memory_snapshot::memory_source(snapshot);
            Ok(Opened::content(SourceContent::Memory(Box::new(source))))
        }
        Content::Pickle | Content::FlightRecord => {
            let record = flight_recorder::read(bytes, rank);
            Ok(Opened {
                flight: Some(record.map_err(|error| problem(file, error))?),
                ..Opened::default()
            })
        }
        Content::MemoryTimeline => {
            let timeline = read_category_timeline(bytes).map_err(|error| problem(file, error))?;
            let figures = memory_snapshot::category_figures(&timeline);
            Ok(Opened::content(SourceContent::Categories(figures)))
        }
        Content::Counters | Content::Text => counters(file, bytes, rules),
        Content::Trace | Content::Sqlite | Content::Unknown(_) => Err(Problem::new(format!(
            "{}: no profile that is read as a whole",
            file.display()
        ))
        .into()),
    }
}

pub(super) fn counters(file: &Path, bytes: &[u8], rules: &CounterRules) -> anyhow::Result<Opened> {
    let read = read_kernel_counters(bytes, rules).map_err(|error| problem(file, error))?;
    let source = kernel_counters::counters_source(read, rules);
    Ok(Opened::content(SourceContent::Counters(source)))
}
