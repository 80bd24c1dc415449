//! `gpuwise calibrate`: what was measured corrects what is predicted.

mod believed;
pub mod keep;
pub mod results;

use super::{Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    catalogue,
    error::Problem,
    knowledge, progress,
    questions::{QuestionRow, Rows, models_of, with_known},
    write::Pending,
};
use gpuwise_lab::{
    accuracy::{Compared, Errors, errors},
    fit::LeaveOut,
    fitting, media,
};
use gpuwise_view::record::{self};
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Flags of `gpuwise calibrate`.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    feature = "database",
    expect(clippy::struct_excessive_bools, reason = "flags of a command line")
)]
pub struct Flags {
    /// Result files of load generators, or tables of questions with their measured values
    ///
    /// Result files are those of `gpuwise bench`, vLLM bench, SGLang bench, InferenceX, GuideLLM,
    /// inference-perf and AIPerf.
    #[arg(required_unless_present_any = ["forget", "from_runs"], value_name = "MEASURED")]
    measured: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "What result files do not say")]
    setting: results::SettingFlags,
    /// Also what runs in the database measured, as `gpuwise runs import` brought it
    #[cfg(feature = "database")]
    #[arg(long)]
    from_runs: bool,
    #[cfg(feature = "database")]
    #[command(flatten)]
    runs: crate::commands::runs::RunFlags,
    /// Forget the rows kept so far
    #[arg(long, conflicts_with_all = ["refit", "cross_validate"])]
    forget: bool,
    /// Refit every constant, its ranges and its errors, and print the file of constants
    #[arg(long, group = "refits")]
    refit: bool,
    /// Refit the constants of diffusion, vision and embedding models, and print their file
    #[arg(long, group = "refits", conflicts_with_all = ["cross_validate", "forget"])]
    refit_media: bool,
    /// Write the refitted constants here instead of to standard output
    #[arg(long, value_name = "FILE", requires = "refits")]
    output: Option<PathBuf>,
    /// Leave out one group after another, refit without it, and print the errors on it
    #[arg(long, value_enum, value_name = "GROUP", conflicts_with = "refit")]
    cross_validate: Option<LeaveOut>,
    /// Tables of timed matmuls to refit with (system, dtype, m, n, k, ms)
    #[arg(long, value_name = "FILE")]
    matmuls: Vec<PathBuf>,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if flags.forget {
        return forget();
    }
    let asked = asked(flags)?;
    if !asked
        .iter()
        .any(|row| row.question.value.is_some_and(|value| value > 0.0))
    {
        return Err(Problem::new("no row has a measured value")
            .hint("the column `value` holds what was measured, in the unit of the column `unit`")
            .into());
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let models = models_of(&asked, &loaded);
    let rows = Rows {
        asked: &asked,
        models: &models,
        loaded: &loaded,
    };
    if let Some(by) = flags.cross_validate {
        return cross_validate(context, rows, flags, by);
    }
    if flags.refit || flags.refit_media {
        let text = if flags.refit_media {
            media::refit(&asked, &loaded, &progress::say)?
        } else {
            let shipped = knowledge::file(&loaded)?;
            with_known(&loaded, &flags.matmuls, |known| {
                fitting::refit(rows, known, &shipped)
            })?
        };
        match &flags.output {
            Some(path) => Pending::new(path)?.finish(&text)?,
            None => context.data(&text)?,
        }
        return Ok(Exit::Yes);
    }
    keep::keep(context, &asked, &loaded)
}

/// What was measured: in files, and in the database where it is asked for.
fn asked(flags: &Flags) -> anyhow::Result<Vec<QuestionRow>> {
    #[allow(unused_mut, reason = "without the database there is nothing to add")]
    let mut asked = results::read(&flags.measured, &flags.setting)?;
    #[cfg(feature = "database")]
    if flags.from_runs {
        asked.extend(crate::commands::runs::measured(&flags.runs)?);
    }
    Ok(asked)
}

fn forget() -> anyhow::Result<Exit> {
    if let Some(file) = knowledge::feedback_file().filter(|file| file.is_file()) {
        fs::remove_file(&file).map_err(|error| {
            Problem::new(format!("cannot remove {}", file.display())).because(error)
        })?;
        progress::say(&format!("forgot {}", file.display()));
    } else {
        progress::say("there are no rows of your own");
    }
    Ok(Exit::Yes)
}

fn cross_validate(
    context: &Context,
    rows: Rows<'_>,
    flags: &Flags,
    by: LeaveOut,
) -> anyhow::Result<Exit> {
    let mut folds = with_known(rows.loaded, &flags.matmuls, |known| {
        fitting::left_out(rows, known, &[by])
    })?;
    let predicted = folds.pop().unwrap_or_default();
    let compared: Vec<Compared> = rows
        .asked
        .iter()
        .zip(&predicted)
        .filter_map(|(row, value)| {
            let value = value.as_ref()?;
            Some(Compared {
                identity: value.identity.clone(),
                source: row.source.clone(),
                metric: row.question.metric.clone(),
                gpu: value.group.clone(),
                model: row.question.model.clone(),
                engine: value.bucket.clone(),
                measured: row.question.value?,
                predicted: Some((value.value, value.value, value.value)),
                basis: None,
                in_sample: false,
            })
        })
        .collect();
    let mut groups: BTreeMap<(String, String), Vec<&Compared>> = BTreeMap::new();
    for row in &compared {
        groups
            .entry((row.metric.clone(), "all".into()))
            .or_default()
            .push(row);
        groups
            .entry((row.metric.clone(), row.gpu.clone()))
            .or_default()
            .push(row);
    }
    let held = |((metric, group), rows): ((String, String), Vec<&Compared>)| LeftOutGroup {
        errors: errors(rows.into_iter()),
        metric,
        group,
    };
    let groups: Vec<LeftOutGroup> = groups.into_iter().map(held).collect();
    let mut table = record::table(&groups);
    table.footnote(format!(
        "each group was predicted by constants refitted without it; {} numbers could move",
        predicted
            .iter()
            .flatten()
            .map(|value| value.freedoms)
            .max()
            .unwrap_or(0)
    ));
    context
        .answering(AnswerName::CalibrateCrossValidation)
        .table(&table)?;
    Ok(Exit::Yes)
}

/// Errors on a group that the constants were refitted without.
struct LeftOutGroup {
    metric: String,
    group: String,
    errors: Errors,
}

gpuwise_view::record!(LeftOutGroup, "LeftOutGroup", |of| {
    let tenths = |percent: f64| format!("{percent:.1}");
    of.column("metric", "metric", |g| &g.metric);
    of.column("group", "left out", |g| &g.group).wrap(20);
    of.column("questions", "questions", |g| g.errors.questions);
    of.column("mean_error_percent", "mean error, %", |g| g.errors.mean)
        .said_of(tenths);
    of.column("median_error_percent", "median, %", |g| g.errors.median)
        .said_of(tenths);
    of.column("bias_percent", "bias, %", |g| g.errors.bias)
        .said_of(tenths);
});

pub(crate) fn cross_validation_schema(answer: &str) -> String {
    record::rows_schema::<LeftOutGroup>(answer, "Errors on groups that were left out")
}
