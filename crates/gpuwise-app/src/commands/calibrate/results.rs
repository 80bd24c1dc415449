//! Result files of load generators, as rows of the question form.

use crate::{
    error::Problem,
    progress,
    questions::{QuestionRow, read_tables, read_text},
};
use anyhow::Context as _;
use gpuwise_domain::deployment::Deployment;
use gpuwise_read::results::{Measurement, Setting, of_any_run, of_run, read_results};
use gpuwise_wire::{RUN_SCHEMA, from_json, runs_from_json};
use std::path::{Path, PathBuf};

/// What result files do not say.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingFlags {
    /// The deployment that was measured, as `gpuwise plan --save` wrote it
    #[arg(long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The GPU
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// The engine with its release, such as vllm@0.20.0
    #[arg(long, value_name = "NAME[@RELEASE]")]
    engine: Option<String>,
    /// Weight format [default: as published]
    #[arg(long, value_name = "FORMAT")]
    precision: Option<String>,
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N")]
    tp: Option<u32>,
    /// Pipeline stages
    #[arg(long, value_name = "N")]
    pp: Option<u32>,
    /// Replicas behind the address that was measured
    #[arg(long, value_name = "N")]
    dp: Option<u32>,
    /// Whether simulated runs are taken too, which correct nothing.
    #[arg(skip)]
    simulated: bool,
}

impl SettingFlags {
    /// What a saved deployment says.
    pub fn of_deployment(path: &Path) -> Self {
        Self {
            deployment: Some(path.into()),
            simulated: true,
            ..Self::default()
        }
    }

    /// Nothing, where only what was measured counts.
    pub fn unsaid() -> Self {
        let unsaid = || Some("unsaid".to_owned());
        Self {
            model: unsaid(),
            gpu: unsaid(),
            engine: unsaid(),
            tp: Some(1),
            simulated: true,
            ..Self::default()
        }
    }
}

/// Reads tables and result files, in the order given.
///
/// # Errors
/// When a file cannot be read, or does not say what flags do not say either.
pub fn read(paths: &[PathBuf], flags: &SettingFlags) -> anyhow::Result<Vec<QuestionRow>> {
    let setting = setting(flags)?;
    let mut out = Vec::new();
    for path in paths {
        match document(path)? {
            Some(text) => out.extend(rows(path, &text, &setting, flags.simulated)?),
            None => out.extend(read_tables(std::slice::from_ref(path))?),
        }
    }
    Ok(out)
}

/// The text of a file that is no table; its name or its beginning tells.
fn document(path: &Path) -> anyhow::Result<Option<String>> {
    if path.is_dir() || path.as_os_str() == "-" {
        return Ok(None);
    }
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if ending == "csv" {
        return Ok(None);
    }
    let text = read_text(path)?;
    let named = matches!(ending, "json" | "jsonl" | "yaml" | "yml");
    Ok((named || text.trim_start().starts_with(['{', '['])).then_some(text))
}

fn rows(
    path: &Path,
    text: &str,
    setting: &Setting,
    simulated: bool,
) -> anyhow::Result<Vec<QuestionRow>> {
    let shown = path.display().to_string();
    let source = path
        .file_stem()
        .map_or_else(|| shown.clone(), |stem| stem.to_string_lossy().into_owned());
    let mut out = Vec::new();
    for measurement in measurements(text, simulated).with_context(|| shown.clone())? {
        let place = if measurement.place.is_empty() {
            shown.clone()
        } else {
            format!("{shown}, {}", measurement.place)
        };
        for note in &measurement.notes {
            progress::say(&format!("note: {place}: {note}"));
        }
        if let Some(failed) = measurement.failed.filter(|failed| *failed > 0) {
            progress::say(&format!(
                "note: {place}: {failed} requests failed beside {} that were answered: its figures are of those alone",
                measurement.requests
            ));
        }
        let questions = measurement
            .questions(setting, &source)
            .map_err(|error| Problem::new(place.clone()).because(error))?;
        if questions.is_empty() {
            return Err(Problem::new(format!("{place}: no figure of it can be compared")).into());
        }
        out.extend(questions.into_iter().map(|question| QuestionRow {
            source: source.clone(),
            folder: path.parent().map(Path::to_path_buf).unwrap_or_default(),
            question,
            problem: None,
        }));
    }
    Ok(out)
}

