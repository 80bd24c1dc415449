//! Answers to questions about the speed of training, and about time to a quality.

use super::{TrainingReading, TrainingWanted, read_training};
use crate::{
    answer::{Answer, reading::Refusal},
    training::{ConvergenceRun, converge},
};
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::{Basis, Estimate},
    gpu::Gpu,
    model::Architecture,
    precision::Compute,
    question::{Load, Question},
    training::{Framework, Recompute},
    training_facts::TrainingFacts,
};
use gpuwise_size::training::time::{
    FlopCount, TrainingParameter, TrainingSystem, constants_of, model_flops_per_token, recipe_peak,
    step_time_on,
};
use gpuwise_units::FlopPerSecond;

/// The answer to a question about the speed of training; `None` where it is about something else.
///
/// Questions of benchmarks need no architecture: what a sample costs is stated.
pub fn about_training_time(
    question: &Question,
    architecture: Option<&Architecture>,
    catalogue: &Catalogue,
) -> Option<Answer> {
    let wanted = TrainingWanted::of(question)?;
    match wanted {
        TrainingWanted::TimeToTrain | TrainingWanted::Throughput => Some(
            benchmark(question, wanted, catalogue)
                .unwrap_or_else(|refusal| Answer::none(format!("{refusal}"))),
        ),
        TrainingWanted::TokensPerSecondPerGpu
        | TrainingWanted::TokensPerSecond
        | TrainingWanted::ModelFlopsPerGpu
        | TrainingWanted::Mfu
        | TrainingWanted::Hfu => Some(match read_training(question, architecture?, catalogue)? {
            Ok(reading) => speed(question, &reading, catalogue),
            Err(refusal) => Answer::none(format!("{refusal}")),
        }),
        _ => None,
    }
}

fn speed(question: &Question, reading: &TrainingReading<'_>, catalogue: &Catalogue) -> Answer {
    let facts = &catalogue.training;
    let system = reading.system(facts);
    let time = step_time_on(
        &reading.architecture,
        &reading.setup,
        reading.gpu,
        &system,
        facts,
    );
    let mut notes = reading.notes.clone();
    notes.extend(time.assumptions.iter().cloned());
    let tokens = time.tokens_per_second_per_gpu;
    let flops = tokens.scaled(flops_of(question, reading));
    let share = |rate: Estimate| {
        recipe_peak(reading.gpu, &reading.setup).map(|peak| rate.scaled(100.0 / peak))
    };
    let again = if reading.setup.recompute == Recompute::Full {
        4.0 / 3.0
    } else {
        1.0
    };
    let estimate = match reading.wanted {
        TrainingWanted::TokensPerSecondPerGpu => Some(tokens),
        TrainingWanted::TokensPerSecond => Some(tokens.scaled(reading.setup.layout.gpus() as f64)),
        TrainingWanted::ModelFlopsPerGpu => Some(flops.scaled(1e-12)),
        TrainingWanted::Mfu => share(flops),
        TrainingWanted::Hfu => share(flops.scaled(again)),
        _ => None,
    };
    let Some(estimate) = estimate else {
        return Answer::none(format!(
            "{} has no peak in this precision",
            reading.gpu.name
        ));
    };
    Answer {
        estimate: Some(estimate),
        basis: Some(time.basis),
        reason: notes.join("; "),
    }
}

/// Operations of a token as the row's source counts them.
fn flops_of(question: &Question, reading: &TrainingReading<'_>) -> f64 {
    let framework = reading.setup.framework;
    let count = if framework == Framework::Megatron && !question.engine.contains("Bridge") {
        FlopCount::WholeMatrix
    } else {
        FlopCount::of(framework)
    };
    let counted = model_flops_per_token(&reading.architecture, &reading.setup, count);
    let stated = question
        .extra("params_b")
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|billions| billions.is_finite() && *billions > 0.0);
    match (count, stated) {
        (FlopCount::EveryParameter, Some(billions)) => {
            let parameters = reading.architecture.active_parameters().0 as f64;
            counted + 6.0 * (billions * 1e9 - parameters)
        }
        _ => counted,
    }
}

