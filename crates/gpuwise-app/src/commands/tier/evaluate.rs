//! How good tier choice is, on rows that it has not seen: the page `docs/reference/tier-accuracy.md`.

use super::{
    Context, page,
    tiers::price_of,
    workloads::{Predicted, latencies, throughputs},
};
use crate::{
    catalogue::Loaded,
    commands::Exit,
    error::Problem,
    knowledge, progress,
    questions::{Rows, answers, models_of, read_tables, read_text, with_known},
};
use gpuwise_domain::{gpu::Device, profile::matmul::Processor};
use gpuwise_lab::{fit::LeaveOut, fitting};
use gpuwise_measure::tier::{
    timings::Timings,
    workloads::{Chooser, Trial, decide},
};
use gpuwise_operators::Silicon;
use gpuwise_view::table::{Cell, Column, Table};
use std::path::PathBuf;

/// What tier choice is judged on.
#[derive(Debug, clap::Args)]
pub(crate) struct AccuracyFlags {
    /// Tables of timed matrix products (system, gemm_dtype, m, n, k, latency_ms)
    #[arg(long, value_name = "FILE", requires = "evaluate", conflicts_with_all = ["jobs", "learn", "save", "forest"])]
    matmuls: Vec<PathBuf>,
    /// Tables of questions with their measured values: whole workloads on several GPUs
    #[arg(long, value_name = "FILE", requires = "evaluate", conflicts_with_all = ["jobs", "learn", "save", "forest"])]
    workloads: Vec<PathBuf>,
    /// Predict workloads by constants refitted without their group (takes many minutes)
    #[arg(long, value_enum, value_name = "GROUP", requires = "workloads", conflicts_with_all = ["jobs", "learn", "save", "forest"])]
    leave_out: Option<LeaveOut>,
}

const SLOS: &str = include_str!("../../../../../catalogue/tier_slos.csv");

pub(super) fn run(
    context: &Context,
    loaded: &Loaded,
    judged: &AccuracyFlags,
) -> anyhow::Result<Exit> {
    if judged.matmuls.is_empty() && judged.workloads.is_empty() {
        return Err(Problem::new("there is nothing to judge tier choice on")
            .hint("name tables with --matmuls and --workloads")
            .into());
    }
    let mut text = String::from(page::HEAD);
    if !judged.matmuls.is_empty() {
        text += &products(loaded, &judged.matmuls, context.app.seed)?;
    }
    if !judged.workloads.is_empty() {
        text += &whole(loaded, judged)?;
    }
    context.data(&text)?;
    Ok(Exit::Yes)
}

/// Products: errors, choices, risk and coverage.
fn products(loaded: &Loaded, files: &[PathBuf], seed: u64) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for file in files {
        let table = gpuwise_read::matmul::read_matmuls(&read_text(file)?)
            .map_err(|error| Problem::new(format!("{}", file.display())).because(error))?;
        for (what, skipped) in &table.skipped {
            progress::say(&format!("{skipped} rows of {what} are left out"));
        }
        rows.extend(table.rows);
    }
    let mut prices = Vec::new();
    let timings = Timings::new(&rows, |system| {
        let gpu = loaded.catalogue.gpu(&system.replace('_', " "))?;
        prices.push(price_of(&loaded.catalogue.offers, &gpu.name).map(|(each, _)| each));
        Some((Processor::of(gpu), Silicon::of(&Device::whole(gpu))))
    });
    for (system, rows) in &timings.unknown {
        progress::say(&format!(
            "{rows} rows of {system} are left out: not known here"
        ));
    }
    if timings.rows.is_empty() {
        return Err(Problem::new("the tables of products hold no row to judge by").into());
    }
    progress::say("predicting products on shapes and GPUs that are left out");
    let judgement = gpuwise_measure::tier::accuracy::judge_products(&timings, &prices, seed);
    Ok(page::products(&timings, &judgement))
}

struct Slo {
    name: String,
    limits: Vec<f64>,
}

fn slos() -> anyhow::Result<Vec<Slo>> {
    let mut out = Vec::new();
    let mut reader = csv::Reader::from_reader(SLOS.as_bytes());
    for row in reader.deserialize::<(String, f64, f64, String)>() {
        let (name, first, each, _) = row?;
        out.push(Slo {
            name,
            limits: vec![first * 1e-3, each * 1e-3],
        });
    }
    Ok(out)
}

