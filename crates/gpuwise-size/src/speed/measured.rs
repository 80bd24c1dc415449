//! Curves of measured operators for the operators of a setup, where its silicon, engine and formats
//! were measured.

use super::{
    step::Batch,
    work::{AttentionKernel, ExpertWork, LayerWork, Matmul, MixerWork, StepShape},
};
use crate::{constants::Constants, setup::Setup};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use gpuwise_domain::precision::{Compute, WeightFormat};
use gpuwise_operators::{
    Context, Curve, ExpertLoad, Experts, GemmFormat, Generation, KvFormat, MoeFormat, On,
    Operators, Silicon,
};
use once_cell::race::OnceBox;

/// Curves in the order of a shape's layers and of their matmuls.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) layers: Vec<LayerCurves>,
    pub(super) head: Option<Arc<Curve>>,
}

#[derive(Debug)]
pub(super) struct LayerCurves {
    pub(super) matmuls: Vec<Option<Arc<Curve>>>,
    pub(super) experts: Option<Arc<Curve>>,
    pub(super) generation: Option<Arc<Generation>>,
    pub(super) context: Option<Arc<Context>>,
}

impl LayerCurves {
    /// Seconds of one new token for each sequence that decodes.
    pub(super) fn generation(&self, batch: &Batch) -> Option<f64> {
        let curve = self.generation.as_deref()?;
        Some(curve.at(batch.decodes, batch.context.max(1.0)))
    }

    /// Seconds of the prompt tokens: those of one prompt after what was cached before, or of as many
    /// whole prompts as have their mean context.
    pub(super) fn context(&self, batch: &Batch) -> Option<f64> {
        let curve = self.context.as_deref()?;
        let (tokens, mean) = (batch.prefill, batch.prefill_context.max(1.0));
        let whole = 2.0 * mean;
        Some(if whole >= tokens {
            curve.at(1.0, tokens, mean - tokens / 2.0)
        } else {
            curve.at(tokens / whole, whole, 0.0)
        })
    }
}

/// How tokens choose experts: each alike, by chance. Of the laws that were timed, engines' measured
/// steps are nearest to it: models are trained towards even loads, and benchmarks ask them all kinds of
/// things.
const LOAD: ExpertLoad = ExpertLoad::Random;

impl Measured {
    fn new(setup: &Setup<'_>, shape: &StepShape, operators: &Operators) -> Self {
        let silicon = Arc::new(Silicon::of(&setup.device));
        let on = On {
            silicon: &silicon,
            engine: setup.engine.kind,
        };
        let layer = |layer: &LayerWork| {
            let (generation, context) = attention(operators, &on, setup, &layer.mixer);
            LayerCurves {
                generation,
                context,
                matmuls: layer
                    .matmuls
                    .iter()
                    .map(|matmul| gemm(operators, &on, matmul))
                    .collect(),
                experts: layer
                    .experts
                    .as_ref()
                    .and_then(|experts| moe(operators, &on, setup, experts)),
            }
        };
        Self {
            layers: shape.layers.iter().map(layer).collect(),
            head: shape
                .head
                .as_ref()
                .and_then(|head| gemm(operators, &on, head)),
        }
    }
}

fn gemm(operators: &Operators, on: &On<'_>, matmul: &Matmul) -> Option<Arc<Curve>> {
    let format = gemm_format(matmul.format, matmul.compute)?;
    // Where tensors of several widths are multiplied together, one of as many elements.
    let columns = matmul.flop / 2.0 / matmul.rows;
    operators.gemm(on, format, matmul.rows, columns)
}

/// The kernels that multiply by weights stored so.
fn gemm_format(format: WeightFormat, compute: Compute) -> Option<GemmFormat> {
    match (format.name, compute) {
        ("bf16" | "fp16", Compute::Half) => Some(GemmFormat::Bf16),
        ("fp8", Compute::Fp8) => Some(GemmFormat::Fp8),
        ("fp8-block", Compute::Fp8) => Some(GemmFormat::Fp8Block),
        ("nvfp4", Compute::Fp4) => Some(GemmFormat::Nvfp4),
        ("int8", Compute::Int8) => Some(GemmFormat::Int8),
        ("int8-w8a16", Compute::Half) => Some(GemmFormat::Int8W8a16),
        ("int4" | "int4-zp", Compute::Half) => Some(GemmFormat::Int4Weights),
        _ => None,
    }
}

