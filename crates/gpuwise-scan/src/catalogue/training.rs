use super::{CatalogueError, nouns, row};
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

row! {
    /// Shares of the dense peak.
    #[serde(deny_unknown_fields)]
    Matmul => MatmulShare {
        #[serde(default)]
        gpu: String => gpu,
        generation: String => generation,
        half: f64 => half,
        fp8: Option<f64> => fp8,
        source: String => source,
    }
}

row! {
    /// Shares of the BF16 peak.
    #[serde(deny_unknown_fields)]
    Attention => AttentionShare {
        generation: String => generation,
        flash2: f64 => flash2,
        vendor: f64 => vendor,
        source: String => source,
    }
}

row! {
    /// 10⁹ bytes a second of one GPU.
    #[serde(deny_unknown_fields)]
    Network => UsualNetwork {
        #[serde(default)]
        gpu: String => gpu,
        generation: String => generation,
        gbs: f64 => bytes_per_second = gbs * 1e9,
        source: String => source,
    }
}

row! {
    #[serde(deny_unknown_fields)]
    Set => ConstantSet {
        name: String => name,
        rows: u64 => rows,
        error_percent: f64 => error,
        value: BTreeMap<String, f64> => values = value.into_iter().collect(),
    }
}

row! {
    #[serde(deny_unknown_fields)]
    Left => Residual {
        rows: String => rows,
        gpu: String => gpu,
        count: u64 => count,
        shift: f64 => shift,
    }
}

row! {
    #[serde(deny_unknown_fields)]
    HeldOut => HeldOutError {
        rows: String => rows,
        left_out: String => left_out,
        count: u64 => count,
        mean_percent: f64 => mean,
        median_percent: f64 => median,
        range: [f64; 2] => range = range.into(),
        #[serde(default)]
        each: Vec<Each> => each = each.into_iter().map(|one| (one.name, one.count, one.mean_percent)).collect(),
    }
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

row! {
    #[serde(deny_unknown_fields)]
    Convergence => ConvergenceConstants {
        fixed_seconds: f64 => fixed_seconds,
        without_libraries: f64 => without_libraries,
    }
}

/// Reads `training.toml`.
///
/// # Errors
/// When it is not TOML of this form, a row has no source, or a figure is impossible.
pub fn read_training_facts(file: &str, text: &str) -> Result<TrainingFacts, CatalogueError> {
    let parsed: File = super::from_toml(file, text)?;
    check(file, &parsed)?;
    Ok(TrainingFacts {
        matmul: nouns(parsed.matmul),
        attention: nouns(parsed.attention),
        networks: nouns(parsed.network),
        sets: nouns(parsed.set),
        residuals: nouns(parsed.residual),
        errors: nouns(parsed.error),
        benchmarks: (parsed.benchmark.into_iter())
            .map(|row| benchmark(row, &parsed.run))
            .collect(),
        convergence: parsed.convergence.map(Into::into),
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
