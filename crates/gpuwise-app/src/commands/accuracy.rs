//! `gpuwise accuracy`: our numbers against measured ones.

use super::{Context, Exit};
use crate::{
    catalogue, knowledge,
    questions::{QuestionRow, Rows, answers, models_of, read_tables, with_known},
    settings::Format,
};
use gpuwise_lab::{
    FitInputs, Loaded,
    accuracy::{By, Compared, Section, report, table},
    answer::engine_of,
    fit::LeaveOut,
    fitting, media,
    training::{MEMORY_TABLE, TABLES},
};
use std::{collections::BTreeSet, path::PathBuf};

/// Flags of `gpuwise accuracy`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Tables of questions with their measured values
    #[arg(required = true, value_name = "MEASURED")]
    measured: Vec<PathBuf>,
    /// Group errors by these
    #[arg(long, value_enum, value_delimiter = ',')]
    by: Vec<By>,
    /// Predict each group by constants refitted without it (takes minutes)
    #[arg(long, value_enum, value_name = "GROUP")]
    leave_out: Option<LeaveOut>,
    /// Tables of timed matmuls to refit with (system, dtype, m, n, k, ms)
    #[arg(long, value_name = "FILE")]
    matmuls: Vec<PathBuf>,
    /// Write the report as Markdown: configurations, GPUs and model families left out in turn, every
    /// group of rows, and what is not answered (takes many minutes)
    #[arg(long, conflicts_with_all = ["by", "leave_out"])]
    report: bool,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let asked = read_tables(&flags.measured)?;
    let loaded = catalogue::load(&context.app.overrides)?;
    let models = models_of(&asked, &loaded);
    let rows = Rows {
        asked: &asked,
        models: &models,
        loaded: &loaded,
    };
    if flags.report {
        let text = with_known(&loaded, &flags.matmuls, |known| written_report(rows, known))?;
        context.data(&text)?;
        return Ok(Exit::Yes);
    }
    let compared = match flags.leave_out {
        None => {
            let answers = answers(rows, &knowledge::load(&loaded)?);
            let fitted = fitted_tables(&loaded)?;
            asked
                .iter()
                .zip(answers)
                .map(|(row, answer)| {
                    let mut compared = blank(row, &loaded);
                    compared.in_sample = fitted.contains(&row.source);
                    compared.predicted = answer.estimate.map(|e| (e.value, e.low, e.high));
                    compared.basis = answer.basis;
                    compared
                })
                .collect()
        }
        Some(by) => with_known(&loaded, &flags.matmuls, |known| {
            left_out(rows, known, &[by])
        })?
        .pop()
        .unwrap_or_default(),
    };
    let shown: Vec<By> = if flags.by.is_empty() {
        vec![By::Metric, By::Source]
    } else {
        flags.by.clone()
    };
    let fitted = fitted_numbers(&loaded)?;
    for (position, by) in shown.iter().enumerate() {
        if position > 0 && matches!(context.form.format, Format::Table | Format::Md) {
            context.data("\n")?;
        }
        if context.form.format == Format::Md {
            context.data(&format!("### By {}\n\n", by.title()))?;
        }
        let mut shown = table(&compared, *by);
        shown.footnote(fitted.clone());
        context.table(&shown)?;
    }
    Ok(Exit::Yes)
}

/// Tables that constants were fitted on.
fn fitted_tables(loaded: &Loaded) -> anyhow::Result<BTreeSet<String>> {
    let sets = knowledge::file(loaded)?.set;
    let served = sets.iter().flat_map(|set| set.sources.keys().cloned());
    let trained = TABLES.iter().chain([&MEMORY_TABLE]);
    Ok(served
        .chain(trained.map(|name| (*name).to_owned()))
        .collect())
}

/// How many numbers the predictions rest on.
fn fitted_numbers(loaded: &Loaded) -> anyhow::Result<String> {
    let sets = knowledge::file(loaded)?.set;
    let parts: Vec<String> = sets
        .iter()
        .map(|set| format!("{} {} on {} rows", set.freedoms, set.name, set.rows))
        .collect();
    Ok(format!(
        "fitted numbers: {}; none is of one model or deployment",
        parts.join(", ")
    ))
}

