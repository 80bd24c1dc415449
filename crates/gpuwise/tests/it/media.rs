//! Plans of diffusion, vision and embedding models, as commands; their rows against measured ones.

use crate::support::Place;
use serde_json::Value;
use std::{fs, path::Path};

fn json(place: &Place, arguments: &[&str]) -> (i32, Value) {
    let ran = place.run(&[arguments, &["--format", "json"]].concat());
    let value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    (ran.code, value)
}

const FLUX: [&str; 8] = [
    "plan",
    "black-forest-labs/FLUX.1-dev",
    "--images",
    "2/s",
    "--steps",
    "28",
    "--latency",
    "p95:8s",
];

#[test]
fn an_image_service_is_planned_in_every_form() {
    let place = Place::new();
    let (code, plan) = json(&place, &FLUX);
    assert_eq!(code, 0);
    assert_eq!(plan["feasible"], true);
    for one in plan["deployments"].as_array().expect("deployments") {
        let latency = one["latency_seconds"]["value"].as_f64().expect("a latency");
        let capacity = one["capacity_per_second"]["value"]
            .as_f64()
            .expect("a capacity");
        assert!(latency <= 8.0 && capacity >= 2.0, "{one}");
    }
    for form in ["table", "md", "csv"] {
        let arguments = [&FLUX[..], &["--format", form]].concat();
        let (first, second) = (place.run(&arguments), place.run(&arguments));
        assert_eq!((first.code, &first.err), (0, &second.err));
        assert_eq!(first.out, second.out, "{form}");
    }
    let table = place.run(&FLUX).out;
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
}

#[test]
fn more_steps_longer_texts_and_padding_cost_more() {
    let place = Place::new();
    let dollars = |arguments: &[&str]| {
        let (_, plan) = json(&place, &[arguments, &["--gpu", "H100"]].concat());
        plan["deployments"][0]["price_per_hour"]["amount"]
            .as_f64()
            .expect("a price")
    };
    let images = |steps: &'static str| {
        let mut flags = FLUX;
        flags[3] = "20/s";
        flags[5] = steps;
        flags[7] = "p95:60s";
        dollars(&flags)
    };
    assert!(images("4") < images("20"));
    let texts = |more: &[&str]| {
        let base = [
            "plan",
            "BAAI/bge-large-en",
            "--texts",
            "30000/s",
            "--length",
            "128",
        ];
        dollars(&[&base[..], more].concat())
    };
    assert!(texts(&[]) < texts(&["--longest", "512"]));
}

#[test]
fn what_cannot_be_kept_ends_with_1() {
    let place = Place::new();
    let ran = place.run(&[
        "plan",
        "black-forest-labs/FLUX.1-dev",
        "--images",
        "2/s",
        "--latency",
        "p95:10ms",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("Nothing keeps the SLO. The nearest is"),
        "{}",
        ran.out
    );
}

#[test]
fn images_are_decoded_by_cores_that_the_instance_may_lack() {
    let place = Place::new();
    let (code, told) = json(
        &place,
        &[
            "plan",
            "microsoft/resnet-50",
            "--samples",
            "20000/s",
            "--gpu",
            "H100",
            "--precision",
            "bf16",
        ],
    );
    assert_eq!(code, 0);
    let host = &told["host"];
    let parts = host["parts"].as_array().expect("parts");
    let of = |name: &str| {
        parts
            .iter()
            .find(|part| part["part"] == name)
            .expect("a part")
    };
    // 20,000 images of 110 kB, 32 MB a second and core; and a core each for GPU and server.
    let cores = of("CPU cores")["needed"]["value"].as_f64().expect("cores");
    assert!(
        (cores - (20_000.0 * 110e3 / 32e6 + 2.0)).abs() < 0.01,
        "{cores}"
    );
    assert_eq!(
        of("CPU cores")["short"],
        true,
        "an instance with one H100 has fewer"
    );
    // Texts are not decoded.
    let (_, told) = json(
        &place,
        &[
            "plan",
            "BAAI/bge-large-en",
            "--texts",
            "300/s",
            "--length",
            "256",
        ],
    );
    assert_eq!(told["host"]["cause"], Value::Null);
}

#[test]
fn wrong_units_sizes_and_networks_are_errors_that_help() {
    let place = Place::new();
    let flux = "black-forest-labs/FLUX.1-dev";
    let cases: [(&[&str], &[&str]); 14] = [
        (
            &["llama-3.1-8b", "--images", "2/s"],
            &["language model", "--rate"],
        ),
        (&[flux], &["text to image", "--images 2/s"]),
        (&[flux, "--texts", "2/s"], &["text to image", "--images"]),
        (
            &[flux, "--images", "2/s", "--size", "1001"],
            &["multiples of 16", "1008"],
        ),
        (
            &[flux, "--images", "2/s", "--size", "big"],
            &["--size big", "1280x720"],
        ),
        (&[flux, "--images", "0/s"], &["--images"]),
        (&[flux, "--images", "2/s", "--latency", "8s"], &["p95:8s"]),
        (&[flux, "--images", "2/s", "--rate", "8/s"], &["--rate"]),
        (
            &[flux, "--images", "2/s", "--precision", "q4"],
            &["--precision q4"],
        ),
        (&[flux, "--images", "2/s", "--emit", "vllm"], &["--emit"]),
        (&["openai/whisper-large-v3", "--audio", "40"], &["40h/h"]),
        (
            &["BAAI/bge-large-en", "--texts", "3/s", "--length", "4096"],
            &["512 tokens"],
        ),
        (
            &[
                "BAAI/bge-large-en",
                "--texts",
                "3/s",
                "--length",
                "256",
                "--longest",
                "100",
            ],
            &["--longest 100"],
        ),
        (
            &["no-such-network", "--images", "2/s"],
            &["no-such-network"],
        ),
    ];
    for (arguments, parts) in cases {
        let ran = place.run(&[&["plan"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.is_empty(), "{arguments:?}: {}", ran.out);
        for part in parts {
            assert!(
                ran.err.contains(part),
                "{arguments:?}: {part:?} is not in: {}",
                ran.err
            );
        }
    }
}

/// Ids of the catalogue's diffusion, vision, speech and embedding models, with their tasks.
fn networks() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/networks");
    let files = fs::read_dir(folder).expect("networks");
    let of_file = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).expect("a file");
        let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let text = |one: &Value, field: &str| one[field].as_str().expect("a text").to_owned();
        let of = |one: &Value| (text(one, "id"), text(one, "task"));
        all.iter().map(of).collect::<Vec<_>>()
    };
    let mut found: Vec<_> = files
        .flat_map(|file| of_file(file.expect("a file")))
        .collect();
    found.sort();
    found
}

