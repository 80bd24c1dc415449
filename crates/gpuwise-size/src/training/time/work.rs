//! The work of one step on one GPU: operations and bytes, whatever the constants are.

use super::{
    system::TrainingSystem,
    totals::{Totals, totals},
};
use gpuwise_domain::{
    model::{Architecture, Tensor},
    training::{
        BaseStorage, Framework, Method, Optimizer, Recipe, Recompute, Sharding, TrainingSetup,
    },
};

/// Amounts of one micro-batch on one GPU (the mean over pipeline stages), and of one step.
///
/// Operations count forward and backward; bytes in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepWork {
    /// Layers of one stage.
    pub layers: f64,
    pub expert_layers: f64,
    /// Matmul operations of layers, experts apart, in the recipe's precision.
    pub matmul: f64,
    /// Of the head, which stays in 16 bits.
    pub head: f64,
    pub attention: f64,
    /// Bytes of one pass over layers' activations.
    pub elements: f64,
    /// Bytes of logits and loss.
    pub loss: f64,
    /// Matmul operations of experts.
    pub expert: f64,
    /// The same, each divided by the expert's width.
    pub expert_by_width: f64,
    /// Bytes of one pass over the copies of tokens that go to experts.
    pub copies: f64,
    /// Elements of these copies that are cast.
    pub cast: f64,
    /// Bytes of one pass over inner widths of experts with biases.
    pub biased: f64,
    /// Bytes to other GPUs of the domain in sending tokens to experts and back.
    pub dispatch_near: f64,
    /// Bytes beyond it.
    pub dispatch_far: f64,
    /// Bytes of collectives over the tensor group.
    pub tensor: f64,
    /// Bytes of sends between stages.
    pub sends: f64,
    /// Bytes of keys and values exchanged.
    pub exchange: f64,
    /// Bytes of weights gathered and gradients scattered in every micro-batch.
    pub gathers: f64,
    /// The same once a step.
    pub reductions: f64,
    /// Bytes of the optimizer's step.
    pub optimizer: f64,
    /// Bytes of writing a quantized base out in 16 bits, each micro-batch.
    pub dequantized: f64,
    /// Bytes between host and GPU, each step.
    pub offloaded: f64,
    /// Width of the residual stream on one tensor rank.
    pub width: f64,
    /// Micro-batches of one pipeline in a step.
    pub micro_batches: f64,
    /// Work of the fullest stage over the mean's layers: layers of it over layers of the mean.
    pub fullest_layers: f64,
    /// Whether the fullest stage also has the head.
    pub head_on_fullest: bool,
    /// What is recomputed.
    pub again: Again,
    /// What a forward pass alone is of forward and backward.
    pub forward: Again,
    /// Bytes of weights gathered in a forward pass alone, each micro-batch.
    pub forward_gathers: f64,
    /// Bytes of weights from the host in a forward pass alone, each micro-batch.
    pub forward_offloaded: f64,
    /// Waiting of the pipeline, as a share of its work.
    pub bubble: f64,
    /// Tokens of a step.
    pub tokens: f64,
    pub gpus: f64,
}

/// Shares of the time of forward and backward together that a second forward pass takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Again {
    /// Of matmuls with weights, and of writing these out where they are stored quantized.
    pub weights: f64,
    pub attention: f64,
    /// Of all else in a layer.
    pub rest: f64,
}

impl Again {
    /// What a kind of recomputation repeats under a method.
    ///
    /// Forward is two operations for every weight, and so is each gradient: of the layer's input
    /// always, of the weights where they are trained. Attention has no weights.
    fn of(setup: &TrainingSetup) -> Self {
        let method = &setup.method;
        match setup.recompute {
            // By operator: all but attention and every other matmul, and all scaled ones.
            Recompute::Selective
                if matches!(setup.framework, Framework::PyTorch | Framework::Torchtitan) =>
            {
                Self {
                    weights: FORWARD / passes(method)
                        * if scaled(setup.recipe) {
                            1.0
                        } else {
                            EVERY_OTHER
                        },
                    attention: 0.0,
                    rest: 1.0 / 3.0,
                }
            }
            Recompute::None | Recompute::Selective => Self::default(),
            Recompute::Full => Self::forward(method),
        }
    }

