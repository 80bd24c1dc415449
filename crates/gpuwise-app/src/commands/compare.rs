//! `gpuwise compare`: predicted, simulated and measured side by side; or runs beside one another.

use super::{
    Context, Exit,
    calibrate::results::{self, SettingFlags},
};
use crate::{
    catalogue,
    error::Problem,
    knowledge,
    made::made,
    progress,
    questions::{QuestionRow, Rows, answers, models_of, read_text},
    settings,
    simulation::{Simulate, simulated},
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::{
    estimate::Estimate,
    question::{Load, Question},
    run::{Comparison, ComparisonRow, ComparisonUnit, Origin, RunReport},
};
use gpuwise_lab::answer::Answer as Said;
use gpuwise_units::significant;
use gpuwise_view::run as view;
use gpuwise_wire::{DEPLOYMENT_SCHEMA, RUN_SCHEMA, runs_from_json};
use std::path::{Path, PathBuf};

/// Flags of `gpuwise compare`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// A saved deployment and what was measured of it; or two and more runs, simulated or measured
    ///
    /// Runs are documents of `gpuwise simulate` and `gpuwise bench`, or result files of other load
    /// generators.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the comparison into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let mut deployment: Option<&PathBuf> = None;
    let mut runs = Vec::new();
    for path in &flags.files {
        if is_deployment(path)? {
            if let Some(other) = deployment.replace(path) {
                return Err(Problem::new(format!(
                    "{} and {} are both deployments",
                    other.display(),
                    path.display()
                ))
                .hint("give one deployment and what was measured of it")
                .into());
            }
        } else {
            runs.push(path.clone());
        }
    }
    let found = match deployment {
        Some(deployment) => with_deployment(context, deployment, &runs)?,
        None => side_by_side(&runs)?,
    };
    if let Some(file) = html {
        let title = match deployment {
            Some(deployment) => format!("{} beside its runs", deployment.display()),
            None => "Runs side by side".into(),
        };
        file.finish(&view::comparison_page(&found, &title, &made()))?;
    }
    match context.form.format {
        settings::Format::Table => {
            context.data(&view::comparison_text(&found, context.form.style))?;
        }
        _ => context.table(&view::comparison(&found))?,
    }
    Ok(Exit::Yes)
}

/// Whether a file is a saved deployment.
fn is_deployment(path: &Path) -> anyhow::Result<bool> {
    let text = read_text(path)?;
    let beginning: String = text.chars().take(400).collect();
    Ok(beginning.contains(DEPLOYMENT_SCHEMA))
}

/// What formulas and the simulation say of each measured figure.
fn with_deployment(
    context: &Context,
    deployment: &Path,
    runs: &[PathBuf],
) -> anyhow::Result<Comparison> {
    if runs.is_empty() {
        return Err(Problem::new(format!(
            "{} alone: nothing was measured of it",
            deployment.display()
        ))
        .hint("add a result of `gpuwise bench --save` or of another load generator")
        .into());
    }
    let reference = reference(runs)?;
    let asked = results::read(runs, &SettingFlags::of_deployment(deployment))?;
    let loaded = catalogue::load(&context.app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let models = models_of(&asked, &loaded);
    let rows = Rows {
        asked: &asked,
        models: &models,
        loaded: &loaded,
    };
    let predicted = answers(rows, &knowledge);
    progress::doing("simulating");
    let followed = simulated(
        &asked,
        predicted.clone(),
        &models,
        &loaded,
        &knowledge,
        context.app.seed,
        Simulate::Everything,
    );
    progress::doing("");
    let mut rows = Vec::new();
    let mut errors = [Vec::new(), Vec::new()];
    for ((row, predicted), followed) in asked.iter().zip(&predicted).zip(&followed) {
        let question = &row.question;
        let (unit, scale) = unit_of(question);
        let measured = question.value.map(|value| value * scale);
        let scaled = |said: &Said| said.estimate.map(|estimate| estimate.scaled(scale));
        let values = vec![
            scaled(predicted),
            scaled(followed),
            measured.map(Estimate::exact),
        ];
        for (errors, value) in errors.iter_mut().zip(&values) {
            if let (Some(value), Some(measured)) = (value, measured.filter(|m| *m > 0.0)) {
                errors.push((value.value / measured - 1.0).abs() * 100.0);
            }
        }
        rows.push(ComparisonRow {
            name: name_of(question),
            unit,
            values,
        });
    }
    let mut notes = Vec::new();
    for (what, errors) in ["predicted", "simulated"].into_iter().zip(&mut errors) {
        if let Some(median) = median(errors) {
            notes.push(format!(
                "{what} against {reference}: median error {} % over {} figures",
                significant(median, 2),
                errors.len()
            ));
        }
    }
    if let Some(why) = predicted.iter().find(|said| said.estimate.is_none()) {
        notes.push(format!("a figure that is missing: {}", why.reason));
    }
    if reference == SAVED_SIMULATION {
        notes.push("nothing was measured: what it is held against was simulated too".into());
    }
    Ok(Comparison {
        columns: ["predicted", "simulated", reference]
            .map(str::to_owned)
            .to_vec(),
        reference: Some(2),
        rows,
        notes,
    })
}

/// What the reference is called where it was measured, and where it was simulated.
const MEASURED: &str = "measured";
const SAVED_SIMULATION: &str = "run simulated before";

/// What files hold that stand beside a deployment.
fn reference(runs: &[PathBuf]) -> anyhow::Result<&'static str> {
    let mut found: Option<(&PathBuf, &'static str)> = None;
    for path in runs {
        let kind = kind(path)?;
        match found {
            Some((other, before)) if before != kind => {
                return Err(Problem::new(format!(
                    "{} was {} and {} was {}",
                    other.display(),
                    past(before),
                    path.display(),
                    past(kind)
                ))
                .hint("compare the deployment with each of them apart")
                .into());
            }
            _ => found = Some((path, kind)),
        }
    }
    Ok(found.map_or(MEASURED, |(_, kind)| kind))
}

/// Whether a file's runs were simulated; result files of load generators were measured.
fn kind(path: &Path) -> anyhow::Result<&'static str> {
    let text = read_text(path)?;
    if !text.contains(RUN_SCHEMA) {
        return Ok(MEASURED);
    }
    let runs = runs_from_json(&text).with_context(|| path.display().to_string())?;
    let simulated = |report: &RunReport| report.origin == Origin::Simulated;
    Ok(if runs.reports.iter().any(simulated) {
        SAVED_SIMULATION
    } else {
        MEASURED
    })
}