#[test]
fn a_command_without_an_answer_says_what_a_model_is_and_what_answers() {
    let place = Place::new();
    let commands: [&[&str]; 5] = [
        &["train", "--gpus", "8xH100"],
        &["table", "--method", "none", "--models"],
        &["evidence"],
        &["check", "--current", "8xH100", "--rate", "1"],
        &["plan", "--rate", "1"],
    ];
    let popular = ["FLUX.1-dev", "xl-base-1.0", "bge-m3", "whisper-large-v3"];
    for (at, (id, task)) in networks().iter().enumerate() {
        for (turn, command) in commands.iter().enumerate() {
            // The popular ones by every command, others by one each.
            if at % commands.len() != turn && !popular.iter().any(|end| id.ends_with(end)) {
                continue;
            }
            let ran = place.run(&[*command, &[id.as_str()]].concat());
            assert_eq!(ran.code, 2, "{command:?} {id}: {}{}", ran.out, ran.err);
            let parts = [
                format!("{id} is no language model: it goes from {task}"),
                format!("gpuwise plan {id} --"),
                format!("gpuwise memory {id}"),
            ];
            let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in parts {
                assert!(
                    said.contains(&part),
                    "{command:?}: {part:?} is not in: {said}"
                );
            }
        }
    }
}

#[test]
fn memory_of_a_network_is_what_its_plan_holds() {
    let place = Place::new();
    for (id, rate) in [
        ("black-forest-labs/FLUX.1-dev", "--images"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "--images"),
        ("Wan-AI/Wan2.1-T2V-1.3B", "--videos"),
        ("bge-m3", "--texts"),
        ("BAAI/bge-reranker-base", "--pairs"),
        ("microsoft/resnet-50", "--samples"),
        ("dlrm-v2", "--samples"),
    ] {
        let same = ["--gpu", "H200", "--precision", "bf16", "--batch", "1"];
        let (code, plan) = json(&place, &[&["plan", id, rate, "1/h"], &same[..]].concat());
        assert_eq!(code, 0, "{id}");
        let (code, memory) = json(&place, &[&["memory", id], &same[..]].concat());
        assert_eq!((code, &memory["fits"]), (0, &Value::Bool(true)), "{id}");
        let (planned, held) = (&plan["deployments"][0], &memory["devices"][0]);
        for field in [
            "memory",
            "memory_bytes",
            "usable_bytes",
            "host_bytes",
            "decoder_tiled",
        ] {
            assert_eq!(planned[field], held[field], "{id}: {field}");
        }
        assert_eq!(planned["gpus_per_replica"], held["gpus"], "{id}");
    }
}

/// The flags that a fix names, without the quotes of a shell.
fn flags_of(fix: &str) -> Vec<String> {
    let inside = fix
        .split_once("(--")
        .and_then(|(_, rest)| rest.split_once(')'));
    let flags = format!("--{}", inside.expect("flags").0);
    let parts = flags.split('\'').enumerate().flat_map(|(at, part)| {
        let words: Vec<&str> = if at % 2 == 0 {
            part.split_whitespace().collect()
        } else {
            vec![part]
        };
        words
    });
    parts.map(str::to_owned).collect()
}

