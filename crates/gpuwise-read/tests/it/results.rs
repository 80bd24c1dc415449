//! Result files of load generators, small ones of every tool and the published ones.

use gpuwise_domain::question::Load;
use gpuwise_read::results::{Measurement, Setting, Tool, read_results};
use std::fmt::Write as _;

fn one(text: &str) -> Measurement {
    let mut all = read_results(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// `ttft_mean=50 …`, the load first.
fn figures(measurement: &Measurement) -> String {
    let load = match &measurement.load {
        Load::Unstated => "most".to_owned(),
        Load::InFlight(requests) => format!("{requests} in flight"),
        Load::Rate(rates) => format!("{rates:?}/s"),
    };
    let mut out = format!("{} {load}:", measurement.tool);
    for metric in &measurement.metrics {
        let _ = write!(out, " {}={:.4}", metric.name, metric.value);
    }
    out
}

const VLLM: &str = r#"{"backend":"vllm","model_id":"acme/m","num_prompts":200,"request_rate":4.0,"burstiness":0.5,"max_concurrency":null,
 "duration":52.0,"completed":200,"failed":0,"total_input_tokens":100000,"total_output_tokens":20000,"request_throughput":3.85,
 "output_throughput":385.0,"mean_ttft_ms":50.0,"median_ttft_ms":45.0,"p99_ttft_ms":140.0,"mean_tpot_ms":20.0,"p99_tpot_ms":31.0,
 "mean_itl_ms":20.5,"mean_e2el_ms":2030.0}"#;

#[test]
fn vllm_writes_milliseconds() {
    let seen = one(VLLM);
    assert_eq!(
        figures(&seen),
        "vLLM bench [4.0]/s: ttft_mean=50.0000 tpot_mean=20.0000 e2e_mean=2030.0000 ttft_p50=45.0000 ttft_p99=140.0000 tpot_p99=31.0000"
    );
    assert_eq!((seen.input, seen.output), (Some(500.0), Some(100.0)));
    assert_eq!(
        (seen.model.as_deref(), seen.engine.as_deref()),
        (Some("acme/m"), Some("vllm"))
    );
    assert!(
        seen.notes[0].contains("squared variation of 2.00"),
        "{:?}",
        seen.notes
    );
}

#[test]
fn what_is_more_than_was_served_is_no_latency() {
    let check = |change: &[(&str, &str)], expected: &str| {
        let mut text = VLLM.to_owned();
        for (from, to) in change {
            assert!(text.contains(from));
            text = text.replace(from, to);
        }
        let shown = figures(&one(&text));
        assert!(shown.starts_with(expected), "{shown}");
    };
    // Sent in 50 s, served in 120.
    let slow = ("\"duration\":52.0", "\"duration\":120.0");
    check(&[slow], "vLLM bench most: output_throughput=385");
    check(
        &[slow, ("\"max_concurrency\":null", "\"max_concurrency\":32")],
        "vLLM bench 32 in flight: ttft_mean=50",
    );
    check(
        &[("4.0", "\"inf\"")],
        "vLLM bench most: output_throughput=385",
    );
    check(
        &[
            ("4.0", "Infinity"),
            ("\"max_concurrency\":null", "\"max_concurrency\":8"),
        ],
        "vLLM bench 8 in flight: ttft_mean=50",
    );
}

#[test]
fn percentiles_need_requests_beyond_them() {
    let seen = one(&VLLM.replace("\"completed\":200", "\"completed\":40"));
    assert!(
        !seen
            .metrics
            .iter()
            .any(|metric| metric.name.ends_with("p99"))
    );
    assert!(
        seen.notes
            .iter()
            .any(|note| note.contains("ttft_p99, tpot_p99 left out: 40 requests")),
        "{:?}",
        seen.notes
    );
    assert_eq!(seen.failed, Some(0));
}

#[test]
fn sglang_writes_lines() {
    let line = |rate: &str| {
        format!(
            r#"{{"backend":"sglang","request_rate":{rate},"max_concurrency":16,"duration":10.0,"completed":100,"total_input_tokens":1000,"total_output_tokens":2000,"total_output_tokens_retokenized":1990,"mean_e2e_latency_ms":900.0,"mean_ttft_ms":30.0,"mean_itl_ms":15.0,"output_throughput":200.0}}"#
        )
    };
    let both = format!("{}\n{}\n", line("Infinity"), line("10.0"));
    let read = read_results(&both).expect("it is there");
    assert_eq!(
        figures(&read[0]),
        "SGLang bench 16 in flight: ttft_mean=30.0000 e2e_mean=900.0000 itl_mean=15.0000 output_throughput=200.0000"
    );
    assert_eq!(read[1].load, Load::Rate(vec![10.0]));
    assert_eq!(
        (read[1].place.as_str(), read[1].engine.as_deref()),
        ("line 2", Some("sglang"))
    );
}

#[test]
fn guidellm_calls_our_tpot_inter_token_latency() {
    let text = |itl: &str| {
        format!(
            r#"{{"benchmarks":[{{"config":{{"strategy":{{"type_":"concurrent","streams":4}},"backend":{{"model":"m"}}}},"duration":10.0,
        "metrics":{{"request_totals":{{"successful":20,"errored":1}},{itl}
        "request_latency":{{"successful":{{"mean":2.0}}}},
        "time_to_first_token_ms":{{"successful":{{"mean":100.0,"percentiles":{{"p95":180.0}}}}}},
        "time_per_output_token_ms":{{"successful":{{"mean":30.0}}}},
        "output_token_count":{{"successful":{{"mean":50.0}}}},"prompt_token_count":{{"successful":{{"mean":10.0}}}}}}}}]}}"#
        )
    };
    let with = one(&text(
        r#""inter_token_latency_ms":{"successful":{"mean":28.0}},"#,
    ));
    assert_eq!(
        figures(&with),
        "GuideLLM 4 in flight: ttft_mean=100.0000 e2e_mean=2000.0000 tpot_mean=28.0000 ttft_p95=180.0000"
    );
    // (30·50 - 100)/49
    let without = one(&text(""));
    assert!(
        figures(&without).contains("tpot_mean=28.5714"),
        "{}",
        figures(&without)
    );
    assert!(
        without
            .notes
            .iter()
            .any(|note| note.contains("TTFT taken out of it"))
    );
    assert_eq!(without.failed, Some(1));
}

