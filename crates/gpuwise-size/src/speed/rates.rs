//! Achieved rates of a device under an engine: peaks times fitted shares.

use crate::{
    constants::{Constants, PARAMETERS, Parameter as P, Place},
    derive::{Amount, TermLabel},
    micro,
    setup::Setup,
};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use gpuwise_domain::{
    derivation::Unit,
    model::Window,
    precision::{CacheFormat, Compute},
};
use gpuwise_operators::Silicon;

/// A peak of the silicon, and the fitted share of it that is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    peak: f64,
    of: Peak,
    pub(super) share: f64,
    pub(super) parameter: P,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Peak: name {
        Bandwidth = "peak memory bandwidth",
        Half = "16-bit peak",
        EightBit = "8-bit peak",
        Fp4 = "FP4 peak",
        Full = "32-bit peak",
    }
}

impl Rate {
    pub(super) fn peak<A: Amount>(&self, fitted: &Fitted) -> A {
        let unit = match self.of {
            Peak::Bandwidth => Unit::BytesPerSecond,
            _ => Unit::FlopPerSecond,
        };
        let said = || TermLabel::new(self.of.name(), unit).digits(4);
        A::input(self.peak, || said().from(fitted.row()))
    }

    pub(super) fn reached<A: Amount>(&self, fitted: &Fitted) -> A {
        self.peak::<A>(fitted) * fitted.constant(self.parameter, self.share)
    }
}

/// From what constants were fitted, and where the row of the GPU comes from, in words.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    constants: Arc<str>,
    row: Arc<str>,
}

impl Fitted {
    pub(super) fn new(setup: &Setup<'_>, place: Place) -> Self {
        let known = |known: bool, name: &str| {
            if known {
                String::from(name)
            } else {
                "unseen".into()
            }
        };
        let generation = known(place.generation.is_some(), &setup.device.gpu.generation);
        let bucket = known(place.bucket.is_some(), setup.bucket.key);
        let joint = match place.joint {
            Some(_) => ", with what was measured of both together",
            None => "",
        };
        let text = format!(
            "fitted (constants.toml), generation {generation}, version bucket {bucket}{joint}"
        );
        let gpu = setup.device.gpu;
        Self {
            constants: text.into(),
            row: format!("catalogue, {}: {}", gpu.name, gpu.source).into(),
        }
    }

    /// Where the row of the GPU comes from.
    pub(super) fn row(&self) -> String {
        String::from(&*self.row)
    }

    /// A constant as an input, by its key.
    pub(super) fn constant<A: Amount>(&self, parameter: P, value: f64) -> A {
        A::input(value, || {
            let info = &PARAMETERS[parameter as usize];
            TermLabel::new(info.key, parameter.unit())
                .digits(4)
                .from(format!("{}; {}", info.meaning, self.constants))
        })
    }
}

/// Constants at this place, in SI units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    pub(super) memory: Rate,
    pub(super) cache: Rate,
    half: Rate,
    eight_bit: Rate,
    fp4: Rate,
    full: Rate,
    pub(super) attention: Rate,
    pub(super) latent: Rate,
    /// Bytes of the cache that are converted in software, a second; `None` where silicon converts.
    pub(super) conversion: Option<f64>,
    pub(super) expert_memory: Rate,
    pub(super) expert_compute: f64,
    pub(super) expert_tile: f64,
    pub(super) expert_imbalance: f64,
    pub(super) expert_skew: f64,
    pub(super) expert_four_bit: f64,
    pub(super) expert_weight_only: f64,
    pub(super) expert_kernels: f64,
    pub(super) latent_kernels: f64,
    pub(super) weight_only_memory: f64,
    pub(super) weight_only_compute: f64,
    pub(super) overlap: f64,
    pub(super) tile_exponent: f64,
    pub(super) kernel: f64,
    pub(super) block_matmul: f64,
    pub(super) stream: f64,
    pub(super) launch: f64,
    pub(super) step_base: f64,
    pub(super) step_sequence: f64,
    pub(super) prefill_factor: f64,
    pub(super) run_matmul: f64,
    pub(super) run_experts: f64,
    pub(super) run_generation: f64,
    pub(super) run_context: f64,
    pub(super) bucket_decode: f64,
    pub(super) bucket_prefill: f64,
}

