//! Memory against what engines logged.
#![allow(clippy::float_cmp, reason = "whole numbers of bytes are exact")]

use crate::{
    fixture::{catalogue, model},
    setups::with_setup,
};
use gpuwise_domain::{gpu::Device, layout::Layout, question::Question};
use gpuwise_lab::answer::predict_memory;
use gpuwise_size::memory::{cache_shape, visible_memory};

const GIB: f64 = 1073741824.0;

pub(crate) fn asked(
    metric: &str,
    name: &str,
    gpu: &str,
    engine: &str,
    unit: &str,
    extra: &[(&str, &str)],
) -> Question {
    Question {
        model: name.into(),
        gpu: gpu.into(),
        gpus: Some(1),
        engine: engine.into(),
        metric: metric.into(),
        unit: unit.into(),
        extra: extra
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
        ..Question::default()
    }
}

pub(crate) fn said(question: &Question) -> f64 {
    let answer = predict_memory(question, &model(&question.model), &catalogue());
    answer
        .expect("a metric of memory")
        .expect("an answer")
        .value
}

/// What engines logged: model, GPU, tensor-parallel ranks, engine, further inputs, metric, unit, the
/// logged figure, and by which share ours may lie below and above it.
type Logged = (
    &'static str,
    &'static str,
    u32,
    &'static str,
    &'static [(&'static str, &'static str)],
    (&'static str, &'static str),
    f64,
    (f64, f64),
);

const H100: &str = "H100 SXM5 80GB";
const S128: &[(&str, &str)] = &[("max_num_seqs", "128")];
const A100: &[(&str, &str)] = &[
    ("gpu_memory_utilization", "0.90"),
    ("gpu_memory_gib", "79.14"),
];
const TOKENS: (&str, &str) = ("kv_cache_capacity", "tokens");
const WEIGHTS: (&str, &str) = ("weights_memory_per_gpu", "GiB");

#[rustfmt::skip]
const LOGGED: &[Logged] = &[
    // inference-sim/inference-sim@f90a1e3a:testdata/trained_physics_iter29.json
    ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", H100, 2, "vllm 0.15.1", S128, TOKENS, 132_048.0, (0.03, 0.05)),
    ("meta-llama/Llama-2-7b-hf", H100, 1, "vllm 0.15.1", S128, TOKENS, 119_408.0, (0.03, 0.03)),
    ("meta-llama/Llama-3.1-70B-Instruct", H100, 4, "vllm 0.15.1", S128, TOKENS, 484_016.0, (0.03, 0.03)),
    ("mistralai/Mistral-Nemo-Instruct-2407", H100, 2, "vllm 0.15.1", S128, TOKENS, 768_144.0, (0.03, 0.03)),
    ("mistralai/Mistral-Nemo-Instruct-2407", H100, 1, "vllm 0.15.1", S128, TOKENS, 308_016.0, (0.03, 0.03)),
    ("Qwen/Qwen2.5-7B-Instruct", H100, 1, "vllm 0.15.1", S128, TOKENS, 1_045_632.0, (0.03, 0.03)),
    ("01-ai/Yi-34B", H100, 2, "vllm 0.15.1", S128, TOKENS, 332_688.0, (0.03, 0.03)),
    // vllm-project/vllm issue 13061: one rank's weights hold 3.5 MiB of allocator blocks a layer;
    // the rank that samples decides the tokens.
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "GeForce RTX 4090", 2, "vllm 0.7 (2025-02)",
        &[("gpu_memory_utilization", "0.98")], WEIGHTS, 13.9476, (0.001, 0.001)),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "GeForce RTX 4090", 2, "vllm 0.7 (2025-02)",
        &[("gpu_memory_utilization", "0.98")], TOKENS, 81_536.0, (0.01, 0.01)),
    // A log of vLLM 0.6 in a public file: the first engine samples 256 sequences in its profile.
    ("meta-llama/Llama-3.1-8B", "A100 SXM4 80GB", 1, "vllm 0.6", A100, WEIGHTS, 14.99, (0.001, 0.001)),
    ("meta-llama/Llama-3.1-8B", "A100 SXM4 80GB", 1, "vllm 0.6", A100, ("activation_peak_per_gpu", "GiB"), 1.19, (0.005, 0.005)),
    ("meta-llama/Llama-3.1-8B", "A100 SXM4 80GB", 1, "vllm 0.6", A100, ("kv_cache_memory_per_gpu", "GiB"), 54.93, (0.001, 0.001)),
    // vllm-project/vllm pull request 12569.
    ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "", 1, "vllm V1 (2025-01)",
        &[("max_model_len", "2048")], WEIGHTS, 67.7229, (0.001, 0.001)),
    // vllm-project/recipes@8959cf6:moonshotai/Kimi-K2-Think.md, cache of 46.8 GiB.
    ("moonshotai/Kimi-K2-Thinking", "", 8, "vllm 2025-11",
        &[("kv_cache_memory_per_gpu_gib", "46.8")], ("kv_cache_capacity_given_memory", "tokens"), 715_072.0, (0.001, 0.001)),
    ("moonshotai/Kimi-K2-Thinking", "", 8, "vllm 2025-11",
        &[("kv_cache_memory_per_gpu_gib", "46.8"), ("note", "TP8 + DCP8")],
        ("kv_cache_capacity_given_memory", "tokens"), 5_721_088.0, (0.001, 0.001)),
];