fn measurements(text: &str, simulated: bool) -> anyhow::Result<Vec<Measurement>> {
    if !text.contains(RUN_SCHEMA) {
        return Ok(read_results(text)?);
    }
    let runs = runs_from_json(text)?;
    let several = runs.reports.len() > 1;
    let mut out = Vec::new();
    for (number, report) in (1..).zip(&runs.reports) {
        let place = format!("run {number}");
        let read = if simulated { of_any_run } else { of_run };
        match read(report) {
            Ok(mut measurement) => {
                if several {
                    measurement.place = place;
                }
                out.push(measurement);
            }
            // Of a climb that broke the server some runs may have nothing.
            Err(error) if several => progress::say(&format!("note: {place}: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    if out.is_empty() {
        return Err(Problem::new("none of its runs measured anything").into());
    }
    Ok(out)
}

fn setting(flags: &SettingFlags) -> anyhow::Result<Setting> {
    let base = match &flags.deployment {
        Some(path) => {
            let shown = path.display().to_string();
            let saved = from_json(&read_text(path)?)
                .with_context(|| shown.clone())
                .map_err(|error| {
                    Problem::new("--deployment")
                        .because(error)
                        .hint("`gpuwise plan … --save FILE` writes one")
                })?;
            of_deployment(&saved.deployment)
        }
        None => Setting::default(),
    };
    let engine = flags.engine.as_ref().map(|name| name.replace('@', " "));
    Ok(Setting {
        model: flags.model.clone().or(base.model),
        gpu: flags.gpu.clone().or(base.gpu),
        engine: engine.or(base.engine),
        precision: flags.precision.clone().or(base.precision),
        tensor: flags.tp.or(base.tensor),
        pipeline: flags.pp.or(base.pipeline),
        data: flags.dp.or(base.data),
        // A layout given by flags has as many GPUs as it says.
        gpus: base
            .gpus
            .filter(|_| flags.tp.is_none() && flags.pp.is_none() && flags.dp.is_none()),
        extra: base.extra,
    })
}

/// What a deployment says of a measurement on it.
pub fn of_deployment(deployment: &Deployment) -> Setting {
    let layout = deployment.layout;
    let release = deployment
        .release
        .map_or(String::new(), |release| format!(" {release}"));
    let settings = deployment.settings;
    let mut extra = vec![
        (
            "max_num_batched_tokens".to_owned(),
            settings.batched_tokens.to_string(),
        ),
        ("max_num_seqs".to_owned(), settings.sequences.to_string()),
        (
            "gpu_memory_utilization".to_owned(),
            settings.memory_fraction.to_string(),
        ),
    ];
    if settings.max_context > 0 {
        extra.push(("max_model_len".into(), settings.max_context.to_string()));
    }
    // What the columns of the form cannot say of experts.
    if layout.attention_data > 1 || layout.expert > 1 {
        extra.push((
            "parallelism".into(),
            format!(
                "tp{}pp{}dp{}ep{}",
                layout.tensor, layout.pipeline, layout.attention_data, layout.expert
            ),
        ));
    }
    Setting {
        model: Some(deployment.model.clone()),
        gpu: Some(deployment.gpu.clone()),
        engine: Some(format!("{}{release}", deployment.engine.name())),
        precision: (!deployment.weights_published).then(|| deployment.weights.clone()),
        tensor: Some(layout.tensor),
        pipeline: Some(layout.pipeline),
        data: Some(layout.replicas),
        gpus: Some(layout.gpus()),
        extra,
    }
}
