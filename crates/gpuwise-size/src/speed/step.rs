//! A step by its operators' times.

use super::{
    collective::Links,
    local::Local,
    measured::{LayerCurves, Measured},
    rates::{Rates, computed_rows, prefill_visible},
    roofline::Peaks,
    work::{ExpertWork, LayerWork, Matmul, MixerWork, StepShape},
};
use crate::{constants::Constants, setup::Setup};
use alloc::sync::Arc;
use gpuwise_domain::{engine::EngineKind, layout::Layout};
use gpuwise_operators::Curve;

/// The work of one step on one attention group (all of a replica without attention DP).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Batch {
    /// Sequences that decode one token.
    pub decodes: f64,
    /// Their mean context in tokens.
    pub context: f64,
    /// Prompt tokens computed.
    pub prefill: f64,
    /// Mean context that a prompt token attends to.
    pub prefill_context: f64,
    /// Prompts that end in this step, so that a token is sampled for them.
    pub finished: f64,
    /// What the other attention groups of the replica compute meanwhile, whose tokens meet this
    /// group's at the experts.
    pub peers: Peers,
}

/// The other attention groups of a replica during a step (attention DP).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Peers {
    /// Each computes as many tokens as this one.
    #[default]
    Alike,
    /// All groups together, this one included, compute so many tokens.
    Tokens(f64),
}

impl Peers {
    fn divided(self, parts: f64) -> Self {
        match self {
            Self::Alike => Self::Alike,
            Self::Tokens(tokens) => Self::Tokens(tokens / parts),
        }
    }
}

impl Batch {
    /// One of `parts` equal parts that pass through pipeline stages one after the other.
    ///
    /// A prompt is not torn apart: one that ends in this step passes all stages with all its tokens,
    /// several are shared out, and the chunks of a longer one, of no more than `chunk` tokens, follow
    /// each other a stage behind.
    pub(super) fn divided(&self, parts: f64, chunk: f64) -> Self {
        let whole = if self.finished <= 1.0 {
            parts / (1.0 + (parts - 1.0) * self.finished)
        } else {
            self.finished.min(parts)
        };
        let prompts = whole.max(self.prefill / chunk).min(parts).max(1.0);
        Self {
            decodes: self.decodes / parts,
            prefill: self.prefill / prompts,
            finished: self.finished / prompts,
            peers: self.peers.divided(parts),
            ..*self
        }
    }

    /// Tokens that meet at the experts of a replica of so many attention groups.
    pub(super) fn at_experts(&self, groups: f64) -> f64 {
        let own = self.decodes + self.prefill;
        match self.peers {
            Peers::Alike => own * groups,
            Peers::Tokens(tokens) => tokens.max(own),
        }
    }
}

/// Seconds of a step by cause, on the slowest rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTime {
    /// Matmuls of attention, dense feed-forwards and head.
    pub dense: f64,
    /// Grouped matmuls of experts.
    pub experts: f64,
    /// Attention over the cache, and recurrent mixers.
    pub attention: f64,
    /// Collectives.
    pub communication: f64,
    /// Small kernels, launches and the host.
    pub overhead: f64,
}

impl StepTime {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.dense + self.experts + self.attention + self.communication + self.overhead
    }

    fn add(&mut self, other: Self, times: f64) {
        self.dense += other.dense * times;
        self.experts += other.experts * times;
        self.attention += other.attention * times;
        self.communication += other.communication * times;
        self.overhead += other.overhead * times;
    }
}

/// Evaluates step times of one setup.
#[derive(Debug, Clone)]
pub struct StepModel {
    pub(super) shape: Arc<StepShape>,
    /// Curves of its operators that were measured.
    measured: Option<Arc<Measured>>,
    rates: Rates,
    pub(super) peaks: Peaks,
    links: Links,
    pub(super) layout: Layout,
    hidden: f64,
    units: f64,
    /// Prompt tokens that engines pass to the first stage at once.
    pub(super) chunk: f64,
    eager: bool,
    /// Steps of llama.cpp, which are made otherwise.
    local: Option<Local>,
}

