//! Runs that were kept: listed, compared, watched over, forgotten.

use crate::support::Place;
use gpuwise_domain::profile::figure::{Figure, Scope, Summary, Value};
use gpuwise_store::{NewRun, RunId, Store};

const HOUR_NS: i64 = 3_600_000_000_000;

/// A run at an hour: its idle share, and the driver it ran under.
fn kept(store: &Store, hour: i64, idle: f64, driver: &str) -> String {
    let figure = |name: &str, value| Figure {
        name: name.into(),
        scope: Scope::default(),
        value,
    };
    let run = NewRun {
        id: RunId::of(&hour.to_be_bytes()),
        source: "profile".into(),
        name: "train".into(),
        imported_at_ns: hour * HOUR_NS,
        labels: [("branch".to_owned(), "main".to_owned())].into(),
        summary: Summary {
            started_at_ns: Some(hour * HOUR_NS),
            hardware: vec!["NVIDIA H100".into()],
            software: vec![("driver".into(), driver.into())],
            figures: vec![
                figure("idle_pct", Value::Real(idle)),
                figure("span_ns", Value::Integer(1_000_000_000)),
            ],
            ..Summary::default()
        },
        times: vec![],
        finding_documents: vec![],
        measured: "id,value\na,1\n".into(),
    };
    store.save(&run).expect("saves");
    run.id.to_string()
}

/// Ten calm runs and, with the eleventh, a new level.
pub(crate) fn history(place: &Place) -> Vec<String> {
    let store = Store::open(place.path("runs.db").to_str().expect("a path")).expect("opens");
    (0..16)
        .map(|hour| {
            let wobble = [0.0, 0.3, -0.2, 0.1][hour as usize % 4];
            let (idle, driver) = if hour < 10 {
                (10.0, "570")
            } else {
                (14.0, "580")
            };
            kept(&store, hour, idle + wobble, driver)
        })
        .collect()
}

