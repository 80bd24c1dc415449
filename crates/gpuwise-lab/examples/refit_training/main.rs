//! Refits the constants of training steps and writes `catalogue/training.toml` anew:
//!
//!     cargo run -p gpuwise-lab --example refit_training -- DATA/questions > training.toml
//!
//! The folder holds tables of questions with measured values. Facts of the file are kept as they
//! are; sets of constants, what rows leave, and errors are fitted. Errors are of constants that had not
//! seen the configuration, the model, the GPU or the generation that they predict. With `--rows`, every
//! row with its errors goes to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it is for")]

use gpuwise_domain::{catalogue::Catalogue, question::Question, training_facts::TrainingFacts};
use gpuwise_lab::training::{
    SPEEDS, TABLES, TIMES, TrainingRow, fifth, mean_error, refit, training_row,
};
use gpuwise_read::{
    catalogue::{ModelCatalogue, read_gpus, read_training_facts},
    question::read_questions,
};
use gpuwise_size::training::time::TRAINING_PARAMETERS;
use std::{collections::BTreeMap, error::Error, fmt::Write as _, fs, path::Path, path::PathBuf};

/// A row, its name, and the fifth of the configurations that it is in.
struct Sample<'a> {
    row: TrainingRow<'a>,
    id: String,
    fold: String,
}

/// GPUs of the largest systems of a benchmark of which errors are counted.
const COUNTED: f64 = 64.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"))
        .ok_or("name the folder of tables of questions")?;
    let verbose = arguments.iter().any(|argument| argument == "--rows");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue");
    let text = fs::read_to_string(root.join("training.toml"))?;
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", &fs::read_to_string(root.join("gpus.toml"))?)?,
        training: read_training_facts("training.toml", &text)?,
        ..Catalogue::default()
    };
    let samples = samples(Path::new(folder), &root, &catalogue)?;
    let kept = text
        .split("# Fitted on ")
        .next()
        .unwrap_or(&text)
        .trim_end();
    let rows: Vec<&TrainingRow<'_>> = samples.iter().map(|sample| &sample.row).collect();
    let facts = refit(&rows, &catalogue.training);
    print!(
        "{kept}\n\n{}{}",
        written(&facts, &rows),
        errors(&samples, &catalogue.training, verbose)
    );
    Ok(())
}

fn samples<'a>(
    folder: &Path,
    root: &Path,
    catalogue: &'a Catalogue,
) -> Result<Vec<Sample<'a>>, Box<dyn Error>> {
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
            out.extend(sample(&question, &models, catalogue));
        }
    }
    Ok(out)
}

fn sample<'a>(
    question: &Question,
    models: &ModelCatalogue,
    catalogue: &'a Catalogue,
) -> Option<Sample<'a>> {
    let known = models.resolve(&question.model).ok();
    let (model, architecture) = match &known {
        Some((entry, architecture)) => (entry.id.as_str(), Some(architecture)),
        None => (question.model.as_str(), None),
    };
    Some(Sample {
        row: training_row(question, model, architecture, catalogue)?,
        id: question.id.clone(),
        fold: format!("fifth {}", fifth(question)),
    })
}

/// What was fitted, as the file has it.
fn written(facts: &TrainingFacts, rows: &[&TrainingRow<'_>]) -> String {
    let mut text = String::from(
        "# Fitted on tables of measured runs; not edited by hand. Errors: mean absolute, in percent.\n",
    );
    for set in &facts.sets {
        let _ = write!(
            text,
            "\n[[set]]\nname = \"{}\"\nrows = {}\nerror_percent = {:.1}\n\n[set.value]\n",
            set.name, set.rows, set.error
        );
        for info in TRAINING_PARAMETERS {
            let value = set.values.iter().find(|(key, _)| key == info.key);
            let _ = writeln!(
                text,
                "{} = {:.5}",
                info.key,
                value.map_or(info.prior, |v| v.1)
            );
        }
    }
    let of = |row: &TrainingRow<'_>| row.kind == TIMES || row.kind == SPEEDS;
    let shared = facts.convergence.unwrap_or_default();
    let _ = write!(
        text,
        "\n# Of runs to a quality: {} rows, {:.1} % off.\n\n[convergence]\nfixed_seconds = {:.2}\nwithout_libraries = {:.4}\n",
        rows.iter().filter(|row| of(row)).count(),
        mean_error(rows, facts, of),
        shared.fixed_seconds,
        shared.without_libraries
    );
    for benchmark in &facts.benchmarks {
        let _ = write!(
            text,
            "\n[[run]]\nbenchmark = \"{}\"\nrows = {}\nshare = {:.4}\nsample_megabytes = {:.6}\nstep_ms = {:.4}\n",
            benchmark.name,
            benchmark.runs,
            benchmark.share,
            benchmark.sample_bytes / 1e6,
            benchmark.step_seconds * 1e3
        );
    }
    for row in &facts.residuals {
        let _ = write!(
            text,
            "\n[[residual]]\nrows = \"{}\"\ngpu = \"{}\"\ncount = {}\nshift = {:.4}\n",
            row.rows, row.gpu, row.count, row.shift
        );
    }
    text
}

type Key = for<'a> fn(&'a Sample<'_>) -> &'a str;

/// What was left out, and predicted over measured without it.
type Seen = (String, f64);

/// Errors with one group after another left out.
fn errors(samples: &[Sample<'_>], facts: &TrainingFacts, verbose: bool) -> String {
    let groups: [(&str, Key); 4] = [
        ("configuration", |sample| &sample.fold),
        ("generation", |sample| &sample.row.generation),
        ("gpu", |sample| &sample.row.gpu),
        ("model", |sample| &sample.row.model),
    ];
    let mut held_out: BTreeMap<(&str, &str), Vec<Seen>> = BTreeMap::new();
    for (name, key) in groups {
        let mut names: Vec<&str> = samples.iter().map(key).collect();
        names.sort_unstable();
        names.dedup();
        for left in names {
            let kept: Vec<&TrainingRow<'_>> = (samples.iter())
                .filter(|sample| key(sample) != left)
                .map(|sample| &sample.row)
                .collect();
            let facts = refit(&kept, facts);
            for sample in samples.iter().filter(|sample| key(sample) == left) {
                let row = &sample.row;
                let ratio = row.ratio(&facts);
                if verbose {
                    eprintln!(
                        "{name:13} {:28} {:40} {:18} {:16} {:5} GPUs predicted / measured {ratio:.3}",
                        sample.id,
                        row.model,
                        row.gpu,
                        row.kind,
                        row.gpus()
                    );
                }
                if row.set().is_some() || row.gpus() <= COUNTED {
                    let seen = (left.to_owned(), ratio);
                    held_out.entry((row.kind, name)).or_default().push(seen);
                }
            }
        }
    }
    let mut text = String::new();
    for ((rows, left_out), seen) in &held_out {
        write_error(&mut text, rows, left_out, seen);
    }
    text
}

/// The value below which a share of sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn mean(ratios: &[f64]) -> f64 {
    100.0 * ratios.iter().map(|r| (r - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64
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
        mean(&ratios),
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
            mean(&ratios)
        );
    }
}