    /// A forward pass.
    fn forward(method: &Method) -> Self {
        Self {
            weights: FORWARD / passes(method),
            attention: 1.0 / ATTENTION_PASSES,
            rest: 1.0 / 3.0,
        }
    }
}

/// Operations of a weight on a token forward.
const FORWARD: f64 = 2.0;
/// Share of a layer's matmul operations in every second matmul: keys, the attention's output and the
/// up projection. Of Llama 3's 8B and 70B: 0.37 and 0.36.
const EVERY_OTHER: f64 = 0.37;
/// Attention forward and backward over forward alone: backward is two and a half times forward,
/// because it computes the scores again.
const ATTENTION_PASSES: f64 = 3.5;
/// The same where what the kernel computes again does not count as the model's.
const MODEL_ATTENTION_PASSES: f64 = 3.0;

/// Operations of a weight on a token forward and backward: weight gradients of a frozen base are not
/// computed.
pub(super) fn passes(method: &Method) -> f64 {
    match method {
        Method::Full => 3.0 * FORWARD,
        Method::Adapter(_) => 2.0 * FORWARD,
    }
}

/// How long a stage of a pipeline waits for the others, over the time that it computes: `stages - 1`
/// micro-batches of a step pass while it is filled and drained, each of them a part of it where stages
/// are interleaved. Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", 2021, section 2.2.
pub fn pipeline_waiting(stages: u64, micro_batches: f64, interleave: f64) -> f64 {
    stages.saturating_sub(1) as f64 / (micro_batches * interleave)
}

impl StepWork {
    /// Operations of a GPU in a step that the model itself asks for: what MFU counts.
    pub fn model_operations(&self) -> f64 {
        let attention = self.attention / ATTENTION_PASSES * MODEL_ATTENTION_PASSES;
        self.micro_batches * (self.matmul + self.expert + self.head + attention)
    }

    /// Operations that are done again in the backward pass: HFU counts them too.
    pub fn repeated_operations(&self) -> f64 {
        let again = &self.again;
        self.micro_batches
            * (again.weights * (self.matmul + self.expert) + again.attention * self.attention)
    }

    /// Operations of a GPU in one forward pass over all sequences of a step.
    pub fn forward_operations(&self) -> f64 {
        let once = &self.forward;
        self.micro_batches
            * (once.weights * (self.matmul + self.expert + self.head)
                + once.attention * self.attention)
    }

    /// The same work where logits of this share of tokens are computed.
    #[must_use]
    pub fn scored(mut self, share: f64) -> Self {
        self.head *= share;
        self.loss *= share;
        self
    }

    /// The work of a setup.
    pub fn new(
        architecture: &Architecture,
        setup: &TrainingSetup,
        system: &TrainingSystem,
    ) -> Self {
        let totals = totals(architecture, setup.sequence.0 as f64);
        let layout = &setup.layout;
        let [tensor, pipeline, context, data, expert] = [
            layout.tensor,
            layout.pipeline,
            layout.context,
            layout.data,
            layout.expert,
        ]
        .map(|ranks| f64::from(ranks.max(1)));
        let sequence = setup.sequence.0 as f64;
        let tokens = setup.micro_batch as f64 * sequence / context;
        let passes = passes(&setup.method);
        let share = tokens / (tensor * pipeline);
        let hidden = architecture.hidden as f64;
        let vocabulary = architecture.vocabulary as f64;
        let mut work = Self {
            layers: totals.layers / pipeline,
            expert_layers: totals.expert_layers / pipeline,
            matmul: passes * totals.weights * share,
            head: passes * hidden * vocabulary * share,
            attention: ATTENTION_PASSES * totals.attention * share,
            elements: 2.0
                * unfused(setup)
                * (totals.layers * hidden + 0.5 * totals.width / tensor)
                * share,
            loss: 16.0 * vocabulary * share,
            expert: passes * totals.expert_active * share,
            expert_by_width: passes * totals.expert_by_width * share,
            copies: 2.0 * totals.copies * share,
            cast: if scaled(setup.recipe) {
                totals.cast * share
            } else {
                0.0
            },
            biased: 2.0 * totals.biased * share,
            width: hidden / tensor,
            micro_batches: (setup.global_batch as f64 / (data * setup.micro_batch as f64)).max(1.0),
            again: Again::of(setup),
            forward: Again::forward(&setup.method),
            tokens: setup.global_batch as f64 * sequence,
            gpus: layout.gpus() as f64,
            ..Self::default()
        };
        if setup.offload.activations && setup.recompute == Recompute::Full {
            // The input of each layer in 16 bits, to the host and back.
            work.offloaded = 2.0 * 2.0 * totals.layers * hidden * share * work.micro_batches;
        }
        work.schedule(architecture, setup);
        work.links(setup, system, &totals, tokens, hidden);
        work.states(
            architecture,
            setup,
            &totals,
            [tensor, pipeline, data * context, expert],
        );
        work
    }

