//! Plans as objects of autoscalers.

use crate::support::Place;

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
    let knative = emit(&["knative", "--rate", "1.5304"]);
    has(
        &knative,
        &[
            "autoscaling.knative.dev/target: \"1.53\"",
            "autoscaling.knative.dev/min-scale: \"0\"",
        ],
    );
    let buffer = emit(&["capacitybuffer", "--spare", "3"]);
    has(
        &buffer,
        &["kind: CapacityBuffer", "replicas: 3", "value: -1000"],
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
            "acceleratorCount: 1",
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
            &["knative", "--min", "5", "--max", "4"],
            "--min 5 is more than --max 4",
        ),
        (
            &["dynamo", "--query", QUERY, "--graph", "llm"],
            "--graph llm: expected a graph and its service",
        ),
        (&["knative", "--idle", "long"], "--idle long"),
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
