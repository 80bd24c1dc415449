//! Weights, gradients and optimizer states of one rank: bytes for each parameter, and parameters by
//! pipeline stage.

use super::{TrainingMemoryError, activations::element, adapters::Resolved};
use alloc::vec::Vec;
use gpuwise_domain::{
    alignment::Reference,
    model::{Architecture, Layer, LayerRun, Role, Tensor},
    training::{BaseStorage, Framework, Method, Optimizer, Recipe, Sharding, TrainingSetup},
};

/// Parameters of one stage on one tensor-parallel rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Parameters {
    /// All but routed experts.
    pub(super) dense: f64,
    /// Routed experts of this rank.
    pub(super) experts: f64,
    /// Of the dense ones: matrices outside of layers (embedding, head).
    pub(super) outside: f64,
    /// The largest of these.
    pub(super) largest_outside: f64,
    /// Of all: matrices that a quantized base stores in few bits.
    pub(super) quantizable: f64,
    /// Of the largest layer: what is gathered at once.
    pub(super) layer: f64,
    pub(super) matrix: f64,
}

/// One pipeline stage: its layers, and what stands outside of them.
#[derive(Debug, Clone)]
pub(super) struct Stage<'a> {
    pub(super) index: u32,
    /// Layers with how many of each.
    pub(super) layers: Vec<(f64, &'a Layer)>,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// Stages of a model.
///
/// # Errors
/// When there are more stages than layers.
pub(super) fn stages<'a>(
    architecture: &'a Architecture,
    setup: &TrainingSetup,
) -> Result<Vec<Stage<'a>>, TrainingMemoryError> {
    let pipeline = u64::from(setup.layout.pipeline.max(1));
    let virtual_stages = pipeline * u64::from(setup.layout.interleave.max(1));
    let layers = architecture.layer_count();
    // Embedding, head and a prediction layer may be stages of their own.
    if pipeline > layers || virtual_stages > layers + 3 {
        return Err(TrainingMemoryError::StagesWithoutLayers {
            stages: setup.layout.pipeline,
            interleave: setup.layout.interleave,
            layers,
        });
    }
    let mut out = Vec::new();
    let mut from = 0;
    for (index, count) in (0..).zip(setup.layout.stage_layers(layers)) {
        let (first, last) = (index == 0, index + 1 == pipeline);
        let mut inside = slice(&architecture.layers, from, count);
        if first && let Some(encoder) = &architecture.encoder {
            inside.extend(
                encoder
                    .layers
                    .iter()
                    .map(|run| (run.count as f64, &run.layer)),
            );
        }
        from += count;
        out.push(Stage {
            index: index as u32,
            layers: inside,
            first,
            last,
        });
    }
    Ok(out)
}

/// The layers from one place on, so many of them.
fn slice(runs: &[LayerRun], from: u64, count: u64) -> Vec<(f64, &Layer)> {
    let mut out = Vec::new();
    let mut at = 0;
    for run in runs {
        let begin = from.max(at);
        let end = (from + count).min(at + run.count);
        if end > begin {
            out.push(((end - begin) as f64, &run.layer));
        }
        at += run.count;
    }
    out
}

/// Ranks over which one tensor's elements are divided beside data parallelism.
fn ranks(tensor: &Tensor, setup: &TrainingSetup) -> f64 {
    let layout = &setup.layout;
    let tp = f64::from(layout.tensor.max(1));
    if tensor.role.is_routed_expert() {
        // Whole experts on each rank of a group; without such groups they are divided by features.
        return if layout.expert > 1 {
            f64::from(layout.expert)
        } else {
            tp
        };
    }
    match tensor.role {
        Role::Norm | Role::Router | Role::LatentDown => 1.0,
        _ => tp,
    }
}

impl Parameters {
    pub(super) fn of(
        architecture: &Architecture,
        stage: &Stage<'_>,
        setup: &TrainingSetup,
    ) -> Self {
        let mut out = Self::default();
        for (count, layer) in &stage.layers {
            let mut all = 0.0;
            for tensor in &layer.tensors {
                let elements = tensor.elements() as f64 / ranks(tensor, setup);
                all += elements;
                if tensor.role.is_routed_expert() {
                    out.experts += count * elements;
                } else {
                    out.dense += count * elements;
                }
                if tensor.is_matrix() {
                    out.quantizable += count * elements;
                    out.matrix = out.matrix.max(elements / tensor.copies.max(1) as f64);
                }
            }
            out.layer = out.layer.max(all);
        }
        let encoder = architecture
            .encoder
            .iter()
            .flat_map(|encoder| encoder.outside.iter())
            .chain(architecture.towers.iter().flat_map(|t| t.tensors.iter()));
        let here = |tensor: &Tensor| match tensor.role {
            Role::Embedding => stage.first || (stage.last && architecture.tied_head),
            Role::Head | Role::Norm => stage.last,
            _ => stage.first,
        };
        for tensor in architecture
            .outside
            .iter()
            .filter(|tensor| here(tensor))
            .chain(encoder.filter(|_| stage.first))
        {
            let elements = tensor.elements() as f64 / ranks(tensor, setup);
            out.dense += elements;
            out.outside += elements;
            out.largest_outside = out.largest_outside.max(elements);
        }
        out
    }

