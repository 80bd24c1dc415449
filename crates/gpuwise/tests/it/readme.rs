//! The README's table of commands, as a newcomer meets it: after the page's first command, which builds the default
//! features.

use crate::support::Place;
use gpuwise_app::commands::OPTIONAL;
use std::{fs, path::Path};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Features of a build that names none.
fn usual_features() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates/gpuwise/Cargo.toml")).expect("a file");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let usual = manifest["features"]["default"].as_array().expect("a list");
    let names = usual.iter().map(|name| name.as_str().expect("a name"));
    names.map(Into::into).collect()
}

/// Commands in a text, each between backticks.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter_map(|span| span.strip_prefix("gpuwise "))
}

/// The words of a command as a shell hands them over, up to a pipe.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(Into::into));
        }
    }
    let end = words.iter().position(|word| word == "|" || word == "\\|");
    words.truncate(end.unwrap_or(words.len()));
    words.retain(|word| word != "…");
    words
}

/// The feature that a command takes beyond those of every build.
fn feature_of(command: &str, usual: &[String]) -> Option<&'static str> {
    let name = command.split_whitespace().next()?;
    let (_, feature) = OPTIONAL.iter().find(|(known, _)| *known == name)?;
    (!usual.iter().any(|known| known == feature)).then_some(feature)
}

#[test]
fn each_row_runs_after_the_first_command_or_says_what_it_takes() {
    let page = fs::read_to_string(root().join("README.md")).expect("the README");
    let (_, section) = page.split_once("\n## What it does\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let usual = usual_features();
    let place = Place::new();
    let mut tried = 0;
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        for command in commands(row) {
            if let Some(feature) = feature_of(command, &usual) {
                assert!(row.contains(&format!("--features {feature}")), "{row}");
            }
            let mut words = words(command);
            // What follows is the command of a lease.
            words.truncate(
                words
                    .iter()
                    .position(|word| word == "--")
                    .unwrap_or(words.len()),
            );
            words.push("--help".into());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ran = place.run(&words);
            assert_eq!(ran.code, 0, "{command}: {}", ran.err);
            tried += 1;
        }
        assert!(
            row.matches('`').count().is_multiple_of(2),
            "code that does not end: {row}"
        );
    }
    assert!(tried > 45, "{tried} commands");
}

#[test]
fn guides_name_the_feature_that_their_commands_take() {
    let usual = usual_features();
    for entry in fs::read_dir(root().join("docs/guides")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a page");
        let shown = text.lines().filter_map(|line| {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            line.strip_prefix("gpuwise ")
        });
        for command in shown.chain(commands(&text)) {
            if let Some(feature) = feature_of(command, &usual) {
                assert!(
                    text.contains(&format!("--features {feature}")),
                    "{}: `gpuwise {command}` takes a build with --features {feature}, which the page does not say",
                    path.display()
                );
            }
        }
    }
}
