//! Steps of llama.cpp. Its kernels share little with those of servers: a few tokens are multiplied
//! straight from the stored weights, more of them after the weights were unpacked to 16 bits;
//! activations pass through memory in 32 bits between kernels; layers are dealt out over GPUs, or
//! (before 2024) every matrix by its rows. Facts and figures: `docs/decisions/0030-local-engines.md`.

mod mixing;

use super::step::{Batch, StepTime};
use crate::{
    constants::{Constants, Parameter as P, Place},
    engines,
    setup::Setup,
};
use alloc::{borrow::Cow, format, vec::Vec};
use gpuwise_domain::{
    engine::{EngineKind, Month},
    gpu::Gpu,
    model::{FeedForward, Layer, Role, Tensor},
    precision::Compute,
};
use mixing::Mixing;

/// Best shares of peak that any measured kernel reaches: no constant goes beyond.
const MOST_OF_BANDWIDTH: f64 = 0.95;
const MOST_OF_PEAK: f64 = 0.9;
/// Bytes of an activation between kernels.
const ACTIVATION: f64 = 4.0;
/// Where no host link is known: PCIe 4.0 x16 (bytes/s).
const HOST_LINK: f64 = 31.5e9;

/// The silicon under which the constants of an engine are kept: its generation, and for llama.cpp
/// also whether it is a GeForce or has stacked memory, because hosts and memory differ within a
/// generation more than servers notice.
pub fn silicon(gpu: &Gpu, engine: EngineKind) -> Cow<'_, str> {
    let generation = gpu.generation.as_str();
    if !engines::model(engine).is_local() {
        return generation.into();
    }
    if gpu.name.starts_with("GeForce") {
        format!("{generation}, GeForce").into()
    } else if gpu.memory_kind.starts_with("HBM") {
        format!("{generation}, HBM").into()
    } else {
        generation.into()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Matrix {
    elements: f64,
    bytes: f64,
    inputs: f64,
    outputs: f64,
}

impl Matrix {
    fn of(tensor: &Tensor, setup: &Setup<'_>) -> Self {
        Self {
            elements: tensor.elements() as f64,
            bytes: setup.weights.bytes(tensor) as f64,
            inputs: tensor.columns as f64,
            outputs: tensor.rows as f64,
        }
    }

    /// Whether its weights are unpacked to 16 bits before many tokens are multiplied.
    fn packed(&self) -> bool {
        self.bytes < 1.9 * self.elements
    }
}

#[derive(Debug, Clone)]
struct LocalLayer {
    count: f64,
    matrices: Vec<Matrix>,
    mixing: Mixing,
    experts: Option<Experts>,
    /// Inputs and outputs of all kernels that multiply, per token.
    activations: f64,
}

#[derive(Debug, Clone, Copy)]
struct Experts {
    count: f64,
    chosen: f64,
    /// All matrices of one routed expert together.
    one: Matrix,
}

/// How the model lies on several GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spread {
    One,
    /// Every matrix by its rows; the first GPU sends inputs and gathers outputs.
    Rows(f64),
    /// Layers are dealt out over so many GPUs, each whole.
    Layers(f64),
}

/// Rates of one device in SI units.
#[derive(Debug, Clone, Copy)]
struct Rates {
    memory: f64,
    cache: f64,
    matmul: f64,
    /// Of multiplying a few tokens straight from the stored weights, outside of matrix units.
    vector: f64,
    /// Bytes a second at which weights are unpacked, and at which activations pass.
    unpack: f64,
    stream: f64,
    layer: f64,
    token: f64,
    expert: f64,
    link: f64,
    sync: f64,
    overlap: f64,
    /// Bytes a second at which the layers of other GPUs are read, where they are.
    remote: Option<f64>,
    base: f64,
    sequence: f64,
}

/// Step times of a model under llama.cpp.
#[derive(Debug, Clone)]
pub(super) struct Local {
    layers: Vec<LocalLayer>,
    head: Option<Matrix>,
    bytes: f64,
    hidden: f64,
    spread: Spread,
    rates: Rates,
}

impl Local {
    pub(super) fn new(setup: &Setup<'_>, constants: &Constants, place: Place) -> Self {
        let architecture = setup.architecture;
        let head = if architecture.tied_head {
            Role::Embedding
        } else {
            Role::Head
        };
        let head = architecture
            .outside
            .iter()
            .find(|t| t.role == head && t.is_matrix());
        let runs = architecture.layers.iter();
        let layers: Vec<LocalLayer> = runs
            .map(|run| local_layer(&run.layer, run.count as f64, setup))
            .collect();
        let bytes = layers.iter().map(LocalLayer::bytes).sum();
        let spread = match (setup.layout.tensor, setup.layout.pipeline) {
            (2.., _) => Spread::Rows(f64::from(setup.layout.tensor)),
            (_, 2..) => Spread::Layers(f64::from(setup.layout.pipeline)),
            _ => Spread::One,
        };
        Self {
            layers,
            head: head.map(|tensor| Matrix::of(tensor, setup)),
            bytes,
            hidden: architecture.hidden as f64,
            spread,
            rates: Rates::new(setup, constants, place),
        }
    }

