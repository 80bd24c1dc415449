//! Time of a batch on a device: a roofline over the operations of every part.
//!
//! An operation takes the smooth maximum √(compute² + memory²) of its arithmetic at the achieved
//! share of the peak and its bytes at the achieved bandwidth, and a launch.

use super::constants::{Constants, FULL_POWER, Parameter as P};
use alloc::vec::Vec;
use gpuwise_domain::{
    gpu::Device,
    network::{Operation, OperationKind, Part, PartRole, Walk},
    precision::Compute,
};

/// Rows and columns of the tile that one compute unit multiplies at a time.
const TILE: f64 = 128.0;
/// Nobody exceeds the peak.
const MOST: f64 = 0.98;

/// In which number formats a network runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// That of the denoiser, backbone or encoder: its matmuls and convolutions.
    pub main: Compute,
    /// That of attention, of text encoders, decoders and image decoders.
    pub rest: Compute,
    /// Whether a compiler fuses and tunes the network (TensorRT and the like).
    pub compiled: bool,
}

impl Numbers {
    /// Everything at 16 bits.
    pub const HALF: Self = Self {
        main: Compute::Half,
        rest: Compute::Half,
        compiled: true,
    };

    /// The main part in a format, the rest at no less than 16 bits.
    pub const fn of(main: Compute) -> Self {
        Self {
            main,
            rest: match main {
                Compute::Full => Compute::Full,
                _ => Compute::Half,
            },
            compiled: true,
        }
    }

    pub const fn part(&self, role: PartRole) -> Compute {
        match role {
            PartRole::Denoiser
            | PartRole::Backbone
            | PartRole::Encoder
            | PartRole::Tables
            | PartRole::Head => self.main,
            PartRole::TextEncoder
            | PartRole::ImageDecoder
            | PartRole::ImageEncoder
            | PartRole::Decoder => self.rest,
        }
    }
}

pub const fn element_bytes(compute: Compute) -> f64 {
    match compute {
        Compute::Full => 4.0,
        Compute::Half => 2.0,
        Compute::Fp8 | Compute::Int8 => 1.0,
        Compute::Fp4 => 0.5,
    }
}

/// A device with the constants that hold for it.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    pub device: Device<'a>,
    /// Devices over which tables are sharded.
    pub devices: u32,
    constants: &'a Constants,
    speed: f64,
}

impl<'a> Machine<'a> {
    pub fn new(device: Device<'a>, constants: &'a Constants) -> Self {
        let mut machine = Self {
            device,
            devices: 1,
            constants,
            speed: 1.0,
        };
        machine.speed = machine.powered();
        machine
    }

    /// The share of the peak that the board's power limit feeds (0 to 1).
    fn powered(&self) -> f64 {
        let half = self.device.gpu.peak.of(Compute::Half);
        let (Some(limit), Some(peak)) = (self.device.gpu.power_limit, half) else {
            return 1.0;
        };
        let ratio = limit.get() / (peak.get() / 1e12) / FULL_POWER;
        libm::pow(ratio.min(1.0), self.constant(P::Power))
    }

    fn constant(&self, parameter: P) -> f64 {
        self.constants.get(parameter, &self.device.gpu.generation)
    }

    /// Peak operations a second in a format: the narrowest that the silicon has and that is no
    /// narrower than asked.
    pub fn peak(&self, compute: Compute) -> f64 {
        let wider: &[Compute] = match compute {
            Compute::Fp4 => &[Compute::Fp4, Compute::Fp8, Compute::Int8, Compute::Half],
            Compute::Fp8 => &[Compute::Fp8, Compute::Int8, Compute::Half],
            Compute::Int8 => &[Compute::Int8, Compute::Fp8, Compute::Half],
            Compute::Half => &[Compute::Half],
            Compute::Full => &[Compute::Full],
        };
        let peak = wider.iter().find_map(|c| self.device.peak(*c));
        peak.map_or(0.0, gpuwise_units::FlopPerSecond::get)
    }

    fn rate(&self, kind: OperationKind) -> f64 {
        self.constant(match kind {
            OperationKind::Matmul | OperationKind::Elementwise | OperationKind::Lookup => P::Matmul,
            OperationKind::Convolution => P::Convolution,
            OperationKind::Convolution3d => P::Convolution3d,
            OperationKind::Depthwise => P::Depthwise,
            OperationKind::Attention => P::Attention,
        })
    }
}

/// What one operation takes for a whole batch, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Taken {
    total: f64,
    compute: f64,
    memory: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartTime {
    /// Its place among the walk's parts.
    pub part: usize,
    /// Seconds of all its passes for the batch.
    pub seconds: f64,
    /// The same, were arithmetic all.
    pub compute: f64,
    /// The same, were memory all.
    pub memory: f64,
    /// Launches and the host.
    pub overhead: f64,
    /// Moving looked-up rows between devices.
    pub exchange: f64,
}

/// Time of every part for a batch of so many inputs.
pub fn part_times(
    walk: &Walk,
    inputs: f64,
    numbers: Numbers,
    machine: &Machine<'_>,
) -> Vec<PartTime> {
    walk.parts
        .iter()
        .enumerate()
        .map(|(at, part)| part_time(at, part, inputs, numbers, machine))
        .collect()
}

/// Seconds of a batch of so many inputs.
pub fn batch(walk: &Walk, inputs: f64, numbers: Numbers, machine: &Machine<'_>) -> f64 {
    part_times(walk, inputs, numbers, machine)
        .iter()
        .map(|part| part.seconds)
        .sum()
}

