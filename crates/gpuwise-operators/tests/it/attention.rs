//! Attention and collectives by the shipped functions: physics, and monotone in every size.

use crate::support::{ANY, FUNCTIONS, silicon};
use gpuwise_domain::engine::EngineKind;
use gpuwise_operators::{Collective, Heads, KvFormat, Silicon};
use proptest::prelude::*;

const ENGINES: [EngineKind; 4] = [
    EngineKind::Vllm,
    EngineKind::Sglang,
    EngineKind::TensorRtLlm,
    EngineKind::LlamaCpp,
];

/// Measured GPUs, and such as are carried.
fn boards() -> [Silicon; 4] {
    ["H100 SXM5 80GB", "GB300 279GB", "L40S", "MI300X"].map(silicon)
}

fn shapes() -> impl Strategy<Value = Heads> {
    let group = prop::sample::select(vec![1.0, 4.0, 8.0, 16.0]);
    let keys = prop::sample::select(vec![1.0, 2.0, 8.0]);
    let width = prop::sample::select(vec![64.0, 128.0, 256.0]);
    let window = prop::sample::select(vec![0.0, 128.0, 4096.0]);
    (group, keys, width, window).prop_map(|(group, keys, width, window)| Heads {
        queries: group * keys,
        keys,
        width,
        window,
    })
}

fn formats() -> impl Strategy<Value = KvFormat> {
    prop::sample::select(vec![KvFormat::Bf16, KvFormat::Fp8])
}

/// Pairs of query and key, counted in blocks: an oracle of its own.
fn pairs(new: f64, cached: f64, window: f64) -> f64 {
    let limit = if window > 0.0 { window } else { f64::INFINITY };
    let steps = 1000;
    let width = new / f64::from(steps);
    let seen = |i: i32| (cached + (f64::from(i) + 0.5) * width + 0.5).min(limit);
    (0..steps).map(|i| seen(i) * width).sum()
}

const SLACK: f64 = 1.0 + 1e-9;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prompts_obey_the_silicon_and_never_get_cheaper(
        board in 0..4_usize, engine in 0..4_usize, heads in shapes(), cache in formats(),
        sequences in 0.0..8.0_f64, new in 0.0..17.0_f64, cached in 0.0..20.0_f64,
    ) {
        let silicon = &boards()[board];
        let curve = FUNCTIONS
            .context(silicon, ENGINES[engine], KvFormat::Bf16, cache, &heads, ANY)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        let [b, s, p] = [sequences, new, cached].map(f64::exp2);
        let here = curve.at(b, s, p);
        let flop = 4.0 * b * heads.queries * heads.width * pairs(s, p, heads.window);
        prop_assert!(flop / here <= 0.9 * silicon.fp8 * 1.01, "{} of peak", flop / here / silicon.half);
        prop_assert!(here > 0.0 && here.is_finite());
        prop_assert!(curve.at(b * 1.3, s, p) * SLACK >= here);
        prop_assert!(curve.at(b, s * 1.3, p) * SLACK >= here);
        prop_assert!(curve.at(b, s, p * 1.3) * SLACK >= here);
        prop_assert!(here * SLACK >= curve.at(b, s, 0.0));
        let (low, high) = curve.range(b, s, p);
        prop_assert!(low <= here && here < high);
        prop_assert!(flop / low <= 0.9 * silicon.fp8 * 1.01, "low end");
    }

    #[test]
    fn steps_obey_the_memory_and_never_get_cheaper(
        board in 0..4_usize, engine in 0..4_usize, heads in shapes(), cache in formats(),
        sequences in 0.0..13.0_f64, length in 0.0..22.0_f64,
    ) {
        let silicon = &boards()[board];
        let curve = FUNCTIONS
            .generation(silicon, ENGINES[engine], cache, &heads, ANY)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        let [b, l] = [sequences, length].map(f64::exp2);
        let here = curve.at(b, l);
        let seen = if heads.window > 0.0 { l.min(heads.window) } else { l };
        let bytes = b * seen * heads.keys * heads.width * 2.0 * cache.bytes();
        prop_assert!(bytes / here <= 0.95 * silicon.bandwidth * SLACK);
        prop_assert!(here > 0.0 && here.is_finite());
        prop_assert!(curve.at(b * 1.3, l) * SLACK >= here);
        prop_assert!(curve.at(b, l * 1.3) * SLACK >= here);
        let (low, high) = curve.range(b, l);
        prop_assert!(low <= here && here < high);
        prop_assert!(bytes / low <= 0.95 * silicon.bandwidth * SLACK, "low end");
    }

    #[test]
    fn latent_attention_obeys_the_memory(
        board in 0..4_usize, engine in 0..4_usize, heads in 0.0..7.0_f64, cache in formats(),
        sequences in 0.0..10.0_f64, length in 0.0..20.0_f64,
    ) {
        let silicon = &boards()[board];
        let curve = FUNCTIONS
            .latent_generation(silicon, ENGINES[engine], cache, heads.exp2(), ANY)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        let [b, l] = [sequences, length].map(f64::exp2);
        let here = curve.at(b, l);
        prop_assert!(b * l * 576.0 * cache.bytes() / here <= 0.95 * silicon.bandwidth * SLACK);
        prop_assert!(curve.at(b, l * 1.3) * SLACK >= here);
    }

    #[test]
    fn collectives_obey_the_link(
        board in 0..4_usize, engine in 0..4_usize, op in 0..4_usize,
        gpus in prop::sample::select(vec![2.0, 4.0, 8.0, 72.0]), bytes in 8.0..36.0_f64,
    ) {
        let silicon = &boards()[board];
        let fail = |e: gpuwise_operators::OperatorError| TestCaseError::fail(e.to_string());
        let library = FUNCTIONS.collective(silicon, Collective::ALL[op], gpus).map_err(fail)?;
        let own = FUNCTIONS.all_reduce(silicon, ENGINES[engine], gpus).map_err(fail)?;
        let bytes = bytes.exp2();
        let others = (gpus - 1.0) / gpus;
        prop_assert!(bytes * others / library.at(bytes) <= 0.95 * silicon.link * SLACK);
        prop_assert!(bytes * others / own.at(bytes) <= 0.95 * silicon.link * SLACK);
        prop_assert!(library.at(bytes * 1.5) * SLACK >= library.at(bytes));
        prop_assert!(own.at(bytes * 1.5) * SLACK >= own.at(bytes));
    }
}

#[test]
fn a_chunk_after_a_prefix_costs_what_the_whole_prompt_lacks() {
    let heads = Heads {
        queries: 32.0,
        keys: 8.0,
        width: 128.0,
        window: 0.0,
    };
    let curve = FUNCTIONS.context(
        &boards()[0],
        EngineKind::Vllm,
        KvFormat::Bf16,
        KvFormat::Bf16,
        &heads,
        ANY,
    );
    let whole = curve.as_ref().map(|c| c.at(1.0, 32768.0, 0.0));
    let chunks = curve.as_ref().map(|c| {
        let chunk = 2048.0;
        (0..16)
            .map(|i| c.at(1.0, chunk, f64::from(i) * chunk))
            .sum::<f64>()
    });
    let ratio = chunks.and_then(|chunks| whole.map(|whole| chunks / whole));
    assert!(
        ratio.as_ref().is_ok_and(|r| *r > 0.95 && *r < 1.3),
        "{ratio:?}"
    );
}
