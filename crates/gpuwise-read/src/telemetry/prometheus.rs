//! Exporters' metrics: dcgm-exporter of every naming age by field id, nvidia_gpu_exporter by name.

use super::{TelemetryError, builder::Builder, fields::FieldNames, serving, value};
use crate::metrics::parse_leniently;
use gpuwise_domain::telemetry::{
    GpuIdentity, Holder, MigInstance, Process, Quantity, ReadingValue, Subject, Telemetry,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Takes samples of exporters one by one, from a page or from a Prometheus server's answer.
pub struct SampleReader<'n> {
    builder: Builder<'n>,
    /// Labels that name a subject, put together, to its place.
    places: FxHashMap<String, u32>,
    key: String,
    /// What `nvidia_smi_gpu_info` tells of a UUID.
    described: FxHashMap<String, GpuIdentity>,
    /// Subject and field of every sample so far; a field is told by where its row lies.
    taken: FxHashSet<(u32, usize)>,
    twice: u64,
}

/// Labels that say which subject a sample is of; others do not split it.
const NAMING: &[&str] = &[
    "UUID",
    "uuid",
    "gpu_uuid",
    "gpu",
    "Hostname",
    "hostname",
    "host",
    "node",
    "instance",
    "GPU_I_ID",
    "GPU_I_PROFILE",
    "exported_pod",
    "pod",
    "pod_name",
    "exported_namespace",
    "namespace",
    "pod_namespace",
    "exported_container",
    "container",
    "container_name",
    "hpc_job",
    "pid",
    "process_name",
];

impl<'n> SampleReader<'n> {
    pub fn new(names: &'n FieldNames, form: &str) -> Self {
        Self {
            builder: Builder::new(names, form),
            places: FxHashMap::default(),
            key: String::new(),
            described: FxHashMap::default(),
            taken: FxHashSet::default(),
            twice: 0,
        }
    }

    /// Takes a sample: its metric, its labels, its value and its time in seconds since 1970.
    pub fn take<L: AsRef<str>>(
        &mut self,
        metric: &str,
        labels: &[(L, L)],
        number: f64,
        at: Option<f64>,
    ) {
        if metric == "nvidia_smi_gpu_info" {
            self.describe(labels);
            return;
        }
        let names = self.builder.names;
        let Some(field) = names.metric(metric) else {
            let text = number.to_string();
            self.builder.unread(serving::family(metric), &text);
            return;
        };
        let subject = self.place(labels);
        if subject == u32::MAX {
            return;
        }
        self.builder.at = at;
        if !self
            .taken
            .insert((subject, std::ptr::from_ref(field) as usize))
        {
            self.twice += 1;
            return;
        }
        let mut read = value::value_of(number, field);
        // Exporters write 0 for a memory temperature that the GPU does not tell.
        if field.quantity == Quantity::MemoryTemperature && read == ReadingValue::Known(0.0) {
            read = ReadingValue::Unknown(gpuwise_domain::telemetry::Missing::NotSupported);
        }
        self.builder.put(subject, field, read);
    }

    /// A line that could not be read.
    pub fn problem(&mut self, line: &str, problem: &str) {
        let start: String = line.chars().take(40).collect();
        self.builder.problem(&start, line, problem);
    }

    fn place<L: AsRef<str>>(&mut self, labels: &[(L, L)]) -> u32 {
        self.key.clear();
        for (name, text) in labels {
            let name = name.as_ref();
            if NAMING.contains(&name) {
                self.key.push_str(name);
                self.key.push('\u{1f}');
                self.key.push_str(text.as_ref());
                self.key.push('\u{1e}');
            }
        }
        if let Some(place) = self.places.get(self.key.as_str()) {
            return *place;
        }
        let place = self.builder.subject(&subject(labels));
        self.places.insert(self.key.clone(), place);
        place
    }

    fn describe<L: AsRef<str>>(&mut self, labels: &[(L, L)]) {
        let of = |name: &str| label(labels, &[name]);
        if let Some(uuid) = of("uuid") {
            self.described.insert(
                full_uuid(&uuid),
                GpuIdentity {
                    host: of("hostname").or_else(|| of("Hostname")),
                    index: of("index").and_then(|text| text.parse().ok()),
                    uuid: None,
                    bus: of("pci_bus_id"),
                    product: of("name"),
                },
            );
        }
    }

