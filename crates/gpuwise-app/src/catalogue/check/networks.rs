//! Diffusion, vision and embedding models: their parts, and a walk.

use super::{Finding, Source, line_of_id};
use gpuwise_domain::network::InputSize;
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue};
use gpuwise_size::media::walk::walk;

/// Whether the parts of each network can be read, and it can be walked for its usual input.
pub(super) fn check(
    source: &Source,
    networks: &NetworkCatalogue,
    models: &ModelCatalogue,
    findings: &mut Vec<Finding>,
) {
    let own = |id: &str| line_of_id(&source.text, id).is_some();
    for entry in networks.entries().iter().filter(|entry| own(&entry.id)) {
        let walked = networks
            .resolve(&entry.id, models)
            .map_err(|error| error.to_string())
            .and_then(|network| {
                let usual = InputSize {
                    text_tokens: Some(1),
                    ..InputSize::default()
                };
                walk(&network, &network.usual.or(usual))
                    .map(drop)
                    .map_err(|error| error.to_string())
            });
        if let Err(error) = walked {
            findings.push(Finding {
                file: source.file.clone(),
                line: line_of_id(&source.text, &entry.id),
                problem: format!("network {:?}: {error}", entry.id),
            });
        }
    }
}
