//! What the catalogue says of training, fitted anew on measured rows: constants of steps, what runs of
//! benchmarks reach, and what rows of a kind on a GPU leave.

mod converge;
mod fit;

pub use converge::{Convergence, ConvergenceFit, ConvergenceRun, converge, fit_convergence};
pub use fit::{FitRow, fit_training};

use crate::answer::{TrainingWanted, four_bit_rate, read_training};
use gpuwise_domain::{
    catalogue::Catalogue,
    model::Architecture,
    question::{Load, Question},
    training::{Framework, Recipe},
    training_facts::{ConvergenceBenchmark, Residual, TrainingFacts},
};
use gpuwise_size::training::time::{
    SETS, StepWork, TRAINING_PARAMETERS, TrainingConstants, constants_of, rows_of, set_of,
};
use gpuwise_units::math;
use std::{collections::BTreeMap, collections::BTreeSet};

/// Tables that constants of training are fitted on.
pub const TABLES: [&str; 4] = [
    "llm_foundry_training",
    "megatron_bridge_training",
    "nemo_training",
    "mlperf_training",
];
/// The table that what remains of the memory of fine-tuning was read from.
pub const MEMORY_TABLE: &str = "training_memory_throughput";

/// GPUs of the largest systems whose runs of a benchmark are fitted: one rack.
const LARGEST: f64 = 72.0;
/// Tokens of a sample of the benchmarks that train a language model.
const LENGTH: u64 = 8192;
/// Rows that weigh as much as the belief that nothing is left.
const NOTHING: f64 = 4.0;
/// Fifths of the configurations: rows that ask the same belong to one.
const FOLDS: u64 = 5;
/// Names of the two kinds of rows of benchmarks.
pub const TIMES: &str = "time to train";
/// The same of speeds.
pub const SPEEDS: &str = "samples a second";

/// A measured row that constants of training are fitted on.
#[derive(Debug, Clone)]
pub struct TrainingRow<'a> {
    /// Catalogue name of the model, or of the benchmark.
    pub model: String,
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// Architecture generation, under which shares are fitted where the GPU has none.
    pub generation: String,
    /// Which rows it is of (`dense`, `time to train`).
    pub kind: &'static str,
    /// Whether a step or a run to a quality was measured.
    pub measured: MeasuredRun<'a>,
}

#[derive(Debug, Clone)]
pub enum MeasuredRun<'a> {
    Steps(Box<FitRow>),
    /// Time to train of an MLPerf benchmark, from which its samples to converge follow.
    Benchmark(ConvergenceFit<'a>),
}

/// The row that a question with its value is; `None` where nothing is fitted on it.
pub fn training_row<'a>(
    question: &Question,
    model: &str,
    architecture: Option<&Architecture>,
    catalogue: &'a Catalogue,
) -> Option<TrainingRow<'a>> {
    let wanted = TrainingWanted::of(question)?;
    let measured = question.value?;
    let facts = &catalogue.training;
    let gpu = catalogue.gpu(&question.gpu)?;
    let (model, kind, measured) = match wanted {
        TrainingWanted::TokensPerSecondPerGpu => {
            let reading = read_training(question, architecture?, catalogue)?.ok()?;
            let framework = reading.setup.framework;
            if !matches!(framework, Framework::PyTorch | Framework::Megatron) {
                return None;
            }
            let system = reading.system(facts);
            let row = FitRow {
                work: StepWork::new(&reading.architecture, &reading.setup, &system),
                setup: reading.setup.clone(),
                system,
                measured,
            };
            let kind = rows_of(&reading.architecture, framework);
            (model.to_owned(), kind, MeasuredRun::Steps(Box::new(row)))
        }
        TrainingWanted::TimeToTrain | TrainingWanted::Throughput => {
            let benchmark = facts.benchmark(question.extra("benchmark")?)?;
            let speed = wanted == TrainingWanted::Throughput;
            let run = ConvergenceFit {
                run: ConvergenceRun {
                    benchmark,
                    system: gpuwise_size::training::time::TrainingSystem::usual(gpu, facts),
                    gpus: f64::from(question.gpus?),
                    batch: match question.load {
                        Load::InFlight(samples) => Some(samples),
                        _ => None,
                    },
                    without_libraries: question.engine.contains("tinygrad"),
                    four_bit: four_bit_rate(&question.engine, gpu, facts),
                },
                measured: if speed { measured } else { measured * 60.0 },
                speed,
            };
            let kind = if speed { SPEEDS } else { TIMES };
            (benchmark.name.clone(), kind, MeasuredRun::Benchmark(run))
        }
        _ => return None,
    };
    Some(TrainingRow {
        model,
        gpu: gpu.name.clone(),
        generation: gpu.generation.clone(),
        kind,
        measured,
    })
}

