//! Steps by measured operators: bounds by silicon, order, and one step added up by hand.

use crate::fixture;
use gpuwise_domain::{
    engine::EngineKind, gpu::Device, layout::Layout, model::Architecture, precision::CacheFormat,
};
use gpuwise_operators::{Functions, GemmFormat, Heads, KvFormat, On, Operators, Silicon};
use gpuwise_size::{
    constants::{Constants, Parameter},
    engines,
    formats::weights_named,
    knowledge::Corrections,
    setup::Setup,
    speed::{Batch, StepModel, StepShape},
};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};

static OPERATORS: LazyLock<Arc<Operators>> = LazyLock::new(|| {
    let functions = Functions::parse(&fixture::text("operators.csv")).expect("functions");
    Arc::new(Operators::from(functions))
});
static CATALOGUE: LazyLock<gpuwise_domain::catalogue::Catalogue> =
    LazyLock::new(fixture::catalogue);
static DENSE: LazyLock<Architecture> = LazyLock::new(|| fixture::model("meta-llama/Llama-3.1-8B"));
static EXPERTS: LazyLock<Architecture> =
    LazyLock::new(|| fixture::model("deepseek-ai/DeepSeek-V3"));

const GPUS: [&str; 5] = [
    "A100 SXM4 80GB",
    "H100 SXM5 80GB",
    "H200 SXM 141GB",
    "B200 SXM 180GB",
    "MI300X",
];
const ENGINES: [&str; 3] = ["vllm@0.20.0", "sglang@0.5.14", "trtllm@1.2.0"];

/// Constants before any data, with the measured operators, where these take `run` times as long.
fn constants(run: f64) -> Constants {
    let mut constants = Constants {
        operators: Some(Arc::clone(&OPERATORS)),
        ..Constants::prior(&[], &[])
    };
    for parameter in [
        Parameter::RunMatmul,
        Parameter::RunExperts,
        Parameter::RunGeneration,
        Parameter::RunContext,
    ] {
        constants.base[parameter as usize] = run.ln();
    }
    constants
}

fn setup<'a>(
    model: &'a Architecture,
    gpu: &str,
    engine: &str,
    weights: &str,
    layout: Layout,
) -> Setup<'a> {
    let gpu = CATALOGUE.gpu(gpu).expect("a GPU of the catalogue");
    let device = Device::whole(gpu);
    let engine = crate::setups::engine(engine);
    Setup {
        architecture: model,
        device,
        bucket: engines::model(engine.kind).bucket(&engine, gpu),
        settings: engines::model(engine.kind).settings(&engine, &device, layout, None),
        engine,
        layout,
        weights: weights_named(model, weights).expect("a format"),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    }
}

fn steps(setup: &Setup<'_>, constants: &Constants) -> StepModel {
    StepModel::new(setup, Arc::new(StepShape::new(setup)), constants)
}

fn setups() -> impl Strategy<Value = Setup<'static>> {
    let place = (0..GPUS.len(), 0..ENGINES.len(), 0..4_u32);
    (place, any::<bool>(), 0..3_usize).prop_map(|((gpu, engine, tensor), experts, weights)| {
        let model: &Architecture = if experts { &EXPERTS } else { &DENSE };
        let weights = ["bf16", "fp8", "nvfp4"][weights];
        let layout = Layout::tensor(1 << tensor);
        setup(model, GPUS[gpu], ENGINES[engine], weights, layout)
    })
}

