//! What vLLM logs of a cache whose layers keep different things, by release, against sums by hand.
#![allow(clippy::float_cmp, reason = "whole numbers of tokens are exact")]

use crate::{
    fixture::{catalogue, model},
    memory_rows::{asked, said},
    setups::{plan_of, with_setup},
};
use gpuwise_domain::{layout::Layout, question::Load};
use gpuwise_lab::answer::predict_memory;
use gpuwise_size::memory::{Part, cache_shape, plan};

const GIB: f64 = 1073741824.0;

/// Tokens logged of so many GiB, by a release, for requests of at most so many tokens.
fn logged(name: &str, engine: &str, gib: &str, context: &str) -> f64 {
    let extra = [
        ("kv_cache_memory_per_gpu_gib", gib),
        ("max_model_len", context),
        ("max_num_batched_tokens", "2048"),
    ];
    said(&asked(
        "kv_cache_capacity_given_memory",
        name,
        "",
        engine,
        "tokens",
        &extra,
    ))
}

#[test]
fn a_log_of_no_stated_release_counts_every_layer() {
    // A log of 5.38 GiB says 78,375 tokens: 36 layers of 2,048 bytes, though 18 keep 128 tokens.
    let tokens = logged("openai/gpt-oss-120b", "vllm", "5.38", "131072");
    assert!((tokens / 78_375.0 - 1.0).abs() < 0.002, "{tokens}");
    // The command line's newest release logs what requests of the longest context come to.
    let newest = logged("openai/gpt-oss-120b", "vllm 0.33.0", "5.38", "131072");
    assert!(newest > 1.8 * tokens, "{newest}");
}

#[test]
fn a_month_alone_leaves_both_forms_of_the_log_in_range() {
    // The newest release of a month is not always the one that ran. Zamba2: 742 blocks, seven groups, blocks of 48.
    let blocks = 742.0 * 9.0 * 48.0 * 20_480.0 / GIB;
    for (name, gib, context) in [
        ("openai/gpt-oss-120b", 5.38, "131072"),
        ("Zyphra/Zamba2-2.7B", blocks, "4096"),
    ] {
        let gib = gib.to_string();
        let form = |engine: &str| logged(name, engine, &gib, context);
        let (earlier, later) = (form("vllm 0.20.2"), form("vllm 0.26.0"));
        assert!(later > 1.5 * earlier, "{name}: {earlier} and {later}");
        let extra = [
            ("kv_cache_memory_per_gpu_gib", gib.as_str()),
            ("max_model_len", context),
            ("max_num_batched_tokens", "2048"),
        ];
        let of_month = asked(
            "kv_cache_capacity_given_memory",
            name,
            "",
            "vllm 2026-07",
            "tokens",
            &extra,
        );
        let answer = predict_memory(&of_month, &model(name), &catalogue());
        let answer = answer.expect("a metric of memory").expect("an answer");
        assert_eq!(answer.value, later, "{name}");
        assert!(answer.low <= earlier && answer.high >= later, "{answer:?}");
        // A release that is stated logs in its own form.
        assert!(form("vllm 0.21.0") > 1.5 * earlier, "{name}");
    }
}

#[test]
fn windows_reserve_the_tokens_in_flight() {
    // gpt-oss-20b: two groups of 12 layers, pages of 16 × 2,048 bytes.
    let blocks = (10.0 * GIB / (12.0 * 16.0 * 2048.0)).floor();
    let by_groups = (blocks / 2.0).floor() * 16.0;
    let by_requests = |in_flight: f64| {
        let windowed = ((127.0 + in_flight) / 16.0).ceil() + 1.0;
        (blocks / (32_768.0 / 16.0 + windowed) * 32_768.0).floor()
    };
    for (release, expected) in [
        ("vllm 0.11.0", by_groups),
        ("vllm 0.20.2", by_groups),
        ("vllm 0.21.0", by_requests(2048.0)),
        ("vllm 0.25.1", by_requests(2048.0)),
        ("vllm 0.26.0", by_requests(4096.0)),
    ] {
        assert_eq!(
            logged("openai/gpt-oss-20b", release, "10", "32768"),
            expected,
            "{release}"
        );
    }
}