    pub fn finish(mut self) -> Telemetry {
        if self.twice > 0 {
            let count = self.twice;
            self.builder.note(format!(
                "{count} samples stand twice for the same thing; the first counts"
            ));
        }
        let mut out = self.builder.finish();
        for subject in &mut out.subjects {
            let known = subject
                .gpu
                .uuid
                .as_ref()
                .and_then(|uuid| self.described.get(uuid));
            if let Some(known) = known {
                let gpu = &mut subject.gpu;
                gpu.index = gpu.index.or(known.index);
                gpu.host = gpu.host.take().or_else(|| known.host.clone());
                gpu.bus = gpu.bus.take().or_else(|| known.bus.clone());
                gpu.product = gpu.product.take().or_else(|| known.product.clone());
            }
        }
        out
    }
}

fn label<L: AsRef<str>>(labels: &[(L, L)], names: &[&str]) -> Option<String> {
    names.iter().find_map(|wanted| {
        labels
            .iter()
            .find(|(name, text)| name.as_ref() == *wanted && !text.as_ref().is_empty())
            .map(|(_, text)| text.as_ref().to_owned())
    })
}

/// nvidia_gpu_exporter leaves the `GPU-` out.
fn full_uuid(uuid: &str) -> String {
    if uuid.len() == 36 && !uuid.starts_with("GPU-") && !uuid.starts_with("MIG-") {
        format!("GPU-{uuid}")
    } else {
        uuid.to_owned()
    }
}

pub(crate) fn subject<L: AsRef<str>>(labels: &[(L, L)]) -> Subject {
    let of = |names: &[&str]| label(labels, names);
    let index = of(&["gpu"]).and_then(|text| text.parse().ok());
    let instance = (of(&["GPU_I_ID"]), of(&["GPU_I_PROFILE"]));
    let instance = match instance {
        (None, None) => None,
        (id, profile) => Some(MigInstance {
            gpu_instance: id.and_then(|text| text.parse().ok()),
            profile,
            ..MigInstance::default()
        }),
    };
    Subject {
        gpu: GpuIdentity {
            host: of(&["Hostname", "hostname", "host", "node", "instance"]),
            index,
            uuid: of(&["UUID", "uuid", "gpu_uuid"]).map(|uuid| full_uuid(&uuid)),
            bus: of(&["pci_bus_id"]),
            product: of(&["modelName"]),
        },
        instance,
        holder: holder(labels),
    }
}

/// Who has it. A server that scrapes with labels of its own puts the exporter's pod under `pod` and the
/// workload's under `exported_pod`; the exporter itself holds nothing.
fn holder<L: AsRef<str>>(labels: &[(L, L)]) -> Holder {
    let of = |names: &[&str]| label(labels, names);
    let process = of(&["pid"])
        .and_then(|pid| pid.parse().ok())
        .map(|pid| Process {
            pid,
            name: of(&["process_name"]).unwrap_or_default(),
        });
    let own = |text: &Option<String>| {
        text.as_deref()
            .is_some_and(|text| text.contains("dcgm-exporter") || text.contains("gpu-exporter"))
    };
    let exported = of(&["exported_pod"]);
    let pod = exported.clone().or_else(|| of(&["pod", "pod_name"]));
    if pod.is_none() || (exported.is_none() && own(&pod)) {
        return Holder {
            job: of(&["hpc_job"]),
            process,
            ..Holder::default()
        };
    }
    Holder {
        namespace: of(&["exported_namespace", "namespace", "pod_namespace"]),
        pod,
        container: of(&["exported_container", "container", "container_name"]),
        job: of(&["hpc_job"]),
        process,
    }
}

/// Reads a page of metrics line by line: a line that cannot be is listed, and the rest counts.
pub(super) fn page(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let read = parse_leniently(text).map_err(|error| TelemetryError::Form(error.to_string()))?;
    if read.page.samples.is_empty() {
        return Err(TelemetryError::Unknown);
    }
    let mut reader = SampleReader::new(names, "Prometheus text");
    for (line, problem) in &read.problems {
        reader.problem(line, problem);
    }
    if read.shortened > 0 {
        reader.builder.note(format!(
            "{} lines have `...` where labels were left out; they count for the labels that are there",
            read.shortened
        ));
    }
    let engines = serving::Engines::of(&read.page);
    for sample in &read.page.samples {
        if !engines.own(&sample.name) {
            reader.take(&sample.name, &sample.labels, sample.value, sample.seconds);
        }
    }
    let mut out = reader.finish();
    let (serving, unread) = engines.samples(&read.page);
    out.serving = serving;
    out.unread.extend(unread);
    Ok(out)
}
