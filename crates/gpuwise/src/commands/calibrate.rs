//! `gpuwise calibrate`: what was measured corrects what is predicted.

use super::{Answer, Context};
use crate::{
    accuracy::{Compared, errors},
    catalogue,
    error::Problem,
    fitting::{self, LeftOut},
    knowledge, output,
    questions::{Asked, models_of, read_tables},
    write::Pending,
};
use gpuwise_view::table::{Cell, Column, Table};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Flags of `gpuwise calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Tables of questions with their measured values
    #[arg(required_unless_present = "forget", value_name = "MEASURED")]
    measured: Vec<PathBuf>,
    /// Forget the rows kept so far
    #[arg(long, conflicts_with_all = ["refit", "cross_validate"])]
    forget: bool,
    /// Refit every constant, its ranges and its errors, and print the file of constants
    #[arg(long)]
    refit: bool,
    /// Write the refitted constants here instead of to standard output
    #[arg(long, value_name = "FILE", requires = "refit")]
    output: Option<PathBuf>,
    /// Leave out one group after another, refit without it, and print the errors on it
    #[arg(long, value_enum, value_name = "GROUP", conflicts_with = "refit")]
    cross_validate: Option<LeftOut>,
    /// Tables of timed matmuls to refit with (system, dtype, m, n, k, ms)
    #[arg(long, value_name = "FILE")]
    matmuls: Vec<PathBuf>,
}

pub(crate) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Answer> {
    if flags.forget {
        return forget();
    }
    let asked = read_tables(&flags.measured)?;
    if !asked
        .iter()
        .any(|row| row.question.value.is_some_and(|value| value > 0.0))
    {
        return Err(Problem::new("no row has a measured value")
            .hint("the column `value` holds what was measured, in the unit of the column `unit`")
            .into());
    }
    let loaded = catalogue::load(&context.overrides)?;
    let models = models_of(&asked, &loaded);
    if let Some(by) = flags.cross_validate {
        return cross_validate(context, &asked, &models, &loaded, flags, by);
    }
    if flags.refit {
        let text = fitting::refit(&asked, &models, &loaded, &flags.matmuls)?;
        match &flags.output {
            Some(path) => Pending::new(path)?.finish(&text)?,
            None => output::data(&text)?,
        }
        return Ok(Answer::Yes);
    }
    keep(context, &asked, &loaded)
}

fn forget() -> anyhow::Result<Answer> {
    if let Some(file) = knowledge::feedback_file().filter(|file| file.is_file()) {
        fs::remove_file(&file).map_err(|error| {
            Problem::new(format!("cannot remove {}", file.display())).because(error)
        })?;
        output::say(&format!("forgot {}", file.display()));
    }
    Ok(Answer::Yes)
}

fn cross_validate(
    context: &Context,
    asked: &[Asked],
    models: &crate::questions::Models,
    loaded: &catalogue::Loaded,
    flags: &Flags,
    by: LeftOut,
) -> anyhow::Result<Answer> {
    let predicted = fitting::left_out(asked, models, loaded, &flags.matmuls, by)?;
    let rows: Vec<Compared> = asked
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
                engine: value.profile.clone(),
                measured: row.question.value?,
                predicted: Some((value.value, value.value, value.value)),
                basis: None,
            })
        })
        .collect();
    let mut table = Table::new(vec![
        Column::left("metric", "metric"),
        Column::left("group", "left out").wrap(20),
        Column::right("questions", "questions"),
        Column::right("mean_error_percent", "mean error").unit("%"),
        Column::right("median_error_percent", "median").unit("%"),
        Column::right("bias_percent", "bias").unit("%"),
    ]);
    let mut groups: BTreeMap<(String, String), Vec<&Compared>> = BTreeMap::new();
    for row in &rows {
        groups
            .entry((row.metric.clone(), "all".into()))
            .or_default()
            .push(row);
        groups
            .entry((row.metric.clone(), row.gpu.clone()))
            .or_default()
            .push(row);
    }
    for ((metric, group), rows) in groups {
        let errors = errors(rows.into_iter());
        table.push(vec![
            Cell::text(metric),
            Cell::text(group),
            Cell::count(errors.questions as u64),
            Cell::new(format!("{:.1}", errors.mean), errors.mean),
            Cell::new(format!("{:.1}", errors.median), errors.median),
            Cell::new(format!("{:.1}", errors.bias), errors.bias),
        ]);
    }
    table.footnote(format!(
        "each group was predicted by constants refitted without it; {} numbers could move",
        predicted
            .iter()
            .flatten()
            .map(|value| value.freedoms)
            .max()
            .unwrap_or(0)
    ));
    context.output.table(&table)?;
    Ok(Answer::Yes)
}

/// Keeps rows as the user's own, and says what they change.
fn keep(context: &Context, asked: &[Asked], loaded: &catalogue::Loaded) -> anyhow::Result<Answer> {
    let file = knowledge::feedback_file().ok_or_else(|| {
        Problem::new("there is no place for rows of your own").hint("set HOME or XDG_CONFIG_HOME")
    })?;
    let fitted = knowledge::fitted()?;
    let observations = knowledge::observations(asked, loaded, &fitted);
    if observations.is_empty() {
        return Err(
            Problem::new("none of these rows can be compared with a prediction")
                .hint("`gpuwise predict FILE` gives the reason for each row")
                .into(),
        );
    }
    let kept = if file.is_file() {
        fs::read_to_string(&file).unwrap_or_default()
    } else {
        String::new()
    };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| {
            Problem::new(format!("cannot make {}", folder.display())).because(error)
        })?;
    }
    Pending::new(&file)?.finish(&appended(&kept, asked)?)?;
    let mut groups: BTreeMap<(String, String, String, String, &str), Vec<f64>> = BTreeMap::new();
    for row in &observations {
        let key = (
            row.gpu.clone(),
            row.model.clone(),
            row.weights.clone(),
            row.profile.clone(),
            row.class.key(),
        );
        groups.entry(key).or_default().push(row.residual);
    }
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::left("model", "model").wrap(16),
        Column::left("weights", "weights"),
        Column::left("engine", "engine"),
        Column::left("metric", "metric"),
        Column::right("rows", "rows"),
        Column::right("measured_over_predicted", "measured / predicted"),
    ]);
    for ((gpu, model, weights, engine, class), residuals) in groups {
        let mean = (residuals.iter().sum::<f64>() / residuals.len() as f64).exp();
        table.push(vec![
            Cell::text(gpu),
            Cell::text(model),
            Cell::text(weights),
            Cell::text(engine),
            Cell::text(class),
            Cell::count(residuals.len() as u64),
            Cell::new(format!("{mean:.2}"), mean),
        ]);
    }
    table.footnote(format!(
        "kept in {}; `gpuwise calibrate --forget` removes them",
        shown(&file)
    ));
    context.output.table(&table)?;
    Ok(Answer::Yes)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

const HEADER: [&str; 16] = [
    "id",
    "model",
    "gpu",
    "num_gpus",
    "tp",
    "pp",
    "dp",
    "precision",
    "engine",
    "isl",
    "osl",
    "batch_or_concurrency",
    "metric",
    "unit",
    "extra",
    "value",
];

/// The kept rows and these, as one table.
fn appended(kept: &str, asked: &[Asked]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(kept.as_bytes().to_vec());
    if kept.is_empty() {
        writer.write_record(HEADER)?;
    }
    for row in asked.iter().filter(|row| row.question.value.is_some()) {
        let q = &row.question;
        let whole = |value: Option<u32>| value.map_or_else(String::new, |v| v.to_string());
        let real = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        let extra: Vec<String> = q
            .extra
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        writer.write_record([
            q.id.clone(),
            q.model.clone(),
            q.gpu.clone(),
            whole(q.gpus),
            whole(q.tensor),
            whole(q.pipeline),
            whole(q.data),
            q.precision.clone(),
            q.engine.clone(),
            real(q.input),
            real(q.output),
            gpuwise_read::question::load_cell(&q.load),
            q.metric.clone(),
            q.unit.clone(),
            extra.join("; "),
            real(q.value),
        ])?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
