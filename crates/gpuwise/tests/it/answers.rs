//! What commands answer, in every form, and how they end.

use crate::support::{Place, ran};
use std::process::Stdio;

#[test]
fn a_stated_share_of_memory_is_taken_as_stated_and_an_unstated_one_as_the_engine_has_it() {
    let place = Place::new();
    let tokens = |engine: &str, more: &[&str]| {
        let asked = [
            "memory",
            "llama-3.1-8b",
            "--gpu",
            "H100",
            "--engine",
            engine,
        ];
        let value = place.json(&[&asked[..], more].concat());
        let tokens = value["devices"][0]["memory"]["kv_cache_tokens"].as_u64();
        tokens.unwrap_or_else(|| panic!("{value}"))
    };
    for engine in ["sglang", "vllm", "vllm@0.19", "trtllm"] {
        let shares = ["0.88", "0.89", "0.9", "0.91", "0.92"];
        let held = shares.map(|share| tokens(engine, &["--memory-fraction", share]));
        assert!(held.is_sorted_by(|a, b| a < b), "{engine}: {held:?}");
    }
    // vLLM took 0.9 by itself until 0.20, and 0.92 since.
    for (engine, share) in [
        ("vllm@0.19", "0.9"),
        ("vllm@0.20", "0.92"),
        ("trtllm", "0.9"),
    ] {
        let stated = tokens(engine, &["--memory-fraction", share]);
        assert_eq!(tokens(engine, &[]), stated, "{engine}");
    }
    // SGLang leaves room for a step of so many tokens: what is stated of that counts.
    let larger = tokens("sglang", &["--max-batched-tokens", "16384"]);
    assert!(larger < tokens("sglang", &[]));
}

