//! A model by whatever the user has of it: the same shape from each.

use crate::support::{Place, config_text, elements, ggml_name, gguf, safetensors, tensors};
use serde_json::{Value, json};
use std::fs;

/// Parameters of a model, and bytes of its weights.
fn sizes(place: &Place, model: &[&str]) -> (u64, u64) {
    let value = place.json(
        &[
            &["memory"],
            model,
            &["--gpu", "L4", "--context", "1024", "--concurrency", "1"],
        ]
        .concat(),
    );
    let number = |name: &str| {
        value["model"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} in {value}"))
    };
    (number("parameters"), number("weight_bytes"))
}

fn all() -> u64 {
    elements(&tensors(0..2, true))
}

fn with_config() -> Place {
    let place = Place::new();
    place.write("tiny/config.json", config_text(|_| {}));
    place
}

#[test]
fn a_directory_or_its_configuration() {
    let place = with_config();
    for model in ["tiny", "tiny/", "./tiny", "tiny/config.json"] {
        assert_eq!(sizes(&place, &[model]), (all(), 2 * all()), "{model}");
    }
}

#[test]
fn headers_of_one_file_and_of_shards() {
    let place = with_config();
    safetensors(&place.path("tiny/model.safetensors"), &tensors(0..2, true));
    assert_eq!(sizes(&place, &["tiny"]), (all(), 2 * all()));
    assert_eq!(
        sizes(&place, &["tiny/model.safetensors"]),
        (all(), 2 * all())
    );
    fs::remove_file(place.path("tiny/model.safetensors")).expect("removed");

    let shards = [
        ("model-00001-of-00002.safetensors", tensors(0..1, true)),
        ("model-00002-of-00002.safetensors", tensors(1..2, false)),
    ];
    let mut map = serde_json::Map::new();
    for (file, tensors) in &shards {
        safetensors(&place.path(&format!("tiny/{file}")), tensors);
        map.extend(
            tensors
                .iter()
                .map(|(name, _)| (name.clone(), Value::from(*file))),
        );
    }
    let index = json!({"metadata": {"total_size": 2 * all()}, "weight_map": map});
    place.write("tiny/model.safetensors.index.json", index.to_string());
    for model in [
        "tiny",
        "tiny/model.safetensors.index.json",
        "tiny/model-00001-of-00002.safetensors",
    ] {
        assert_eq!(sizes(&place, &[model]), (all(), 2 * all()), "{model}");
    }

    // A download that was cut off: the configuration is enough, and that is said.
    fs::remove_file(place.path("tiny/model-00002-of-00002.safetensors")).expect("removed");
    assert_eq!(sizes(&place, &["tiny"]), (all(), 2 * all()));
    let ran = place.run(&["memory", "tiny", "--gpu", "L4"]);
    assert!(
        ran.out
            .contains("1 of 2 files of tensors are not on this machine"),
        "{}",
        ran.out
    );
    let ran = place.run(&["memory", "tiny/model.safetensors.index.json", "--gpu", "L4"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("model-00002-of-00002.safetensors, which is not there"),
        "{}",
        ran.err
    );
}

#[test]
fn only_headers_are_read_of_files_larger_than_any_disk() {
    let place = Place::new();
    let (hidden, width, layers) = (8192_u64, 28672_u64, 400_u64);
    place.write(
        "huge/config.json",
        config_text(|config| {
            for (field, value) in [
                ("hidden_size", hidden),
                ("intermediate_size", width),
                ("num_hidden_layers", layers),
                ("num_attention_heads", 64),
                ("num_key_value_heads", 8),
            ] {
                config.insert(field.into(), value.into());
            }
        }),
    );
    let mut described = Vec::new();
    for layer in 0..layers {
        for (name, shape) in [
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![1024, hidden]),
            ("self_attn.v_proj", vec![1024, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("mlp.gate_proj", vec![width, hidden]),
            ("mlp.up_proj", vec![width, hidden]),
            ("mlp.down_proj", vec![hidden, width]),
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
        ] {
            described.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    described.push(("model.embed_tokens.weight".into(), vec![1000, hidden]));
    described.push(("model.norm.weight".into(), vec![hidden]));
    described.push(("lm_head.weight".into(), vec![1000, hidden]));
    safetensors(&place.path("huge/model.safetensors"), &described);
    let all = elements(&described);
    assert!(2 * all > 600_000_000_000, "some 684 GB");
    assert_eq!(sizes(&place, &["huge"]), (all, 2 * all));
}

#[test]
fn gguf_whole_and_split() {
    let place = Place::new();
    let named = |tensors: Vec<(String, Vec<u64>)>| -> Vec<(String, Vec<u64>)> {
        tensors
            .into_iter()
            .map(|(name, shape)| (ggml_name(&name), shape))
            .collect()
    };
    let bytes = |tensors: &[(String, Vec<u64>)]| -> u64 {
        tensors
            .iter()
            .map(|(_, shape)| shape.iter().product::<u64>() * if shape.len() > 1 { 2 } else { 4 })
            .sum()
    };
    let whole = named(tensors(0..2, true));
    gguf(&place.path("tiny.gguf"), &whole, None);
    assert_eq!(sizes(&place, &["tiny.gguf"]), (all(), bytes(&whole)));

    fs::create_dir(place.path("split")).expect("a folder");
    let parts = [named(tensors(0..1, true)), named(tensors(1..2, false))];
    for (part, tensors) in (0_u16..).zip(&parts) {
        gguf(
            &place.path(&format!("split/tiny-{:05}-of-00002.gguf", part + 1)),
            tensors,
            Some((part, 2)),
        );
    }
    for model in [
        "split",
        "split/tiny-00001-of-00002.gguf",
        "split/tiny-00002-of-00002.gguf",
    ] {
        assert_eq!(sizes(&place, &[model]), (all(), bytes(&whole)), "{model}");
    }
    // llama.cpp serves it, where no other engine is asked for.
    let value = place.json(&["memory", "tiny.gguf", "--gpu", "L4"]);
    assert_eq!(value["devices"][0]["engine"], "llamacpp");
    fs::remove_file(place.path("split/tiny-00002-of-00002.gguf")).expect("removed");
    let ran = place.run(&["memory", "split", "--gpu", "L4"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("tiny-00002-of-00002.gguf is missing"),
        "{}",
        ran.err
    );
}

#[test]
fn an_id_in_the_local_hub_cache() {
    let place = Place::new();
    let folder = ".cache/huggingface/hub/models--acme--tiny-2";
    place.write(&format!("{folder}/refs/main"), "abc123");
    place.write(
        &format!("{folder}/snapshots/abc123/config.json"),
        config_text(|_| {}),
    );
    place.write(&format!("{folder}/snapshots/zzz999/config.json"), "{}");
    assert_eq!(sizes(&place, &["acme/tiny-2"]), (all(), 2 * all()));
    let value = place.json(&["memory", "acme/tiny-2", "--gpu", "L4"]);
    assert!(
        value["model"]["origin"]
            .as_str()
            .is_some_and(|origin| origin.starts_with("local hub cache")),
        "{value}"
    );

    // Elsewhere by HF_HOME.
    fs::rename(place.path(".cache/huggingface"), place.path("elsewhere")).expect("moved");
    assert_eq!(place.run(&["memory", "acme/tiny-2", "--gpu", "L4"]).code, 2);
    let mut command = place.command(&["memory", "acme/tiny-2", "--gpu", "L4"]);
    assert_eq!(
        crate::support::ran(command.env("HF_HOME", place.path("elsewhere"))).code,
        0
    );
    // Without its reference, the snapshot that is there.
    fs::remove_dir_all(place.path("elsewhere/hub/models--acme--tiny-2/refs")).expect("removed");
    fs::remove_dir_all(place.path("elsewhere/hub/models--acme--tiny-2/snapshots/zzz999"))
        .expect("removed");
    let mut command = place.command(&["memory", "acme/tiny-2", "--gpu", "L4"]);
    assert_eq!(
        crate::support::ran(command.env("HF_HUB_CACHE", place.path("elsewhere/hub"))).code,
        0
    );
}

#[test]
fn bare_numbers() {
    let place = Place::new();
    let shape = [
        "--layers",
        "2",
        "--hidden",
        "256",
        "--heads",
        "8",
        "--kv-heads",
        "2",
        "--intermediate",
        "512",
        "--vocab",
        "1000",
    ];
    assert_eq!(sizes(&place, &shape), (all(), 2 * all()));
    // What is assumed makes a model of the stated size, and is said.
    let (parameters, _) = sizes(&place, &["--params", "8e9", "--layers", "32"]);
    assert!(
        parameters.abs_diff(8_000_000_000) < 80_000_000,
        "{parameters}"
    );
    let ran = place.run(&[
        "memory", "--params", "8B", "--layers", "32", "--gpu", "H100",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("assumed of the model:"), "{}", ran.out);
}

#[test]
fn names_are_spelled_in_many_ways() {
    let place = Place::new();
    for name in [
        "meta-llama/Llama-3.1-8B",
        "llama-3.1-8b",
        "Llama 3.1 8B",
        "llama3.1-8b",
    ] {
        assert_eq!(
            sizes(&place, &[name]),
            (8_030_261_248, 16_060_522_496),
            "{name}"
        );
    }
}
