//! Every model of the catalogue against counts of reference implementations.

use gpuwise_domain::{
    catalogue::Catalogue,
    model::{Architecture, Role},
};
use gpuwise_read::catalogue::{ModelCatalogue, read_gpus};
use std::{fs, path::Path};

pub(crate) fn catalogue() -> ModelCatalogue {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/models");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the catalogue has models")
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    files.sort();
    let mut catalogue = ModelCatalogue::default();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        catalogue
            .add(&file.display().to_string(), &text)
            .expect("a valid file");
    }
    catalogue
}

#[test]
fn every_entry_is_read_as_what_it_is() {
    let catalogue = catalogue();
    let mut wrong = Vec::new();
    for entry in catalogue.entries() {
        match catalogue.resolve(&entry.id) {
            Err(error) => wrong.push(format!("{}: {error}", entry.id)),
            Ok((found, _)) if found.id != entry.id => {
                wrong.push(format!("{}: leads to {}", entry.id, found.id));
            }
            Ok((_, architecture)) => {
                let guessed = architecture
                    .assumptions
                    .iter()
                    .find(|said| said.contains("not known"));
                wrong.extend(guessed.map(|said| format!("{}: {said}", entry.id)));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} entries:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_alias_leads_to_its_own_entry() {
    let catalogue = catalogue();
    let mut wrong = Vec::new();
    for entry in catalogue.entries() {
        for alias in &entry.aliases {
            match catalogue.entry(alias) {
                Some(found) if found.id == entry.id => {}
                other => wrong.push(format!(
                    "{alias} of {}: {:?}",
                    entry.id,
                    other.map(|e| &e.id)
                )),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} aliases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn names_are_found_in_many_spellings() {
    let catalogue = catalogue();
    for (typed, id) in [
        ("facebook/opt-1.3b", "facebook/opt-1.3b"),
        ("facebook/opt-13b", "facebook/opt-13b"),
        ("OPT 1.3B", "facebook/opt-1.3b"),
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Meta-Llama/llama 3.1 8B", "meta-llama/Llama-3.1-8B"),
        ("llama318b", "meta-llama/Llama-3.1-8B"),
        ("qwen2.5-7b", "Qwen/Qwen2.5-7B"),
    ] {
        let found = catalogue.entry(typed).map(|entry| entry.id.as_str());
        let short = |id: &str| id.trim_end_matches("-Instruct").to_owned();
        assert_eq!(found.map(short).as_deref(), Some(id), "{typed}");
    }
}

#[test]
fn every_gpu_is_found_by_its_names() {
    let text = include_str!("../../../../catalogue/gpus.toml");
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", text).expect("a valid file"),
        ..Catalogue::default()
    };
    for gpu in &catalogue.gpus {
        for name in [&gpu.name].into_iter().chain(&gpu.aliases) {
            let found = catalogue.gpu(name).map(|found| &found.name);
            assert_eq!(found, Some(&gpu.name), "{name}");
        }
        let joined = gpu.name.replace([' ', '-'], "_");
        let found = catalogue.gpu(&joined).map(|found| &found.name);
        assert_eq!(found, Some(&gpu.name), "{joined}");
    }
    for typed in ["H100 SXM5 80GB", "NVIDIA H100-SXM5-80GB", "RTX-PRO-6000"] {
        assert!(catalogue.gpu(typed).is_some(), "{typed}");
    }
    for (typed, expected) in [
        ("H100 96GB HBM2e", "H100 SXM5 96GB"),
        ("NVIDIA H100 (96 GB)", "H100 SXM5 96GB"),
        ("h100-96gb", "H100 SXM5 96GB"),
        ("NVIDIA H100 SXM5 96GB HBM3 GPU", "H100 SXM5 96GB"),
        ("NVIDIA H200 141GB HBM3e Tensor Core GPU", "H200 SXM 141GB"),
        ("A100 SXM4 80GB HBM2e", "A100 SXM4 80GB"),
    ] {
        let found = catalogue.gpu(typed).map(|gpu| gpu.name.as_str());
        assert_eq!(found, Some(expected), "{typed}");
    }
}

type Count = fn(&Architecture) -> u64;

/// What a row of the reference says, and how it is found in an architecture.
const COLUMNS: [(&str, Count); 6] = [
    ("total_parameters", |a| a.parameters().0),
    ("routed_expert", |a| {
        a.parameters_of(Role::is_routed_expert).0
    }),
    ("embedding", |a| table(a, "embed_tokens")),
    ("lm_head", |a| table(a, "lm_head")),
    ("vision", |a| {
        let towers = a.towers.iter().flat_map(|tower| &tower.tensors);
        towers.map(gpuwise_domain::model::Tensor::elements).sum()
    }),
    ("kv_bytes_per_token_bf16", |a| {
        2 * a.cache_elements_per_token()
    }),
];

fn table(architecture: &Architecture, name: &str) -> u64 {
    let tables = architecture
        .outside
        .iter()
        .filter(|tensor| tensor.name == name);
    tables.map(gpuwise_domain::model::Tensor::elements).sum()
}

#[test]
fn counts_are_those_of_the_reference() {
    let catalogue = catalogue();
    let mut reader = csv::Reader::from_reader(include_str!("data/model_counts.csv").as_bytes());
    let headers = reader.headers().expect("a header").clone();
    let column = |name: &str| {
        headers
            .iter()
            .position(|header| header == name)
            .expect("a column")
    };
    let mut wrong = Vec::new();
    let mut rows = 0;
    for record in reader.records() {
        let record = record.expect("a row");
        let id = &record[column("id")];
        rows += 1;
        let (_, architecture) = catalogue.resolve(id).expect("an entry that is read");
        for (name, count) in COLUMNS {
            // Nothing stands where the reference knows no such figure.
            let Ok(want) = record[column(name)].parse::<u64>() else {
                continue;
            };
            let got = count(&architecture);
            if got != want {
                let off = i128::from(got) - i128::from(want);
                wrong.push(format!(
                    "{id} ({}): {name} {got}, reference {want}: {off}",
                    architecture.model_type
                ));
            }
        }
    }
    assert!(rows > 400);
    assert!(
        wrong.is_empty(),
        "{} of {rows}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
