//! Result files correct predictions and plans.

use crate::{observe::refused, support::Place};
use serde_json::Value;

/// vLLM's result at so many in flight: its time per output token in milliseconds, and its output in tokens per second.
fn result(concurrency: u32, tpot: f64, throughput: f64) -> String {
    let duration = 40_000.0 / throughput;
    format!(
        "{{\"backend\":\"vllm\",\"model_id\":\"llama-3.1-8b\",\"num_prompts\":200,\"request_rate\":\"inf\",\"max_concurrency\":{concurrency},\
         \"duration\":{duration},\"completed\":200,\"total_input_tokens\":200000,\"total_output_tokens\":40000,\"output_throughput\":{throughput},\
         \"mean_tpot_ms\":{tpot}}}"
    )
}

/// The figures of one row of time per output token, as `predict` gives them.
fn predicted(place: &Place, concurrency: u32) -> (f64, f64, f64, String) {
    predicted_as(place, concurrency, "tpot_mean", "ms")
}

fn predicted_as(
    place: &Place,
    concurrency: u32,
    metric: &str,
    unit: &str,
) -> (f64, f64, f64, String) {
    place.write(
        "ask.csv",
        format!("id,model,gpu,num_gpus,tp,engine,isl,osl,batch_or_concurrency,metric,unit\na,meta-llama/Llama-3.1-8B,H100,1,1,vllm,1000,200,{concurrency},{metric},{unit}\n"),
    );
    let ran = place.run(&["predict", "ask.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = ran.out.lines().nth(1).expect("an answer").to_owned();
    let cells: Vec<&str> = line.split(',').collect();
    let number = |at: usize| cells[at].parse::<f64>().expect("a number");
    (number(2), number(3), number(4), cells[6].to_owned())
}

fn plan(place: &Place) -> Value {
    let plan = place.json(&[
        "plan",
        "llama-3.1-8b",
        "--rate",
        "4",
        "--isl",
        "1000",
        "--osl",
        "200",
        "--gpu",
        "H100",
        "--engine",
        "vllm",
        "--precision",
        "bf16",
        "--top",
        "1",
        "--no-slices",
    ]);
    plan["deployments"][0].clone()
}

#[test]
fn a_result_file_corrects_predictions_and_plans() {
    let place = Place::new();
    let points = [4, 8, 16, 32];
    let mut files = Vec::new();
    for concurrency in points {
        let (value, ..) = predicted(&place, concurrency);
        let (output, ..) = predicted_as(&place, concurrency, "output_throughput", "tok/s");
        let name = format!("bench-{concurrency}.json");
        place.write(&name, result(concurrency, value * 1.3, output / 1.3));
        files.push(name);
    }
    let before = plan(&place);
    let mut arguments = vec!["calibrate", "--gpu", "H100", "--tp", "1"];
    arguments.extend(files.iter().map(String::as_str));
    let table = place.json(&arguments);
    let rows = table["rows"].as_array().expect("rows").clone();
    let tpot = rows
        .iter()
        .find(|row| row["metric"] == "tpot")
        .expect("a row on TPOT");
    assert_eq!(
        (tpot["points"].as_u64(), tpot["rows"].as_u64()),
        (Some(4), Some(4)),
        "{tpot}"
    );
    assert!(
        (tpot["error_before_percent"].as_f64().expect("a number") - 23.08).abs() < 0.1,
        "{tpot}"
    );
    // Points that were held back: most of the error is gone.
    assert!(
        tpot["error_after_percent"].as_f64().expect("a number") < 5.0,
        "{tpot}"
    );
    let (value, low, high, basis) = predicted(&place, 12);
    assert_eq!(basis, "measured nearby");
    place.run(&["calibrate", "--forget"]);
    let (plain, plain_low, plain_high, _) = predicted(&place, 12);
    assert!((value / plain - 1.3).abs() < 0.05, "{value} {plain}");
    assert!(high / low < plain_high / plain_low, "the range narrows");
    // The plan takes the same rows by itself.
    place.run(&arguments);
    let after = plan(&place);
    let tpot = |deployment: &Value| deployment["figures"]["tpot_seconds"]["value"].as_f64();
    let (before_tpot, after_tpot) = (
        tpot(&before).expect("a TPOT"),
        tpot(&after).expect("a TPOT"),
    );
    assert!(after_tpot > 1.1 * before_tpot, "{before_tpot} {after_tpot}");
    assert_eq!(after["basis"], "measured nearby");
}

#[test]
fn what_a_result_file_does_not_say_is_asked_for() {
    let place = Place::new();
    place.write("bench.json", result(8, 20.0, 400.0));
    refused(
        &place.run(&["calibrate", "bench.json"]),
        &["bench.json", "--tp", "--deployment"],
    );
    refused(
        &place.run(&["calibrate", "bench.json", "--tp", "1"]),
        &["--gpu"],
    );
    place.write("other.json", "{\"some\":\"thing\"}");
    refused(
        &place.run(&["calibrate", "other.json"]),
        &["no load generator", "`some`"],
    );
    // A saved deployment says all of it.
    let saved = place.run(&[
        "plan",
        "llama-3.1-8b",
        "--gpu",
        "H100",
        "--engine",
        "vllm",
        "--save",
        "d.json",
    ]);
    assert_eq!(saved.code, 0, "{}", saved.err);
    let ran = place.run(&["calibrate", "bench.json", "--deployment", "d.json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("tpot") && ran.out.contains("measure at two loads"),
        "{}",
        ran.out
    );
}

#[test]
fn no_rows_of_ones_own_beat_the_silicon() {
    let place = Place::new();
    let header = "id,model,gpu,num_gpus,tp,engine,isl,osl,batch_or_concurrency,metric,unit";
    let rows = |value: &str| {
        let row = |load: u32, metric: &str| {
            // A tenth of what the silicon could do, and no other unit.
            let value = match (value, metric) {
                ("", _) => "",
                (_, "tpot_mean") => ",0.5",
                _ => ",3",
            };
            format!(
                "{load}{metric},meta-llama/Llama-3.1-8B,H100,1,1,vllm,1000,200,{load},{metric},ms{value}\n"
            )
        };
        let loads = [1, 4, 16];
        let each = loads.map(|load| row(load, "tpot_mean") + &row(load, "ttft_mean"));
        each.concat()
    };
    place.write("mine.csv", format!("{header},value\n{}", rows("measured")));
    place.write("ask.csv", format!("{header}\n{}", rows("")));
    let kept = place.run(&["calibrate", "mine.csv"]);
    assert_eq!(kept.code, 0, "{}", kept.err);
    let ran = place.run(&["predict", "ask.csv"]);
    let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
    let mut asked = 0;
    for record in reader.records() {
        let record = record.expect("a row of CSV");
        // 32 layers of 218 million weights, at two bytes, out of memory of 3,350 GB/s; and 1,000 tokens
        // through them at 989 TFLOPS.
        let least = if record[1].starts_with("tpot") {
            32.0 * 218e6 * 2.0 / 3350e9
        } else {
            32.0 * 218e6 * 2.0 * 1000.0 / 989e12
        };
        for at in [2, 3, 4] {
            let figure: f64 = record[at].parse().expect("a figure");
            assert!(figure / 1e3 >= least, "{record:?}");
        }
        asked += 1;
    }
    assert_eq!(asked, 6, "{}", ran.out);
}

/// Seconds where milliseconds are said, a thousand times too much, and the same rows twice: refused with the likely unit,
/// and counted once; a correction that makes points worse that were held back is kept and not applied.
#[test]
fn what_cannot_be_what_was_measured_corrects_nothing() {
    let place = Place::new();
    let header = "id,model,gpu,num_gpus,tp,engine,isl,osl,batch_or_concurrency,metric,unit,value\n";
    let loads = [4, 8, 16, 32];
    let plain = loads.map(|load| predicted(&place, load).0);
    let table = |of: &dyn Fn(usize) -> f64| {
        let rows = loads.iter().zip(plain).enumerate().map(|(at, (load, value))| {
            let value = value * of(at);
            format!("r{at},meta-llama/Llama-3.1-8B,H100,1,1,vllm,1000,200,{load},tpot_mean,ms,{value}\n")
        });
        format!("{header}{}", rows.collect::<String>())
    };
    for (factor, expected) in [
        (1e-3, "look like seconds, and the unit is said to be ms"),
        (1e3, "look like microseconds, and the unit is said to be ms"),
        (30.0, "check model, GPU, engine, load and unit"),
    ] {
        place.write("wrong.csv", table(&|_| factor));
        refused(
            &place.run(&["calibrate", "wrong.csv"]),
            &["wrong", "tpot_mean", "nothing is kept", expected],
        );
    }
    // A unit that is none of times is not taken for seconds.
    for unit in ["furlong", "", "MS"] {
        let rows = table(&|_| 1e-3).replace(",ms,", &format!(",{unit},"));
        place.write("unit.csv", rows);
        refused(
            &place.run(&["calibrate", "unit.csv"]),
            &["tpot_mean", "nothing is kept", "`ms` or `s`"],
        );
    }
    assert_eq!(predicted(&place, 12).3, "calibrated");
    // Errors that fall apart: what is left out is predicted worse by the others.
    place.write(
        "apart.csv",
        table(&|at| if at % 2 == 0 { 1.5 } else { 1.0 / 1.5 }),
    );
    let ran = place.run(&["calibrate", "apart.csv"]);
    assert!(
        ran.code == 0 && ran.out.contains("not applied: tpot of"),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(predicted(&place, 12).3, "calibrated");
    place.run(&["calibrate", "--forget"]);
    place.write("mine.csv", table(&|_| 1.3));
    let once = place.json(&["calibrate", "mine.csv"]);
    let (value, ..) = predicted(&place, 12);
    place.write("again.csv", table(&|_| 1.3));
    let ran = place.run(&["calibrate", "again.csv"]);
    assert!(
        ran.out
            .contains("again: 4 rows known already, which count once"),
        "{}",
        ran.out
    );
    let twice = place.json(&["calibrate", "mine.csv", "again.csv"]);
    assert_eq!(
        (&once["rows"][0]["rows"], &once["rows"][0]["applied"]),
        (&4.into(), &"yes".into())
    );
    assert_eq!(once["rows"], twice["rows"]);
    assert_eq!(predicted(&place, 12).0.to_bits(), value.to_bits());
}

/// Rows of Llama 3.1 8B on an H100, each so many times its prediction.
fn measured(place: &Place, metric: &str, factor: f64) {
    let header = "id,model,gpu,num_gpus,tp,engine,isl,osl,batch_or_concurrency,metric,unit";
    let unit = if metric.ends_with("throughput") {
        "tok/s"
    } else {
        "ms"
    };
    let rows = |value: &dyn Fn(usize) -> String| {
        let loads = [4, 8, 16, 32, 64];
        let rows = loads.iter().enumerate().map(|(at, load)| {
            let value = value(at);
            format!("r{load},meta-llama/Llama-3.1-8B,H100,1,1,vllm,1000,200,{load},{metric},{unit}{value}\n")
        });
        rows.collect::<String>()
    };
    place.write("ask.csv", format!("{header}\n{}", rows(&|_| String::new())));
    let ran = place.run(&["predict", "ask.csv"]);
    let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
    let values: Vec<f64> = reader
        .records()
        .map(|record| record.expect("a row")[2].parse().expect("a figure"))
        .collect();
    let value = |at: usize| format!(",{}", values[at] * factor);
    place.write("mine.csv", format!("{header},value\n{}", rows(&value)));
    let ran = place.run(&["calibrate", "mine.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

const SIZED: &[&str] = &[
    "plan",
    "llama-3.1-8b",
    "--rate",
    "20",
    "--isl",
    "1000",
    "--osl",
    "200",
    "--ttft",
    "p95:2s",
    "--gpu",
    "H100",
    "--engine",
    "vllm",
    "--precision",
    "bf16",
    "--top",
    "1",
    "--no-slices",
];

fn sized(place: &Place, more: &[&str]) -> Value {
    let ran = place.json(&[SIZED, more].concat());
    ran["deployments"][0].clone()
}

fn number(of: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(of, |of, name| &of[*name]);
    found.as_f64().unwrap_or_else(|| panic!("{path:?} of {of}"))
}

/// What is measured is what is sized: more GPUs where steps take longer, no target shown that is missed, and the
/// simulation of the plan agrees.
#[test]
fn one_step_model_is_corrected_for_plan_and_simulation() {
    let place = Place::new();
    let target = ["--tpot", "p95:16ms"];
    let before = sized(&place, &target);
    measured(&place, "tpot_mean", 1.5);
    let after = sized(&place, &target);
    let gpus = |of: &Value| number(of, &["gpu_count"]);
    assert!(gpus(&after) > gpus(&before), "{before} {after}");
    for of in [&before, &after] {
        assert!(
            number(of, &["figures", "tpot_seconds", "value"]) <= 0.016,
            "{of}"
        );
    }
    // The rate that a GPU sustains is made of the same steps.
    let rate = |of: &Value| number(of, &["headroom", "load"]) / gpus(of);
    assert!(rate(&after) < 0.8 * rate(&before), "{before} {after}");
    let saved = place.run(&[SIZED, &target, &["--save", "d.json"]].concat());
    assert_eq!(saved.code, 0, "{}", saved.err);
    let validated = place.run(&["validate", "d.json", "--requests", "2000"]);
    assert_eq!(validated.code, 0, "{}{}", validated.out, validated.err);
    for expected in ["your own measurements", "They agree within the range"] {
        assert!(validated.out.contains(expected), "{}", validated.out);
    }
}

/// Rows of throughput alone correct time per token, and the other way about.
#[test]
fn rows_of_throughput_and_of_latency_say_the_same_of_steps() {
    let tpot = |metric: &str, factor: f64| {
        let place = Place::new();
        measured(&place, metric, factor);
        predicted(&place, 12).0
    };
    let plain = predicted(&Place::new(), 12).0;
    for (metric, factor) in [
        ("tpot_mean", 1.25),
        ("output_throughput", 0.8),
        ("e2e_mean", 1.25),
    ] {
        let found = tpot(metric, factor) / plain;
        assert!((found - 1.25).abs() < 0.06, "{metric}: {found}");
    }
}
