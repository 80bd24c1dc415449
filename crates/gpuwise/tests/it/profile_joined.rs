//! `gpuwise profile --with`: recordings on the trace's time axis; `--model`: its layout beside others.

use crate::support::Place;
use serde_json::Value;
use std::fmt::Write as _;

/// The trace and recordings of the guide: eight steps of 1.08 s from 2026-07-14T09:00:00Z on, heat at
/// 1560 to 1575 MHz, a disk that is 98.7 % busy.
const FILES: [(&str, &str); 4] = [
    (
        "recorded.json",
        include_str!("../../../../docs/guides/files/recorded.json"),
    ),
    (
        "recorded-gpu.csv",
        include_str!("../../../../docs/guides/files/recorded-gpu.csv"),
    ),
    (
        "recorded-host.csv",
        include_str!("../../../../docs/guides/files/recorded-host.csv"),
    ),
    (
        "recorded-log.jsonl",
        include_str!("../../../../docs/guides/files/recorded-log.jsonl"),
    ),
];
const WITH: [&str; 8] = [
    "profile",
    "recorded.json",
    "--with",
    "recorded-gpu.csv",
    "--with",
    "recorded-host.csv",
    "--with",
    "recorded-log.jsonl",
];
/// 2026-07-14T09:00:00Z.
const START: i64 = 1_784_019_600;

fn place() -> Place {
    let place = Place::new();
    for (name, text) in FILES {
        place.write(name, text);
    }
    place
}

fn series<'a>(document: &'a Value, metric: &str) -> &'a Value {
    let files = document["joined"]["files"].as_array().expect("files");
    let mut all = files
        .iter()
        .flat_map(|file| file["series"].as_array().expect("series"));
    all.find(|one| one["metric"] == metric)
        .unwrap_or_else(|| panic!("no {metric}"))
}

fn finding<'a>(document: &'a Value, class: &str) -> Option<&'a Value> {
    let findings = document["summary"]["findings"]
        .as_array()
        .expect("findings");
    findings.iter().find(|one| one["class"] == class)
}

#[test]
fn means_are_those_of_the_samples_within_the_trace() {
    let document = place().json(&WITH);
    // The first kernel starts 240.1 ms after 09:00:00, the last ends 8 × 1.08 s after it, less some µs:
    // of samples at full seconds those of 09:00:01 to 09:00:08 count, by turns 1575 and 1560 MHz.
    let clock = series(&document, "sm_clock");
    assert_eq!(clock["samples_within"], 8);
    assert_eq!(clock["mean"], 1567.5);
    assert_eq!(clock["device"], 0);
    // Every 4 s: of 09:00:00, :04 and :08 the last two; iowait 22.8 and 23.2 %.
    let waits = series(&document, "cpu_iowait");
    assert_eq!(waits["samples_within"], 2);
    assert!(
        (waits["mean"].as_f64().unwrap() - 0.23).abs() < 1e-9,
        "{waits}"
    );
    let joined = &document["joined"];
    assert_eq!(joined["started_at_ns"], START * 1_000_000_000 + 240_100_000);
    assert_eq!(joined["files"][0]["joined_by"], "wall_clock");
    assert_eq!(joined["files"][0]["start_ns"], -20_240_100_000_i64);
}

#[test]
fn what_was_recorded_changes_what_is_found() {
    let place = place();
    let (alone, with) = (place.json(&WITH[..2]), place.json(&WITH));
    let low = |document: &Value| {
        finding(document, "data_loading").expect("said")["gain"]["low"]
            .as_f64()
            .unwrap()
    };
    // Workers do not help where the disk is what they wait for.
    assert!(low(&alone) > 0.1);
    assert_eq!(low(&with), 0.0);
    for class in ["held_clock", "idle_outside"] {
        assert_eq!(finding(&alone, class), None, "{class}");
        assert!(finding(&with, class).is_some(), "{class}");
    }
}

