//! What a report's first sentence must not hide: ranges that reach beyond the SLO, and prices of an unknown day.

use crate::support::Place;
use serde_json::Value;
use std::fs;

/// The sentence that answers, of a page.
fn answer(page: &str) -> &str {
    let (_, rest) = page.split_once("<p class=\"answer\">").expect("an answer");
    rest.split_once("</p>").expect("its end").0
}

/// Whether a figure's range reaches beyond what was asked.
fn beyond(figure: &Value, asked: f64) -> bool {
    figure["high"].as_f64().is_some_and(|high| high > asked)
}

#[test]
fn headlines_say_what_is_uncertain() {
    let place = Place::new();
    let llama = [
        "plan",
        "llama-3.1-8b",
        "--rate",
        "8",
        "--isl",
        "2000",
        "--osl",
        "300",
    ];
    let mut seen = [0, 0, 0, 0];
    for (ttft, tpot, price) in [
        ("p95:2s", "p95:80ms", "offers of the catalogue"),
        ("p95:500ms", "p95:20ms", "offers of the catalogue"),
        ("p95:10s", "p95:500ms", "prices.csv"),
    ] {
        let slo = [
            "--ttft",
            ttft,
            "--tpot",
            tpot,
            "--gpu",
            "H100,L40S",
            "--html",
            "page.html",
        ];
        let aws = ["--provider", "aws"];
        let asked = [
            &llama[..],
            &slo,
            if price == "prices.csv" { &aws } else { &[] },
        ]
        .concat();
        let sizing = place.json(&asked);
        let page = fs::read_to_string(place.path("page.html")).expect("a page");
        let best = &sizing["deployments"][0];
        let seconds = |text: &str| match text.trim_start_matches("p95:").strip_suffix("ms") {
            Some(number) => number.parse::<f64>().expect("a number") / 1e3,
            None => text[4..text.len() - 1].parse().expect("a number"),
        };
        let likely = beyond(&best["figures"]["ttft_seconds"], seconds(ttft))
            || beyond(&best["figures"]["tpot_seconds"], seconds(tpot));
        let unknown = best["rental"]["instance_price"]["priced_at"].is_null();
        let said = answer(&page);
        assert_eq!(said.contains("likely within the SLO"), likely, "{said}");
        assert_eq!(said.contains("unknown date"), unknown, "{said}");
        for (index, is) in [likely, !likely, unknown, !unknown].into_iter().enumerate() {
            seen[index] += usize::from(is);
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn pages_of_media_and_training_say_it_too() {
    let place = Place::new();
    let media = [
        "plan",
        "black-forest-labs/FLUX.1-dev",
        "--images",
        "2/s",
        "--latency",
        "p95:8s",
        "--html",
        "media.html",
    ];
    let plan = place.json(&media);
    let best = &plan["deployments"][0];
    let page = fs::read_to_string(place.path("media.html")).expect("a page");
    let said = answer(&page);
    assert_eq!(
        said.contains("likely within the SLO"),
        beyond(&best["latency_seconds"], 8.0),
        "{said}"
    );
    let unknown = |of: &Value| of["rental"]["instance_price"]["priced_at"].is_null();
    assert_eq!(said.contains("unknown date"), unknown(best), "{said}");

    let train = [
        "train",
        "llama-3.1-8b",
        "--method",
        "lora",
        "--tokens",
        "1e9",
        "--within",
        "5d",
        "--html",
        "train.html",
    ];
    let plan = place.json(&train);
    let best = &plan["plans"][0];
    let page = fs::read_to_string(place.path("train.html")).expect("a page");
    let said = answer(&page);
    assert_eq!(said.contains("unknown date"), unknown(best), "{said}");
    let late = best["run"]["total_seconds"]["high"].as_f64() > Some(5.0 * 86400.0);
    assert_eq!(said.contains("likely within"), late, "{said}");
}
