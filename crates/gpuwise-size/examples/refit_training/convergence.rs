//! What runs to a quality reach.

use super::{Seen, mean_error, write_error};
use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Gpu,
    question::{Load, Question},
    training_facts::{ConvergenceBenchmark, ConvergenceConstants, TrainingFacts},
};
use gpuwise_read::{catalogue::read_gpus, question::read_questions};
use gpuwise_size::{
    answer::TrainingWanted,
    training::time::{ConvergenceFit, ConvergenceRun, TrainingSystem, converge, fit_convergence},
};
use std::{error::Error, fmt::Write as _, fs, path::Path};

/// GPUs of the largest systems that are fitted: one rack.
const LARGEST: f64 = 72.0;
/// GPUs of the largest systems of which errors are counted.
const COUNTED: f64 = 64.0;

/// A run with what it belongs to.
pub(super) struct Run<'a> {
    row: ConvergenceFit<'a>,
    id: String,
    gpu: String,
}

pub(super) fn runs<'a>(
    folder: &Path,
    root: &Path,
    facts: &'a TrainingFacts,
) -> Result<Vec<Run<'a>>, Box<dyn Error>> {
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", &fs::read_to_string(root.join("gpus.toml"))?)?,
        ..Catalogue::default()
    };
    let text = fs::read_to_string(folder.join("mlperf_training.csv"))?;
    let mut out = Vec::new();
    for question in read_questions(&text)? {
        let Some(gpu) = catalogue.gpu(&question.gpu) else {
            eprintln!("{}: GPU {} is not known", question.id, question.gpu);
            continue;
        };
        out.extend(run(&question, gpu, facts));
    }
    let small: Vec<String> = out
        .iter()
        .filter(|run| run.row.run.gpus <= LARGEST)
        .map(|run| run.row.run.benchmark.name.clone())
        .collect();
    // Of a benchmark that nobody runs on so few, all rows.
    out.retain(|run| run.row.run.gpus <= LARGEST || !small.contains(&run.row.run.benchmark.name));
    Ok(out)
}

fn run<'a>(question: &Question, gpu: &Gpu, facts: &'a TrainingFacts) -> Option<Run<'a>> {
    let wanted = TrainingWanted::of(question)?;
    let speed = wanted == TrainingWanted::Throughput;
    let scale = if speed { 1.0 } else { 60.0 };
    Some(Run {
        row: ConvergenceFit {
            run: ConvergenceRun {
                benchmark: facts.benchmark(question.extra("benchmark")?)?,
                system: TrainingSystem::usual(gpu, facts),
                gpus: f64::from(question.gpus?),
                batch: match question.load {
                    Load::InFlight(samples) => Some(samples),
                    _ => None,
                },
                without_libraries: question.engine.contains("tinygrad"),
            },
            measured: question.value? * scale,
            speed,
        },
        id: question.id.clone(),
        gpu: gpu.name.clone(),
    })
}

pub(super) fn fitted(runs: &[Run<'_>], facts: &TrainingFacts, verbose: bool) -> String {
    let all: Vec<&ConvergenceFit<'_>> = runs.iter().map(|run| &run.row).collect();
    let (benchmarks, constants) = fit_convergence(&facts.benchmarks, &all);
    let ratios: Vec<f64> = all
        .iter()
        .map(|row| ratio(row, &benchmarks, &constants))
        .collect();
    let mut text = format!(
        "\n# Of runs to a quality: {} rows, {:.1} % off.\n\n[convergence]\nfixed_seconds = {:.2}\nwithout_libraries = {:.4}\n",
        ratios.len(),
        mean_error(&ratios),
        constants.fixed_seconds,
        constants.without_libraries
    );
    for benchmark in &benchmarks {
        let _ = write!(
            text,
            "\n[[run]]\nbenchmark = \"{}\"\nshare = {:.4}\nsample_megabytes = {:.6}\nstep_ms = {:.4}\n",
            benchmark.name,
            benchmark.share,
            benchmark.sample_bytes / 1e6,
            benchmark.step_seconds * 1e3
        );
    }
    let groups: [(&str, Key); 2] = [
        ("gpu", |run| &run.gpu),
        ("model", |run| &run.row.run.benchmark.name),
    ];
    for (name, key) in groups {
        let (times, speeds) = without(runs, facts, verbose, key);
        write_error(&mut text, "time to train", name, &times);
        write_error(&mut text, "samples a second", name, &speeds);
    }
    text
}

type Key = for<'a> fn(&'a Run<'_>) -> &'a str;

/// Times and speeds predicted without what they belong to.
fn without(
    runs: &[Run<'_>],
    facts: &TrainingFacts,
    verbose: bool,
    key: Key,
) -> (Vec<Seen>, Vec<Seen>) {
    let mut names: Vec<&str> = runs.iter().map(key).collect();
    names.sort_unstable();
    names.dedup();
    let (mut times, mut speeds) = (Vec::new(), Vec::new());
    for left in names {
        let kept: Vec<&ConvergenceFit<'_>> = runs
            .iter()
            .filter(|run| key(run) != left)
            .map(|run| &run.row)
            .collect();
        let (benchmarks, constants) = fit_convergence(&facts.benchmarks, &kept);
        for run in runs.iter().filter(|run| key(run) == left) {
            let ratio = ratio(&run.row, &benchmarks, &constants);
            if verbose {
                eprintln!(
                    "{:24} {:18} {:16} {:4} GPUs measured {:9.1} predicted / measured {ratio:.3}",
                    run.id, run.row.run.benchmark.name, run.gpu, run.row.run.gpus, run.row.measured
                );
            }
            if run.row.run.gpus <= COUNTED {
                let into = if run.row.speed {
                    &mut speeds
                } else {
                    &mut times
                };
                into.push((left.to_owned(), ratio));
            }
        }
    }
    (times, speeds)
}

fn ratio(
    row: &ConvergenceFit<'_>,
    benchmarks: &[ConvergenceBenchmark],
    constants: &ConvergenceConstants,
) -> f64 {
    let known = benchmarks
        .iter()
        .find(|b| b.name == row.run.benchmark.name)
        .unwrap_or(row.run.benchmark);
    let run = ConvergenceRun {
        benchmark: known,
        ..row.run.clone()
    };
    let outcome = converge(&run, constants);
    let predicted = if row.speed {
        outcome.throughput
    } else {
        outcome.seconds
    };
    predicted / row.measured
}