    pub(super) fn all(&self) -> f64 {
        self.dense + self.experts
    }
}

/// Bytes that one parameter that is trained has of each kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PerParameter {
    pub(super) weight: f64,
    pub(super) master: f64,
    pub(super) gradient: f64,
    pub(super) moments: f64,
    /// What the optimizer makes on its way.
    pub(super) temporary: f64,
}

/// By recipe, framework and optimizer, for the model's own weights.
pub(super) fn per_parameter(setup: &TrainingSetup) -> PerParameter {
    let pure = setup.is_pure();
    let full = matches!(setup.recipe, Recipe::Fp32 | Recipe::Tf32);
    let low = match setup.recipe {
        // The weights once more in the format of the matmuls, where that is narrower.
        Recipe::Fp8 | Recipe::Fp8Block => 1.0,
        Recipe::Nvfp4 => 0.6,
        _ => 0.0,
    };
    let sharded = !matches!(setup.sharding, Sharding::None);
    let (weight, master, gradient) = match setup.framework {
        _ if pure => (2.0, 0.0, 2.0),
        _ if full => (4.0, 0.0, 4.0),
        Framework::HuggingFace if sharded => (2.0 + low, 4.0, 2.0),
        Framework::Megatron => (2.0 + low, 4.0, 4.0),
        // FP32 weights or shards of them; what is computed with is cast or gathered.
        Framework::PyTorch | Framework::HuggingFace => (low, 4.0, 4.0),
        // torchao casts to FP8 as it multiplies.
        Framework::Torchtune | Framework::Torchtitan => (0.0, 4.0, 4.0),
    };
    let state = if pure { 2.0 } else { 4.0 };
    // Recipes of torchtune and torchtitan ask for fused steps.
    let fused = matches!(
        setup.framework,
        Framework::Megatron | Framework::Torchtune | Framework::Torchtitan
    );
    PerParameter {
        weight,
        master,
        gradient,
        moments: moments(setup.optimizer, state),
        temporary: match setup.optimizer {
            Optimizer::AdamW if !fused => weight.max(master).min(4.0),
            _ => 0.0,
        },
    }
}

fn moments(optimizer: Optimizer, state: f64) -> f64 {
    match optimizer {
        Optimizer::AdamW | Optimizer::PagedAdamW => 2.0 * state,
        // Blocks of 256 elements share a scale.
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit => 2.0 * (1.0 + 4.0 / 256.0),
        // Sums of rows and columns.
        Optimizer::Adafactor => 0.01,
        Optimizer::Muon | Optimizer::Lion | Optimizer::Sgd => state,
    }
}

/// Bytes of states of one rank, by kind, before offloading.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct States {
    pub(super) weights: f64,
    pub(super) master: f64,
    pub(super) gradients: f64,
    pub(super) moments: f64,
    pub(super) temporary: f64,
    /// Adapters with everything of theirs but gradients.
    pub(super) adapters: f64,
    /// A frozen copy of the model.
    pub(super) reference: f64,
    /// What is gathered while that runs: its layers, and what stands outside of layers in both.
    pub(super) reference_gathered: f64,
    pub(super) adapter_gradients: f64,
    /// Weights gathered from other ranks.
    pub(super) gathered: f64,
    /// One matrix in the precision of compute, where the base is stored in fewer bits.
    pub(super) dequantized: f64,
}

/// Ranks that divide dense states and those of experts.
fn data_ranks(setup: &TrainingSetup) -> (f64, f64) {
    let layout = &setup.layout;
    let dense = f64::from(layout.data.max(1)) * f64::from(layout.context.max(1));
    let experts = if layout.expert > 1 {
        (dense * f64::from(layout.tensor.max(1)) / f64::from(layout.expert)).max(1.0)
    } else {
        dense
    };
    let bound = |ranks: f64| match setup.sharding {
        Sharding::Hybrid { group } => ranks.min(f64::from(group.max(1))),
        _ => ranks,
    };
    (bound(dense), bound(experts))
}

/// Divided over data ranks by kind of state: weights, gradients, master weights and moments.
fn divided(sharding: Sharding, ranks: f64) -> (f64, f64, f64) {
    match sharding {
        Sharding::None => (1.0, 1.0, 1.0),
        Sharding::Optimizer => (1.0, 1.0, ranks),
        Sharding::Gradients => (1.0, ranks, ranks),
        Sharding::Full | Sharding::Hybrid { .. } => (ranks, ranks, ranks),
    }
}

