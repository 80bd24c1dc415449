//! What makes a setup fit that does not, in order of what it costs.

use super::{fit, fit::needed, training_memory};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    alignment::{Alignment, Reference},
    estimate::Estimate,
    model::Architecture,
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, LossKernel, Method, Offload, Optimizer,
        Recipe, Recompute, Sharding, TrainingSetup,
    },
};

/// A change of a setup and what it would leave.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryFix {
    /// What to change, in words.
    pub change: String,
    /// What it costs, in words.
    pub cost: &'static str,
    pub setup: TrainingSetup,
    /// Bytes that the fullest GPU would hold.
    pub needs: Estimate,
    /// Whether it is enough.
    pub enough: bool,
}

/// Changes that lower the memory of a setup, cheapest first: those that cost no speed, some speed,
/// precision of what is trained, more GPUs.
pub fn fixes(architecture: &Architecture, setup: &TrainingSetup, visible: f64) -> Vec<MemoryFix> {
    let usable = fit::usable(visible);
    let Ok(now) = training_memory(architecture, setup) else {
        return Vec::new();
    };
    let now = needed(&now);
    let mut out: Vec<MemoryFix> = Vec::new();
    let mut add = |change: String, cost: &'static str, changed: TrainingSetup| {
        // Liger's loss of pairs takes no precomputed log-probs.
        let precomputed = changed.alignment == Some(Alignment::Dpo { precomputed: true });
        if precomputed && changed.loss == LossKernel::Chunked {
            return;
        }
        let Ok(memory) = training_memory(architecture, &changed) else {
            return;
        };
        let Some(rank) = memory
            .ranks
            .iter()
            .max_by(|l, r| l.reserved.value.total_cmp(&r.reserved.value))
        else {
            return;
        };
        if rank.reserved.value < 0.995 * now {
            out.push(MemoryFix {
                change,
                cost,
                enough: rank.reserved.value <= usable,
                needs: rank.reserved,
                setup: changed,
            });
        }
    };
    for (change, cost, changed) in free(setup) {
        add(change, cost, changed);
    }
    for (change, cost, changed) in slower(setup) {
        add(change, cost, changed);
    }
    for (change, cost, changed) in otherwise(setup) {
        add(change, cost, changed);
    }
    if let Some((change, changed)) = more_gpus(architecture, setup, usable) {
        add(change, "more GPUs", changed);
    }
    out
}

