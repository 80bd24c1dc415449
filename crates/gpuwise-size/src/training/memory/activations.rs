//! What a layer keeps for the backward pass, and what logits take: bytes for each token of a
//! micro-batch on one rank.

use super::adapters::Resolved;
use gpuwise_domain::{
    alignment::Alignment,
    model::{Architecture, FeedForward, Layer, Mixer, Role},
    training::{Framework, LossKernel, Method, Recipe, Recompute, TrainingSetup},
};

/// Bytes of an activation's element.
pub(super) const fn element(recipe: Recipe) -> f64 {
    match recipe {
        Recipe::Fp32 | Recipe::Tf32 => 4.0,
        _ => 2.0,
    }
}

/// What one layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Kept {
    /// Bytes a token, with everything kept.
    pub(super) token: f64,
    /// Bytes whatever the tokens: composed weights of adapters.
    pub(super) fixed: f64,
    /// Bytes a token of its input, which full recomputation keeps alone.
    pub(super) input: f64,
    /// Bytes a token that selective recomputation keeps, and whatever the tokens.
    pub(super) selected: (f64, f64),
}

impl Kept {
    /// Bytes that stay for the backward pass.
    pub(super) fn staying(&self, recompute: Recompute, tokens: f64) -> f64 {
        match recompute {
            Recompute::Full => self.input * tokens,
            Recompute::Selective => self.selected.0 * tokens + self.selected.1,
            Recompute::None => self.token * tokens + self.fixed,
        }
    }

    /// Bytes of the layer that is recomputed.
    pub(super) fn again(&self, recompute: Recompute, tokens: f64) -> f64 {
        match recompute {
            Recompute::Full => self.token * tokens + self.fixed,
            Recompute::Selective => {
                (self.token - self.selected.0) * tokens + self.fixed - self.selected.1
            }
            Recompute::None => 0.0,
        }
    }
}

/// The parts of a layer's sum that the framework decides.
struct Rules {
    element: f64,
    /// Bytes of an element of a matmul's input that is kept for the gradient of its weight.
    input: f64,
    framework: Framework,
    /// Whether the model's own weights are trained, so that inputs of matmuls are kept.
    trained: bool,
    /// Ranks over which norms and residuals are divided.
    residual: f64,
    /// Whether a compiler computes again what is not a matmul or attention, from what is kept.
    compiled: bool,
}

/// What a layer keeps on one rank, for each token of its own sequence (tokens of other context
/// ranks are not counted here).
pub(super) fn kept(
    architecture: &Architecture,
    layer: &Layer,
    setup: &TrainingSetup,
    adapter: Option<&Resolved>,
) -> Kept {
    let tensor = f64::from(setup.layout.tensor.max(1));
    let rules = Rules {
        element: element(setup.recipe),
        // Transformer Engine keeps inputs as they were multiplied.
        input: match setup.recipe {
            // torchao keeps inputs as they came.
            recipe if setup.framework == Framework::Torchtitan => element(recipe),
            Recipe::Fp8 | Recipe::Fp8Block | Recipe::Nvfp4 => 1.0,
            recipe => element(recipe),
        },
        framework: setup.framework,
        trained: setup.method == Method::Full,
        residual: if setup.layout.sequence_parallel {
            tensor
        } else {
            1.0
        },
        compiled: setup.compiled && setup.framework != Framework::Megatron,
    };
    let hidden = architecture.hidden as f64;
    let mut token = rules.norms(architecture, layer) / rules.residual
        + rules.mixer(architecture, layer, setup) / tensor
        + rules.feed_forward(layer) / tensor;
    if layer.cross_attention > 0 {
        // Query and output of its own tokens; keys and values of the encoder's.
        token += 4.0 * rules.element * layer.cross_attention as f64 / tensor;
    }
    let (more, fixed) = adapter.map_or((0.0, 0.0), |a| {
        a.kept(architecture, layer, rules.element, setup.framework)
    });
    let all = (token + more / tensor, fixed / tensor);
    let selected = if matches!(setup.framework, Framework::PyTorch | Framework::Torchtitan) {
        let kept = rules.selected(layer, hidden, setup.recipe) / tensor
            + rules.element * hidden * (1.0 / rules.residual - 1.0 / tensor);
        (kept.min(all.0), 0.0)
    } else {
        all
    };
    Kept {
        token: all.0,
        fixed: all.1,
        input: rules.stream(setup.recipe) * hidden / rules.residual,
        selected,
    }
}

