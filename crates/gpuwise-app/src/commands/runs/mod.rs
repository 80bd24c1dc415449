//! `gpuwise runs`: what was measured before, compared.

mod daily;
mod diff;
mod export;
mod import;
mod list;
mod prune;
mod regress;
mod show;
pub mod store;
mod times;
mod trend;
mod words;

use super::{Context, Exit};
use crate::schemas::AnswerName;
use crate::{error::Problem, questions::QuestionRow};
use clap::{Args, Subcommand};
use gpuwise_read::question::read_questions;
use gpuwise_store::Filter;
use std::{collections::BTreeMap, path::PathBuf};
use store::{DatabaseFlags, days_before, now_ns};

/// `gpuwise runs`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List runs, the newest first
    ///
    /// Exit code 1: there is none.
    List(list::Flags),
    /// Show one run: figures, findings, software
    Show(show::Flags),
    /// Compare two runs, figure by figure, the largest change first
    Diff(diff::Flags),
    /// Find figures whose level moved from one run to the next, and the run at which it did
    ///
    /// Runs of one name on the same hardware are held against one another. A change is told apart
    /// from noise by how much neighbouring runs differ.
    ///
    /// Exit code 0: nothing got worse. 1: something did. 2: the input is wrong.
    Regress(regress::Flags),
    /// Keep result files of load generators: what they measured refits `plan` (`calibrate --from-runs`)
    Import(import::Flags),
    /// Write figures of runs as rows, for spreadsheets and other programs
    Export(export::Flags),
    /// Show figures of the runs of a name day by day, also of those that were forgotten
    Trend(trend::Flags),
    /// Forget old runs, and keep what they said day by day; without --apply, only say which
    Prune(prune::Flags),
}

/// Which runs.
#[derive(Debug, Clone, Args)]
pub struct FilterFlags {
    /// Only runs of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only runs with this label; several must all hold
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Only runs on this product, as `runs list` writes it
    #[arg(long, value_name = "GPU")]
    hardware: Option<String>,
    /// Only runs from one source: profile, bench, simulate, sampling, gpu
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Only runs brought in the last so many days
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// At most so many, the newest
    #[arg(long, value_name = "COUNT")]
    last: Option<u32>,
}

impl FilterFlags {
    /// As the database asks for it.
    fn filter(&self) -> Filter {
        Filter {
            labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            name: self.name.clone(),
            source: self.source.clone(),
            hardware: self.hardware.clone(),
            since_ns: self.days.map(|days| days_before(now_ns(), days)),
            before_ns: None,
            limit: self.last,
        }
    }
}

/// Which runs of which database.
#[derive(Debug, Clone, Args)]
pub struct RunFlags {
    #[command(flatten)]
    filter: FilterFlags,
    #[command(flatten)]
    database: DatabaseFlags,
}

/// What runs measured that predictions can be held against.
///
/// # Errors
/// When no run measured anything, or the database refuses.
pub fn measured(flags: &RunFlags) -> anyhow::Result<Vec<QuestionRow>> {
    let store = flags.database.open()?;
    let mut out = Vec::new();
    for row in store.list(&flags.filter.filter())? {
        let run = store.run(&row.id)?;
        if run.measured.is_empty() {
            continue;
        }
        let questions = read_questions(&run.measured)
            .map_err(|error| Problem::new(format!("run {}", row.id)).because(error))?;
        out.extend(questions.into_iter().map(|question| QuestionRow {
            source: row.name.clone(),
            folder: PathBuf::new(),
            question,
            problem: None,
        }));
    }
    if out.is_empty() {
        return Err(Problem::new(format!(
            "no run in {} measured what predictions can be held against",
            flags.database.shown()
        ))
        .hint(
            "`gpuwise runs import RESULTS --deployment FILE` keeps what a load generator measured",
        )
        .into());
    }
    Ok(out)
}

/// `name=value`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a label is NAME=VALUE, such as branch=main".into()),
    }
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    match &flags.command {
        Command::List(flags) => list::run(&context.answering(AnswerName::RunsList), flags),
        Command::Show(flags) => show::run(&context.answering(AnswerName::RunsShow), flags),
        Command::Diff(flags) => diff::run(context, flags),
        Command::Regress(flags) => regress::run(&context.answering(AnswerName::RunsRegress), flags),
        Command::Import(flags) => import::run(flags),
        Command::Export(flags) => export::run(&context.answering(AnswerName::RunsExport), flags),
        Command::Trend(flags) => trend::run(context, flags),
        Command::Prune(flags) => prune::run(&context.answering(AnswerName::RunsPrune), flags),
    }
}

/// Schemas of its answers that are rows.
pub(crate) fn schemas() -> [(&'static str, String); 2] {
    let (times, trend) = ("runs-diff-operators", "runs-trend");
    [
        (times, super::differences::schema(times)),
        (trend, trend::schema(trend)),
    ]
}

/// What to say where no run matches.
fn none(database: &DatabaseFlags) -> Problem {
    Problem::new(format!("no run matches in {}", database.shown()))
        .hint("`gpuwise profile --save TRACE` keeps one; `gpuwise runs list` shows all")
}
