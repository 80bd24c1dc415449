//! No answer of the shipped functions beats the silicon, whatever is asked.

use crate::support::{ANY, FUNCTIONS, GPUS, silicon};
use gpuwise_domain::{engine::EngineKind, gpu::Device};
use gpuwise_operators::{Basis, ExpertLoad, Experts, GemmFormat, MoeFormat, Silicon};
use proptest::prelude::*;

/// FLOP/s and bytes of a weight, told apart from the code that is tested.
fn gemm_facts(silicon: &Silicon, format: GemmFormat) -> (f64, f64) {
    let best = silicon
        .half
        .max(silicon.fp8)
        .max(silicon.fp4)
        .max(silicon.int8);
    match format {
        GemmFormat::Bf16 => (silicon.half, 2.0),
        GemmFormat::Int8W8a16 => (silicon.half, 1.0),
        GemmFormat::Int4Weights => (silicon.half, 0.5),
        GemmFormat::Nvfp4 => (best, 0.5),
        GemmFormat::Fp8 | GemmFormat::Fp8Block | GemmFormat::Int8 => (best, 1.0),
    }
}

fn asked() -> impl Strategy<Value = (usize, usize)> {
    (0..GPUS.len(), 0..EngineKind::ALL.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn gemms_keep_below_peaks_and_never_fall(
        (gpu, engine) in asked(),
        format in 0..GemmFormat::ALL.len(),
        n in 1.0..200_000_f64,
        k in 1.0..200_000_f64,
        m in 0.0..20_f64,
    ) {
        let silicon = Silicon::of(&Device::whole(&GPUS[gpu]));
        let format = GemmFormat::ALL[format];
        let curve = FUNCTIONS.gemm(&silicon, EngineKind::ALL[engine], format, [n, k], ANY).unwrap();
        let m = m.exp2();
        let seconds = curve.at(m);
        let (peak, bytes) = gemm_facts(&silicon, format);
        prop_assert!(seconds.is_finite() && seconds > 0.0);
        prop_assert!(2.0 * m * n * k / seconds <= 0.9001 * peak, "compute");
        prop_assert!(bytes * n * k / seconds <= 0.9501 * silicon.bandwidth, "memory");
        prop_assert!(curve.at(m * 1.07) >= seconds && curve.at(m * 40.0) >= seconds, "falls");
        let (low, high) = curve.range(m);
        prop_assert!(low <= seconds && seconds < high);
        prop_assert!(2.0 * m * n * k / low <= 0.9001 * peak, "compute of the low end");
        prop_assert!(bytes * n * k / low <= 0.9501 * silicon.bandwidth, "memory of the low end");
    }

    #[test]
    fn experts_keep_below_peaks_and_never_fall(
        (gpu, engine) in asked(),
        format in 0..MoeFormat::ALL.len(),
        (hidden, inter) in (256.0..16_384_f64, 64.0..16_384_f64),
        (topk, spare) in (1_u32..16, 0_u32..500),
        ranks in 0_u32..6,
        load in 0..3_usize,
        tokens in 0.0..17_f64,
    ) {
        let silicon = Silicon::of(&Device::whole(&GPUS[gpu]));
        let ranks = f64::from(1 << ranks);
        let layer = Experts {
            hidden, inter, topk: f64::from(topk), experts: f64::from(topk + spare).max(ranks),
            tensor_parallel: 1.0, expert_parallel: ranks, gated: true,
        };
        let load = [ExpertLoad::Balanced, ExpertLoad::Random, ExpertLoad::PowerLaw(1.2)][load];
        let format = MoeFormat::ALL[format];
        let curve = FUNCTIONS.moe(&silicon, EngineKind::ALL[engine], format, &layer, load, ANY).unwrap();
        let tokens = tokens.exp2();
        let seconds = curve.at(tokens);
        let best = silicon.half.max(silicon.fp8).max(silicon.fp4);
        let flop = 6.0 * tokens * layer.topk / ranks * hidden * inter;
        prop_assert!(seconds.is_finite() && seconds > 0.0);
        prop_assert!(flop / seconds <= 0.9001 * best, "compute");
        // At least the experts of one token are read, as far as they are here, in 4 bits or more.
        let least = (layer.topk / ranks).max(1.0).min(layer.experts / ranks);
        let bytes = 0.5 * 3.0 * least * hidden * inter;
        if matches!(load, ExpertLoad::Balanced) {
            prop_assert!(bytes / seconds <= 0.9501 * silicon.bandwidth, "memory");
        }
        prop_assert!(curve.at(tokens * 1.3) >= seconds, "falls");
    }
}

#[test]
fn what_is_further_is_said_and_never_the_surer() {
    let cases = [
        ("H100 SXM5 80GB", GemmFormat::Fp8, Basis::Measured),
        ("GB300 279GB", GemmFormat::Fp8, Basis::Architecture),
        // One generation with GDDR was measured, which tells nothing of another.
        ("L40S", GemmFormat::Fp8, Basis::AnyGpu),
    ];
    let mut before = 0.0;
    for (name, format, basis) in cases {
        let curve = FUNCTIONS
            .gemm(&silicon(name), EngineKind::Vllm, format, [4096.0; 2], ANY)
            .unwrap();
        let spread = curve.spread();
        assert_eq!(spread.basis, basis, "{name}");
        assert!(spread.high / spread.low >= before, "{name}");
        before = spread.high / spread.low;
    }
}
