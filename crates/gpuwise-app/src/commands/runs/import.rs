//! `gpuwise runs import`.

use super::{DatabaseFlags, Exit, label, now_ns};
use crate::{
    commands::calibrate::{keep, results},
    progress,
    questions::QuestionRow,
};
use clap::Args;
use gpuwise_domain::profile::figure::{Figure, Scope, Summary, Value};
use gpuwise_read::question::load_cell;
use gpuwise_store::{NewRun, RunId, Saved};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Result files of load generators, or tables of questions with their measured values
    #[arg(required = true, value_name = "MEASURED")]
    measured: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "What result files do not say")]
    setting: results::SettingFlags,
    /// What people call these runs [default: each by its file]
    #[arg(long)]
    name: Option<String>,
    /// What to sort them by; several may be given
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    database: DatabaseFlags,
}

pub(super) fn run(flags: &Flags) -> anyhow::Result<Exit> {
    let mut runs = Vec::new();
    for path in &flags.measured {
        let asked = results::read(std::slice::from_ref(path), &flags.setting)?;
        runs.push(kept(flags, path, &asked)?);
    }
    let saved = flags.database.open()?.save_all(&runs)?;
    for ((path, run), saved) in flags.measured.iter().zip(&runs).zip(saved) {
        let done = match saved {
            Saved::New => "kept as",
            Saved::Known => "is kept already as",
        };
        progress::say(&format!("{} {done} run {}", path.display(), run.id));
    }
    Ok(Exit::Yes)
}

/// One file as a run: what it measured, as rows and as figures.
fn kept(flags: &Flags, path: &Path, asked: &[QuestionRow]) -> anyhow::Result<NewRun> {
    let measured = keep::appended("", asked)?;
    let hardware: BTreeSet<&str> = asked.iter().map(|row| row.question.gpu.as_str()).collect();
    let engines: BTreeMap<&str, &str> = asked
        .iter()
        .filter_map(|row| row.question.engine.split_once(' '))
        .collect();
    let file = || {
        path.file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    };
    Ok(NewRun {
        id: RunId::of(measured.as_bytes()),
        source: "bench".into(),
        name: flags.name.clone().unwrap_or_else(file),
        imported_at_ns: now_ns(),
        labels: flags.labels.iter().cloned().collect(),
        summary: Summary {
            files: vec![path.display().to_string()],
            hardware: hardware.into_iter().map(str::to_owned).collect(),
            software: engines
                .into_iter()
                .map(|(name, release)| (name.to_owned(), release.to_owned()))
                .collect(),
            figures: asked.iter().filter_map(figure).collect(),
            ..Summary::default()
        },
        times: Vec::new(),
        finding_documents: Vec::new(),
        measured,
    })
}

/// A measured row as a figure: `tpot_mean_ms` at one load.
fn figure(row: &QuestionRow) -> Option<Figure> {
    let question = &row.question;
    let unit = match question.unit.as_str() {
        unit @ ("ms" | "s") => format!("_{unit}"),
        _ => String::new(),
    };
    let load = load_cell(&question.load);
    Some(Figure {
        name: format!("{}{unit}", question.metric),
        scope: Scope {
            part: (!load.is_empty()).then(|| format!("at {load}")),
            ..Scope::default()
        },
        value: Value::Real(question.value?),
    })
}