fn moe(
    operators: &Operators,
    on: &On<'_>,
    setup: &Setup<'_>,
    experts: &ExpertWork,
) -> Option<Arc<Curve>> {
    let format = moe_format(experts.format, experts.compute)?;
    let layer = Experts {
        hidden: experts.input,
        inter: experts.width,
        topk: experts.chosen,
        experts: experts.count,
        tensor_parallel: f64::from(setup.layout.expert_tensor()),
        expert_parallel: f64::from(setup.layout.expert.max(1)),
        gated: experts.gated,
    };
    let stored = operators.moe(on, format, &layer, LOAD);
    if format != MoeFormat::Fp8 {
        return stored;
    }
    // One scale for a tensor is a case of one for each block: kernels of the latter can run it, and
    // servers do where those of the former were timed without a tuned configuration.
    let blocks = operators.moe(on, MoeFormat::Fp8Block, &layer, LOAD);
    match (stored, blocks) {
        (Some(stored), Some(blocks)) => Some(if blocks.at(TUNED_AT) < stored.at(TUNED_AT) {
            blocks
        } else {
            stored
        }),
        (stored, blocks) => stored.or(blocks),
    }
}

/// Tokens of a step at which kernels of experts are compared: a batch that decodes.
const TUNED_AT: f64 = 64.0;

/// The kernels that multiply by experts stored so.
fn moe_format(format: WeightFormat, compute: Compute) -> Option<MoeFormat> {
    match (format.name, compute) {
        ("bf16" | "fp16", Compute::Half) => Some(MoeFormat::Bf16),
        ("fp8", Compute::Fp8) => Some(MoeFormat::Fp8),
        ("fp8-block", Compute::Fp8) => Some(MoeFormat::Fp8Block),
        ("nvfp4", Compute::Fp4) => Some(MoeFormat::Nvfp4),
        ("int4" | "int4-zp" | "int4-g32", Compute::Half) => Some(MoeFormat::Int4Weights),
        ("int4" | "int4-zp" | "int4-g32", Compute::Fp8) => Some(MoeFormat::Int4Fp8),
        ("mxfp4", Compute::Half) => Some(MoeFormat::Mxfp4Weights),
        ("mxfp4", Compute::Fp8) => Some(MoeFormat::Mxfp4Mxfp8),
        _ => None,
    }
}

fn attention(
    operators: &Operators,
    on: &On<'_>,
    setup: &Setup<'_>,
    mixer: &MixerWork,
) -> (Option<Arc<Generation>>, Option<Arc<Context>>) {
    let cache = match setup.cache.name {
        "bf16" => KvFormat::Bf16,
        "fp8" => KvFormat::Fp8,
        _ => return (None, None),
    };
    let MixerWork::Attention { kernel, .. } = mixer else {
        return (None, None);
    };
    match kernel {
        Some(AttentionKernel::Heads(heads)) => (
            operators.generation(on, cache, heads),
            // Queries and keys of the prompt itself come in 16 bits.
            operators.context(on, KvFormat::Bf16, cache, heads),
        ),
        Some(AttentionKernel::Latent(heads)) => (
            operators.latent_generation(on, cache, *heads),
            operators.latent_context(on, cache, *heads),
        ),
        None => (None, None),
    }
}

/// Curves that a shape keeps, with the operators that they were read off.
#[derive(Debug, Default)]
pub(super) struct CurveCache(OnceBox<(Arc<Operators>, Arc<Measured>)>);

impl Clone for CurveCache {
    fn clone(&self) -> Self {
        let copy = OnceBox::new();
        if let Some((operators, measured)) = self.0.get() {
            let _ = copy.set(Box::new((Arc::clone(operators), Arc::clone(measured))));
        }
        Self(copy)
    }
}

impl StepShape {
    /// The curves of a setup's operators under these constants; `None` where they carry no measured
    /// operators.
    pub(super) fn measured(
        &self,
        setup: &Setup<'_>,
        constants: &Constants,
    ) -> Option<Arc<Measured>> {
        let operators = constants.operators.as_ref()?;
        let make = || Arc::new(Measured::new(setup, self, operators));
        let (of, kept) = self
            .kept
            .0
            .get_or_init(|| Box::new((Arc::clone(operators), make())));
        // Those of other operators are not kept: what is answered depends on what is asked alone.
        Some(if Arc::ptr_eq(of, operators) {
            Arc::clone(kept)
        } else {
            make()
        })
    }
}
