//! Memory of training against published runs.

use crate::fixture::{catalogue, model};
use gpuwise_domain::{
    gpu::Device,
    model::Architecture,
    question::Question,
    training::{Recompute, TrainingSetup},
};
use gpuwise_lab::answer::{about_training_memory, read_training};
use gpuwise_read::question::read_questions;
use gpuwise_size::{
    memory::visible_memory,
    training::memory::{training_memory, usable},
};
use gpuwise_units::Tokens;
use std::{collections::BTreeMap, fs};

/// Rows of a table of the sample data; `None` where it is not there.
fn rows(table: &str) -> Option<Vec<Question>> {
    let path = gpuwise_needs::data("")?.join("questions").join(table);
    let text = fs::read_to_string(path).expect("a table of questions");
    Some(read_questions(&text).expect("questions"))
}

fn answered(questions: &[Question]) -> Vec<(&Question, f64, String)> {
    let catalogue = catalogue();
    let mut models: BTreeMap<&str, Architecture> = BTreeMap::new();
    let mut out = Vec::new();
    for question in questions {
        let architecture = models
            .entry(&question.model)
            .or_insert_with(|| model(&question.model));
        let Some(answer) = about_training_memory(question, architecture, &catalogue) else {
            continue;
        };
        let value = answer.estimate.map_or(f64::NAN, |estimate| estimate.value);
        out.push((question, value, answer.reason));
    }
    out
}

#[test]
fn peaks_of_fine_tuning_are_near_and_never_far_too_low() {
    let Some(questions) = rows("training_memory_throughput.csv") else {
        return;
    };
    let mut sums: BTreeMap<&str, (f64, f64, f64, u32)> = BTreeMap::new();
    for (question, value, reason) in answered(&questions) {
        let measured = question.value.expect("a measured value");
        let error = value / measured - 1.0;
        println!(
            "{} {:?} r {:?} {:?}: {value:.4e} of {measured:.4e}, {:+.1} % ({reason})",
            question.metric,
            question.extra("method"),
            question.extra("r"),
            question.extra("trainable"),
            100.0 * error
        );
        if question.metric == "oom" {
            assert_eq!(value.to_bits(), measured.to_bits(), "{}", question.id);
            continue;
        }
        let sum = sums.entry(question.metric.as_str()).or_default();
        sum.0 += error.abs();
        sum.1 = sum.1.min(error);
        sum.2 = sum.2.max(error);
        sum.3 += 1;
    }
    for (metric, (sum, worst, most, count)) in &sums {
        println!(
            "{metric}: mean {:.1} %, lowest {:+.1} %, highest {:+.1} %, {count} rows",
            100.0 * sum / f64::from(*count),
            100.0 * worst,
            100.0 * most
        );
    }
    let (sum, worst, _, count) = sums["accelerator_memory_max"];
    assert!(sum / f64::from(count) <= 0.06);
    assert!(worst >= -0.05);
}

#[test]
fn micro_batches_that_ran_are_never_refused() {
    let Some(questions) = rows("llm_foundry_training.csv") else {
        return;
    };
    let (mut same, mut refused, mut beyond, mut all) = (0, 0, 0, 0);
    for (question, value, reason) in answered(&questions) {
        let ran = question.value.expect("a micro-batch");
        all += 1;
        same += i32::from((value - ran).abs() < 0.5);
        if value < ran {
            refused += 1;
        }
        if value > 2.0 * ran {
            beyond += 1;
        }
        if (value - ran).abs() > 0.5 {
            println!(
                "{} {} x {:?} s {:?} global {:?} {:?}: {value} for {ran} ({reason})",
                question.model,
                question.gpu,
                question.gpus,
                question.input,
                question.load,
                question.extra("act_ckpt")
            );
        }
    }
    println!("{all} rows: {same} the same, {refused} below, {beyond} above twice");
    assert_eq!(refused, 0);
    assert!(all >= 169);
}

/// Runs of Megatron that were published ended well: where layers are computed again none of them may
/// be said to run out of memory.
#[test]
fn published_megatron_runs_fit() {
    let catalogue = catalogue();
    let (mut all, mut out, mut contradict) = (0, 0, 0);
    for table in ["megatron_bridge_training.csv", "nemo_training.csv"] {
        let Some(questions) = rows(table) else { return };
        for question in questions
            .iter()
            .filter(|question| question.metric == "train_tokens_per_s_per_gpu")
        {
            let architecture = model(&question.model);
            let Some(Ok(reading)) = read_training(question, &architecture, &catalogue) else {
                panic!("{} is not read", question.id);
            };
            let (visible, _) = visible_memory(&Device::whole(reading.gpu));
            let room = usable(visible);
            let needs = |recompute| {
                let setup = TrainingSetup {
                    recompute,
                    ..reading.setup.clone()
                };
                let memory = training_memory(&reading.architecture, &setup).expect("memory");
                memory.fullest().expect("a rank").reserved.value / room
            };
            let states = TrainingSetup {
                sequence: Tokens(1),
                ..reading.setup.clone()
            };
            let states = training_memory(&reading.architecture, &states).expect("memory");
            if states.fullest().expect("a rank").reserved.value > room {
                println!(
                    "{} {:?}: states alone do not fit",
                    question.id, reading.setup
                );
                contradict += 1;
                continue;
            }
            all += 1;
            let (kept, again) = (needs(Recompute::None), needs(Recompute::Full));
            if again > 1.0 {
                out += 1;
            }
            if kept > 1.0 {
                println!(
                    "{} {} x {:?} {}: {kept:.2} of the room, {again:.2} computed again ({:?}, {:?}, mbs {})",
                    question.model,
                    question.gpu,
                    question.gpus,
                    question.precision,
                    reading.setup.layout,
                    reading.setup.sharding,
                    reading.setup.micro_batch,
                );
            }
        }
    }
    println!(
        "{all} runs, {out} of them said to run out of memory, {contradict} without room for states"
    );
    assert_eq!(out, 0);
}