fn written_report(rows: Rows<'_>, known: &FitInputs<'_>) -> anyhow::Result<String> {
    let Rows { asked, loaded, .. } = rows;
    let ways = [
        LeaveOut::Configuration,
        LeaveOut::Gpu,
        LeaveOut::Model,
        LeaveOut::Source,
    ];
    let folds = left_out(rows, known, &ways)?;
    let sections: Vec<Section> = ways
        .into_iter()
        .zip(folds)
        .map(|(left_out, rows)| Section { left_out, rows })
        .collect();
    let answers = answers(rows, &knowledge::fitted(loaded)?);
    let fitted = fitted_tables(loaded)?;
    let mut plain = Vec::new();
    let mut refused = Vec::new();
    for (at, (row, answer)) in asked.iter().zip(answers).enumerate() {
        let metric = row.question.metric.clone();
        match answer.estimate {
            None => refused.push((metric, answer.reason)),
            Some(estimate)
                if sections[0].rows[at].predicted.is_none()
                    && media::about(&row.question, loaded).is_none() =>
            {
                let mut compared = blank(row, loaded);
                compared.predicted = Some((estimate.value, estimate.low, estimate.high));
                compared.in_sample = fitted.contains(&row.source);
                plain.push(compared);
            }
            Some(_) => {}
        }
    }
    Ok(report(
        &knowledge::file(loaded)?,
        &sections,
        &whole(asked, loaded),
        &plain,
        &refused,
        &loaded.catalogue.training,
    ))
}

/// Rows predicted by constants that were fitted without their group, for each way of grouping.
fn left_out(
    rows: Rows<'_>,
    known: &FitInputs<'_>,
    ways: &[LeaveOut],
) -> anyhow::Result<Vec<Vec<Compared>>> {
    let Rows { asked, loaded, .. } = rows;
    let knowledge = knowledge::fitted(loaded)?;
    let folds = fitting::left_out(rows, known, ways)?;
    let compared = ways.iter().zip(folds).map(|(by, predicted)| {
        let whole = match by {
            LeaveOut::Gpu => media::left_out(asked, loaded),
            // Of the few networks of this kind each is a family of its own.
            _ => vec![None; asked.len()],
        };
        let training = fitting::training_left_out(rows, known, *by);
        asked
            .iter()
            .zip(predicted)
            .zip(whole)
            .zip(training)
            .map(|(((row, value), whole), training)| {
                let mut compared = blank(row, loaded);
                if let Some(value) = value {
                    compared.predicted = Some(value.with_range(&knowledge));
                    compared.basis = Some(value.basis);
                }
                if let Some(whole) = whole {
                    whole.put_into(&mut compared, &loaded.media);
                }
                if let Some(estimate) = training.and_then(|answer| answer.estimate) {
                    compared.predicted = Some((estimate.value, estimate.low, estimate.high));
                }
                compared
            })
            .collect()
    });
    Ok(compared.collect())
}

/// Rows about diffusion, vision and embedding models, with each GPU left out in turn, by benchmark and scenario;
/// rows that were set aside are apart.
fn whole(asked: &[QuestionRow], loaded: &Loaded) -> Vec<Compared> {
    let predicted = media::left_out(asked, loaded);
    asked
        .iter()
        .zip(predicted)
        .filter_map(|(row, whole)| {
            let whole = whole?;
            let mut compared = blank(row, loaded);
            whole.put_into(&mut compared, &loaded.media);
            compared.model = whole.group;
            Some(compared)
        })
        .collect()
}

/// A row before it is predicted.
fn blank(row: &QuestionRow, loaded: &Loaded) -> Compared {
    let q = &row.question;
    let gpu = loaded
        .catalogue
        .gpu(&q.gpu)
        .map_or_else(|| q.gpu.clone(), |gpu| gpu.name.clone());
    let engine =
        engine_of(&q.engine).map_or_else(|| q.engine.clone(), |engine| engine.kind.title().into());
    Compared {
        identity: format!(
            "{}|{}|{}|{:?}|{:?}|{:?}|{:?}|{}|{}|{:?}|{:?}|{:?}|{}|{:?}",
            row.source,
            q.model,
            q.gpu,
            q.gpus,
            q.tensor,
            q.pipeline,
            q.data,
            q.precision,
            q.engine,
            q.input,
            q.output,
            q.load,
            q.metric,
            q.extra
        ),
        source: row.source.clone(),
        metric: q.metric.clone(),
        gpu,
        model: q.model.clone(),
        engine,
        measured: q.value.unwrap_or(f64::NAN),
        predicted: None,
        basis: None,
        in_sample: false,
    }
}