/// Twenty seconds of the same kernel, one after another; from the eleventh on each takes 1.4 times as long.
fn slowing() -> String {
    let mut events = String::new();
    let mut at = 0;
    for number in 1..=800 {
        let length = if at < 10_000_000 { 20_000 } else { 28_000 };
        if at > 20_000_000 {
            break;
        }
        // Writing to a text cannot fail.
        let _ = write!(
            events,
            "{{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":{},\"dur\":5,\"args\":{{\"correlation\":{number}}}}},\n\
             {{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"some_gemm\",\"pid\":0,\"tid\":7,\"ts\":{at},\"dur\":{length},\"args\":{{\"device\":0,\"stream\":7,\"correlation\":{number},\"grid\":[128,1,1],\"block\":[256,1,1]}}}},\n",
            number * 10 - 10_000
        );
        at += length;
    }
    format!(
        "{{\"baseTimeNanoseconds\":{}000000000,\"traceEvents\":[{}]}}",
        START,
        events.trim_end_matches(",\n")
    )
}

#[test]
fn a_recorded_clock_confirms_or_refutes_that_it_fell() {
    let place = Place::new();
    place.write("slowing.json", slowing());
    let with = |late: u32| {
        let rows: String = (-1..25)
            .map(|second| {
                format!(
                    "{},0,{}\n",
                    START + second,
                    if second < 10 { 1980 } else { late }
                )
            })
            .collect();
        place.write("clock.csv", format!("time,gpu,sm_clock\n{rows}"));
        place.json(&["profile", "slowing.json", "--with", "clock.csv"])
    };
    let says = |document: &Value| {
        let evidence = finding(document, "throttled_clock")?["evidence"]
            .as_array()?
            .clone();
        evidence.iter().find(|one| one["figure"] == "clock")?["value"].as_f64()
    };
    let alone = place.json(&["profile", "slowing.json"]);
    assert!(finding(&alone, "throttled_clock").is_some());
    assert_eq!(says(&alone), None);
    assert_eq!(says(&with(1400)), Some(1400.0));
    // Kernels were slower, and the clock was not lower: something else it was.
    assert_eq!(finding(&with(1980), "throttled_clock"), None);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of cases")]
fn what_cannot_be_laid_beside_a_trace_is_refused_by_file_line_and_column() {
    let place = place();
    place.write(
        "undated.json",
        FILES[0]
            .1
            .replace("\"baseTimeNanoseconds\":1784019600000000000,", ""),
    );
    let check = |trace: &str, text: &str, more: &[&str], expected: &[&str]| {
        place.write("other.csv", text);
        let ran = place.run(&[&["profile", trace, "--with", "other.csv"][..], more].concat());
        assert_ne!(ran.code, 0, "{text}");
        for words in expected {
            assert!(ran.err.contains(words), "{words}\n{}", ran.err);
        }
    };
    let dated = "recorded.json";
    check(dated, "", &[], &["other.csv: it is empty"]);
    check(
        dated,
        "hello there\n",
        &[],
        &["line 1: this is none of the forms", "hint: read are"],
    );
    check(
        dated,
        "a,b\n1,2\n",
        &[],
        &["no column says when: it has a, b"],
    );
    check(
        dated,
        "time,cpu\nyesterday,1\n",
        &[],
        &["line 2, column `time`: \"yesterday\" is no time"],
    );
    check(
        dated,
        "time,cpu\n2026-07-14T09:00:01Z,fast\n",
        &[],
        &["line 2, column `cpu`: \"fast\" is no number"],
    );
    check(
        dated,
        "time,cpu\n2026-07-14T09:00:03Z,1\n2026-07-14T09:00:01Z,1\n",
        &[],
        &["line 3, column `time`: its time lies 2 s before"],
    );
    check(
        dated,
        "time,cpu\n2026-07-14T09:00:03Z,1\n2026-07-14T09:00:04,1\n",
        &[],
        &["line 3, column `time`: times before it have a time zone"],
    );
    check(
        dated,
        "time,cpu\n2026-07-14T12:00:00Z,1\n2026-07-14T12:00:09Z,1\n",
        &[],
        &[
            "it spans 2026-07-14T12:00:00.000Z to 2026-07-14T12:00:09.000Z, the trace 2026-07-14T09:00:00.240Z to 2026-07-14T09:00:08",
        ],
    );
    // A recording that was interrupted spans the trace, and has nothing of it.
    check(
        dated,
        "time,cpu\n2026-07-14T07:00:00Z,1\n2026-07-14T07:00:05Z,1\n2026-07-14T07:00:10Z,1\n2026-07-14T11:00:00Z,1\n",
        &[],
        &["other.csv has no sample near the trace"],
    );
    // In another time zone, said by nobody.
    check(
        dated,
        "time,cpu\n2026-07-14 11:00:02,1\n2026-07-14 11:00:04,1\n",
        &[],
        &[
            "hint: its times say no time zone",
            "--offset other.csv=-7200",
        ],
    );
    check(
        dated,
        "step,loss\n4,1\n5,1\n",
        &[],
        &["it has steps 4 to 5, the trace 120 to 127"],
    );
    check(
        dated,
        "time,cpu\n0,1\n4,1\n",
        &[],
        &[
            "its times count from a beginning of their own",
            "--offset other.csv=0",
        ],
    );
    check(
        dated,
        "time,cpu\n0,1\n4,1\n",
        &["--offset", "another.csv=0"],
        &["no file of --with has this name"],
    );
    check(
        dated,
        "time,cpu\n2026-07-14T09:00:03Z,1\n",
        &["--trace-start", "2026-07-14T10:00:00Z"],
        &["--trace-start: the trace says itself when it was taken"],
    );
    check(
        "undated.json",
        "time,cpu\n2026-07-14T09:00:03Z,1\n",
        &[],
        &["the trace does not say when it was taken", "--trace-start"],
    );
}

#[test]
fn clocks_are_brought_together_by_offset_zone_start_and_step() {
    let place = place();
    place.write(
        "undated.json",
        FILES[0]
            .1
            .replace("\"baseTimeNanoseconds\":1784019600000000000,", ""),
    );
    let check = |trace: &str, text: &str, more: &[&str], by: &str, mean: f64| {
        place.write("other.csv", text);
        let document = place.json(&[&["profile", trace, "--with", "other.csv"][..], more].concat());
        let file = &document["joined"]["files"][0];
        assert_eq!(file["joined_by"], by, "{text}");
        let found = file["series"][0]["mean"].as_f64().expect("a mean");
        assert!((found - mean).abs() < 1e-4, "{text}: {found}");
    };
    let dated = "recorded.json";
    check(
        dated,
        "time,cpu\n2026-07-14 11:00:02,0.2\n2026-07-14 11:00:04,0.4\n",
        &["--offset", "-7200"],
        "offset",
        0.3,
    );
    check(
        dated,
        "time,cpu\n2026-07-14T11:00:02+02:00,0.2\n2026-07-14T09:00:04Z,0.4\n",
        &[],
        "wall_clock",
        0.3,
    );
    check(
        dated,
        "time,cpu\n1,0.2\n4,0.4\n100,1\n",
        &["--offset", "other.csv=0"],
        "offset",
        0.3,
    );
    // The trace lies between two samples: the line is taken in its middle, 4.44 s after 09:00:00.
    check(
        dated,
        "time,loss\n2026-07-14T08:59:54.44Z,1\n2026-07-14T09:00:14.44Z,3\n",
        &[],
        "wall_clock",
        2.0,
    );
    check(
        "undated.json",
        "time,cpu\n2026-07-14T09:00:03Z,0.5\n",
        &["--trace-start", "2026-07-14T09:00:00Z"],
        "wall_clock",
        0.5,
    );
    check(
        dated,
        "step,loss\n100,9\n122,1\n124,3\n200,9\n",
        &[],
        "steps",
        2.0,
    );
}

#[test]
fn trainer_states_and_answers_of_prometheus_are_read() {
    let place = place();
    // Python writes NaN as no JSON has it.
    place.write("trainer_state.json", r#"{"log_history":[{"epoch":0.1,"step":121,"loss":2.0},{"epoch":0.2,"step":125,"loss":NaN},{"step":127,"train_runtime":9.0,"train_loss":2.0}]}"#);
    let range = |at: [u32; 4]| {
        let values: Vec<String> = (0..)
            .zip(at)
            .map(|(place, value)| format!("[{},\"{value}\"]", START + place * 3))
            .collect();
        values.join(",")
    };
    let answer = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[
        {{"metric":{{"__name__":"node_cpu_seconds_total","cpu":"0","mode":"idle","instance":"n:9100"}},"values":[{}]}},
        {{"metric":{{"__name__":"node_cpu_seconds_total","cpu":"1","mode":"idle","instance":"n:9100"}},"values":[{}]}},
        {{"metric":{{"__name__":"DCGM_FI_PROF_SM_ACTIVE","gpu":"0","Hostname":"n"}},"values":[[{START},"0.5"],[{},"0.7"]]}}]}}}}"#,
        range([0, 3, 6, 9]),
        range([0, 0, 0, 0]),
        START + 4
    );
    place.write("range.json", answer);
    let document = place.json(&[
        "profile",
        "recorded.json",
        "--with",
        "trainer_state.json",
        "--with",
        "range.json",
    ]);
    // One of two cores is idle.
    assert_eq!(series(&document, "cpu_util")["mean"], 0.5);
    assert_eq!(series(&document, "sm_active")["mean"], 0.7);
    let diverged = finding(&document, "loss_diverged").expect("NaN is said");
    assert_eq!(diverged["gain"]["of"], "safety", "{diverged}");
    assert_eq!(document["summary"]["findings"][0]["class"], "loss_diverged");
}

