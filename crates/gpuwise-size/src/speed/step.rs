use super::collective::Links;
use crate::{
    constants::{Constants, Parameter as P, Place},
    micro,
    setup::Setup,
    shard::{piece_share, shard},
};
use alloc::{sync::Arc, vec::Vec};
use gpuwise_domain::{
    engine::EngineKind,
    layout::Layout,
    model::{FeedForward, LayerRun, Mixer, Role, Tensor, Window},
    precision::Compute,
};

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

/// A matmul on one rank.
#[derive(Debug, Clone, Copy)]
struct Matmul {
    /// Bytes of its weights.
    bytes: f64,
    /// Operations per token.
    flop: f64,
    rows: f64,
    compute: Compute,
    weight_only: bool,
}

/// The operators of one layer on one rank.
#[derive(Debug, Clone)]
struct LayerWork {
    count: f64,
    matmuls: Vec<Matmul>,
    mixer: MixerWork,
    experts: Option<ExpertWork>,
    /// Kernels beyond matmuls.
    kernels: f64,
    /// All-reduces after it over the tensor group.
    reductions: f64,
}

#[derive(Debug, Clone, Copy)]
enum MixerWork {
    None,
    /// Bytes of cache per context token, operations per query and context token when decoding and
    /// in prefill, and what is seen.
    Attention {
        bytes: f64,
        decode_flop: f64,
        prefill_flop: f64,
        window: Window,
        latent: bool,
        /// At most this much context is read (0: all).
        top: f64,
    },
    /// Bytes of state read and written per sequence, operations per prompt token.
    Recurrent {
        bytes: f64,
        flop: f64,
    },
}

#[derive(Debug, Clone, Copy)]
struct ExpertWork {
    /// Experts in all.
    count: f64,
    chosen: f64,
    /// Bytes of one expert, whole.
    bytes: f64,
    /// Operations per token and expert.
    flop: f64,
    compute: Compute,
    weight_only: bool,
    four_bit: bool,
    input: f64,
}

/// The operators of a setup: what follows from its shapes alone, whatever the constants are.
#[derive(Debug, Clone)]
pub struct StepShape {
    layers: Vec<LayerWork>,
    head: Option<Matmul>,
}

impl StepShape {
    /// The operators of a setup.
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            layers: setup
                .architecture
                .layers
                .iter()
                .map(|run| layer_work(run, setup))
                .collect(),
            head: head_work(setup),
        }
    }
}

/// Evaluates step times of one setup.
#[derive(Debug, Clone)]
pub struct StepModel {
    shape: Arc<StepShape>,
    rates: Rates,
    links: Links,
    layout: Layout,
    hidden: f64,
    units: f64,
    eager: bool,
    stages_overlap: bool,
}

/// Constants at this place, in SI units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    memory: f64,
    cache: f64,
    half: f64,
    fp8: f64,
    fp4: f64,
    full: f64,
    attention: f64,
    latent: f64,
    expert_memory: f64,
    expert_compute: f64,
    expert_tile: f64,
    expert_imbalance: f64,
    expert_skew: f64,
    expert_four_bit: f64,
    expert_weight_only: f64,
    expert_kernels: f64,
    latent_kernels: f64,
    weight_only_memory: f64,
    weight_only_compute: f64,
    overlap: f64,
    tile_exponent: f64,
    kernel: f64,
    stream: f64,
    launch: f64,
    step_base: f64,
    step_sequence: f64,
    prefill_factor: f64,
    era_decode: f64,
    era_prefill: f64,
}