impl TrainingRow<'_> {
    /// Which set of constants its steps have.
    pub fn set(&self) -> Option<&'static str> {
        match &self.measured {
            MeasuredRun::Steps(row) => Some(set_of(row.setup.framework)),
            MeasuredRun::Benchmark(_) => None,
        }
    }

    /// GPUs that the row ran on, all hosts together.
    pub fn gpus(&self) -> f64 {
        match &self.measured {
            MeasuredRun::Steps(row) => row.work.gpus,
            MeasuredRun::Benchmark(row) => row.run.gpus,
        }
    }

    /// Rows among which it leaves something: its kind, of one benchmark.
    fn cell(&self) -> (String, String) {
        let rows = match &self.measured {
            MeasuredRun::Steps(_) => self.kind.to_owned(),
            MeasuredRun::Benchmark(_) => format!("{}: {}", self.kind, self.model),
        };
        (rows, self.gpu.clone())
    }

    /// Predicted over measured, before what runs nearby leave.
    fn plain(&self, facts: &TrainingFacts) -> f64 {
        match &self.measured {
            MeasuredRun::Steps(row) => {
                row.predicted(&constants_of(row.setup.framework, facts)) / row.measured
            }
            MeasuredRun::Benchmark(row) => {
                let run = ConvergenceRun {
                    benchmark: facts.benchmark(&self.model).unwrap_or(row.run.benchmark),
                    ..row.run.clone()
                };
                let outcome = converge(&run, &facts.convergence.unwrap_or_default());
                let predicted = if row.speed {
                    outcome.throughput
                } else {
                    outcome.seconds
                };
                predicted / row.measured
            }
        }
    }

    /// Predicted over measured.
    pub fn ratio(&self, facts: &TrainingFacts) -> f64 {
        let (rows, gpu) = self.cell();
        self.plain(facts) * libm::exp(-facts.residual(&rows, &gpu).unwrap_or(0.0))
    }
}

/// Which fifth of the configurations a question belongs to, by what it asks (FNV-1a).
pub fn fifth(question: &Question) -> u64 {
    let asked = format!(
        "{:?}",
        Question {
            id: String::new(),
            metric: String::new(),
            unit: String::new(),
            value: None,
            ..question.clone()
        }
    );
    let hash = math::fnv1a(math::FNV1A, asked.as_bytes());
    hash % FOLDS + 1
}