#[test]
fn the_page_has_lanes_on_one_axis() {
    let place = place();
    let ran = place.run(&[&WITH[..], &["--html", "page.html"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(place.path("page.html")).expect("a page");
    for told in [
        "id=\"recorded\"",
        "GPU had work, by the trace",
        "SM clock, GPU 0",
        "disk util, node1 nvme0n1",
        "All that was recorded",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let picture = page.split("recorded-0-title").nth(1).expect("a picture");
    let picture = picture.split("</svg>").next().expect("its end");
    assert!(
        !picture.contains("NaN") && !picture.contains("inf"),
        "{picture}"
    );
}

#[test]
fn another_layout_is_advised_as_train_predicts_it() {
    let place = place();
    let asked = [
        "--model",
        "meta-llama/Llama-3.1-8B",
        "--seq",
        "4096",
        "--global-batch",
        "16",
    ];
    let document = place.json(&[&["profile", "recorded.json"][..], &asked].concat());
    let layouts = &document["layouts"];
    // By the trace's process group `mesh_tp`.
    assert_eq!(
        (&layouts["now"]["tensor"], &layouts["of"]),
        (&8.into(), &"8xH100 SXM5 80GB".into())
    );
    let best = &layouts["others"][0];
    assert!(best["step_seconds_high"].as_f64() < layouts["now"]["step_seconds_low"].as_f64());
    let found = finding(&document, "parallel_layout").expect("advised");
    assert!(found["gain"]["low"].as_f64().unwrap() > 0.0, "{found}");
    // The command gives the same figure.
    let command = best["command"]
        .as_str()
        .expect("a command")
        .replace('\'', "");
    let words = command
        .strip_prefix("gpuwise ")
        .expect("ours")
        .replace("H100 SXM5 80GB", "H100_SXM5_80GB");
    let words: Vec<String> = words
        .split(' ')
        .map(|word| word.replace("H100_SXM5_80GB", "H100 SXM5 80GB"))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let trained = place.json(&words);
    let step = &trained["ranked"][0]["step"]["seconds"];
    let step = if step.is_null() {
        &trained["plans"][0]["step"]["seconds"]
    } else {
        step
    };
    assert_eq!(step["value"], best["step_seconds"], "{trained}");
}

#[test]
fn no_layout_is_advised_where_it_cannot_be_told() {
    let place = place();
    place.write(
        "alone.json",
        FILES[0].1.replace("\"world_size\":8", "\"world_size\":1"),
    );
    place.write(
        "ungrouped.json",
        FILES[0].1.replace("mesh_tp", "default_pg"),
    );
    let check = |trace: &str, more: &[&str], expected: &str| {
        let asked = [
            "profile",
            trace,
            "--model",
            "meta-llama/Llama-3.1-8B",
            "--seq",
            "4096",
        ];
        let document = place.json(&[&asked[..], more].concat());
        assert_eq!(finding(&document, "parallel_layout"), None, "{expected}");
        let missing = document["summary"]["missing"].to_string();
        assert!(missing.contains(expected), "{expected}: {missing}");
    };
    check("alone.json", &[], "the trace is of one GPU");
    check(
        "ungrouped.json",
        &[],
        "which layout runs is not in the trace",
    );
    // A step of half a million tokens is not one of 1.08 s.
    check(
        "recorded.json",
        &["--global-batch", "128"],
        "the measured step is not what is predicted",
    );
    check(
        "recorded.json",
        &["--global-batch", "16", "--tp", "2", "--dp", "4"],
        "no other layout on 8xH100 SXM5 80GB is predicted to be faster",
    );
}
