//! Plans as objects of autoscalers.

use crate::support::Place;
use std::fmt::Write as _;

const QUERY: &str = "sum(rate(requests_total[1m]))";

fn planned(place: &Place) {
    let ran = place.run(&[
        "plan",
        "meta-llama/Llama-3.1-8B",
        "--gpu",
        "H100",
        "--engine",
        "vllm",
        "--rate",
        "8/s",
        "--ttft",
        "p95:1s",
        "--tpot",
        "p95:50ms",
        "--save",
        "deployment.json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_plan_is_written_for_each_autoscaler() {
    let place = Place::new();
    planned(&place);
    let emit = |more: &[&str]| {
        let ran = place.run(&[&["scale", "emit", "deployment.json", "--as"], more].concat());
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.err);
        ran.out
    };
    let has = |text: &str, lines: &[&str]| {
        for line in lines {
            assert!(
                text.lines().any(|one| one.trim() == *line),
                "{line}\n{text}"
            );
        }
    };
    let more = [
        "--query", QUERY, "--rate", "1.5304", "--max", "12", "--min", "2",
    ];
    let keda = emit(&[&["keda"][..], &more].concat());
    has(
        &keda,
        &[
            "minReplicaCount: 2",
            "maxReplicaCount: 12",
            "rate: \"1.53\"",
            "- type: external-push",
        ],
    );
    let shown = emit(&["keda", "--query", QUERY, "--client-secret", "of-keda"]);
    has(
        &shown,
        &["- parameter: tlsClientKey", "key: tls.key", "name: of-keda"],
    );
    // Without it 11 would stay 11.
    assert_eq!(keda.matches("tolerance: \"0\"").count(), 2, "{keda}");
    let hpa = emit(&[&["hpa"][..], &more].concat());
    has(
        &hpa,
        &[
            "kind: HorizontalPodAutoscaler",
            "averageValue: \"1530m\"",
            "minReplicas: 2",
        ],
    );
    // An autoscaler that sees no start waits for one and the idle time before there are none.
    let none = ["--query", QUERY, "--start", "700s", "--idle", "300s"];
    let hpa = emit(&[&["hpa"][..], &none].concat());
    has(
        &hpa,
        &["minReplicas: 0", "stabilizationWindowSeconds: 1000"],
    );
    let external = emit(&[&["external-metrics"][..], &more].concat());
    has(
        &external,
        &[
            "name: gpuwise-replicas",
            "kind: APIService",
            "insecureSkipTLSVerify: true",
            "minReplicas: 2",
        ],
    );
    let knative = emit(&["knative", "--rate", "1.5304", "--start", "700s"]);
    has(
        &knative,
        &[
            "autoscaling.knative.dev/target: \"1.53\"",
            "autoscaling.knative.dev/min-scale: \"0\"",
            "serving.knative.dev/progress-deadline: \"2100s\"",
            "# A start takes 700 s, and a request waits 300 s for it unless timeoutSeconds says more, up to the",
        ],
    );
    let buffer = emit(&["capacitybuffer", "--spare", "3"]);
    has(
        &buffer,
        &["kind: CapacityBuffer", "replicas: 3", "value: -1000"],
    );
    // With what came, spares and bounds are those of the plan for it.
    waves(&place);
    let asked = ["scale", "plan", "deployment.json", "--trace", "waves.csv"];
    let plan = said(&place, &asked);
    let spare = format!("replicas: {}", plan["warm_max"]);
    has(
        &emit(&["capacitybuffer", "--trace", "waves.csv"]),
        &[&spare],
    );
    let dynamo = emit(&["dynamo", "--query", QUERY, "--graph", "llm/Decode"]);
    has(
        &dynamo,
        &[
            "kind: DynamoGraphDeploymentScalingAdapter",
            "name: llm-decode",
        ],
    );
    let wva = emit(&["wva"]);
    has(
        &wva,
        &[
            "kind: VariantAutoscaling",
            "modelID: \"meta-llama/Llama-3.1-8B\"",
            "inference.optimization/acceleratorName: H100-SXM5-80GB",
        ],
    );
}

#[test]
fn what_cannot_be_scaled_so_is_said() {
    let place = Place::new();
    planned(&place);
    for (more, expected) in [
        (&["keda"][..], "--query is missing"),
        (
            &["knative", "--rate", "0"],
            "--rate 0: expected requests a second",
        ),
        (
            &["knative", "--rate", "1e300"],
            "0.001 or more, 1000000000 at most",
        ),
        (
            &["knative", "--min", "5", "--max", "4"],
            "--min 5 is more than --max 4",
        ),
        (
            &["dynamo", "--query", QUERY, "--graph", "llm"],
            "--graph llm: expected a graph and its service",
        ),
        (&["knative", "--idle", "long"], "--idle long"),
        (
            &["hpa", "--query", QUERY, "--start", "1h"],
            "waits 3600 s at most before there are none, and a replica takes 3600 s until it serves, idle for 300 s after that; say --min 1",
        ),
        (
            &[
                "external-metrics",
                "--query",
                QUERY,
                "--scaler",
                "10.0.0.1:6443",
            ],
            "names none; write NAME.NAMESPACE.svc:PORT",
        ),
        (
            &["keda", "--query", QUERY, "--ca", "deployment.json"],
            "deployment.json holds no certificate",
        ),
        (
            &["hpa", "--query", QUERY, "--client-secret", "keda-client"],
            "--client-secret means nothing to --as hpa",
        ),
        (
            &["knative", "--graph", "llm/Decode"],
            "--graph means nothing to --as knative",
        ),
    ] {
        let ran = place.run(&[&["scale", "emit", "deployment.json", "--as"], more].concat());
        assert!(
            ran.code == 2 && ran.err.contains(expected),
            "{more:?}: {}",
            ran.err
        );
    }
}

#[test]
fn a_log_that_is_none_is_refused() {
    let place = Place::new();
    place.write("log.jsonl", "{\"schema\": \"other/v1\"}\n");
    let ran = place.run(&["scale", "serve", "--replay", "log.jsonl"]);
    assert!(ran.code == 2 && ran.err.contains("line 1"), "{}", ran.err);
    let ran = place.run(&["scale", "serve"]);
    assert!(
        ran.code == 2 && ran.err.contains("nothing says what comes"),
        "{}",
        ran.err
    );
}

/// Rates that go up and down by the day, for three days.
fn waves(place: &Place) {
    let rows = (0..432_u32).map(|at| {
        let step = at % 144;
        format!("{},{}\n", at * 600, 8 + step.min(144 - step))
    });
    place.write(
        "waves.csv",
        format!("t_s,rate\n{}", rows.collect::<String>()),
    );
}

fn said(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let ran = place.run(&[arguments, &["--format", "json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    let said = serde_json::from_str(&ran.out).expect("JSON");
    crate::schemas::held(&said);
    said
}

#[test]
fn autoscalers_stand_beside_one_another() {
    let place = Place::new();
    waves(&place);
    let policies = "hpa,gpuwise,perfect";
    let asked = [
        "scale",
        "replay",
        "waves.csv",
        "--policy",
        policies,
        "--cold",
        "180s,600s",
    ];
    let first = said(&place, &asked);
    assert_eq!(first, said(&place, &asked), "one seed, one answer");
    let runs = first["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!(run["keeps"], true, "{run}");
        assert!(
            run["cost_ratio"].as_f64() >= Some(1.0),
            "nobody is below the bound: {run}"
        );
    }
    // Nothing warm costs something else.
    let cold = said(
        &place,
        &[
            "scale",
            "replay",
            "waves.csv",
            "--policy",
            "gpuwise",
            "--warm-cost",
            "never",
        ],
    );
    assert_eq!(cold["runs"][0]["warm_hours"].as_f64(), Some(0.0));
    assert_ne!(cold["runs"][0]["cost_ratio"], runs[1]["cost_ratio"]);
    let page = place.run(&[
        "scale",
        "replay",
        "waves.csv",
        "--policy",
        "gpuwise",
        "--html",
        "w.html",
    ]);
    assert_eq!(page.code, 0, "{}", page.err);
    assert!(
        std::fs::read_to_string(place.path("w.html"))
            .expect("a page")
            .contains("Replicas over time")
    );
}

#[test]
fn a_deployment_is_scaled_by_what_traffic_was() {
    let place = Place::new();
    planned(&place);
    waves(&place);
    let plan = said(
        &place,
        &[
            "scale",
            "plan",
            "deployment.json",
            "--trace",
            "waves.csv",
            "--start",
            "180s",
        ],
    );
    let cost = |policy: &str| {
        let costs = plan["costs"].as_array().expect("costs").iter();
        let mut of = costs.filter(|cost| cost["policy"] == policy);
        of.next()
            .and_then(|cost| cost["replicas"].as_f64())
            .expect("replicas")
    };
    assert!(cost("bound") <= cost("gpuwise") && cost("gpuwise") <= cost("static"));
    assert_eq!(plan["objective"].as_f64(), Some(0.95));
    assert_eq!(plan["schedule"].as_array().map(Vec::len), Some(24));
    assert_eq!(plan["start_seconds"].as_f64(), Some(180.0));
    // Two of a kind in a mix cost what one does alone.
    let asked = [
        "scale",
        "plan",
        "deployment.json",
        "--trace",
        "waves.csv",
        "--beside",
        "deployment.json",
    ];
    let mixed = said(&place, &asked);
    let alone = mixed["variants"][0]["alone_per_month"]
        .as_f64()
        .expect("a price");
    let together = mixed["mixed_per_month"].as_f64().expect("a price");
    assert!(
        (together / alone - 1.0).abs() < 1e-3,
        "{together} of {alone}"
    );
    // Under the controller as well: the deployment twice, and both as a mix.
    let mixes = mixed["mixes"].as_array().expect("mixes");
    assert_eq!(mixes.len(), 3);
    assert!(
        mixes[2]["of_single"].as_f64() <= Some(1.0 + 1e-6),
        "{}",
        mixes[2]
    );
}

/// Two kinds of GPU, and one of them as spot.
const VARIANTS: &str = r#"
[[variant]]
name = "large"
price = "3.00USD/h"
rate = 10.0
service = "2s"

[[variant]]
name = "small"
price = "0.70USD/h"
rate = 2.0
service = "5s"

[[variant]]
name = "spot"
price = "0.30USD/h"
rate = 2.0
service = "5s"
spot = { notice = "30s", a_day = 4.0, outage = "10m" }
"#;

#[test]
fn variants_stand_beside_one_another() {
    let place = Place::new();
    waves(&place);
    place.write("variants.toml", VARIANTS);
    let log = ["--log", "log.jsonl", "--mean", "20"];
    let asked = [
        "scale",
        "replay",
        "waves.csv",
        "--variants",
        "variants.toml",
    ];
    let said = said(&place, &[&asked[..], &log].concat());
    let mixes = said["mixes"].as_array().expect("mixes");
    let names: Vec<&str> = mixes
        .iter()
        .filter_map(|mix| mix["name"].as_str())
        .collect();
    assert_eq!(names, ["large", "small", "spot", "mix"]);
    let mix = &mixes[3];
    assert_eq!(mix["keeps"], true, "{mix}");
    // All of spot is lost at once, four times a day: less than half of what one kind costs that nobody takes away.
    assert!(mix["of_single"].as_f64() < Some(0.9), "{mix}");
    assert!(mix["interrupted"].as_u64() > Some(0));
    // What was decided is decided again, and is as its schema says.
    let lines = std::fs::read_to_string(place.path("log.jsonl")).expect("a log");
    for line in lines.lines().step_by(997) {
        crate::schemas::held(&serde_json::from_str(line).expect("JSON"));
    }
    let again = place.run(&["scale", "replay", "--again", "log.jsonl"]);
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    assert_eq!(
        again.out.trim(),
        format!("{} decisions, 0 differ", lines.lines().count())
    );
    let (first, rest) = lines.split_once('\n').expect("lines");
    let other = first.replacen("\"replicas\":", "\"replicas\":9", 1);
    place.write("log.jsonl", format!("{other}\n{rest}"));
    let again = place.run(&["scale", "replay", "--again", "log.jsonl"]);
    assert!(
        again.code == 1 && again.out.contains("line 1: was"),
        "{}",
        again.out
    );
}

#[test]
fn requests_one_by_one_cost_what_their_flow_does() {
    let place = Place::new();
    waves(&place);
    let asked = ["scale", "replay", "waves.csv", "--policy", "hpa,gpuwise"];
    let flow = said(&place, &asked);
    let each = said(&place, &[&asked[..], &["--step"]].concat());
    for (flow, each) in [
        (&flow["runs"][0], &each["runs"][0]),
        (&flow["runs"][1], &each["runs"][1]),
    ] {
        let cost = |run: &serde_json::Value| run["cost_ratio"].as_f64().expect("a cost");
        assert!(
            (cost(each) / cost(flow) - 1.0).abs() < 0.05,
            "{each} of {flow}"
        );
    }
    assert_eq!(each["by_request"], true);
}

#[test]
fn what_is_asked_of_a_replay_is_held_to_bounds_and_shown_as_it_was_said() {
    let place = Place::new();
    waves(&place);
    let replay = |more: &[&str]| {
        place.run(
            &[
                &["scale", "replay", "waves.csv", "--policy", "gpuwise"],
                more,
            ]
            .concat(),
        )
    };
    let ran = replay(&["--objective", "99.95%"]);
    assert!(
        ran.out.contains("99.95 %") && !ran.out.contains(" 100 %"),
        "{}",
        ran.out
    );
    for (more, expected) in [
        (["--rate", "1e300"], "--rate 1e300: from 1e-9 to 1e9"),
        (["--mean", "1e300"], "--mean 1e300: from 1e-9 to 1e9"),
        (["--period", "0s"], "--period \"0s\": it is 0"),
    ] {
        let ran = replay(&more);
        assert!(
            ran.code == 2 && ran.err.contains(expected),
            "{more:?}: {}",
            ran.err
        );
    }
    // The flag that a hint names is there.
    place.write("one.csv", "t_s,rate\n0,5\n");
    let hint = place.run(&["scale", "replay", "one.csv"]);
    assert!(hint.err.contains("--period 10m"), "{}", hint.err);
    assert_eq!(
        place
            .run(&["scale", "replay", "one.csv", "--period", "10m"])
            .code,
        0
    );
    // Nights without anything: none where none may be, and one where not.
    let rows =
        (0..288_u32).map(|at| format!("{},{}\n", at * 600, if at % 144 < 72 { 8 } else { 0 }));
    place.write(
        "nights.csv",
        format!("t_s,rate\n{}", rows.collect::<String>()),
    );
    let least = |min: &str| {
        let asked = [
            "scale",
            "replay",
            "nights.csv",
            "--policy",
            "gpuwise",
            "--warm-cost",
            "never",
            "--min",
            min,
        ];
        let found = said(&place, &asked);
        found["runs"][0]["serving_hours"].as_f64().expect("hours")
    };
    assert!(
        least("0") + 20.0 < least("1"),
        "{} and {}",
        least("0"),
        least("1")
    );
    // A reading of a billion that stands alone is replayed at the rate before it, and named.
    let rows =
        (0..288_u32).map(|at| format!("{},{}\n", at * 600, if at == 100 { 1e9 } else { 8.0 }));
    place.write(
        "glitch.csv",
        format!("t_s,rate\n{}", rows.collect::<String>()),
    );
    let ran = place.run(&["scale", "replay", "glitch.csv", "--policy", "static"]);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let named = "the reading at 60000 s, 1.000e9 requests/s, is more than 100 times";
    assert!(words.join(" ").contains(named), "{}", ran.out);
}

#[test]
fn services_share_a_fleet_by_guarantee() {
    let place = Place::new();
    waves(&place);
    // 12 replicas serve 24 requests a second; at its highest either service asks for 15.
    let services = r#"
[[variant]]
name = "only"
price = "1.00USD/h"
rate = 2.0
service = "5s"
[[pool]]
name = "only"
gpus = 12
[[service]]
name = "first"
mean = 8
guarantee = { only = 8 }
[[service]]
name = "second"
mean = 8
"#;
    place.write("services.toml", services);
    let said = said(
        &place,
        &[
            "scale",
            "replay",
            "waves.csv",
            "--variants",
            "services.toml",
            "--log",
            "shared.jsonl",
        ],
    );
    let of = |at: usize, field: &str| said["mixes"][at][field].as_f64().expect("a figure");
    assert!(
        of(0, "kept") > 0.98 && of(0, "kept") > of(1, "kept"),
        "{said}"
    );
    let held = |at: usize| {
        let part = &said["mixes"][at]["variants"][0];
        part["serving"].as_f64().expect("replicas") + part["warm"].as_f64().expect("replicas")
    };
    assert!(
        held(0) + held(1) <= 12.0 + 1e-6 && held(0) > held(1),
        "{said}"
    );
    // By which rules each got them is said.
    let reasons = |at: usize| said["mixes"][at]["reasons"].to_string();
    assert!(reasons(0).contains("by guarantee") && !reasons(1).contains("by guarantee"));
    assert!(reasons(1).contains("short of GPUs"), "{}", reasons(1));
    let grants = said["mixes"][0]["grants"].as_array().expect("grants");
    let own = grants.iter().find(|one| one["by"] == "guarantee");
    assert!(own.is_some_and(|one| one["pool"] == "only" && one["got_gpus"].as_f64() > Some(0.0)));
    // Each grant is in the log with what was asked, and is shared out again to the same.
    let log = std::fs::read_to_string(place.path("shared.jsonl")).expect("a log");
    for line in log.lines().step_by(997) {
        crate::schemas::held(&serde_json::from_str(line).expect("JSON"));
    }
    assert!(log.contains(r#""by":"guarantee""#) && log.contains(r#""guaranteed":8"#));
    let again = place.run(&["scale", "replay", "--again", "shared.jsonl"]);
    assert!(
        again.code == 0 && again.out.contains(", 0 differ"),
        "{}",
        again.out
    );
    let other = log.replacen(r#""by":"guarantee""#, r#""by":"budget""#, 1);
    place.write("other.jsonl", other);
    let again = place.run(&["scale", "replay", "--again", "other.jsonl"]);
    assert!(
        again.code == 1 && again.out.contains(", 1 differ"),
        "{}",
        again.out
    );
    assert!(again.out.contains("only: was"), "{}", again.out);
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let place = Place::new();
    waves(&place);
    planned(&place);
    let one = "[[variant]]\nname = \"a\"\n";
    place.write("rateless.toml", format!("{one}price = \"1USD/h\"\n"));
    place.write(
        "unsold.toml",
        format!("{one}rate = 1\noffer = \"aws none us\"\n"),
    );
    for (arguments, says) in [
        (
            &["replay", "waves.csv", "--policy", "none"][..],
            "there is none of this name",
        ),
        (
            &["replay", "waves.csv", "--objective", "100%"],
            "between 0 and 100 %",
        ),
        (&["replay", "waves.csv", "--objective", "much"], "no share"),
        (&["replay", "waves.csv", "--cold", "0s"], "it is 0"),
        (&["replay", "waves.csv", "--rate", "-1"], "negative"),
        (&["replay", "waves.csv", "--rate", "nan"], "above 0"),
        (&["replay", "absent.csv"], "cannot read absent.csv"),
        (
            &["replay", "waves.csv", "--series", "x"],
            "no series is named",
        ),
        (
            &["replay", "waves.csv", "--variants", "absent.toml"],
            "absent.toml",
        ),
        (
            &["replay", "waves.csv", "--variants", "rateless.toml"],
            "variant a: nothing says what it serves",
        ),
        (
            &["replay", "waves.csv", "--variants", "unsold.toml"],
            "variant a: the price list has no offer",
        ),
        (&["replay", "--again", "waves.csv"], "line 1"),
        (
            &["plan", "waves.csv", "--trace", "waves.csv"],
            "is no saved deployment",
        ),
        (
            &[
                "plan",
                "deployment.json",
                "--trace",
                "waves.csv",
                "--ttft",
                "p95:1us",
            ],
            "cannot be kept",
        ),
    ] {
        let ran = place.run(&[&["scale"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn starts_that_were_seen_move_what_is_expected() {
    let place = Place::new();
    planned(&place);
    waves(&place);
    let rows = (0..8).map(|_| "meta-llama/Llama-3.1-8B,fast,nothing,240\n");
    let rows = rows.collect::<String>() + "meta-llama/Llama-3.1-8B,slow,,900\nother,fast,,9\n";
    place.write("starts.csv", format!("model,node,state,seconds\n{rows}"));
    let plan = |more: &[&str]| {
        let asked = ["scale", "plan", "deployment.json", "--trace", "waves.csv"];
        let ran = said(&place, &[&asked[..], more].concat());
        let state = &ran["cold_start"][0];
        let seconds = state["p50_seconds"].as_f64().expect("a number");
        (state["seen"].as_u64(), seconds, ran["cold_start"].clone())
    };
    let (seen, before, states) = plan(&[]);
    assert_eq!(seen, Some(0));
    // A node that is up costs what is lent, one that serves all of it.
    let held = |at: usize| states[at]["held_per_hour"].as_f64();
    assert_eq!(held(0), Some(0.0));
    assert!(held(1) < held(5), "{states}");
    let (seen, after, _) = plan(&["--starts", "starts.csv", "--node", "fast"]);
    assert_eq!(seen, Some(8));
    assert!(after < 0.7 * before && after > 240.0, "{before} {after}");
    for (more, expected) in [
        (
            &["--starts", "starts.csv"][..],
            "choose one by --node: fast, slow",
        ),
        (
            &["--starts", "starts.csv", "--node", "other"],
            "no start of meta-llama/Llama-3.1-8B was seen on it",
        ),
        (&["--starts", "waves.csv"], "no column is called `model`"),
    ] {
        let asked = ["scale", "plan", "deployment.json", "--trace", "waves.csv"];
        let ran = place.run(&[&asked[..], more].concat());
        assert!(
            ran.code == 2 && ran.err.contains(expected),
            "{more:?}: {}",
            ran.err
        );
    }
}

/// Forty requests a second for forty minutes, of 1,000 tokens in and 200 out; in the second half 400 out.
fn longer(place: &Place) {
    let mut text = String::from("arrived_at,num_prefill_tokens,num_decode_tokens\n");
    for at in 0..40 * 2400 {
        let answer = if at < 40 * 1200 { 200 } else { 400 };
        writeln!(text, "{:.3},1000,{answer}", f64::from(at) / 40.0).expect("a line");
    }
    place.write("longer.csv", text);
}

#[test]
fn engines_of_deployments_are_fed_by_tokens() {
    let place = Place::new();
    planned(&place);
    longer(&place);
    let variants =
        "[[variant]]\nname = \"one\"\ndeployment = \"deployment.json\"\nstart = \"60s\"\n";
    place.write("variants.toml", variants);
    let asked = [
        "scale",
        "replay",
        "longer.csv",
        "--variants",
        "variants.toml",
    ];
    let engines = ["--step", "--engines", "--log", "log.jsonl"];
    let by_tokens = said(&place, &[&asked[..], &engines].concat());
    let lines = std::fs::read_to_string(place.path("log.jsonl")).expect("a log");
    for line in lines.lines().step_by(97) {
        crate::schemas::held(&serde_json::from_str(line).expect("JSON"));
    }
    let again = place.run(&["scale", "replay", "--again", "log.jsonl"]);
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    let requests = ["--step", "--engines", "--demand", "requests"];
    let by_requests = said(&place, &[&asked[..], &requests].concat());
    let serving = |of: &serde_json::Value| {
        of["mixes"][0]["variants"][0]["serving"]
            .as_f64()
            .expect("replicas")
    };
    assert!(
        serving(&by_tokens) > 1.2 * serving(&by_requests),
        "{} {}",
        serving(&by_tokens),
        serving(&by_requests)
    );
    // A plan counts them as well: at the same rate the end needs more than the beginning.
    let asked_plan = ["scale", "plan", "deployment.json", "--trace", "longer.csv"];
    let plan = place.run(&[&asked_plan[..], &["--start", "60s", "--format", "json"]].concat());
    let plan: serde_json::Value = serde_json::from_str(&plan.out).expect("JSON");
    assert!(plan["max"].as_u64() > plan["min"].as_u64(), "{plan}");
    assert!(
        plan["notes"].to_string().contains("by their tokens"),
        "{plan}"
    );
    // On machines that are lost for good there is nothing.
    let lost = "[[machines]]\npool = \"POOL\"\nnodes = 40\ngpus = 4\n\n[[loss]]\nof = \"pool\"\nat = \"30m\"\noutage = \"30m\"\n";
    let pool = by_tokens["mixes"][0]["variants"][0]["pool"]
        .as_str()
        .expect("a pool");
    place.write(
        "variants.toml",
        format!("{variants}\n{}", lost.replace("POOL", pool)),
    );
    let lost = said(&place, &[&asked[..], &["--step", "--engines"]].concat());
    let mix = &lost["mixes"][0];
    assert!(mix["interrupted"].as_u64() > Some(0), "{mix}");
    assert!(mix["kept"].as_f64() < Some(0.9), "{mix}");
    let page = ["--step", "--engines", "--html", "page.html"];
    said(&place, &[&asked[..], &page].concat());
    let page = std::fs::read_to_string(place.path("page.html")).expect("a page");
    assert!(
        page.contains("USD an hour") && page.contains("<svg"),
        "no picture"
    );
    // Without a deployment nobody knows the engine.
    place.write("variants.toml", VARIANTS);
    let none = place.run(&[&asked[..], &["--step", "--engines"]].concat());
    assert!(
        none.code == 2
            && none
                .err
                .contains("variant large: no deployment says its engine"),
        "{}",
        none.err
    );
}
