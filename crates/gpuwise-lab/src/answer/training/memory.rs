//! Answers to questions about the memory of training.

use super::{TrainingReading, TrainingWanted, read_training};
use crate::answer::question::Answer;
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::{Basis, Estimate},
    gpu::Device,
    model::Architecture,
    question::Question,
    training::{Framework, MemoryCause, RankMemory, TrainingMemory, TrainingSetup},
};
use gpuwise_size::{
    memory::visible_memory,
    training::memory::{TrainingMemoryError, fits, largest_micro_batch, training_memory, usable},
};
use gpuwise_units::{Tokens, significant};

/// Texts of different lengths, batched with texts of about their length, reach so much of their
/// bound: the longest batch of a run, the longest of a hundred, and the mean. Fitted on 48
/// fine-tuning runs of one data set of texts of up to 768 tokens; errors with a method left out are
/// those with it.
const LONGEST: f64 = 0.96;
const HUNDREDTH: f64 = 0.815;
const MEAN: f64 = 0.475;

/// The answer to a question about the memory of training; `None` where it is about something else.
pub fn about_training_memory(
    question: &Question,
    architecture: &Architecture,
    catalogue: &Catalogue,
) -> Option<Answer> {
    if !TrainingWanted::of(question)?.is_memory() {
        return None;
    }
    Some(match read_training(question, architecture, catalogue)? {
        Ok(reading) => match answer(question, &reading) {
            Ok(answer) => answer,
            Err(error) => Answer::none(error.to_string()),
        },
        Err(refusal) => Answer::none(refusal.to_string()),
    })
}

fn answer(
    question: &Question,
    reading: &TrainingReading<'_>,
) -> Result<Answer, TrainingMemoryError> {
    let share = match reading.wanted {
        TrainingWanted::Peak => LONGEST,
        TrainingWanted::ReservedTail => HUNDREDTH,
        TrainingWanted::ReservedMean => MEAN,
        _ => 1.0,
    };
    match reading.wanted {
        TrainingWanted::MicroBatchFits => micro_batch(reading),
        TrainingWanted::OutOfMemory => out_of_memory(reading),
        TrainingWanted::Host => {
            let memory = training_memory(&reading.architecture, &reading.setup)?;
            let bytes = memory.host.as_f64();
            let estimate = Estimate::with_factors(bytes, 0.8, 1.3);
            Ok(said(
                question,
                reading,
                &memory,
                estimate,
                "host memory of one node",
            ))
        }
        _ => {
            let sequence = reading.setup.sequence.0;
            let setup = TrainingSetup {
                sequence: if reading.packed {
                    Tokens(sequence)
                } else {
                    Tokens((sequence as f64 * share + 0.5) as u64)
                },
                ..reading.setup.clone()
            };
            let memory = training_memory(&reading.architecture, &setup)?;
            let Some(rank) = memory.fullest() else {
                return Ok(Answer::none("the model has no layers"));
            };
            let figure = if reading.wanted == TrainingWanted::PeakOfTensors {
                rank.peak
            } else {
                rank.reserved
            };
            let estimate = within_allocator(rank, figure, reading.setup.framework);
            let what = if reading.packed || share >= 1.0 {
                "the fullest rank's highest phase".to_string()
            } else {
                format!(
                    "the highest phase of batches of {} of at most {sequence} tokens",
                    setup.sequence.0
                )
            };
            Ok(said(question, reading, &memory, estimate, &what))
        }
    }
}

/// What PyTorch's allocator counts: all but the driver's context, and but NCCL's own buffers where
/// these are all that communication holds (`DeepSpeed`'s buckets are the allocator's).
fn within_allocator(rank: &RankMemory, figure: Estimate, framework: Framework) -> Estimate {
    let zero = framework == Framework::HuggingFace;
    let outside = |cause: &MemoryCause| match cause {
        MemoryCause::Context => true,
        MemoryCause::Communication => !zero,
        _ => false,
    };
    let context: f64 = rank
        .causes
        .iter()
        .filter(|(cause, _)| outside(cause))
        .map(|(_, bytes)| bytes.as_f64())
        .sum();
    Estimate {
        value: figure.value - context,
        low: figure.low - context,
        high: figure.high - context,
    }
}

