//! `nvidia-smi --query-gpu=… --format=csv` and its like: names with units in the header.

use super::{
    TelemetryError,
    builder::{Builder, said},
    fields::FieldNames,
    value,
};
use gpuwise_domain::telemetry::{GpuIdentity, Holder, Process, Subject, Telemetry};

/// Columns that say of which GPU or process a row is.
const NAMING: &[&str] = &[
    "timestamp",
    "index",
    "name",
    "gpu_name",
    "uuid",
    "gpu_uuid",
    "pci.bus_id",
    "gpu_bus_id",
    "pid",
    "process_name",
    "hostname",
    "gpu_serial",
];

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut builder = Builder::new(names, "nvidia-smi --query --format=csv");
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().unwrap_or("");
    // `memory.used [MiB]`: the unit stands here too where values leave it out (`nounits`).
    let columns: Vec<(&str, &str)> = header
        .split(',')
        .map(|column| match column.trim().split_once(" [") {
            Some((name, unit)) => (name.trim(), unit.trim_end_matches(']')),
            None => (column.trim(), ""),
        })
        .collect();
    if columns.len() < 2 {
        return Err(TelemetryError::Form(
            "its first line is no header of `nvidia-smi --query-gpu=… --format=csv`".into(),
        ));
    }
    for line in lines {
        let cells: Vec<&str> = cells(line, columns.len());
        if cells.len() != columns.len() {
            builder.problem(
                "row",
                line,
                &format!("{} cells under {} columns", cells.len(), columns.len()),
            );
            continue;
        }
        let of = |wanted: &[&str]| {
            columns
                .iter()
                .zip(&cells)
                .find(|((name, _), _)| wanted.contains(name))
                .map(|(_, cell)| *cell)
        };
        builder.moment(of(&["timestamp"]).and_then(value::seconds));
        let process = of(&["pid"])
            .and_then(|pid| pid.parse().ok())
            .map(|pid| Process {
                pid,
                name: of(&["process_name"]).unwrap_or("").into(),
            });
        let subject = builder.subject(&Subject {
            gpu: GpuIdentity {
                host: of(&["hostname"]).and_then(said),
                index: of(&["index"]).and_then(|text| text.parse().ok()),
                uuid: of(&["uuid", "gpu_uuid"]).and_then(said),
                bus: of(&["pci.bus_id", "gpu_bus_id"]).and_then(said),
                product: of(&["name", "gpu_name"]).and_then(said),
            },
            instance: None,
            holder: Holder {
                process,
                ..Holder::default()
            },
        });
        for ((name, unit), cell) in columns.iter().zip(&cells) {
            if NAMING.contains(name) {
                continue;
            }
            let bare = value::missing(cell).is_some() || unit.is_empty() || cell.contains(' ');
            if bare {
                builder.field("smi_query", subject, name, cell);
            } else {
                builder.field("smi_query", subject, name, &format!("{cell} {unit}"));
            }
        }
    }
    Ok(builder.finish())
}

/// Cells are parted by comma and space, so that commas within one survive; without spaces, by comma.
fn cells(line: &str, columns: usize) -> Vec<&str> {
    let spaced: Vec<&str> = line.split(", ").map(str::trim).collect();
    if spaced.len() == columns {
        return spaced;
    }
    let plain: Vec<&str> = line.split(',').map(str::trim).collect();
    if plain.len() == columns {
        plain
    } else {
        spaced
    }
}
