//! Refits the constants of training steps and writes `catalogue/training.toml` anew:
//!
//!     cargo run -p gpuwise-size --example refit_training -- DATA/questions > training.toml
//!
//! The folder holds tables of questions with measured values. Facts of the file are kept as they
//! are; sets of constants and errors are fitted. Errors are of constants that had not seen the model,
//! the GPU or the generation that they predict. With `--rows`, every row with its errors goes to
//! standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it is for")]

use gpuwise_domain::{catalogue::Catalogue, question::Question, training_facts::TrainingFacts};
use gpuwise_read::{
    catalogue::{ModelCatalogue, read_gpus, read_training_facts},
    question::read_questions,
};
use gpuwise_size::{
    answer::{TrainingWanted, read_training},
    training::time::{
        FitRow, SETS, StepWork, TRAINING_PARAMETERS, TrainingConstants, TrainingSystem,
        fit_training, rows_of, set_of,
    },
};
use std::{collections::BTreeMap, error::Error, fmt::Write as _, fs, path::Path, path::PathBuf};

mod convergence;

/// A run, what it belongs to, and how it is shown.
struct Sample {
    row: FitRow,
    id: String,
    model: String,
    gpu: String,
    generation: String,
    set: &'static str,
    kind: &'static str,
}

const TABLES: [&str; 3] = [
    "llm_foundry_training",
    "megatron_bridge_training",
    "nemo_training",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"))
        .ok_or("name the folder of tables of questions")?;
    let verbose = arguments.iter().any(|argument| argument == "--rows");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue");
    let text = fs::read_to_string(root.join("training.toml"))?;
    let facts = read_training_facts("training.toml", &text)?;
    let samples = samples(Path::new(folder), &root, &facts)?;
    let kept = text
        .split("# Fitted on ")
        .next()
        .unwrap_or(&text)
        .trim_end();
    let runs = convergence::runs(Path::new(folder), &root, &facts)?;
    print!(
        "{kept}\n\n{}{}",
        fitted(&samples, verbose),
        convergence::fitted(&runs, &facts, verbose)
    );
    Ok(())
}

fn samples(
    folder: &Path,
    root: &Path,
    facts: &TrainingFacts,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", &fs::read_to_string(root.join("gpus.toml"))?)?,
        ..Catalogue::default()
    };
    let mut models = ModelCatalogue::default();
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("models"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in files {
        models.add(&file.display().to_string(), &fs::read_to_string(&file)?)?;
    }
    let mut out = Vec::new();
    for table in TABLES {
        let text = fs::read_to_string(folder.join(format!("{table}.csv")))?;
        for question in read_questions(&text)? {
            if TrainingWanted::of(&question) != Some(TrainingWanted::TokensPerSecondPerGpu) {
                continue;
            }
            match sample(&question, &models, &catalogue, facts) {
                Ok(sample) => out.push(sample),
                Err(why) => eprintln!("{}: {why}", question.id),
            }
        }
    }
    Ok(out)
}

fn sample(
    question: &Question,
    models: &ModelCatalogue,
    catalogue: &Catalogue,
    facts: &TrainingFacts,
) -> Result<Sample, String> {
    let (entry, architecture) = models
        .resolve(&question.model)
        .map_err(|error| error.to_string())?;
    let reading = read_training(question, &architecture, catalogue)
        .ok_or("no question about training")?
        .map_err(|refusal| refusal.to_string())?;
    let measured = question.value.ok_or("no value")?;
    let system = TrainingSystem::usual(reading.gpu, facts);
    let kind = rows_of(&architecture, reading.setup.framework);
    Ok(Sample {
        id: question.id.clone(),
        model: entry.id.clone(),
        gpu: reading.gpu.name.clone(),
        generation: reading.gpu.generation.clone(),
        set: set_of(reading.setup.framework),
        kind,
        row: FitRow {
            work: StepWork::new(&architecture, &reading.setup, &system),
            setup: reading.setup,
            system,
            measured,
        },
    })
}

