//! By what workloads and GPUs are judged: thresholds of `audit` and `watch`, and names that metrics have.

use crate::error::Problem;
use gpuwise_domain::usage::rules::{AuditCatalogue, Rules};
use gpuwise_read::{catalogue::ModelCatalogue, usage::read_audit_catalogue};
use gpuwise_units::Bytes;
use std::{fs, path::Path};

/// The file of thresholds and names that the binary carries.
const CATALOGUE: &str = include_str!("../../../catalogue/audit.toml");

/// The thresholds of these names.
///
/// # Errors
/// When a threshold is missing.
pub fn rules(names: &AuditCatalogue) -> anyhow::Result<Rules> {
    Ok(Rules::of(&names.thresholds)
        .map_err(|missing| Problem::new(format!("thresholds: there is no row for {missing}")))?)
}

/// Thresholds by which workloads are judged: those of a file of one's own, else those that are carried.
///
/// # Errors
/// When the file cannot be read, or names a threshold that there is not.
pub fn thresholds(own: Option<&Path>) -> anyhow::Result<Rules> {
    rules(&names(own)?)
}

/// How much the weights of a model take that an engine names, where the catalogue knows it: in 16 bits,
/// since no metric says whether they are quantised.
pub fn weights(model: &str, models: &ModelCatalogue) -> Option<Bytes> {
    let (_, architecture) = models.resolve(model).ok()?;
    Some(Bytes::new(2 * architecture.parameters().0))
}

/// Thresholds and names: those of the user's file before those that the binary carries.
///
/// # Errors
/// When the file cannot be read, or names a threshold that there is not.
pub fn names(own: Option<&Path>) -> anyhow::Result<AuditCatalogue> {
    let carried = read_audit_catalogue("catalogue/audit.toml", CATALOGUE)?;
    let Some(path) = own else {
        return Ok(carried);
    };
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("--rules: cannot read {}", path.display())).because(error)
    })?;
    let mut own = read_audit_catalogue(&path.display().to_string(), &text)?;
    for row in &own.thresholds {
        if !carried
            .thresholds
            .iter()
            .any(|known| known.name == row.name)
        {
            let known: Vec<&str> = carried
                .thresholds
                .iter()
                .map(|row| row.name.as_str())
                .collect();
            return Err(Problem::new(format!(
                "{}: there is no threshold {:?}",
                path.display(),
                row.name
            ))
            .hint(format!("there are {}", known.join(", ")))
            .into());
        }
    }
    own.thresholds.extend(carried.thresholds);
    let (own_names, names) = (&mut own.vocabulary, carried.vocabulary);
    own_names.metrics.extend(names.metrics);
    for (own, carried) in [
        (&mut own_names.namespace, names.namespace),
        (&mut own_names.pod, names.pod),
        (&mut own_names.container, names.container),
        (&mut own_names.job, names.job),
        (&mut own_names.device, names.device),
        (&mut own_names.host, names.host),
        (&mut own_names.model, names.model),
        (&mut own_names.slice, names.slice),
        (&mut own_names.instance, names.instance),
        (&mut own_names.exporters, names.exporters),
    ] {
        own.extend(carried);
    }
    Ok(own)
}
