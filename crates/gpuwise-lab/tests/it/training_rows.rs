//! Training against published runs, and questions about what does not exist.
#![allow(clippy::float_cmp, reason = "whole numbers are exact")]

use crate::fixture::{catalogue, model, training_facts};
use gpuwise_domain::question::Question;
use gpuwise_lab::answer::{about_training_memory, about_training_time};
use gpuwise_read::question::read_questions;

/// Mean of |predicted / measured - 1| over answered rows of a table, and how many were.
fn error_of(table: &str, metric: &str) -> Option<(f64, usize)> {
    let data = gpuwise_needs::data("")?;
    let text =
        std::fs::read_to_string(data.join(format!("questions/{table}.csv"))).expect("a table");
    let mut catalogue = catalogue();
    catalogue.training = training_facts();
    let (mut sum, mut count) = (0.0, 0_u32);
    for question in read_questions(&text).expect("questions") {
        if question.metric != metric
            || question
                .gpus
                .is_some_and(|gpus| gpus > 64 && metric.starts_with("time"))
        {
            continue;
        }
        let known = (!metric.starts_with("time")).then(|| model(&question.model));
        let answer = about_training_time(&question, known.as_ref(), &catalogue);
        let estimate = answer.and_then(|answer| answer.estimate);
        let (Some(estimate), Some(measured)) = (estimate, question.value) else {
            continue;
        };
        assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        sum += (estimate.value / measured - 1.0).abs();
        count += 1;
    }
    Some((sum / f64::from(count), count as usize))
}

#[test]
fn published_runs_are_told_within_the_marks() {
    for (table, metric, mark, rows) in [
        (
            "llm_foundry_training",
            "train_tokens_per_s_per_gpu",
            0.10,
            169,
        ),
        ("llm_foundry_training", "mfu", 0.10, 169),
        ("nemo_training", "train_tokens_per_s_per_gpu", 0.12, 27),
        (
            "megatron_bridge_training",
            "train_tokens_per_s_per_gpu",
            0.16,
            118,
        ),
        ("mlperf_training", "time_to_train_olympic_mean", 0.25, 160),
    ] {
        let Some((error, count)) = error_of(table, metric) else {
            return;
        };
        assert!(count >= rows, "{table}: {count} rows");
        assert!(error <= mark, "{table} {metric}: {error}");
    }
}

#[test]
fn questions_about_what_does_not_exist_say_so() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    let asked = |gpu: &str, method: &str, modules: &str| {
        let question = Question {
            gpu: gpu.into(),
            engine: "transformers+peft".into(),
            metric: "oom".into(),
            extra: vec![
                ("method".into(), method.into()),
                ("target_modules".into(), modules.into()),
            ],
            ..Question::default()
        };
        let answer =
            about_training_memory(&question, &architecture, &catalogue()).expect("of training");
        (
            answer.estimate.map(|estimate| estimate.value),
            answer.reason,
        )
    };
    for (gpu, method, modules, named) in [
        ("H1000", "LoRA", "", "H1000"),
        ("H100 SXM5 80GB", "LoRRA", "", "lora"),
        ("H100 SXM5 80GB", "LoRA", "q_proj,c_attn", "c_attn"),
    ] {
        let (value, reason) = asked(gpu, method, modules);
        assert!(value.is_none() && reason.contains(named), "{reason}");
    }
    assert_eq!(asked("H100 SXM5 80GB", "LoRA", "q_proj").0, Some(0.0));
    assert_eq!(asked("L4", "full fine-tuning", "").0, Some(1.0));
}
