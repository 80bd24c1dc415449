//! `gpuwise profile --operators`: time by module and operator, beside what the GPU reaches, or beside
//! another profile.

use super::{
    Context, Exit,
    concluded::{self, Concluded},
    none,
    written::{self, Written},
};
use crate::{
    commands::differences::{self, Compared},
    error::Problem,
    profiles::{self, ProfileQuery},
    progress,
    schemas::AnswerName,
    settings::Format,
};
use gpuwise_domain::profile::figures::{OperatorTree, TimedBy};
use gpuwise_view::{profile::operators::rows, record};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Share of the kernel time below which people are not shown a row; programs are.
const LEAST_SHARE: f64 = 0.005;

/// # Errors
/// When no file can be used, or a page cannot be written.
pub(super) fn run(
    context: &Context,
    files: &[PathBuf],
    named: &[PathBuf],
    wanted: &ProfileQuery,
    written: Written<'_>,
) -> anyhow::Result<Exit> {
    let everything = profiles::measure(files, wanted);
    if everything.profiled.is_empty() {
        return Err(none(everything.unusable, files.len()));
    }
    for file in &everything.unusable {
        progress::say(&format!("note: {}: {:#}", file.file, file.error));
    }
    let concluded = concluded::from(everything, &wanted.limits);
    let beside = written.beside();
    written.finish(&concluded, named, wanted)?;
    if !beside.is_empty() {
        return compared(context, [beside, named], &concluded, wanted);
    }
    let trees = trees(&concluded, wanted);
    let people = context.form.format == Format::Table;
    let least_share = if people { LEAST_SHARE } else { 0.0 };
    let shown = rows(&trees, least_share);
    let context = context.answering(AnswerName::ProfileOperators);
    context.table(&record::table(&shown))?;
    if people {
        notes(&trees, shown.len());
    }
    Ok(Exit::Yes)
}

/// The trees of all files, in the order of their ranks.
pub(super) fn trees(concluded: &Concluded, wanted: &ProfileQuery) -> Vec<OperatorTree> {
    let ranks = concluded.figures.ranks.iter();
    let all = concluded.timelines.iter().zip(ranks);
    wanted.on_gpus(|gpus| {
        all.map(|(timeline, rank)| wanted.operators(&rank.file, timeline, gpus))
            .collect()
    })
}

/// Held against the profile beside, by the same rules as runs that were kept.
fn compared(
    context: &Context,
    [before, after]: [&[PathBuf]; 2],
    concluded: &Concluded,
    wanted: &ProfileQuery,
) -> anyhow::Result<Exit> {
    let other = written::beside(before, wanted)?;
    let times = |of: &Concluded| wanted.times(&of.timelines, &of.figures);
    let (old, new) = (times(&other), times(concluded));
    for (files, times) in [(before, &old), (after, &new)] {
        if times.is_empty() {
            return Err(
                Problem::new(format!("{}: no kernel ran in it", listed(files)))
                    .hint("operators are compared by the time of their kernels")
                    .into(),
            );
        }
    }
    let mut head = format!("before  {}\nafter   {}\n", listed(before), listed(after));
    let (was, is) = (&other.summary.hardware, &concluded.summary.hardware);
    if was != is {
        // Writing to a text cannot fail.
        let _ = writeln!(
            head,
            "hardware: {} before, {} after: times are not of the same machine",
            was.join(", "),
            is.join(", ")
        );
    }
    head.push('\n');
    differences::run(
        context,
        &Compared {
            by: TimedBy::Operator,
            before: &old,
            after: &new,
            head,
            all: false,
            rest: "--format csv",
        },
    )
}

fn listed(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    names.join(", ")
}

/// What the rows do not show.
fn notes(trees: &[OperatorTree], shown: usize) {
    let all: usize = trees.iter().map(|tree| tree.nodes.len()).sum();
    if all > shown {
        progress::say(&format!(
            "{} more rows of under {} % of the kernel time each: --format csv has them",
            all - shown,
            LEAST_SHARE * 100.0
        ));
    }
    for tree in trees {
        if tree.unlinked_ns > 0 && tree.kernel_ns > 0 {
            progress::say(&format!(
                "{}: {:.0} % of the kernel time is of kernels whose operator the file does not tell",
                tree.file,
                100.0 * tree.unlinked_ns as f64 / tree.kernel_ns as f64
            ));
        }
    }
}

#[cfg(all(feature = "bench", feature = "cuda", feature = "database"))]
pub(super) fn schema(name: &'static str) -> String {
    record::rows_schema::<gpuwise_view::profile::operators::OperatorRow<'_>>(
        name,
        "Modules, ranges and operators of a profile",
    )
}