impl Rules {
    /// Bytes of an element of the residual stream: under autocast, embeddings in FP32 make it FP32.
    fn stream(&self, recipe: Recipe) -> f64 {
        match (self.framework, recipe) {
            (Framework::PyTorch, Recipe::MixedBf16 | Recipe::Fp16) => 4.0,
            _ => self.element,
        }
    }

    /// What PyTorch's recomputation by operator keeps, as torchtitan asks for it: the layer's input, what attention makes, and
    /// the results of every other matmul in BF16 (queries, values, gate, down); scaled matmuls are not
    /// on its list. (`pytorch/torchtitan@9810191bb^:torchtitan/models/llama3/infra/parallelize.py`)
    fn selected(&self, layer: &Layer, hidden: f64, recipe: Recipe) -> f64 {
        let e = self.element;
        let (queries, values, out, heads) = match layer.mixer {
            Mixer::Attention {
                heads,
                kv_heads,
                key_dim,
                value_dim,
                ..
            } => (
                heads * key_dim,
                kv_heads * value_dim,
                heads * value_dim,
                heads,
            ),
            Mixer::Latent {
                heads,
                rotary_dim,
                plain_dim,
                value_dim,
                ..
            } => (
                heads * (rotary_dim + plain_dim),
                heads * value_dim,
                heads * value_dim,
                heads,
            ),
            Mixer::Compressed { .. } | Mixer::Recurrent(_) | Mixer::None => (0, 0, 0, 0),
        };
        let attention = e * (hidden + out as f64) + 4.0 * heads as f64;
        if matches!(recipe, Recipe::Fp8 | Recipe::Fp8Block | Recipe::Nvfp4) {
            return attention;
        }
        let inner = match layer.feed_forward {
            FeedForward::Dense { width, .. } => width as f64 + hidden,
            FeedForward::Experts {
                chosen,
                width,
                input,
                shared_width,
                ..
            } => (chosen * (width + input) + shared_width) as f64,
            FeedForward::None => 0.0,
        };
        attention + e * ((queries + values) as f64 + inner)
    }

    /// Inputs of norms, and outputs that feed trained matmuls.
    fn norms(&self, architecture: &Architecture, layer: &Layer) -> f64 {
        let hidden = architecture.hidden as f64;
        let elements: f64 = layer
            .tensors
            .iter()
            .filter(|tensor| tensor.role == Role::Norm)
            .map(|tensor| tensor.elements() as f64)
            .sum();
        let vectors = elements / hidden.max(1.0);
        let gated = is_gated(&layer.feed_forward);
        // Norms of mean and variance have a weight and a bias, and go with plain feed-forwards.
        let count = if gated || vectors <= 2.0 {
            vectors.max(1.0)
        } else {
            vectors / 2.0
        };
        let root = gated || matches!(architecture.model_type.as_str(), "t5" | "mt5" | "umt5");
        let each = match self.framework {
            _ if self.compiled => self.element,
            // Hugging Face's RMSNorm computes in FP32 and keeps its input so; where its weight is
            // trained, also the normalised input, and the output that matmuls read. torchtune's and
            // PyTorch's own do the same.
            Framework::HuggingFace | Framework::Torchtune | Framework::Torchtitan if root => {
                4.0 + if self.trained {
                    2.0 * self.element
                } else {
                    0.0
                }
            }
            Framework::PyTorch if root => 4.0 + if self.trained { self.element } else { 0.0 },
            // One copy: the residual stream's own and the output are not both kept.
            Framework::PyTorch => self.element,
            Framework::HuggingFace | Framework::Torchtune | Framework::Torchtitan => {
                self.element * if self.trained { 2.0 } else { 1.0 }
            }
            Framework::Megatron => self.element + if self.trained { self.input } else { 0.0 },
        };
        count * each * hidden
    }

