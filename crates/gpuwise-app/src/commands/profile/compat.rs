//! `gpuwise profile --compat`: figures by the definitions of others.

use super::{Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    error::Problem,
    profiles::{bucket, expand, rank_in_name},
    progress,
    settings::Format,
};
use gpuwise_domain::profile::hta::HtaTrace;
use gpuwise_measure::compat_hta;
use gpuwise_read::{hta_rows, kineto};
use gpuwise_view::profile::hta as view;
use std::{collections::BTreeSet, fs::File, io::BufReader, path::PathBuf};

/// Whose definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Compat {
    /// HolisticTraceAnalysis: whole microseconds, the last step left out, communication by prefix
    Hta,
}

pub(super) fn run(context: &Context, places: &[PathBuf], compat: Compat) -> anyhow::Result<Exit> {
    match compat {
        Compat::Hta => hta(context, places),
    }
}

fn hta(context: &Context, places: &[PathBuf]) -> anyhow::Result<Exit> {
    let offline = context.app.offline;
    let files = expand(places, offline)?;
    let mut traces: Vec<(u32, HtaTrace)> = Vec::new();
    for (place, path) in (0..).zip(&files) {
        progress::doing(&format!("{} of {} files", place + 1, files.len()));
        let cannot = |error: anyhow::Error| {
            Problem::new(format!("cannot read {}", path.display())).because(error)
        };
        let here = bucket::here(path, offline)?;
        let file = File::open(here.path(path)).map_err(|error| cannot(error.into()))?;
        let trace = hta_rows::read(kineto::open(BufReader::new(file)))
            .map_err(|error| cannot(error.into()))?;
        traces.push((rank_in_name(path).unwrap_or(place), trace));
    }
    progress::doing("");
    let numbers: BTreeSet<u32> = traces.iter().map(|(rank, _)| *rank).collect();
    if numbers.len() != traces.len() {
        for (place, (rank, _)) in (0..).zip(&mut traces) {
            *rank = place;
        }
    }
    traces.sort_by_key(|(rank, _)| *rank);
    let ranks: Vec<(u32, &HtaTrace)> = traces.iter().map(|(rank, trace)| (*rank, trace)).collect();
    let figures = compat_hta::figures(&ranks);
    match context.form.format {
        Format::Json => context
            .answering(AnswerName::ProfileHta)
            .json(&view::json(&figures))?,
        Format::Csv => context.table(&view::ranks(&figures))?,
        Format::Md => context.data(&format!(
            "{}\n{}",
            view::ranks(&figures).to_markdown(),
            view::kernel_types(&figures).to_markdown()
        ))?,
        Format::Table => {
            let style = context.form.style;
            context.data(&format!(
                "{}\n{}",
                view::ranks(&figures).to_text(style),
                view::kernel_types(&figures).to_text(style)
            ))?;
        }
    }
    Ok(Exit::Yes)
}