/// Whole workloads: what choices cost, beside what simple rules cost.
fn whole(loaded: &Loaded, judged: &AccuracyFlags) -> anyhow::Result<String> {
    let asked = read_tables(&judged.workloads)?;
    let models = models_of(&asked, loaded);
    let knowledge = knowledge::fitted(loaded)?;
    let known = Rows {
        asked: &asked,
        models: &models,
        loaded,
    };
    let predicted: Vec<Predicted> = match judged.leave_out {
        None => answers(known, &knowledge)
            .into_iter()
            .map(|answer| answer.estimate.map(|e| (e.value, e.low, e.high)))
            .collect(),
        Some(by) => with_known(loaded, &judged.matmuls, |stand| {
            fitting::left_out(known, stand, &[by])
        })?
        .into_iter()
        .flatten()
        .map(|value| value.map(|value| value.with_range(&knowledge)))
        .collect(),
    };
    let mut table = Table::new(vec![
        Column::left("rows", "rows"),
        Column::left("slo", "SLO"),
        Column::left("chooser", "chooser"),
        Column::right("workloads", "workloads"),
        Column::right("decided", "decided"),
        Column::right("within_5_percent", "within 5 %"),
        Column::right("mean_regret", "mean regret"),
        Column::right("p95_regret", "95 %"),
        Column::right("missed", "SLO missed"),
    ]);
    let rates = throughputs(&asked, &predicted, loaded);
    let served = latencies(&asked, &predicted, loaded);
    for source in sources(&rates) {
        let own: Vec<Trial> = of_source(&rates, &source);
        rows(&mut table, &source, "none", &own, &[]);
    }
    for slo in slos()? {
        for source in sources(&served) {
            let own: Vec<Trial> = of_source(&served, &source);
            rows(&mut table, &source, &slo.name, &own, &slo.limits);
        }
    }
    let way = judged.leave_out.map_or(
        "the constants that gpuwise carries, fitted on these rows among others".into(),
        |by| format!("constants refitted without each {} in turn", by.name()),
    );
    table.footnote("workloads: measured on three or more GPUs, two or more of them with a price, something keeping the SLO; layouts that are not stated stand for none where others of the same GPUs are; regret: cost of what was chosen over the cheapest that keeps the SLO, less 1; SLOs missed are counted apart");
    Ok(format!(
        "\n## Whole workloads, predicted by {way}\n\n{}",
        table.to_markdown()
    ))
}

fn sources(trials: &[Trial]) -> Vec<String> {
    let mut out: Vec<String> = trials.iter().map(source_of).collect();
    out.sort();
    out.dedup();
    out
}

fn source_of(trial: &Trial) -> String {
    trial.group.split('|').next().unwrap_or_default().into()
}

fn of_source(trials: &[Trial], source: &str) -> Vec<Trial> {
    let own = trials.iter().filter(|trial| source_of(trial) == source);
    own.cloned().collect()
}

/// GPUs on which a workload must have been measured.
const LEAST_GPUS: usize = 3;

fn rows(table: &mut Table, source: &str, slo: &str, trials: &[Trial], limits: &[f64]) {
    for (name, chooser) in [
        ("gpuwise", Chooser::Prediction),
        ("cheapest that fits", Chooser::CheapestThatFits),
        ("always H100", Chooser::Always("H100 SXM")),
    ] {
        let verdicts = decide(trials, limits, LEAST_GPUS, chooser);
        if verdicts.is_empty() {
            continue;
        }
        let decided: Vec<_> = verdicts.iter().filter_map(|v| v.decided).collect();
        let judged = gpuwise_measure::tier::regret::judge(decided.iter());
        let figure = |value: f64| {
            if value.is_finite() {
                Cell::new(format!("{value:.3}"), value)
            } else {
                Cell::missing()
            }
        };
        table.push(vec![
            Cell::text(source),
            Cell::text(slo),
            Cell::text(name),
            Cell::count(verdicts.len() as u64),
            Cell::count(decided.len() as u64),
            figure(judged.top),
            figure(judged.mean),
            figure(judged.p95),
            Cell::count(judged.missed as u64),
        ]);
    }
}
