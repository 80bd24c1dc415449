//! From work to seconds.

use super::{
    constants::{TrainingConstants, TrainingParameter as P},
    system::TrainingSystem,
    work::StepWork,
};
use alloc::vec::Vec;
use gpuwise_domain::training::{Recipe, Sharding, StepCause, TrainingSetup};

/// Share of memory bandwidth that streaming kernels reach.
pub const STREAM: f64 = 0.85;

/// Seconds of one step by cause; they sum to the step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepParts {
    /// Seconds by cause.
    pub parts: Vec<(StepCause, f64)>,
}

impl StepParts {
    /// Seconds of the step.
    pub fn total(&self) -> f64 {
        self.parts.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Makes every part longer by a factor.
    pub fn scale(&mut self, factor: f64) {
        for (_, seconds) in &mut self.parts {
            *seconds *= factor;
        }
    }
}

/// Seconds of one micro-batch on the mean stage.
struct Micro {
    matmul: f64,
    head: f64,
    attention: f64,
    elements: f64,
    loss: f64,
    experts: f64,
    copies: f64,
    dispatch: f64,
    launch: f64,
    tensor: f64,
    sends: f64,
    exchange: f64,
    again: f64,
    /// All of a forward pass, weights that are gathered for it apart.
    forward: f64,
}

impl Micro {
    /// What every layer has, recomputation apart.
    fn layers(&self) -> f64 {
        self.matmul + self.attention + self.elements + self.experts + self.copies + self.dispatch
    }

    fn total(&self) -> f64 {
        self.layers()
            + self.head
            + self.loss
            + self.launch
            + self.tensor
            + self.sends
            + self.exchange
            + self.again
    }
}

/// Matmul operations a second of a recipe in a run.
fn rate(setup: &TrainingSetup, system: &TrainingSystem, constants: &TrainingConstants) -> f64 {
    let half = system.half * constants.get(P::HalfMatmul);
    let eight = system
        .fp8
        .map_or(half, |rate| rate * constants.get(P::Fp8Matmul));
    match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => system.full * constants.get(P::HalfMatmul),
        Recipe::PureBf16 | Recipe::MixedBf16 | Recipe::Fp16 => half,
        Recipe::Fp8 => eight,
        Recipe::Fp8Block => eight * constants.get(P::BlockMatmul),
        Recipe::Nvfp4 => system
            .fp4_peak
            .map_or(eight, |peak| peak * constants.get(P::Fp4Matmul)),
    }
}

fn micro(
    work: &StepWork,
    setup: &TrainingSetup,
    system: &TrainingSystem,
    constants: &TrainingConstants,
) -> Micro {
    let get = |parameter| constants.get(parameter);
    let layout = &setup.layout;
    let [tensor, pipeline, context] =
        [layout.tensor, layout.pipeline, layout.context].map(|ranks| f64::from(ranks.max(1)));
    let matmul_rate = rate(setup, system, constants);
    let half = match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => matmul_rate,
        _ => system.half * get(P::HalfMatmul),
    };
    let memory = system.memory * STREAM;
    let matmul = work.matmul / matmul_rate * (1.0 + get(P::NarrowWidth) / work.width.max(1.0));
    // No kernel attends in FP32 at the rate of 16 bits.
    let wide = match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => (system.full / system.half.max(1.0)).min(1.0),
        _ => 1.0,
    };
    let attention =
        work.attention / (system.attention_rate(setup.framework) * wide * get(P::Attention));
    let elements = work.elements * get(P::Passes) / memory;
    let written_out = work.dequantized / memory;
    let experts = (work.expert + work.expert_by_width * get(P::NarrowExpert))
        / (matmul_rate * get(P::ExpertMatmul));
    let copies = (work.copies * get(P::ExpertPasses)
        + work.cast * get(P::ExpertCast)
        + work.biased * get(P::BiasedExpertPasses))
        / memory;
    let dispatch = work.dispatch_near / (system.scale_up * get(P::DispatchLink))
        + work.dispatch_far / (system.network * get(P::DispatchNetwork));
    let captured = if system.captured {
        get(P::RackLaunch)
    } else {
        1.0
    };
    let launch = 1e-6
        * (work.layers * get(P::LayerLaunch)
            + work.expert_layers * get(P::ExpertLaunch) * captured);
    let exchange = work.exchange / (system.link(tensor * context) * get(P::ContextLink));
    // The ring exchanges while it attends.
    let exchange = (exchange - attention).max(0.0) + 0.1 * exchange;
    let again = &work.again;
    let (head, loss) = (work.head / half, work.loss / memory);
    let once = &work.forward;
    Micro {
        forward: once.weights * (matmul + experts + written_out + head)
            + once.attention * attention
            + once.rest * (elements + copies + dispatch + launch + loss),
        matmul,
        head,
        attention,
        elements: elements + written_out,
        loss,
        experts,
        copies,
        dispatch,
        launch,
        tensor: work.tensor / (system.link(tensor) * get(P::TensorLink)),
        sends: work.sends / (system.link(tensor * context * pipeline) * get(P::PipelineLink)),
        exchange,
        again: again.weights * (matmul + experts + written_out)
            + again.attention * attention
            + again.rest * (elements + copies + dispatch + launch),
    }
}