impl States {
    pub(super) fn of(
        parameters: &Parameters,
        setup: &TrainingSetup,
        adapter: Option<&Resolved>,
        architecture: &Architecture,
    ) -> Self {
        let (dense_ranks, expert_ranks) = data_ranks(setup);
        let (dense, experts) = (
            divided(setup.sharding, dense_ranks),
            divided(setup.sharding, expert_ranks),
        );
        let over = |pick: fn((f64, f64, f64)) -> f64| {
            parameters.dense / pick(dense) + parameters.experts / pick(experts)
        };
        let (weights, gradients, optimizer) = (over(|d| d.0), over(|d| d.1), over(|d| d.2));
        let e = element(setup.recipe);
        let gathers =
            matches!(setup.sharding, Sharding::Full | Sharding::Hybrid { .. }) && dense_ranks > 1.0;
        let mut out = Self::default();
        if setup.reference() == Some(Reference::Copy) {
            out.reference = frozen_copy(setup) * whole_or(parameters, setup, weights);
        }
        if let (Method::Adapter(kind), Some(resolved)) = (&setup.method, adapter) {
            let stored = base_bytes(parameters, kind.base, e);
            out.weights = weights / parameters.all().max(1.0) * stored;
            let stages = f64::from(setup.layout.pipeline.max(1));
            let own = resolved.trainable / stages;
            // Adapters and their moments are FP32 whatever the base is; torchtune's as the recipe.
            let one = if setup.framework == Framework::Torchtune {
                e
            } else {
                4.0
            };
            let each = one + moments(setup.optimizer, one);
            out.adapters = own * each / dense.2 + resolved.held(architecture, e) / stages;
            out.adapter_gradients = own * one;
            if matches!(kind.base, BaseStorage::Nf4 { .. } | BaseStorage::EightBit) {
                out.dequantized = e * parameters.matrix;
            }
        } else {
            let bytes = per_parameter(setup);
            out.weights = weights * bytes.weight;
            out.master = optimizer * bytes.master;
            out.gradients = gradients * bytes.gradient;
            out.moments = optimizer * bytes.moments;
            out.temporary = optimizer * bytes.temporary;
            if !gathers && bytes.weight < e {
                // Autocast keeps what it casts until the backward pass is over.
                out.gathered = weights * e;
            }
        }
        if gathers {
            // The layer that computes and the next one, and what stands outside of layers; in the
            // backward pass also the gradients of one layer before they are reduced.
            let units = if setup.method == Method::Full {
                3.0
            } else {
                2.0
            };
            out.gathered = e * (units * parameters.layer + parameters.outside);
            if setup.framework == Framework::Torchtitan {
                // Gradients are reduced in FP32: those of the head while the last layer computes,
                // then those of a layer.
                let head = parameters.largest_outside;
                out.gathered =
                    e * units * parameters.layer + ((e + 4.0) * head).max(4.0 * parameters.layer);
            }
        }
        if gathers && setup.reference() == Some(Reference::Copy) {
            out.reference_gathered = 2.0 * e * (parameters.layer + parameters.outside);
        }
        if setup.step_in_backward {
            let largest = parameters.matrix.max(parameters.largest_outside);
            out.gradients = out.gradients.min(e * largest);
        }
        out
    }

    pub(super) fn held(&self) -> f64 {
        self.weights + self.master + self.moments + self.adapters + self.reference
    }
}

/// Bytes of a parameter of a frozen copy: as the policy is loaded, without an FP32 copy beside it.
pub(super) fn frozen_copy(setup: &TrainingSetup) -> f64 {
    let bytes = per_parameter(setup);
    // DeepSpeed casts it with everything else; under autocast it stays in FP32.
    let cast = bytes.master > 0.0 && bytes.weight >= 2.0;
    if setup.is_pure() || cast { 2.0 } else { 4.0 }
}

/// Parameters of a copy on one rank. It is sharded where the policy's weights are, else whole:
/// `prepare_deepspeed` runs it in ZeRO-3 or without ZeRO.
/// (`huggingface/trl@35def3ee000a87f6839e66f4b7749b06274ed1b3:trl/models/utils.py`)
fn whole_or(parameters: &Parameters, setup: &TrainingSetup, sharded: f64) -> f64 {
    match setup.sharding {
        Sharding::Full | Sharding::Hybrid { .. } => sharded,
        _ => parameters.all(),
    }
}

/// Bytes of a frozen base.
fn base_bytes(parameters: &Parameters, base: BaseStorage, element: f64) -> f64 {
    let bits = |matrix_bytes: f64| {
        parameters.quantizable * matrix_bytes
            + (parameters.all() - parameters.quantizable) * element.min(2.0)
    };
    match base {
        BaseStorage::SixteenBit => 2.0 * parameters.all(),
        BaseStorage::ThirtyTwoBit => 4.0 * parameters.all(),
        // One FP32 scale a row.
        BaseStorage::EightBit => bits(1.002),
        // 4 bits and one FP32 scale for 64 weights; or an 8-bit one, with an FP32 one for 256 of them.
        BaseStorage::Nf4 { double: false } => bits(4.5 / 8.0),
        BaseStorage::Nf4 { double: true } => bits(4.127 / 8.0),
    }
}