    /// Seconds of a step by cause.
    pub(super) fn time(&self, batch: &Batch) -> StepTime {
        let tokens = batch.decodes + batch.prefill;
        let mut time = StepTime::default();
        if tokens <= 0.0 {
            return time;
        }
        for layer in &self.layers {
            self.add_layer(&mut time, layer, batch);
        }
        if let Some(head) = &self.head {
            time.dense += self.matmul(head, batch.decodes + batch.finished);
        }
        if let Spread::Layers(gpus) = self.spread {
            let hop = tokens * self.hidden * ACTIVATION / self.rates.link + self.rates.sync;
            let remote = self
                .rates
                .remote
                .map_or(0.0, |rate| self.bytes / gpus / rate);
            time.communication += (gpus - 1.0) * (hop + remote);
        }
        time.overhead += self.rates.base + self.rates.sequence * batch.decodes;
        time
    }

    /// Seconds of so many equal chunks of prompts. Chunks follow each other through GPUs that hold
    /// whole layers, as far as the engine overlaps them.
    pub(super) fn through(&self, batch: &Batch, chunks: f64) -> f64 {
        let one = self.time(batch).total();
        let Spread::Layers(gpus) = self.spread else {
            return one * chunks;
        };
        let piped = one * (chunks + gpus - 1.0) / gpus;
        let overlap = self.rates.overlap;
        one * chunks * (1.0 - overlap) + piped * overlap
    }

    fn add_layer(&self, time: &mut StepTime, layer: &LocalLayer, batch: &Batch) {
        let rates = &self.rates;
        let tokens = batch.decodes + batch.prefill;
        let dense: f64 = layer.matrices.iter().map(|m| self.matmul(m, tokens)).sum();
        time.dense += dense * layer.count;
        time.attention += self.mixing(&layer.mixing, batch) * layer.count;
        let mut small = rates.layer + tokens * rates.token;
        if let Some(experts) = &layer.experts {
            let share = (experts.chosen / experts.count).min(1.0);
            let touched = experts.count * (1.0 - libm::pow(1.0 - share, tokens.max(1.0)));
            let each = tokens * experts.chosen / touched;
            time.experts += touched * self.matmul(&experts.one, each) * layer.count;
            small += touched * rates.expert;
        }
        small += tokens * layer.activations * ACTIVATION / rates.stream;
        time.overhead += small * layer.count;
        if let Spread::Rows(gpus) = self.spread {
            let sent: f64 = layer.matrices.iter().map(|m| m.inputs).sum::<f64>() * (gpus - 1.0);
            let gathered: f64 = layer.matrices.iter().map(|m| m.outputs).sum::<f64>();
            let bytes = tokens * ACTIVATION * (sent + gathered * (gpus - 1.0) / gpus);
            let waits = layer.matrices.len() as f64 * (gpus - 1.0) * rates.sync;
            time.communication += (bytes / rates.link + waits) * layer.count;
        }
    }

    /// The faster of two ways: straight from the stored weights, or by matrix units from 16 bits.
    fn matmul(&self, matrix: &Matrix, tokens: f64) -> f64 {
        if tokens <= 0.0 {
            return 0.0;
        }
        let rates = &self.rates;
        let gpus = if let Spread::Rows(gpus) = self.spread {
            gpus
        } else {
            1.0
        };
        let flop = 2.0 * matrix.elements * tokens;
        let direct = matrix.bytes / rates.memory + flop / rates.vector;
        let plain = (flop / rates.matmul).max(2.0 * matrix.elements / rates.memory);
        let unpacked = if matrix.packed() {
            plain + (matrix.bytes + 2.0 * matrix.elements) / rates.unpack
        } else {
            plain
        };
        direct.min(unpacked) / gpus
    }

    fn mixing(&self, mixing: &Mixing, batch: &Batch) -> f64 {
        let rates = &self.rates;
        let read = batch.decodes * mixing.seen(batch.context);
        let scored = batch.decodes * batch.context;
        let reading = (read * mixing.bytes + scored * mixing.index_bytes) / rates.cache;
        let seen = batch.prefill * mixing.seen(batch.prefill_context);
        let scan = batch.prefill * batch.prefill_context;
        let flop = (read + seen) * mixing.flop + (scored + scan) * mixing.index_flop;
        let tokens = batch.decodes + batch.prefill;
        let states = batch.decodes * mixing.state_bytes / rates.cache
            + tokens * mixing.state_flop / rates.vector;
        // Scores of prompts pass through memory.
        let passed = seen * mixing.heads * ACTIVATION / rates.stream;
        reading + flop / rates.matmul + passed + states
    }
}