fn benchmark(
    question: &Question,
    wanted: TrainingWanted,
    catalogue: &Catalogue,
) -> Result<Answer, Refusal> {
    let facts = &catalogue.training;
    let name = question.extra("benchmark").unwrap_or(&question.model);
    let Some(benchmark) = facts.benchmark(name) else {
        let known: Vec<&str> = facts.benchmarks.iter().map(|b| b.name.as_str()).collect();
        return Err(Refusal::Unstated(format!(
            "what {name:?} needs to converge is not known; known: {}",
            known.join(", ")
        )));
    };
    let gpu = known_gpu(question, catalogue)?;
    let gpus = question.gpus.ok_or_else(|| {
        Refusal::Unstated("how many GPUs is not stated: time to train needs it".into())
    })?;
    let mut notes: Vec<String> = Vec::new();
    let batch = if let Load::InFlight(samples) = question.load {
        Some(samples)
    } else {
        notes.push(format!(
            "global batch not stated: read as {} a GPU",
            benchmark.usual_batch
        ));
        None
    };
    let system = TrainingSystem::usual(gpu, facts);
    let timed = system.timed;
    notes.extend(system.assumptions.iter().map(ToString::to_string));
    let run = ConvergenceRun {
        benchmark,
        system,
        gpus: f64::from(gpus),
        batch,
        without_libraries: question.engine.contains("tinygrad"),
        four_bit: four_bit_rate(&question.engine, gpu, facts),
    };
    if run.benchmark.four_bit && run.four_bit.is_some() {
        notes.push(
            "submissions of this release train in FP8 or in NVFP4: read as midway between".into(),
        );
    }
    let outcome = converge(&run, &facts.convergence.unwrap_or_default());
    notes.push(format!(
        "{:.0} samples to converge at a batch of {:.0}",
        outcome.samples, outcome.batch
    ));
    let (value, rows) = if wanted == TrainingWanted::TimeToTrain {
        (outcome.seconds / 60.0, "time to train")
    } else {
        (outcome.throughput, "samples a second")
    };
    // What runs of the benchmark on this very GPU leave, where there are any.
    let near = facts.residual(&format!("{rows}: {}", benchmark.name), &gpu.name);
    let value = value * libm::exp(-near.unwrap_or(0.0));
    let left_out = match (near, benchmark.runs) {
        (Some(_), _) => "configuration",
        (None, 0) => "model",
        (None, _) => "gpu",
    };
    let held_out = facts.held_out(rows, left_out);
    let (low, high) = held_out.map_or((0.6, 1.6), |row| row.range);
    if benchmark.runs == 0 {
        notes.push(format!(
            "no run of {} was fitted: speed by its operations and bytes",
            benchmark.name
        ));
    }
    // No range reaches beyond 0.9 of the dense peak, by operations as stated with the benchmark.
    let (least, most) = peak_of(&run, gpu).map_or((0.0, f64::INFINITY), |peak| {
        let most = MOST_OF_PEAK * peak * f64::from(gpus) / benchmark.sample_flops;
        (outcome.samples / most / 60.0, most)
    });
    let (least, most) = if wanted == TrainingWanted::TimeToTrain {
        (least, f64::INFINITY)
    } else {
        (0.0, most)
    };
    Ok(Answer {
        estimate: Some(Estimate {
            value,
            low: (value * low.min(1.0)).max(least).min(value),
            high: (value * high.max(1.0)).min(most).max(value),
        }),
        basis: Some(if timed && near.is_some() {
            Basis::Calibrated
        } else {
            Basis::Extrapolated
        }),
        reason: notes.join("; "),
    })
}

/// What matmuls reach of the dense peak at most.
const MOST_OF_PEAK: f64 = 0.9;

/// The dense peak of the fastest format that a run may use.
fn peak_of(run: &ConvergenceRun<'_>, gpu: &Gpu) -> Option<f64> {
    let peak = |compute| gpu.peak.of(compute).map(FlopPerSecond::get);
    let eight = run.benchmark.eight_bit;
    let four = eight && run.benchmark.four_bit && run.four_bit.is_some();
    (four.then(|| peak(Compute::Fp4)).flatten())
        .or_else(|| eight.then(|| peak(Compute::Fp8)).flatten())
        .or_else(|| peak(Compute::Half))
}

/// The first containers with which submissions train in NVFP4, as year and month
/// (`mlcommons/training_results_v5.1@4da2d1c`: `config_common_fp4.sh` of Dell and Lambda).
const FOUR_BIT_SINCE: (u32, u32) = (25, 9);

/// NVFP4 operations a second of one GPU in a run, where the software of a submission may use them.
pub fn four_bit_rate(engine: &str, gpu: &Gpu, facts: &TrainingFacts) -> Option<f64> {
    let release = container(engine)?;
    let peak = gpu.peak.of(Compute::Fp4)?.get();
    let share = constants_of(Framework::Megatron, facts).get(TrainingParameter::Fp4Matmul);
    (release >= FOUR_BIT_SINCE).then_some(peak * share)
}

/// The newest container release (`25.09`) that a text names, as year and month.
fn container(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .filter_map(|word| {
            let (year, month) = word.trim_matches('.').split_once('.')?;
            let two = |digits: &str| (digits.len() == 2).then(|| digits.parse().ok()).flatten();
            let (year, month): (u32, u32) = (two(year)?, two(month.get(..2)?)?);
            ((20..40).contains(&year) && (1..=12).contains(&month)).then_some((year, month))
        })
        .max()
}

fn known_gpu<'a>(question: &Question, catalogue: &'a Catalogue) -> Result<&'a Gpu, Refusal> {
    catalogue
        .gpu(&question.gpu)
        .ok_or_else(|| Refusal::UnknownGpu {
            name: question.gpu.clone(),
            like: catalogue.gpus_like(&question.gpu).join(", "),
        })
}