impl Rates {
    fn new(setup: &Setup<'_>, constants: &Constants, place: Place) -> Self {
        let get = |parameter| constants.get(parameter, place);
        let device = &setup.device;
        let bandwidth = device.bandwidth().get();
        let peak = |compute| {
            device
                .peak(compute)
                .map_or(f64::NAN, gpuwise_units::FlopPerSecond::get)
        };
        let half = device
            .peak(Compute::Half)
            .or(device.peak(Compute::Full))
            .map_or(1e12, gpuwise_units::FlopPerSecond::get);
        // llama.cpp adds up in 16 bits, at which parts that halve 32-bit sums run at full rate: half
        // of what they do in 8-bit integers.
        let half = match (setup.engine.kind, device.peak(Compute::Int8)) {
            (EngineKind::LlamaCpp, Some(integers)) => half.max(integers.get() / 2.0),
            _ => half,
        };
        let or_half = |rate: f64| if rate.is_finite() { rate } else { half };
        let integers_or_fp8 = device.peak(Compute::Fp8).or(device.peak(Compute::Int8));
        Self {
            memory: bandwidth * get(P::MemoryRate),
            cache: bandwidth * get(P::CacheRate),
            half: half * get(P::HalfRate),
            fp8: integers_or_fp8.map_or(half, gpuwise_units::FlopPerSecond::get) * get(P::Fp8Rate),
            fp4: or_half(peak(Compute::Fp4)) * get(P::Fp4Rate),
            full: or_half(peak(Compute::Full)) * get(P::HalfRate),
            attention: half * get(P::AttentionRate),
            latent: half * get(P::LatentRate),
            expert_memory: bandwidth * get(P::ExpertMemoryRate),
            expert_compute: get(P::ExpertComputeRate),
            expert_tile: get(P::ExpertTile),
            expert_imbalance: get(P::ExpertImbalance),
            expert_skew: get(P::ExpertSkew).min(1.0),
            expert_four_bit: get(P::ExpertFourBit),
            expert_weight_only: get(P::ExpertWeightOnly),
            expert_kernels: get(P::ExpertKernels),
            latent_kernels: get(P::LatentKernels),
            weight_only_memory: get(P::WeightOnlyRate),
            weight_only_compute: get(P::WeightOnlyCompute),
            overlap: get(P::Overlap),
            tile_exponent: get(P::TileExponent),
            kernel: get(P::Kernel) * 1e-6,
            stream: get(P::Stream) * 2.0 / bandwidth,
            launch: get(P::Launch) * 1e-6,
            step_base: get(P::StepBase) * 1e-6,
            step_sequence: get(P::StepSequence) * 1e-6,
            prefill_factor: get(P::PrefillFactor),
            era_decode: get(P::EraDecode),
            era_prefill: get(P::EraPrefill),
        }
    }

    fn compute(&self, compute: Compute) -> f64 {
        match compute {
            Compute::Full => self.full,
            Compute::Half => self.half,
            Compute::Fp8 | Compute::Int8 => self.fp8,
            Compute::Fp4 => self.fp4,
        }
    }

    fn smooth_max(&self, a: f64, b: f64) -> f64 {
        smooth_max(a, b, self.overlap)
    }
}

/// `(a^p + b^p)^(1/p)`: close to the larger, above it where both are alike.
fn smooth_max(a: f64, b: f64, power: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if small <= large * 1e-3 {
        return large;
    }
    let ratio = small / large;
    if (power - 3.0).abs() < 1e-9 {
        return large * libm::cbrt(1.0 + ratio * ratio * ratio);
    }
    large * libm::pow(1.0 + libm::pow(ratio, power), 1.0 / power)
}

