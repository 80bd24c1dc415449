//! Memory against sums worked out by hand, and against what engines logged.
#![allow(clippy::float_cmp, reason = "whole numbers of bytes are exact")]

use crate::{
    fixture::{catalogue, model},
    setups::{engine, plan_of, with_setup},
};
use gpuwise_domain::{
    deployment::Adapters,
    engine::EngineKind,
    gpu::Device,
    layout::Layout,
    model::{Role, StoredWeights},
};
use gpuwise_size::{
    engines,
    memory::{Part, cache_shape, explain, plan, published_bytes, report, weights_per_rank},
    setup::Draft,
};

const GIB: f64 = 1073741824.0;

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
        engines::model(EngineKind::Sglang)
            .settings(&engine("sglang 0.5.23"), &device, Layout::SINGLE, tokens)
            .memory_fraction
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
