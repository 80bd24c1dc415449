//! Memory of a diffusion, vision or embedding model: weights by part, the largest pass, the program.

use super::time::{Numbers, element_bytes};
use crate::memory::visible_memory;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    estimate::Derivation,
    gpu::Device,
    media::MediaMemory,
    network::{OperationKind, PartRole, Walk},
};
use gpuwise_units::Bytes;

/// Context, libraries and what the allocator cannot use: what a program holds before any tensor.
const PROGRAM: f64 = 0.7e9;
/// Pixels of a tile's edge over those of the picture, where an image decoder works in tiles: a
/// quarter of the picture at a time.
const TILED: f64 = 0.25;
/// Share of visible memory that is planned with: the rest is lost to fragments.
const USABLE: f64 = 0.92;

pub fn usable(device: &Device<'_>) -> Bytes {
    Bytes::new((visible_memory(device).0 * USABLE) as u64)
}

/// How parts stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Residence {
    /// Text encoders stay in host memory; their layers come one by one while they run.
    pub encoders_offloaded: bool,
    /// The image decoder works in tiles.
    pub tiled: bool,
}

/// Memory by cause, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Weights on the device, by part.
    pub weights: Vec<(String, Bytes)>,
    /// Weights that wait in host memory.
    pub offloaded: Bytes,
    /// Activations of the largest pass for the batch.
    pub activations: Bytes,
    /// The part whose pass that is.
    pub widest: String,
    /// What decoders keep of every input: keys and values.
    pub cache: Bytes,
    pub program: Bytes,
}

impl Memory {
    /// Everything on the device.
    pub fn total(&self) -> Bytes {
        let weights: u64 = self.weights.iter().map(|(_, bytes)| bytes.count()).sum();
        Bytes::new(weights + self.activations.count() + self.cache.count() + self.program.count())
    }

    /// What the device is filled with.
    pub fn causes(&self) -> Vec<(MediaMemory, Bytes)> {
        let weights = self.weights.iter();
        let mut out: Vec<(MediaMemory, Bytes)> = weights
            .map(|(name, bytes)| (MediaMemory::Weights(name.clone()), *bytes))
            .collect();
        let widest = MediaMemory::Activations(self.widest.clone());
        out.push((widest, self.activations));
        if self.cache > Bytes::ZERO {
            out.push((MediaMemory::Cache, self.cache));
        }
        out.push((MediaMemory::Program, self.program));
        out
    }

    pub fn explain(&self) -> Derivation {
        let gb = |bytes: Bytes| format!("{:.2} GB", bytes.count() as f64 / 1e9);
        let causes = self.causes().into_iter().map(|(cause, bytes)| {
            Derivation::fact(cause.to_string(), gb(bytes), "the walk through the network")
        });
        Derivation::computed(
            "memory of one GPU",
            gb(self.total()),
            "weights + activations of the widest pass + caches + program",
            causes.collect(),
        )
    }
}

fn bytes(value: f64) -> Bytes {
    Bytes::new(libm::ceil(value.max(0.0)) as u64)
}

/// Memory of one device that runs batches of so many inputs; tables are split over `devices`.
pub fn memory(
    walk: &Walk,
    inputs: f64,
    numbers: Numbers,
    devices: u32,
    residence: Residence,
) -> Memory {
    let mut out = Memory {
        weights: Vec::new(),
        offloaded: Bytes::ZERO,
        activations: Bytes::ZERO,
        widest: String::new(),
        cache: Bytes::ZERO,
        program: bytes(PROGRAM),
    };
    let mut offloaded = 0.0;
    for part in &walk.parts {
        let element = element_bytes(numbers.part(part.role));
        let split = if part.role == PartRole::Tables {
            f64::from(devices.max(1))
        } else {
            1.0
        };
        let held = part.parameters as f64 * element / split;
        let away = residence.encoders_offloaded && part.role == PartRole::TextEncoder;
        if away {
            offloaded += held;
        } else if part.parameters > 0 {
            out.weights.push((part.name.clone(), bytes(held)));
        }
        let tiled = residence.tiled && part.role == PartRole::ImageDecoder;
        // Activations stay at 16 bits at least: eight bits are those of the products. Pictures are
        // decoded one by one.
        let at_once = if part.role == PartRole::ImageDecoder {
            1.0
        } else {
            inputs
        };
        let live = part.live_elements as f64
            * at_once
            * element.max(2.0)
            * if tiled { TILED } else { 1.0 };
        let live = bytes(live);
        if live > out.activations {
            out.activations = live;
            out.widest.clone_from(&part.name);
        }
        if part.role == PartRole::Decoder {
            let kept: f64 = part
                .operations
                .iter()
                .filter(|operation| operation.kind == OperationKind::Attention)
                .map(|operation| operation.count as f64 * operation.reads as f64)
                .sum();
            out.cache = Bytes::new(out.cache.count() + bytes(kept * inputs * element).count());
        }
    }
    out.offloaded = bytes(offloaded);
    out
}

/// How a network lies on devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub residence: Residence,
    /// Devices over which tables are spread.
    pub shards: u32,
}

/// The first way in which a batch of so many inputs fits: everything on one device, then with the image decoder in
/// tiles, then with text encoders in host memory too, then with tables over more devices of one host.
///
/// # Errors
/// With the last way, where none fits.
pub fn placement(
    walk: &Walk,
    device: &Device<'_>,
    numbers: Numbers,
    inputs: u32,
) -> Result<Placement, Placement> {
    let link = device.gpu.scale_up.as_ref();
    let domain = link.map_or(8, |link| link.domain.min(8));
    let spreads = device.slice.is_none() && walk.parts.iter().any(|p| p.role == PartRole::Tables);
    let largest = if spreads { domain.max(1) } else { 1 };
    let usable = usable(device);
    let residences = [(false, false), (false, true), (true, true)];
    let mut last = Placement {
        residence: Residence::default(),
        shards: 1,
    };
    let mut shards = 1;
    while shards <= largest {
        for (encoders_offloaded, tiled) in residences {
            let residence = Residence {
                encoders_offloaded,
                tiled,
            };
            last = Placement { residence, shards };
            let held = memory(walk, f64::from(inputs), numbers, shards, residence);
            if held.total() <= usable {
                return Ok(last);
            }
        }
        shards *= 2;
    }
    Err(last)
}

/// The largest power of two of inputs that fits, at most `most`; `None` where one does not.
pub fn largest_batch(
    walk: &Walk,
    numbers: Numbers,
    devices: u32,
    residence: Residence,
    usable: Bytes,
    most: u32,
) -> Option<u32> {
    let fits = |inputs: u32| {
        memory(walk, f64::from(inputs), numbers, devices, residence).total() <= usable
    };
    if !fits(1) {
        return None;
    }
    let mut inputs = 1;
    while inputs * 2 <= most && fits(inputs * 2) {
        inputs *= 2;
    }
    Some(inputs)
}
