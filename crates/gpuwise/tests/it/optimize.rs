//! `gpuwise optimize`: checkpoints with smaller weights, made for the test.

use crate::support::Place;
use serde_json::{Value, json};
use std::fs;

const HIDDEN: usize = 64;

/// The layers of a small model: what is asked of shapes and names is asked of these.
const LAYERS: [(&str, [usize; 2]); 5] = [
    ("model.embed_tokens.weight", [32, HIDDEN]),
    ("model.layers.0.self_attn.q_proj.weight", [HIDDEN, HIDDEN]),
    ("model.layers.0.self_attn.k_proj.weight", [HIDDEN, HIDDEN]),
    ("model.layers.0.mlp.down_proj.weight", [HIDDEN, 128]),
    ("lm_head.weight", [32, HIDDEN]),
];

/// Numbers that repeat with no short period, in BF16.
pub(crate) fn bf16(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::new();
    for _ in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = (state >> 8) as f32 / 16_777_216.0 - 0.5;
        out.extend(
            &value.to_bits().to_be_bytes()[..2]
                .iter()
                .rev()
                .copied()
                .collect::<Vec<_>>(),
        );
    }
    out
}

/// Writes a checkpoint; `change` sees the bytes of each tensor.
pub(crate) fn checkpoint(place: &Place, name: &str, change: impl Fn(&str, &mut Vec<u8>)) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, (tensor, [rows, columns])) in (1..).zip(LAYERS) {
        let mut bytes = bf16(rows * columns, seed);
        change(tensor, &mut bytes);
        let begin = data.len();
        data.extend(bytes);
        let said =
            json!({"dtype": "BF16", "shape": [rows, columns], "data_offsets": [begin, data.len()]});
        header.insert(tensor.into(), said);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    place.write(&format!("{name}/model.safetensors"), file);
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 32, "max_position_embeddings": 128,
        "torch_dtype": "bfloat16", "tie_word_embeddings": false,
    });
    place.write(&format!("{name}/config.json"), config.to_string());
    place.write(&format!("{name}/tokenizer.json"), "{}");
}

pub(crate) fn header(place: &Place, directory: &str) -> Value {
    let file = fs::read(place.path(&format!("{directory}/model.safetensors"))).expect("a file");
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    serde_json::from_slice(&file[8..8 + length]).expect("JSON")
}

#[test]
fn linear_layers_become_smaller_and_what_else_there_is_stays() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let ran = place.run(&[
        "optimize",
        "m",
        "--to",
        "fp8",
        "-o",
        "small",
        "--kv",
        "fp8",
        "--report",
        "errors.csv",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let header = header(&place, "small");
    let dtype = |name: &str| header[name]["dtype"].as_str().unwrap_or("none").to_owned();
    assert_eq!(dtype("model.layers.0.self_attn.q_proj.weight"), "F8_E4M3");
    assert_eq!(dtype("model.layers.0.self_attn.q_proj.weight_scale"), "F32");
    assert_eq!(dtype("model.embed_tokens.weight"), "BF16");
    assert_eq!(dtype("lm_head.weight"), "BF16");
    let config = fs::read_to_string(place.path("small/config.json")).expect("a file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(
        config["quantization_config"]["quant_method"],
        "compressed-tensors"
    );
    assert_eq!(
        config["quantization_config"]["kv_cache_scheme"]["num_bits"],
        8
    );
    assert!(place.path("small/tokenizer.json").exists());
    let report = fs::read_to_string(place.path("errors.csv")).expect("a file");
    assert_eq!(report.lines().count(), 1 + LAYERS.len(), "{report}");
    // `plan` and `memory` read there what was made.
    let memory = place.run(&["memory", "small", "--gpu", "L4"]);
    assert!(
        memory.out.contains("fp8 weights, fp8 KV cache"),
        "{}",
        memory.out
    );
    let stated = place.run(&["memory", "small", "--gpu", "L4", "--kv", "bf16"]);
    assert!(
        stated.out.contains("fp8 weights, bf16 KV cache"),
        "{}",
        stated.out
    );
    let older = place.run(&["memory", "small", "--gpu", "L4", "--engine", "vllm@0.11"]);
    assert!(
        older.out.contains("fp8 weights, bf16 KV cache"),
        "{}",
        older.out
    );
}

#[test]
fn the_same_model_gives_the_same_bytes_and_plain_numbers_again() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let files = |form: &str, at: &str| {
        let ran = place.run(&["optimize", "m", "--to", form, "-o", at]);
        assert_eq!(ran.code, 0, "{form}: {}", ran.err);
        let file = fs::read(place.path(&format!("{at}/model.safetensors"))).expect("a file");
        (
            file,
            fs::read(place.path(&format!("{at}/config.json"))).expect("a file"),
        )
    };
    for form in ["fp8", "int8", "int8-w8a16", "nvfp4", "mxfp4"] {
        assert_eq!(
            files(form, &format!("{form}-1")),
            files(form, &format!("{form}-2"))
        );
        let back = format!("{form}-back");
        let ran = place.run(&[
            "optimize",
            &format!("{form}-1"),
            "--to",
            "bf16",
            "-o",
            &back,
        ]);
        assert_eq!(ran.code, 0, "{form}: {}", ran.err);
        assert_eq!(
            header(&place, &back)["model.layers.0.mlp.down_proj.weight"]["dtype"],
            "BF16"
        );
    }
}

