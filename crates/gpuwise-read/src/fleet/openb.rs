//! Alibaba's GPU cluster trace of 2023 (`openb`): lists of nodes and pods as CSV.

use super::FleetError;
use crate::table_error;
use gpuwise_domain::fleet::{FleetNode, FleetTask, WHOLE_GPU};
use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
struct NodeRow {
    sn: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpu: u32,
    #[serde(default)]
    model: String,
}

#[derive(Deserialize)]
struct PodRow {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    num_gpu: u32,
    gpu_milli: u32,
    #[serde(default)]
    gpu_spec: String,
    creation_time: Option<u64>,
    deletion_time: Option<u64>,
    scheduled_time: Option<u64>,
}

/// GPUs of a node or task at most: what is beyond it is no node.
const MOST_GPUS: u32 = 4096;

/// Reads a list of nodes (`sn,cpu_milli,memory_mib,gpu,model`).
///
/// # Errors
/// When a line is not of this form, or a node has GPUs and no model.
pub fn read_openb_nodes(file: &str, text: &str) -> Result<Vec<FleetNode>, FleetError> {
    rows::<NodeRow>(file, text)?
        .into_iter()
        .map(|(line, row)| {
            if row.gpu > MOST_GPUS {
                return Err(wrong(
                    file,
                    line,
                    format!("`gpu` is {}; expected at most {MOST_GPUS}", row.gpu),
                ));
            }
            if row.gpu > 0 && row.model.is_empty() {
                return Err(wrong(
                    file,
                    line,
                    format!("{} has GPUs and no `model`", row.sn),
                ));
            }
            Ok(FleetNode {
                name: row.sn,
                cpu_milli: row.cpu_milli,
                memory_mib: row.memory_mib,
                gpus: row.gpu,
                model: row.model,
            })
        })
        .collect()
}

/// Reads a list of pods (`name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,…,creation_time,
/// deletion_time,scheduled_time`), in their order. A pod ran from when it was scheduled until it was
/// deleted; one that never was scheduled has no duration, and lists without times have none at all.
///
/// # Errors
/// When a line is not of this form, shares of several GPUs are asked for, or a pod ends before it
/// begins.
pub fn read_openb_tasks(file: &str, text: &str) -> Result<Vec<FleetTask>, FleetError> {
    rows::<PodRow>(file, text)?
        .into_iter()
        .map(|(line, row)| task(row).map_err(|problem| wrong(file, line, problem)))
        .collect()
}

fn task(row: PodRow) -> Result<FleetTask, String> {
    let fraction = row.gpu_milli < WHOLE_GPU;
    let right = match row.num_gpu {
        0 => row.gpu_milli == 0,
        1 => (1..=WHOLE_GPU).contains(&row.gpu_milli),
        _ => !fraction && row.gpu_milli == WHOLE_GPU && row.num_gpu <= MOST_GPUS,
    };
    if !right {
        return Err(format!(
            "{} asks for {} GPUs of {} thousandths each; expected none, up to 1000 of one, or 1000 of each of several",
            row.name, row.num_gpu, row.gpu_milli
        ));
    }
    let duration = match (row.scheduled_time, row.deletion_time) {
        (Some(from), Some(until)) => Some(until.checked_sub(from).ok_or_else(|| {
            format!(
                "{} was deleted at {until} s, before it was scheduled at {from} s",
                row.name
            )
        })?),
        _ => None,
    };
    Ok(FleetTask {
        cpu_milli: row.cpu_milli,
        memory_mib: row.memory_mib,
        gpus: row.num_gpu,
        gpu_milli: row.gpu_milli,
        models: row
            .gpu_spec
            .split('|')
            .filter(|model| !model.is_empty())
            .map(str::to_owned)
            .collect(),
        arrival: row.creation_time,
        duration,
        name: row.name,
    })
}

pub(super) fn wrong(file: &str, line: u64, problem: String) -> FleetError {
    FleetError {
        file: file.into(),
        place: format!("line {line}"),
        problem,
    }
}

pub(super) fn rows<T: DeserializeOwned>(
    file: &str,
    text: &str,
) -> Result<Vec<(u64, T)>, FleetError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let headers = reader
        .headers()
        .map_err(|error| wrong(file, 1, error.to_string()))?
        .clone();
    let mut out = Vec::new();
    let mut record = csv::StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(out),
            Ok(true) => {
                let line = record.position().map_or(0, csv::Position::line);
                let row = record
                    .deserialize(Some(&headers))
                    .map_err(|error| wrong(file, line, table_error(&error, Some(&headers))))?;
                out.push((line, row));
            }
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                return Err(wrong(file, line, table_error(&error, None)));
            }
        }
    }
}