/// The same facts with what these rows say in place of what was fitted.
pub fn refit(rows: &[&TrainingRow<'_>], facts: &TrainingFacts) -> TrainingFacts {
    let mut out = TrainingFacts {
        sets: Vec::new(),
        residuals: Vec::new(),
        errors: facts.errors.clone(),
        ..facts.clone()
    };
    let mut others: Option<TrainingConstants> = None;
    // Megatron first: it tells what the others cannot.
    for set in SETS.into_iter().rev() {
        let steps: Vec<&FitRow> = rows.iter().filter_map(|row| steps_of(row, set)).collect();
        let shown = completed(&fit_training(&steps), others.as_ref());
        out.sets.push(shown.to_set(set, steps.len() as u64, 0.0));
        others.get_or_insert(shown);
    }
    benchmarks(rows, &mut out);
    out.residuals = residuals(rows, &out);
    let errors: Vec<f64> = (out.sets.iter())
        .map(|set| mean_error(rows, &out, |row| row.set() == Some(set.name.as_str())))
        .collect();
    for (set, error) in out.sets.iter_mut().zip(errors) {
        set.error = error;
    }
    out
}

/// Mean of |predicted / measured - 1|, in percent.
pub fn mean_error(
    rows: &[&TrainingRow<'_>],
    facts: &TrainingFacts,
    of: impl Fn(&TrainingRow<'_>) -> bool,
) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for row in rows.iter().filter(|row| of(row)) {
        sum += libm::fabs(row.ratio(facts) - 1.0);
        count += 1.0;
    }
    100.0 * sum / f64::max(count, 1.0)
}

fn steps_of<'a>(row: &'a TrainingRow<'_>, set: &str) -> Option<&'a FitRow> {
    match &row.measured {
        MeasuredRun::Steps(steps) if set_of(steps.setup.framework) == set => Some(steps),
        _ => None,
    }
}

/// With the other set's values for constants that no row moved from their priors.
fn completed(
    constants: &TrainingConstants,
    other: Option<&TrainingConstants>,
) -> TrainingConstants {
    let mut out = constants.clone();
    let Some(other) = other else {
        return out;
    };
    for ((value, theirs), info) in (out.logarithms.iter_mut())
        .zip(&other.logarithms)
        .zip(TRAINING_PARAMETERS)
    {
        if libm::fabs(libm::exp(*value) / info.prior - 1.0) < 1e-3 {
            *value = *theirs;
        }
    }
    out
}

/// Fits what runs of benchmarks reach. Systems beyond a rack count for benchmarks that nobody runs on
/// less.
fn benchmarks(rows: &[&TrainingRow<'_>], out: &mut TrainingFacts) {
    let own = || {
        rows.iter().filter_map(|row| match &row.measured {
            MeasuredRun::Benchmark(run) => Some(run),
            MeasuredRun::Steps(_) => None,
        })
    };
    let small: BTreeSet<&str> = own()
        .filter(|run| run.run.gpus <= LARGEST)
        .map(|run| run.run.benchmark.name.as_str())
        .collect();
    let fitted = own()
        .filter(|run| run.run.gpus <= LARGEST || !small.contains(run.run.benchmark.name.as_str()));
    let mut runs: Vec<ConvergenceFit<'_>> = fitted.cloned().collect();
    for benchmark in &out.benchmarks {
        let same = |row: &&&TrainingRow<'_>| benchmark.pretrains.as_ref() == Some(&row.model);
        runs.extend(
            rows.iter()
                .filter(same)
                .filter_map(|row| elsewhere(row, benchmark)),
        );
    }
    let borrowed: Vec<&ConvergenceFit<'_>> = runs.iter().collect();
    let megatron = constants_of(Framework::Megatron, out);
    let (mut fitted, constants) = fit_convergence(&out.benchmarks, &borrowed, &megatron);
    for benchmark in &mut fitted {
        let of = |run: &&ConvergenceFit<'_>| run.run.benchmark.name == benchmark.name;
        benchmark.runs = runs.iter().filter(of).count() as u64;
    }
    out.benchmarks = fitted;
    out.convergence = Some(constants);
}

/// A run of a benchmark's network in FP8 at the benchmark's length, published elsewhere.
fn elsewhere<'a>(
    row: &TrainingRow<'_>,
    benchmark: &'a ConvergenceBenchmark,
) -> Option<ConvergenceFit<'a>> {
    let MeasuredRun::Steps(steps) = &row.measured else {
        return None;
    };
    let setup = &steps.setup;
    let eight = matches!(setup.recipe, Recipe::Fp8 | Recipe::Fp8Block);
    let gpus = setup.layout.gpus() as f64;
    (eight && setup.sequence.0 == LENGTH).then(|| ConvergenceFit {
        run: ConvergenceRun {
            benchmark,
            system: steps.system.clone(),
            gpus,
            batch: Some(setup.global_batch as f64),
            without_libraries: false,
            four_bit: None,
        },
        measured: steps.measured * gpus / LENGTH as f64,
        speed: true,
    })
}

/// The median of what rows of each kind on each GPU leave, shrunk by how few they are.
fn residuals(rows: &[&TrainingRow<'_>], facts: &TrainingFacts) -> Vec<Residual> {
    let mut cells: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let left = libm::log(row.plain(facts));
        cells.entry(row.cell()).or_default().push(left);
    }
    (cells.into_iter())
        .map(|((rows, gpu), mut left)| {
            left.sort_by(f64::total_cmp);
            let count = left.len();
            let middle = |at: usize| left.get(at).copied().unwrap_or(0.0);
            let median = 0.5 * (middle(count.saturating_sub(1) / 2) + middle(count / 2));
            Residual {
                rows,
                gpu,
                count: count as u64,
                shift: median * count as f64 / (count as f64 + NOTHING),
            }
        })
        .collect()
}
