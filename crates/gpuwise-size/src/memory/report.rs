//! A memory plan as people read it, and how its parts came about.

use super::{MemoryPlan, whole};
use crate::setup::Setup;
use alloc::{format, vec::Vec};
use gpuwise_domain::{
    deployment::{MemoryPart, MemoryReport},
    estimate::Derivation,
};
use gpuwise_units::{Bytes, significant};

const GIB: f64 = 1073741824.0;

/// The report of a plan for requests that hold so many tokens.
pub fn report(plan: &MemoryPlan, setup: &Setup<'_>, tokens_per_request: f64) -> MemoryReport {
    let part = |name: &str, bytes: f64, outside: bool, formula: &str| MemoryPart {
        name: name.into(),
        bytes: whole(bytes.max(0.0)),
        outside_budget: outside,
        formula: formula.into(),
    };
    MemoryReport {
        device: setup.device.name(),
        reported: setup
            .device
            .slice
            .map_or(setup.device.gpu.memory_reported, |slice| Some(slice.memory)),
        visible: whole(plan.visible),
        visible_known: plan.visible_known,
        budget: whole(plan.budget),
        weights: plan
            .weights
            .iter()
            .map(|kind| {
                part(
                    kind.kind,
                    kind.bytes,
                    false,
                    "rows × columns × bytes of the format, on the fullest rank",
                )
            })
            .collect(),
        overheads: plan
            .overheads
            .iter()
            .map(|o| part(o.name, o.bytes, o.outside_budget, &o.formula))
            .collect(),
        cache: whole(plan.cache.max(0.0)),
        shortfall: if plan.cache < 0.0 {
            whole(-plan.cache)
        } else {
            Bytes::new(0)
        },
        cache_tokens: plan.cache_tokens() as u64,
        sequences: plan.sequences(tokens_per_request),
    }
}

/// How the memory of the fullest rank is spent, as a tree.
pub fn explain(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    let gib = |bytes: f64| format!("{} GiB", significant(bytes / GIB, 3));
    let gpu = setup.device.gpu;
    let weights: Vec<Derivation> = plan
        .weights
        .iter()
        .map(|kind| Derivation::fact(kind.kind, gib(kind.bytes), "tensor shapes of the model"))
        .collect();
    let overheads: Vec<Derivation> = plan
        .overheads
        .iter()
        .map(|o| Derivation::computed(o.name, gib(o.bytes), o.formula.clone(), Vec::new()))
        .collect();
    let visible = Derivation::fact(
        if plan.visible_known {
            "visible to a program"
        } else {
            "visible to a program (estimated)"
        },
        gib(plan.visible),
        gpu.source.clone(),
    );
    let sum = |parts: f64| gib(parts);
    let all_overheads: f64 = plan.overheads.iter().map(|o| o.bytes).sum();
    Derivation::computed(
        "KV cache of one GPU",
        gib(plan.cache),
        "what the engine may use − weights − overheads inside its budget",
        alloc::vec![
            Derivation::computed(
                "what the engine may use",
                gib(plan.budget),
                "share of visible memory",
                alloc::vec![visible]
            ),
            Derivation::computed(
                "weights",
                sum(plan.weight_bytes()),
                "Σ rows × columns × bytes",
                weights
            ),
            Derivation::computed("overheads", sum(all_overheads), "Σ", overheads),
        ],
    )
}