#[test]
fn prefix_caching_keeps_more_pages_of_states() {
    // Zamba2-2.7B: a token of 32 × 160 × 2 × 2 bytes; a state of 80 × 64 × 64 and a convolution of
    // 3 × 5,248 elements of 2 bytes fill 34 tokens, so blocks have 48; 9 layers with attention, 54
    // with states: seven groups.
    let page: f64 = 48.0 * 20_480.0;
    assert!(page >= 2.0 * (80.0 * 4096.0 + 3.0 * 5248.0));
    let blocks = (10.0 * GIB / (9.0 * page)).floor();
    let full = (4096.0_f64 / 48.0).ceil();
    let requests = |states: f64| (blocks / (full + 6.0 * states) * 4096.0).floor();
    for (release, expected) in [
        ("vllm 0.19.1", (blocks / 7.0).floor() * 48.0),
        ("vllm 0.26.0", requests(1.0)),
        // A state at every block until 0.33, then one beside the running one.
        ("vllm 0.30.0", requests(full)),
        ("vllm 0.33.0", requests(2.0)),
    ] {
        assert_eq!(
            logged("Zyphra/Zamba2-2.7B", release, "10", "4096"),
            expected,
            "{release}"
        );
    }
}

#[test]
fn the_first_engine_keeps_states_beside_its_cache() {
    let on = |engine: &str| plan_of("Zyphra/Zamba2-2.7B", engine, Layout::SINGLE);
    let (first, second) = (on("vllm 0.8.5"), on("vllm 0.11.0"));
    // Blocks hold attention alone: 9 layers of 20,480 bytes.
    let tokens = first.cache_shape.reported_tokens(GIB);
    assert!((tokens - GIB / (9.0 * 20_480.0)).abs() <= 16.0, "{tokens}");
    // 54 states for each sequence that may run.
    let state = 54.0 * 2.0 * (80.0 * 4096.0 + 3.0 * 5248.0);
    let named = |plan: &gpuwise_size::memory::MemoryPlan| {
        let mut parts = plan.overheads.iter();
        parts
            .find(|part| part.name == "states of all sequences")
            .map(|part| part.bytes)
    };
    let bytes = named(&first).expect("states");
    assert_eq!(bytes % state, 0.0, "{}", bytes / state);
    assert_eq!(named(&second), None);
}

#[test]
fn attention_to_an_encoder_is_a_group_of_its_own() {
    // Whisper: 32 layers that keep the text, 32 that keep 1,500 positions; 5,120 bytes each.
    let tokens = logged("openai/whisper-large-v3", "vllm 0.15.1", "4", "448");
    let blocks = (4.0 * GIB / (32.0 * 16.0 * 5120.0)).floor();
    assert_eq!(tokens, (blocks / 2.0).floor() * 16.0);
    // The first engine has one kind of blocks.
    let first = logged("openai/whisper-large-v3", "vllm 0.7.3", "4", "448");
    assert!((first / tokens - 2.0).abs() < 0.01, "{first}");
}

#[test]
fn the_first_engine_counts_layers_that_attend_to_images() {
    let name = "meta-llama/Llama-3.2-11B-Vision-Instruct";
    with_setup(&model(name), "vllm 0.7.3", Layout::SINGLE, |mut setup| {
        // 32 layers with text and 8 with images, 8 heads × 128 × 2 × 2 bytes each.
        assert_eq!(cache_shape(&setup).all_token_bytes(), 40.0 * 4096.0);
        // Each sequence of the profile brings an image.
        let mut peak = |sequences| {
            setup.settings.sequences = sequences;
            plan(&setup).overhead(Part::Activations)
        };
        let (few, many) = (peak(8), peak(16));
        assert!((many / few - 2.0).abs() < 0.01, "{few} and {many}");
        // A mask of 6,404² in 16 bits at least.
        assert!(many > 16.0 * 2.0 * 6404.0 * 6404.0);
    });
}

/// One sequence of the first engine's profile brings an image and a video, 16,384 tokens each at least, or neither
/// where it has no room for both.
#[test]
fn the_first_engine_profiles_an_image_and_a_video_where_they_have_room() {
    let name = "Qwen/Qwen2.5-VL-7B-Instruct";
    let peak = |engine: &str, context: u64, tokens: u64| {
        with_setup(&model(name), engine, Layout::SINGLE, |mut setup| {
            setup.settings.batched_tokens = tokens;
            setup.settings.max_context = context;
            plan(&setup).overhead(Part::Activations)
        })
    };
    let text = peak("vllm 0.7.3", 32_000, 32_000);
    let both = peak("vllm 0.7.3", 32_800, 32_800);
    assert!(text / GIB < 5.0 && both > text + 0.1 * GIB, "{text} {both}");
    // Six pairs of frames beside the image: 393,216 patches of a width of 14,520 in 16 bits.
    let long = peak("vllm 0.7.3", 128_000, 128_000);
    assert!(long > 2.0 * 393_216.0 * 14_520.0, "{long}");
    // The second engine profiles the video too, whatever a step has room for.
    let second = peak("vllm 0.8.5", 128_000, 8192);
    assert!(second > 2.0 * 393_216.0 * 14_520.0, "{second}");
}