    fn mixer(&self, architecture: &Architecture, layer: &Layer, setup: &TrainingSetup) -> f64 {
        let e = self.element;
        match layer.mixer {
            Mixer::Attention {
                heads,
                kv_heads,
                key_dim,
                value_dim,
                ..
            } => {
                let (q, out) = ((heads * key_dim) as f64, (heads * value_dim) as f64);
                let kv = (kv_heads * (key_dim + value_dim)) as f64;
                // With a mask, Hugging Face repeats keys and values for every query head; torchtune and
                // torchtitan always do, and keep the repeated ones alone.
                let own = matches!(self.framework, Framework::Torchtune | Framework::Torchtitan);
                let repeats = (own || self.framework == Framework::HuggingFace)
                    && kv_heads < heads
                    && !self.compiled;
                let kv = match (repeats, own) {
                    (true, true) => q + out,
                    (true, false) => kv + q + out,
                    (false, _) => kv,
                };
                e * (q + out + kv)
                    + 4.0 * heads as f64
                    + self.probabilities(architecture, setup, heads as f64)
            }
            Mixer::Latent {
                heads,
                rotary_dim,
                plain_dim,
                value_dim,
                ..
            } => {
                let key = (heads * (rotary_dim + plain_dim)) as f64;
                let value = (heads * value_dim) as f64;
                e * (2.0 * key + 2.0 * value + rows(layer, Role::LatentDown)) + 4.0 * heads as f64
            }
            Mixer::Compressed { heads, dim, .. } => e * ((2 * heads + 1) * dim) as f64,
            Mixer::Recurrent(_) => {
                // Projections before and after the convolution, and the gated output.
                e * (2.0 * rows(layer, Role::StateInput) + 2.0 * columns(layer, Role::StateOutput))
            }
            Mixer::None => 0.0,
        }
    }

    /// Families whose attention has no fused kernel in Hugging Face keep the probabilities.
    fn probabilities(&self, architecture: &Architecture, setup: &TrainingSetup, heads: f64) -> f64 {
        let eager = matches!(
            architecture.model_type.as_str(),
            "t5" | "mt5" | "umt5" | "bloom"
        );
        if !eager
            || self.framework != Framework::HuggingFace
            || setup.recompute == Recompute::Selective
        {
            return 0.0;
        }
        heads * setup.sequence.0 as f64 * (4.0 + self.element)
    }

    fn feed_forward(&self, layer: &Layer) -> f64 {
        let e = self.element;
        // A gate keeps its input, its output and the up projection; without one the input of the
        // activation alone. Its product is the input of the last matmul.
        let inner = |gated: bool| {
            let own = match (gated, self.framework) {
                (true, Framework::Megatron) => 2.0,
                (true, _) if self.compiled => 2.0,
                (true, _) => 3.0,
                (false, _) => 1.0,
            };
            let product = self.trained && !self.compiled;
            own * e + if product { self.input } else { 0.0 }
        };
        match layer.feed_forward {
            FeedForward::Dense { width, gated } => inner(gated) * width as f64,
            FeedForward::Experts {
                count,
                chosen,
                width,
                input,
                gated,
                shared_width,
            } => {
                let chosen = chosen as f64;
                // Each chosen expert has its copy of the token and of its result.
                chosen * (inner(gated) * width as f64 + 2.0 * e * input as f64)
                    + inner(gated) * shared_width as f64
                    + 8.0 * count as f64
            }
            FeedForward::None => 0.0,
        }
    }
}

fn is_gated(feed_forward: &FeedForward) -> bool {
    match feed_forward {
        FeedForward::Dense { gated, .. } | FeedForward::Experts { gated, .. } => *gated,
        FeedForward::None => true,
    }
}

