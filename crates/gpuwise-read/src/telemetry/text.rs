//! `nvidia-smi -q`: names and values, nested by indentation.

use super::{
    TelemetryError,
    builder::{Builder, gpu, said},
    fields::FieldNames,
    value,
};
use gpuwise_domain::telemetry::{GpuIdentity, Holder, MigInstance, Process, Subject, Telemetry};

/// A GPU's lines: path below the GPU and value.
type Lines = Vec<(String, String)>;

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut builder = Builder::new(names, "nvidia-smi -q");
    let mut blocks: Vec<(String, Lines)> = Vec::new();
    // Open levels: indentation and name.
    let mut open: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('=') {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if indent == 0 && bare.starts_with("GPU ") && !bare.contains(" : ") {
            blocks.push((bare.trim_start_matches("GPU ").trim().into(), Vec::new()));
            open.clear();
            continue;
        }
        let (name, text) = match bare.split_once(" : ") {
            Some((name, text)) => (name.trim(), Some(text.trim())),
            None => match bare.strip_suffix(':') {
                Some(name) => (name.trim(), Some("")),
                None => (bare, None),
            },
        };
        while open.last().is_some_and(|(level, _)| *level >= indent) {
            open.pop();
        }
        let path: String = open
            .iter()
            .map(|(_, part)| part.as_str())
            .chain([name])
            .collect::<Vec<_>>()
            .join("/");
        // A name without a value opens a level; one with a value may have lines below it too.
        open.push((indent, name.into()));
        match blocks.last_mut() {
            Some((_, lines)) => lines.push((path, text.unwrap_or("\u{0}").into())),
            None if name == "Timestamp" => builder.moment(value::seconds(text.unwrap_or(""))),
            None => builder.unread(name, text.unwrap_or("")),
        }
    }
    if blocks.is_empty() {
        return Err(TelemetryError::Form(
            "no GPU is in it; expected the output of `nvidia-smi -q`".into(),
        ));
    }
    for (number, (bus, lines)) in (0_u32..).zip(&blocks) {
        block(number, bus, lines, &mut builder);
    }
    Ok(builder.finish())
}

fn block(number: u32, bus: &str, lines: &Lines, builder: &mut Builder<'_>) {
    let of = |name: &str| {
        lines
            .iter()
            .find(|(path, _)| path == name)
            .and_then(|(_, text)| said(text))
    };
    let mut identity = gpu(Some(number));
    identity.bus = said(bus);
    identity.uuid = of("GPU UUID");
    identity.product = of("Product Name");
    let whole = builder.subject(&Subject::of(identity.clone()));
    let mut part = Part::default();
    for (path, text) in lines {
        let header = text == "\u{0}";
        if let Some(below) = path.strip_prefix("MIG Device") {
            if header && below.is_empty() {
                part.flush(&identity, builder);
            } else if !header {
                part.lines
                    .push((below.trim_start_matches('/').into(), text.clone()));
            }
        } else if let Some(below) = path.strip_prefix("Processes/") {
            // Each process begins with the instance it runs in, where the driver says it.
            let begins = matches!(below, "GPU instance ID")
                || (below == "Process ID" && part.has("Process ID"));
            if begins {
                part.flush(&identity, builder);
            }
            if !header {
                let below = below.strip_prefix("Process ID/").unwrap_or(below);
                part.lines.push((below.into(), text.clone()));
            }
        } else {
            part.flush(&identity, builder);
            if !header && !matches!(path.as_str(), "GPU UUID" | "Product Name" | "Processes") {
                builder.field("smi_text", whole, path, text);
            }
        }
    }
    part.flush(&identity, builder);
}

/// Lines of a MIG device or of a process.
#[derive(Default)]
struct Part {
    lines: Lines,
}

impl Part {
    fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(path, _)| path == name)
    }

    fn number(&self, name: &str) -> Option<u32> {
        let (_, text) = self.lines.iter().find(|(path, _)| path == name)?;
        text.parse().ok()
    }

    fn flush(&mut self, identity: &GpuIdentity, builder: &mut Builder<'_>) {
        if self.lines.is_empty() {
            return;
        }
        let gpu_instance = self
            .number("GPU Instance ID")
            .or_else(|| self.number("GPU instance ID"));
        let device = self.number("Index");
        let instance = (gpu_instance.is_some() || device.is_some()).then(|| MigInstance {
            gpu_instance,
            compute_instance: self
                .number("Compute Instance ID")
                .or_else(|| self.number("Compute instance ID")),
            device,
            ..MigInstance::default()
        });
        let process = self.number("Process ID").map(|pid| Process {
            pid,
            name: self
                .lines
                .iter()
                .find(|(path, _)| path == "Name")
                .map_or_else(String::new, |(_, text)| text.clone()),
        });
        let subject = builder.subject(&Subject {
            gpu: identity.clone(),
            instance,
            holder: Holder {
                process,
                ..Holder::default()
            },
        });
        for (path, text) in self.lines.drain(..) {
            if !matches!(
                path.as_str(),
                "Index"
                    | "Process ID"
                    | "Name"
                    | "GPU Instance ID"
                    | "GPU instance ID"
                    | "Compute Instance ID"
                    | "Compute instance ID"
            ) {
                builder.field("smi_text", subject, &path, &text);
            }
        }
    }
}