#[test]
fn parts_of_a_weight_that_is_not_there_are_not_passed_over() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let ran = place.run(&["optimize", "m", "--to", "fp8", "-o", "small"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = place.path("small/model.safetensors");
    let mut bytes = fs::read(&file).expect("a file");
    let name = br#"down_proj.weight":"#;
    let at = bytes.windows(name.len()).position(|some| some == name);
    let at = at.expect("it is there");
    bytes[at..][..name.len()].copy_from_slice(br#"down_proj.kernel":"#);
    fs::write(&file, bytes).expect("is written");
    let ran = place.run(&["optimize", "small", "--to", "bf16", "-o", "back"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err
            .contains("down_proj`: has `weight_scale` and no weight"),
        "{}",
        ran.err
    );
    assert!(!place.path("back").exists());
}

#[test]
fn codes_that_are_no_numbers_are_named() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let ran = place.run(&["optimize", "m", "--to", "fp8", "-o", "small"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = place.path("small/model.safetensors");
    let mut bytes = fs::read(&file).expect("a file");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let weight = &header(&place, "small")["model.layers.0.mlp.down_proj.weight"];
    let begin = weight["data_offsets"][0].as_u64().expect("a number") as usize;
    // Row 1, column 3: E4M3 has NaN.
    bytes[8 + length + begin + 128 + 3] = 0x7f;
    fs::write(&file, bytes).expect("is written");
    let ran = place.run(&["optimize", "small", "--to", "bf16", "-o", "back"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    let said = "layer `model.layers.0.mlp.down_proj`: row 1, column 3 is NaN or infinite in BF16";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert!(!place.path("back").exists());
}

#[test]
fn numbers_that_are_none_are_named_and_nothing_is_left() {
    let place = Place::new();
    checkpoint(&place, "m", |tensor, bytes| {
        if tensor.contains("down_proj") {
            // Row 1, column 3: a NaN.
            bytes[(128 + 3) * 2..][..2].copy_from_slice(&[0xC0, 0x7F]);
        }
    });
    let ran = place.run(&["optimize", "m", "--to", "int8", "-o", "small"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("down_proj.weight`: row 1, column 3"),
        "{}",
        ran.err
    );
    assert!(!place.path("small").exists());
    // As the hint says.
    let ran = place.run(&[
        "optimize",
        "m",
        "--to",
        "int8",
        "-o",
        "other",
        "--keep",
        "down_proj",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn layers_that_would_lose_too_much_stay() {
    let place = Place::new();
    checkpoint(&place, "m", |tensor, bytes| {
        if tensor.contains("down_proj") {
            // A 4 among each 32 of at most 0.5: what is beside it is rounded to nothing.
            for group in bytes.chunks_exact_mut(64) {
                group[..2].copy_from_slice(&[0x80, 0x40]);
            }
        }
    });
    let made = |most: &str, at: &str| {
        let report = format!("{at}.csv");
        let ran = place.run(&[
            "optimize",
            "m",
            "--to",
            "int4",
            "--scales",
            "32",
            "-o",
            at,
            "--report",
            &report,
            "--max-error",
            most,
        ]);
        let report = fs::read_to_string(place.path(&report)).unwrap_or_default();
        (ran, report)
    };
    let (ran, report) = made("100%", "all");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!report.contains("--max-error"), "{report}");
    let (ran, report) = made("0.12", "some");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let kept: Vec<_> = report
        .lines()
        .filter(|row| row.contains("--max-error"))
        .collect();
    assert!(kept.len() == 1 && kept[0].contains("down_proj"), "{report}");
    let config = fs::read_to_string(place.path("some/config.json")).expect("a file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let ignored = config["quantization_config"]["ignore"].to_string();
    assert!(ignored.contains("mlp.down_proj"), "{ignored}");
    // Engines make one matrix of queries and keys: one that stays keeps the other.
    let ran = place.run(&[
        "optimize", "m", "--to", "fp8", "-o", "one", "--keep", "k_proj", "--report", "one.csv",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = fs::read_to_string(place.path("one.csv")).expect("a file");
    assert!(report.contains("one with k_proj"), "{report}");
    let (ran, _) = made("1%", "none");
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("all lose more than --max-error"),
        "{}",
        ran.err
    );
}

#[test]
fn what_cannot_be_made_is_said() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    place.write("empty/config.json", "{}");
    let cases: [(&[&str], &str); 11] = [
        (&["m", "--to", "fp8", "-o", "x", "--rate", "2"], "--advise"),
        (&["m", "--advise", "--from", "vllm serve m"], "--from"),
        (&["m", "-o", "x"], "--to FORM is missing"),
        (&["m", "--to", "fp8"], "--output DIR is missing"),
        (&["m", "--to", "fp8", "-o", "m"], "m is there already"),
        (
            &["m", "--to", "fp8", "--scales", "7", "-o", "x"],
            "expected tensor, channel, block",
        ),
        (
            &["m", "--to", "fp8", "--asymmetric", "-o", "x"],
            "--asymmetric with --to fp8",
        ),
        (
            &["m", "--to", "int4", "--scales", "256", "-o", "x"],
            "no linear layer",
        ),
        (&["empty", "--to", "fp8", "-o", "x"], "safetensors"),
        (
            &["m", "--to", "fp8", "--max-error", "2", "-o", "x"],
            "--max-error: `2`",
        ),
        (
            &["m", "--recipe", "smoothquant", "--to", "int4"],
            "expected --to int8",
        ),
    ];
    for (arguments, said) in cases {
        let ran = place.run(&[&["optimize"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.out);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
        assert!(!place.path("x").exists(), "{arguments:?}");
    }
    let first = place.run(&["optimize", "m", "--to", "fp8", "-o", "small"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let again = place.run(&["optimize", "small", "--to", "int8", "-o", "smaller"]);
    assert_eq!(again.code, 2);
    assert!(
        again.err.contains("quantized already (compressed-tensors)"),
        "{}",
        again.err
    );
}

#[test]
fn advice_is_what_plan_says_of_each_form() {
    let place = Place::new();
    let asked = [
        "--gpu", "L4", "--rate", "2", "--isl", "1000", "--osl", "200", "--ttft", "p95:2s",
    ];
    let model = "meta-llama/Llama-3.1-8B-Instruct";
    let drawn = ["optimize", model, "--advise", "--svg", "forms.svg"];
    let advice = place.json(&[&drawn, &asked[..]].concat());
    let picture = fs::read_to_string(place.path("forms.svg")).expect("a picture");
    assert!(picture.contains("loss 3.99 %"), "{picture}");
    let rows = advice["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7, "{advice}");
    for (at, form) in [(1, "fp8"), (4, "int4")] {
        let plan = place.json(&[&["plan", model, "--precision", form], &asked[..]].concat());
        let best = &plan["deployments"][0];
        assert_eq!(rows[at]["form"], form);
        assert_eq!(
            rows[at]["tpot_seconds"], best["figures"]["tpot_seconds"]["value"],
            "{form}"
        );
    }
    // What loses more than is allowed is not offered.
    let bound = ["optimize", model, "--advise", "--max-quality-loss", "1%"];
    let bound = place.json(&[&bound, &asked[..]].concat());
    assert_eq!(bound["rows"][4]["verdict"], "not offered", "{bound}");
    assert_eq!(bound["rows"][1]["loss_percent"], rows[1]["loss_percent"]);
    assert!(
        rows[1]["verdict"]
            .as_str()
            .is_some_and(|said| said.starts_with("saves"))
    );
}

#[test]
fn a_recipe_names_the_layers_that_stay() {
    let place = Place::new();
    let ran = place.run(&[
        "optimize",
        "m",
        "--recipe",
        "awq",
        "--keep",
        "layers.0.mlp",
        "-o",
        "recipe.py",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let script = fs::read_to_string(place.path("recipe.py")).expect("a file");
    assert!(script.contains(r#"scheme="W4A16""#), "{script}");
    assert!(script.contains("vision_tower|"), "{script}");
    assert!(script.contains(r#""re:.*layers\\.0\\.mlp.*""#), "{script}");
}
