//! `gpuwise operators`, as a script sees it.

use crate::support::Place;
use serde_json::Value;

const HEADER: &str = "system,engine,version,kernel,launch,dtype,m,n,k";

#[test]
fn rows_are_answered_with_what_they_rest_on() {
    let place = Place::new();
    let rows = [
        "h100_sxm,vllm,0.24.0,,graph,bfloat16,8192,8192,8192",
        "l40s,vllm,0.24.0,,graph,bfloat16,8192,8192,8192",
    ];
    place.write("rows.csv", format!("{HEADER}\n{}\n", rows.join("\n")));
    let ran = place.run(&["operators", "predict", "rows.csv", "--table", "gemm"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[0],
        format!("{HEADER},predicted_ms,low_ms,high_ms,basis")
    );
    for (line, (row, floor, basis)) in lines[1..].iter().zip([
        // 2 · 8192³ FLOP at 0.9 of 989 and 362 TFLOPS.
        (rows[0], 1.2353, "measured"),
        (rows[1], 3.3748, "carried from another family"),
    ]) {
        let rest = line.strip_prefix(row).unwrap().trim_start_matches(',');
        let fields: Vec<&str> = rest.split(',').collect();
        let [time, low, high] = [0, 1, 2].map(|i| fields[i].parse::<f64>().unwrap());
        assert!(floor <= low && low <= time && time < high, "{line}");
        assert_eq!(fields[3], basis);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let place = Place::new();
    place.write(
        "rows.csv",
        format!("{HEADER}\nh100_sxm,vllm,1,,graph,bf17,1,1,1\n"),
    );
    place.write("short.csv", "system,engine,m\nh100_sxm,vllm,1\n");
    place.write(
        "gpu.csv",
        format!("{HEADER}\nh1000,vllm,1,,graph,fp8,1,1,1\n"),
    );
    for (file, table, part) in [
        (
            "rows.csv",
            "gemm",
            "rows.csv, line 2: dtype: \"bf17\" is not a format of GEMMs",
        ),
        ("short.csv", "gemm", "no column \"dtype\""),
        ("gpu.csv", "gemm", "no such GPU is in the catalogue"),
        ("rows.csv", "gemms", "no such table is known"),
        ("none.csv", "gemm", "cannot read none.csv"),
    ] {
        let ran = place.run(&["operators", "predict", file, "--table", table]);
        assert_eq!(ran.code, 2, "{file}");
        assert!(
            ran.out.is_empty() && ran.err.contains(part),
            "{file}: {}",
            ran.err
        );
    }
}

#[test]
fn the_curve_is_drawn() {
    let place = Place::new();
    let ran = place.run(&["operators", "show", "H100", "gemm", "--output", "h100.svg"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("bfloat16") && ran.out.contains("fp8"));
    let drawn = std::fs::read_to_string(place.path("h100.svg")).unwrap();
    assert!(drawn.starts_with("<?xml") && drawn.contains("bfloat16, measured"));
}

#[test]
fn every_operator_that_is_predicted_is_drawn() {
    let place = Place::new();
    for (operator, size, engine) in [
        ("gemm", "tokens", "vllm"),
        ("moe", "tokens", "vllm"),
        ("attention_context", "tokens", "vllm"),
        ("attention_generation", "sequences", "vllm"),
        ("attention_encoder", "tokens", "vllm"),
        ("mla", "tokens", "sglang"),
        ("mla_module", "tokens", "vllm"),
        ("mla_bmm", "tokens", "vllm"),
        ("comm_nccl", "bytes", "vllm"),
        ("comm_allreduce", "bytes", "vllm"),
        ("comm_moe", "tokens", "vllm"),
    ] {
        for gpu in ["H100", "L40S"] {
            let show = ["operators", "show", gpu, operator, "--engine", engine];
            let rows = place.json(&[&show[..], &["--output", "it.svg"]].concat());
            let rows = rows["rows"].as_array().expect("rows");
            for row in rows {
                let figure = |key: &str| row[key].as_f64().expect("a figure");
                assert!(figure(size) >= 1.0, "{row}");
                // No more than the limit.
                assert!(figure("share") > 0.0 && figure("share") <= 95.001, "{row}");
                assert!(figure("low") <= figure("time") && figure("time") <= figure("high"));
            }
            // The first format was measured on the one GPU, and nothing on the other.
            let basis = |row: &Value| String::from(row["basis"].as_str().expect("a basis"));
            let first = basis(&rows[0]);
            assert_eq!(
                first.starts_with("measured"),
                gpu == "H100",
                "{operator}: {first}"
            );
            let carried = rows.iter().any(|row| basis(row).starts_with("carried"));
            let drawn = std::fs::read_to_string(place.path("it.svg")).expect("a picture");
            for mark in ["extrapolated", "stroke-dasharray=\"5 3\""] {
                assert_eq!(drawn.contains(mark), carried, "{operator} on {gpu}");
            }
        }
    }
}

#[test]
fn what_was_not_measured_is_said() {
    let place = Place::new();
    let note = "nothing was measured on L40S under vLLM in this format";
    for (gpu, said) in [("L40S", true), ("H100", false)] {
        let ran = place.run(&["operators", "show", gpu, "comm_allreduce"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let words: Vec<&str> = ran.out.split_whitespace().collect();
        assert_eq!(words.join(" ").contains(note), said, "{}", ran.out);
    }
}