fn batches() -> impl Strategy<Value = Batch> {
    let part = prop_oneof![Just(0.0), (0.0..13.0_f64).prop_map(f64::exp2)];
    (part.clone(), 1.0..30_000.0_f64, part, 1.0..20_000.0_f64).prop_map(
        |(decodes, context, prefill, prefill_context)| Batch {
            decodes,
            context,
            prefill,
            prefill_context,
            ..Batch::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_step_beats_the_silicon_whatever_was_fitted(
        setup in setups(), batch in batches(), run in 0.05..3.0_f64,
    ) {
        let steps = steps(&setup, &constants(run));
        let time = steps.time(&batch);
        let operators = time.dense + time.experts + time.attention;
        prop_assert!(operators >= steps.roofline(&batch) * (1.0 - 1e-9));
    }

    #[test]
    fn no_step_gets_shorter_as_tokens_grow(
        setup in setups(), batch in batches(), more in 1.0..2.0_f64,
    ) {
        let steps = steps(&setup, &constants(1.0));
        let here = steps.time(&batch).total() * (1.0 - 1e-9);
        for larger in [
            Batch { decodes: batch.decodes * more, ..batch },
            Batch { prefill: batch.prefill * more, ..batch },
            Batch { context: batch.context * more, ..batch },
        ] {
            prop_assert!(steps.time(&larger).total() >= here, "{larger:?}");
        }
    }
}

/// Llama 3.1 8B on one H100 under vLLM, 16 sequences of 1,024 tokens: four matmuls and attention in
/// each of 32 layers, and the head.
#[test]
fn a_step_is_the_sum_of_what_was_measured() {
    let setup = setup(&DENSE, GPUS[1], ENGINES[0], "bf16", Layout::tensor(1));
    let batch = Batch {
        decodes: 16.0,
        context: 1024.0,
        ..Batch::default()
    };
    let time = steps(&setup, &constants(1.0)).time(&batch);

    let silicon = Arc::new(Silicon::of(&setup.device));
    let on = On {
        silicon: &silicon,
        engine: EngineKind::Vllm,
    };
    let gemm = |n: f64, k: f64| {
        let curve = OPERATORS.gemm(&on, GemmFormat::Bf16, n, k);
        curve.expect("a measured GEMM").at(16.0)
    };
    let layer =
        gemm(6144.0, 4096.0) + gemm(4096.0, 4096.0) + gemm(28672.0, 4096.0) + gemm(4096.0, 14336.0);
    let dense = 32.0 * layer + gemm(128_256.0, 4096.0);
    assert!((time.dense / dense - 1.0).abs() < 1e-9, "{time:?} {dense}");
    // 15.0 GB of weights at 0.95 of 3,350 GB/s are 4.7 ms.
    assert!((4.7e-3..6.5e-3).contains(&time.dense), "{time:?}");

    let heads = Heads {
        queries: 32.0,
        keys: 8.0,
        width: 128.0,
        window: 0.0,
    };
    let attention = OPERATORS.generation(&on, KvFormat::Bf16, &heads);
    let attention = 32.0 * attention.expect("measured attention").at(16.0, 1024.0);
    assert!((time.attention / attention - 1.0).abs() < 1e-9, "{time:?}");
}

#[test]
fn what_was_not_measured_keeps_shares_of_peaks() {
    let setup = setup(&DENSE, "MI300X", ENGINES[0], "bf16", Layout::tensor(1));
    let batch = Batch {
        decodes: 16.0,
        context: 1024.0,
        ..Batch::default()
    };
    let with = steps(&setup, &constants(1.0)).time(&batch);
    let without = steps(&setup, &Constants::prior(&[], &[])).time(&batch);
    assert_eq!(with, without);
}

#[test]
fn a_shape_answers_for_the_constants_that_ask() {
    let setup = setup(&DENSE, GPUS[1], ENGINES[0], "bf16", Layout::tensor(1));
    let shape = Arc::new(StepShape::new(&setup));
    let batch = Batch {
        decodes: 16.0,
        context: 1024.0,
        ..Batch::default()
    };
    let time =
        |constants: &Constants| StepModel::new(&setup, Arc::clone(&shape), constants).time(&batch);
    let measured = time(&constants(1.0));
    assert_ne!(measured, time(&Constants::prior(&[], &[])));
    assert_eq!(measured, time(&constants(1.0)));
}

#[test]
fn an_fp8_cache_is_slow_where_silicon_does_not_convert_it() {
    let seconds = |gpu: &str, cache: CacheFormat| {
        let setup = Setup {
            cache,
            ..setup(&DENSE, gpu, "vllm@0.20.0", "bf16", Layout::tensor(1))
        };
        let batch = Batch {
            decodes: 64.0,
            context: 1536.0,
            ..Batch::default()
        };
        steps(&setup, &constants(1.0)).time(&batch).attention
    };
    let more = |gpu| seconds(gpu, CacheFormat::FP8) - seconds(gpu, CacheFormat::HALF);
    assert!(more("H100 SXM5 80GB") < 0.0);
    // 64 sequences of 1536 tokens, 65,536 elements each, at 2 clocks of 108 units at 1.41 GHz: 84.6 ms,
    // less the half of the bytes that need not be read.
    let spared = 64.0 * 1536.0 * 65536.0 / 2.039e12;
    let converted = 84.6e-3;
    let said = more("A100 SXM4 80GB");
    assert!(
        (converted - 3.0 * spared..converted).contains(&said),
        "{said}"
    );
}