#[test]
fn a_network_that_does_not_fit_fits_as_each_fix_says() {
    let place = Place::new();
    let flux = ["memory", "black-forest-labs/FLUX.1-dev", "--size", "2048"];
    for (gpu, batch) in [("T4", "1"), ("A100 SXM4 40GB", "16")] {
        let short = [&flux[..], &["--gpu", gpu, "--batch", batch]].concat();
        let (code, said) = json(&place, &short);
        assert_eq!(code, 1, "{said}");
        let fixes = said["devices"][0]["fixes"].as_array().expect("fixes");
        assert!(!fixes.is_empty(), "{said}");
        for fix in fixes {
            let flags = flags_of(fix["what"].as_str().expect("a text"));
            let mut asked: Vec<&str> = flux.to_vec();
            for (flag, usual) in [("--gpu", gpu), ("--batch", batch)] {
                if !flags.iter().any(|one| one == flag) {
                    asked.extend([flag, usual]);
                }
            }
            asked.extend(flags.iter().map(String::as_str));
            assert_eq!(place.run(&asked).code, 0, "{fix}");
        }
    }
}

#[test]
fn a_directory_of_a_network_is_one_to_every_command() {
    let place = Place::new();
    let bert = r#"{"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2}"#;
    place.write("mine/config.json", bert);
    let ran = place.run(&["train", "./mine", "--gpus", "1xH100"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    for part in ["./mine is no language model", "--texts"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let (code, said) = json(
        &place,
        &["memory", "./mine", "--gpu", "L4", "--length", "256"],
    );
    assert_eq!((code, &said["fits"]), (0, &Value::Bool(true)), "{said}");
    // A pipeline without a configuration of its own.
    place.write(
        "pipe/model_index.json",
        r#"{"text_encoder": ["transformers", "BertModel"]}"#,
    );
    place.write("pipe/text_encoder/config.json", bert);
    let ran = place.run(&["evidence", "pipe"]);
    assert!(ran.err.contains("pipe is no language model"), "{}", ran.err);
    // Flags of the other kind of model are refused, not passed over.
    for (arguments, part) in [
        (["memory", "bge-m3", "--context", "512"], "--length"),
        (["memory", "bge-m3", "--kv", "fp8"], "--kv"),
        (["memory", "llama-3.1-8b", "--batch", "4"], "--concurrency"),
    ] {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn prices_that_memory_quotes_are_those_of_offers() {
    let place = Place::new();
    let offers = place.json(&["offers"]);
    let offers = offers["rows"].as_array().expect("offers");
    let mut seen = 0;
    for (model, gpu) in [
        ("llama-3.1-70b", "L40S"),
        ("llama-3.1-70b", "L4"),
        ("llama-3.1-405b", "H100"),
        ("black-forest-labs/FLUX.1-dev", "T4"),
    ] {
        let said = place.json(&["memory", model, "--gpu", gpu]);
        for fix in said["devices"][0]["fixes"].as_array().expect("fixes") {
            let what = fix["what"].as_str().expect("a text");
            let Some((_, rest)) = what.split_once(", from ") else {
                continue;
            };
            let (price, rest) = rest.split_once(" USD/h (").expect("a price");
            let (count, rest) = rest.split_once(" × ").expect("a count");
            let (instance, provider) = rest
                .trim_end_matches(')')
                .rsplit_once(" of ")
                .expect("an instance");
            let count: f64 = count.parse().expect("a number");
            let price: f64 = price.parse().expect("a number");
            let sold = offers.iter().any(|offer| {
                let each = offer["price_per_hour"]["amount"]
                    .as_f64()
                    .unwrap_or(f64::NAN);
                offer["instance"] == instance
                    && offer["provider"] == provider
                    && (count * each / price - 1.0).abs() < 0.01
            });
            assert!(sold, "{what}");
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

/// Errors on offline rates with the GPU left out, by benchmark, in percent.
const MARK: f64 = 25.0;

#[test]
fn offline_rates_of_unseen_gpus_are_within_the_mark() {
    let Some(data) = gpuwise_needs::data("") else {
        return;
    };
    let table = data.join("questions/mlperf_inference.csv");
    let place = Place::new();
    let ran = place.run(&["calibrate", "--refit-media", &table.to_string_lossy()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file: toml::Table = ran.out.parse().expect("TOML");
    let rows = file["error"].as_array().expect("errors");
    let mut judged = 0;
    for row in rows {
        let group = row["benchmark"].as_str().expect("a group");
        let mean = row["mean_percent"].as_float().expect("a mean");
        if group.ends_with(" offline") {
            judged += 1;
            assert!(mean <= MARK, "{group}: {mean:.1} %");
        }
    }
    assert_eq!(judged, 9, "{rows:?}");
    let kept = include_str!("../../../../catalogue/media.toml");
    let kept: toml::Table = kept.parse().expect("TOML");
    for (name, constants) in [("printed", &file), ("kept", &kept)] {
        assert_eq!(
            constants["constant"].as_array().map(Vec::len),
            Some(19),
            "{name}"
        );
    }
    assert_eq!(
        file["constant"], kept["constant"],
        "the refit gives what is kept"
    );
}
