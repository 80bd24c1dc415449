//! How counters are read and judged: `kernel_counters.toml` of the catalogue.

use gpuwise_domain::profile::kernel_counters::{
    BoundLimits, CounterRules, JudgedMetrics, OperationRule,
};
use serde::Deserialize;

/// A file of rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {what}")]
pub struct CounterRulesError {
    file: String,
    line: usize,
    what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    limits: Limits,
    judged: Judged,
    memory_bytes: Vec<MemoryBytes>,
    operations: Vec<Operations>,
    labels: Labels,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    latency: f64,
    near_peak: f64,
    balanced: f64,
    waves: f64,
    l2_hit: f64,
    bank_conflicts: f64,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    duration: Vec<String>,
    compute: Vec<String>,
    memory: Vec<String>,
    dram: Vec<String>,
    occupancy: Vec<String>,
    occupancy_limit: Vec<String>,
    waves: Vec<String>,
    tensor: Vec<String>,
    l2_hit: Vec<String>,
    bank_conflicts: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryBytes {
    metrics: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operations {
    family: String,
    prefix: String,
    suffix: String,
    counts: Vec<Count>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    op: String,
    operations: f64,
    precision: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    names: Vec<(String, String)>,
    #[serde(rename = "source")]
    _source: String,
}

/// Reads rules for counters.
///
/// # Errors
///
/// Where the text is no such file: its line and what is wrong.
pub fn read_counter_rules(file: &str, text: &str) -> Result<CounterRules, CounterRulesError> {
    let read: File = toml::from_str(text).map_err(|error| CounterRulesError {
        file: file.into(),
        line: crate::catalogue::toml_line(text, &error),
        what: error.message().to_owned(),
    })?;
    let operations = read.operations.into_iter().flat_map(|family| {
        let name = family.family;
        let (prefix, suffix) = (family.prefix, family.suffix);
        family.counts.into_iter().map(move |count| OperationRule {
            metric: format!("{prefix}{}{suffix}", count.op),
            operations: count.operations,
            precision: count.precision,
            family: name.clone(),
        })
    });
    Ok(CounterRules {
        labels: read.labels.names,
        operations: operations.collect(),
        memory_bytes: read
            .memory_bytes
            .into_iter()
            .map(|row| row.metrics)
            .collect(),
        judged: JudgedMetrics {
            duration: read.judged.duration,
            compute: read.judged.compute,
            memory: read.judged.memory,
            dram: read.judged.dram,
            occupancy: read.judged.occupancy,
            occupancy_limit: read.judged.occupancy_limit,
            waves: read.judged.waves,
            tensor: read.judged.tensor,
            l2_hit: read.judged.l2_hit,
            bank_conflicts: read.judged.bank_conflicts,
        },
        limits: BoundLimits {
            latency: read.limits.latency,
            near_peak: read.limits.near_peak,
            balanced: read.limits.balanced,
            waves: read.limits.waves,
            l2_hit: read.limits.l2_hit,
            bank_conflicts: read.limits.bank_conflicts,
        },
    })
}

/// The rules of the catalogue.
///
/// # Errors
///
/// Never with the file that is built in, as a test sees to.
pub fn default_counter_rules() -> Result<CounterRules, CounterRulesError> {
    let text = include_str!("../../../../catalogue/kernel_counters.toml");
    read_counter_rules("kernel_counters.toml", text)
}
