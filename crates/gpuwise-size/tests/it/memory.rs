//! Memory against sums worked out by hand, and against what engines logged.
#![allow(clippy::float_cmp, reason = "whole numbers of bytes are exact")]

use crate::fixture::{catalogue, model};
use gpuwise_domain::{
    deployment::Adapters,
    engine::Engine,
    gpu::Device,
    layout::Layout,
    model::{Architecture, Role, StoredWeights},
    precision::CacheFormat,
    question::Question,
};
use gpuwise_size::{
    answer::{default_settings, engine_of, predict_memory},
    memory::{
        MemoryPlan, Part, cache_shape, explain, plan, published_bytes, report, visible_memory,
        weights_per_rank,
    },
    setup::{Draft, Setup, Weights},
};

const GIB: f64 = 1073741824.0;

fn engine(written: &str) -> Engine {
    engine_of(written).expect("an engine")
}

/// A setup on H100s, as published.
pub(crate) fn with_setup<R>(
    architecture: &Architecture,
    written: &str,
    layout: Layout,
    run: impl FnOnce(Setup<'_>) -> R,
) -> R {
    let catalogue = catalogue();
    let device = Device::whole(catalogue.gpu("H100 SXM5 80GB").expect("an H100"));
    let engine = engine(written);
    run(Setup {
        architecture,
        device,
        settings: default_settings(&engine, &device, layout, None),
        engine,
        profile: "vllm".into(),
        layout,
        weights: Weights::published(architecture),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
    })
}

pub(crate) fn plan_of(name: &str, written: &str, layout: Layout) -> MemoryPlan {
    with_setup(&model(name), written, layout, |setup| plan(&setup))
}

#[test]
fn a_larger_stated_share_of_memory_never_holds_fewer_tokens() {
    for written in ["vllm 0.15.1", "vllm 0.33.0", "sglang 0.5.23", "trtllm 1.2"] {
        let mut before = 0.0;
        for percent in 50..=99 {
            with_setup(
                &model("meta-llama/Llama-3.1-8B"),
                written,
                Layout::SINGLE,
                |mut setup| {
                    setup.settings.memory_fraction = f64::from(percent) / 100.0;
                    let tokens = plan(&setup).cache_tokens();
                    assert!(
                        tokens > before,
                        "{written}: {tokens} tokens at {percent} %, {before} below it"
                    );
                    before = tokens;
                },
            );
        }
    }
}

#[test]
fn sglang_reserves_more_for_larger_steps_where_nothing_is_stated() {
    let catalogue = catalogue();
    let device = Device::whole(catalogue.gpu("H100 SXM5 80GB").expect("an H100"));
    let share = |tokens| {
        default_settings(&engine("sglang 0.5.23"), &device, Layout::SINGLE, tokens).memory_fraction
    };
    // 512 + 1.5 × 8192 + 2 × 256 + 128 MiB of 81,087 that a program sees.
    assert!((share(None) - (1.0 - 13_440.0 / 81_087.0)).abs() < 1e-3);
    assert!((share(Some(8192)) - share(None)).abs() < 1e-12);
    assert!(share(Some(16_384)) < share(None) - 0.1);
}

#[test]
fn weights_and_cache_of_known_models() {
    // bytes of all weights, bytes per token at 16 bits, by hand from the shapes.
    for (name, weights, token) in [
        // 8,030,261,248 parameters × 2; 32 layers × 8 heads × 128 × 2 × 2.
        ("meta-llama/Llama-3.1-8B", 16_060_522_496.0, 131_072.0),
        // 70,553,706,496 × 2; 80 × 8 × 128 × 2 × 2.
        ("meta-llama/Llama-3.1-70B", 141_107_412_992.0, 327_680.0),
        // 7,615,616,512 × 2; 28 × 4 × 128 × 2 × 2.
        ("Qwen/Qwen2.5-7B-Instruct", 15_231_233_024.0, 57_344.0),
        // 12,247,782,400 × 2; 40 × 8 × 128 × 2 × 2.
        (
            "mistralai/Mistral-Nemo-Instruct-2407",
            24_495_564_800.0,
            163_840.0,
        ),
    ] {
        with_setup(&model(name), "vllm 0.15.1", Layout::SINGLE, |setup| {
            assert_eq!(published_bytes(&setup), weights, "{name}");
            assert_eq!(cache_shape(&setup).token_bytes(), token, "{name}");
        });
    }
}

#[test]
fn latent_cache_is_the_same_on_every_rank() {
    // 61 layers × (512 + 64) × 2 bytes, however many ranks.
    for tensor in [1, 2, 8] {
        let plan = plan_of(
            "deepseek-ai/DeepSeek-V3",
            "vllm 0.9.2",
            Layout::tensor(tensor),
        );
        assert_eq!(plan.cache_shape.token_bytes(), 70_272.0, "TP{tensor}");
    }
}

#[test]
fn context_parallel_ranks_deal_tokens_out() {
    let layout = Layout {
        decode_context: 8,
        ..Layout::tensor(8)
    };
    let dealt = plan_of("deepseek-ai/DeepSeek-V3", "vllm 0.11.0", layout);
    let whole = plan_of("deepseek-ai/DeepSeek-V3", "vllm 0.11.0", Layout::tensor(8));
    assert_eq!(
        dealt.cache_shape.token_bytes() * 8.0,
        whole.cache_shape.token_bytes()
    );
    assert_eq!(dealt.cache_tokens(), 8.0 * whole.cache_tokens());
}

#[test]
fn windows_free_what_lies_behind_them() {
    // gpt-oss-20b: 12 layers keep all, 12 the last 128 tokens; 8 heads × 64 × 2 × 2 bytes each.
    let plan = plan_of("openai/gpt-oss-20b", "vllm 0.11.0", Layout::SINGLE);
    let layer = 2048.0;
    assert_eq!(plan.cache_shape.token_bytes(), 12.0 * layer);
    assert_eq!(
        plan.cache_shape.sequence_bytes(10_000.0),
        12.0 * layer * (10_000.0 + 128.0)
    );
    // The pool shares pages out over both halves: reported is what all layers could keep.
    let tokens = plan.cache_shape.reported_tokens(GIB);
    assert!((tokens - GIB / (24.0 * layer)).abs() <= 16.0, "{tokens}");
    // Requests of 10,000 tokens hold 625 blocks in one group and few in the other.
    let requests = plan.cache_shape.sequences(GIB, 10_000.0);
    assert!(
        requests > 1.9 * GIB / (24.0 * layer) / 10_000.0,
        "{requests}"
    );
}

#[test]
fn one_group_of_ranks_shares_everything_but_what_is_replicated() {
    for (name, replicated) in [
        // Norms: 65 × 4,096 elements.
        ("meta-llama/Llama-3.1-8B", 65.0 * 4096.0 * 2.0),
        // Norms: 161 × 8,192.
        ("meta-llama/Llama-3.1-70B", 161.0 * 8192.0 * 2.0),
    ] {
        let architecture = model(name);
        let on = |tensor| {
            with_setup(&architecture, "vllm 0.15.1", Layout::tensor(tensor), |s| {
                weights_per_rank(&s)
            })
        };
        let whole = on(1);
        for tensor in [2, 4, 8] {
            let expected = whole + f64::from(tensor - 1) * replicated;
            assert!(
                (f64::from(tensor) * on(tensor) - expected).abs() < 1.0,
                "{name} TP{tensor}"
            );
        }
    }
}

#[test]
fn pipeline_stages_share_layers() {
    let architecture = model("meta-llama/Llama-3.1-70B");
    let layout = Layout {
        pipeline: 2,
        ..Layout::SINGLE
    };
    with_setup(&architecture, "vllm 0.15.1", layout, |setup| {
        // 40 of 80 layers of 855,654,400 parameters, and the head with the last norm.
        let expected = 2.0 * (40.0 * 855_654_400.0 + 128_256.0 * 8192.0 + 8192.0);
        assert!((weights_per_rank(&setup) - expected).abs() < 1.0);
        assert_eq!(cache_shape(&setup).token_bytes(), 163_840.0);
    });
}

#[test]
fn adapters_take_a_pair_of_matrices_for_each_projection() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    with_setup(&architecture, "vllm 0.15.1", Layout::SINGLE, |mut setup| {
        let without = weights_per_rank(&setup);
        setup.adapters = Some(Adapters { count: 4, rank: 16 });
        let with = weights_per_rank(&setup);
        // A layer's projections, in + out: q 8,192; k, v 5,120 each; o 8,192; gate, up, down 18,432 each.
        let each = 32.0 * (8192.0 + 5120.0 * 2.0 + 8192.0 + 18432.0 * 3.0) * 16.0 * 2.0;
        assert_eq!(with - without, 4.0 * each);
    });
}

