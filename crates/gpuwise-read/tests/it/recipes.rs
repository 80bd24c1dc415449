//! `recipes.csv`: every row of the catalogue is read, and a wrong one says where and why.

use gpuwise_read::catalogue::read_recipes;
use std::{fs, path::PathBuf};

fn shipped() -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/recipes.csv");
    fs::read_to_string(file).expect("recipes.csv")
}

#[test]
fn the_catalogue_is_read_and_every_row_has_a_source() {
    let recipes = read_recipes("recipes.csv", &shipped()).expect("recipes");
    assert!(recipes.len() >= 15);
    for recipe in recipes {
        assert!(recipe.source.contains(':'), "{recipe:?}");
    }
}

fn check(from: &str, to: &str, expected: &str) {
    let text = shipped();
    assert!(text.contains(from), "{from:?}");
    let error = read_recipes("mine.csv", &text.replacen(from, to, 1)).expect_err(to);
    let said = error.to_string();
    assert!(said.starts_with("mine.csv: line "), "{said}");
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_wrong_cell_is_named() {
    check(
        ",sglang,agg,",
        ",sgl,agg,",
        "engine \"sgl\"; expected one of",
    );
    check(
        ",sglang,agg,",
        ",sglang,both,",
        "mode \"both\"; expected agg or disagg",
    );
    check(",fp8,0.82,", ",fp7,0.82,", "cache \"fp7\" is no format");
    check(",fp8,0.82,", ",fp8,-1,", "-1; expected numbers above 0");
    check(
        ",in_flight,,,",
        ",many,,,",
        "sequences \"many\"; expected a number above 0",
    );
    check(
        ",0.19.0,",
        ",newest,",
        "since \"newest\"; expected a release",
    );
    check(
        ",,tensor,",
        ",,pipeline,",
        "layout \"pipeline\"; expected tensor or nothing",
    );
}