impl StepModel {
    /// A setup's operators with the constants of its generation and engine profile.
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let place = constants.place(&setup.device.gpu.generation, &setup.profile);
        let rates = Rates::new(setup, constants, place);
        let layout = setup.layout;
        Self {
            shape,
            rates,
            links: Links::new(setup, constants, place),
            layout,
            hidden: setup.architecture.hidden as f64,
            units: f64::from(setup.device.units().unwrap_or(100)),
            eager: setup.settings.eager,
            stages_overlap: setup.engine.kind != EngineKind::LlamaCpp,
        }
    }

    /// Seconds of a step; pipeline stages follow each other with their share of the batch.
    pub fn time(&self, batch: &Batch) -> StepTime {
        let stages = f64::from(self.layout.pipeline.max(1));
        // Engines that keep all stages busy work on a part of the batch in each; llama.cpp passes
        // the whole batch from stage to stage.
        let parts = if self.stages_overlap { stages } else { 1.0 };
        let part = Batch {
            decodes: batch.decodes / parts,
            prefill: batch.prefill / parts,
            finished: batch.finished / parts,
            ..*batch
        };
        let tokens = part.decodes + part.prefill;
        if tokens <= 0.0 {
            return StepTime::default();
        }
        let decode_share = part.decodes / tokens;
        let era =
            self.rates.era_decode * decode_share + self.rates.era_prefill * (1.0 - decode_share);
        let mut total = StepTime::default();
        for layer in &self.shape.layers {
            total.add(self.layer(layer, &part), layer.count * era);
        }
        if let Some(head) = &self.shape.head {
            total.dense += self.matmul(head, part.decodes + part.finished) * era;
        }
        total.communication += self.links.hop(tokens * self.hidden * 2.0) * (stages - 1.0);
        total.overhead += self.rates.step_base + self.rates.step_sequence * batch.decodes;
        total
    }

    fn layer(&self, layer: &LayerWork, batch: &Batch) -> StepTime {
        let tokens = batch.decodes + batch.prefill;
        let mut time = StepTime::default();
        for matmul in &layer.matmuls {
            time.dense += self.matmul(matmul, tokens);
        }
        time.attention = self.mixer(&layer.mixer, batch);
        let mut kernels = layer.kernels + layer.matmuls.len() as f64;
        if matches!(layer.mixer, MixerWork::Attention { latent: true, .. }) {
            kernels += self.rates.latent_kernels;
        }
        if let Some(experts) = &layer.experts {
            time.experts = self.experts(experts, tokens);
            time.communication += self.links.experts(tokens, experts.input, experts.chosen);
            kernels += self.rates.expert_kernels;
        }
        time.communication += layer.reductions * self.links.all_reduce(tokens * self.hidden * 2.0);
        let small = kernels * self.rates.kernel;
        let stream = tokens * self.hidden * self.rates.stream;
        time.overhead = small + stream;
        if self.eager || batch.prefill > 0.0 {
            // Outside of graphs the host launches kernels one by one; only what the device does
            // not hide remains.
            let busy = time.total();
            let launched = kernels * self.rates.launch;
            time.overhead += (launched - busy).max(0.0);
        }
        time
    }

    fn matmul(&self, matmul: &Matmul, tokens: f64) -> f64 {
        let rates = &self.rates;
        let (memory, compute) = if matmul.weight_only {
            (
                rates.memory * rates.weight_only_memory,
                rates.compute(matmul.compute) * rates.weight_only_compute,
            )
        } else {
            (rates.memory, rates.compute(matmul.compute))
        };
        let reading = matmul.bytes / memory;
        let used = tile_use(tokens, matmul.rows, self.units, rates.tile_exponent);
        let computing = matmul.flop * padded(tokens) / (compute * used);
        rates.smooth_max(reading, computing)
    }

    fn mixer(&self, mixer: &MixerWork, batch: &Batch) -> f64 {
        let rates = &self.rates;
        match *mixer {
            MixerWork::None => 0.0,
            MixerWork::Attention {
                bytes,
                decode_flop,
                prefill_flop,
                window,
                latent,
                top,
            } => {
                let limit = |context: f64| if top > 0.0 { context.min(top) } else { context };
                let seen = limit(window.visible(batch.context));
                let reading = batch.decodes * seen * bytes / rates.cache;
                let rate = if latent {
                    rates.latent
                } else {
                    rates.attention
                };
                let computing = batch.decodes * seen * decode_flop / rate;
                let prefill_seen = limit(prefill_visible(window, batch.prefill_context));
                let prefill = batch.prefill * prefill_seen * prefill_flop / rates.attention;
                rates.smooth_max(reading, computing) + prefill
            }
            MixerWork::Recurrent { bytes, flop } => {
                batch.decodes * bytes / rates.cache + batch.prefill * flop / rates.attention
            }
        }
    }

    fn experts(&self, experts: &ExpertWork, tokens: f64) -> f64 {
        let rates = &self.rates;
        let groups = f64::from(self.layout.expert.max(1));
        let within = f64::from(self.layout.expert_tensor());
        let all = tokens * f64::from(self.layout.attention_data.max(1));
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
        let reading = local * experts.bytes / within / (rates.expert_memory * memory_factor)
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

    /// Factor on prefill for what its parts do not show.
    pub fn prefill_factor(&self) -> f64 {
        self.rates.prefill_factor
    }
}

/// The share of compute units that a matmul's tiles keep busy: tiles of 128 × 128 over the units,
/// softened by an exponent, because kernels split the inner dimension when tiles are few.
fn tile_use(tokens: f64, rows: f64, units: f64, exponent: f64) -> f64 {
    let tiles = libm::ceil(tokens / 128.0) * libm::ceil(rows / 128.0);
    if tiles >= units {
        1.0
    } else {
        libm::pow(tiles / units, exponent)
    }
}

