//! `nvidia-smi -q -x`, from the tables of v10 to v13.

use super::{
    TelemetryError,
    builder::{Builder, gpu, said},
    fields::FieldNames,
    value,
};
use gpuwise_domain::telemetry::{Holder, MigInstance, Process, Subject, Telemetry};
use quick_xml::{Reader, events::Event};

/// Deeper than any driver nests.
const DEEPEST: usize = 16;

/// Leaves of one `<gpu>`, or of one part of it that stands many times.
type Leaves = Vec<(String, String)>;

/// A GPU as it is read: its own leaves, those of each MIG device, those of each process.
#[derive(Default)]
struct Gpu {
    own: Leaves,
    instances: Vec<Leaves>,
    processes: Vec<Leaves>,
}

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut builder = Builder::new(names, "nvidia-smi -q -x");
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    let mut leaf = false;
    let mut current: Option<Gpu> = None;
    let mut number = 0;
    loop {
        let event = reader.read_event();
        match event {
            Ok(Event::Start(start)) => {
                let name = start.name().as_ref().to_owned();
                if path.len() >= DEEPEST {
                    return Err(TelemetryError::Form(format!(
                        "byte {}: elements are nested deeper than {DEEPEST}",
                        reader.buffer_position()
                    )));
                }
                path.push(name);
                content.clear();
                leaf = true;
                opened(&path, &mut current);
            }
            Ok(Event::Empty(start)) => {
                path.push(start.name().as_ref().to_owned());
                closed(&path, "", &mut current, &mut builder);
                path.pop();
            }
            Ok(Event::Text(piece)) => content.push_str(&piece),
            Ok(Event::GeneralRef(entity)) => content.push_str(match &*entity {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "apos" => "'",
                _ => "?",
            }),
            Ok(Event::End(_)) => {
                if leaf {
                    closed(&path, content.trim(), &mut current, &mut builder);
                }
                leaf = false;
                if path.len() == 2
                    && path.last().is_some_and(|name| name == "gpu")
                    && let Some(gpu) = current.take()
                {
                    finish_gpu(&gpu, number, &mut builder);
                    number += 1;
                }
                path.pop();
                content.clear();
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) => {
                builder.note(format!(
                    "it is cut off or broken at byte {}: {error}; what stands before counts",
                    reader.error_position()
                ));
                break;
            }
        }
    }
    if let Some(gpu) = current {
        builder.note("it ends within a GPU; what stands before counts");
        finish_gpu(&gpu, number, &mut builder);
        number += 1;
    }
    if number == 0 {
        return Err(TelemetryError::Form(
            "no <gpu> is in it; expected the output of `nvidia-smi -q -x`".into(),
        ));
    }
    Ok(builder.finish())
}

fn opened(path: &[String], current: &mut Option<Gpu>) {
    if path.len() == 2 && path.last().is_some_and(|name| name == "gpu") {
        *current = Some(Gpu::default());
    }
    if let (Some(gpu), Some(last)) = (current.as_mut(), path.last()) {
        match last.as_str() {
            "mig_device" => gpu.instances.push(Leaves::new()),
            "process_info" => gpu.processes.push(Leaves::new()),
            _ => {}
        }
    }
}

/// A leaf with its text: of the whole log, of the GPU, or of a part of it.
fn closed(path: &[String], text: &str, current: &mut Option<Gpu>, builder: &mut Builder<'_>) {
    let Some(gpu) = current else {
        let name = path.last().map_or("", String::as_str);
        if name == "timestamp" {
            builder.moment(value::seconds(text));
        } else if path.len() > 1 {
            builder.unread(name, text);
        }
        return;
    };
    let below = |part: &str| path.iter().position(|name| name == part);
    let (leaves, from) = if let Some(at) = below("mig_device") {
        (gpu.instances.last_mut(), at + 1)
    } else if let Some(at) = below("process_info") {
        (gpu.processes.last_mut(), at + 1)
    } else {
        (Some(&mut gpu.own), 2)
    };
    if let (Some(leaves), Some(rest)) = (leaves, path.get(from..)) {
        leaves.push((rest.join("/"), text.to_owned()));
    }
}

fn leaf<'a>(leaves: &'a Leaves, name: &str) -> Option<&'a str> {
    leaves
        .iter()
        .find(|(path, _)| path == name)
        .map(|(_, text)| text.as_str())
}

fn finish_gpu(read: &Gpu, number: u32, builder: &mut Builder<'_>) {
    let of = |name: &str| leaf(&read.own, name).and_then(said);
    let mut identity = gpu(Some(number));
    identity.uuid = of("uuid");
    identity.product = of("product_name");
    identity.bus = of("pci/pci_bus_id");
    let whole = builder.subject(&Subject::of(identity.clone()));
    for (path, text) in &read.own {
        if !matches!(path.as_str(), "uuid" | "product_name" | "pci/pci_bus_id") {
            builder.field("smi_xml", whole, path, text);
        }
    }
    for leaves in &read.instances {
        let id = |name: &str| leaf(leaves, name).and_then(|text| text.parse().ok());
        let subject = builder.subject(&Subject {
            gpu: identity.clone(),
            instance: Some(MigInstance {
                gpu_instance: id("gpu_instance_id"),
                compute_instance: id("compute_instance_id"),
                device: id("index"),
                ..MigInstance::default()
            }),
            holder: Holder::default(),
        });
        for (path, text) in leaves {
            if !matches!(
                path.as_str(),
                "gpu_instance_id" | "compute_instance_id" | "index"
            ) {
                builder.field("smi_xml", subject, path, text);
            }
        }
    }
    for leaves in &read.processes {
        let id = |name: &str| leaf(leaves, name).and_then(|text| text.parse().ok());
        let subject = builder.subject(&Subject {
            gpu: identity.clone(),
            instance: id("gpu_instance_id").map(|gpu_instance| MigInstance {
                gpu_instance: Some(gpu_instance),
                compute_instance: id("compute_instance_id"),
                ..MigInstance::default()
            }),
            holder: Holder {
                process: id("pid").map(|pid| Process {
                    pid,
                    name: leaf(leaves, "process_name").unwrap_or("").to_owned(),
                }),
                ..Holder::default()
            },
        });
        for (path, text) in leaves {
            if !matches!(
                path.as_str(),
                "gpu_instance_id" | "compute_instance_id" | "pid" | "process_name"
            ) {
                builder.field("smi_xml", subject, path, text);
            }
        }
    }
}