impl Rates {
    pub(super) fn new(setup: &Setup<'_>, constants: &Constants, place: Place) -> Self {
        let get = |parameter| constants.get(parameter, place);
        let device = &setup.device;
        let bandwidth = device.bandwidth().get();
        let peak = |compute| device.peak(compute).map(gpuwise_units::FlopPerSecond::get);
        let half = device
            .peak(Compute::Half)
            .or(device.peak(Compute::Full))
            .map_or(1e12, gpuwise_units::FlopPerSecond::get);
        // llama.cpp adds up in 16 bits, at which parts that halve 32-bit sums run at full rate: half
        // of what they do in 8-bit integers.
        let half = match device.peak(Compute::Int8) {
            Some(integers) if setup.engine_model().is_local() => half.max(integers.get() / 2.0),
            _ => half,
        };
        let rate = |peak: f64, of: Peak, parameter: P| Rate {
            peak,
            of,
            share: get(parameter),
            parameter,
        };
        // Where a peak is not stated, 16 bits stand for it.
        let stated = |compute: Option<f64>, of: Peak, parameter: P| match compute {
            Some(peak) => rate(peak, of, parameter),
            None => rate(half, Peak::Half, parameter),
        };
        Self {
            memory: rate(bandwidth, Peak::Bandwidth, P::MemoryRate),
            cache: rate(bandwidth, Peak::Bandwidth, P::CacheRate),
            half: rate(half, Peak::Half, P::HalfRate),
            eight_bit: stated(
                peak(Compute::Fp8).or(peak(Compute::Int8)),
                Peak::EightBit,
                P::Fp8Rate,
            ),
            fp4: stated(peak(Compute::Fp4), Peak::Fp4, P::Fp4Rate),
            full: stated(peak(Compute::Full), Peak::Full, P::HalfRate),
            attention: rate(half, Peak::Half, P::AttentionRate),
            latent: rate(half, Peak::Half, P::LatentRate),
            conversion: conversion(setup),
            expert_memory: rate(bandwidth, Peak::Bandwidth, P::ExpertMemoryRate),
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
            // Beyond 1 more rows would take less.
            tile_exponent: get(P::TileExponent).min(1.0),
            kernel: get(P::Kernel) * 1e-6,
            block_matmul: get(P::BlockMatmul) * 1e-6,
            stream: get(P::Stream),
            launch: get(P::Launch) * 1e-6,
            step_base: get(P::StepBase) * 1e-6,
            step_sequence: get(P::StepSequence) * 1e-6,
            prefill_factor: get(P::PrefillFactor),
            run_matmul: get(P::RunMatmul),
            run_experts: get(P::RunExperts),
            run_generation: get(P::RunGeneration),
            run_context: get(P::RunContext),
            bucket_decode: get(P::BucketDecode),
            bucket_prefill: get(P::BucketPrefill),
        }
    }

    pub(super) fn compute(&self, compute: Compute) -> &Rate {
        match compute {
            Compute::Full => &self.full,
            Compute::Half => &self.half,
            Compute::Fp8 | Compute::Int8 => &self.eight_bit,
            Compute::Fp4 => &self.fp4,
        }
    }
}

/// Clocks of a unit for an FP8 element of the cache on silicon without an instruction for it, which came
/// with compute capability 8.9 (PTX, `cvt` of `e4m3x2`): some 20 integer operations (the fallback of
/// `cuda_fp8.hpp`) of which a unit does 64 a clock, once for each of 4 query heads over a key, and
/// conversions to 32 bits at 16 a clock. Measured on A100 with Llama 3 8B: 1.5 under TensorRT-LLM, 3.0
/// under vLLM.
const CONVERSION: f64 = 2.0;

