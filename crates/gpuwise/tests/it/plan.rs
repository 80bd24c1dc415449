//! `gpuwise plan` from end to end.

use crate::support::Place;
use serde_json::Value;

const ASKED: [&str; 12] = [
    "plan",
    "llama-3.1-8b",
    "--rate",
    "8",
    "--isl",
    "2000",
    "--osl",
    "300",
    "--ttft",
    "p95:2s",
    "--tpot",
    "p95:80ms",
];

fn with<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&ASKED[..], flags].concat()
}

#[test]
fn the_first_screen_answers() {
    let place = Place::new();
    let ran = place.run(&ASKED);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert!(
        ran.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        ran.out
    );
    assert!(ran.out.lines().count() <= 45, "{}", ran.out);
    for part in [
        "Model",
        "Traffic",
        "8 requests/s",
        "TTFT p95",
        "--explain",
        "gpuwise evidence",
        "--emit",
    ] {
        assert!(ran.out.contains(part), "{part} is not in {}", ran.out);
    }
}

#[test]
fn two_runs_are_equal_in_every_form() {
    let place = Place::new();
    for format in ["table", "json", "csv", "md"] {
        let first = place.run(&with(&[
            "--format",
            format,
            "--explain",
            "--why-not",
            "L4",
            "--rule",
            "liqid",
        ]));
        assert_eq!(first.code, 0, "{format}: {}", first.err);
        let second = place.run(&with(&[
            "--format",
            format,
            "--explain",
            "--why-not",
            "L4",
            "--rule",
            "liqid",
        ]));
        assert_eq!(first.out, second.out, "{format}");
    }
}

#[test]
fn limits_are_kept() {
    let place = Place::new();
    let value = place.json(&with(&[
        "--gpu",
        "H100,L40S",
        "--provider",
        "aws",
        "--top",
        "3",
    ]));
    let deployments = value["deployments"].as_array().expect("deployments");
    assert!(!deployments.is_empty() && deployments.len() <= 3);
    let text = Value::Array(deployments.clone()).to_string();
    assert!(!text.contains("lambda") && !text.contains("A100"), "{text}");
}

#[test]
fn infeasible_is_an_answer() {
    let place = Place::new();
    let ran = place.run(&[
        "plan",
        "llama-3.1-405b",
        "--rate",
        "5",
        "--isl",
        "1k",
        "--osl",
        "100",
        "--gpu",
        "T4",
        "--emit",
        "vllm",
        "--save",
        "d.json",
    ]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "no launch command: {}", ran.out);
    assert!(ran.err.contains("No deployment"), "{}", ran.err);
    assert!(place.files().is_empty(), "{:?}", place.files());
    let table = place.run(&[
        "plan",
        "llama-3.1-405b",
        "--rate",
        "5",
        "--isl",
        "1k",
        "--osl",
        "100",
        "--gpu",
        "T4",
    ]);
    assert_eq!(table.code, 1);
    assert!(table.out.contains("No deployment"), "{}", table.out);
}

#[test]
fn what_is_emitted_is_read_back() {
    let place = Place::new();
    for form in ["vllm", "sglang", "trtllm", "llamacpp"] {
        let emitted = place.run(&[
            "plan",
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--emit",
            form,
        ]);
        assert_eq!(emitted.code, 0, "{form}: {}", emitted.err);
        let back = place.run(&[
            "plan",
            "--from",
            &emitted.out,
            "--gpu",
            "H100",
            "--rate",
            "1",
        ]);
        assert_eq!(
            back.code, 0,
            "{form}: {}{}{}",
            emitted.out, back.out, back.err
        );
        assert!(
            back.out.contains("What runs is the right size"),
            "{form}: {}{}",
            emitted.out,
            back.out
        );
    }
    for form in ["docker", "k8s"] {
        let emitted = place.run(&[
            "plan",
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--emit",
            form,
        ]);
        assert!(
            emitted.code == 0 && emitted.out.contains("Llama-3.1-8B"),
            "{form}: {}",
            emitted.err
        );
    }
}

