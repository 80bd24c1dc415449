//! The catalogue of the repository, and constants before any data.

use gpuwise_domain::{
    catalogue::Catalogue, facts::EngineFacts, model::Architecture, training_facts::TrainingFacts,
};
use gpuwise_read::catalogue::{
    ModelCatalogue, read_engine_facts, read_gpus, read_mig_profiles, read_offers, read_quality,
    read_recipes, read_training_facts,
};
use gpuwise_size::{
    constants::Constants,
    knowledge::{Cells, Feedback, Knowledge, Ranges},
};
use std::{fs, path::PathBuf, sync::OnceLock};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue")
}

pub(crate) fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect("a catalogue file")
}

pub(crate) fn catalogue() -> Catalogue {
    Catalogue {
        gpus: read_gpus("gpus.toml", &text("gpus.toml")).expect("GPUs"),
        mig: read_mig_profiles("mig_profiles.csv", &text("mig_profiles.csv"))
            .expect("MIG profiles"),
        offers: read_offers("offers.csv", &text("offers.csv")).expect("offers"),
        recipes: read_recipes("recipes.csv", &text("recipes.csv")).expect("recipes"),
        quality: read_quality("quality.csv", &text("quality.csv")).expect("quality"),
        ..Catalogue::default()
    }
}

pub(crate) fn model(name: &str) -> Architecture {
    static MODELS: OnceLock<ModelCatalogue> = OnceLock::new();
    let models = MODELS.get_or_init(|| {
        let mut models = ModelCatalogue::default();
        let mut files: Vec<PathBuf> = fs::read_dir(root().join("models"))
            .expect("models")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).expect("a file of models");
            models
                .add(&file.display().to_string(), &text)
                .expect("models");
        }
        models
    });
    models.resolve(name).expect("a model of the catalogue").1
}

/// What an engine does and supports by release.
pub(crate) fn engine_facts(engine: &str) -> EngineFacts {
    read_engine_facts(engine, &text(&format!("engines/{engine}.toml"))).expect("facts of an engine")
}

/// Constants before any data, so that tests do not move when constants are refitted.
pub(crate) fn prior() -> Knowledge {
    Knowledge {
        serving: Constants::prior(&["Ampere", "Hopper"], &["vllm"]),
        local: Constants::prior(&[], &["llamacpp-2024"]),
        cells: Cells::default(),
        ranges: Ranges::default(),
        feedback: Feedback::default(),
    }
}

pub(crate) fn training_facts() -> TrainingFacts {
    let text = include_str!("../../../../catalogue/training.toml");
    read_training_facts("training.toml", text).expect("facts of training")
}