#[test]
fn prediction_layers_are_loaded_where_they_draft() {
    let architecture = model("deepseek-ai/DeepSeek-V3");
    with_setup(
        &architecture,
        "vllm 0.15.1",
        Layout::tensor(8),
        |mut setup| {
            let without = (weights_per_rank(&setup), cache_shape(&setup).token_bytes());
            setup.draft = Some(Draft {
                tokens: 1,
                acceptance: 0.7,
                model: None,
            });
            let with = (weights_per_rank(&setup), cache_shape(&setup).token_bytes());
            assert!(
                with.0 > without.0 + GIB,
                "a layer of experts on eight ranks"
            );
            assert_eq!(with.1 - without.1, 1152.0);
        },
    );
}

#[test]
fn headers_are_the_truth_and_shapes_share_them_out() {
    let mut architecture = model("meta-llama/Llama-3.1-8B");
    let halved = |role: Role| -> u64 {
        let tensors = architecture.tensors().filter(|(_, t)| t.role == role);
        tensors.map(|(repeat, t)| repeat * t.elements()).sum()
    };
    let by_role: Vec<(Role, u64)> = [Role::Embedding, Role::Head, Role::Query, Role::MlpUp]
        .into_iter()
        .map(|role| (role, halved(role)))
        .collect();
    let (up, in_all) = (
        halved(Role::MlpUp),
        by_role.iter().map(|(_, bytes)| bytes).sum::<u64>(),
    );
    architecture.stored = Some(StoredWeights {
        by_role,
        elements: 1,
    });
    with_setup(&architecture, "vllm 0.15.1", Layout::tensor(2), |setup| {
        assert_eq!(published_bytes(&setup), in_all as f64);
        let plan = plan(&setup);
        let mlp = plan
            .weights
            .iter()
            .find(|kind| kind.kind == "MLP")
            .expect("an MLP");
        let down = 32.0 * 14336.0 * 4096.0 * 2.0 / 2.0;
        assert!((mlp.bytes - (up as f64 / 2.0 + down)).abs() < 1.0);
    });
}