#[test]
fn chunks_were_kept_whole_for_some_releases() {
    let name = "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic";
    let ignored = |engine: &str| {
        plan_of(name, engine, Layout::tensor(2))
            .cache_shape
            .windows_ignored
    };
    assert!(!ignored("vllm 0.9.2") && ignored("vllm 0.11.0"));
    assert!(ignored("vllm 0.13.0") && !ignored("vllm 0.15.1"));
}

#[test]
fn what_is_held_is_at_least_what_is_logged() {
    for name in [
        "openai/gpt-oss-20b",
        "Qwen/Qwen3.5-27B",
        "Zyphra/Zamba2-2.7B",
        "google/gemma-3-27b-it",
        "meta-llama/Llama-3.1-8B",
    ] {
        for engine in ["vllm 0.11.0", "vllm 0.19.1", "vllm 0.26.0", "vllm 0.33.0"] {
            let plan = plan_of(name, engine, Layout::tensor(2));
            let (held, logged) = (
                plan.held_tokens(plan.cache_shape.max_context),
                plan.cache_tokens(),
            );
            assert!(
                held >= 0.999 * logged,
                "{name} {engine}: {held} and {logged}"
            );
        }
    }
}

#[test]
fn the_estimate_of_graphs_grows_with_their_number() {
    let graphs = |sequences: u64| {
        with_setup(
            &model("openai/gpt-oss-20b"),
            "vllm 0.22.0",
            Layout::SINGLE,
            |mut setup| {
                setup.settings.sequences = sequences;
                plan(&setup).overhead(Part::Graphs)
            },
        )
    };
    // 1, 2, 4, 8, 16 and 1, 2, 4, 8: nine graphs; 1, 2, 4, 8, 16, 24, 32 and five of them: twelve.
    assert!((graphs(16) / graphs(8) - 12.0 / 9.0).abs() < 1e-9);
    let before = [1, 8, 64, 256, 1024].map(graphs);
    assert!(before.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn peaks_of_serving_follow_the_engine() {
    let peak = |engine: &str, requests: f64| {
        let mut question = asked(
            "peak_memory_per_gpu",
            "meta-llama/Llama-3.1-8B",
            "H100 SXM5 80GB",
            engine,
            "GiB",
            &[],
        );
        question.load = Load::InFlight(requests);
        (question.input, question.output) = (Some(4000.0), Some(96.0));
        said(&question)
    };
    // Reserved, whatever runs.
    assert_eq!(peak("vllm 0.15.1", 1.0), peak("vllm 0.15.1", 64.0));
    let visible = plan_of("meta-llama/Llama-3.1-8B", "vllm 0.15.1", Layout::SINGLE).visible / GIB;
    assert!(peak("vllm 0.15.1", 1.0) > 0.9 * visible && peak("vllm 0.15.1", 1.0) < visible);
    // Grown: 63 requests more of 4,096 tokens of 131,072 bytes.
    let more = peak("transformers", 64.0) - peak("transformers", 1.0);
    assert!((more - 63.0 * 0.5).abs() < 0.5, "{more}");
}

#[test]
fn sglang_shares_memory_out_over_pools() {
    // gpt-oss-20b: 12 layers of 2,048 bytes, and 12 with a window that hold 0.8 of their tokens.
    let shape = plan_of("openai/gpt-oss-20b", "sglang 0.5.10", Layout::SINGLE).cache_shape;
    let tokens = 10.0 * GIB / (12.0 * 2048.0 * 1.8);
    assert!((shape.reported_tokens(10.0 * GIB) / tokens - 1.0).abs() < 1e-4);
    // Requests of 8,000 tokens fill the layers without a window.
    let held = shape.held_tokens(10.0 * GIB, 8000.0);
    assert!((held / tokens - 1.0).abs() < 0.001, "{held}");
    // Those of 100, with half a block empty, fill the layers with one.
    let short = shape.held_tokens(10.0 * GIB, 100.0);
    let expected = 0.8 * tokens * 100.0 / (100.0 + shape.block / 2.0);
    assert!((short / expected - 1.0).abs() < 0.01, "{short}");

    // Gemma has no pool for windows since 0.5.10: every layer keeps every token.
    let shape = plan_of("google/gemma-3-27b-it", "sglang 0.5.10", Layout::SINGLE).cache_shape;
    let all = 10.0 * GIB / shape.all_token_bytes();
    assert!((shape.held_tokens(10.0 * GIB, 9000.0) / all - 1.0).abs() < 0.001);

    // States have 0.9 of what tokens have.
    let shape = plan_of("Qwen/Qwen3.5-27B", "sglang 0.5.10", Layout::SINGLE).cache_shape;
    let tokens = 10.0 * GIB / 1.9 / shape.token_bytes();
    assert!((shape.reported_tokens(10.0 * GIB) / tokens - 1.0).abs() < 1e-4);
}