#[test]
fn memory_says_what_fits_and_what_would_cure_the_rest() {
    let place = Place::new();
    let fits = [
        "memory",
        "llama-3.1-8b",
        "--gpu",
        "H100",
        "--context",
        "8192",
        "--concurrency",
        "8",
    ];
    let yes = place.run(&fits);
    assert_eq!(yes.code, 0, "{}{}", yes.out, yes.err);
    assert!(
        yes.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        yes.out
    );
    let load = [
        "memory",
        "llama-3.1-70b",
        "--context",
        "8192",
        "--concurrency",
        "8",
    ];
    let short = [&load[..], &["--gpu", "L40S"]].concat();
    let no = place.run(&short);
    assert_eq!(no.code, 1, "{}{}", no.out, no.err);
    assert!(
        no.out.contains("GiB short") && no.out.contains("cheapest fix:"),
        "{}",
        no.out
    );
    // The fix that is named fixes.
    let value = place.json(&short);
    let device = &value["devices"][0];
    assert_eq!(device["fits"], false);
    assert!(
        device["short_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 90 << 30),
        "{value}"
    );
    let fix = device["fixes"]
        .as_array()
        .and_then(|fixes| fixes.first())
        .expect("a fix")["what"]
        .as_str()
        .expect("text")
        .to_owned();
    let flags = fix
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .expect("flags")
        .0;
    // Outside of quotes, blanks separate words.
    let words = flags
        .split('\'')
        .enumerate()
        .flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
    let mut flags: Vec<&str> = words.collect();
    if !flags.contains(&"--gpu") {
        flags.extend(["--gpu", "L40S"]);
    }
    let cured = place.run(&[&load[..], &flags].concat());
    assert_eq!(cured.code, 0, "{fix}: {}{}", cured.out, cured.err);
}

#[test]
fn memory_of_many_gpus_and_of_slices() {
    let place = Place::new();
    let all = place.json(&["memory", "llama-3.1-70b"]);
    let devices = all["devices"].as_array().expect("devices");
    assert!(devices.len() > 10);
    assert!(
        devices
            .iter()
            .any(|device| device["fits"] == true && device["gpus"].as_u64() > Some(1))
    );
    let slice = place.json(&["memory", "llama-3.2-1b", "--gpu", "A100 SXM4 80GB 1g.10gb"]);
    let visible = slice["devices"][0]["memory"]["visible_bytes"]
        .as_u64()
        .expect("visible bytes");
    assert!((8 << 30..11 << 30).contains(&visible), "{slice}");
}

#[test]
fn every_form_of_a_list() {
    let place = Place::new();
    for command in ["gpus", "models", "offers"] {
        for format in ["table", "json", "csv", "md"] {
            let ran = place.run(&[command, "--format", format]);
            assert_eq!(ran.code, 0, "{command} {format}: {}", ran.err);
            assert!(
                ran.err.is_empty() && ran.out.ends_with('\n'),
                "{command} {format}"
            );
            match format {
                "table" => assert!(
                    ran.out.lines().all(|line| line.chars().count() <= 100),
                    "{command}"
                ),
                "json" => {
                    let rows: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
                    let rows = rows["rows"].as_array().expect("rows");
                    assert!(
                        rows.iter().all(|row| row["source"]
                            .as_str()
                            .is_some_and(|source| !source.is_empty())),
                        "{command}"
                    );
                }
                "csv" => assert!(ran.out.lines().count() > 20, "{command}"),
                _ => assert!(ran.out.starts_with('|'), "{command}"),
            }
        }
    }
}

#[test]
fn networks_that_are_run_whole_are_shown_by_their_parts() {
    let place = Place::new();
    let parts = place.json(&["models", "flux-dev"]);
    let named: Vec<&str> = parts["rows"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["part"].as_str())
        .collect();
    assert_eq!(
        named,
        [
            "text_encoder",
            "text_encoder_2",
            "transformer",
            "vae.encoder",
            "vae.decoder",
            "all"
        ]
    );
    assert_eq!(parts["rows"][2]["parameters"], 11_901_408_320_u64);
    // A model that is both: facts, then parts.
    let ran = place.run(&["models", "whisper-large-v3"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for line in ["KV cache of a token", "model.encoder", "model.decoder"] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100));
    // The catalogue's own files are checked too: every network is walked.
    place.write(
        "networks.json",
        r#"[{"id": "mine", "source": "me", "parts": [{"name": "unet", "config": {"_class_name": "UNet2DModel"}}]}]"#,
    );
    let ran = place.run(&["gpus", "--check", "networks.json"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.out.contains("UNet2DModel"), "{}", ran.out);
}

#[test]
fn offers_are_sorted_with_unknown_prices_last() {
    let place = Place::new();
    place.write("own.csv", "provider,instance,region,gpu,gpus,usd_per_hour,source\nme,free,here,L4,1,,mine\nme,cheap,here,L4,1,0.01,mine\n");
    let rows = place.json(&["offers", "L4", "--prices", "own.csv"]);
    let names: Vec<&str> = rows["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["instance"].as_str())
        .collect();
    assert_eq!(names.first(), Some(&"cheap"));
    assert_eq!(names.last(), Some(&"free"));
    let cheap = place.json(&["offers", "--prices", "own.csv", "--max-price", "0.02USD"]);
    assert_eq!(cheap["rows"].as_array().map(Vec::len), Some(1));
}

#[test]
fn rows_of_the_user_stand_over_the_catalogue() {
    let place = Place::new();
    let row = "[[gpu]]\nname = \"L4\"\nvendor = \"NVIDIA\"\ngeneration = \"Ada Lovelace\"\nmemory_kind = \"GDDR6\"\nmemory_gb = 99\nbandwidth = 300\npeak = { bf16 = 121 }\nsource = \"mine\"\n\n\
               [[gpu]]\nname = \"Mine 1\"\nvendor = \"NVIDIA\"\ngeneration = \"Hopper\"\nmemory_kind = \"HBM3\"\nmemory_gb = 80\nbandwidth = 3000\npeak = { bf16 = 900 }\nsource = \"mine\"\n";
    place.write("mine/gpus.toml", row);
    place.write(
        "mine/models/own.json",
        r#"[{"id": "acme/own", "source": "mine", "base": "meta-llama/Llama-3.1-8B"}]"#,
    );
    // In a place of one's choice, and in the configuration directory.
    for folder in ["mine", ".config/gpuwise/catalogue"] {
        if folder != "mine" {
            std::fs::create_dir_all(place.path(".config/gpuwise")).expect("a folder");
            std::fs::rename(place.path("mine"), place.path(folder)).expect("moved");
        }
        let mut command = place.command(&["gpus", "--format", "json"]);
        if folder == "mine" {
            command.env("GPUWISE_CATALOGUE", place.path("mine"));
        }
        let rows: serde_json::Value = serde_json::from_str(&ran(&mut command).out).expect("JSON");
        let named = |name: &str| {
            rows["rows"]
                .as_array()
                .expect("rows")
                .iter()
                .filter(|row| row["gpu"] == name)
                .collect::<Vec<_>>()
        };
        assert_eq!(named("L4").len(), 1, "{folder}");
        assert_eq!(named("L4")[0]["memory_gb"], 99.0, "{folder}");
        assert_eq!(named("Mine 1").len(), 1, "{folder}");
    }
    assert_eq!(
        place.run(&["memory", "acme/own", "--gpu", "Mine 1"]).code,
        0
    );
}

#[test]
fn every_problem_of_a_catalogue_file_is_said_with_its_line() {
    let place = Place::new();
    place.write(
        "offers.csv",
        "provider,instance,region,gpu,gpus,usd_per_hour,source\nme,a,here,L4,1,0.5,mine\nme,b,here,L4,1,cheap,mine\nme,c,here,L5,1,0.5,mine\nme,d,here,L4,1,0.5,\n",
    );
    place.write(
        "gpus.toml",
        "# mine\n[[gpu]]\nname = \"A\"\nbandwidth = 3\n\n[[gpu]]\nname = \"B\"\nvendor = \"NVIDIA\"\ngeneration = \"Hopper\"\nmemory_kind = \"HBM3\"\nmemory_gb = 80\nbandwidth = -1\npeak = { bf16 = 900 }\nsource = \"mine\"\n",
    );
    place.write("own.json", "[\n  {\"id\": \"a/one\", \"source\": \"mine\", \"base\": \"no/such\"},\n  {\"id\": \"a/two\", \"config\": {}}\n]\n");
    for (file, lines) in [
        ("offers.csv", vec![3, 4, 5]),
        ("gpus.toml", vec![2, 6]),
        ("own.json", vec![2, 3]),
    ] {
        let ran = place.run(&["gpus", "--check", file, "--format", "json"]);
        assert_eq!(ran.code, 2, "{}", ran.out);
        let found: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        let mut said: Vec<u64> = found["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|row| row["line"].as_u64())
            .collect();
        said.sort_unstable();
        said.dedup();
        assert_eq!(said, lines, "{file}: {}", ran.out);
    }
    let all = place.run(&["gpus", "--check"]);
    assert_eq!(all.code, 0, "{}{}", all.out, all.err);
}

#[test]
fn scripts_and_pages_for_shells() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            ran.out.contains("gpuwise") && ran.out.contains("memory"),
            "{shell}"
        );
    }
    let page = place.run(&["man", "plan"]);
    assert!(
        page.out.starts_with(".ie") || page.out.contains(".TH"),
        "{}",
        page.out
    );
    assert!(page.out.contains("\\-\\-ttft"), "{}", page.out);
}

/// Without a word about the form, many answers are for programs.
#[test]
fn answers_to_questions_are_csv_unless_a_table_is_asked_for() {
    let place = Place::new();
    place.write("q.csv", place.run(&["example", "questions.csv"]).out);
    let of = |form: &[&str]| place.run(&[&["predict", "q.csv"], form].concat());
    let (usual, csv) = (of(&[]), of(&["--format", "csv"]));
    assert!(
        usual
            .out
            .starts_with("id,metric,value,low,high,unit,basis,reason\n")
    );
    assert_eq!(usual.out, csv.out);
    let table = of(&["--format", "table"]).out;
    assert!(
        table.contains("────") && table.starts_with("id "),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn help_fits_a_hundred_columns() {
    let place = Place::new();
    let commands = [
        "",
        "plan",
        "memory",
        "gpus",
        "models",
        "offers",
        "predict",
        "accuracy",
        "calibrate",
        "workload",
        "completions",
        "man",
    ];
    for command in commands {
        for help in ["-h", "--help"] {
            let arguments: Vec<&str> = [command, help]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let ran = place.run(&arguments);
            assert_eq!(ran.code, 0, "{}", ran.err);
            let wide: Vec<&str> = ran
                .out
                .lines()
                .filter(|line| line.chars().count() > 100)
                .collect();
            assert!(wide.is_empty(), "{command} {help}: {wide:?}");
        }
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = Place::new();
    let mut child = place
        .command(&["models", "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn colour_only_where_it_is_wanted() {
    let place = Place::new();
    let memory = ["memory", "llama-3.1-8b", "--gpu", "H100"];
    assert!(!place.run(&memory).out.contains('\u{1b}'));
    let always = place.run(&[&memory[..], &["--color", "always"]].concat());
    assert!(always.out.contains('\u{1b}'));
}
