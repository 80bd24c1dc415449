//! What the choices of a training job are called: one name for flags, documents and people.

use crate::training::{
    AdapterKind, BaseStorage, Framework, LossKernel, MemoryCause, Method, Optimizer, Phase, Recipe,
    Recompute, Sharding, StepCause, TrainingLayout, TrainingSetup,
};
use alloc::{format, string::String};
use core::fmt::{self, Write as _};

macro_rules! names {
    ($kind:ty { $($variant:ident: $name:literal,)* }) => {
        impl $kind {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in flags and documents, and for people.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

names!(Recipe {
    Fp32: "fp32",
    Tf32: "tf32",
    PureBf16: "pure-bf16",
    MixedBf16: "bf16",
    Fp16: "fp16",
    Fp8: "fp8",
    Fp8Block: "fp8-block",
    Nvfp4: "nvfp4",
});

names!(Optimizer {
    AdamW: "adamw",
    AdamW8bit: "adamw-8bit",
    PagedAdamW: "paged-adamw",
    PagedAdamW8bit: "paged-adamw-8bit",
    Adafactor: "adafactor",
    Muon: "muon",
    Lion: "lion",
    Sgd: "sgd",
});

names!(Recompute {
    None: "none",
    Selective: "selective",
    Full: "full",
});

names!(LossKernel {
    Eager: "eager",
    Fused: "fused",
    VocabularyParallel: "vocabulary-parallel",
    Chunked: "chunked",
});

names!(Framework {
    HuggingFace: "huggingface",
    PyTorch: "pytorch",
    Torchtune: "torchtune",
    Torchtitan: "torchtitan",
    Megatron: "megatron",
});

names!(AdapterKind {
    Lora: "lora",
    Dora: "dora",
    AdaLora: "adalora",
    Vera: "vera",
    Ia3: "ia3",
    LoHa: "loha",
    LoKr: "lokr",
    Oft: "oft",
    Boft: "boft",
    Osf: "osf",
    Prompt: "prompt",
    Prefix: "prefix",
    Partial: "partial",
    Spectral: "spectral",
    Composed: "composed",
    Factored: "factored",
});

names!(MemoryCause {
    Weights: "weights",
    MasterWeights: "FP32 weights",
    Gradients: "gradients",
    OptimizerStates: "optimizer states",
    Adapters: "adapters",
    Reference: "reference model",
    RolloutEngine: "rollout engine",
    Gathered: "gathered weights",
    Activations: "activations",
    Working: "layer at work",
    Logits: "logits",
    OptimizerTemporaries: "optimizer's temporaries",
    Communication: "communication buffers",
    Context: "driver and libraries",
    Fragmentation: "fragmentation",
});

names!(Phase {
    Forward: "forward",
    Backward: "backward",
    OptimizerStep: "optimizer step",
    Evaluation: "evaluation",
    Rollout: "rollout",
});

names!(StepCause {
    Matmul: "matmuls",
    Attention: "attention",
    Elementwise: "norms and activations",
    Loss: "logits and loss",
    Recompute: "recomputation",
    Launch: "launches and host",
    TensorParallel: "tensor parallel",
    Pipeline: "pipeline",
    ContextParallel: "context parallel",
    ExpertParallel: "expert parallel",
    DataParallel: "data parallel",
    Optimizer: "optimizer",
    Offload: "offload",
    Data: "data",
    Rollout: "rollout",
    WeightSync: "weights to the engine",
    Reward: "reward",
    OldLogProbs: "old log-probs",
    Reference: "reference log-probs",
});

impl Sharding {
    /// Its name in documents and for people; a hybrid's group stands apart.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Optimizer => "optimizer",
            Self::Gradients => "gradients",
            Self::Full => "full",
            Self::Hybrid { .. } => "hybrid",
        }
    }
}

impl Framework {
    /// Whether a model is divided over more than data-parallel ranks: tensor, pipeline, context and expert
    /// parallelism, in PyTorch by device meshes beside FSDP.
    pub const fn divides_models(self) -> bool {
        matches!(self, Self::PyTorch | Self::Torchtitan | Self::Megatron)
    }

    /// Whether less than whole layers can be recomputed.
    pub const fn recomputes_parts(self) -> bool {
        matches!(self, Self::PyTorch | Self::Torchtitan | Self::Megatron)
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::PyTorch => "PyTorch FSDP",
            Self::Torchtune => "torchtune",
            Self::Torchtitan => "torchtitan",
            Self::Megatron => "Megatron",
        }
    }
}

impl BaseStorage {
    /// How a frozen base is stored, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SixteenBit => "16 bits",
            Self::ThirtyTwoBit => "32 bits",
            Self::EightBit => "8-bit integers",
            Self::Nf4 { double: true } => "NF4, scales quantised again",
            Self::Nf4 { double: false } => "NF4",
        }
    }
}

/// `TP4 PP2 VP3 DP8`: degrees above 1; `DP1` where none is.
impl fmt::Display for TrainingLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let degrees = [
            ("TP", self.tensor),
            ("PP", self.pipeline),
            ("VP", self.interleave),
            ("CP", self.context),
            ("EP", self.expert),
            ("DP", self.data),
        ];
        let mut separator = "";
        for (word, degree) in degrees {
            if degree > 1 {
                write!(f, "{separator}{word}{degree}")?;
                separator = " ";
            }
        }
        if separator.is_empty() {
            f.write_str("DP1")?;
        }
        Ok(())
    }
}

impl Method {
    /// `full`, `LORA rank 16 on q_proj, v_proj, base in NF4`.
    pub fn words(&self) -> String {
        let Self::Adapter(adapter) = self else {
            return "every weight".into();
        };
        let mut out = adapter
            .name
            .clone()
            .unwrap_or_else(|| adapter.kind.name().into());
        if let Some(rank) = adapter.rank {
            let _ = write!(out, " of rank {rank}");
        }
        if adapter.modules.is_empty() {
            out += " on its usual modules";
        } else {
            let _ = write!(out, " on {}", adapter.modules.join(", "));
        }
        out + &format!(", base in {}", adapter.base.name())
    }
}

impl Sharding {
    /// What is divided over data-parallel ranks, in a clause.
    pub fn words(self) -> String {
        match self {
            Self::None => "nothing sharded".into(),
            Self::Optimizer => "optimizer sharded".into(),
            Self::Gradients => "optimizer and gradients sharded".into(),
            Self::Full => "full shard (ZeRO-3)".into(),
            Self::Hybrid { group } => format!("full shard (ZeRO-3) in groups of {group}"),
        }
    }
}

impl TrainingSetup {
    /// Framework, layout and sharding: `Megatron TP4 PP2 DP8, optimizer sharded`.
    pub fn placement_words(&self) -> String {
        let mut out = format!("{} {}", self.framework.title(), self.layout);
        if self.layout.data > 1 || self.layout.context > 1 {
            out += ", ";
            out += &self.sharding.words();
        }
        out
    }

    /// Micro-batches of a step on one rank.
    pub fn accumulation(&self) -> u64 {
        self.global_batch / (u64::from(self.layout.data.max(1)) * self.micro_batch.max(1))
    }
}
