//! The table that `nvidia-smi` prints when it is asked nothing.

use super::{
    TelemetryError,
    builder::{Builder, gpu, said},
    fields::FieldNames,
    value,
};
use gpuwise_domain::telemetry::{GpuIdentity, Holder, MigInstance, Process, Subject, Telemetry};

/// The part of the table a line stands in.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Gpus,
    Instances,
    Processes,
}

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut builder = Builder::new(names, "nvidia-smi");
    let mut part = Part::Gpus;
    let mut gpus: Vec<GpuIdentity> = Vec::new();
    // The line of a GPU or instance that the line before belongs to.
    let mut row: Option<(u32, u32)> = None;
    for line in text.lines().map(str::trim) {
        let Some(inner) = line.strip_prefix('|') else {
            if line.starts_with('+') {
                row = None;
            } else if !line.is_empty() {
                builder.moment(value::seconds(line));
            }
            continue;
        };
        if inner.starts_with('=') {
            row = None;
            continue;
        }
        let cells: Vec<&str> = inner
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let first = cells.first().copied().unwrap_or("");
        if first.starts_with("MIG devices") {
            part = Part::Instances;
        } else if first.starts_with("Processes") {
            part = Part::Processes;
        } else if first.starts_with("NVIDIA-SMI") {
            builder.unread("versions", first);
        } else if header(first) {
        } else {
            match part {
                Part::Gpus => gpu_line(&cells, &mut row, &mut gpus, &mut builder),
                Part::Instances => instance_line(&cells, &gpus, &mut row, &mut builder),
                Part::Processes => process_line(first, &gpus, &mut builder),
            }
        }
    }
    if gpus.is_empty() {
        return Err(TelemetryError::Form(
            "no row of a GPU is in the table".into(),
        ));
    }
    builder.note("the table shortens names and rounds; `nvidia-smi -q -x` tells more");
    Ok(builder.finish())
}

fn header(first: &str) -> bool {
    ["GPU ", "Fan ", "ID ", "PID", "|"]
        .iter()
        .any(|start| first.starts_with(start))
        || first.starts_with("GPU  ")
}

fn gpu_line(
    cells: &[&str],
    row: &mut Option<(u32, u32)>,
    gpus: &mut Vec<GpuIdentity>,
    builder: &mut Builder<'_>,
) {
    let [first, second, third] = cells else {
        builder.problem("row", &cells.join(" | "), "three columns are expected");
        return;
    };
    let words: Vec<&str> = first.split_whitespace().collect();
    match *row {
        None => {
            let Some(index) = words.first().and_then(|word| word.parse().ok()) else {
                return;
            };
            let name = words
                .get(1..words.len().saturating_sub(1))
                .unwrap_or_default()
                .join(" ");
            let mut identity = gpu(Some(index));
            identity.product = said(&name);
            identity.bus = second.split_whitespace().next().and_then(said);
            let place = builder.subject(&Subject::of(identity.clone()));
            gpus.push(identity);
            builder.field(
                "smi_query",
                place,
                "ecc.errors.uncorrected.volatile.total",
                ecc(third),
            );
            *row = Some((place, 1));
        }
        Some((place, 1)) => {
            // `38%   39C    P8             37W /  250W`
            for word in &words {
                if let Some(fan) = word.strip_suffix('%') {
                    builder.field("smi_query", place, "fan.speed", &format!("{fan} %"));
                } else if let Some(degrees) = word.strip_suffix('C') {
                    builder.field("smi_query", place, "temperature.gpu", degrees);
                } else if word.starts_with('P') {
                    builder.field("smi_query", place, "pstate", word);
                }
            }
            amounts(
                first,
                place,
                ["power.draw", "enforced.power.limit"],
                builder,
            );
            amounts(second, place, ["memory.used", "memory.total"], builder);
            if let Some(use_of) = third.split_whitespace().next() {
                builder.field("smi_query", place, "utilization.gpu", use_of);
            }
            *row = Some((place, 2));
        }
        Some((place, _)) => builder.field("smi_query", place, "mig.mode.current", third),
    }
}