fn fitted(samples: &[Sample], verbose: bool) -> String {
    let mut text = String::from(
        "# Fitted on tables of measured runs; not edited by hand. Errors: mean absolute, in percent.\n",
    );
    let mut held_out: BTreeMap<(&str, &str), Vec<Seen>> = BTreeMap::new();
    let mut others: Option<TrainingConstants> = None;
    // Megatron first: it tells what the others cannot.
    for set in SETS.into_iter().rev() {
        let here: Vec<&Sample> = samples.iter().filter(|sample| sample.set == set).collect();
        let rows: Vec<&FitRow> = here.iter().map(|sample| &sample.row).collect();
        let constants = fit_training(&rows);
        let ratios: Vec<f64> = rows.iter().map(|row| ratio(row, &constants)).collect();
        let shown = completed(&constants, others.as_ref());
        write_set(&mut text, set, &shown, &ratios);
        others.get_or_insert(shown);
        for (name, key) in groups() {
            let mut names: Vec<&str> = here.iter().map(|sample| key(sample)).collect();
            names.sort_unstable();
            names.dedup();
            for left in names {
                let kept: Vec<&FitRow> = here
                    .iter()
                    .filter(|sample| key(sample) != left)
                    .map(|sample| &sample.row)
                    .collect();
                let constants = fit_training(&kept);
                for sample in here.iter().filter(|sample| key(sample) == left) {
                    let ratio = ratio(&sample.row, &constants);
                    let seen = (left.to_owned(), ratio);
                    held_out.entry((sample.kind, name)).or_default().push(seen);
                    if verbose {
                        eprintln!(
                            "{name:10} {:28} {:40} {:16} measured {:9.0} predicted / measured {ratio:.3}",
                            sample.id, sample.model, sample.gpu, sample.row.measured
                        );
                    }
                }
            }
        }
    }
    for ((rows, left_out), ratios) in &held_out {
        write_error(&mut text, rows, left_out, ratios);
    }
    text
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
    for (at, info) in TRAINING_PARAMETERS.iter().enumerate() {
        if (constants.get(info.parameter) / info.prior - 1.0).abs() < 1e-3 {
            out.logarithms[at] = other.logarithms[at];
        }
    }
    out
}

/// What was left out, and predicted over measured without it.
type Seen = (String, f64);

type Key = fn(&Sample) -> &str;

fn groups() -> [(&'static str, Key); 3] {
    [
        ("model", |sample| &sample.model),
        ("gpu", |sample| &sample.gpu),
        ("generation", |sample| &sample.generation),
    ]
}

/// Predicted over measured.
fn ratio(row: &FitRow, constants: &TrainingConstants) -> f64 {
    row.predicted(constants) / row.measured
}

fn mean_error(ratios: &[f64]) -> f64 {
    100.0 * ratios.iter().map(|r| (r - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64
}

/// The value below which a share of sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn write_set(text: &mut String, set: &str, constants: &TrainingConstants, ratios: &[f64]) {
    let _ = write!(
        text,
        "\n[[set]]\nname = \"{set}\"\nrows = {}\nerror_percent = {:.1}\n\n[set.value]\n",
        ratios.len(),
        mean_error(ratios)
    );
    for info in TRAINING_PARAMETERS {
        let _ = writeln!(text, "{} = {:.5}", info.key, constants.get(info.parameter));
    }
}

fn write_error(text: &mut String, rows: &str, left_out: &str, seen: &[Seen]) {
    let ratios: Vec<f64> = seen.iter().map(|(_, ratio)| *ratio).collect();
    let mut errors: Vec<f64> = ratios.iter().map(|r| 100.0 * (r - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let mut inverse: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
    inverse.sort_by(f64::total_cmp);
    let _ = write!(
        text,
        "\n[[error]]\nrows = \"{rows}\"\nleft_out = \"{left_out}\"\ncount = {}\nmean_percent = {:.1}\nmedian_percent = {:.1}\nrange = [{:.3}, {:.3}]\n",
        ratios.len(),
        mean_error(&ratios),
        quantile(&errors, 0.5),
        quantile(&inverse, 0.1),
        quantile(&inverse, 0.9)
    );
    let mut each: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, ratio) in seen {
        each.entry(name).or_default().push(*ratio);
    }
    for (name, ratios) in each {
        let _ = write!(
            text,
            "\n[[error.each]]\nname = \"{name}\"\ncount = {}\nmean_percent = {:.1}\n",
            ratios.len(),
            mean_error(&ratios)
        );
    }
}
