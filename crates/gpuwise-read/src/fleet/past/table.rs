//! Tables of jobs: `sacct --parsable2`, and CSV in the shape of published traces, told by their columns.

use super::{FleetError, Ran, times};
use csv::{ReaderBuilder, StringRecord};

/// Names that columns go by, the first that is there.
const ID: &[&str] = &["jobid", "job_id", "job", "jobidraw"];
const GROUP: &[&str] = &["account", "vc", "partition", "queue"];
const USER: &[&str] = &["user"];
const SUBMIT: &[&str] = &[
    "submit",
    "submit_time",
    "submitted_time",
    "submit_s",
    "arrival_s",
];
const START: &[&str] = &["start", "start_time"];
const END: &[&str] = &["end", "end_time"];
const LENGTH: &[&str] = &[
    "elapsedraw",
    "elapsed",
    "duration",
    "duration_s",
    "run_time",
];
const GPUS: &[&str] = &["gpu_num", "gpus", "num_gpus", "scale_factor"];
const TRES: &[&str] = &["alloctres", "reqtres"];
const NODES: &[&str] = &["nnodes", "node_num", "allocnodes"];
const CORES: &[&str] = &["cpu_num", "alloccpus"];
/// Epochs and seconds of each, one part for each size of batch.
const EPOCHS: &[&str] = &["phase_epochs"];
const EPOCH_SECONDS: &[&str] = &["phase_epoch_seconds"];

/// Where each column is.
pub(super) struct Columns {
    delimiter: u8,
    names: Vec<String>,
}

impl Columns {
    fn find(&self, names: &[&str]) -> Option<usize> {
        names
            .iter()
            .find_map(|name| self.names.iter().position(|one| one == name))
    }
}

/// The columns of a table of jobs; `None`: it is none.
pub(super) fn columns(text: &str) -> Option<Columns> {
    let first = text.trim_start_matches('\u{feff}').lines().next()?;
    let delimiter = if first.contains('|') { b'|' } else { b',' };
    let names = first.split(char::from(delimiter));
    let columns = Columns {
        delimiter,
        names: names.map(|name| name.trim().to_lowercase()).collect(),
    };
    let there = |names: &[&str]| columns.find(names).is_some();
    let long = there(LENGTH) || there(END) && there(START) || there(EPOCH_SECONDS);
    let known = there(ID) && there(SUBMIT) && (there(GPUS) || there(TRES)) && long;
    known.then_some(columns)
}

pub(super) type Rows = (Vec<(String, Ran)>, u64);

pub(super) fn read(file: &str, text: &str) -> Result<Rows, FleetError> {
    let wrong = |place: String, problem: String| FleetError {
        file: file.into(),
        place,
        problem,
    };
    let Some(columns) = columns(text) else {
        let problem =
            "expected columns of jobs: an id, when it was submitted, GPUs, and how long it ran";
        return Err(wrong("line 1".into(), problem.into()));
    };
    let mut reader = ReaderBuilder::new();
    let reader = reader.delimiter(columns.delimiter).flexible(true);
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (record, line) in reader.from_reader(text.as_bytes()).into_records().zip(2..) {
        let place = format!("line {line}");
        let record = record.map_err(|error| wrong(place.clone(), error.to_string()))?;
        match row(&columns, &record).map_err(|problem| wrong(place.clone(), problem))? {
            Some(ran) => rows.push((place, ran)),
            None => left_out += 1,
        }
    }
    Ok((rows, left_out))
}

/// A job; `None`: a step of one, or one that has not ended.
fn row(columns: &Columns, record: &StringRecord) -> Result<Option<Ran>, String> {
    let of = |names: &[&str]| {
        let found = columns.find(names).and_then(|at| record.get(at));
        found.map(str::trim).filter(|text| !text.is_empty())
    };
    let name = of(ID).unwrap_or_default().to_owned();
    // Steps of a Slurm job, such as 1234.batch, are part of it.
    if name.is_empty() || name.contains('.') {
        return Ok(None);
    }
    let said = of(SUBMIT).unwrap_or_default();
    let submitted = times::moment(said).ok_or_else(|| {
        format!("submitted at {said:?}; expected a time such as 2026-11-03T10:11:12")
    })?;
    let (started, ended) = (
        of(START).and_then(times::moment),
        of(END).and_then(times::moment),
    );
    let phases = of(EPOCHS).zip(of(EPOCH_SECONDS));
    let length = match (phases, of(LENGTH)) {
        (Some((epochs, seconds)), _) => Some(phased(epochs, seconds)?),
        (None, Some(text)) => Some(times::span(text).ok_or_else(|| {
            format!("it ran for {text:?}; expected seconds, or a time such as 1-02:03:04")
        })?),
        (None, None) => started.zip(ended).map(|(start, end)| end - start),
    };
    let Some(seconds) = length else {
        return Ok(None);
    };
    let number = |names: &[&str]| -> Result<u32, String> {
        let Some(text) = of(names) else { return Ok(0) };
        let found = text
            .parse::<f64>()
            .ok()
            .filter(|count| (0.0..=1e9).contains(count));
        let found = found.ok_or_else(|| format!("{text:?} is no number of {}", names[0]))?;
        Ok(found as u32)
    };
    let mut ran = Ran {
        name,
        group: of(GROUP).unwrap_or_default().into(),
        user: of(USER).unwrap_or_default().into(),
        submitted,
        started,
        seconds,
        gpus: number(GPUS)?,
        nodes: number(NODES)?,
        cpu_milli: u64::from(number(CORES)?) * 1000,
        ..Ran::default()
    };
    if let Some(text) = of(TRES) {
        tres(text, &mut ran);
    }
    Ok(Some(ran))
}

/// `cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=256G,node=1`.
fn tres(text: &str, ran: &mut Ran) {
    let (mut typed, mut all) = (0, 0);
    for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "cpu" => ran.cpu_milli = value.parse::<u64>().unwrap_or(0) * 1000,
            "mem" => ran.memory_mib = times::mib(value).unwrap_or(0),
            "node" => ran.nodes = value.parse().unwrap_or(0),
            "gres/gpu" => all = value.parse().unwrap_or(0),
            other => {
                if let Some(kind) = other.strip_prefix("gres/gpu:") {
                    typed += value.parse().unwrap_or(0);
                    ran.gpu = Some(kind.to_owned());
                }
            }
        }
    }
    ran.gpus = ran.gpus.max(all).max(typed);
}

/// Epochs and what each takes, as the size of the batch changes: `21|20` and `0.95|0.85`.
fn phased(epochs: &str, seconds: &str) -> Result<f64, String> {
    let wrong =
        || format!("phases {epochs:?} of {seconds:?}; expected as many epochs as times, with |");
    let list = |text: &str| -> Option<Vec<f64>> {
        text.split('|')
            .map(|part| part.trim().parse().ok())
            .collect()
    };
    let (epochs, seconds) = list(epochs).zip(list(seconds)).ok_or_else(wrong)?;
    if epochs.len() != seconds.len() {
        return Err(wrong());
    }
    Ok(epochs
        .iter()
        .zip(&seconds)
        .map(|(count, each)| count * each)
        .sum())
}
