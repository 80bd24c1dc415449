//! `rocm-smi --json` of every release: texts alone, under names that differ between releases.

use super::{
    TelemetryError,
    builder::{Builder, gpu, said},
    fields::FieldNames,
};
use gpuwise_domain::telemetry::{Holder, Process, Subject, Telemetry};
use serde_json::Value;

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let document: Value = serde_json::from_str(text).map_err(|error| {
        TelemetryError::Form(format!(
            "it is no JSON that rocm-smi writes: {}",
            crate::json_error::with_line(&error)
        ))
    })?;
    let Some(parts) = document.as_object() else {
        return Err(TelemetryError::Form("expected an object of cards".into()));
    };
    let mut builder = Builder::new(names, "rocm-smi --json");
    let mut cards = 0;
    for (part, fields) in parts {
        let Some(fields) = fields.as_object() else {
            builder.problem(part, &fields.to_string(), "expected fields of a card");
            continue;
        };
        let Some(index) = part
            .strip_prefix("card")
            .and_then(|number| number.parse().ok())
        else {
            for (name, text) in fields {
                process(name, text.as_str().unwrap_or(""), &mut builder);
            }
            continue;
        };
        cards += 1;
        let of = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| fields.get(*name)?.as_str().and_then(said))
        };
        let mut identity = gpu(Some(index));
        identity.uuid = of(&["Unique ID"]);
        identity.bus = of(&["PCI Bus"]);
        identity.product = of(&["Device Name", "Card series", "Card Series", "Card model"]);
        let subject = builder.subject(&Subject::of(identity));
        for (name, text) in fields {
            if matches!(name.as_str(), "Unique ID" | "PCI Bus") {
                continue;
            }
            let owned;
            let text = if let Some(text) = text.as_str() {
                text
            } else {
                owned = text.to_string();
                &owned
            };
            // Lists of clock states stand under bare numbers.
            let name = if name.bytes().all(|byte| byte.is_ascii_digit()) {
                "clock states"
            } else {
                name.trim()
            };
            builder.field("rocm_smi", subject, name, text);
        }
    }
    if cards == 0 {
        return Err(TelemetryError::Form(
            "no `card0` is in it; expected the output of `rocm-smi --json`".into(),
        ));
    }
    Ok(builder.finish())
}

/// `PID104225`: name, GPUs, memory, SDMA use and compute units, in one text.
fn process(name: &str, text: &str, builder: &mut Builder<'_>) {
    let pid = name.strip_prefix("PID").and_then(|pid| pid.parse().ok());
    let Some(pid) = pid else {
        builder.unread(name, text);
        return;
    };
    let mut cells = text.split(',').map(str::trim);
    let process = Process {
        pid,
        name: cells.next().unwrap_or("").into(),
    };
    builder.subject(&Subject {
        holder: Holder {
            process: Some(process),
            ..Holder::default()
        },
        ..Subject::default()
    });
    builder.unread("memory of processes", text);
}