fn rows(layer: &Layer, role: Role) -> f64 {
    layer
        .tensors
        .iter()
        .filter(|tensor| tensor.role == role && tensor.is_matrix())
        .map(|tensor| (tensor.rows * tensor.copies) as f64)
        .sum()
}

fn columns(layer: &Layer, role: Role) -> f64 {
    layer
        .tensors
        .iter()
        .filter(|tensor| tensor.role == role && tensor.is_matrix())
        .map(|tensor| (tensor.columns * tensor.copies) as f64)
        .sum()
}

/// Bytes of one token's logits at the end of the forward pass and at the height of the backward
/// pass.
pub(super) fn logits(architecture: &Architecture, setup: &TrainingSetup) -> (f64, f64) {
    let vocabulary = architecture.vocabulary as f64;
    let e = element(setup.recipe);
    let own = matches!(
        setup.framework,
        Framework::Torchtune | Framework::Torchtitan
    );
    if let Some(alignment) = &setup.alignment {
        let (forward, backward) = scored(alignment, setup, e);
        return (forward * vocabulary, backward * vocabulary);
    }
    let (forward, backward) = match setup.loss {
        // Logits, FP32 and log-softmax; then it, its gradient and that of the logits.
        LossKernel::Eager if own => (e + 8.0, 12.0),
        // torchtune's chunks: each keeps its log-softmax in FP32 for the backward pass, or compiled
        // its logits; one of eight has all its copies.
        LossKernel::Chunked if setup.framework == Framework::Torchtune => {
            if setup.compiled {
                (e + e / 8.0, e + 2.0 * e / 8.0)
            } else {
                (4.0 + (e + 4.0) / 8.0, 4.0 + (e + 8.0) / 8.0)
            }
        }
        // Logits, their FP32 copy and the log-softmax; then two gradients in FP32 and the copies.
        LossKernel::Eager => (e + 8.0, 12.0 + e),
        // Logits, and the gradient: fused kernels write it in their place, but the matmul reads both.
        LossKernel::Fused => (2.0 * e, 2.0 * e),
        // Logits, their FP32 copy that becomes the softmax and its gradient in place, and that as cast.
        LossKernel::VocabularyParallel => (e + 4.0, 2.0 * e + 4.0),
        // Eight chunks, as torchtune cuts them by default.
        LossKernel::Chunked => ((e + 8.0) / 8.0, (12.0 + e) / 8.0),
    };
    let ranks = match setup.loss {
        LossKernel::VocabularyParallel => f64::from(setup.layout.tensor.max(1)),
        _ if setup.framework == Framework::Torchtitan => f64::from(setup.layout.tensor.max(1)),
        _ => 1.0,
    };
    (forward * vocabulary / ranks, backward * vocabulary / ranks)
}

/// Bytes of a logit in TRL's losses at the end of the forward pass and at the height of the backward
/// pass.
///
/// `accelerate` casts logits to FP32 as they leave the model, and `selective_log_softmax` keeps that
/// copy: no log-softmax is whole. Pairs have the reference's beside them until the loss is known, and a
/// copy of those of the chosen answers for their mean. Liger computes them for one pair, or one
/// completion, at a time.
/// (`huggingface/trl@35def3ee000a87f6839e66f4b7749b06274ed1b3:trl/trainer/{dpo_trainer,grpo_trainer,utils}.py`,
/// `linkedin/Liger-Kernel@ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c:src/liger_kernel/chunked_loss`)
fn scored(alignment: &Alignment, setup: &TrainingSetup, element: f64) -> (f64, f64) {
    const FULL: f64 = 4.0;
    let reference = matches!(alignment, Alignment::Dpo { .. }) && setup.reference().is_some();
    let forward = element + FULL + if reference { FULL } else { 0.0 };
    // The copy, the gradients of its rows, their sum with that of the chosen tokens, and it as cast.
    let backward = 3.0 * FULL + element;
    if setup.loss == LossKernel::Chunked {
        let one = 1.0 / setup.micro_batch.max(1) as f64;
        return (backward * one, backward * one);
    }
    (forward, backward)
}
