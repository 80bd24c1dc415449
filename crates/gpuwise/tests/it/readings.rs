//! Real traces as a person read them, and what `gpuwise profile` names first: docs/concepts/readings.md.

use crate::support::Place;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a person calls it, in bold, and the class of the finding; nothing where nothing is to gain.
const READ_AS: [(&str, Option<&str>); 11] = [
    ("Data loading", Some("data_loading")),
    ("Host bound", Some("host_bound")),
    ("First use", Some("first_use")),
    ("Communication", Some("communication")),
    ("Synchronisation", Some("synchronisation")),
    ("Straggler", Some("straggler")),
    ("Dependency", Some("dependency")),
    ("Copies", Some("pcie")),
    ("Attention", Some("unfused_attention")),
    ("FP32", Some("wrong_precision")),
    ("GPU bound", None),
];

/// The row's trace, what was read, what is said.
fn rows(page: &str) -> Vec<(String, String, String)> {
    let cells = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.splitn(3, " | ");
        let name = cells.next()?.split('`').next()?.to_owned();
        let read = cells.next()?.to_owned();
        Some((name, read, cells.next()?.trim_end_matches(" |").to_owned()))
    });
    cells.collect()
}

/// The files of a trace: one, or those of its ranks.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let start = name.trim_end_matches('…');
    for place in ["traces", "nsys"] {
        let entries = std::fs::read_dir(folder.join(place)).expect("a folder of traces");
        for entry in entries {
            let path = entry.expect("an entry").path();
            let file = path.file_name().expect("a name").to_string_lossy();
            let known = file.split(".json").next().unwrap_or_default();
            let known = known.split(".sqlite").next().unwrap_or_default();
            if known == start || name.ends_with('…') && known.starts_with(start) {
                return vec![path];
            }
        }
    }
    panic!("there is no trace {name}");
}

/// The class of the first finding.
fn first(files: &[PathBuf]) -> Option<String> {
    let files = files.iter().map(|file| file.to_str().expect("a path"));
    let mut arguments = vec!["profile", "--format", "json"];
    arguments.extend(files);
    let ran = Place::new().run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    let findings = document["findings"]
        .as_array()
        .or_else(|| document["summary"]["findings"].as_array());
    let one = findings.expect("findings").first()?.clone();
    Some(one["class"].as_str()?.to_owned())
}

#[test]
fn first_findings_are_those_that_a_person_read() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let page = include_str!("../../../../docs/concepts/readings.md");
    let rows = rows(page);
    assert!(rows.len() >= 30, "only {} readings", rows.len());
    let mut wrong = Vec::new();
    for (name, read, said) in rows {
        let bold = read.split("**").nth(1).unwrap_or_default();
        let (_, class) = READ_AS
            .into_iter()
            .find(|(known, _)| *known == bold)
            .unwrap_or_else(|| panic!("{name}: {bold:?} is no class"));
        let found = first(&files(&folder, &name));
        let written = said.split('`').nth(1).map(str::to_owned);
        if found != written || found.as_deref() != class {
            wrong.push(format!(
                "{name}: read {bold}, said {found:?}, the page says {written:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
