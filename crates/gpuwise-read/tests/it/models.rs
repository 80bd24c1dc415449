//! Every model of the catalogue against counts of reference implementations.

use gpuwise_domain::model::Role;
use gpuwise_read::catalogue::ModelCatalogue;
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
        catalogue.add(&file.display().to_string(), &text).expect("a valid file");
    }
    catalogue
}

#[test]
fn every_entry_is_read() {
    let catalogue = catalogue();
    let mut wrong = Vec::new();
    for entry in catalogue.entries() {
        if let Err(error) = catalogue.resolve(&entry.id) {
            wrong.push(format!("{}: {error}", entry.id));
        }
    }
    assert!(wrong.is_empty(), "{} entries:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn counts_are_those_of_the_reference() {
    let catalogue = catalogue();
    let data = include_str!("data/model_counts.csv");
    let mut reader = csv::Reader::from_reader(data.as_bytes());
    let headers = reader.headers().expect("a header").clone();
    let column = |name: &str| headers.iter().position(|h| h == name).expect("a column");
    let (id, total, embedding, vision, cache) = (
        column("id"),
        column("total_parameters"),
        column("embedding"),
        column("vision"),
        column("kv_bytes_per_token_bf16"),
    );
    let mut wrong = Vec::new();
    let mut rows = 0;
    for record in reader.records() {
        let record = record.expect("a row");
        let number = |at: usize| record[at].parse::<u64>().ok();
        rows += 1;
        let architecture = match catalogue.resolve(&record[id]) {
            Ok((_, architecture)) => architecture,
            Err(error) => {
                wrong.push(format!("{}: {error}", &record[id]));
                continue;
            }
        };
        let mut check = |what: &str, want: Option<u64>, got: u64| {
            if let Some(want) = want.filter(|want| *want != got) {
                let off = got as i128 - i128::from(want);
                wrong.push(format!("{} ({}): {what} {got}, reference {want}: {off}", &record[id], architecture.model_type));
            }
        };
        check("parameters", number(total), architecture.parameters().0);
        check("cache", number(cache), 2 * architecture.cache_elements_per_token());
        if architecture.tied_head || architecture.encoder.is_none() {
            let tables = architecture.outside.iter().filter(|t| t.role == Role::Embedding && t.name == "embed_tokens");
            check("embedding", number(embedding), tables.map(|t| t.elements()).sum());
        }
        if let Some(want) = number(vision).filter(|v| *v > 0) {
            let got = architecture.parameters_of(|r| matches!(r, Role::Tower | Role::Projector)).0;
            check("towers", Some(want), got);
        }
    }
    assert!(rows > 400);
    assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
}
