//! What the choices of a training job are called: one name for flags, documents and people.

use crate::training::{
    AdapterKind, Framework, LossKernel, MemoryCause, Optimizer, Phase, Recipe, Recompute, Sharding,
    StepCause,
};

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