/// Seconds of a single matmul, launch left out.
pub(crate) fn matmul_seconds(
    matmul: &micro::Matmul<'_>,
    constants: &Constants,
    place: Place,
) -> f64 {
    let get = |parameter| constants.get(parameter, place);
    let device = &matmul.device;
    let (element, rate) = match matmul.compute {
        Compute::Full | Compute::Half => (2.0, get(P::HalfRate)),
        Compute::Fp8 | Compute::Int8 => (1.0, get(P::Fp8Rate)),
        Compute::Fp4 => (0.5625, get(P::Fp4Rate)),
    };
    let peak = device.peak(matmul.compute).map_or(f64::NAN, gpuwise_units::FlopPerSecond::get);
    let (m, n, k) = (matmul.tokens, matmul.rows, matmul.columns);
    let bytes = (m * k + k * n) * element + m * n * 2.0;
    let reading = bytes / (device.bandwidth().get() * get(P::MemoryRate));
    let units = f64::from(device.units().unwrap_or(100));
    let used = tile_use(m, n, units, get(P::TileExponent));
    let computing = 2.0 * padded(m) * n * k / (peak * rate * used);
    smooth_max(reading, computing, get(P::Overlap))
}

/// Tokens as a matmul computes them: padded to a tile of 16.
fn padded(tokens: f64) -> f64 {
    if tokens < 256.0 {
        libm::ceil(tokens / 16.0) * 16.0
    } else {
        tokens
    }
}

fn prefill_visible(window: Window, context: f64) -> f64 {
    match window {
        Window::Full => context,
        Window::Sliding(w) | Window::Chunked(w) => context.min(w.0 as f64),
    }
}

fn head_work(setup: &Setup<'_>) -> Option<Matmul> {
    let architecture = setup.architecture;
    let role = if architecture.tied_head {
        Role::Embedding
    } else {
        Role::Head
    };
    let tensor = architecture
        .outside
        .iter()
        .find(|t| t.role == role && t.is_matrix())?;
    Some(matmul_work(&[tensor], setup))
}

/// Tensors that one kernel multiplies by, such as query, key and value.
fn matmul_work(tensors: &[&Tensor], setup: &Setup<'_>) -> Matmul {
    let mut work = Matmul {
        bytes: 0.0,
        flop: 0.0,
        rows: 0.0,
        compute: Compute::Half,
        weight_only: false,
    };
    for tensor in tensors {
        let part = shard(tensor, &setup.layout);
        let share = part.elements() / (tensor.elements() as f64).max(1.0);
        work.bytes += setup.weights.bytes(tensor) as f64 * share;
        work.flop += 2.0 * part.elements();
        work.rows += part.rows * part.copies;
        work.compute = setup.weights.compute(tensor, &setup.device);
        work.weight_only = setup.weights.weight_only(tensor, &setup.device);
    }
    work
}

/// Roles that are multiplied together, in the order of the layer.
const MATMULS: &[&[Role]] = &[
    &[Role::Query, Role::Key, Role::Value],
    &[Role::LatentDown],
    &[Role::LatentQuery],
    &[Role::LatentKeyValue],
    &[Role::Indexer],
    &[Role::StateInput],
    &[Role::AttentionOutput],
    &[Role::StateOutput],
    &[Role::CrossAttention],
    &[Role::MlpUp],
    &[Role::MlpDown],
    &[Role::Router],
    &[Role::SharedUp],
    &[Role::SharedDown],
];

