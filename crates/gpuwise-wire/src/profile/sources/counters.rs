//! Counted kernels.

use gpuwise_domain::profile::{
    kernel_counters::{Bound, CountedLaunch, CountedValue, KernelCounters},
    sources::{CountedFigures, CountersSource},
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Counters of kernels.
#[derive(Serialize, ToSchema)]
pub(super) struct CountersDocument {
    launches: Vec<LaunchDocument>,
    /// What the profiler and the program printed around the table.
    printed: Vec<String>,
}

#[derive(Serialize, ToSchema)]
struct LaunchDocument {
    id: String,
    kernel: String,
    process: Option<u64>,
    process_name: Option<String>,
    device: Option<i64>,
    stream: Option<u64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    /// Such as `9.0`.
    compute_capability: Option<String>,
    duration_ns: Option<f64>,
    /// Throughput of the multiprocessors, in percent of peak.
    compute_pct: Option<f64>,
    /// Throughput of the busiest part of caches and memory, in percent of peak.
    memory_pct: Option<f64>,
    /// Throughput of device memory, in percent of peak.
    dram_pct: Option<f64>,
    /// Activity of tensor cores, in percent of peak.
    tensor_pct: Option<f64>,
    /// Achieved occupancy.
    occupancy_pct: Option<f64>,
    /// Occupancy that the launch allows.
    occupancy_limit_pct: Option<f64>,
    waves: Option<f64>,
    /// Bytes to and from device memory.
    memory_bytes: Option<f64>,
    bytes_per_second: Option<f64>,
    /// Operations by precision.
    operations: BTreeMap<String, f64>,
    operations_per_second: Option<f64>,
    /// Operations per byte of device memory.
    arithmetic_intensity: Option<f64>,
    /// Accesses that the L2 cache had, in percent.
    l2_hit_pct: Option<f64>,
    /// Conflicts of banks of shared memory.
    bank_conflicts: Option<f64>,
    /// The side of the roofline, `compute` or `memory`; null where a roof or the intensity is not known.
    roofline_side: Option<&'static str>,
    /// What of the caches is worth a look: `bank_conflicts`, `low_l2_hits`.
    notes: Vec<&'static str>,
    /// `compute`, `memory`, `balanced`, `latency` or `small_grid`.
    bound: Option<&'static str>,
    /// Whether compute or memory is near its peak.
    near_peak: Option<bool>,
    /// Metrics without which `bound` cannot be told.
    needed: Vec<String>,
    metrics: Vec<MetricDocument>,
    /// What the profiler's own rules say.
    advice: Vec<AdviceDocument>,
}

#[derive(Serialize, ToSchema)]
struct MetricDocument {
    /// Canonical where known.
    name: String,
    /// As the file has it.
    label: String,
    section: Option<String>,
    unit: String,
    /// A number, or a text where the file has one.
    #[schema(value_type = Object)]
    value: Value,
}

#[derive(Serialize, ToSchema)]
struct AdviceDocument {
    rule: String,
    kind: String,
    text: String,
    speedup_pct: Option<f64>,
    speedup_of: Option<String>,
}

impl LaunchDocument {
    fn of(counters: &KernelCounters, launch: &CountedLaunch, figures: &CountedFigures) -> Self {
        Self {
            id: launch.id.clone(),
            kernel: launch.kernel.clone(),
            process: launch.process,
            process_name: launch.process_name.clone(),
            device: launch.device,
            stream: launch.stream,
            grid: launch.grid,
            block: launch.block,
            compute_capability: launch.compute_capability.map(|(a, b)| format!("{a}.{b}")),
            duration_ns: figures.duration_ns,
            compute_pct: figures.compute_percent,
            memory_pct: figures.memory_percent,
            dram_pct: figures.dram_percent,
            tensor_pct: figures.tensor_percent,
            occupancy_pct: figures.occupancy_percent,
            occupancy_limit_pct: figures.occupancy_limit_percent,
            waves: figures.waves,
            memory_bytes: figures.memory_bytes,
            bytes_per_second: figures.bytes_per_second(),
            operations: figures.operations.clone(),
            operations_per_second: figures.operations_per_second(),
            arithmetic_intensity: figures.arithmetic_intensity(),
            l2_hit_pct: figures.l2_hit_percent,
            bank_conflicts: figures.bank_conflicts,
            roofline_side: figures.side.map(Bound::name),
            notes: figures.notes.iter().map(|note| note.name()).collect(),
            bound: figures.bound.map(Bound::name),
            near_peak: figures.near_peak,
            needed: figures.needed.clone(),
            metrics: metrics(counters, launch),
            advice: advice(launch),
        }
    }
}

fn metrics(counters: &KernelCounters, launch: &CountedLaunch) -> Vec<MetricDocument> {
    let text = |name| counters.names.text(name).to_owned();
    let metrics = launch.metrics.iter();
    metrics
        .map(|metric| MetricDocument {
            name: text(metric.name),
            label: text(metric.label),
            section: metric.section.map(text),
            unit: text(metric.unit),
            value: match &metric.value {
                CountedValue::Number(number) => (*number).into(),
                CountedValue::Text(text) => text.clone().into(),
            },
        })
        .collect()
}

fn advice(launch: &CountedLaunch) -> Vec<AdviceDocument> {
    let advice = launch.advice.iter().cloned();
    advice
        .map(|advice| AdviceDocument {
            rule: advice.rule,
            kind: advice.kind,
            text: advice.text,
            speedup_pct: advice.speedup_percent,
            speedup_of: advice.speedup_scope,
        })
        .collect()
}

impl From<&CountersSource> for CountersDocument {
    fn from(source: &CountersSource) -> Self {
        let launches = source.counters.launches.iter().zip(&source.figures);
        Self {
            launches: launches
                .map(|(launch, figures)| LaunchDocument::of(&source.counters, launch, figures))
                .collect(),
            printed: source.counters.printed.clone(),
        }
    }
}