impl StepModel {
    /// A setup's operators with the constants of its generation and engine profile.
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let kind = setup.engine.kind;
        let place = constants.place_in(&setup.silicon(), &setup.profile, &shape.joint);
        let rates = Rates::new(setup, constants, place);
        let layout = setup.layout;
        let measured = shape.measured(setup, constants);
        Self {
            shape,
            measured,
            rates,
            peaks: Peaks::new(setup),
            links: Links::new(setup, constants, place),
            layout,
            hidden: setup.architecture.hidden as f64,
            units: f64::from(setup.device.units().unwrap_or(100)),
            chunk: setup.settings.batched_tokens.max(1) as f64,
            eager: setup.settings.eager,
            local: (kind == EngineKind::LlamaCpp).then(|| Local::new(setup, constants, place)),
        }
    }

    /// Seconds of a step; pipeline stages follow each other with their share of the batch.
    pub fn time(&self, batch: &Batch) -> StepTime {
        if let Some(local) = &self.local {
            return local.time(batch);
        }
        self.in_parts(batch, self.parts())
    }

    /// Seconds for `chunks` equal chunks of prompts to pass through all stages: the first passes
    /// them one by one, the others follow it a stage behind. Never faster than the device's peaks.
    pub fn through(&self, batch: &Batch, chunks: f64) -> f64 {
        let roofline = self.roofline_in_parts(batch, 1.0);
        let piped = |one: f64| one * (chunks + self.stages() - 1.0) / self.stages();
        if let Some(local) = &self.local {
            return local.through(batch, chunks).max(piped(roofline));
        }
        let fitted = self.in_parts(batch, 1.0).total() * self.prefill_factor();
        piped(fitted.max(roofline))
    }

    /// Engines that keep all stages busy work on a part of the batch in each; llama.cpp passes the
    /// whole batch from stage to stage.
    pub(crate) fn parts(&self) -> f64 {
        if self.local.is_none() {
            self.stages()
        } else {
            1.0
        }
    }

    /// Groups that compute attention for requests of their own.
    pub fn attention_groups(&self) -> u32 {
        self.layout.attention_data.max(1)
    }

    fn stages(&self) -> f64 {
        f64::from(self.layout.pipeline.max(1))
    }

    fn in_parts(&self, batch: &Batch, parts: f64) -> StepTime {
        let stages = self.stages();
        let part = batch.divided(parts, self.chunk);
        let tokens = part.decodes + part.prefill;
        if tokens <= 0.0 {
            return StepTime::default();
        }
        let decode_share = part.decodes / tokens;
        let era =
            self.rates.era_decode * decode_share + self.rates.era_prefill * (1.0 - decode_share);
        let mut total = StepTime::default();
        let measured = self.measured.as_deref();
        for (at, layer) in self.shape.layers.iter().enumerate() {
            let curves = measured.and_then(|measured| measured.layers.get(at));
            total.add(self.layer(layer, curves, &part, era), layer.count);
        }
        if let Some(head) = &self.shape.head {
            let curve = measured.and_then(|measured| measured.head.as_deref());
            total.dense += self.matmul(head, curve, part.decodes + part.finished, era);
        }
        total.communication += self.links.hop(tokens * self.hidden * 2.0) * (stages - 1.0);
        total.overhead += self.rates.step_base + self.rates.step_sequence * batch.decodes;
        total
    }

    /// A layer's times, each operator's with the profile's factor and never below what silicon takes.
    fn layer(
        &self,
        layer: &LayerWork,
        curves: Option<&LayerCurves>,
        batch: &Batch,
        era: f64,
    ) -> StepTime {
        let tokens = batch.decodes + batch.prefill;
        let mut time = StepTime::default();
        // Kernels whose time is that of their start, and others that the host starts.
        let (mut kernels, mut timed) = (layer.kernels, 0.0);
        let mut blocks = 0.0;
        for (at, matmul) in layer.matmuls.iter().enumerate() {
            let curve = curves.and_then(|curves| curves.matmuls.get(at)?.as_deref());
            time.dense += self.matmul(matmul, curve, tokens, era);
            if curve.is_some() {
                timed += 1.0;
            } else {
                kernels += 1.0;
                blocks += f64::from(u8::from(matmul.blocks));
            }
        }
        let least = self.least_mixer(&layer.mixer, batch).seconds();
        let (seconds, measured) = self.mixer(&layer.mixer, curves, batch);
        time.attention = (seconds * era).max(least);
        if measured {
            kernels -= 1.0;
            timed += 1.0;
        }
        if matches!(layer.mixer, MixerWork::Attention { latent: true, .. }) {
            kernels += self.rates.latent_kernels;
        }
        if let Some(experts) = &layer.experts {
            let least = self.least_experts(experts, batch).seconds();
            let curve = curves.and_then(|curves| curves.experts.as_deref());
            let seconds = if let Some(curve) = curve {
                timed += self.rates.expert_kernels;
                let all = batch.at_experts(f64::from(self.attention_groups()));
                curve.at(all) * self.rates.run_experts
            } else {
                kernels += self.rates.expert_kernels;
                self.experts(experts, batch)
            };
            time.experts = (seconds * era).max(least);
            time.communication += self.links.experts(tokens, experts.input, experts.chosen) * era;
        }
        time.communication +=
            layer.reductions * self.links.all_reduce(tokens * self.hidden * 2.0) * era;
        let small = kernels * self.rates.kernel + blocks * self.rates.block_matmul;
        let stream = tokens * self.hidden * self.rates.stream;
        time.overhead = (small + stream) * era;
        if self.eager || batch.prefill > 0.0 {
            // Outside of graphs the host launches kernels one by one; only what the device does
            // not hide remains.
            let busy = time.total();
            let launched = (kernels + timed) * self.rates.launch;
            time.overhead += (launched * era - busy).max(0.0);
        }
        time
    }

    fn matmul(&self, matmul: &Matmul, curve: Option<&Curve>, tokens: f64, era: f64) -> f64 {
        // A kernel over no rows is not launched: the head of a chunk that ends no prompt.
        if tokens <= 0.0 {
            return 0.0;
        }
        let rates = &self.rates;
        let least = self.least_matmul(matmul, tokens).seconds();
        if let Some(curve) = curve {
            return (curve.at(tokens) * rates.run_matmul * era).max(least);
        }
        let (memory, compute) = if matmul.weight_only {
            (
                rates.memory * rates.weight_only_memory,
                rates.compute(matmul.compute) * rates.weight_only_compute,
            )
        } else {
            (rates.memory, rates.compute(matmul.compute))
        };
        let reading = matmul.bytes / memory;
        let rows = computed_rows(tokens, matmul.rows, self.units, rates.tile_exponent);
        let computing = matmul.flop * rows / compute;
        (rates.smooth_max(reading, computing) * era).max(least)
    }

    /// Seconds of a mixer, and whether they are measured ones.
    fn mixer(&self, mixer: &MixerWork, curves: Option<&LayerCurves>, batch: &Batch) -> (f64, bool) {
        let rates = &self.rates;
        match *mixer {
            MixerWork::None => (0.0, false),
            MixerWork::Attention {
                bytes,
                decode_flop,
                prefill_flop,
                window,
                latent,
                top,
                ..
            } => {
                let limit = |context: f64| if top > 0.0 { context.min(top) } else { context };
                let measured = curves
                    .filter(|_| batch.decodes > 0.0)
                    .and_then(|curves| curves.generation(batch));
                let decode = measured.map_or_else(
                    || {
                        let seen = limit(window.visible(batch.context));
                        let reading = batch.decodes * seen * bytes / rates.cache;
                        let rate = if latent {
                            rates.latent
                        } else {
                            rates.attention
                        };
                        let computing = batch.decodes * seen * decode_flop / rate;
                        rates.smooth_max(reading, computing)
                    },
                    |seconds| seconds * rates.run_generation,
                );
                let over_prompts = curves
                    .filter(|_| batch.prefill > 0.0)
                    .and_then(|curves| curves.context(batch));
                let prefill = over_prompts.map_or_else(
                    || {
                        let seen = limit(prefill_visible(window, batch.prefill_context));
                        batch.prefill * seen * prefill_flop / rates.attention
                    },
                    |seconds| seconds * rates.run_context,
                );
                (
                    decode + prefill,
                    measured.is_some() || over_prompts.is_some(),
                )
            }
            MixerWork::Recurrent { bytes, flop } => (
                batch.decodes * bytes / rates.cache + batch.prefill * flop / rates.attention,
                false,
            ),
        }
    }

    fn experts(&self, experts: &ExpertWork, batch: &Batch) -> f64 {
        let rates = &self.rates;
        let groups = f64::from(self.layout.expert.max(1));
        let within = f64::from(self.layout.expert_tensor());
        let all = batch.at_experts(f64::from(self.attention_groups()));
        let chosen_share = experts.chosen / experts.count;
        // Tokens choose alike: each further one counts as a part of an independent choice.
        let choices = 1.0 + rates.expert_skew * (all - 1.0).max(0.0);
        let touched = 1.0 - libm::pow(1.0 - chosen_share, choices);
        let imbalance = if groups > 1.0 {
            rates.expert_imbalance
        } else {
            1.0
        };
        let local = experts.count * touched / groups;
        let mut memory_factor = if experts.four_bit {
            rates.expert_four_bit
        } else {
            1.0
        };
        if experts.weight_only {
            memory_factor *= rates.expert_weight_only;
        }
        let compute_factor = if experts.weight_only {
            rates.weight_only_compute
        } else {
            1.0
        };
        let rate = rates.expert_memory * memory_factor;
        let reading = local * experts.bytes / within / rate
            * if groups > 1.0 {
                libm::pow(imbalance, 0.5)
            } else {
                1.0
            };
        let per_expert = all * experts.chosen / (experts.count * touched);
        let rows = libm::hypot(per_expert, rates.expert_tile);
        let computing = local * rows * experts.flop / within * imbalance
            / (rates.compute(experts.compute) * compute_factor * rates.expert_compute);
        rates.smooth_max(reading, computing)
    }

    /// Seconds of the host for each sequence of a step.
    pub fn sequence_seconds(&self) -> f64 {
        self.rates.step_sequence
    }

    /// Factor on prefill for what its parts do not show.
    pub fn prefill_factor(&self) -> f64 {
        self.rates.prefill_factor
    }
}
