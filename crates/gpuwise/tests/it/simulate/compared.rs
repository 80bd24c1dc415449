//! `gpuwise compare`, and `plan --simulate`: formulas, simulation and measurement beside each other.

use super::{place, simulate};
use crate::support::Place;
use std::collections::BTreeMap;

/// A folder with a deployment and two runs of it, saved.
fn runs() -> Place {
    let place = place();
    for (file, rate) in [("slow.json", "2"), ("fast.json", "6")] {
        let ran = simulate(
            &place,
            &["--requests", "120", "--rate", rate, "--save", file],
        );
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    place
}

/// Rows of the comparison by figure, then by column.
fn rows(place: &Place, files: &[&str]) -> BTreeMap<String, BTreeMap<String, String>> {
    let ran = place.run(&[&["compare"], files, &["--format", "csv"]].concat());
    assert_eq!(ran.code, 0, "{files:?}: {}", ran.err);
    let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
    let headers = reader.headers().expect("a header").clone();
    reader
        .records()
        .map(|record| {
            let record = record.expect("a row");
            let cells = headers.iter().zip(&record);
            let row: BTreeMap<String, String> = cells
                .map(|(name, cell)| (name.to_owned(), cell.to_owned()))
                .collect();
            (row["figure"].clone(), row)
        })
        .collect()
}

fn number(text: &str) -> f64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

#[test]
fn runs_stand_side_by_side() {
    let place = runs();
    let found = rows(&place, &["slow.json", "fast.json"]);
    let tpot = &found["TPOT mean"];
    assert!(
        number(&tpot["fast"]) > 1.1 * number(&tpot["slow"]),
        "{tpot:?}"
    );
    let same = rows(&place, &["slow.json", "slow.json"]);
    assert_eq!(same.len(), found.len());
}

#[test]
fn formulas_and_simulation_stand_beside_a_run() {
    let place = runs();
    let found = rows(&place, &["d.json", "slow.json"]);
    let tpot = found
        .iter()
        .find(|(name, _)| name.ends_with("TPOT mean"))
        .expect("a row")
        .1;
    // The run was simulated, so that the simulation finds it again.
    let again = number(&tpot["simulated_over_run simulated before"]);
    assert!((0.9..1.1).contains(&again), "{tpot:?}");
    assert!(number(&tpot["predicted"]) > 0.0, "{tpot:?}");
    assert!(!tpot.contains_key("measured"), "nothing was measured");
    let said = place.run(&["compare", "d.json", "slow.json"]);
    assert!(said.out.contains("nothing was measured"), "{}", said.out);
    let together = place.run(&["compare", "slow.json", "fast.json"]);
    let kinds = super::joined(&together.out);
    assert!(
        kinds.contains("slow was simulated, fast was simulated"),
        "{kinds}"
    );
    let page = place.run(&["compare", "d.json", "slow.json", "--html", "c.html"]);
    assert_eq!(page.code, 0, "{page:?}");
    let page = std::fs::read_to_string(place.path("c.html")).expect("a page");
    assert!(page.len() < 300_000 && !page.contains("https://"));
}

#[test]
fn what_cannot_be_compared() {
    let place = runs();
    place.write("other.json", super::deployment());
    place.write("broken.json", "{");
    place.write("unknown.json", "{\"hello\": 1}");
    let cases: &[(&[&str], &[&str])] = &[
        (&["slow.json"], &["one run alone"]),
        (&["d.json"], &["d.json", "nothing was measured"]),
        (
            &["d.json", "other.json", "slow.json"],
            &["d.json", "other.json", "both deployments"],
        ),
        (&["slow.json", "none.json"], &["none.json"]),
        (&["slow.json", "broken.json"], &["broken.json"]),
        (&["slow.json", "unknown.json"], &["unknown.json"]),
    ];
    for (files, parts) in cases {
        super::refused::refused(&place, &[&["compare"], *files].concat(), parts);
    }
    // What was simulated corrects nothing.
    super::refused::refused(
        &place,
        &["calibrate", "slow.json", "--deployment", "d.json"],
        &["slow.json", "simulated"],
    );
}

#[test]
fn a_plan_is_tried_before_it_is_shown() {
    let place = Place::new();
    let asked = [
        "plan",
        "llama-3.1-8b",
        "--gpu",
        "L40S,H100",
        "--rate",
        "6",
        "--isl",
        "constant:800",
        "--osl",
        "constant:100",
        "--slo",
        "ttft=p95:1s,tpot=p95:60ms",
        "--top",
        "2",
        "--simulate",
    ];
    let found = place.run(&asked);
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.out.contains("imulat"), "{}", found.out);
    assert_eq!(found.out, place.run(&asked).out);
}
