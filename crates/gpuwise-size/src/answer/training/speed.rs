//! Answers to questions about the speed of training, and about time to a quality.

use super::{TrainingReading, TrainingWanted, read_training};
use crate::{
    answer::{Answer, reading::Refusal},
    training::time::{
        ConvergenceRun, FlopCount, TrainingSystem, converge, model_flops_per_token, recipe_peak,
        step_time_on,
    },
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::{Basis, Estimate},
    gpu::Gpu,
    model::Architecture,
    question::{Load, Question},
    training::{Framework, Recompute},
};

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
    let system = TrainingSystem::usual(reading.gpu, facts);
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
    notes.extend(system.assumptions.iter().cloned());
    let run = ConvergenceRun {
        benchmark,
        system,
        gpus: f64::from(gpus),
        batch,
        without_libraries: question.engine.contains("tinygrad"),
    };
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
    let held_out = facts
        .errors
        .iter()
        .find(|row| row.rows == rows && row.left_out == "gpu");
    let (low, high) = held_out.map_or((0.6, 1.6), |row| row.range);
    Ok(Answer {
        estimate: Some(Estimate {
            value,
            low: value * low.min(1.0),
            high: value * high.max(1.0),
        }),
        basis: Some(if timed {
            Basis::Calibrated
        } else {
            Basis::Extrapolated
        }),
        reason: notes.join("; "),
    })
}

fn known_gpu<'a>(question: &Question, catalogue: &'a Catalogue) -> Result<&'a Gpu, Refusal> {
    catalogue
        .gpu(&question.gpu)
        .ok_or_else(|| Refusal::UnknownGpu {
            name: question.gpu.clone(),
            like: catalogue.gpus_like(&question.gpu).join(", "),
        })
}