    /// Waiting and imbalance of the pipeline.
    fn schedule(&mut self, architecture: &Architecture, setup: &TrainingSetup) {
        let stages = u64::from(setup.layout.pipeline.max(1));
        let interleave = f64::from(setup.layout.interleave.max(1));
        self.bubble = pipeline_waiting(stages, self.micro_batches, interleave);
        let layers = architecture.layer_count().max(1);
        self.fullest_layers = 1.0;
        if stages == 1 {
            return;
        }
        if layers.is_multiple_of(stages) {
            self.head_on_fullest = true;
        } else {
            let dealt = setup.layout.stage_layers(layers);
            let most = dealt.into_iter().max().unwrap_or(layers) as f64;
            self.fullest_layers = most * stages as f64 / layers as f64;
        }
    }

    fn links(
        &mut self,
        setup: &TrainingSetup,
        system: &TrainingSystem,
        totals: &Totals,
        tokens: f64,
        hidden: f64,
    ) {
        let layout = &setup.layout;
        let [tensor, pipeline, context, expert] = [
            layout.tensor,
            layout.pipeline,
            layout.context,
            layout.expert,
        ]
        .map(|ranks| f64::from(ranks.max(1)));
        // Four gathers or scatters forward and four backward, in 16 bits.
        self.tensor = 16.0 * hidden * tokens * (tensor - 1.0) / tensor * self.layers;
        self.exchange = 6.0 * tokens * (context - 1.0) * totals.keys / tensor / pipeline;
        if layout.pipeline > 1 {
            let chunks = f64::from(layout.interleave.max(1));
            self.sends = 4.0 * tokens * hidden / tensor * chunks;
        }
        if expert > 1.0 && totals.chosen > 0.0 {
            // To experts and back, forward and backward, in 16 bits.
            let bytes = 8.0 * tokens / tensor * self.expert_layers * hidden;
            let near = expert.min(system.domain);
            self.dispatch_near = bytes * distinct(near, totals.chosen) * (1.0 - 1.0 / near);
            if expert > system.domain {
                let domains = expert / system.domain;
                self.dispatch_far =
                    bytes * distinct(domains, totals.chosen) * (1.0 - 1.0 / domains);
                self.dispatch_near = bytes * distinct(near, totals.chosen);
            }
        }
    }

