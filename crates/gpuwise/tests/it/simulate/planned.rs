//! What `plan` predicts is what `simulate` finds: the same steps, seen by a formula and one by one.

use super::Place;
use gpuwise_domain::run::Metric;
use gpuwise_wire::runs_from_json;
use serde_json::Value;

/// Mean TPOT and TTFT in seconds, as planned and as simulated.
fn planned_and_simulated(question: &[&str]) -> [[f64; 2]; 2] {
    let place = Place::new();
    let slo = [
        "--ttft", "mean:60s", "--tpot", "mean:60s", "--format", "json",
    ];
    let ran = place.run(&[&["plan"], question, &slo, &["--save", "d.json"]].concat());
    assert_eq!(ran.code, 0, "{question:?}: {}", ran.err);
    let plan: Value = serde_json::from_str(&ran.out).expect("JSON");
    let figure = |name: &str| {
        let value = &plan["deployments"][0]["figures"][name]["value"];
        value.as_f64().unwrap_or_else(|| panic!("no {name}"))
    };
    let ran = place.run(&[
        "simulate",
        "d.json",
        "--requests",
        "400",
        "--format",
        "json",
    ]);
    assert!(ran.code <= 1, "{question:?}: {}", ran.err);
    let runs = runs_from_json(&ran.out).expect("runs");
    let mean = |metric| runs.reports[0].distribution(metric).expect("values").mean;
    [
        [figure("tpot_seconds"), mean(Metric::Tpot)],
        [figure("ttft_seconds"), mean(Metric::Ttft)],
    ]
}

#[test]
fn plans_of_groups_in_lock_step_and_of_drafts_hold() {
    let lock_step =
        "vllm serve deepseek-ai/DeepSeek-V3 --data-parallel-size 8 --enable-expert-parallel";
    let h200 = [
        "--gpu",
        "H200",
        "--isl",
        "constant:2000",
        "--osl",
        "constant:300",
    ];
    let drafts = [
        "llama-3.1-70b",
        "--gpu",
        "H100",
        "--precision",
        "bf16",
        "--isl",
        "constant:500",
        "--osl",
        "constant:300",
        "--draft-model",
        "meta-llama/Llama-3.2-1B",
        "--draft-tokens",
        "4",
    ];
    let questions = [
        [&["--from", lock_step, "--rate", "1"][..], &h200].concat(),
        [&["--from", lock_step, "--rate", "3"][..], &h200].concat(),
        [&drafts[..], &["--rate", "0.5"]].concat(),
        [&drafts[..], &["--rate", "6"]].concat(),
        [&drafts[..], &["--rate", "0.5", "--acceptance", "20%"]].concat(),
        [&drafts[..], &["--rate", "0.5", "--acceptance", "95%"]].concat(),
        vec![
            "deepseek-ai/DeepSeek-V3",
            "--gpu",
            "H200",
            "--rate",
            "4",
            "--isl",
            "constant:2000",
            "--osl",
            "constant:300",
        ],
    ];
    for question in questions {
        let [tpot, ttft] = planned_and_simulated(&question);
        for (name, [planned, simulated], most) in [("TPOT", tpot, 1.25), ("TTFT", ttft, 1.5)] {
            let apart = (planned / simulated).max(simulated / planned);
            assert!(
                apart < most,
                "{question:?}: {name} {planned} planned, {simulated} simulated"
            );
        }
    }
}

/// A plan speaks of percentiles: what it sustains is borne where it is tried, within what seeds differ by.
#[test]
fn what_a_plan_sustains_is_borne_where_it_is_tried() {
    const NOISE: f64 = 0.07;
    for (model, gpu, rate) in [
        ("llama-3.1-8b", "L40S", "6"),
        ("mistralai/Mixtral-8x7B-v0.1", "A100 SXM4 80GB", "5"),
        ("moonshotai/Kimi-K2-Instruct", "H200", "6"),
    ] {
        let place = Place::new();
        let asked = ["plan", model, "--gpu", gpu, "--rate", rate, "--no-slices"];
        let slo = ["--ttft", "p95:2s", "--tpot", "p95:60ms", "--save", "d.json"];
        let plan = place.json(&[&asked[..], &slo].concat());
        let sustains = plan["deployments"][0]["headroom"]["load"].as_f64();
        let ran = place.run(&["validate", "d.json", "--seeds", "3", "--format", "json"]);
        assert!(ran.code <= 1, "{model}: {}", ran.err);
        let ladder = runs_from_json(&ran.out).expect("runs").ladder;
        let knee = ladder.and_then(|ladder| ladder.knee).expect("a knee");
        let asked: f64 = rate.parse().expect("a rate");
        let sustains = sustains.expect("a load");
        assert!(
            knee.high >= (1.0 - NOISE) * sustains && knee.high >= 0.98 * asked,
            "{model}: {sustains} planned, {knee:?}"
        );
    }
}
