//! `gpuwise profile --operators`: time by module and operator, beside what the GPU reaches.

use super::{Context, Exit, none};
use crate::{
    profiles::{self, ProfileQuery},
    progress,
    schemas::AnswerName,
    settings::Format,
};
use gpuwise_domain::profile::figures::OperatorTree;
use gpuwise_view::{profile::operators::rows, record};
use std::path::PathBuf;

/// Share of the kernel time below which people are not shown a row; programs are.
const LEAST_SHARE: f64 = 0.005;

/// # Errors
/// When no file can be used, or the GPU is not known.
pub(super) fn run(
    context: &Context,
    files: &[PathBuf],
    wanted: &ProfileQuery,
) -> anyhow::Result<Exit> {
    let everything = profiles::measure(files, wanted);
    if everything.profiled.is_empty() {
        return Err(none(everything.unusable, files.len()));
    }
    for file in &everything.unusable {
        progress::say(&format!("note: {}: {:#}", file.file, file.error));
    }
    let all = everything.profiled.iter();
    let trees: Vec<OperatorTree> = wanted.on_gpus(|gpus| {
        all.map(|one| wanted.operators(&one.file, &one.timeline, gpus))
            .collect()
    });
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
