//! `gpuwise profile --streams`, `--ranges`, `--series`: what files say of streams and ranges.

use super::{Concluded, Context, Exit, none};
use crate::{
    profiles::{self, ProfileQuery, Profiled},
    progress,
    schemas::AnswerName,
    settings::Format,
};
use gpuwise_domain::profile::timeline::Timeline;
use gpuwise_measure::streams::{Sample, SeriesOf};
use gpuwise_units::math;
use gpuwise_view::{
    profile::streams::{RangeRow, SampleRow, StreamRow},
    record,
};
use std::{collections::BTreeMap, path::PathBuf};

/// Rows of a series that people are shown.
const MOST_SHOWN: usize = 40;

/// Of what every change is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SeriesKind {
    /// Launches that wait in the queue of each stream
    Queue,
    /// Bytes a second of copies and fills, by device and direction
    Bandwidth,
}

/// One table of a profile instead of what limits it.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PartFlags {
    /// Give time, FLOP, bytes and rates by module, range and operator, beside what the GPU reaches for
    /// each; with --compare the difference of each from another profile, with its 95 % interval
    #[arg(long, group = "part", conflicts_with_all = ["compat", "explain", "perfetto", "beside", "layouts"])]
    operators: bool,
    /// Give what each stream did: busy and idle time, why it stood still, how much waited in its queue
    #[arg(long, group = "part", conflicts_with_all = ["compat", "explain", "written", "beside", "layouts"])]
    streams: bool,
    /// Give ranges (NVTX, record_function) by the work that was launched within them, and their pace,
    /// of each rank beside the others
    #[arg(long, group = "part", conflicts_with_all = ["compat", "explain", "written", "beside", "layouts"])]
    ranges: bool,
    /// Give every change of a series: how much waits in the queue of each stream, or bytes a second of
    /// copies by direction
    #[arg(long, value_enum, value_name = "WHAT", group = "part", conflicts_with_all = ["compat", "explain", "written", "beside", "layouts"])]
    series: Option<SeriesKind>,
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Operators,
    Streams,
    Ranges,
    Series(SeriesKind),
}

impl PartFlags {
    pub(super) fn part(&self) -> Option<Part> {
        if self.operators {
            Some(Part::Operators)
        } else if self.streams {
            Some(Part::Streams)
        } else if self.ranges {
            Some(Part::Ranges)
        } else {
            self.series.map(Part::Series)
        }
    }
}

/// # Errors
/// When no file can be used.
pub(super) fn run(
    context: &Context,
    files: &[PathBuf],
    wanted: &ProfileQuery,
    part: Part,
) -> anyhow::Result<Exit> {
    let everything = profiles::measure(files, wanted);
    if everything.profiled.is_empty() {
        return Err(none(everything.unusable, files.len()));
    }
    for file in &everything.unusable {
        progress::say(&format!("note: {}: {:#}", file.file, file.error));
    }
    let mut profiled = everything.profiled;
    profiled.sort_by_key(|one| one.measured.figures.rank);
    match part {
        Part::Operators => {}
        Part::Streams => {
            let rows: Vec<StreamRow> = profiled
                .iter()
                .flat_map(|one| streams(wanted, one))
                .collect();
            let table = record::table(&rows).when_empty("No stream had work.");
            context
                .answering(AnswerName::ProfileStreams)
                .table(&table)?;
        }
        Part::Ranges => {
            let name = |one: &Profiled| (one.file.clone(), one.measured.figures.rank);
            let files: Vec<OfFile<'_>> = profiled
                .iter()
                .map(|one| (name(one), &one.timeline))
                .collect();
            let rows = ranges(wanted, &files);
            let table = record::table(&rows).when_empty(
                "No range of the files launched a kernel: NVTX or record_function name them.",
            );
            context.answering(AnswerName::ProfileRanges).table(&table)?;
        }
        Part::Series(kind) => {
            let mut rows: Vec<SampleRow> = profiled
                .iter()
                .flat_map(|one| samples(wanted, one, kind))
                .collect();
            let all = rows.len();
            if context.form.format == Format::Table && all > MOST_SHOWN {
                rows.truncate(MOST_SHOWN);
                progress::say(&format!(
                    "{} more rows: --format csv has them",
                    all - MOST_SHOWN
                ));
            }
            let table = record::table(&rows)
                .when_empty("Nothing in the files changes: no launches, or no copies with bytes.");
            context.answering(AnswerName::ProfileSeries).table(&table)?;
        }
    }
    Ok(Exit::Yes)
}