fn part_time(
    at: usize,
    part: &Part,
    inputs: f64,
    numbers: Numbers,
    machine: &Machine<'_>,
) -> PartTime {
    let launch = machine.constant(P::Launch) * 1e-6;
    let mut out = PartTime {
        part: at,
        ..PartTime::default()
    };
    let attends = part
        .operations
        .iter()
        .any(|operation| operation.kind == OperationKind::Attention);
    for operation in &part.operations {
        let count = operation.count as f64;
        let taken = if attends && operation.kind == OperationKind::Elementwise {
            normed(operation, part.role, inputs, numbers, machine)
        } else {
            taken(operation, part.role, inputs, numbers, machine)
        };
        out.seconds += count * taken.total;
        out.compute += count * taken.compute;
        out.memory += count * taken.memory;
        if operation.kind != OperationKind::Elementwise {
            out.overhead += count * launch;
        }
        if operation.kind == OperationKind::Lookup {
            out.exchange += count * exchange(operation, part.role, inputs, numbers, machine);
        }
    }
    if part.role == PartRole::Decoder {
        out.overhead += machine.constant(P::Token) * 1e-6 * inputs;
    }
    let slower = if numbers.compiled {
        1.0
    } else {
        machine.constant(P::Framework)
    };
    let passes = part.passes / slower;
    out.seconds = passes * (out.seconds + out.overhead + out.exchange);
    out.compute *= passes;
    out.memory *= passes;
    out.overhead *= passes;
    out.exchange *= passes;
    out
}

fn format(kind: OperationKind, role: PartRole, numbers: Numbers) -> Compute {
    match kind {
        OperationKind::Attention => numbers.rest,
        _ => numbers.part(role),
    }
}

/// Norms and activation functions beside attention: at 16 bits, and not folded into products.
fn normed(
    operation: &Operation,
    role: PartRole,
    inputs: f64,
    numbers: Numbers,
    machine: &Machine<'_>,
) -> Taken {
    let bytes = element_bytes(numbers.part(role)).max(element_bytes(Compute::Half));
    let moved = (operation.reads + operation.writes) as f64 * inputs * bytes;
    let bandwidth = machine.device.bandwidth().get() * machine.constant(P::Memory);
    let memory = moved * machine.constant(P::Norm) / bandwidth;
    Taken {
        total: memory,
        compute: 0.0,
        memory,
    }
}

fn taken(
    operation: &Operation,
    role: PartRole,
    inputs: f64,
    numbers: Numbers,
    machine: &Machine<'_>,
) -> Taken {
    let compute = format(operation.kind, role, numbers);
    let bandwidth = machine.device.bandwidth().get();
    let bytes = element_bytes(numbers.part(role));
    let activations = (operation.reads + operation.writes) as f64 * inputs * bytes;
    let shared = if operation.shared_weights {
        1.0
    } else {
        inputs
    };
    let weights = operation.weights as f64 * bytes * shared;
    let share = |parameter: P| machine.constant(parameter);
    let memory = match (operation.kind, role) {
        // Rows are read where they lie; each device looks up its share.
        (OperationKind::Lookup, _) => (weights + activations) / (bandwidth * share(P::Lookup)),
        // Every step reads what a decoder keeps, of every sequence.
        (OperationKind::Attention, PartRole::Decoder) => {
            weights / (bandwidth * share(P::Memory)) + activations / (bandwidth * share(P::Cache))
        }
        (kind, _) => {
            let left = match kind {
                OperationKind::Elementwise => share(P::Activation) * share(P::Elementwise),
                _ => share(P::Activation),
            };
            (weights + left * activations) / (bandwidth * share(P::Memory))
        }
    };
    let peak = machine.peak(compute);
    let multiplies = !matches!(
        operation.kind,
        OperationKind::Elementwise | OperationKind::Lookup
    );
    if operation.flops == 0 || peak <= 0.0 || !multiplies {
        return Taken {
            total: memory,
            compute: 0.0,
            memory,
        };
    }
    let wide = match compute {
        Compute::Half | Compute::Full => machine.constant(P::Wide),
        _ => 1.0,
    };
    // Attention's own rate is that of 16 bits already.
    let wide = if operation.kind == OperationKind::Attention {
        1.0
    } else {
        wide
    };
    let share = (machine.rate(operation.kind) * wide).min(MOST)
        * filled(operation, inputs, machine)
        * machine.speed;
    let compute = operation.flops as f64 * inputs / (peak * share);
    Taken {
        total: libm::sqrt(compute * compute + memory * memory),
        compute,
        memory,
    }
}

/// The share of compute units that an operation's tiles keep busy (0 to 1).
fn filled(operation: &Operation, inputs: f64, machine: &Machine<'_>) -> f64 {
    let Some(units) = machine.device.units() else {
        return 1.0;
    };
    if operation.rows == 0 {
        return 1.0;
    }
    let rows = operation.rows as f64;
    let columns = operation.writes as f64 / rows;
    let tiles = (rows * inputs / TILE).max(1.0) * (columns / TILE).max(1.0);
    tiles / (tiles + machine.constant(P::Fill) * f64::from(units))
}

/// Seconds of moving looked-up rows to where they are used, with tables sharded over devices.
fn exchange(
    operation: &Operation,
    role: PartRole,
    inputs: f64,
    numbers: Numbers,
    machine: &Machine<'_>,
) -> f64 {
    if machine.devices <= 1 {
        return 0.0;
    }
    let gpu = machine.device.gpu;
    let link = gpu
        .scale_up
        .as_ref()
        .filter(|link| link.domain >= machine.devices)
        .map(|link| link.bandwidth)
        .or(gpu.host_link);
    let Some(link) = link else { return 0.0 };
    let away = 1.0 - 1.0 / f64::from(machine.devices);
    let bytes = operation.writes as f64 * inputs * element_bytes(numbers.part(role)) * away;
    bytes / (link.get() * machine.constant(P::Exchange))
}
