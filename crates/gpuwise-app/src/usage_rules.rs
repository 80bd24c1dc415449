//! By what workloads and GPUs are judged: thresholds of `audit` and `watch`, and names that metrics have.

use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
};
use gpuwise_domain::{
    network::InputSize,
    usage::rules::{AuditCatalogue, Rules},
};
use gpuwise_read::usage::read_audit_catalogue;
use gpuwise_size::media::walk::walk;
use gpuwise_units::Bytes;
use std::{fs, path::Path};

/// The thresholds of these names.
///
/// # Errors
/// When a threshold is missing.
pub fn rules(names: &AuditCatalogue) -> anyhow::Result<Rules> {
    Ok(Rules::of(&names.thresholds)
        .map_err(|missing| Problem::new(format!("thresholds: there is no row for {missing}")))?)
}

/// Thresholds by which workloads are judged: those of a file of one's own, of the user's catalogue, else
/// those that are carried.
///
/// # Errors
/// When the file cannot be read, or names a threshold that there is not.
pub fn thresholds(loaded: &Loaded, own: Option<&Path>) -> anyhow::Result<Rules> {
    rules(&names(loaded, own)?)
}

/// How much the weights of a model take that an engine names, where the catalogue knows it: in 16 bits,
/// since no metric says whether they are quantised.
pub fn weights(model: &str, loaded: &Loaded) -> Option<Bytes> {
    let parameters = if let Ok((_, architecture)) = loaded.models.resolve(model) {
        architecture.parameters().0
    } else {
        let network = loaded.networks.resolve(model, &loaded.models).ok()?;
        walk(&network, &InputSize::default()).ok()?.parameters()
    };
    Some(Bytes::new(2 * parameters))
}

/// Thresholds and names: those of the user's files before those that the binary carries.
///
/// # Errors
/// When a file cannot be read, or names a threshold that there is not.
pub fn names(loaded: &Loaded, own: Option<&Path>) -> anyhow::Result<AuditCatalogue> {
    let mut known: Option<AuditCatalogue> = None;
    for (file, text) in catalogue::files(loaded, OwnRows::Audit) {
        let read = read_audit_catalogue(file, text)?;
        known = Some(match known {
            Some(known) => over(file, read, known)?,
            None => read,
        });
    }
    let known = known.unwrap_or_default();
    let Some(path) = own else {
        return Ok(known);
    };
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("--rules: cannot read {}", path.display())).because(error)
    })?;
    let shown = path.display().to_string();
    over(&shown, read_audit_catalogue(&shown, &text)?, known)
}

/// Rows of a file before others.
fn over(
    file: &str,
    mut own: AuditCatalogue,
    known: AuditCatalogue,
) -> anyhow::Result<AuditCatalogue> {
    for row in &own.thresholds {
        let names = || known.thresholds.iter().map(|known| known.name.as_str());
        if !names().any(|name| name == row.name) {
            let known: Vec<&str> = names().collect();
            return Err(
                Problem::new(format!("{file}: there is no threshold {:?}", row.name))
                    .hint(format!("there are {}", known.join(", ")))
                    .into(),
            );
        }
    }
    own.thresholds.extend(known.thresholds);
    let (own_names, names) = (&mut own.vocabulary, known.vocabulary);
    own_names.metrics.extend(names.metrics);
    for (own, known) in [
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
        own.extend(known);
    }
    Ok(own)
}