#[test]
fn reports_are_never_negative() {
    let architecture = model("meta-llama/Llama-3.1-405B");
    with_setup(&architecture, "vllm 0.15.1", Layout::tensor(2), |setup| {
        let plan = plan(&setup);
        let report = report(&plan, &setup, 2000.0);
        assert_eq!(report.cache.count(), 0);
        assert_eq!(report.cache_tokens, 0);
        assert!((report.shortfall.as_f64() + plan.cache).abs() <= 1.0);
        assert_eq!(
            report.weight_bytes().gib().round(),
            (plan.weight_bytes() / GIB).round()
        );
    });
}

#[test]
fn derivations_add_up() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    with_setup(&architecture, "vllm 0.15.1", Layout::SINGLE, |setup| {
        let plan = plan(&setup);
        let tree = explain(&plan, &setup);
        let room = tree.inputs.first().expect("the room");
        let named: Vec<&str> = room
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        assert_eq!(
            named,
            [
                "budget",
                "weights of a GPU",
                "rotary table",
                "activations",
                "context and kernels"
            ]
        );
        let inside: f64 = plan
            .overheads
            .iter()
            .filter(|o| !o.outside_budget)
            .map(|o| o.bytes)
            .sum();
        assert!((plan.budget - plan.weight_bytes() - inside - plan.cache).abs() < 1.0);
        assert!(
            room.inputs
                .iter()
                .skip(2)
                .all(|input| !input.source.is_empty())
        );
    });
}

#[test]
fn more_memory_never_holds_fewer_tokens() {
    for name in [
        "meta-llama/Llama-3.1-8B",
        "openai/gpt-oss-20b",
        "Qwen/Qwen3.5-27B",
        "deepseek-ai/DeepSeek-V3",
    ] {
        let shape = plan_of(name, "vllm 0.26.0", Layout::SINGLE).cache_shape;
        let mut before = 0.0;
        for step in 0..400 {
            let tokens = shape.reported_tokens(f64::from(step) * 0.1 * GIB);
            assert!(tokens >= before, "{name} at step {step}");
            before = tokens;
        }
    }
}

#[test]
fn releases_reserve_what_their_profile_takes() {
    let peak = |written: &str| {
        plan_of("meta-llama/Llama-3.1-8B", written, Layout::SINGLE).overhead(Part::Activations)
    };
    // 1,024 sequences × 128,256 logits: sorted in PyTorch, by a kernel, sampled by a kernel, left out.
    let logits = 1024.0 * 128_256.0;
    let (old, new) = (2.0 * 8192.0 * 4096.0, 4.0 * 8192.0 * 4096.0);
    for (written, expected) in [
        ("vllm 0.10.2", 38.4 * logits + old),
        ("vllm 0.15.1", 38.4 * logits + new),
        ("vllm 0.18.1", 14.0 * logits + new),
        ("vllm 0.22.1", 10.0 * logits + new),
    ] {
        assert!(
            (peak(written) - expected).abs() < 1.0,
            "{written}: {}",
            peak(written) / GIB
        );
    }
    assert!(peak("vllm 0.26.0") < peak("vllm 0.22.1"));
    let graphs = |written: &str| {
        let plan = plan_of("openai/gpt-oss-20b", written, Layout::SINGLE);
        plan.overheads
            .iter()
            .any(|o| o.kind == Part::Graphs && !o.outside_budget)
    };
    assert!(!graphs("vllm 0.19.1") && graphs("vllm 0.20.0"));
}

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
