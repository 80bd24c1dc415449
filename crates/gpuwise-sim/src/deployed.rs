//! A sized setup as the engine that is simulated: its rules by release, its memory in blocks, its
//! step times.

use crate::{
    cache::PoolSettings,
    cost::{Graphs, Sized},
    engine::{
        Capacity, Policy, Role, Settings, SglangOrder, SglangRules, Speculation, TensorRtLlmRules,
        VllmRules,
    },
};
use gpuwise_domain::engine::EngineKind;
use gpuwise_size::{
    constants::Constants, memory::longest_context, serving::Cycle, setup::Setup, speed::StepShape,
};
use std::sync::Arc;

/// Most prompt tokens of a prefill step of SGLang (`max_prefill_tokens`).
const SGLANG_PREFILL_TOKENS: u32 = 16384;

/// An engine that is ready to be simulated.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Its rules and limits.
    pub settings: Settings,
    pub cost: Sized,
    /// Where the simulation departs from the engine, in sentences.
    pub notes: Vec<String>,
}

/// Why a setup cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSimulated {
    /// The rules of the engine's scheduler are not modelled.
    #[error("{0} is not simulated: only vLLM, SGLang, TensorRT-LLM and llama.cpp are")]
    Engine(EngineKind),
    /// There is no room for a cache.
    #[error(
        "weights and overheads leave no memory for the key-value cache: `gpuwise memory` says what is short"
    )]
    NoCache,
}

/// The engine of one replica, whose cache holds `cache_tokens` tokens on each attention group.
///
/// # Errors
/// When the engine's scheduler is not modelled, or its memory holds no cache.
pub fn deployed(
    setup: &Setup<'_>,
    cache_tokens: u64,
    role: Role,
    constants: &Constants,
    seed: u64,
) -> Result<Deployed, NotSimulated> {
    let mut notes = Vec::new();
    let settings = settings(setup, cache_tokens, role, seed, &mut notes)?;
    let shape = Arc::new(StepShape::new(setup));
    let cycle = Cycle::new(setup, shape, constants);
    let (yields, drafted) = cycle.yields();
    if yields > 1.0 && drafted == 0.0 {
        notes.push(format!(
            "the engine is taken to yield {yields:.2} tokens a step by prediction layers, which the simulation spreads evenly over steps"
        ));
    }
    Ok(Deployed {
        settings,
        cost: Sized::new(cycle).captured(graphs(setup)),
        notes,
    })
}

fn settings(
    setup: &Setup<'_>,
    cache_tokens: u64,
    role: Role,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<Settings, NotSimulated> {
    let engine = &setup.engine;
    let vllm = engine.kind == EngineKind::Vllm;
    let stated = setup.settings;
    // Each of the batches that fill the stages of a pipeline has as many tokens; a step is all of them.
    let stages = if engine.kind == EngineKind::LlamaCpp {
        1
    } else {
        setup.layout.pipeline.max(1)
    };
    let batched = clamped(stated.batched_tokens).saturating_mul(stages);
    let (policy, block, batch) = match engine.kind {
        EngineKind::Vllm => (Policy::Vllm(vllm_rules(setup)), stated.block, batched),
        EngineKind::Sglang => (
            Policy::Sglang(SglangRules {
                chunked_prefill: Some(batched),
                ..sglang_rules()
            }),
            1,
            (SGLANG_PREFILL_TOKENS * stages).max(batched),
        ),
        EngineKind::TensorRtLlm => (
            Policy::TensorRtLlm(TensorRtLlmRules {
                capacity: Capacity::GuaranteedNoEvict,
                // As launch commands have it: without, a prompt longer than a step is refused.
                chunked_context: true,
            }),
            stated.block,
            batched,
        ),
        EngineKind::LlamaCpp => {
            notes.push(
                "llama.cpp's slots are simulated as sequences of one batch; its prompt cache by slot is not".into(),
            );
            let rules = VllmRules {
                reserve_full_prompt: true,
                ..VllmRules::default()
            };
            (Policy::Vllm(rules), 1, batched)
        }
        other => return Err(NotSimulated::Engine(other)),
    };
    let block = clamped(block.max(1));
    let blocks = cache_tokens / u64::from(block);
    if blocks < 2 {
        return Err(NotSimulated::NoCache);
    }
    Ok(Settings {
        policy,
        ranks: setup.layout.attention_data.max(1),
        max_sequences: clamped(stated.sequences),
        max_batched_tokens: batch,
        max_context: clamped(longest_context(setup).max(1.0) as u64),
        cache: PoolSettings {
            blocks,
            block_tokens: block,
            caching: engine.kind != EngineKind::LlamaCpp,
            null_block: vllm,
            unhashed_first: vllm && engine.at_least([0, 23, 0]),
        },
        overlap: match engine.kind {
            EngineKind::Vllm => engine.at_least([0, 14, 0]),
            EngineKind::LlamaCpp => false,
            _ => true,
        },
        ends_by_stop: false,
        speculation: setup
            .draft
            .filter(|draft| draft.tokens > 0)
            .map(|draft| Speculation {
                drafts: draft.tokens,
                acceptance: draft.acceptance,
                seed,
            }),
        role,
        max_adapters: setup.adapters.map(|adapters| adapters.count),
        max_queued: None,
        max_queued_tokens: None,
    })
}

/// The graphs that an engine captures: vLLM up to twice its sequences, 512 of them at most (1,024 on
/// parts of compute capability 10.0 since 0.28); SGLang by memory; llama.cpp none of this kind.
fn graphs(setup: &Setup<'_>) -> Graphs {
    if setup.settings.eager {
        return Graphs::default();
    }
    let gib = setup.device.gpu.memory_reported.map_or(
        setup.device.gpu.memory_marketing_gb,
        gpuwise_units::Bytes::gib,
    );
    let largest = match setup.engine.kind {
        EngineKind::Vllm => {
            let wide = setup.device.gpu.compute_capability == Some((10, 0))
                && setup.engine.at_least([0, 28, 0]);
            let most = if wide { 1024 } else { 512 };
            let sequences = clamped(setup.settings.sequences).saturating_mul(2);
            sequences
                .min(most)
                .min(clamped(setup.settings.batched_tokens))
        }
        EngineKind::Sglang => match gib {
            _ if gib < 20.0 => 8,
            _ if gib < 35.0 => 48,
            _ if gib < 60.0 => 32,
            _ if gib < 160.0 => 256,
            _ => 512,
        },
        EngineKind::TensorRtLlm => clamped(setup.settings.sequences).min(128),
        _ => 0,
    };
    Graphs { largest }
}

/// The rules of a release of vLLM.
fn vllm_rules(setup: &Setup<'_>) -> VllmRules {
    VllmRules {
        reserve_full_prompt: setup.engine.at_least([0, 19, 0]),
        ..VllmRules::default()
    }
}

fn sglang_rules() -> SglangRules {
    SglangRules {
        chunked_prefill: None,
        mixed_chunk: false,
        order: SglangOrder::Arrival,
        conservativeness: 1.0,
        initial_ratio: 0.7,
        least_ratio: 0.14,
        ratio_steps: 600,
        output_clip: 4096,
        retract_steps: 20,
        ignore_end: false,
    }
}

fn clamped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