/// Bytes of a setup's cache that are converted in software, a second.
fn conversion(setup: &Setup<'_>) -> Option<f64> {
    let capability = setup.device.gpu.compute_capability;
    let lacks = capability.is_some_and(|at| at < (8, 9));
    (lacks && setup.cache.name == CacheFormat::FP8.name).then(|| {
        let silicon = Silicon::of(&setup.device);
        silicon.units * silicon.clock / CONVERSION
    })
}

/// `(a^p + b^p)^(1/p)`: close to the larger, above it where both are alike.
pub(crate) fn smooth_max(a: f64, b: f64, power: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if small <= 0.0 {
        return large;
    }
    let ratio = small / large;
    if (power - 3.0).abs() < 1e-9 {
        return large * libm::cbrt(1.0 + ratio * ratio * ratio);
    }
    large * libm::pow(1.0 + libm::pow(ratio, power), 1.0 / power)
}

/// The share of compute units that tiles of 128 × 128 keep busy, softened by an exponent, because
/// kernels split the inner dimension when tiles are few.
fn tile_use(tiles: f64, units: f64, exponent: f64) -> f64 {
    if tiles >= units {
        1.0
    } else {
        libm::pow(tiles / units, exponent)
    }
}

/// The [shares](tile_use) of one device under one exponent, by tiles: a search asks for millions.
#[derive(Debug, Clone)]
pub(super) struct TileUse(Vec<f64>);

impl TileUse {
    pub(super) fn new(units: f64, exponent: f64) -> Self {
        let shares = |tiles: u32| tile_use(f64::from(tiles), units, exponent);
        Self((0..libm::ceil(units) as u32).map(shares).collect())
    }

    pub(super) fn of(&self, tiles: f64) -> f64 {
        self.0.get(tiles as usize).copied().unwrap_or(1.0)
    }
}

/// Token rows that a matmul takes the time of: padded to tiles, over the share of units that the
/// tiles keep busy. One more row can start a further row of tiles that spreads over idle units, but
/// it is never computed faster than the rows before it alone.
pub(super) fn computed_rows(tokens: f64, rows: f64, used: impl Fn(f64) -> f64) -> f64 {
    let columns = libm::ceil(rows / TILE);
    let at = |tokens: f64| padded(tokens) / used(libm::ceil(tokens / TILE) * columns);
    let here = at(tokens);
    let full = (libm::ceil(tokens / TILE) - 1.0) * TILE;
    if full > 0.0 && here < at(full) {
        return at(full);
    }
    here
}

/// Rows and columns of a tile.
const TILE: f64 = 128.0;

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
    let peak = device
        .peak(matmul.compute)
        .map_or(f64::NAN, gpuwise_units::FlopPerSecond::get);
    let (m, n, k) = (matmul.tokens, matmul.rows, matmul.columns);
    let bytes = (m * k + k * n) * element + m * n * 2.0;
    let reading = bytes / (device.bandwidth().get() * get(P::MemoryRate));
    let units = f64::from(device.units().unwrap_or(100));
    let exponent = get(P::TileExponent).min(1.0);
    let rows = computed_rows(m, n, |tiles| tile_use(tiles, units, exponent));
    let computing = 2.0 * rows * n * k / (peak * rate);
    smooth_max(reading, computing, get(P::Overlap))
}

/// Tokens as a matmul computes them: padded to a tile of 16.
pub(super) fn padded(tokens: f64) -> f64 {
    if tokens < 256.0 {
        libm::ceil(tokens / 16.0) * 16.0
    } else {
        tokens
    }
}

pub(super) fn prefill_visible(window: Window, context: f64) -> f64 {
    match window {
        Window::Full => context,
        Window::Sliding(w) | Window::Chunked(w) => context.min(w.0 as f64),
    }
}