type Change = (String, &'static str, TrainingSetup);

fn with(setup: &TrainingSetup, change: impl FnOnce(&mut TrainingSetup)) -> TrainingSetup {
    let mut changed = setup.clone();
    change(&mut changed);
    changed
}

/// Changes that cost next to nothing.
fn free(setup: &TrainingSetup) -> Vec<Change> {
    let mut out = beside_training(setup);
    if setup.loss != LossKernel::Chunked {
        out.push((
            "a loss in chunks (Liger, cut cross entropy)".to_string(),
            "no speed",
            with(setup, |s| s.loss = LossKernel::Chunked),
        ));
    }
    let ranks = setup.layout.data;
    if ranks > 1 {
        let next = match (setup.sharding, setup.framework) {
            (Sharding::None, _) => Some((Sharding::Optimizer, "optimizer states sharded (ZeRO-1)")),
            (Sharding::Optimizer, Framework::HuggingFace) => {
                Some((Sharding::Gradients, "gradients sharded too (ZeRO-2)"))
            }
            _ => None,
        };
        if let Some((sharding, words)) = next {
            out.push((
                words.to_string(),
                "little communication",
                with(setup, |s| s.sharding = sharding),
            ));
        }
    }
    out
}

/// Changes of what stands beside the model that trains.
fn beside_training(setup: &TrainingSetup) -> Vec<Change> {
    let aligned = |change: Alignment| with(setup, |s| s.alignment = Some(change));
    match &setup.alignment {
        Some(Alignment::Dpo { precomputed: false })
            if setup.reference() == Some(Reference::Copy) && setup.loss != LossKernel::Chunked =>
        {
            alloc::vec![(
                "the reference's log-probs computed before training (--precompute-ref-log-probs)"
                    .into(),
                "one pass over the data",
                aligned(Alignment::Dpo { precomputed: true }),
            )]
        }
        Some(Alignment::Grpo(grpo)) if grpo.engine.held.count() > 0 && !grpo.engine.sleeps => {
            let mut sleeping = *grpo;
            sleeping.engine.sleeps = true;
            alloc::vec![(
                "vLLM asleep while the model trains (--vllm-enable-sleep-mode)".into(),
                "waking it every step",
                aligned(Alignment::Grpo(sleeping)),
            )]
        }
        _ => Vec::new(),
    }
}

/// Changes that cost speed, the least first.
fn slower(setup: &TrainingSetup) -> Vec<Change> {
    let mut out = Vec::new();
    if setup.micro_batch > 1 {
        let half = setup.micro_batch / 2;
        out.push((
            format!("micro-batches of {half}, accumulated"),
            "some speed",
            with(setup, |s| s.micro_batch = half),
        ));
        out.push((
            "micro-batches of 1, accumulated".to_string(),
            "some speed",
            with(setup, |s| s.micro_batch = 1),
        ));
    }
    if setup.recompute != Recompute::Full {
        out.push((
            "activation checkpointing of every layer".to_string(),
            "up to a third of the speed",
            with(setup, |s| s.recompute = Recompute::Full),
        ));
        out.push((
            "activation checkpointing of every layer, and a loss in chunks".to_string(),
            "up to a third of the speed",
            with(setup, |s| {
                s.recompute = Recompute::Full;
                s.loss = LossKernel::Chunked;
            }),
        ));
    }
    if setup.layout.data > 1 && !matches!(setup.sharding, Sharding::Full) {
        out.push((
            "weights sharded too (ZeRO-3, FSDP)".to_string(),
            "communication in every layer",
            with(setup, |s| s.sharding = Sharding::Full),
        ));
    }
    out
}

/// Changes of what is trained and where it lies.
fn otherwise(setup: &TrainingSetup) -> Vec<Change> {
    let mut out = Vec::new();
    let leanest = |s: &mut TrainingSetup| {
        s.recompute = Recompute::Full;
        s.loss = LossKernel::Chunked;
        s.micro_batch = 1;
    };
    if setup.method == Method::Full {
        // Megatron-LM has no optimizer with 8-bit moments.
        if setup.optimizer == Optimizer::AdamW && setup.framework != Framework::Megatron {
            out.push((
                "AdamW with 8-bit moments".to_string(),
                "a little quality",
                with(setup, |s| s.optimizer = Optimizer::AdamW8bit),
            ));
        }
        if setup.recipe == Recipe::MixedBf16 {
            out.push((
                "weights and moments in BF16 alone, activation checkpointing".to_string(),
                "quality of long runs",
                with(setup, |s| {
                    s.recipe = Recipe::PureBf16;
                    leanest(s);
                }),
            ));
        }
        out.push((
            "LoRA of rank 16 on all linear modules".to_string(),
            "what adapters can learn",
            with(setup, |s| s.method = lora(BaseStorage::SixteenBit)),
        ));
    }
    let quantized = matches!(
        &setup.method,
        Method::Adapter(adapter) if matches!(adapter.base, BaseStorage::Nf4 { .. })
    );
    if !quantized {
        out.push((
            "QLoRA: LoRA on a base in NF4, activation checkpointing, loss in chunks".to_string(),
            "speed, and what adapters can learn",
            with(setup, |s| {
                s.method = match &setup.method {
                    Method::Adapter(adapter) => Method::Adapter(Adapter {
                        base: BaseStorage::Nf4 { double: true },
                        ..adapter.clone()
                    }),
                    Method::Full => lora(BaseStorage::Nf4 { double: true }),
                };
                if !matches!(
                    s.recipe,
                    Recipe::PureBf16 | Recipe::MixedBf16 | Recipe::Fp16
                ) {
                    s.recipe = Recipe::PureBf16;
                }
                leanest(s);
            }),
        ));
    }
    if setup.method == Method::Full && !setup.offload.optimizer {
        out.push((
            "optimizer in host memory, activation checkpointing".to_string(),
            "most of the speed at small batches",
            with(setup, |s| {
                s.offload = Offload {
                    optimizer: true,
                    ..s.offload
                };
                leanest(s);
            }),
        ));
    }
    out
}

fn lora(base: BaseStorage) -> Method {
    Method::Adapter(Adapter {
        kind: AdapterKind::Lora,
        name: None,
        rank: Some(16),
        modules: alloc::vec!["all-linear".into()],
        trainable: None,
        base,
    })
}

/// The fewest times as many GPUs, states sharded over them, on which it fits with all that is free.
fn more_gpus(
    architecture: &Architecture,
    setup: &TrainingSetup,
    usable: f64,
) -> Option<(String, TrainingSetup)> {
    let sharding = match setup.sharding {
        Sharding::None | Sharding::Gradients if setup.framework != Framework::Megatron => {
            Sharding::Full
        }
        other => other,
    };
    let scaled = |times: u32| {
        with(setup, |s| {
            s.layout.data = setup.layout.data.saturating_mul(times);
            s.global_batch = setup
                .global_batch
                .max(u64::from(s.layout.data) * s.micro_batch);
            s.sharding = sharding;
        })
    };
    let lean = |mut s: TrainingSetup| {
        s.recompute = Recompute::Full;
        s.loss = LossKernel::Chunked;
        s
    };
    let candidates = [2, 4, 8, 16, 32, 64, 128].map(scaled);
    let enough = |changed: &TrainingSetup| {
        training_memory(architecture, changed).is_ok_and(|memory| needed(&memory) <= usable)
    };
    let plain = candidates.iter().find(|changed| enough(changed)).cloned();
    let found = plain.or_else(|| candidates.into_iter().map(lean).find(enough))?;
    let again = if found.recompute == setup.recompute {
        ""
    } else {
        ", activation checkpointing, loss in chunks"
    };
    Some((
        format!(
            "{} GPUs, states sharded over them{again}",
            found.layout.gpus()
        ),
        found,
    ))
}