/// In the column of errors, `On` and `Off` say whether they are counted (with MIG on).
fn ecc<'a>(cell: &'a &'a str) -> &'a str {
    if cell.parse::<u64>().is_ok() {
        cell
    } else {
        "N/A"
    }
}

/// `98W /  700W`, `59MiB /  81559MiB`: what is used and how much there is.
fn amounts(cell: &str, place: u32, fields: [&str; 2], builder: &mut Builder<'_>) {
    let Some((before, after)) = cell.split_once('/') else {
        return;
    };
    // N/A holds a slash of its own.
    let used = before.split_whitespace().last().unwrap_or("N/A");
    if used == "N" {
        builder.field("smi_query", place, fields[0], "N/A");
        return;
    }
    builder.field("smi_query", place, fields[0], used);
    builder.field("smi_query", place, fields[1], after.trim());
}

fn instance_line(
    cells: &[&str],
    gpus: &[GpuIdentity],
    row: &mut Option<(u32, u32)>,
    builder: &mut Builder<'_>,
) {
    let (Some(first), Some(memory)) = (cells.first(), cells.get(1)) else {
        return;
    };
    let numbers: Vec<u32> = first
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let (None, [index, gpu_instance, compute_instance, device]) = (*row, numbers.as_slice()) else {
        if row.is_some() && memory.contains("MiB") {
            builder.unread("BAR1 memory", memory);
        }
        return;
    };
    let identity = gpus.iter().find(|gpu| gpu.index == Some(*index));
    let place = builder.subject(&Subject {
        gpu: identity.cloned().unwrap_or_else(|| gpu(Some(*index))),
        instance: Some(MigInstance {
            gpu_instance: Some(*gpu_instance),
            compute_instance: Some(*compute_instance),
            device: Some(*device),
            ..MigInstance::default()
        }),
        holder: Holder::default(),
    });
    amounts(memory, place, ["memory.used", "memory.total"], builder);
    let counts: Vec<&str> = cells
        .get(2)
        .map(|cell| cell.split_whitespace().collect())
        .unwrap_or_default();
    if let Some(count) = counts.first() {
        builder.field(
            "smi_text",
            place,
            "Device Attributes/Shared/Multiprocessor count",
            count,
        );
    }
    if let Some(errors) = counts.get(1) {
        builder.field(
            "smi_query",
            place,
            "ecc.errors.uncorrected.volatile.total",
            ecc(errors),
        );
    }
    builder.unread(
        "engines of MIG devices",
        cells.get(3).copied().unwrap_or(""),
    );
    *row = Some((place, 1));
}

/// `0    2    0            21180      C   /root/tools/memhog                     2296MiB`
fn process_line(line: &str, gpus: &[GpuIdentity], builder: &mut Builder<'_>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (Some(index), Some(pid)) = (
        words.first().and_then(|word| word.parse::<u32>().ok()),
        words.get(3).and_then(|word| word.parse::<u32>().ok()),
    ) else {
        if !line.contains("No running processes") && !line.is_empty() {
            builder.problem(
                "process",
                line,
                "expected GPU, GI, CI, PID, type, name and memory",
            );
        }
        return;
    };
    let memory = words.last().copied().unwrap_or("N/A");
    let name = words
        .get(5..words.len().saturating_sub(1))
        .unwrap_or_default()
        .join(" ");
    let identity = gpus.iter().find(|gpu| gpu.index == Some(index));
    let instance = words.get(1).and_then(|word| word.parse().ok());
    let place = builder.subject(&Subject {
        gpu: identity.cloned().unwrap_or_else(|| gpu(Some(index))),
        instance: instance.map(|gpu_instance| MigInstance {
            gpu_instance: Some(gpu_instance),
            compute_instance: words.get(2).and_then(|word| word.parse().ok()),
            ..MigInstance::default()
        }),
        holder: Holder {
            process: Some(Process { pid, name }),
            ..Holder::default()
        },
    });
    builder.field("smi_query", place, "used_gpu_memory", memory);
}
