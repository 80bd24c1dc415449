//! What was measured, as a row of one's own catalogue of quality.

use super::{super::super::Context, Measured};
use crate::{catalogue::user_directory, error::Problem, made, settings::Optimize, write::Pending};
use std::{
    fs,
    path::{Path, PathBuf},
};

const NAME: &str = "quality-measured.csv";

/// Columns of the file; a catalogue of quality has them, and what is not known is empty.
const COLUMNS: [&str; 15] = [
    "model",
    "family",
    "parameters_b",
    "scheme",
    "checkpoint",
    "checkpoint_bytes",
    "evaluation",
    "baseline",
    "quantized",
    "higher_is_better",
    "loss_percent",
    "loss_error_percent",
    "date",
    "source",
    "note",
];
/// Rows that agree in these are of one thing, and the last counts.
const SAME: [usize; 4] = [0, 3, 4, 6];

/// What was written, and where.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) file: PathBuf,
    pub(super) model: String,
    pub(super) scheme: String,
    pub(super) loss: f64,
}

/// Where rows of one's own are read from.
pub(super) fn place(context: &Context, flags: &Optimize) -> anyhow::Result<PathBuf> {
    let served = crate::fetch::is_url(&flags.model.display().to_string());
    if served && flags.make.to.is_none() {
        return Err(Problem::new("--save of a served model without --to")
            .hint("a server does not say in which form its weights are: --to fp8, for example")
            .into());
    }
    let places = &context.app.overrides.places;
    let folder = match places.iter().find(|place| place.is_dir()) {
        Some(folder) => folder.clone(),
        None if places.is_empty() => user_directory()
            .ok_or_else(|| {
                Problem::new("--save: there is no configuration directory").hint("set HOME")
            })?
            .join("catalogue"),
        None => {
            return Err(
                Problem::new("--save: GPUWISE_CATALOGUE names files and no directory")
                    .hint(format!("name a directory in it, for {NAME}"))
                    .into(),
            );
        }
    };
    fs::create_dir_all(&folder).map_err(|error| {
        Problem::new(format!("--save: cannot make {}", folder.display())).because(error)
    })?;
    Ok(folder.join(NAME))
}

/// The name without its folders.
fn base(name: &str) -> &str {
    name.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(name)
}

/// Adds the row, in the place of an earlier one of the same.
pub(super) fn row(file: PathBuf, measured: &Measured, of: Option<&str>) -> anyhow::Result<Saved> {
    let (Some(distance), Some(scheme)) = (&measured.distance, &measured.scheme) else {
        return Err(Problem::new("--save: the original or the form is not known").into());
    };
    let model = of.unwrap_or_else(|| base(&distance.original.name));
    let number = |value: f64| format!("{value:.6}");
    let row = [
        model.to_owned(),
        String::new(),
        measured
            .parameters_b
            .map_or_else(String::new, |billions| format!("{billions}")),
        scheme.clone(),
        base(&measured.model.name).to_owned(),
        measured
            .model
            .bytes
            .map_or_else(String::new, |bytes| bytes.to_string()),
        format!("perplexity of {}", measured.text),
        number(distance.original.perplexity.value),
        number(measured.model.perplexity.value),
        "false".into(),
        number(distance.loss.value),
        number(distance.loss.error),
        made::today().to_string(),
        format!(
            "measured on {} by {}: {}, {} tokens scored",
            made::today(),
            measured.by,
            measured.pieces,
            measured.scored
        ),
        format!(
            "same first token {:.3} %{}",
            distance.same_first.value,
            distance
                .divergence
                .map_or_else(String::new, |kl| format!(", KL divergence {:.6}", kl.value))
        ),
    ];
    let pending = Pending::new(&file)?;
    let mut rows = earlier(&file)?;
    rows.retain(|known| {
        SAME.iter()
            .any(|at| known.get(*at) != Some(row[*at].as_str()))
    });
    rows.push(csv::StringRecord::from(row.as_slice()));
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(format!("--save: cannot write {}", file.display()))
            .because(anyhow::Error::msg(error.to_string()))
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(COLUMNS)
        .map_err(|error| failed(&error))?;
    for row in &rows {
        writer.write_record(row).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    pending.finish_with(|file| std::io::Write::write_all(file, &bytes))?;
    Ok(Saved {
        file,
        model: model.to_owned(),
        scheme: scheme.clone(),
        loss: distance.loss.value,
    })
}

/// Rows that were saved before.
fn earlier(file: &Path) -> anyhow::Result<Vec<csv::StringRecord>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let wrong = |what: String| {
        Problem::new(format!("--save: {}: {what}", file.display()))
            .hint("it is written by --save alone; give it another name, such as quality-ours.csv, to keep rows of your own")
    };
    let mut reader = csv::Reader::from_path(file).map_err(|error| wrong(error.to_string()))?;
    let headers = reader.headers().map_err(|error| wrong(error.to_string()))?;
    if headers != COLUMNS.as_slice() {
        return Err(wrong("it has other columns".into()).into());
    }
    let rows: Result<Vec<_>, _> = reader.records().collect();
    Ok(rows.map_err(|error| wrong(error.to_string()))?)
}