#[test]
fn a_figure_that_got_worse_is_a_no_and_names_the_run_and_the_driver() {
    let place = Place::new();
    let ids = history(&place);
    let ran = place.run(&["runs", "regress", "--database", "runs.db"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains(&ids[10][..8]), "{}", ran.out);
    assert!(ran.out.contains("570 → 580"), "{}", ran.out);
    assert!(ran.out.contains("idle_pct") && !ran.out.contains("span_ns"));
    // The runs before it alone are calm.
    let calm = [
        "runs",
        "regress",
        "--database",
        "runs.db",
        "--figure",
        "span_ns",
    ];
    assert_eq!(place.run(&calm).code, 0);
}

#[test]
fn two_runs_are_compared() {
    let place = Place::new();
    let ids = history(&place);
    let ran = place.run(&[
        "runs",
        "diff",
        &ids[0][..10],
        &ids[12],
        "--database",
        "runs.db",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("driver: 570 before, 580 after"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("+40.0 %"), "{}", ran.out);
    assert!(!ran.out.contains("span_ns"), "did not change: {}", ran.out);
}

/// A run by its name: the newest that is called so.
#[test]
fn runs_are_compared_by_name() {
    let place = Place::new();
    let ids = history(&place);
    let diff = |before: &str, after: &str| {
        let ran = place.run(&["runs", "diff", before, after, "--database", "runs.db"]);
        assert_eq!(ran.code, 0, "{before} {after}: {}", ran.err);
        ran.out
    };
    let newest = ids.last().expect("runs");
    assert_eq!(diff(&ids[0], "train"), diff(&ids[0], newest));
    assert_ne!(diff(&ids[0], "train"), diff(&ids[0], &ids[1]));
    let nobody = ["runs", "diff", "trian", "train", "--database", "runs.db"];
    let ran = place.run(&nobody);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("trian"), "{}", ran.err);
}

/// A thousand runs of ten names whose figures scatter by 1 %; one name's level moves at one run.
#[test]
fn of_a_thousand_runs_the_one_at_which_a_level_moved_is_named() {
    let place = Place::new();
    let store = Store::open(place.path("runs.db").to_str().expect("a path")).expect("opens");
    let mut random = gpuwise_units::RandomStream::new(1, "history", 0);
    let names = [
        "idle_pct",
        "span_ns",
        "step_median_ns",
        "exposed_comm_ns",
        "comm_pct",
    ];
    let runs: Vec<NewRun> = (0..1_000_i64)
        .map(|hour| {
            let job = hour % 10;
            let level = if job == 3 && hour >= 603 {
                106.0
            } else {
                100.0
            };
            let figure = |name: &&str| {
                let scatter: f64 = (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
                Figure {
                    name: (*name).into(),
                    scope: Scope::default(),
                    value: Value::Real(if *name == "span_ns" { level } else { 100.0 } + scatter),
                }
            };
            NewRun {
                id: RunId::of(&hour.to_be_bytes()),
                source: "profile".into(),
                name: format!("job {job}"),
                imported_at_ns: hour * HOUR_NS,
                labels: [].into(),
                summary: Summary {
                    figures: names.iter().map(figure).collect(),
                    ..Summary::default()
                },
                times: vec![],
                finding_documents: vec![],
                measured: String::new(),
            }
        })
        .collect();
    store.save_all(&runs).expect("saves");
    let ran = place.run(&[
        "runs",
        "regress",
        "--database",
        "runs.db",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{}", ran.out);
    assert_eq!(
        (&rows[0]["name"], &rows[0]["figure"]),
        (&"job 3".into(), &"span_ns".into())
    );
    assert_eq!(rows[0]["since_run"], runs[603].id.to_string());
}

#[test]
fn lists_filters_and_exports() {
    let place = Place::new();
    history(&place);
    let lines = |arguments: &[&str]| {
        let ran = place.run(
            &[
                &["runs"],
                arguments,
                &["--database", "runs.db", "--format", "csv"],
            ]
            .concat(),
        );
        (ran.code, ran.out.lines().count())
    };
    assert_eq!(lines(&["list"]), (0, 17));
    assert_eq!(lines(&["list", "--last", "3"]), (0, 4));
    assert_eq!(lines(&["list", "--label", "branch=main"]), (0, 17));
    assert_eq!(lines(&["list", "--label", "branch=other"]).0, 1);
    assert_eq!(lines(&["list", "--name", "train"]), (0, 17));
    assert_eq!(lines(&["list", "--name", "other"]).0, 1);
    assert_eq!(lines(&["export", "--figure", "idle_pct"]), (0, 17));
}

#[test]
fn pruning_is_tried_before_it_is_done() {
    let place = Place::new();
    history(&place);
    let prune = ["runs", "prune", "--keep-last", "4", "--database", "runs.db"];
    let tried = place.run(&prune);
    assert!(
        tried.err.contains("12 of 16 runs would be forgotten"),
        "{}",
        tried.err
    );
    let done = place.run(&[&prune[..], &["--apply"]].concat());
    assert!(
        done.err.contains("12 runs forgotten, 4 kept"),
        "{}",
        done.err
    );
    let left = place.run(&["runs", "list", "--database", "runs.db", "--format", "csv"]);
    assert_eq!(left.out.lines().count(), 5);
    // All sixteen ran on the first day of 1970: twelve are summed up, four are there.
    let trend = [
        "runs",
        "trend",
        "train",
        "--figure",
        "idle_pct",
        "--database",
        "runs.db",
    ];
    let rows = place.json(&trend);
    let day = &rows["rows"][0];
    assert_eq!(
        (&day["day"], &day["runs"]),
        (&"1970-01-01".into(), &16.into())
    );
    assert_eq!((&day["forgotten"], &day["parts"]), (&12.into(), &2.into()));
    let (least, most) = (day["least"].as_f64(), day["most"].as_f64());
    assert_eq!((least, most), (Some(9.8), Some(14.3)));
    let none = place.run(&["runs", "trend", "other", "--database", "runs.db"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("names of runs: train"), "{}", none.err);
    let regress = place.run(&["runs", "regress", "--database", "runs.db"]);
    assert!(
        regress.err.contains("runs of 1 days were forgotten"),
        "{}",
        regress.err
    );
    let daily = [
        "runs",
        "prune",
        "--keep-daily",
        "30",
        "--apply",
        "--database",
        "runs.db",
    ];
    let forgotten = place.run(&daily);
    assert!(
        forgotten.err.contains("daily summaries forgotten: 1"),
        "{}",
        forgotten.err
    );
    let left = place.json(&trend);
    assert_eq!(left["rows"][0]["runs"], 4);
}

/// Steps of one product and, after, of a slower one; their names and what they launch.
fn steps(product_us: [u32; 4]) -> String {
    let mut events = Vec::new();
    for (number, length) in (1..).zip(product_us) {
        let at = number * 10_000;
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{number}","pid":1,"tid":1,"ts":{at},"dur":9000}}"#
        ));
        for (place, (name, kernel, length)) in
            [("aten::mm", "gemm", length), ("aten::add", "add", 20)]
                .into_iter()
                .enumerate()
        {
            let (at, id) = (at + 100 * (1 + place as u32), 2 * number + place as u32);
            events.push(format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{at},"dur":50,"args":{{"External id":{id}}}}}"#
            ));
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},"dur":10,"args":{{"correlation":{id},"External id":{id}}}}}"#
            ));
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"{kernel}","pid":0,"tid":7,"ts":{},"dur":{length},"args":{{"device":0,"stream":7,"correlation":{id},"External id":{id}}}}}"#,
                at + 4_000 * (1 + place as u32)
            ));
        }
    }
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn two_runs_are_compared_by_operator_and_by_kernel() {
    let place = Place::new();
    place.write("before.json", steps([1_000, 1_010, 990, 1_000]));
    place.write("after.json", steps([1_200, 1_190, 1_210, 1_200]));
    for name in ["before", "after"] {
        let file = format!("{name}.json");
        let kept = place.run(&["profile", "--save", &file]);
        assert_eq!(kept.code, 0, "{}", kept.err);
    }
    for (by, name, other) in [
        ("--operators", "aten::mm", "aten::add"),
        ("--kernels", "gemm", "add"),
    ] {
        let rows = place.json(&["runs", "diff", "before", "after", by]);
        let row = &rows["rows"][0];
        assert_eq!(
            (&row["name"], &row["basis"]),
            (&name.into(), &"step".into())
        );
        assert_eq!(
            (&row["before_ns"], &row["change_ns"]),
            (&1e6.into(), &2e5.into())
        );
        assert_eq!(row["sure"], true);
        // Standard deviations of 8.165 µs, four steps each: t of 6 degrees is 2.447.
        let low = row["change_low_ns"].as_f64().expect("a number");
        assert!(
            (low - (2e5 - 2.447 * 8_165.0 / 2.0_f64.sqrt())).abs() < 20.0,
            "{low}"
        );
        let calm = &rows["rows"][1];
        assert_eq!(
            (&calm["name"], &calm["change_ns"]),
            (&other.into(), &0.0.into())
        );
        assert_eq!(calm["sure"], false);
    }
    let text = place.run(&["runs", "diff", "before", "after", "--operators"]);
    assert!(
        text.out.contains("+200 µs") && text.out.contains("+20 %"),
        "{}",
        text.out
    );
    assert!(
        text.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        text.out
    );
    let store = Store::open(
        place
            .path(".local/share/gpuwise/runs.db")
            .to_str()
            .expect("a path"),
    );
    kept(&store.expect("opens"), 1, 10.0, "570");
    let without = place.run(&["runs", "diff", "before", "train", "--operators"]);
    assert_eq!(without.code, 2);
    assert!(
        without.err.contains("no times of operators"),
        "{}",
        without.err
    );
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new();
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let ran = place.run(&[arguments, &["--database", "runs.db"]].concat());
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!((ran.err + &ran.out).contains(expect), "{arguments:?}");
    };
    check(&["runs", "list"], 1, "gpuwise profile --save");
    check(
        &["runs", "show", "abc"],
        2,
        "0 runs have an id that begins with `abc`",
    );
    check(&["runs", "regress"], 2, "no run matches in runs.db");
    check(
        &["runs", "list", "--label", "main"],
        2,
        "a label is NAME=VALUE",
    );
    place.write(
        "other.db",
        "not a database, and long enough to be looked at",
    );
    let ran = place.run(&["runs", "list", "--database", "other.db"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("file is not a database"), "{}", ran.err);
}