impl LocalLayer {
    fn bytes(&self) -> f64 {
        let own: f64 = self.matrices.iter().map(|m| m.bytes).sum();
        let experts = self.experts.map_or(0.0, |e| e.one.bytes * e.chosen);
        (own + experts) * self.count
    }
}

fn local_layer(layer: &Layer, count: f64, setup: &Setup<'_>) -> LocalLayer {
    let multiplied = |tensor: &&Tensor| tensor.is_matrix();
    let (routed, own): (Vec<&Tensor>, Vec<&Tensor>) = layer
        .tensors
        .iter()
        .filter(multiplied)
        .partition(|t| t.role.is_routed_expert());
    let matrices: Vec<Matrix> = own.iter().map(|t| Matrix::of(t, setup)).collect();
    let experts = match layer.feed_forward {
        FeedForward::Experts { count, chosen, .. } if count > 0 => {
            let mut one = Matrix::default();
            for tensor in routed {
                let all = Matrix::of(tensor, setup);
                let share = 1.0 / count as f64;
                one.elements += all.elements * share;
                one.bytes += all.bytes * share;
                one.inputs += all.inputs;
                one.outputs += all.outputs;
            }
            Some(Experts {
                count: count as f64,
                chosen: chosen as f64,
                one,
            })
        }
        _ => None,
    };
    let widths = |m: &Matrix| m.inputs + m.outputs;
    let activations = matrices.iter().map(widths).sum::<f64>()
        + experts.map_or(0.0, |e| e.chosen * widths(&e.one));
    LocalLayer {
        count,
        matrices,
        mixing: Mixing::of(&layer.mixer, setup),
        experts,
        activations,
    }
}

impl Rates {
    fn new(setup: &Setup<'_>, constants: &Constants, place: Place) -> Self {
        let get = |parameter| constants.get(parameter, place);
        let device = &setup.device;
        let bandwidth = device.bandwidth().get();
        let peak = |compute| device.peak(compute).map(gpuwise_units::FlopPerSecond::get);
        let full = peak(Compute::Full).unwrap_or(1e12);
        let half = peak(Compute::Half).unwrap_or(full);
        // It adds up in 16 bits, at which parts that halve 32-bit sums run at full rate: half of what
        // they do in 8-bit integers.
        let half = half.max(peak(Compute::Int8).unwrap_or(0.0) / 2.0);
        let vector = device
            .gpu
            .peak
            .fp32
            .map_or(full, gpuwise_units::FlopPerSecond::get);
        let host = device
            .gpu
            .host_link
            .map_or(HOST_LINK, gpuwise_units::BytesPerSecond::get);
        let matmul = half * get(P::LocalMatmul).min(MOST_OF_PEAK);
        // Builds of 2023 launched more and smaller kernels; until 2024-05 one by one (pull request
        // 6766 records them as a CUDA graph).
        let before = |year: u16, month: u8| {
            let built = setup.engine.month;
            built.is_some_and(|built| built.index() < Month { year, month }.index())
        };
        let slower = |old: bool, factor| if old { get(factor).max(1.0) } else { 1.0 };
        let (old, ungraphed) = (before(2024, 1), before(2024, 6));
        Self {
            memory: bandwidth * get(P::LocalMemory).min(MOST_OF_BANDWIDTH),
            cache: bandwidth * get(P::LocalCache).min(MOST_OF_BANDWIDTH),
            matmul,
            vector: (vector * get(P::LocalVector).min(MOST_OF_PEAK)).min(matmul),
            unpack: bandwidth * (1.0 / get(P::LocalUnpack)).min(MOST_OF_BANDWIDTH),
            stream: bandwidth / get(P::LocalStream),
            layer: get(P::LocalLayer) * 1e-6 * slower(ungraphed, P::LocalUngraphed),
            token: get(P::LocalToken) * 1e-6 * slower(old, P::LocalOld),
            expert: get(P::LocalExpert) * 1e-6,
            link: host * get(P::LocalLink).min(MOST_OF_BANDWIDTH),
            sync: get(P::LocalSync) * 1e-6,
            overlap: get(P::LocalOverlap).min(1.0),
            remote: (device.gpu.vendor == "Intel")
                .then(|| host * get(P::LocalRemote).min(MOST_OF_BANDWIDTH)),
            base: get(P::StepBase) * 1e-6,
            sequence: get(P::StepSequence) * 1e-6,
        }
    }
}
