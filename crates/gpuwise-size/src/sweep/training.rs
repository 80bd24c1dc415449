//! What training takes: the smallest number of GPUs on which every rank fits.

use super::{Entry, Ground, Need, Purpose, Row, rules::rule_bytes};
use crate::{
    memory::visible_memory,
    search::{cheapest_rental, per_hour},
    training::search::{Best, Degrees, Formulas, TrainChoices, fewest},
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    training::{
        Adapter, AdapterKind, BaseStorage, MemoryCause, Method, Offload, Optimizer, Recipe,
        Recompute,
    },
    workload::Limits,
};
use gpuwise_units::Bytes;

gpuwise_units::named! {
    /// Ways to train that the table knows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TrainingMethod:
        name,
        words
    {
        /// Every weight: mixed precision, AdamW, states over all ranks, activation checkpointing.
        Full = "full", "full fine-tuning",
        /// LoRA of rank 16 beside a base in BF16.
        Lora = "lora", "LoRA",
        /// LoRA of rank 16 beside a base in NF4.
        Qlora = "qlora", "QLoRA",
    }
}

impl TrainingMethod {
    /// Bits of a stored weight, as the rule counts them.
    const fn bits(self) -> f64 {
        match self {
            Self::Full | Self::Lora => 16.0,
            Self::Qlora => 4.0,
        }
    }

    /// What is asked for: one sequence a GPU at a time, every layer checkpointed; how states and
    /// layers are divided is searched.
    fn choices(self, sequence: u64) -> TrainChoices {
        let adapter = |base| {
            Method::Adapter(Adapter {
                name: None,
                kind: AdapterKind::Lora,
                rank: Some(16),
                modules: Vec::new(),
                trainable: None,
                base,
            })
        };
        TrainChoices {
            method: match self {
                Self::Full => Method::Full,
                Self::Lora => adapter(BaseStorage::SixteenBit),
                Self::Qlora => adapter(BaseStorage::Nf4 { double: true }),
            },
            alignment: None,
            recipe: match self {
                Self::Full => Recipe::MixedBf16,
                Self::Lora | Self::Qlora => Recipe::PureBf16,
            },
            without_bf16: Some(Recipe::Fp16),
            optimizer: Optimizer::AdamW,
            framework: None,
            loss: None,
            recompute: Some(Recompute::Full),
            sharding: None,
            offload: Offload::default(),
            compiled: false,
            sequence,
            micro_batch: Some(1),
            global_batch: None,
            degrees: Degrees::default(),
        }
    }
}

/// One row: one sequence a GPU at a time.
pub fn training(entry: &Entry<'_>, ground: &Ground<'_>, way: TrainingMethod, sequence: u64) -> Row {
    let parameters = entry.architecture.parameters().0;
    Row {
        model: entry.name.clone(),
        parameters,
        rule: rule_bytes(parameters, way.bits()),
        gpu: ground.device.name(),
        need: need(entry, ground, way, sequence),
        purpose: Purpose::Training {
            method: way.words().into(),
            sequence,
            micro_batch: 1,
        },
    }
}

fn need(
    entry: &Entry<'_>,
    ground: &Ground<'_>,
    way: TrainingMethod,
    sequence: u64,
) -> Result<Need, String> {
    let mut gpu = ground.device.gpu.clone();
    let most = if ground.device.slice.is_some() {
        // A slice is a GPU of its own with what a program sees of it, and meets no other.
        gpu.memory_visible = Some(Bytes::from_f64(visible_memory(&ground.device).0));
        1
    } else {
        u64::from(u32::MAX)
    };
    let physics = Formulas {
        architecture: entry.architecture,
        facts: &ground.catalogue.training,
        knowledge: None,
    };
    let choices = way.choices(sequence);
    let (gpus, best) = fewest(
        entry.architecture,
        &choices,
        ground.catalogue,
        &gpu,
        most,
        &physics,
    )
    .map_err(|why| {
        format!(
            "{} on sequences of {sequence} tokens fits no number of {} that was tried: {why}",
            way.words(),
            ground.device.name()
        )
    })?;
    Ok(of(&best, ground, u32::try_from(gpus).unwrap_or(u32::MAX)))
}

fn of(best: &Best, ground: &Ground<'_>, ranks: u32) -> Need {
    let (mut weights, mut held, mut other) = (0_u64, 0_u64, 0_u64);
    let causes = best.memory.fullest().map(|rank| rank.causes.as_slice());
    for (cause, bytes) in causes.unwrap_or_default() {
        let part = match cause {
            // Where weights lie in FP32 and are gathered in 16 bits, the former are the weights.
            MemoryCause::Weights | MemoryCause::MasterWeights => &mut weights,
            MemoryCause::Gradients | MemoryCause::OptimizerStates | MemoryCause::Adapters => {
                &mut held
            }
            _ => &mut other,
        };
        *part += bytes.count();
    }
    let rental = cheapest_rental(
        ground.catalogue,
        &Limits::default(),
        ground.terms,
        &ground.device,
        (1, ranks),
    );
    let all = |bytes: u64| Bytes::new(bytes.saturating_mul(u64::from(ranks)));
    Need {
        weights: all(weights),
        held: all(held),
        other: all(other),
        gpus: ranks,
        replicas: 1,
        layout: best.setup.placement_words(),
        per_hour: rental.as_ref().and_then(per_hour),
        rental,
    }
}