#[test]
fn engines_logged_these() {
    for (name, gpu, tensor, engine, extra, (metric, unit), logged, (below, above)) in LOGGED {
        let mut question = asked(metric, name, gpu, engine, unit, extra);
        (question.gpus, question.tensor) = (Some(*tensor), Some(*tensor));
        let error = said(&question) / logged - 1.0;
        assert!(
            -below <= error && error <= *above,
            "{name} TP{tensor} {metric}: {:+.2} %",
            error * 100.0
        );
    }
}

#[test]
fn sparse_attention_keeps_index_keys_only_in_layers_that_score() {
    // 78 layers of 512 + 64 bytes in FP8 on an AMD part; 21 of them score tokens: 128 + 4 bytes.
    let question = asked(
        "kv_cache_capacity_given_memory",
        "zai-org/GLM-5.3",
        "",
        "vllm+atom 2026-08",
        "tokens",
        &[("kv_cache_memory_per_gpu_gib", "1"), ("note", "block 64")],
    );
    let token: f64 = 78.0 * 576.0 + 21.0 * 132.0;
    assert_eq!(said(&question), (GIB / token / 64.0).floor() * 64.0);
}

#[test]
fn notes_of_a_row_count() {
    let capacity = |name: &str, engine: &str, note: &str| {
        let extra = [("kv_cache_memory_per_gpu_gib", "20"), ("note", note)];
        said(&asked(
            "kv_cache_capacity_given_memory",
            name,
            "",
            engine,
            "tokens",
            &extra,
        ))
    };
    let hybrid = "Qwen/Qwen3.5-27B";
    let (wide, narrow) = (
        capacity(hybrid, "vllm 0.26.0", "ssm dtype fp32"),
        capacity(hybrid, "vllm 0.26.0", "ssm dtype fp16"),
    );
    assert!(
        narrow > wide,
        "narrower states leave more room: {narrow} and {wide}"
    );
    // Without the manager every layer keeps all tokens: 24 layers × 2,048 bytes.
    let off = capacity("openai/gpt-oss-20b", "vllm 0.26.0", "hybrid kv manager off");
    assert!((off - 20.0 * GIB / (24.0 * 2048.0)).abs() <= 16.0, "{off}");
    let on = capacity("openai/gpt-oss-20b", "vllm 0.26.0", "hybrid kv manager on");
    assert!(on > 1.8 * off, "{on} and {off}");
    // The first engine profiles a whole prompt.
    let peak = |note: &str| {
        let extra = [("max_model_len", "32768"), ("note", note)];
        said(&asked(
            "activation_peak_per_gpu",
            "Qwen/Qwen2.5-1.5B-Instruct",
            "T4",
            "vllm 0.8.5",
            "GiB",
            &extra,
        ))
    };
    assert!(
        (peak("V0 engine") - 2.02).abs() < 0.01,
        "{}",
        peak("V0 engine")
    );
    assert!(peak("") < 1.5);
}

