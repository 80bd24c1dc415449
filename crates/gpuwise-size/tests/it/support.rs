//! What starts on which hardware: engines' facts and silicon, as plans see them.

use crate::{
    fixture::engine_facts,
    search::{Case, workload},
};
use gpuwise_domain::{
    deployment::{Deployment, Sizing, Test},
    engine::Engine,
    facts::EngineFacts,
};
use gpuwise_size::search::{Request, plan};

fn sized(case: &Case, facts: &EngineFacts) -> Sizing {
    plan(&Request {
        facts: Some(facts),
        ..case.request()
    })
}

/// A model on a GPU under vLLM in a release, in formats that are asked for.
fn on(model: &str, gpu: &str, release: &str, formats: &[&str]) -> Sizing {
    let mut case = Case::new(model);
    case.workload = workload(0.2, 20.0, 1.0);
    let mut case = case.on(&[gpu]);
    case.choices.weights = formats.iter().map(ToString::to_string).collect();
    let facts = engine_facts("vllm");
    case.choices.engine = Engine {
        release: release.parse().ok(),
        ..case.choices.engine
    };
    sized(&case, &facts)
}

fn first(sizing: &Sizing) -> &Deployment {
    sizing.ranked.first().expect("a deployment")
}

#[test]
fn what_has_no_bf16_runs_in_fp16_and_says_so() {
    for (gpu, release) in [
        ("T4", "0.33.0"),
        ("T4", "0.14.0"),
        ("V100 SXM2 32GB", "0.14.0"),
    ] {
        let sizing = on("meta-llama/Llama-3.2-1B", gpu, release, &[]);
        let best = first(&sizing);
        assert_eq!(
            (best.weights.as_str(), best.weights_published),
            ("fp16", true),
            "{gpu}"
        );
    }
    let sizing = on("meta-llama/Llama-3.2-1B", "L4", "0.33.0", &[]);
    assert_eq!(first(&sizing).weights, "bf16");
    let sizing = on("meta-llama/Llama-3.2-1B", "L4", "0.33.0", &["fp16"]);
    assert_eq!(first(&sizing).weights, "fp16");
}

#[test]
fn what_cannot_start_is_dropped_with_the_reason() {
    let llama = "meta-llama/Llama-3.2-1B";
    for (model, gpu, release, formats, reason) in [
        (llama, "T4", "0.33.0", &["bf16"][..], "no BF16"),
        (llama, "V100 SXM2 32GB", "0.33.0", &[], ">=7.5"),
        (llama, "Tesla P100 PCIe 16 GB", "0.14.0", &[], ">=7.0"),
        (llama, "V100 SXM2 32GB", "0.14.0", &["fp8"], "weights:fp8"),
        (
            "openai/gpt-oss-20b",
            "V100 SXM2 32GB",
            "0.14.0",
            &[],
            "weights:mxfp4",
        ),
        ("openai/gpt-oss-20b", "T4", "0.33.0", &[], "weights:mxfp4"),
        ("google/gemma-3-4b-it", "T4", "0.33.0", &[], "in FP16"),
    ] {
        let sizing = on(model, gpu, release, formats);
        assert!(sizing.ranked.is_empty(), "{model} on {gpu}");
        let Some(dropped) = sizing.dropped.first() else {
            panic!("{model} on {gpu}: no reason")
        };
        assert_eq!(dropped.test, Test::Support, "{model} on {gpu}");
        assert!(
            dropped.shortfall.to_string().contains(reason),
            "{}",
            dropped.shortfall
        );
    }
}

#[test]
fn eight_bits_without_the_units_are_unpacked_where_the_engine_does_that() {
    let llama = "meta-llama/Llama-3.2-1B";
    for gpu in ["A100 SXM4 80GB", "T4", "L4"] {
        let sizing = on(llama, gpu, "0.33.0", &["fp8"]);
        assert_eq!(first(&sizing).weights, "fp8", "{gpu}");
    }
    let sizing = on(llama, "MI250X", "0.33.0", &["fp8"]);
    assert!(sizing.ranked.is_empty());
    assert_eq!(sizing.dropped.first().map(|d| d.test), Some(Test::Support));
}

#[test]
fn a_context_beyond_the_model_is_no_plan() {
    let mut case = Case::new("meta-llama/Meta-Llama-3-8B").on(&["H100 SXM5 80GB"]);
    case.choices.max_context = Some(8193);
    let sizing = case.plan();
    assert!(sizing.ranked.is_empty());
    let said = sizing
        .dropped
        .first()
        .expect("a reason")
        .shortfall
        .to_string();
    assert!(said.contains("8193") && said.contains("8192"), "{said}");
    case.choices.max_context = Some(8192);
    assert!(!case.plan().ranked.is_empty());
}
