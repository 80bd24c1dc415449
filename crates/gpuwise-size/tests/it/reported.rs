//! Weights and caches of models that people run, against what engines logged for them.

use crate::{
    fixture::{catalogue, model},
    setups::{engine, with_setup},
};
use gpuwise_domain::{gpu::Device, layout::Layout, precision::CacheFormat};
use gpuwise_size::{
    engines,
    formats::weights_named,
    memory::{cache_range, plan, weight_factors, weights_per_rank},
    setup::{Setup, Weights},
};

const GIB: f64 = 1073741824.0;

/// A setup of a model on a GPU in a precision (empty: as published).
fn on<R>(
    (name, precision): (&str, &str),
    gpu: &str,
    written: &str,
    layout: Layout,
    run: impl FnOnce(&Setup<'_>) -> R,
) -> R {
    let (architecture, catalogue) = (model(name), catalogue());
    let device = Device::whole(catalogue.gpu(gpu).expect("a GPU"));
    with_setup(&architecture, written, layout, |setup| {
        let mut setup = Setup { device, ..setup };
        if !precision.is_empty() {
            setup.weights = weights_named(&architecture, precision).expect("a precision");
        }
        setup.settings =
            engines::model(setup.engine.kind).settings(&setup.engine, &setup.device, layout, None);
        setup.cache = setup
            .weights
            .cache(&setup.engine, &architecture, setup.device.gpu);
        run(&setup)
    })
}

#[test]
fn weights_lie_within_their_range_of_what_was_logged() {
    let tensor = Layout::tensor;
    for (model, gpu, written, layout, logged) in [
        // vllm-project/recipes#646, noonghunna/club-3090#1047, vllm-project/vllm#17327.
        (
            ("deepseek-ai/DeepSeek-V4-Flash", ""),
            "MI325X",
            "vllm 0.25.0",
            tensor(1),
            148.66,
        ),
        (
            ("Qwen/Qwen3.8-27B", "nvfp4"),
            "RTX A6000",
            "vllm 0.27",
            tensor(1),
            19.75,
        ),
        (
            ("Qwen/Qwen3-30B-A3B", "int4"),
            "GeForce RTX 3090",
            "vllm 0.8.4",
            tensor(1),
            15.68,
        ),
    ] {
        on(model, gpu, written, layout, |setup| {
            let ours = weights_per_rank(setup) / GIB;
            let (low, high) = weight_factors(setup);
            println!("{} {}: {ours:.2} GiB, logged {logged}", model.0, model.1);
            assert!(
                ours * (low - 0.01) <= logged && logged <= ours * (high + 0.01),
                "{model:?}: {ours} GiB, logged {logged}"
            );
        });
    }
}

#[test]
fn experts_in_mxfp4_are_padded_as_kernels_take_them() {
    let bytes = |gpu: &str, written: &str, ranks: u32| {
        let model = ("openai/gpt-oss-120b", "");
        on(model, gpu, written, Layout::tensor(ranks), weights_per_rank) / GIB
    };
    // 36 layers of 128 experts of three matrices of 2880 × 2880: 4.25 bits a weight.
    let experts = |inner: f64, hidden: f64| 36.0 * 128.0 * 3.0 * inner * hidden * 4.25 / 8.0 / GIB;
    let triton = bytes("H100 SXM5 80GB", "vllm 0.15.1", 1);
    let plain = experts(2880.0, 2880.0);
    for (gpu, written, inner, hidden) in [
        ("H100 SXM5 80GB", "vllm 0.11.0", 2944.0, 3072.0),
        ("RTX A6000", "vllm 0.15.1", 2944.0, 3072.0),
        ("B200 SXM 180GB", "vllm 0.15.1", 3072.0, 3072.0),
        ("B200 SXM 180GB", "sglang 0.5.23", 3072.0, 3072.0),
        ("H100 SXM5 80GB", "sglang 0.5.23", 2880.0, 2880.0),
    ] {
        let more = bytes(gpu, written, 1) - triton;
        let expected = experts(inner, hidden) - plain;
        assert!(
            (more - expected).abs() < 0.01,
            "{gpu} {written}: {more} GiB, not {expected}"
        );
    }
    // Of eight ranks each has 360 of the inner width: 384.
    let eighth =
        bytes("H100 SXM5 80GB", "vllm 0.11.0", 8) - bytes("H100 SXM5 80GB", "vllm 0.15.1", 8);
    let expected = (experts(8.0 * 384.0, 3072.0) - experts(8.0 * 384.0, 2880.0)) / 8.0;
    assert!(
        (eighth - expected).abs() < 0.01,
        "{eighth} GiB, not {expected}"
    );
}

#[test]
fn a_cache_is_in_the_format_that_the_engine_takes_by_itself() {
    let half = CacheFormat::HALF;
    let fp8 = CacheFormat::FP8;
    for (model, gpu, written, expected) in [
        (
            ("deepseek-ai/DeepSeek-V3.2", ""),
            "B200 SXM 180GB",
            "sglang 0.5.4",
            fp8,
        ),
        (
            ("deepseek-ai/DeepSeek-V3.2", ""),
            "H200 SXM 141GB",
            "sglang 0.5.4",
            half,
        ),
        (
            ("deepseek-ai/DeepSeek-V3.2", ""),
            "H200 SXM 141GB",
            "vllm 0.15.1",
            fp8,
        ),
        (
            ("deepseek-ai/DeepSeek-V3", ""),
            "B200 SXM 180GB",
            "sglang 0.5.4",
            half,
        ),
        (
            ("deepseek-ai/DeepSeek-V4-Flash", ""),
            "H200 SXM 141GB",
            "sglang 0.5.15",
            fp8,
        ),
        (
            ("nvidia/Llama-3.1-8B-Instruct-NVFP4", ""),
            "B200 SXM 180GB",
            "vllm 0.11.0",
            half,
        ),
        (
            ("nvidia/Llama-3.1-8B-Instruct-NVFP4", ""),
            "B200 SXM 180GB",
            "vllm 0.12.0",
            fp8,
        ),
        (
            ("nvidia/Llama-3.1-8B-Instruct-NVFP4", ""),
            "B200 SXM 180GB",
            "trtllm 1.2",
            fp8,
        ),
        (
            ("meta-llama/Llama-3.1-8B", "fp8"),
            "H100 SXM5 80GB",
            "trtllm 1.2",
            fp8,
        ),
        (
            ("meta-llama/Llama-3.1-8B", "fp8"),
            "H100 SXM5 80GB",
            "vllm 0.33.0",
            half,
        ),
        (
            ("meta-llama/Llama-3.1-8B", ""),
            "H100 SXM5 80GB",
            "trtllm 1.2",
            half,
        ),
    ] {
        let found = on(model, gpu, written, Layout::SINGLE, |setup| setup.cache);
        assert_eq!(found, expected, "{model:?} on {gpu}, {written}");
    }
}

#[test]
fn the_range_of_a_cache_holds_its_figure_and_widens_with_what_is_unknown() {
    let width = |model: (&str, &str), written: &str| {
        on(model, "H100 SXM5 80GB", written, Layout::SINGLE, |setup| {
            let plan = plan(setup);
            let (low, high) = cache_range(setup, &plan);
            assert!(low < plan.cache && plan.cache < high, "{model:?} {written}");
            high - low
        })
    };
    let published = width(("meta-llama/Llama-3.1-8B", ""), "vllm 0.15.1");
    assert!(published < width(("meta-llama/Llama-3.1-8B", ""), "vllm 0.33.0"));
    assert!(published < width(("meta-llama/Llama-3.1-8B", "int4"), "vllm 0.15.1"));
    // Some exports of it leave attention and recurrent mixers in 16 bits.
    let hybrid = width(("Qwen/Qwen3.8-27B", "nvfp4"), "vllm 0.27");
    assert!(hybrid > width(("Qwen/Qwen3.8-27B", "fp8"), "vllm 0.27") + 2.0 * GIB);
    let architecture = model("Qwen/Qwen3.8-27B");
    assert_ne!(
        weights_named(&architecture, "nvfp4").expect("NVFP4"),
        Weights::published(&architecture)
    );
    assert!(engine("vllm 0.27").release.is_some());
}
