//! Training and fine-tuning as sizing sees them: what is trained how, on which layout, what that
//! holds in memory and how long a step takes. Data only.

use crate::{
    alignment::Alignment,
    estimate::{Basis, Estimate},
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Bytes, Tokens};

/// One way to run a training job: everything that decides memory and time, leaving nothing open.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSetup {
    pub method: Method,
    /// What it learns from beyond given texts; `None`: these alone. Micro-batch and global batch count
    /// what it does: pairs or completions.
    pub alignment: Option<Alignment>,
    /// In which numbers it computes.
    pub recipe: Recipe,
    pub optimizer: Optimizer,
    /// Activation checkpointing: what of the forward pass is recomputed in the backward pass.
    pub recompute: Recompute,
    pub loss: LossKernel,
    pub framework: Framework,
    pub sequence: Tokens,
    /// Sequences of one micro-batch on one data-parallel rank.
    pub micro_batch: u64,
    /// Sequences of one optimizer step over all ranks.
    pub global_batch: u64,
    /// How the model lies on GPUs.
    pub layout: TrainingLayout,
    pub sharding: Sharding,
    pub offload: Offload,
    /// Whether the graph is compiled (`torch.compile` and its like).
    pub compiled: bool,
    /// Whether the optimizer steps each weight as soon as its gradient is made, which is then freed.
    pub step_in_backward: bool,
}

impl TrainingSetup {
    /// Whether the model's weights lie in 16 bits alone, without an FP32 copy.
    pub fn is_pure(&self) -> bool {
        let adapter = matches!(self.method, Method::Adapter(_));
        self.recipe == Recipe::PureBf16 || adapter && self.recipe == Recipe::Fp16
    }
}

/// Degrees of parallelism of a training job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrainingLayout {
    /// Tensor parallel (TP).
    pub tensor: u32,
    /// Pipeline stages (PP).
    pub pipeline: u32,
    /// Virtual stages of each pipeline rank; 1: not interleaved.
    pub interleave: u32,
    /// Context parallel (CP).
    pub context: u32,
    /// Expert parallel (EP); its groups lie inside TP x CP x DP.
    pub expert: u32,
    /// Data parallel (DP): all GPUs over TP x PP x CP.
    pub data: u32,
    /// Whether norms and residuals are divided over the TP group (Megatron's sequence parallelism).
    pub sequence_parallel: bool,
}

impl TrainingLayout {
    /// Data parallel only.
    pub const fn data(data: u32) -> Self {
        Self {
            tensor: 1,
            pipeline: 1,
            interleave: 1,
            context: 1,
            expert: 1,
            data,
            sequence_parallel: false,
        }
    }

    pub const fn gpus(&self) -> u64 {
        self.tensor as u64 * self.pipeline as u64 * self.context as u64 * self.data as u64
    }

    /// Whether data parallelism is all that there is.
    pub const fn is_data_alone(&self) -> bool {
        self.tensor <= 1 && self.pipeline <= 1 && self.context <= 1 && self.expert <= 1
    }

    /// Layers of each pipeline stage. Where embedding and head counted as layers make stages equal, they are counted;
    /// else what is left over goes to the stages in the middle.
    pub fn stage_layers(&self, layers: u64) -> Vec<u64> {
        let stages = u64::from(self.pipeline.max(1));
        if !layers.is_multiple_of(stages) && (layers + 2).is_multiple_of(stages) {
            let each = (layers + 2) / stages;
            let ends = |stage| u64::from(stage == 0) + u64::from(stage + 1 == stages);
            return (0..stages)
                .map(|stage| each.saturating_sub(ends(stage)))
                .collect();
        }
        let rest = layers % stages;
        let before = (stages - rest) / 2;
        (0..stages)
            .map(|stage| layers / stages + u64::from(stage >= before && stage < before + rest))
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    Full,
    /// Adapters on a base that stays as it is.
    Adapter(Adapter),
}

/// A parameter-efficient method with its size.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    pub kind: AdapterKind,
    /// The method's own name where it is known more exactly (`HIRA` is one of [`AdapterKind::Composed`]).
    pub name: Option<String>,
    /// Rank, or what the method has instead (blocks, virtual tokens); `None`: it has none.
    pub rank: Option<u32>,
    /// Modules that it sits on, as the framework names them (`q_proj`); empty: its usual ones.
    pub modules: Vec<String>,
    /// Trainable parameters where they were counted; `None`: by the method's formula.
    pub trainable: Option<u64>,
    pub base: BaseStorage,
}

