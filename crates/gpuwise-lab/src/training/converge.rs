//! Time to a quality: samples that a benchmark needs, over samples a second.
//!
//! How many samples are needed is given: the organisers' reference runs, by global batch. A step is
//! the GPU's share of the batch, operations and bytes in turn, and what does not shrink with GPUs.

use super::fit::{Prior, least_squares};
use gpuwise_domain::training_facts::{ConvergenceBenchmark, ConvergenceConstants};
use gpuwise_size::training::time::{
    STREAM, TrainingConstants, TrainingParameter as P, TrainingSystem,
};

/// The link for which a step's constant part is stated, in bytes a second.
const REFERENCE_LINK: f64 = 450e9;

#[derive(Debug, Clone, PartialEq)]
pub struct ConvergenceRun<'a> {
    pub benchmark: &'a ConvergenceBenchmark,
    /// What each GPU reaches.
    pub system: TrainingSystem,
    pub gpus: f64,
    /// Samples of a step over all GPUs; `None`: as many as a GPU usually has, on each.
    pub batch: Option<f64>,
    /// Whether the software calls no vendor library.
    pub without_libraries: bool,
    /// Operations a second in NVFP4, where submissions of the row's software may use it.
    pub four_bit: Option<f64>,
}

impl ConvergenceRun<'_> {
    /// Matmul operations a second of one GPU in the benchmark's formats, timed alone.
    ///
    /// Where submissions of one release use FP8 and NVFP4 side by side, the geometric mean of both.
    fn rate(&self) -> f64 {
        if !self.benchmark.eight_bit {
            return self.system.half;
        }
        let eight = self.system.fp8.unwrap_or(self.system.half);
        match self.four_bit {
            Some(four) if self.benchmark.four_bit => libm::sqrt(eight * four.max(eight)),
            _ => eight,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// Samples of a step.
    pub batch: f64,
    /// Samples until the quality is reached.
    pub samples: f64,
    /// Seconds of a step.
    pub step: f64,
    /// Samples a second.
    pub throughput: f64,
    pub seconds: f64,
}

pub fn converge(run: &ConvergenceRun<'_>, constants: &ConvergenceConstants) -> Convergence {
    let benchmark = run.benchmark;
    let gpus = run.gpus.max(1.0);
    let batch = run
        .batch
        .filter(|batch| *batch >= 1.0)
        .unwrap_or(benchmark.usual_batch * gpus);
    let rate = run.rate();
    let libraries = if run.without_libraries {
        constants.without_libraries
    } else {
        1.0
    };
    let sample = (benchmark.sample_flops / (rate * benchmark.share)
        + benchmark.sample_bytes / run.system.memory)
        / libraries;
    let together = if gpus > 1.0 {
        benchmark.step_seconds * REFERENCE_LINK / run.system.scale_up
    } else {
        0.0
    };
    let step = batch / gpus * sample + together;
    let samples = needed(&benchmark.samples, batch);
    let throughput = batch / step;
    Convergence {
        batch,
        samples,
        step,
        throughput,
        seconds: samples / throughput * (1.0 + benchmark.evaluation) + constants.fixed_seconds,
    }
}

/// Samples until the quality is reached at a global batch; beyond the largest that was tried they
/// grow with the root of the batch.
fn needed(table: &[(f64, f64)], batch: f64) -> f64 {
    let Some(first) = table.first() else {
        return f64::NAN;
    };
    if batch <= first.0 {
        return first.1;
    }
    for pair in table.windows(2) {
        let [(left, low), (right, high)] = pair else {
            continue;
        };
        if batch <= *right {
            let way = libm::log(batch / left) / libm::log(right / left);
            return low + way * (high - low);
        }
    }
    let last = table.last().unwrap_or(first);
    last.1 * libm::sqrt(batch / last.0)
}

#[derive(Debug, Clone)]
pub struct ConvergenceFit<'a> {
    pub run: ConvergenceRun<'a>,
    /// Seconds to the quality, or samples a second.
    pub measured: f64,
    /// Whether samples a second were measured.
    pub speed: bool,
}

/// What is known of a benchmark's share, bytes and constant part before any of its runs.
///
/// Of a network whose passes are counted, what Megatron's runs make of matmuls and passes; of others,
/// a byte for every 400 operations, as matmuls of middling width have.
fn priors(benchmark: &ConvergenceBenchmark, megatron: &TrainingConstants) -> [Prior; 3] {
    let known = |value: f64, spread| Prior {
        logarithm: libm::log(value),
        spread,
    };
    let step = known(0.02, 1.0);
    if benchmark.width <= 0.0 || benchmark.pass_bytes <= 0.0 {
        return [
            known(0.6, 0.5),
            known(benchmark.sample_flops / 400.0, 1.0),
            step,
        ];
    }
    let matmul = if benchmark.eight_bit {
        P::Fp8Matmul
    } else {
        P::HalfMatmul
    };
    let narrow = 1.0 + megatron.get(P::NarrowWidth) / benchmark.width;
    let bytes = benchmark.pass_bytes * megatron.get(P::Passes) / STREAM;
    [
        known(megatron.get(matmul) / narrow, 0.2),
        known(bytes, 0.4),
        step,
    ]
}

/// What runs reach, by benchmark in the order given, and what all share, from measured runs and from
/// what Megatron's runs make of a network's operations and bytes.
///
/// What the benchmarks given already say of shares, bytes and constant parts is not looked at.
pub fn fit_convergence(
    benchmarks: &[ConvergenceBenchmark],
    runs: &[&ConvergenceFit<'_>],
    megatron: &TrainingConstants,
) -> (Vec<ConvergenceBenchmark>, ConvergenceConstants) {
    let start = ConvergenceConstants::default();
    let mut all = [start.fixed_seconds, start.without_libraries]
        .map(|value| Prior {
            logarithm: libm::log(value),
            spread: 0.7,
        })
        .to_vec();
    for benchmark in benchmarks {
        all.extend(priors(benchmark, megatron));
    }
    let residuals = |logarithms: &[f64]| {
        let (fitted, constants) = unpacked(benchmarks, logarithms);
        runs.iter()
            .map(|row| {
                let known = fitted.iter().find(|b| b.name == row.run.benchmark.name);
                let run = ConvergenceRun {
                    benchmark: known.unwrap_or(row.run.benchmark),
                    ..row.run.clone()
                };
                let outcome = converge(&run, &constants);
                let predicted = if row.speed {
                    outcome.throughput
                } else {
                    outcome.seconds
                };
                libm::log(predicted / row.measured)
            })
            .collect()
    };
    let logarithms = least_squares(&all, &residuals);
    unpacked(benchmarks, &logarithms)
}

fn unpacked(
    benchmarks: &[ConvergenceBenchmark],
    logarithms: &[f64],
) -> (Vec<ConvergenceBenchmark>, ConvergenceConstants) {
    let value = |at: usize| logarithms.get(at).map_or(1.0, |l| libm::exp(*l));
    let fitted = benchmarks
        .iter()
        .enumerate()
        .map(|(at, benchmark)| ConvergenceBenchmark {
            share: value(2 + 3 * at),
            sample_bytes: value(3 + 3 * at),
            step_seconds: value(4 + 3 * at),
            ..benchmark.clone()
        })
        .collect();
    let constants = ConvergenceConstants {
        fixed_seconds: value(0),
        without_libraries: value(1),
    };
    (fitted, constants)
}
