use super::CatalogueError;
use gpuwise_domain::training_facts::{
    AttentionShare, ConstantSet, ConvergenceBenchmark, ConvergenceConstants, HeldOutError,
    MatmulShare, Residual, TrainingFacts, UsualNetwork,
};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    matmul: Vec<Matmul>,
    #[serde(default)]
    attention: Vec<Attention>,
    #[serde(default)]
    network: Vec<Network>,
    #[serde(default)]
    set: Vec<Set>,
    #[serde(default)]
    residual: Vec<Left>,
    #[serde(default)]
    error: Vec<HeldOut>,
    #[serde(default)]
    benchmark: Vec<Benchmark>,
    #[serde(default)]
    run: Vec<Run>,
    convergence: Option<Convergence>,
}

/// Shares of the dense peak.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Matmul {
    #[serde(default)]
    gpu: String,
    generation: String,
    half: f64,
    fp8: Option<f64>,
    source: String,
}

/// Shares of the BF16 peak.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attention {
    generation: String,
    flash2: f64,
    vendor: f64,
    source: String,
}

/// 10⁹ bytes a second of one GPU.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    #[serde(default)]
    gpu: String,
    generation: String,
    gbs: f64,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: String,
    rows: u64,
    error_percent: f64,
    value: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Left {
    rows: String,
    gpu: String,
    count: u64,
    shift: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldOut {
    rows: String,
    left_out: String,
    count: u64,
    mean_percent: f64,
    median_percent: f64,
    range: [f64; 2],
    #[serde(default)]
    each: Vec<Each>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Each {
    name: String,
    count: u64,
    mean_percent: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Benchmark {
    name: String,
    network: String,
    sample_gflop: f64,
    #[serde(default)]
    eight_bit: bool,
    #[serde(default)]
    four_bit: bool,
    #[serde(default)]
    evaluation: f64,
    #[serde(default)]
    width: f64,
    #[serde(default)]
    pass_megabytes: f64,
    pretrains: Option<String>,
    samples: Vec<[f64; 2]>,
    usual_batch: f64,
    source: String,
}

/// What was fitted of a benchmark's runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    benchmark: String,
    #[serde(default)]
    rows: u64,
    share: f64,
    sample_megabytes: f64,
    step_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Convergence {
    fixed_seconds: f64,
    without_libraries: f64,
}

/// Reads `training.toml`.
///
/// # Errors
/// When it is not TOML of this form, a row has no source, or a figure is impossible.
pub fn read_training_facts(file: &str, text: &str) -> Result<TrainingFacts, CatalogueError> {
    let parsed: File = super::from_toml(file, text)?;
    check(file, &parsed)?;
    Ok(TrainingFacts {
        matmul: parsed.matmul.into_iter().map(matmul).collect(),
        attention: parsed.attention.into_iter().map(attention).collect(),
        networks: parsed.network.into_iter().map(network).collect(),
        sets: parsed.set.into_iter().map(set).collect(),
        residuals: (parsed.residual.into_iter())
            .map(|row| Residual {
                rows: row.rows,
                gpu: row.gpu,
                count: row.count,
                shift: row.shift,
            })
            .collect(),
        errors: parsed.error.into_iter().map(held_out).collect(),
        benchmarks: (parsed.benchmark.into_iter())
            .map(|row| benchmark(row, &parsed.run))
            .collect(),
        convergence: parsed.convergence.map(|row| ConvergenceConstants {
            fixed_seconds: row.fixed_seconds,
            without_libraries: row.without_libraries,
        }),
    })
}

fn check(file: &str, parsed: &File) -> Result<(), CatalogueError> {
    let wrong = |place: String, problem: &str| Err(CatalogueError::new(file, place, problem));
    for row in &parsed.matmul {
        let shares = [Some(row.half), row.fp8];
        if shares
            .into_iter()
            .flatten()
            .any(|s| !(0.0..=1.0).contains(&s))
        {
            return wrong(
                format!("matmul {} {}", row.generation, row.gpu),
                "a share of the peak lies between 0 and 1",
            );
        }
    }
    for row in &parsed.attention {
        if [row.flash2, row.vendor]
            .into_iter()
            .any(|s| !(s > 0.0 && s <= 1.0))
        {
            return wrong(
                format!("attention {}", row.generation),
                "a share of the peak lies between 0 and 1",
            );
        }
    }
    for row in &parsed.network {
        if !(row.gbs > 0.0 && row.gbs.is_finite()) {
            return wrong(
                format!("network {} {}", row.generation, row.gpu),
                "gbs is a positive number of 10^9 bytes a second",
            );
        }
    }
    for row in &parsed.set {
        if row.value.values().any(|v| !(*v > 0.0 && v.is_finite())) {
            return wrong(format!("set {}", row.name), "constants are positive");
        }
    }
    for row in &parsed.residual {
        if !row.shift.is_finite() || row.shift.abs() >= 1.0 {
            return wrong(
                format!("residual {} {}", row.rows, row.gpu),
                "a shift is a logarithm between -1 and 1",
            );
        }
    }
    for row in &parsed.benchmark {
        let rising = row.samples.is_sorted_by(|a, b| a[0] < b[0]);
        let positive = row.samples.iter().flatten().all(|v| *v > 0.0);
        let figures = [row.sample_gflop, row.usual_batch];
        let finite = figures.into_iter().all(|v| v > 0.0 && v.is_finite());
        let optional = [row.evaluation, row.width, row.pass_megabytes];
        if optional.into_iter().any(|v| !(v >= 0.0 && v.is_finite())) {
            return wrong(
                format!("benchmark {}", row.name),
                "evaluation, width and pass_megabytes are not negative",
            );
        }
        if row.samples.is_empty() || !rising || !positive || !finite {
            return wrong(
                format!("benchmark {}", row.name),
                "samples are [global batch, samples] by rising batch; all figures are positive",
            );
        }
    }
    for row in &parsed.run {
        let figures = [row.share, row.sample_megabytes, row.step_ms];
        if figures.into_iter().any(|v| !(v > 0.0 && v.is_finite())) {
            return wrong(format!("run {}", row.benchmark), "figures are positive");
        }
    }
    let sources = (parsed.matmul.iter().map(|row| &row.source))
        .chain(parsed.attention.iter().map(|row| &row.source))
        .chain(parsed.network.iter().map(|row| &row.source))
        .chain(parsed.benchmark.iter().map(|row| &row.source));
    for source in sources {
        if source.trim().is_empty() {
            return wrong("a row".into(), "every row names its source");
        }
    }
    Ok(())
}

fn matmul(row: Matmul) -> MatmulShare {
    MatmulShare {
        gpu: row.gpu,
        generation: row.generation,
        half: row.half,
        fp8: row.fp8,
        source: row.source,
    }
}

fn attention(row: Attention) -> AttentionShare {
    AttentionShare {
        generation: row.generation,
        flash2: row.flash2,
        vendor: row.vendor,
        source: row.source,
    }
}

fn network(row: Network) -> UsualNetwork {
    UsualNetwork {
        gpu: row.gpu,
        generation: row.generation,
        bytes_per_second: row.gbs * 1e9,
        source: row.source,
    }
}

fn set(row: Set) -> ConstantSet {
    ConstantSet {
        name: row.name,
        rows: row.rows,
        error: row.error_percent,
        values: row.value.into_iter().collect(),
    }
}

fn held_out(row: HeldOut) -> HeldOutError {
    HeldOutError {
        rows: row.rows,
        left_out: row.left_out,
        count: row.count,
        mean: row.mean_percent,
        median: row.median_percent,
        range: (row.range[0], row.range[1]),
        each: (row.each.into_iter())
            .map(|each| (each.name, each.count, each.mean_percent))
            .collect(),
    }
}

/// What runs reach before any of a benchmark was fitted: 0.6 of the timed rate, and a byte for
/// every 400 operations.
fn benchmark(row: Benchmark, runs: &[Run]) -> ConvergenceBenchmark {
    let flops = row.sample_gflop * 1e9;
    let run = runs.iter().find(|run| run.benchmark == row.name);
    ConvergenceBenchmark {
        network: row.network,
        sample_flops: flops,
        runs: run.map_or(0, |run| run.rows),
        eight_bit: row.eight_bit,
        four_bit: row.four_bit,
        evaluation: row.evaluation,
        width: row.width,
        pass_bytes: row.pass_megabytes * 1e6,
        pretrains: row.pretrains,
        share: run.map_or(0.6, |run| run.share),
        sample_bytes: run.map_or(flops / 400.0, |run| run.sample_megabytes * 1e6),
        step_seconds: run.map_or(0.02, |run| run.step_ms * 1e-3),
        samples: row.samples.into_iter().map(|[b, s]| (b, s)).collect(),
        usual_batch: row.usual_batch,
        source: row.source,
        name: row.name,
    }
}