/// Parameter-efficient methods, by how they use memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdapterKind {
    /// Low-rank pairs beside frozen matrices.
    Lora,
    /// LoRA with magnitudes; composes W + BA to take its column norms.
    Dora,
    /// AdaLoRA: three factors and importance scores.
    AdaLora,
    /// One shared pair of frozen random matrices, trained vectors.
    Vera,
    /// Scaling vectors of activations.
    Ia3,
    /// Hadamard products of low-rank pairs.
    LoHa,
    LoKr,
    /// Orthogonal rotations; composes weights.
    Oft,
    /// Butterfly orthogonal rotations; composes weights.
    Boft,
    /// Orthogonal subspace fine-tuning; composes weights.
    Osf,
    /// Tokens put before the prompt, and other methods on inputs alone.
    Prompt,
    /// Prefixes of keys and values in every layer, and adaption prompts.
    Prefix,
    /// A few layers' norms or trained token embeddings.
    Partial,
    /// Spectral coefficients (FourierFT, C3A, WaveFT); composes the change of a weight.
    Spectral,
    /// Other methods that compose a matrix as large as the weight.
    Composed,
    /// Other methods that add small factors beside the weight.
    Factored,
}

/// How a frozen base is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseStorage {
    /// In the recipe's 16 bits, or as it came.
    SixteenBit,
    ThirtyTwoBit,
    /// 8-bit integers (LLM.int8).
    EightBit,
    /// NF4; with its scales quantised again (QLoRA) or not.
    Nf4 {
        /// Scales in 8 bits.
        double: bool,
    },
}

/// In which numbers matmuls run and what is kept beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recipe {
    /// FP32 throughout.
    Fp32,
    /// FP32 weights, matmuls in TF32.
    Tf32,
    /// BF16 weights, gradients and moments, nothing in FP32.
    PureBf16,
    /// FP32 master weights and moments, BF16 compute.
    MixedBf16,
    /// FP32 master weights and moments, FP16 compute with the loss scaled; adapters over a base in FP16.
    Fp16,
    /// Mixed precision with FP8 matmuls, one scale a tensor.
    Fp8,
    /// Mixed precision with FP8 matmuls in blocks (MXFP8, 128 x 128).
    Fp8Block,
    /// Mixed precision with NVFP4 matmuls.
    Nvfp4,
}

/// What updates the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Optimizer {
    AdamW,
    /// Two moments of 8 bits in blocks.
    AdamW8bit,
    /// AdamW whose states page to host memory.
    PagedAdamW,
    /// AdamW of 8 bits whose states page to host memory.
    PagedAdamW8bit,
    /// Row and column sums.
    Adafactor,
    /// One momentum, orthogonalised; AdamW on embeddings and vectors.
    Muon,
    Lion,
    /// No state, or one momentum.
    Sgd,
}

/// Activation checkpointing: what of the forward pass is recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recompute {
    None,
    /// Attention's inside alone in Megatron; by operator in PyTorch: all but attention and every other matmul.
    Selective,
    /// Every layer, from its input.
    Full,
}

/// How logits become a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKernel {
    /// Logits kept, and copied to FP32 (Hugging Face's default).
    Eager,
    /// One fused kernel over kept logits.
    Fused,
    /// Logits divided over the TP group (Megatron).
    VocabularyParallel,
    /// In chunks, logits never whole (Liger, torchtune, cut cross entropy).
    Chunked,
}

/// Whose allocations and kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Framework {
    /// transformers with PEFT, accelerate or DeepSpeed.
    HuggingFace,
    /// Composer and llm-foundry: PyTorch with FSDP, autocast.
    PyTorch,
    /// torchtune: weights, gradients and states in one precision, FSDP2.
    Torchtune,
    /// torchtitan: FP32 shards, computing in BF16, FSDP2.
    Torchtitan,
    Megatron,
}