fn past(kind: &str) -> &'static str {
    if kind == MEASURED {
        "measured"
    } else {
        "simulated"
    }
}

/// Runs beside one another, by load and metric.
fn side_by_side(runs: &[PathBuf]) -> anyhow::Result<Comparison> {
    // A file that is no run is told as that, whatever else is missing.
    let files: Vec<Vec<QuestionRow>> = runs
        .iter()
        .map(|path| results::read(std::slice::from_ref(path), &SettingFlags::unsaid()))
        .collect::<Result<_, _>>()?;
    if runs.len() < 2 {
        return Err(Problem::new("one run alone has nothing beside it")
            .hint("give a saved deployment beside it, or another run")
            .into());
    }
    // One load each: runs are compared as a whole; else equal loads are beside one another.
    let single = files.iter().all(|rows| {
        let first = rows.first().map(|row| &row.question.load);
        rows.iter().all(|row| Some(&row.question.load) == first)
    });
    let key = |question: &Question| {
        if single {
            question.metric.clone()
        } else {
            name_of(question)
        }
    };
    let mut rows: Vec<ComparisonRow> = Vec::new();
    for (column, asked) in files.iter().enumerate() {
        for row in asked {
            let (unit, scale) = unit_of(&row.question);
            let name = if single {
                metric_name(&row.question)
            } else {
                key(&row.question)
            };
            let value = row
                .question
                .value
                .map(|value| Estimate::exact(value * scale));
            let at = rows
                .iter()
                .position(|known| known.name == name)
                .unwrap_or_else(|| {
                    rows.push(ComparisonRow {
                        name,
                        unit,
                        values: vec![None; files.len()],
                    });
                    rows.len() - 1
                });
            rows[at].values[column] = value;
        }
    }
    let columns: Vec<String> = runs
        .iter()
        .map(|path| {
            path.file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        })
        .collect();
    let mut notes = Vec::new();
    let kinds = runs
        .iter()
        .map(|path| Ok(past(kind(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let named: Vec<String> = (columns.iter().zip(&kinds))
        .map(|(name, kind): (&String, _)| format!("{name} was {kind}"))
        .collect();
    notes.push(named.join(", "));
    if single {
        let loads: Vec<String> = files
            .iter()
            .filter_map(|rows| Some(load_of(&rows.first()?.question)))
            .collect();
        if loads.windows(2).any(|pair| pair[0] != pair[1]) {
            notes.push(format!("their loads differ: {}", loads.join(", ")));
        }
    }
    Ok(Comparison {
        columns,
        reference: Some(0),
        rows,
        notes,
    })
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn unit_of(question: &Question) -> (ComparisonUnit, f64) {
    match question.unit.as_str() {
        "ms" => (ComparisonUnit::Seconds, 1e-3),
        "s" => (ComparisonUnit::Seconds, 1.0),
        unit if unit.ends_with("/s") => (ComparisonUnit::PerSecond, 1.0),
        _ => (ComparisonUnit::Number, 1.0),
    }
}

/// `8/s TTFT p95`.
fn name_of(question: &Question) -> String {
    let load = load_of(question);
    let metric = metric_name(question);
    if load.is_empty() {
        metric
    } else {
        format!("{load}: {metric}")
    }
}

fn load_of(question: &Question) -> String {
    match &question.load {
        Load::Unstated => String::new(),
        Load::InFlight(count) => format!("{} concurrent", significant(*count, 3)),
        Load::Rate(rates) => {
            let rates: Vec<String> = rates.iter().map(|rate| significant(*rate, 3)).collect();
            format!("{}/s", rates.join(" then "))
        }
    }
}

fn metric_name(question: &Question) -> String {
    let (name, statistic) = question
        .metric
        .rsplit_once('_')
        .unwrap_or((&question.metric, ""));
    match name {
        "ttft" => format!("TTFT {statistic}"),
        "tpot" => format!("TPOT {statistic}"),
        "itl" => format!("inter-token {statistic}"),
        "e2e" => format!("end to end {statistic}"),
        _ => question.metric.replace('_', " "),
    }
}