fn streams(wanted: &ProfileQuery, one: &Profiled) -> Vec<StreamRow> {
    let all = wanted.streams(&one.timeline).into_iter();
    all.map(|of| StreamRow {
        file: one.file.clone(),
        rank: one.measured.figures.rank,
        device: of.device,
        stream: of.stream,
        kernels: of.kernels,
        copies: of.copies,
        span_ns: of.span_ns,
        busy_ns: of.busy_ns,
        idle_ns: of.idle_ns(),
        host_wait_ns: of.host_wait_ns,
        launched_wait_ns: of.launched_wait_ns,
        unlinked_ns: of.unlinked_ns,
        longest_gap_ns: of.longest_gap_ns,
        queue_mean: of.queue.map(|queue| queue.mean),
        queue_most: of.queue.map(|queue| queue.most),
        queue_full_ns: of.queue.map(|queue| queue.full_ns),
    })
    .collect()
}

/// A file by its name and rank, and what it holds.
pub(super) type OfFile<'a> = ((String, Option<u32>), &'a Timeline);

/// The files of a profile.
pub(super) fn files(concluded: &Concluded) -> Vec<OfFile<'_>> {
    let ranks = concluded.figures.ranks.iter();
    ranks
        .map(|rank| (rank.file.clone(), rank.rank))
        .zip(&concluded.timelines)
        .collect()
}

/// Ranges of all ranks, those of a name beside one another.
pub(super) fn ranges(wanted: &ProfileQuery, files: &[OfFile<'_>]) -> Vec<RangeRow> {
    let mut order: Vec<String> = Vec::new();
    let mut by_name: BTreeMap<String, Vec<RangeRow>> = BTreeMap::new();
    for ((file, rank), timeline) in files {
        for of in wanted.ranges(timeline) {
            if !by_name.contains_key(&of.name) {
                order.push(of.name.clone());
            }
            by_name.entry(of.name.clone()).or_default().push(RangeRow {
                file: file.clone(),
                rank: *rank,
                name: of.name,
                count: of.count,
                kernels: of.kernels,
                kernel_ns: of.kernel_ns,
                host_median_ns: of.host_median_ns,
                device_median_ns: of.device_median_ns,
                pace_median_ns: of.pace_median_ns,
                pace_spread_ns: of.pace_spread_ns,
                beside_ranks: None,
            });
        }
    }
    for rows in by_name.values_mut().filter(|rows| rows.len() > 1) {
        let mut medians: Vec<f64> = rows.iter().map(|row| row.device_median_ns).collect();
        medians.sort_unstable_by(f64::total_cmp);
        if let Some(usual) = math::median(&medians).filter(|usual| *usual > 0.0) {
            for row in rows {
                row.beside_ranks = Some(row.device_median_ns / usual - 1.0);
            }
        }
    }
    let of = |name: &String| by_name.remove(name).unwrap_or_default();
    order.iter().flat_map(of).collect()
}

fn samples(wanted: &ProfileQuery, one: &Profiled, kind: SeriesKind) -> Vec<SampleRow> {
    let (series, all) = match kind {
        SeriesKind::Queue => ("queue", wanted.queues(&one.timeline)),
        SeriesKind::Bandwidth => ("bandwidth", wanted.bandwidth(&one.timeline)),
    };
    let rows = |of: &SeriesOf| {
        let row = |sample: &Sample| SampleRow {
            file: one.file.clone(),
            rank: one.measured.figures.rank,
            device: of.device,
            series,
            of: of.of.clone(),
            at_ns: sample.at_ns,
            value: sample.value,
        };
        of.samples.iter().map(row).collect::<Vec<_>>()
    };
    all.iter().flat_map(rows).collect()
}
