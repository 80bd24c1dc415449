//! Counted kernels.

use crate::mirror::{forms, written};
use gpuwise_domain::profile::{
    kernel_counters::{
        Bound, CountedLaunch, CountedMetric, CountedValue, KernelCounters, ProfilerAdvice,
    },
    sources::{CountedFigures, CountersSource},
    timeline::Names,
};
use serde_json::Value;
use std::collections::BTreeMap;

written! {
    /// Counters of kernels.
    pub(super) CountersDocument = |source: &CountersSource| {
        launches: Vec<LaunchDocument> = launches(source),
        /// What the profiler and the program printed around the table.
        printed: Vec<String> = source.counters.printed.clone(),
    }
}

written! {
    LaunchDocument = |(counters, launch, figures): (&KernelCounters, &CountedLaunch, &CountedFigures)| {
        id: String = launch.id.clone(),
        kernel: String = launch.kernel.clone(),
        process: Option<u64> = launch.process,
        process_name: Option<String> = launch.process_name.clone(),
        device: Option<i64> = launch.device,
        stream: Option<u64> = launch.stream,
        grid: Option<[u32; 3]> = launch.grid,
        block: Option<[u32; 3]> = launch.block,
        /// Such as `9.0`.
        compute_capability: Option<String> = launch.compute_capability.map(|(a, b)| format!("{a}.{b}")),
        duration_ns: Option<f64> = figures.duration_ns,
        /// Throughput of the multiprocessors, in percent of peak.
        compute_pct: Option<f64> = figures.compute_percent,
        /// Throughput of the busiest part of caches and memory, in percent of peak.
        memory_pct: Option<f64> = figures.memory_percent,
        /// Throughput of device memory, in percent of peak.
        dram_pct: Option<f64> = figures.dram_percent,
        /// Activity of tensor cores, in percent of peak.
        tensor_pct: Option<f64> = figures.tensor_percent,
        /// Achieved occupancy.
        occupancy_pct: Option<f64> = figures.occupancy_percent,
        /// Occupancy that the launch allows.
        occupancy_limit_pct: Option<f64> = figures.occupancy_limit_percent,
        waves: Option<f64> = figures.waves,
        /// Bytes to and from device memory.
        memory_bytes: Option<f64> = figures.memory_bytes,
        bytes_per_second: Option<f64> = figures.bytes_per_second(),
        /// Operations by precision.
        operations: BTreeMap<String, f64> = figures.operations.clone(),
        operations_per_second: Option<f64> = figures.operations_per_second(),
        /// Operations per byte of device memory.
        arithmetic_intensity: Option<f64> = figures.arithmetic_intensity(),
        /// `compute`, `memory`, `balanced`, `latency` or `small_grid`.
        bound: Option<&'static str> = figures.bound.map(Bound::name),
        /// Whether compute or memory is near its peak.
        near_peak: Option<bool> = figures.near_peak,
        /// Accesses that the L2 cache had, in percent.
        l2_hit_pct: Option<f64> = figures.l2_hit_percent,
        /// Conflicts of banks of shared memory.
        bank_conflicts: Option<f64> = figures.bank_conflicts,
        /// The side of the roofline, `compute` or `memory`; null where a roof or the intensity is not known.
        roofline_side: Option<&'static str> = figures.side.map(Bound::name),
        /// What of the caches is worth a look: `bank_conflicts`, `low_l2_hits`.
        notes: Vec<&'static str> = figures.notes.iter().map(|note| note.name()).collect(),
        /// Metrics without which `bound` cannot be told.
        needed: Vec<String> = figures.needed.clone(),
        metrics: Vec<MetricDocument> = forms(launch.metrics.iter().map(|metric| (&counters.names, metric))),
        /// What the profiler's own rules say.
        advice: Vec<AdviceDocument> = forms(&launch.advice),
    }
}

written! {
    MetricDocument = |(names, metric): (&Names, &CountedMetric)| {
        /// Canonical where known.
        name: String = names.text(metric.name).to_owned(),
        /// As the file has it.
        label: String = names.text(metric.label).to_owned(),
        section: Option<String> = metric.section.map(|section| names.text(section).to_owned()),
        unit: String = names.text(metric.unit).to_owned(),
        /// A number, or a text where the file has one.
        #[schema(value_type = Object)]
        value: Value = value(&metric.value),
    }
}

written! {
    AdviceDocument = |advice: &ProfilerAdvice| {
        rule: String = advice.rule.clone(),
        kind: String = advice.kind.clone(),
        text: String = advice.text.clone(),
        speedup_pct: Option<f64> = advice.speedup_percent,
        speedup_of: Option<String> = advice.speedup_scope.clone(),
    }
}

fn launches(source: &CountersSource) -> Vec<LaunchDocument> {
    let launches = source.counters.launches.iter().zip(&source.figures);
    forms(launches.map(|(launch, figures)| (&source.counters, launch, figures)))
}

fn value(value: &CountedValue) -> Value {
    match value {
        CountedValue::Number(number) => (*number).into(),
        CountedValue::Text(text) => text.clone().into(),
    }
}