#[test]
fn aiperf_writes_a_unit_for_each_metric() {
    let text = r#"{"request_count":{"unit":"requests","avg":120.0},"time_to_first_token":{"unit":"ms","avg":80.0,"p50":70.0,"p99":300.0},
        "inter_token_latency":{"unit":"ms","avg":12.0},"request_latency":{"unit":"s","avg":1.5},
        "request_throughput":{"unit":"requests/sec","avg":5.0},"output_token_throughput":{"unit":"tokens/sec","avg":600.0},
        "input_sequence_length":{"unit":"tokens","avg":550.0},"output_sequence_length":{"unit":"tokens","avg":120.0},
        "input_config":{"endpoint":{"model_names":["acme/m"]},"loadgen":{"concurrency":8}}}"#;
    let seen = one(text);
    assert_eq!(
        figures(&seen),
        "AIPerf 8 in flight: ttft_mean=80.0000 tpot_mean=12.0000 e2e_mean=1500.0000 ttft_p50=70.0000 ttft_p99=300.0000 output_throughput=600.0000 request_throughput=5.0000"
    );
    assert_eq!(
        (seen.model.as_deref(), seen.tool),
        (Some("acme/m"), Tool::AiPerf)
    );
}

#[test]
fn files_without_measurements_say_what_to_give() {
    let check = |text: &str, expected: &str| {
        let error = read_results(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("{\"a\":1,\"b\":2}", "it has `a`, `b`");
    check("{\"a\":", "it is no JSON");
    check("a: [", "it is no JSON or YAML");
    check("just words", "it has one value");
    check(
        &VLLM.replace("\"completed\":200", "\"completed\":0"),
        "vLLM bench: `completed` is 0",
    );
    check(
        "{\"load_summary\":{},\"successes\":{\"count\":3}}",
        "what Prometheus saw",
    );
    check(
        "{\"load_summary\":{\"count\":3},\"successes\":{\"count\":3,\"latency\":{}}}",
        "give the files of its stages",
    );
    check("{\"benchmarks\":[]}", "no benchmark in `benchmarks`");
    check(
        "{\"benchmarks\":[{\"config\":{\"strategy\":{\"type_\":\"odd\"}},\"metrics\":{\"request_totals\":{\"successful\":1}}}]}",
        "strategy \"odd\"",
    );
}

#[test]
fn what_the_file_does_not_say_comes_from_flags() {
    let seen = one(VLLM);
    let full = Setting {
        gpu: Some("H100".into()),
        tensor: Some(2),
        data: Some(3),
        ..Setting::default()
    };
    let rows = seen.questions(&full, "bench").expect("it is there");
    let row = &rows[0];
    assert_eq!(
        (row.id.as_str(), row.metric.as_str(), row.value),
        ("bench ttft_mean", "ttft_mean", Some(50.0))
    );
    assert_eq!(
        (row.model.as_str(), row.engine.as_str(), row.gpus),
        ("acme/m", "vllm", Some(6))
    );
    assert_eq!(
        (row.load.clone(), row.input, row.unit.as_str()),
        (Load::Rate(vec![4.0]), Some(500.0), "ms")
    );
    let check = |setting: Setting, measurement: &Measurement, flag: &str| {
        let error = measurement
            .questions(&setting, "x")
            .expect_err("it is refused");
        assert_eq!(error.flag, flag, "{error}");
    };
    check(Setting::default(), &seen, "--tp");
    check(
        Setting {
            gpu: None,
            ..full.clone()
        },
        &seen,
        "--gpu",
    );
    let nameless = Measurement {
        model: None,
        engine: None,
        ..seen.clone()
    };
    check(full.clone(), &nameless, "--model");
    check(
        Setting {
            model: Some("m".into()),
            ..full
        },
        &nameless,
        "--engine",
    );
}

#[test]
fn published_files() {
    let Some(folder) = gpuwise_needs::data("serving/results") else {
        return;
    };
    let read = |name: &str| {
        read_results(&std::fs::read_to_string(folder.join(name)).expect("it is there"))
    };
    let check = |name: &str, expected: &str| {
        let shown: Vec<String> = read(name)
            .expect("it is there")
            .iter()
            .map(figures)
            .collect();
        assert_eq!(shown.join("\n"), expected, "{name}");
    };
    check(
        "inferencex_glm5_fp8_vllm_tp8_isl10240_osl128_conc4.json",
        "InferenceX 4 in flight: ttft_p50=1343.1076 tpot_p50=45.0899 e2e_p50=7081.4508 output_throughput=71.7293 request_throughput=0.5604",
    );
    check(
        "inference_perf_batch_stage_0_lifecycle.json",
        "inference-perf [1.0]/s: ttft_mean=33.3190 tpot_mean=3.4776 e2e_mean=483.2282 ttft_p50=32.9181 tpot_p50=3.4682 e2e_p50=482.4238 ttft_p90=38.9777 tpot_p90=3.5061 e2e_p90=490.6290 ttft_p95=40.1042 tpot_p95=3.5363 e2e_p95=491.5854",
    );
    let saturated = read("inference_perf_batch_stage_6_lifecycle.json").expect("it is there");
    assert_eq!(
        saturated[0].load,
        Load::Unstated,
        "{:?}",
        saturated[0].notes
    );
    let mock = read("guidellm_report_v2_mock_server.json").expect("it is there");
    assert_eq!(
        mock.iter().map(|one| one.load.clone()).collect::<Vec<_>>(),
        [Load::Rate(vec![2.0]), Load::Rate(vec![4.0])]
    );
    assert!(
        (mock[0]
            .metrics
            .iter()
            .find(|metric| metric.name == "tpot_mean")
            .expect("it is there")
            .value
            - 1.150846)
            .abs()
            < 1e-6
    );
    let fixture = read("inference_perf_lifecycle_fixture.yaml").expect("it is there");
    assert_eq!(
        (fixture[0].requests, fixture[0].load.clone()),
        (3, Load::Rate(vec![1.0]))
    );
    assert!(
        read("inference_perf_batch_summary_lifecycle.json")
            .expect_err("it is refused")
            .to_string()
            .contains("its stages")
    );
    assert!(
        read("inference_perf_batch_stage_0_prometheus.json")
            .expect_err("it is refused")
            .to_string()
            .contains("Prometheus")
    );
}