/// Seconds of one forward pass over all sequences of a step, with the weights gathered for it.
pub(super) fn forward_seconds(
    work: &StepWork,
    setup: &TrainingSetup,
    system: &TrainingSystem,
    constants: &TrainingConstants,
) -> f64 {
    let busy = micro(work, setup, system, constants).forward;
    let link = system.shared_link(work.gpus, 1.0) * constants.get(P::GatherLink);
    let gather = work.forward_gathers / link;
    let offload = work.forward_offloaded / (system.host * STREAM);
    work.micro_batches * (busy + exposed(busy, gather, constants) + offload)
}

/// Seconds of a gather that computing does not hide.
fn exposed(busy: f64, gather: f64, constants: &TrainingConstants) -> f64 {
    if gather <= 0.0 {
        return 0.0;
    }
    let cubes = busy * busy * busy + gather * gather * gather;
    libm::cbrt(cubes) - busy + constants.get(P::GatherExposed) * busy.min(gather)
}

/// Seconds that no step of this work falls below: its operations at what large matmuls reach alone,
/// at the peak where none were timed on this GPU.
pub(super) fn least_seconds(
    work: &StepWork,
    setup: &TrainingSetup,
    system: &TrainingSystem,
    peak: Option<f64>,
    half_peak: f64,
) -> f64 {
    let half = if system.timed { system.half } else { half_peak };
    let alone = match setup.recipe {
        Recipe::Fp8 | Recipe::Fp8Block if system.timed => system.fp8,
        Recipe::PureBf16 | Recipe::MixedBf16 | Recipe::Fp16 if system.timed => Some(system.half),
        _ => peak,
    };
    let again = &work.again;
    let narrow = (1.0 + again.weights) * (work.matmul + work.expert);
    let wide = work.head + (1.0 + again.attention) * work.attention;
    let fast = alone.unwrap_or(half).max(1.0);
    // Attention and head stay in 16 bits, or in what all else is computed in where that is wider.
    let slow = match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => fast,
        _ => half.max(1.0),
    };
    work.micro_batches * (narrow / fast + wide / slow)
}

/// Seconds of a step by cause under some constants.
pub fn step_parts(
    work: &StepWork,
    setup: &TrainingSetup,
    system: &TrainingSystem,
    constants: &TrainingConstants,
) -> StepParts {
    let get = |parameter| constants.get(parameter);
    let micro = micro(work, setup, system, constants);
    let stages = f64::from(setup.layout.pipeline.max(1));
    // The fullest stage beyond the mean.
    let head = micro.head + micro.loss;
    let fullest = if work.head_on_fullest {
        head * (stages - 1.0)
    } else {
        let layers = micro.layers() * (work.fullest_layers - 1.0);
        // A stage with the head has one layer less than the fullest.
        let last = layers - micro.layers() / work.layers.max(1.0) + head * stages;
        layers.max(last) - if stages > 1.0 { head } else { 0.0 }
    };
    let fullest = if stages > 1.0 { fullest.max(0.0) } else { 0.0 };
    let busy = micro.total() + fullest;
    let all = work.micro_batches;
    let waiting = get(P::Bubble) * work.bubble * busy;
    let group = work.gpus / stages;
    let inner = f64::from(setup.layout.tensor.max(1)) * f64::from(setup.layout.context.max(1));
    let link = match setup.sharding {
        Sharding::Hybrid { group } => system.shared_link(f64::from(group) * inner, inner),
        _ => system.shared_link(group, inner),
    } * get(P::GatherLink);
    let gather = work.gathers / link;
    let gathers = exposed(busy, gather, constants);
    let between = system.shared_link(group, inner) * get(P::GatherLink);
    let data = all * gathers + get(P::GatherExposed) * work.reductions / between;
    let memory = system.memory * get(P::OptimizerRate);
    let offload = work.offloaded / (system.host * STREAM);
    let parts = [
        (StepCause::Matmul, all * (micro.matmul + micro.experts)),
        (StepCause::Attention, all * micro.attention),
        (
            StepCause::Elementwise,
            all * (micro.elements + micro.copies),
        ),
        (StepCause::Loss, all * head),
        (StepCause::Recompute, all * micro.again),
        (StepCause::Launch, all * micro.launch),
        (StepCause::TensorParallel, all * micro.tensor),
        (StepCause::Pipeline, all * (micro.sends + fullest + waiting)),
        (StepCause::ContextParallel, all * micro.exchange),
        (StepCause::ExpertParallel, all * micro.dispatch),
        (StepCause::DataParallel, data),
        (StepCause::Optimizer, work.optimizer / memory),
        (StepCause::Offload, offload),
    ];
    StepParts {
        parts: parts.into_iter().filter(|(_, t)| *t > 0.0).collect(),
    }
}
