//! Walks against other counts, changed configurations, the shared data.

mod counted;
mod hostile;
mod shared;

use gpuwise_domain::network::{InputSize, Network};
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue};
use std::sync::OnceLock;

pub(crate) const FILES: [&str; 6] = [
    include_str!("../../../../../catalogue/networks/diffusion.json"),
    include_str!("../../../../../catalogue/networks/large_diffusion.json"),
    include_str!("../../../../../catalogue/networks/recommender.json"),
    include_str!("../../../../../catalogue/networks/speech.json"),
    include_str!("../../../../../catalogue/networks/text.json"),
    include_str!("../../../../../catalogue/networks/vision.json"),
];

fn catalogues() -> (NetworkCatalogue, ModelCatalogue) {
    let (mut networks, mut models) = (NetworkCatalogue::default(), ModelCatalogue::default());
    for text in FILES {
        networks
            .add("networks", text)
            .expect("a file of the catalogue");
    }
    for text in [
        include_str!("../../../../../catalogue/models/mistral.json"),
        include_str!("../../../../../catalogue/models/t5_whisper.json"),
        include_str!("../../../../../catalogue/models/vision_language.json"),
    ] {
        models.add("models", text).expect("a file of the catalogue");
    }
    (networks, models)
}

/// A network of the catalogue.
pub(crate) fn network(name: &str) -> Network {
    static CATALOGUES: OnceLock<(NetworkCatalogue, ModelCatalogue)> = OnceLock::new();
    let (networks, models) = CATALOGUES.get_or_init(catalogues);
    networks.resolve(name, models).expect("a known network")
}

/// One step of denoising without guidance.
pub(crate) fn one_step() -> InputSize {
    InputSize {
        steps: Some(1),
        guided: Some(false),
        ..InputSize::default()
    }
}