fn layer_work(run: &LayerRun, setup: &Setup<'_>) -> LayerWork {
    let layer = &run.layer;
    let mut matmuls = Vec::new();
    for roles in MATMULS {
        let tensors: Vec<&Tensor> = layer
            .tensors
            .iter()
            .filter(|t| roles.contains(&t.role) && t.is_matrix())
            .collect();
        if !tensors.is_empty() {
            matmuls.push(matmul_work(&tensors, setup));
        }
    }
    let has_mixer = !matches!(layer.mixer, Mixer::None);
    let has_feed_forward = !matches!(layer.feed_forward, FeedForward::None);
    let small_norms = layer
        .tensors
        .iter()
        .filter(|t| t.role == Role::AttentionOther)
        .count();
    let tensor_parallel = setup.layout.tensor > 1;
    LayerWork {
        count: run.count as f64,
        mixer: mixer_work(&layer.mixer, setup),
        experts: expert_work(layer, setup),
        // Norms, rotary, cache write, attention, activation.
        kernels: if has_mixer { 4.0 } else { 0.0 }
            + if has_feed_forward { 2.0 } else { 0.0 }
            + if small_norms > 0 { 1.0 } else { 0.0 },
        reductions: if tensor_parallel {
            f64::from(u8::from(has_mixer)) + f64::from(u8::from(has_feed_forward))
        } else {
            0.0
        },
        matmuls,
    }
}

fn mixer_work(mixer: &Mixer, setup: &Setup<'_>) -> MixerWork {
    let element = setup.cache.bytes_per_element();
    let tensor = setup.layout.tensor;
    let context_ranks = f64::from(setup.layout.decode_context.max(1));
    match *mixer {
        Mixer::Attention {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            window,
            ..
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            let kv_here = kv_heads as f64 * piece_share(kv_heads, tensor);
            let dims = (key_dim + value_dim) as f64;
            MixerWork::Attention {
                bytes: kv_here * dims * element / context_ranks,
                decode_flop: 2.0 * heads_here * dims,
                prefill_flop: 2.0 * heads_here * dims,
                window,
                latent: false,
                top: 0.0,
            }
        }
        Mixer::Latent {
            heads,
            kv_rank,
            rotary_dim,
            plain_dim,
            value_dim,
            index_dim,
            top_tokens,
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            MixerWork::Attention {
                bytes: (kv_rank + rotary_dim) as f64 * element / context_ranks + index_dim as f64,
                decode_flop: 2.0 * heads_here * (2 * kv_rank + rotary_dim) as f64,
                prefill_flop: 2.0 * heads_here * (plain_dim + rotary_dim + value_dim) as f64,
                window: Window::Full,
                latent: true,
                top: top_tokens as f64,
            }
        }
        Mixer::Compressed {
            heads,
            dim,
            window,
            ratio,
            top_entries,
            ..
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            let compressed = if top_entries > 0 {
                top_entries as f64
            } else {
                0.0
            };
            let _ = ratio;
            MixerWork::Attention {
                bytes: dim as f64 * element,
                decode_flop: 4.0 * heads_here * dim as f64,
                prefill_flop: 4.0 * heads_here * dim as f64,
                window: Window::Full,
                latent: true,
                top: window.0 as f64 + compressed,
            }
        }
        Mixer::Recurrent(state) => {
            let share = piece_share(state.heads, tensor);
            let bytes = if state.state_bytes == 0 {
                2
            } else {
                state.state_bytes
            } as f64;
            let elements = state.heads as f64 * state.state_per_head as f64 * share;
            MixerWork::Recurrent {
                // Read and written.
                bytes: 2.0 * elements * bytes + 2.0 * state.convolution as f64 * share * 2.0,
                flop: 6.0 * elements,
            }
        }
        Mixer::None => MixerWork::None,
    }
}

fn expert_work(layer: &gpuwise_domain::model::Layer, setup: &Setup<'_>) -> Option<ExpertWork> {
    let FeedForward::Experts {
        count,
        chosen,
        input,
        ..
    } = layer.feed_forward
    else {
        return None;
    };
    let mut work = ExpertWork {
        count: count as f64,
        chosen: chosen as f64,
        bytes: 0.0,
        flop: 0.0,
        compute: Compute::Half,
        weight_only: false,
        four_bit: false,
        input: input as f64,
    };
    for tensor in layer.tensors.iter().filter(|t| t.role.is_routed_expert()) {
        work.bytes += setup.weights.bytes(tensor) as f64 / count as f64;
        if tensor.is_matrix() {
            work.flop += 2.0 * tensor.elements() as f64 / count as f64;
            work.four_bit = setup.weights.format(tensor).bytes_per_element() < 0.75;
            work.compute = setup.weights.compute(tensor, &setup.device);
            work.weight_only = setup.weights.weight_only(tensor, &setup.device);
        }
    }
    Some(work)
}
