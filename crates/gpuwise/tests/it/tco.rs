//! `gpuwise tco`: bills of flags and of saved deployments, bad input, and the sheet in a spreadsheet.

use crate::support::Place;
use serde_json::Value;
use std::process::Command;

const HOSTS: [&str; 7] = [
    "tco",
    "--gpu",
    "H100 SXM5 80GB",
    "--gpus-per-host",
    "8",
    "--on-demand",
    "31.464USD/h",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    HOSTS.iter().chain(more).copied().collect()
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let place = Place::new();
    place.write("falling.csv", "month,load\n1,5\n2,4\n");
    place.write("nothing.csv", "month,requests\n1,5\n");
    place.write(
        "mine.toml",
        "[[cost]]\nkey = \"pew\"\nvalue = 1\nsource = \"x\"\n",
    );
    let check = |more: &[&str], parts: &[&str]| {
        let ran = place.run(&with(more));
        assert_eq!(ran.code, 2, "{more:?}: {ran:?}");
        for part in parts {
            assert!(
                ran.err.contains(part),
                "{more:?}: {:?} has no {part:?}",
                ran.err
            );
        }
    };
    check(
        &["--growth", "-2%/month"],
        &["growth is negative", "hint:", "CSV"],
    );
    check(&["--growth", "-100%/month"], &["nothing is left"]);
    check(&["--growth", "20%"], &["20%/month"]);
    check(
        &["--growth", "nothing.csv"],
        &["nothing.csv", "line 1", "`load`"],
    );
    check(&["--growth", "falling.csv"], &["2 months", "36", "hint:"]);
    check(&["--growth", "absent.csv"], &["absent.csv"]);
    check(&["--horizon", "36"], &["36mo"]);
    check(&["--horizon", "11y"], &["132 months", "120"]);
    check(
        &["--capital", "300000EUR"],
        &["currencies are never added", "price of a host in EUR"],
    );
    check(
        &["--currency", "EUR"],
        &["currencies are never added", "--set energy=…EUR"],
    );
    check(
        &["--duty", "0%"],
        &["nothing would be served", "--duty 50%"],
    );
    check(&["--set", "pue=0.8"], &["below 1"]);
    check(&["--set", "pew=1"], &["pew", "pue"]);
    check(
        &["--assumptions", "mine.toml"],
        &["mine.toml", "row 1", "pew"],
    );
    check(&["--serves", "4 images"], &["images/s"]);
    check(&["--start", "soon"], &["2026-12"]);
    let ran = place.run(&["tco"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--gpus-per-host"), "{}", ran.err);
    // Hosts without any price: what there is no price for is asked for.
    let ran = place.run(&["tco", "--gpu", "L4", "--gpus-per-host", "1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--capital"), "{}", ran.err);
}

#[test]
fn given_months_may_fall_and_a_short_life_is_replaced() {
    let place = Place::new();
    let months: Vec<String> = (0..24)
        .map(|month| format!("{}", 1.0 - f64::from(month) / 40.0))
        .collect();
    place.write("load.csv", format!("load\n{}\n", months.join("\n")));
    let ran = place.run(&with(&[
        "--growth",
        "load.csv",
        "--horizon",
        "24mo",
        "--set",
        "life=1y",
        "--format",
        "json",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    let calendar = told["calendar"].as_array().expect("months");
    assert_eq!(calendar.len(), 24);
    assert_eq!(calendar[12]["replaced"], 1);
    assert!(told["breaks"].is_null());
}

#[test]
fn a_horizon_beyond_the_prices_says_from_when_on() {
    let place = Place::new();
    let ran = place.run(&with(&["--horizon", "8y"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("Extrapolated from"), "{}", ran.out);
}

/// Figures by their key, ours and the one that a cell holds.
fn figures(csv: &str) -> Vec<(String, String, String)> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(csv.as_bytes());
    let records = reader.records().map(|record| record.expect("a row"));
    let cell = |record: &csv::StringRecord, at: usize| record.get(at).unwrap_or("").to_owned();
    records
        .skip(2)
        .map(|record| (cell(&record, 0), cell(&record, 3), cell(&record, 4)))
        .filter(|(_, _, ours)| !ours.is_empty())
        .collect()
}

#[test]
fn a_spreadsheet_comes_to_the_same_cent() {
    let place = Place::new();
    let ran = place.run(&with(&[
        "--growth",
        "7%/month",
        "--serves",
        "4 images/s",
        "--grid",
        "380g/kWh",
        "--lead-time",
        "4mo",
        "--export",
        "bill.csv",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(place.path("bill.csv")).expect("the sheet");
    let lines = figures(&text);
    let formulas = lines
        .iter()
        .filter(|(_, cell, _)| cell.starts_with("=ROUND("));
    assert!(formulas.count() > 30, "{text}");
    let converted = Command::new("soffice")
        .args(["--headless", "--norestore"])
        .arg(format!(
            "-env:UserInstallation=file://{}",
            place.path("office").display()
        ))
        .args(["--infilter=CSV:44,34,76,1,,1033", "--convert-to"])
        .arg("csv:Text - txt - csv (StarCalc):44,34,76,1,,1033,false,true,false")
        .args(["--outdir", "computed", "bill.csv"])
        .current_dir(place.path("."))
        .output();
    let Ok(converted) = converted else {
        println!("skipped: no LibreOffice (soffice) to compute the sheet anew");
        return;
    };
    assert!(converted.status.success(), "{converted:?}");
    let text = std::fs::read_to_string(place.path("computed/bill.csv")).expect("the sheet");
    let computed = figures(&text);
    assert_eq!(computed.len(), lines.len());
    for (key, theirs, ours) in &computed {
        let [theirs, ours] = [theirs, ours].map(|cell| cell.parse::<f64>().expect(key));
        assert!(
            (theirs - ours).abs() < 0.005,
            "{key}: {theirs} is not {ours}"
        );
    }
}

#[test]
fn words_of_a_file_are_no_formulas_in_the_sheet() {
    let place = Place::new();
    place.write(
        "mine.toml",
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\nsource = \"=HYPERLINK(1)\"\n",
    );
    let ran = place.run(&with(&[
        "--assumptions",
        "mine.toml",
        "--export",
        "bill.csv",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(place.path("bill.csv")).expect("the sheet");
    assert!(
        text.contains(",'=HYPERLINK(1),") && !text.contains(",=HYPERLINK"),
        "{text}"
    );
}