#[test]
fn encoder_decoders_keep_the_encoders_output() {
    // 32 layers × 2 × 1,280 × 2 bytes for a token, and for 1,500 positions once.
    with_setup(
        &model("openai/whisper-large-v3"),
        "vllm 0.15.1",
        Layout::SINGLE,
        |setup| {
            let shape = cache_shape(&setup);
            assert_eq!(shape.token_bytes(), 163_840.0);
            assert_eq!(shape.state_bytes(), 163_840.0 * 1500.0);
        },
    );
}

#[test]
fn slices_have_what_the_driver_prints_for_them() {
    let catalogue = catalogue();
    let gpu = catalogue.gpu("H100 SXM5 80GB").expect("an H100");
    let slice = catalogue
        .mig_profiles(gpu)
        .find(|slice| slice.profile.starts_with("3g"))
        .expect("a 3g slice");
    let (visible, known) = visible_memory(&Device {
        gpu,
        slice: Some(slice),
    });
    let whole = visible_memory(&Device::whole(gpu)).0;
    assert!(known && visible < slice.memory.as_f64());
    assert!(
        visible > 0.45 * whole && visible < 0.55 * whole,
        "{}",
        visible / GIB
    );
}

#[test]
fn files_in_blocks_of_llama_cpp() {
    // Q4_0: 18 bytes for 32 elements, the head in Q6_K: 210 bytes for 256.
    let question = Question {
        precision: "Q4_0".into(),
        ..asked(
            "model_size_file",
            "meta-llama/Llama-2-7b-hf",
            "",
            "llama.cpp",
            "GiB",
            &[],
        )
    };
    let (table, layers, norms) = (
        32000.0 * 4096.0,
        32.0 * (4.0 * 4096.0 + 3.0 * 11008.0) * 4096.0,
        65.0 * 4096.0,
    );
    let expected = ((table + layers) * 18.0 / 32.0 + table * 210.0 / 256.0 + norms * 2.0) / GIB;
    assert!((said(&question) - expected).abs() < 1e-6);
}

#[test]
fn answers_come_in_the_unit_of_the_question() {
    let llama = "meta-llama/Llama-3.1-8B";
    let count = said(&asked("parameter_count", llama, "", "", "parameters", &[]));
    assert_eq!(count, 8_030_261_248.0);
    let bytes = said(&asked("weight_bytes", llama, "", "", "bytes", &[]));
    let gib = said(&asked("weight_bytes", llama, "", "", "GiB", &[]));
    assert!((bytes / GIB - gib).abs() < 1e-9);
    assert_eq!(
        said(&asked("kv_bytes_per_token", llama, "", "", "bytes", &[])),
        131_072.0
    );
    let half = Question {
        precision: "bf16, fp8 kv".into(),
        ..asked("kv_bytes_per_token", llama, "", "", "bytes", &[])
    };
    assert_eq!(said(&half), 65_536.0);
}

#[test]
fn questions_that_cannot_be_answered_say_why() {
    let llama = "meta-llama/Llama-3.1-8B";
    let refused = |question: &Question| {
        let answer =
            predict_memory(question, &model(llama), &catalogue()).expect("a metric of memory");
        answer.expect_err("no answer").to_string()
    };
    let unknown = refused(&asked(
        "kv_cache_capacity",
        llama,
        "H1000",
        "vllm 0.15.1",
        "tokens",
        &[],
    ));
    assert!(unknown.contains("H1000"), "{unknown}");
    let none = refused(&asked(
        "kv_cache_capacity",
        llama,
        "",
        "vllm 0.15.1",
        "tokens",
        &[],
    ));
    assert!(none.contains("names no GPU"), "{none}");
    let speed = asked(
        "ttft_mean",
        llama,
        "H100 SXM5 80GB",
        "vllm 0.15.1",
        "ms",
        &[],
    );
    assert!(predict_memory(&speed, &model(llama), &catalogue()).is_none());
}