const MEASURED: &str = "\
id,model,gpu,num_gpus,tp,precision,engine,isl,osl,batch_or_concurrency,metric,unit,value
a,meta-llama/Llama-3.1-8B-Instruct,L40S,1,1,bf16,vllm 0.20.0,1000,200,4,tpot_mean,ms,23.9
b,meta-llama/Llama-3.1-8B-Instruct,L40S,1,1,bf16,vllm 0.20.0,1000,200,16,tpot_mean,ms,27.1
c,meta-llama/Llama-3.1-8B-Instruct,L40S,1,1,bf16,vllm 0.20.0,1000,200,32,tpot_mean,ms,31.6
";

#[test]
fn what_runs_measured_corrects_predictions_as_their_files_would() {
    let (by_file, by_runs) = (Place::new(), Place::new());
    by_file.write("measured.csv", MEASURED);
    let direct = by_file.run(&["calibrate", "measured.csv", "--format", "csv"]);
    assert_eq!(direct.code, 0, "{}", direct.err);
    by_runs.write("measured.csv", MEASURED);
    let import = ["runs", "import", "measured.csv", "--label", "team=a"];
    let first = by_runs.run(&import);
    assert!(
        first.err.contains("measured.csv kept as run"),
        "{}",
        first.err
    );
    let again = by_runs.run(&import);
    assert!(again.err.contains("is kept already"), "{}", again.err);
    std::fs::remove_file(by_runs.path("measured.csv")).expect("is there");
    let looped = by_runs.run(&[
        "calibrate",
        "--from-runs",
        "--label",
        "team=a",
        "--format",
        "csv",
    ]);
    assert_eq!((looped.code, looped.out), (0, direct.out), "{}", looped.err);
    let other = by_runs.run(&["calibrate", "--from-runs", "--label", "team=b"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("gpuwise runs import"), "{}", other.err);
}

/// Three kernels on one GPU, the second after a wait.
fn trace(wait_us: u32) -> String {
    let kernel = |start: u32, name: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{start},"dur":100,"args":{{"device":0,"stream":7,"correlation":{start}}}}}"#
        )
    };
    let events = [
        kernel(0, "a"),
        kernel(100 + wait_us, "b"),
        kernel(300 + wait_us, "c"),
    ];
    format!(
        r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

#[test]
fn a_profile_is_kept_once_wherever_its_file_lies() {
    let place = Place::new();
    place.write("a.json", trace(50));
    place.write("elsewhere/b.json", trace(50));
    let kept = place.run(&["profile", "--save", "--label", "team=a", "a.json"]);
    assert!(kept.err.contains("a kept as run"), "{}", kept.err);
    let again = place.run(&[
        "profile",
        "--save",
        "--label",
        "branch=x",
        "elsewhere/b.json",
    ]);
    assert!(again.err.contains("is kept already"), "{}", again.err);
    let both = [
        "runs", "list", "--label", "team=a", "--label", "branch=x", "--format", "csv",
    ];
    assert_eq!(place.run(&both).out.lines().count(), 2);
}

#[test]
fn each_file_is_a_job_and_a_bad_one_is_named() {
    let place = Place::new();
    for wait in [10, 20, 30] {
        place.write(&format!("jobs/{wait}.json"), trace(wait));
    }
    place.write("jobs/broken.json", "{");
    let ran = place.run(&["profile", "--each", "--save", "jobs", "--format", "csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 4, "{}", ran.out);
    assert!(ran.err.contains("broken.json"), "{}", ran.err);
    let kept = place.run(&["runs", "list", "--format", "csv"]);
    assert_eq!(kept.out.lines().count(), 4, "{}", kept.out);
}

/// Ids and labels of what is kept, as programs read them.
fn listed(place: &Place) -> Vec<(String, String)> {
    let rows = place.json(&["runs", "list"]);
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or("").to_owned();
    let rows = rows["rows"].as_array().expect("rows").iter();
    rows.map(|row| (text(row, "id"), text(row, "labels")))
        .collect()
}

/// Two files of one kind of source that share what they could be mistaken by: neither has a timeline.
fn without_timeline(number: u32) -> [(&'static str, String); 3] {
    let category = format!("[[10, 2, {}, 1], [20, 2, 4096, 2]]", 512 + number);
    let counters = format!(
        "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"us\"\n\"0\",\"k{number}\",\"2\"\n"
    );
    let dump = format!(
        r#"{{"version": "2.5", "pg_config": {{"0": {{"ranks": "[0, 1]"}}}}, "entries": [{{"pg_id": 0, "collective_seq_id": {number}, "profiling_name": "nccl:all_reduce", "state": "started"}}]}}"#
    );
    [
        ("memory.json", category),
        ("ncu.csv", counters),
        ("dump.json", dump),
    ]
}

#[test]
fn files_of_every_kind_are_told_apart_by_their_content() {
    for (kind, _) in without_timeline(0) {
        let place = Place::new();
        let file = |number: u32| {
            let files = without_timeline(number);
            let (_, text) = files
                .into_iter()
                .find(|(name, _)| *name == kind)
                .expect("it");
            let name = format!("{number}/{kind}");
            place.write(&name, text);
            name
        };
        let save = |name: &str, label: &str| {
            let ran = place.run(&["profile", "--save", "--label", label, name]);
            assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
            ran.err
        };
        let (one, two) = (file(1), file(2));
        assert!(save(&one, "of=one").contains("kept as run"), "{kind}");
        assert!(save(&two, "of=two").contains("kept as run"), "{kind}");
        assert!(save(&one, "of=one").contains("is kept already"), "{kind}");
        let labels: Vec<String> = listed(&place)
            .into_iter()
            .map(|(_, labels)| labels)
            .collect();
        assert_eq!(labels.len(), 2, "{kind}");
        for label in ["of=one", "of=two"] {
            assert!(labels.contains(&label.into()), "{kind}: {labels:?}");
        }
        // Each alone, as jobs of their own, are the same two.
        let each = place.run(&["profile", "--each", "--save", &one, &two]);
        assert_eq!(
            (each.code, listed(&place).len()),
            (0, 2),
            "{kind}: {}",
            each.err
        );
    }
}

#[test]
fn a_part_of_a_profile_is_another_run_and_a_packed_file_the_same() {
    let place = Place::new();
    place.write("a.json", trace(50));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, trace(50).as_bytes()).expect("packs");
    place.write("a.json.gz", packed.finish().expect("packs"));
    for (arguments, runs) in [
        (&["a.json"][..], 1),
        (&["a.json.gz"], 1),
        (&["a.json", "--window", "0..0.1"], 2),
        (&["a.json", "--window", "0..0.2"], 3),
        (&["a.json", "a.json.gz"], 4),
    ] {
        let ran = place.run(&[&["profile", "--save"], arguments].concat());
        assert_eq!(
            (ran.code, listed(&place).len()),
            (0, runs),
            "{arguments:?}: {}",
            ran.err
        );
    }
}

#[test]
fn keeping_more_days_never_forgets_more() {
    for days in ["106751", "106752", "213504", "365000", "4294967295"] {
        let place = Place::new();
        history(&place);
        let prune = [
            "runs",
            "prune",
            "--keep-days",
            days,
            "--apply",
            "--database",
            "runs.db",
        ];
        let ran = place.run(&prune);
        assert_eq!(ran.code, 0, "{days}: {}", ran.err);
        let list = [
            "runs",
            "list",
            "--days",
            days,
            "--database",
            "runs.db",
            "--format",
            "csv",
        ];
        assert_eq!(place.run(&list).out.lines().count(), 17, "{days}");
    }
}