fn said(
    question: &Question,
    reading: &TrainingReading<'_>,
    memory: &TrainingMemory,
    bytes: Estimate,
    what: &str,
) -> Answer {
    // Where GB are what PEFT's, torchtune's and torchtitan's own scripts print, they count in powers
    // of two.
    let published = match reading.setup.framework {
        Framework::Torchtune | Framework::Torchtitan => true,
        Framework::HuggingFace => question.engine == "peft",
        Framework::PyTorch | Framework::Megatron => false,
    };
    let scale = match question.unit.as_str() {
        "GB" if published => 1.0 / 1073741824.0,
        "GB" => 1e-9,
        "MB" => 1e-6,
        "GiB" => 1.0 / 1073741824.0,
        "MiB" => 1.0 / 1048576.0,
        _ => 1.0,
    };
    Answer {
        estimate: Some(bytes.scaled(scale)),
        basis: Some(memory.basis),
        reason: joined(what, reading, memory),
    }
}

fn joined(what: &str, reading: &TrainingReading<'_>, memory: &TrainingMemory) -> String {
    let mut parts: Vec<&str> = vec![what];
    parts.extend(reading.notes.iter().map(String::as_str));
    parts.extend(memory.assumptions.iter().map(String::as_str));
    parts.join("; ")
}

/// The largest micro-batch that fits and divides what a rank has to do in one step.
fn micro_batch(reading: &TrainingReading<'_>) -> Result<Answer, TrainingMemoryError> {
    let setup = &reading.setup;
    let (visible, _) = visible_memory(&Device::whole(reading.gpu));
    let each = (setup.global_batch / u64::from(setup.layout.data.max(1))).max(1);
    let largest = |visible: f64| {
        largest_micro_batch(&reading.architecture, setup, visible, each)
            .map(|fits| fits.map_or(0, |most| dividing(each, most)))
    };
    let (value, low, high) = (
        largest(visible)?,
        largest(0.94 * visible)?,
        largest(1.05 * visible)?,
    );
    let memory = training_memory(&reading.architecture, setup)?;
    let what = if value == each {
        format!(
            "all {each} sequences of a rank's share of the global batch fit at once: a larger micro-batch \
             was not possible"
        )
    } else if value == 0 {
        "not even one sequence fits".to_string()
    } else {
        let below = dividing(each, value.saturating_sub(1).max(1));
        let gap = if 2 * below < value {
            format!("; {below} is the next smaller that does")
        } else {
            String::new()
        };
        format!("the largest that fits of those that divide a rank's {each} sequences{gap}")
    };
    Ok(Answer {
        estimate: Some(Estimate {
            value: value as f64,
            low: low as f64,
            high: high as f64,
        }),
        basis: Some(memory.basis),
        reason: joined(&what, reading, &memory),
    })
}

/// The largest divisor of `whole` up to `most`.
fn dividing(whole: u64, most: u64) -> u64 {
    (1..=most.min(whole))
        .rev()
        .find(|part| whole.is_multiple_of(*part))
        .unwrap_or(0)
}

/// 1 where the fullest rank needs more than a job may fill; within its range both are possible.
fn out_of_memory(reading: &TrainingReading<'_>) -> Result<Answer, TrainingMemoryError> {
    let (visible, _) = visible_memory(&Device::whole(reading.gpu));
    let fit = fits(&reading.architecture, &reading.setup, visible)?;
    let room = usable(visible);
    let (low, high) = fit
        .memory
        .fullest()
        .map_or((0.0, 0.0), |rank| (rank.reserved.low, rank.reserved.high));
    let out = |needed: f64| if needed > room { 1.0 } else { 0.0 };
    let what = format!(
        "the fullest rank has {} GB {} of the {} GB that a job may fill",
        significant(fit.left.abs() / 1e9, 3),
        if fit.fits() { "left" } else { "too little" },
        significant(room / 1e9, 3),
    );
    Ok(Answer {
        estimate: Some(Estimate {
            value: if fit.fits() { 0.0 } else { 1.0 },
            low: out(low),
            high: out(high),
        }),
        basis: Some(Basis::Extrapolated.min(fit.memory.basis)),
        reason: joined(&what, reading, &fit.memory),
    })
}
