//! `audit.toml`: thresholds, and names of metrics and labels.

use crate::catalogue::CatalogueError;
use gpuwise_domain::usage::{
    rules::{AuditCatalogue, Threshold},
    vocabulary::{MetricName, Quantity, Vocabulary},
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    threshold: Vec<ThresholdRow>,
    #[serde(default)]
    metric: Vec<MetricRow>,
    #[serde(default)]
    labels: Labels,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdRow {
    name: String,
    value: f64,
    meaning: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricRow {
    quantity: String,
    names: Vec<String>,
    scale: Option<f64>,
    source: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Labels {
    namespace: Vec<String>,
    pod: Vec<String>,
    container: Vec<String>,
    job: Vec<String>,
    device: Vec<String>,
    host: Vec<String>,
    model: Vec<String>,
    slice: Vec<String>,
    instance: Vec<String>,
    exporters: Vec<String>,
    source: String,
}

/// Reads thresholds and names from TOML of the form of `catalogue/audit.toml`.
///
/// # Errors
/// When the text is not of this form, a threshold is not a number from 0 up, or a quantity is not known.
pub fn read_audit_catalogue(file: &str, text: &str) -> Result<AuditCatalogue, CatalogueError> {
    let wrong = |place: String, problem: String| CatalogueError::new(file, place, problem);
    let read: File = crate::catalogue::from_toml(file, text)?;
    let mut thresholds = Vec::new();
    for row in read.threshold {
        if !row.value.is_finite() || row.value < 0.0 {
            return Err(wrong(
                format!("threshold {}", row.name),
                format!("{} is not a number from 0 up", row.value),
            ));
        }
        thresholds.push(Threshold {
            name: row.name,
            value: row.value,
            meaning: row.meaning,
            source: row.source,
        });
    }
    let mut metrics = Vec::new();
    for row in read.metric {
        let quantity = Quantity::named(&row.quantity).ok_or_else(|| {
            let known = Quantity::ALL.map(Quantity::name);
            wrong(
                format!("metric {}", row.names.join(", ")),
                format!("{:?} is not one of {}", row.quantity, known.join(", ")),
            )
        })?;
        metrics.extend(row.names.into_iter().map(|metric| MetricName {
            metric,
            quantity,
            scale: row.scale.unwrap_or(1.0),
            source: row.source.clone(),
        }));
    }
    let labels = read.labels;
    Ok(AuditCatalogue {
        thresholds,
        vocabulary: Vocabulary {
            metrics,
            namespace: labels.namespace,
            pod: labels.pod,
            container: labels.container,
            job: labels.job,
            device: labels.device,
            host: labels.host,
            model: labels.model,
            slice: labels.slice,
            instance: labels.instance,
            exporters: labels.exporters,
        },
    })
}
