//! What peaks and bandwidth alone say: the roofline that everything learned is a correction of.

use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape, Processor};

/// Share of the peak that large products reach. The correction is learned; this centres it.
const COMPUTE: f64 = 0.75;
/// Share of the memory bandwidth that is reached: `gpu.mem_bw_empirical_scaling_factor` is 0.8 in
/// the system descriptions of ai-dynamo/aiconfigurator.
const MEMORY: f64 = 0.8;
/// Seconds of a launch: `gpu.mem_empirical_constant_latency` of the same descriptions.
const LAUNCH: f64 = 3e-6;
/// How sharply the longer of computing and reading rules: 1 adds them, ∞ takes the longer.
const SHARPNESS: f64 = 3.0;

/// Seconds of computing and of reading and writing, each alone at the peak. `None` where the silicon
/// has no such precision.
pub fn parts(
    processor: &Processor,
    precision: MatmulPrecision,
    shape: MatmulShape,
) -> Option<(f64, f64)> {
    let peak = processor.peak(precision)?;
    let compute = shape.operations() / peak;
    let memory = shape.bytes(precision) / processor.bandwidth;
    (compute.is_finite() && memory.is_finite()).then_some((compute, memory))
}

/// Seconds by the roofline: (computing^p + memory^p)^(1/p) + launch.
pub fn seconds(
    processor: &Processor,
    precision: MatmulPrecision,
    shape: MatmulShape,
) -> Option<f64> {
    let (compute, memory) = parts(processor, precision, shape)?;
    Some(smooth_maximum(compute / COMPUTE, memory / MEMORY) + LAUNCH)
}

/// Seconds by the roofline of whoever knows nothing else: the longer of both at the peaks, and a
/// launch. What others are held against.
pub fn plain(processor: &Processor, precision: MatmulPrecision, shape: MatmulShape) -> Option<f64> {
    let (compute, memory) = parts(processor, precision, shape)?;
    Some(compute.max(memory) + LAUNCH)
}

fn smooth_maximum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high <= 0.0 {
        return 0.0;
    }
    high * libm::pow(1.0 + libm::pow(low / high, SHARPNESS), 1.0 / SHARPNESS)
}

/// Names of [`features`], in order.
pub const FEATURES: [&str; 34] = [
    "log2 m",
    "log2 n",
    "log2 k",
    "log2 m·n",
    "log2 m·k",
    "log2 n·k",
    "log compute time",
    "log memory time",
    "log compute/memory",
    "log peak",
    "log bandwidth",
    "multiprocessors",
    "waves 64×64",
    "round-up 64×64",
    "waves 128×64",
    "round-up 128×64",
    "waves 128×128",
    "round-up 128×128",
    "waves 128×256",
    "round-up 128×256",
    "waves 256×128",
    "round-up 256×128",
    "waves 64×256",
    "round-up 64×256",
    "waves 256×256",
    "round-up 256×256",
    "padding of m to 16",
    "padding of m to 64",
    "padding of m to 128",
    "padding of m to 256",
    "powers of 2 in m",
    "powers of 2 in n",
    "powers of 2 in k",
    "log power",
];

/// Tiles of results that kernels of the libraries compute in one go.
const TILES: [(f64, f64); 7] = [
    (64.0, 64.0),
    (128.0, 64.0),
    (128.0, 128.0),
    (128.0, 256.0),
    (256.0, 128.0),
    (64.0, 256.0),
    (256.0, 256.0),
];

/// What decides how far a product stays behind its roofline: sizes, waves of tiles over the
/// multiprocessors and how full the last one is, padding, alignment. Missing is NaN.
pub fn features(
    processor: &Processor,
    precision: MatmulPrecision,
    shape: MatmulShape,
) -> [f64; FEATURES.len()] {
    let mut row = [f64::NAN; FEATURES.len()];
    let (m, n, k) = (f64::from(shape.m), f64::from(shape.n), f64::from(shape.k));
    let (compute, memory) = parts(processor, precision, shape).unwrap_or((f64::NAN, f64::NAN));
    let mut at = 0;
    let mut put = |value: f64| {
        if let Some(place) = row.get_mut(at) {
            *place = value;
        }
        at += 1;
    };
    for size in [m, n, k, m * n, m * k, n * k] {
        put(libm::log2(size));
    }
    put(libm::log(compute));
    put(libm::log(memory));
    put(libm::log(compute / memory));
    put(libm::log(processor.peak(precision).unwrap_or(f64::NAN)));
    put(libm::log(processor.bandwidth));
    let units = processor.units.map_or(f64::NAN, f64::from);
    put(units);
    for (rows, columns) in TILES {
        let waves = libm::ceil(m / rows) * libm::ceil(n / columns) / units;
        put(libm::log(waves));
        put(libm::ceil(waves) / waves);
    }
    for tile in [16.0, 64.0, 128.0, 256.0] {
        put(libm::ceil(m / tile) * tile / m);
    }
    for size in [shape.m, shape.n, shape.k] {
        put(f64::from(size.trailing_zeros().min(16)));
    }
    put(libm::log(processor.power.unwrap_or(f64::NAN)));
    row
}
