//! What came of many queries, device by device and pod by pod.

use super::{
    ask::{Aggregate, Place, Row, TENANT, Task, Values, is_device},
    owner::Owners,
};
use crate::prometheus::PrometheusError;
use gpuwise_domain::usage::{ComputeMeasure, vocabulary::Quantity};
use std::collections::{BTreeMap, BTreeSet};

/// A pod by namespace and name.
pub(super) type Pod = (String, String);

/// What one device showed while one holder had it. Two scrapers of one device show the same: the
/// larger counts, and of averages their mean.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) model: String,
    pub(super) slice: String,
    pub(super) container: String,
    pub(super) memory_hourly: Vec<f32>,
    pub(super) measure: Option<ComputeMeasure>,
    pub(super) compute_hourly: Vec<f32>,
    pub(super) compute_average: Mean,
    pub(super) compute_p95: Option<f64>,
    pub(super) dram_p95: Option<f64>,
    pub(super) tensor_average: Mean,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mean {
    pub(super) sum: f64,
    pub(super) weight: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64, weight: f64) {
        if value.is_finite() && weight > 0.0 {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    pub(super) fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What is known of a pod besides its devices; figures by container.
#[derive(Debug, Default)]
pub(super) struct PodFacts {
    pub(super) cpu_seconds: BTreeMap<String, f64>,
    pub(super) throttled: BTreeMap<String, f64>,
    pub(super) periods: BTreeMap<String, f64>,
    pub(super) cpu_requests: BTreeMap<String, f64>,
    pub(super) cpu_limits: BTreeMap<String, f64>,
    /// Containers that ask for GPUs, with how many.
    pub(super) devices: BTreeMap<String, f64>,
    /// MIG profiles that they ask for.
    pub(super) slices: BTreeSet<String>,
    pub(super) tenant: Option<String>,
    pub(super) engine: Option<EngineFacts>,
}

#[derive(Debug, Default)]
pub(super) struct EngineFacts {
    pub(super) engine: String,
    pub(super) model: Option<String>,
    pub(super) waiting: Mean,
    pub(super) cache_peak: Option<f64>,
    pub(super) latency_sum: f64,
    pub(super) latency_count: f64,
    pub(super) prompt_tokens: f64,
    pub(super) answer_tokens: f64,
}

/// All that came, before it is put together.
#[derive(Debug, Default)]
pub struct Collected {
    pub(super) members: BTreeMap<Place, Member>,
    pub(super) pods: BTreeMap<Pod, PodFacts>,
    pub(super) owners: Owners,
    pub(super) replicas: BTreeMap<(String, String, String), u32>,
    pub(super) tasks: BTreeSet<Quantity>,
    /// Of which some may be missing: a query failed, or the server warned.
    pub(super) partial: BTreeSet<Quantity>,
    pub(super) notes: Vec<String>,
}

impl Collected {
    /// Whether nothing has been answered yet.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether a device shows memory and no compute.
    pub(super) fn lack_compute(&self) -> bool {
        self.members
            .values()
            .any(|member| member.compute_hourly.is_empty())
    }

    /// Namespaces whose pods hold devices.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let all = self.members.keys().map(|place| place.namespace.clone());
        all.filter(|namespace| !namespace.is_empty()).collect()
    }

    /// Says that a metric of this is there, though it may not have been asked for.
    pub(super) fn known(&mut self, quantity: Quantity) {
        self.tasks.insert(quantity);
    }

    /// Says that a query failed: what it was to tell stays unknown.
    pub(super) fn failed(&mut self, task: &Task, error: &PrometheusError) {
        self.partial.insert(task.quantity);
        self.notes.push(format!(
            "{} {} are not known: {error}",
            task.aggregate.title(),
            task.metric
        ));
    }

    pub fn add(&mut self, task: &Task, rows: Vec<Row>, notes: Vec<String>) {
        self.tasks.insert(task.quantity);
        if !notes.is_empty() {
            self.partial.insert(task.quantity);
        }
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for row in rows {
            if is_device(task.quantity) {
                self.device(task, row);
            } else {
                self.fact(task, &row);
            }
        }
    }

    fn device(&mut self, task: &Task, row: Row) {
        let measure = match task.quantity {
            Quantity::SmActive => Some(ComputeMeasure::SmActive),
            Quantity::EngineActive => Some(ComputeMeasure::EngineActive),
            Quantity::Utilisation => Some(ComputeMeasure::Utilisation),
            _ => None,
        };
        let member = self.members.entry(row.place).or_default();
        for (known, new) in [
            (&mut member.model, row.model),
            (&mut member.slice, row.slice),
            (&mut member.container, row.container),
        ] {
            if known.is_empty() {
                *known = new;
            }
        }
        if let Some(measure) = measure {
            // A weaker measure does not mix with a better one.
            if *member.measure.get_or_insert(measure) != measure {
                return;
            }
        }
        match (task.quantity, row.values) {
            (Quantity::MemoryUsed, Values::Hours(hours)) => {
                highest(&mut member.memory_hourly, &hours);
            }
            // Its mean is that of the hours.
            (Quantity::MemoryUsed, Values::One(_)) => {}
            (Quantity::DramActive, Values::One(value)) => higher(&mut member.dram_p95, value),
            (Quantity::TensorActive, Values::One(value)) => member.tensor_average.add(value, 1.0),
            (_, Values::Hours(hours)) => highest(&mut member.compute_hourly, &hours),
            (_, Values::One(value)) if task.aggregate == Aggregate::P95 => {
                higher(&mut member.compute_p95, value);
            }
            (_, Values::One(value)) => member.compute_average.add(value, 1.0),
        }
    }

    fn fact(&mut self, task: &Task, row: &Row) {
        let Values::One(value) = row.values else {
            return;
        };
        match task.quantity {
            Quantity::PodOwner => return self.owners.pod(row),
            Quantity::ReplicaSetOwner => return self.owners.above("ReplicaSet", "replicaset", row),
            Quantity::JobOwner => return self.owners.above("Job", "job_name", row),
            Quantity::Replicas if !value.is_finite() => return,
            Quantity::Replicas => {
                for (label, kind) in [("deployment", "Deployment"), ("statefulset", "StatefulSet")]
                {
                    let name = row.label(label);
                    if !name.is_empty() {
                        let key = (
                            row.place.namespace.clone(),
                            kind.to_owned(),
                            name.to_owned(),
                        );
                        self.replicas.insert(key, value as u32);
                    }
                }
                return;
            }
            _ => {}
        }
        let key = (row.place.namespace.clone(), row.place.pod.clone());
        let pod = self.pods.entry(key).or_default();
        let container = row.container.clone();
        let resource = row.label("resource");
        let most = |figures: &mut BTreeMap<String, f64>| {
            let known = figures.entry(container.clone()).or_insert(value);
            *known = known.max(value);
        };
        match task.quantity {
            Quantity::CpuSeconds => most(&mut pod.cpu_seconds),
            Quantity::ThrottledPeriods => most(&mut pod.throttled),
            Quantity::Periods => most(&mut pod.periods),
            Quantity::Requests if resource == "cpu" => most(&mut pod.cpu_requests),
            Quantity::Limits if resource == "cpu" => most(&mut pod.cpu_limits),
            Quantity::Requests if is_gpu(resource) => {
                most(&mut pod.devices);
                pod.slices.extend(profile(resource));
            }
            Quantity::PodLabels => pod.tenant = tenant(row),
            _ => pod.engine(task, row, value),
        }
    }
}

impl PodFacts {
    fn engine(&mut self, task: &Task, row: &Row, value: f64) {
        let known = matches!(
            task.quantity,
            Quantity::EngineWaiting
                | Quantity::EngineCache
                | Quantity::EngineLatencySum
                | Quantity::EngineLatencyCount
                | Quantity::EnginePromptTokens
                | Quantity::EngineAnswerTokens
        );
        if !known || !value.is_finite() {
            return;
        }
        let engine = self.engine.get_or_insert_default();
        let prefix = task.metric.split([':', '_']).next().unwrap_or("");
        prefix.clone_into(&mut engine.engine);
        let model = row.label("model_name");
        if !model.is_empty() {
            engine.model = Some(model.to_owned());
        }
        match task.quantity {
            Quantity::EngineWaiting => engine.waiting.add(value, 1.0),
            Quantity::EngineCache => higher(&mut engine.cache_peak, value),
            Quantity::EngineLatencySum => engine.latency_sum += value,
            Quantity::EngineLatencyCount => engine.latency_count += value,
            Quantity::EnginePromptTokens => engine.prompt_tokens += value,
            _ => engine.answer_tokens += value,
        }
    }

    /// A figure of the pod: of its containers, the pod's own sum left out where they are told.
    pub(super) fn sum(figures: &BTreeMap<String, f64>) -> Option<f64> {
        let real = |name: &&String| !name.is_empty() && name.as_str() != "POD";
        let parts: Vec<f64> = figures
            .iter()
            .filter(|(name, _)| real(name))
            .map(|(_, value)| *value)
            .collect();
        if parts.is_empty() {
            figures.get("").copied()
        } else {
            Some(parts.iter().sum())
        }
    }
}

fn tenant(row: &Row) -> Option<String> {
    let found = row.labels.iter().find(|(name, _)| name == TENANT);
    found
        .map(|(_, value)| value.clone())
        .filter(|value| !value.is_empty())
}

/// Extended resources of GPUs as kube-state-metrics writes them, slices included.
fn is_gpu(resource: &str) -> bool {
    resource.starts_with("nvidia_com_gpu")
        || resource.starts_with("nvidia_com_mig_")
        || matches!(
            resource,
            "amd_com_gpu" | "gpu_intel_com_i915" | "gpu_intel_com_xe"
        )
}

/// The MIG profile of a resource: `1g.10gb+me` of `nvidia_com_mig_1g_10gb_me`.
fn profile(resource: &str) -> Option<String> {
    let mut parts = resource.strip_prefix("nvidia_com_mig_")?.splitn(3, '_');
    let (compute, memory) = (parts.next()?, parts.next()?);
    let extras = parts
        .next()
        .map_or(String::new(), |extras| format!("+{extras}"));
    Some(format!("{compute}.{memory}{extras}"))
}

pub(super) fn higher(known: &mut Option<f64>, value: f64) {
    if value.is_finite() {
        *known = Some(known.map_or(value, |known| known.max(value)));
    }
}

/// The larger of each hour; NaN is nothing.
pub(super) fn highest(known: &mut Vec<f32>, new: &[f32]) {
    if known.len() < new.len() {
        known.resize(new.len(), f32::NAN);
    }
    for (known, new) in known.iter_mut().zip(new) {
        *known = known.max(*new);
    }
}
