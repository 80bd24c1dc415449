//! `nvidia-smi dmon` and `pmon`: columns under a header of names and one of units; and what
//! `nvidia-smi -L` and `nvlink -s` list.

use super::{
    TelemetryError,
    builder::{Builder, gpu, said},
    fields::FieldNames,
    value,
};
use gpuwise_domain::telemetry::{Holder, Link, MigInstance, Process, Subject, Telemetry};
use std::collections::BTreeSet;

/// `dmon` or, with a column of processes, `pmon`.
pub(super) fn columns(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut header: Vec<&str> = Vec::new();
    let mut units: Vec<&str> = Vec::new();
    let mut builder = Builder::new(names, "nvidia-smi dmon");
    let mut second = 0.0;
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(comment) = line.trim().strip_prefix('#') {
            let words: Vec<&str> = comment.split_whitespace().collect();
            if words
                .first()
                .is_some_and(|word| matches!(*word, "gpu" | "Date" | "Time"))
            {
                header = words;
            } else {
                units = words;
            }
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        if header.is_empty() || cells.len() < header.len().min(2) {
            builder.problem("line", line, "stands before a header `# gpu …`");
            continue;
        }
        // A second passes when the first GPU, or a process, comes again.
        if !seen.insert(key(&header, &cells)) {
            second += 1.0;
            seen.clear();
            seen.insert(key(&header, &cells));
        }
        row(&header, &units, &cells, second, &mut builder);
    }
    if header.is_empty() {
        return Err(TelemetryError::Form("no header `# gpu …` is in it".into()));
    }
    if !header.contains(&"Time") {
        builder.note("rows carry no time; they are taken as one second apart, from 0");
    }
    if header.contains(&"pid") {
        builder.out.form = "nvidia-smi pmon".into();
    }
    Ok(builder.finish())
}

/// GPU and process of a row.
fn key(header: &[&str], cells: &[&str]) -> (String, String) {
    let of = |name: &str| {
        let place = header.iter().position(|column| *column == name)?;
        cells.get(place).map(|cell| (*cell).to_owned())
    };
    (of("gpu").unwrap_or_default(), of("pid").unwrap_or_default())
}

fn row(header: &[&str], units: &[&str], cells: &[&str], second: f64, builder: &mut Builder<'_>) {
    let of = |name: &str| {
        let place = header.iter().position(|column| *column == name)?;
        cells.get(place).copied()
    };
    let vocabulary = if header.contains(&"pid") {
        "smi_pmon"
    } else {
        "smi_dmon"
    };
    let at = match (of("Date"), of("Time")) {
        (Some(date), Some(time)) if date.len() == 8 => {
            let (year, rest) = date.split_at(4);
            let (month, day) = rest.split_at(2);
            value::seconds(&format!("{year}-{month}-{day} {time}"))
        }
        // Without them rows are a second apart, which is the tool's default.
        _ => Some(second),
    };
    builder.moment(at);
    let process = of("pid").and_then(|pid| pid.parse().ok()).map(|pid| {
        let name = header
            .iter()
            .position(|column| *column == "command")
            .and_then(|place| cells.get(place..))
            .map(|rest| rest.join(" "));
        Process {
            pid,
            name: name.unwrap_or_default(),
        }
    });
    if vocabulary == "smi_pmon" && process.is_none() {
        builder.unread("GPUs without a process", of("gpu").unwrap_or(""));
        return;
    }
    let subject = builder.subject(&Subject {
        gpu: gpu(of("gpu").and_then(|text| text.parse().ok())),
        instance: None,
        holder: Holder {
            process,
            ..Holder::default()
        },
    });
    for (place, (name, cell)) in header.iter().zip(cells).enumerate() {
        if matches!(*name, "gpu" | "pid" | "command" | "Date" | "Time") {
            continue;
        }
        let unit = units.get(place).copied().unwrap_or("");
        if value::missing(cell).is_some() || !unit.chars().any(|c| c == '%' || c == '/') {
            builder.field(vocabulary, subject, name, cell);
        } else {
            builder.field(vocabulary, subject, name, &format!("{cell} {unit}"));
        }
    }
}

/// `GPU 0: NVIDIA H100 (UUID: GPU-…)`, with MIG devices or NVLinks below it.
pub(super) fn list(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut builder = Builder::new(names, "nvidia-smi -L");
    let mut current: Option<Subject> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("GPU ")
            && let Some((number, rest)) = rest.split_once(": ")
        {
            let mut identity = gpu(number.parse().ok());
            let (product, uuid) = named(rest);
            identity.product = product;
            identity.uuid = uuid;
            let subject = Subject::of(identity);
            builder.subject(&subject);
            current = Some(subject);
        } else if let (Some(rest), Some(of)) = (line.strip_prefix("MIG "), current.as_ref()) {
            // `3g.40gb     Device  0: (UUID: MIG-…)`
            let (name, uuid) = named(rest);
            let words: Vec<String> = name
                .unwrap_or_default()
                .split_whitespace()
                .map(|word| word.trim_end_matches(':').to_owned())
                .collect();
            let subject = Subject {
                instance: Some(MigInstance {
                    profile: words.first().cloned(),
                    device: words.last().and_then(|word| word.parse().ok()),
                    uuid,
                    ..MigInstance::default()
                }),
                ..of.clone()
            };
            builder.subject(&subject);
        } else if let (Some(rest), Some(of)) = (line.strip_prefix("Link "), current.clone()) {
            "nvidia-smi nvlink -s".clone_into(&mut builder.out.form);
            link(rest, &of, &mut builder);
        } else {
            builder.note(format!("it says: {line}"));
        }
    }
    if builder.out.subjects.is_empty() {
        return Err(TelemetryError::Form("no line `GPU 0: …` is in it".into()));
    }
    Ok(builder.finish())
}

fn named(text: &str) -> (Option<String>, Option<String>) {
    match text.split_once("(UUID: ") {
        Some((name, uuid)) => (said(name), said(uuid.trim_end_matches(')'))),
        None => (said(text), None),
    }
}

/// `3: 26.562 GB/s`, or `3: <inactive>`.
fn link(text: &str, of: &Subject, builder: &mut Builder<'_>) {
    let subject = builder.subject(of);
    let read = text.split_once(':').and_then(|(number, speed)| {
        let speed = speed.trim();
        let bytes_per_second = match speed.strip_suffix("GB/s") {
            Some(number) => Some(number.trim().parse::<f64>().ok()? * 1e9),
            None if speed.contains("inactive") => None,
            None => return None,
        };
        Some(Link {
            subject,
            number: number.trim().parse().ok()?,
            bytes_per_second,
        })
    });
    match read {
        Some(link) => builder.out.links.push(link),
        None => builder.problem("Link", text, "expected `0: 26.562 GB/s` or `0: <inactive>`"),
    }
}
