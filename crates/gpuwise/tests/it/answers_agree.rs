//! What one command says holds in the next: saved deployments, fixes that are named, options beside each other.

use crate::support::Place;
use serde_json::Value;

const ASKED: [&str; 11] = [
    "plan",
    "Qwen/Qwen3-8B",
    "--rate",
    "2",
    "--gpu",
    "H100",
    "--isl",
    "constant:1000",
    "--osl",
    "constant:200",
    "--no-slices",
];

fn tpot(value: &Value) -> f64 {
    value.as_f64().expect("seconds")
}

#[test]
fn a_saved_deployment_is_checked_with_what_drafts() {
    let place = Place::new();
    let drafts = ["--draft-model", "Qwen/Qwen3-0.6B", "--draft-tokens", "3"];
    let mut seen = Vec::new();
    for (share, file) in [("10%", "few.json"), ("90%", "many.json")] {
        let more = ["--acceptance", share, "--save", file];
        let planned = place.json(&[&ASKED[..], &drafts, &more].concat());
        let planned = tpot(&planned["deployments"][0]["figures"]["tpot_seconds"]["value"]);
        let checked = place.run(&["check", "--deployment", file, "--format", "json"]);
        let checked: Value = serde_json::from_str(&checked.out).expect("JSON");
        let checked = tpot(&checked["running"]["figures"]["tpot_seconds"]["value"]);
        let apart = |other: f64| (planned / other).max(other / planned);
        assert!(apart(checked) < 1.1, "{share}: {planned} {checked}");
        seen.push(planned);
    }
    assert!(seen[0] > 1.5 * seen[1], "{seen:?}");
}

#[test]
fn what_cannot_draft_is_refused() {
    let place = Place::new();
    for (model, more, expected) in [
        ("Qwen/Qwen3-8B", &[][..], "no prediction layers"),
        (
            "llama-3.1-70b",
            &["--draft-model", "Qwen/Qwen3-0.6B"],
            "vocabulary",
        ),
    ] {
        for command in ["plan", "memory"] {
            let asked = [command, model, "--draft-tokens", "3"];
            let rate = ["--rate", "1"];
            let rate = if command == "plan" { &rate[..] } else { &[] };
            let ran = place.run(&[&asked[..], more, rate].concat());
            assert_eq!(ran.code, 2, "{command} {model}: {}", ran.out);
            assert!(ran.err.contains(expected), "{command}: {}", ran.err);
        }
    }
    let layers = ["plan", "deepseek-v3", "--rate", "1", "--draft-tokens", "3"];
    let ran = place.run(&[&layers[..], &["--gpu", "H200"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn single_precision_is_served_as_the_engine_casts_it() {
    let place = Place::new();
    let asked = |gpu, more: &[&str]| {
        let words = ["plan", "openai-community/gpt2-xl", "--rate", "1"];
        let lengths = [
            "--isl",
            "constant:300",
            "--osl",
            "constant:100",
            "--gpu",
            gpu,
        ];
        place.run(&[&words[..], &lengths, more].concat()).out
    };
    for (gpu, format) in [("T4", "fp16"), ("L4", "bf16")] {
        let planned: Value =
            serde_json::from_str(&asked(gpu, &["--format", "json"])).expect("JSON");
        assert_eq!(planned["deployments"][0]["weights"], format, "{gpu}");
        let stated = asked(gpu, &["--precision", "fp32", "--emit", "vllm"]);
        assert!(stated.contains("--dtype float32"), "{stated}");
    }
}

#[test]
fn what_is_not_known_is_within_no_limit() {
    let place = Place::new();
    let words = ["plan", "llama-3.1-8b", "--rate", "5", "--power", "100W"];
    let value = place.json(&words);
    let ranked = value["deployments"].as_array().expect("deployments");
    assert!(!ranked.is_empty());
    for one in ranked {
        let watts = one["figures"]["power_watts"]["value"].as_f64();
        assert!(watts.is_some_and(|watts| watts <= 100.0), "{one}");
    }
}

#[test]
fn the_budget_that_is_named_has_an_answer_and_is_not_far_from_the_least() {
    let place = Place::new();
    let asked =
        |budget: &str| place.run(&["plan", "llama-3.1-8b", "--rate", "5", "--budget", budget]);
    let said = asked("0.05USD");
    assert_eq!(said.code, 1, "{}", said.out);
    let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let fix = text.split("Fix: --budget ").nth(1).expect("a fix");
    let fix = fix.split("USD/h").next().expect("a price");
    assert_eq!(asked(&format!("{fix}USD/h")).code, 0, "{text}");
    let less = 0.5 * fix.parse::<f64>().expect("a number");
    assert_eq!(asked(&format!("{less:.2}USD/h")).code, 1, "{text}");
}

#[test]
fn a_context_holds_the_requests_that_are_to_be_served() {
    let place = Place::new();
    let words = ["plan", "llama-3.1-8b", "--rate", "5", "--context"];
    let ran = place.run(&[&words[..], &["1"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.out);
    let hint = ran.err.split("--context ").nth(2).expect("a hint");
    let context = hint.split_whitespace().next().expect("a number");
    assert_eq!(place.run(&[&words[..], &[context]].concat()).code, 0);
}

#[test]
fn fixes_of_memory_cast_weights_anew_on_other_gpus() {
    let place = Place::new();
    let words = ["memory", "google/gemma-3-27b-it", "--context", "16384"];
    let ran = place.run(&[&words[..], &["--concurrency", "8", "--gpu", "T4"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("cheapest fix:"), "{}", ran.out);
}

#[test]
fn times_in_milliseconds_are_told_as_such() {
    let place = Place::new();
    let saved = [&ASKED[..], &["--ttft", "p95:1s", "--save", "d.json"]].concat();
    assert_eq!(place.run(&saved).code, 0);
    let lines = (0..200).map(|at| format!("{},{}\n", at * 60_000, 5 + at % 7));
    let text: String = std::iter::once("time,rate\n".to_owned())
        .chain(lines)
        .collect();
    std::fs::write(place.path("t.csv"), text).expect("a file");
    let ran = place.run(&[
        "scale", "plan", "d.json", "--trace", "t.csv", "--start", "180s",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("1,000"), "{}", ran.err);
}
