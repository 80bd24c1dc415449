//! What training takes: the smallest number of GPUs on which every rank fits.

use super::{Entry, Ground, Need, Purpose, Row, rules::rule_bytes};
use crate::{
    memory::visible_memory,
    search::{cheapest_rental, per_hour},
    training::memory::{training_memory, usable},
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::training::{
    Adapter, AdapterKind, BaseStorage, Framework, LossKernel, MemoryCause, Method, Offload,
    Optimizer, Recipe, Recompute, Sharding, TrainingLayout, TrainingMemory, TrainingSetup,
};
use gpuwise_units::{Bytes, Tokens};

/// Ways to train that the table knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Every weight: mixed precision, AdamW, states over all ranks (FSDP), layers computed again.
    Full,
    /// LoRA of rank 16 beside a base in BF16.
    Lora,
    /// LoRA of rank 16 beside a base in NF4.
    Qlora,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Full, Self::Lora, Self::Qlora];

    /// The word of flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Lora => "lora",
            Self::Qlora => "qlora",
        }
    }

    /// In words.
    const fn words(self) -> &'static str {
        match self {
            Self::Full => "train all",
            Self::Lora => "LoRA",
            Self::Qlora => "QLoRA",
        }
    }

    /// Bits of a stored weight, as the rule counts them.
    const fn bits(self) -> f64 {
        match self {
            Self::Full | Self::Lora => 16.0,
            Self::Qlora => 4.0,
        }
    }

    fn setup(self, ranks: u32, sequence: u64) -> TrainingSetup {
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
        let full = self == Self::Full;
        TrainingSetup {
            method: match self {
                Self::Full => Method::Full,
                Self::Lora => adapter(BaseStorage::SixteenBit),
                Self::Qlora => adapter(BaseStorage::Nf4 { double: true }),
            },
            recipe: if full {
                Recipe::MixedBf16
            } else {
                Recipe::PureBf16
            },
            optimizer: Optimizer::AdamW,
            recompute: Recompute::Full,
            loss: if full {
                LossKernel::Fused
            } else {
                LossKernel::Eager
            },
            framework: if full {
                Framework::PyTorch
            } else {
                Framework::HuggingFace
            },
            sequence: Tokens(sequence),
            micro_batch: 1,
            global_batch: u64::from(ranks),
            layout: TrainingLayout::data(ranks),
            sharding: if ranks > 1 {
                Sharding::Full
            } else {
                Sharding::None
            },
            offload: Offload::default(),
            compiled: false,
        }
    }
}

/// GPUs that are tried: powers of two within a host, then whole hosts of eight.
fn counts() -> impl Iterator<Item = u32> {
    let hosts = (2_u32..=8).chain([10, 12, 16, 20, 24, 32, 48, 64, 96, 128]);
    [1, 2, 4, 8].into_iter().chain(hosts.map(|hosts| hosts * 8))
}

/// One row: one sequence a GPU at a time.
pub fn training(entry: &Entry<'_>, ground: &Ground<'_>, way: Way, sequence: u64) -> Row {
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

fn need(entry: &Entry<'_>, ground: &Ground<'_>, way: Way, sequence: u64) -> Result<Need, String> {
    let room = usable(visible_memory(&ground.device).0);
    let most = if ground.device.slice.is_some() {
        1
    } else {
        u32::MAX
    };
    for ranks in counts().take_while(|ranks| *ranks <= most) {
        let setup = way.setup(ranks, sequence);
        let memory =
            training_memory(entry.architecture, &setup).map_err(|error| error.to_string())?;
        let reserved = memory
            .fullest()
            .map_or(f64::INFINITY, |rank| rank.reserved.value);
        if reserved <= room {
            return Ok(of(&memory, ground, ranks));
        }
    }
    Err(format!(
        "{} on sequences of {sequence} tokens fits no number of {} up to 1024 by data parallelism alone",
        way.words(),
        ground.device.name()
    ))
}

fn of(memory: &TrainingMemory, ground: &Ground<'_>, ranks: u32) -> Need {
    let (mut weights, mut held, mut other) = (0_u64, 0_u64, 0_u64);
    let causes = memory.fullest().map(|rank| rank.causes.as_slice());
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
    let rental = cheapest_rental(ground.catalogue, ground.terms, &ground.device, 1, ranks);
    let all = |bytes: u64| Bytes::new(bytes.saturating_mul(u64::from(ranks)));
    Need {
        weights: all(weights),
        held: all(held),
        other: all(other),
        gpus: ranks,
        layout: format!("DP{ranks}"),
        per_hour: rental.as_ref().and_then(per_hour),
        rental,
    }
}