#[test]
fn a_command_that_is_too_small_is_told_so() {
    let place = Place::new();
    let command = "vllm serve meta-llama/Llama-3.1-8B -tp 1 --frobnicate";
    let ran = place.run(&[
        "plan", "--from", command, "--gpu", "L4", "--rate", "500", "--isl", "2k", "--osl", "500",
    ]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let fine = place.run(&["plan", "--from", command, "--gpu", "L4", "--rate", "0.1"]);
    assert_eq!(fine.code, 0, "{}{}", fine.out, fine.err);
    assert!(fine.out.contains("--frobnicate"), "{}", fine.out);
}

#[test]
fn files_are_written_whole() {
    let place = Place::new();
    let ran = place.run(&with(&[
        "--save",
        "d.json",
        "--pick",
        "2",
        "--html",
        "report.html",
    ]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.files(), ["d.json", "report.html"]);
    let saved = std::fs::read_to_string(place.path("d.json")).expect("a file");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    assert!(
        saved.to_string().contains("gpuwise.deployment/v1"),
        "{saved}"
    );
    let report = std::fs::read_to_string(place.path("report.html")).expect("a file");
    assert!(report.len() < 300_000 && report.starts_with("<!doctype html>"));
    assert!(!report.contains("http://") || !report.contains("<script"));
}

#[test]
fn a_workload_file_with_flags_over_it() {
    let place = Place::new();
    place.write("w.toml", "model = \"llama-3.1-8b\"\nrate = \"8/s\"\nisl = 2000\nosl = 300\nttft = \"p95:2s\"\ntpot = \"p95:80ms\"\ngpus = [\"H100\"]\n");
    place.write("w.yaml", "model: llama-3.1-8b\nrate: 8/s\nisl: 2000\nosl: 300\nttft: p95:2s\ntpot: p95:80ms\ngpus: [H100]\n");
    let by_flags = place.run(&with(&["--gpu", "H100"]));
    for file in ["w.toml", "w.yaml"] {
        assert_eq!(
            place.run(&["plan", "--workload", file]).out,
            by_flags.out,
            "{file}"
        );
    }
    let other = place.json(&[
        "plan",
        "--workload",
        "w.toml",
        "--rate",
        "2",
        "--gpu",
        "L40S",
    ]);
    let text = other["deployments"].to_string();
    assert!(text.contains("L40S") && !text.contains("H100"), "{text}");
}

#[test]
fn a_trace_gives_rate_and_lengths() {
    let place = Place::new();
    let rows: Vec<String> = (0..200)
        .map(|at| format!("{},1000,100", f64::from(at) * 0.5))
        .collect();
    place.write(
        "trace.csv",
        format!("arrival_s,isl,osl\n{}\n", rows.join("\n")),
    );
    let ran = place.run(&["plan", "llama-3.1-8b", "--trace", "trace.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("2 requests/s") && ran.out.contains("1000 tokens in"),
        "{}",
        ran.out
    );
}

#[test]
fn prices_of_ones_own_are_rented() {
    let place = Place::new();
    let list = place.run(&["offers", "L4", "--format", "csv"]);
    place.write("list.csv", &list.out);
    // What `offers` writes is a price list, whose prices count.
    let mut list = csv::Reader::from_reader(list.out.as_bytes());
    let header = list.headers().expect("a header").clone();
    let price = header.iter().position(|name| name == "price_per_hour");
    let mut cheap = csv::Writer::from_writer(Vec::new());
    cheap.write_record(&header).expect("writes");
    for record in list.records() {
        let record = record.expect("a row");
        let cells = record.iter().enumerate();
        let cells = cells.map(|(at, cell)| if Some(at) == price { "0.0625" } else { cell });
        cheap.write_record(cells).expect("writes");
    }
    place.write("list.csv", cheap.into_inner().expect("bytes"));
    let ran = place.run(&with(&[
        "--prices", "list.csv", "--gpu", "L4", "--format", "json",
    ]));
    let plan: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let rental = &plan["deployments"][0]["rental"];
    assert_eq!(rental["instance_price"]["amount"], 0.0625, "{}", ran.err);
    place.write("own.csv", "provider,instance,region,gpu,gpus,usd_per_hour,source\nbasement,rack,home,H100,8,0.08,mine\n");
    let value = place.json(&with(&["--prices", "own.csv"]));
    assert_eq!(
        value["deployments"][0]["rental"]["provider"], "basement",
        "{}",
        value["deployments"][0]["rental"]
    );
}

#[test]
fn host_memory_for_prefixes_is_said_saved_and_emitted() {
    let place = Place::new();
    let flags = ["--gpu", "H100", "--no-slices", "--kv-offload", "64GiB"];
    let value = place.json(&with(&flags));
    assert_eq!(
        value["deployments"][0]["host_kv_bytes_per_gpu"],
        64u64 << 30
    );
    let said = value["notes"].to_string();
    assert!(
        said.contains("allows no more concurrent requests"),
        "{said}"
    );
    let shown = place.run(&with(&flags));
    assert!(
        shown.out.contains("64 GiB of host memory a GPU"),
        "{}",
        shown.out
    );
    let emitted = place.run(&with(
        &[&flags[..], &["--emit", "vllm", "--save", "d.json"]].concat(),
    ));
    assert!(
        emitted.out.contains("--kv-offloading-size 64"),
        "{}",
        emitted.out
    );
    let saved = std::fs::read_to_string(place.path("d.json")).expect("a saved deployment");
    assert!(
        saved.contains("\"host_cache_bytes\": 68719476736"),
        "{saved}"
    );
    let old = place.run(&with(&[&flags[..], &["--engine", "vllm@0.10.0"]].concat()));
    assert_eq!(old.code, 1, "{}", old.out);
    assert!(old.out.contains("mode:kv_offload"), "{}", old.out);
    let wrong = place.run(&with(&["--kv-offload", "64"]));
    assert_eq!(wrong.code, 2, "{}", wrong.out);
    assert!(wrong.err.contains("--kv-offload"), "{}", wrong.err);
}

#[test]
fn draft_models_are_sized_saved_emitted_and_read_back() {
    let place = Place::new();
    let flags = [
        "plan",
        "llama-3.1-70b",
        "--rate",
        "0.5",
        "--isl",
        "1k",
        "--osl",
        "200",
        "--gpu",
        "H100",
        "--no-slices",
        "--precision",
        "bf16",
    ];
    let drafted = [
        "--draft-model",
        "llama-3.2-1b",
        "--draft-tokens",
        "4",
        "--acceptance",
        "80%",
    ];
    let with = |more: &[&'static str]| [&flags[..], more].concat();
    let plain = place.json(&with(&[]));
    let value = place.json(&with(&drafted));
    assert!(plain["deployments"][0]["draft_model"].is_null());
    assert_eq!(
        value["deployments"][0]["draft_model"],
        "meta-llama/Llama-3.2-1B"
    );
    assert_eq!(value["deployments"][0]["draft_tokens"], 4);
    let held = value["deployments"][0]["memory"]["weights"].to_string();
    assert!(held.contains("draft model"), "{held}");
    let emitted = place.run(&with(
        &[&drafted[..], &["--emit", "vllm", "--save", "d.json"]].concat(),
    ));
    assert!(
        emitted.out.contains(r#""method":"draft_model""#),
        "{}",
        emitted.out
    );
    let saved = std::fs::read_to_string(place.path("d.json")).expect("a saved deployment");
    assert!(
        saved.contains("\"draft_model\": \"meta-llama/Llama-3.2-1B\""),
        "{saved}"
    );
    let back = place.json(&[
        "plan",
        "--from",
        &emitted.out,
        "--rate",
        "0.1",
        "--gpu",
        "H100",
    ]);
    let said = back["notes"].to_string();
    assert!(
        said.contains("Llama-3.2-1B drafts 4 tokens a step"),
        "{said}"
    );
    for (wrong, expected) in [
        (vec!["--draft-model", "llama-3.2-1b"], "--draft-tokens 4"),
        (vec!["--acceptance", "0.7"], "nothing is drafted"),
        (
            vec!["--draft-model", "no-such-model", "--draft-tokens", "2"],
            "--draft-model",
        ),
    ] {
        let ran = place.run(&with(&wrong));
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.out);
        assert!(
            ran.err.contains(expected),
            "{expected} is not in {}",
            ran.err
        );
    }
    let memory = place.run(&[
        "memory",
        "llama-3.1-70b",
        "--gpu",
        "H100",
        "--tp",
        "4",
        "--draft-tokens",
        "4",
        "--draft-model",
        "llama-3.2-1b",
    ]);
    assert!(memory.out.contains("draft model"), "{}", memory.out);
}

#[test]
fn what_is_cast_or_cannot_start_is_said_by_every_command() {
    let place = Place::new();
    let asked = |gpu| ["plan", "llama-3.1-8b", "--rate", "1", "--gpu", gpu];
    let emitted = place.run(&[&asked("T4")[..], &["--emit", "vllm"]].concat());
    assert!(emitted.out.contains("--dtype half"), "{}", emitted.out);
    let emitted = place.run(&[&asked("L4")[..], &["--emit", "vllm"]].concat());
    assert!(!emitted.out.contains("--dtype"), "{}", emitted.out);
    let planned = place.run(&asked("V100"));
    let memory = place.run(&["memory", "llama-3.1-8b", "--gpu", "V100"]);
    let checked = place.run(&[
        "check",
        "llama-3.1-8b",
        "--current",
        "8xV100",
        "--rate",
        "1",
    ]);
    for ran in [planned, memory, checked] {
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("compute_capability>=7.5"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn a_fix_of_an_slo_names_all_that_fails_and_suffices() {
    let place = Place::new();
    let asked = |ttft: &str, tpot: &str| {
        place.run(&[
            "plan",
            "llama-3.1-70b",
            "--rate",
            "4",
            "--isl",
            "2k",
            "--osl",
            "300",
            "--gpu",
            "A10,L4",
            "--precision",
            "bf16",
            "--format",
            "json",
            "--ttft",
            ttft,
            "--tpot",
            tpot,
        ])
    };
    let strict = asked("p95:200ms", "p95:10ms");
    assert_eq!(strict.code, 1, "{}{}", strict.out, strict.err);
    let value: Value = serde_json::from_str(&strict.out).expect("JSON");
    for dropped in value["dropped"].as_array().expect("dropped") {
        let said = dropped["shortfall"].as_str().unwrap_or_default();
        assert!(said.contains("TTFT") && said.contains("TPOT"), "{said}");
        let fix = dropped["fixes"][0].as_str().expect("a fix");
        let bound = |flag: &str| {
            let rest = fix.split_once(flag).expect("a bound").1;
            rest.split_whitespace()
                .next()
                .expect("an amount")
                .to_owned()
        };
        let cured = asked(&bound("--ttft "), &bound("--tpot "));
        assert_eq!(cured.code, 0, "{fix}: {}{}", cured.out, cured.err);
    }
}

#[test]
fn names_that_are_printed_are_taken() {
    let place = Place::new();
    let slice = "H100 SXM5 80GB 3g.40gb";
    let ran = place.json(&["plan", "llama-3.1-8b", "--rate", "0.5", "--gpu", slice]);
    let deployments = ran["deployments"].as_array().expect("deployments");
    assert!(!deployments.is_empty());
    for deployment in deployments {
        assert_eq!(
            (&deployment["gpu"], &deployment["slice"]),
            (&"H100 SXM5 80GB".into(), &"3g.40gb".into())
        );
    }
    let why = ["plan", "llama-3.1-70b", "--rate", "8", "--why-not", slice];
    assert!(place.run(&why).out.contains(slice));
    for command in ["gpus", "offers"] {
        let ran = place.run(&[command, slice]);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
    }
    let listed = place.json(&["gpus", slice]);
    let profiles = listed["rows"][0]["mig_profiles"]
        .as_array()
        .expect("profiles");
    assert!(
        profiles.iter().any(|one| one["profile"] == "3g.40gb"),
        "{listed}"
    );
    let whole = place.run(&["fleet", "mig", slice]);
    assert!(
        whole.code == 2 && whole.err.contains("whole GPUs"),
        "{}",
        whole.err
    );
}

#[test]
fn what_runs_is_on_the_gpu_that_is_named() {
    let place = Place::new();
    let from = [
        "plan",
        "--from",
        "vllm serve meta-llama/Llama-3.1-8B -tp 4",
        "--rate",
        "1",
    ];
    for gpus in [&[][..], &["--gpu", "L4,H100"]] {
        let ran = place.run(&[&from[..], gpus].concat());
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains("--gpu"), "{}", ran.err);
    }
}

#[test]
fn a_layout_that_is_stated_is_the_only_one() {
    let place = Place::new();
    let asked = [
        "plan",
        "qwen3-30b-a3b",
        "--rate",
        "1",
        "--gpu",
        "H100,L40S",
        "--no-slices",
    ];
    for (flags, key, ranks) in [
        (["--tp", "4"], "tensor", 4),
        (["--pp", "2"], "pipeline", 2),
        (["--ep", "8"], "expert", 8),
    ] {
        let sizing = place.json(&[&asked[..], &flags].concat());
        let deployments = sizing["deployments"].as_array().expect("deployments");
        assert!(!deployments.is_empty(), "{flags:?}");
        for deployment in deployments {
            assert_eq!(deployment["layout"][key], ranks, "{flags:?}");
        }
    }
    for (flags, code, reason) in [
        (["--tp", "3"], 2, "heads do not divide"),
        (["--pp", "100"], 2, "layers"),
        (["--tp", "16"], 1, "--multi-host"),
    ] {
        let ran = place.run(&[&asked[..], &flags].concat());
        assert_eq!(ran.code, code, "{flags:?}: {}{}", ran.out, ran.err);
        assert!((ran.out + &ran.err).contains(reason), "{flags:?}");
    }
    let dense = place.run(&["plan", "llama-3.1-8b", "--ep", "2"]);
    assert!(
        dense.code == 2 && dense.err.contains("no experts"),
        "{}",
        dense.err
    );
}

#[test]
fn lengths_are_a_law_that_is_said_kept_and_served() {
    let place = Place::new();
    let asked = |isl, more: &[&'static str]| {
        let flags = [
            "plan",
            "llama-3.1-8b",
            "--rate",
            "2",
            "--gpu",
            "L40S",
            "--precision",
            "bf16",
        ];
        let lengths = ["--osl", "constant:200", "--ttft", "p95:4s", "--isl", isl];
        place.run(&[&flags[..], &lengths, more].concat())
    };
    let context = |emitted: &str| -> u64 {
        let at = emitted.split("--max-model-len ").nth(1);
        let word = at.and_then(|rest| rest.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).expect("a context")
    };
    let constant = asked("constant:2000", &["--emit", "vllm"]).out;
    let usual = asked("2000", &["--emit", "vllm"]).out;
    let told = asked("mean:2000,p95:4000", &["--emit", "vllm"]).out;
    assert_eq!(context(&constant), 3072);
    assert!(context(&told) > 4200, "{told}");
    assert!(context(&usual) > context(&told), "{usual}");
    assert!(
        asked("2000", &["--explain"])
            .out
            .contains("squared coefficient")
    );
    assert!(
        !asked("constant:2000", &["--explain"])
            .out
            .contains("squared coefficient")
    );
    // A tail of long prompts is felt at p95, and what is saved has it.
    let ttft = |isl| {
        let ran = asked(isl, &["--format", "json", "--save", "d.json"]);
        let sizing: Value = serde_json::from_str(&ran.out).expect("JSON");
        sizing["deployments"][0]["figures"]["ttft_seconds"]["value"]
            .as_f64()
            .expect("TTFT")
    };
    assert!(ttft("2000") > 1.5 * ttft("constant:2000"));
    ttft("2000");
    let run = place.json(&["simulate", "d.json", "--requests", "400"]);
    let text = run.to_string();
    assert!(text.contains("TTFT") || text.contains("ttft"), "{text}");
    for wrong in [
        "p95:4000",
        "mean:2000,p95:90000",
        "8000..2000",
        "constant:",
        "mean:2k,p42:3k",
    ] {
        let ran = asked(wrong, &[]);
        assert!(
            ran.code == 2 && ran.err.contains("--isl"),
            "{wrong}: {}{}",
            ran.out,
            ran.err
        );
    }
}
