//! Plans of diffusion, vision and embedding models, as commands; their rows against measured ones.

use crate::support::Place;
use serde_json::Value;

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