/// How states are divided over data-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharding {
    /// Everything on every rank (DDP).
    None,
    /// Optimizer states (ZeRO-1, Megatron's distributed optimizer).
    Optimizer,
    /// Optimizer states and gradients (ZeRO-2, FSDP's `SHARD_GRAD_OP`).
    Gradients,
    /// Weights too (ZeRO-3, FSDP's `FULL_SHARD`).
    Full,
    /// Weights too, within groups of so many ranks, copies between groups (HSDP).
    Hybrid { group: u32 },
}

/// What is kept in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Offload {
    /// Optimizer states, and the step itself.
    pub optimizer: bool,
    pub parameters: bool,
    pub activations: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryCause {
    Weights,
    /// FP32 copies of weights.
    MasterWeights,
    Gradients,
    OptimizerStates,
    Adapters,
    /// Frozen weights that the policy is compared with.
    Reference,
    /// What the engine that writes completions takes.
    RolloutEngine,
    /// Weights gathered from other ranks.
    Gathered,
    /// What layers keep for the backward pass.
    Activations,
    /// The layer that is being computed.
    Working,
    Logits,
    /// What the optimizer makes on its way.
    OptimizerTemporaries,
    Communication,
    /// The driver's and libraries' own.
    Context,
    /// Held by the allocator and not used.
    Fragmentation,
}

/// A moment of a step at which memory peaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// End of the forward pass, with the loss.
    Forward,
    Backward,
    OptimizerStep,
    Evaluation,
    /// While completions are written.
    Rollout,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RankMemory {
    /// Pipeline stage, from 0.
    pub stage: u32,
    /// Bytes by cause at the highest phase; they sum to `peak`.
    pub causes: Vec<(MemoryCause, Bytes)>,
    pub phases: Vec<(Phase, Bytes)>,
    /// The highest of all, allocated, in bytes.
    pub peak: Estimate,
    /// What the allocator reserves at the peak, in bytes.
    pub reserved: Estimate,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainingMemory {
    /// One for each pipeline stage whose memory differs from the one before, first stage first.
    pub ranks: Vec<RankMemory>,
    /// Host memory of one node, in bytes.
    pub host: Bytes,
    /// Trainable parameters over all ranks.
    pub trainable: u64,
    /// What had to be assumed, in words.
    pub assumptions: Vec<String>,
    /// How near the nearest measured rows are.
    pub basis: Basis,
}

impl TrainingMemory {
    /// The rank that holds most.
    pub fn fullest(&self) -> Option<&RankMemory> {
        self.ranks
            .iter()
            .max_by(|left, right| left.peak.value.total_cmp(&right.peak.value))
    }
}

/// What the time of a step is spent on. Parts are exposed time: they sum to the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepCause {
    Matmul,
    Attention,
    /// Norms, activations, residuals: bound by memory.
    Elementwise,
    Loss,
    /// Computing again what was not kept.
    Recompute,
    Launch,
    /// All-reduces or reduce-scatters of tensor parallelism.
    TensorParallel,
    /// Sends between stages and waiting in the pipeline's bubble.
    Pipeline,
    /// Exchange of keys and values.
    ContextParallel,
    /// Dispatch and combination of experts, with their imbalance.
    ExpertParallel,
    /// Gathers and reductions over data-parallel ranks that nothing hides.
    DataParallel,
    Optimizer,
    /// Moves between host and GPU.
    Offload,
    Data,
    /// Writing completions.
    Rollout,
    /// Moving the trained weights to the engine that writes.
    WeightSync,
    Reward,
    /// Log-probs of the completions under the policy that wrote them.
    OldLogProbs,
    /// Log-probs under the reference.
    Reference,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Seconds by cause; they sum to `step`.
    pub parts: Vec<(StepCause, f64)>,
    /// Seconds a step.
    pub step: Estimate,
    pub tokens_per_second_per_gpu: Estimate,
    /// Model FLOPs a second and GPU, of the model's own work alone (no recomputation).
    pub model_flops_per_gpu: Estimate,
    /// Share of the dense peak of the recipe's precision, by the model's own work.
    pub mfu: Option<Estimate>,
    /// The same with recomputed work counted.
    pub hfu: Option<Estimate>,
    /// How near the nearest measured rows are.
    pub basis: Basis,
    /// What had to be assumed, in words.
    pub assumptions: Vec<String>,
}