    /// Traffic of weights, gradients and optimizer states.
    fn states(
        &mut self,
        architecture: &Architecture,
        setup: &TrainingSetup,
        totals: &Totals,
        [tensor, pipeline, replicas, expert]: [f64; 4],
    ) {
        let outside: u64 = architecture.outside.iter().map(Tensor::elements).sum();
        let dense = (totals.weights + outside as f64) / (tensor * pipeline);
        let experts = totals.expert_stored / (pipeline * expert);
        let held = dense + experts;
        let all = self.gpus;
        let Method::Adapter(adapter) = &setup.method else {
            let shared = |ranks: f64| (ranks - 1.0).max(0.0) / ranks.max(1.0);
            let expert_replicas = (tensor * replicas / expert).max(1.0);
            match setup.sharding {
                Sharding::Full => {
                    self.gathers = 6.0 * held * shared(replicas);
                    self.forward_gathers = self.gathers / 3.0;
                }
                Sharding::Hybrid { group } => {
                    self.gathers = 6.0 * held * shared(f64::from(group.max(1)));
                    self.forward_gathers = self.gathers / 3.0;
                    self.reductions = 4.0 * held / f64::from(group.max(1));
                }
                Sharding::Gradients | Sharding::Optimizer | Sharding::None => {
                    self.reductions =
                        6.0 * (dense * shared(replicas) + experts * shared(expert_replicas));
                }
            }
            let updated = if matches!(setup.sharding, Sharding::None) {
                held
            } else {
                dense / replicas + experts / expert_replicas
            };
            self.optimizer = stepped(setup) * updated;
            // FSDP steps where its shards are.
            let shards = setup.offload.parameters
                && matches!(
                    setup.framework,
                    Framework::PyTorch | Framework::Torchtune | Framework::Torchtitan
                );
            if setup.offload.optimizer || shards {
                self.offloaded += 16.0 * updated;
            }
            if setup.offload.parameters {
                self.offloaded += 4.0 * held / replicas * self.micro_batches;
                self.forward_offloaded = 2.0 * held / replicas;
            }
            return;
        };
        // Adapters are a hundredth of the weights, or were counted.
        let trained = adapter
            .trainable
            .map_or(held * 0.01, |count| count as f64 / (tensor * pipeline));
        self.optimizer = stepped(setup) * trained;
        self.reductions = if all > 1.0 { 6.0 * trained } else { 0.0 };
        let stored = match adapter.base {
            BaseStorage::Nf4 { .. } => 0.5,
            BaseStorage::EightBit => 1.0,
            BaseStorage::SixteenBit => 2.0,
            BaseStorage::ThirtyTwoBit => 4.0,
        };
        let sharing = match setup.sharding {
            Sharding::Full => replicas,
            Sharding::Hybrid { group } => f64::from(group.max(1)).min(replicas),
            Sharding::Gradients | Sharding::Optimizer | Sharding::None => 1.0,
        };
        // Gathered as they are stored, forward and backward.
        self.forward_gathers = stored * held * (sharing - 1.0) / sharing;
        self.gathers = 2.0 * self.forward_gathers;
        if setup.offload.parameters {
            self.offloaded += 2.0 * stored * held / sharing * self.micro_batches;
            self.forward_offloaded = stored * held / sharing;
        }
        if setup.offload.optimizer {
            self.offloaded += 16.0 * trained;
        }
        if matches!(
            adapter.base,
            BaseStorage::Nf4 { .. } | BaseStorage::EightBit
        ) {
            // Read quantized, written and read again in 16 bits, forward and backward.
            self.dequantized = 2.0 * held * (stored + 4.0);
        }
    }
}

/// Bytes that a step of the optimizer moves for each parameter: weight, gradient and moments read, all
/// but the gradient written; under mixed precision the weight twice.
fn stepped(setup: &TrainingSetup) -> f64 {
    let eight = matches!(
        setup.optimizer,
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit
    );
    match (setup.is_pure(), eight) {
        (true, true) => 10.0,
        (true, false) => 14.0,
        (false, true) => 18.0,
        (false, false) => 30.0,
    }
}

/// Passes over activations, over those of code whose norms are kernels.
///
/// Counted on a Llama layer forward, in bytes an element of hidden width: norms of six kernels in FP32
/// (36 each), rotations of five (30 for each of queries and keys), residuals (12) and gates (10 for each
/// of the inner width) against one kernel each. Backward in proportion.
fn unfused(setup: &TrainingSetup) -> f64 {
    match setup.framework {
        _ if setup.compiled => COMPILED,
        Framework::HuggingFace | Framework::Torchtune | Framework::Torchtitan => UNFUSED,
        Framework::PyTorch | Framework::Megatron => 1.0,
    }
}

/// Passes of a compiled layer: 150 bytes an element of hidden width over 204.
const COMPILED: f64 = 0.75;
/// Passes where norms and rotations run operation by operation: 470 bytes over 204.
const UNFUSED: f64 = 2.3;

/// Whether a recipe casts what it multiplies.
fn scaled(recipe: Recipe) -> bool {
    matches!(recipe, Recipe::Fp8 | Recipe::Fp8Block | Recipe::Nvfp4)
}

/// Ranks among `ranks` that `chosen` experts spread over, in the mean.
fn distinct(ranks: f64, chosen: f64) -> f64 {
    ranks * (1.0 - libm::pow(1.0 - 1.0 / ranks.max(1.0), chosen))
}
