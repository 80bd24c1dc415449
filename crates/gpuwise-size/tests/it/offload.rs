//! Host memory that keeps prefixes.

use crate::{fixture::engine_facts, search::Case};
use gpuwise_domain::{
    deployment::{Sizing, Test},
    engine::{EngineKind, Release},
};
use gpuwise_size::search::{Request, plan};
use gpuwise_units::Bytes;

const GIB: u64 = 1 << 30;

fn case(offload: u64) -> Case {
    let mut case = Case::new("meta-llama/Llama-3.1-8B").on(&["H100 SXM5 80GB"]);
    case.choices.slices = false;
    case.choices.weights = vec!["bf16".into()];
    case.choices.offload = offload;
    case
}

#[test]
fn the_host_holds_prefixes_and_no_requests() {
    let (without, with) = (case(0).plan(), case(64 * GIB).plan());
    assert!(!with.ranked.is_empty());
    for (plain, kept) in without.ranked.iter().zip(&with.ranked) {
        assert_eq!(kept.host_cache, Bytes::new(64 * GIB));
        assert_eq!(plain.host_cache, Bytes::ZERO);
        assert_eq!(plain.memory, kept.memory, "memory of the GPU");
        assert_eq!(
            plain.figures, kept.figures,
            "no more requests at once, no other speed"
        );
        assert_eq!(plain.headroom, kept.headroom);
    }
    let note = "64 GiB of host memory a GPU keeps prefixes of 524,288 tokens";
    assert!(
        with.notes
            .iter()
            .any(|said| said.to_string().starts_with(note)),
        "{:?}",
        with.notes
    );
    assert!(
        !without
            .notes
            .iter()
            .any(|said| said.to_string().contains("host memory"))
    );
}

#[test]
fn tokens_of_the_host_follow_the_layout() {
    // 131,072 bytes a token: 32 layers of 8 key-value heads of 128, keys and values, in 16 bits.
    let whole = 64 * GIB / 131_072;
    let sizing = case(64 * GIB).plan();
    for deployment in &sizing.ranked {
        let said = deployment
            .derivations
            .iter()
            .find(|step| step.name == "prefixes kept in host memory")
            .expect("a derivation");
        let tokens = whole * u64::from(deployment.layout.tensor * deployment.layout.pipeline);
        let value: String = said.value.chars().filter(|c| *c != ',').collect();
        assert_eq!(value, format!("{tokens} tokens"), "{}", deployment.layout);
    }
}

fn of_release(numbers: [u32; 3], offload: u64) -> Sizing {
    let facts = engine_facts("vllm");
    let mut case = case(offload);
    assert_eq!(case.choices.engine.kind, EngineKind::Vllm);
    case.choices.engine.release = Some(Release { numbers });
    plan(&Request {
        facts: Some(&facts),
        ..case.request()
    })
}

#[test]
fn releases_without_it_are_refused() {
    for (release, offload, served) in [
        ([0, 10, 0], 0, true),
        ([0, 10, 0], GIB, false),
        ([0, 11, 0], GIB, true),
        ([0, 33, 0], GIB, true),
    ] {
        let sizing = of_release(release, offload);
        assert_eq!(!sizing.ranked.is_empty(), served, "{release:?} {offload}");
        let refused = sizing.dropped.iter().any(|dropped| {
            dropped.test == Test::Support
                && dropped.shortfall.to_string().contains("mode:kv_offload")
        });
        assert_eq!(
            refused, !served,
            "{release:?} {offload}: {:?}",
            sizing.dropped
        );
    }
}
