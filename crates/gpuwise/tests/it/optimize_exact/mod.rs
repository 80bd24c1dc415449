//! `gpuwise optimize --lora`, `--prune`, `--rotate` and `--fuse`: sums by hand, of numbers that F32 holds exactly.
#![allow(clippy::float_cmp, reason = "sums of small multiples of 1/8 are exact")]

mod bad;
mod prune;
mod rotate;

use crate::support::Place;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

const HIDDEN: usize = 64;
const BETWEEN: usize = 96;
const TOKENS: usize = 40;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Multiples of 1/8 from -2 to 2 with no short period.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) % 33) as f32 / 8.0 - 2.0
    };
    (0..count).map(next).collect()
}

fn made(shapes: &[(&str, &[usize])], seed: u32) -> Tensors {
    let each = shapes.iter().zip(seed..);
    each.map(|((name, shape), seed)| {
        let values = numbers(shape.iter().product(), seed * 7919);
        ((*name).to_owned(), (shape.to_vec(), values))
    })
    .collect()
}

fn write(place: &Place, file: &str, tensors: &Tensors) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (shape, values)) in tensors {
        let begin = data.len();
        data.extend(values.iter().flat_map(|one| one.to_le_bytes()));
        let said = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert(name.clone(), said);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.extend(header);
    all.extend(data);
    place.write(file, all);
}

fn read(place: &Place, file: &str) -> Tensors {
    let all = fs::read(place.path(file)).expect("a file");
    let length = u64::from_le_bytes(all[..8].try_into().expect("eight bytes")) as usize;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(&all[8..8 + length]).expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, said)| {
            assert_eq!(said["dtype"], "F32", "{name}");
            let [begin, end] = [0, 1].map(|at| 8 + length + number(&said["data_offsets"][at]));
            let fours = all[begin..end].chunks_exact(4);
            let values = fours.map(|four| f32::from_le_bytes(four.try_into().expect("four")));
            let shape = said["shape"].as_array().expect("a shape");
            let shape = shape.iter().map(number).collect();
            (name.clone(), (shape, values.collect()))
        })
        .collect()
}

const LAYER: &str = "model.layers.0.";

/// A Llama of one layer.
fn model(place: &Place, name: &str, change: impl Fn(&mut Tensors, &mut Value)) -> Tensors {
    let mut tensors = made(
        &[
            ("model.embed_tokens.weight", &[TOKENS, HIDDEN]),
            ("model.layers.0.self_attn.q_proj.weight", &[HIDDEN, HIDDEN]),
            ("model.layers.0.self_attn.k_proj.weight", &[32, HIDDEN]),
            ("model.layers.0.self_attn.v_proj.weight", &[32, HIDDEN]),
            ("model.layers.0.self_attn.o_proj.weight", &[HIDDEN, HIDDEN]),
            ("model.layers.0.mlp.gate_proj.weight", &[BETWEEN, HIDDEN]),
            ("model.layers.0.mlp.up_proj.weight", &[BETWEEN, HIDDEN]),
            ("model.layers.0.mlp.down_proj.weight", &[HIDDEN, BETWEEN]),
            ("model.layers.0.input_layernorm.weight", &[HIDDEN]),
            ("model.layers.0.post_attention_layernorm.weight", &[HIDDEN]),
            ("model.norm.weight", &[HIDDEN]),
            ("lm_head.weight", &[TOKENS, HIDDEN]),
        ],
        1,
    );
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": BETWEEN, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": TOKENS, "max_position_embeddings": 128,
        "torch_dtype": "float32", "tie_word_embeddings": false,
    });
    change(&mut tensors, &mut config);
    write(place, &format!("{name}/model.safetensors"), &tensors);
    place.write(&format!("{name}/config.json"), config.to_string());
    tensors
}

/// An adapter of three layers of rank 2, one of them of rank 3, and a head that was trained as a whole.
fn adapter(place: &Place, change: impl Fn(&mut Tensors, &mut Value)) -> Tensors {
    let mut tensors = made(
        &[
            (
                "model.layers.0.self_attn.q_proj.lora_A.weight",
                &[2, HIDDEN],
            ),
            (
                "model.layers.0.self_attn.q_proj.lora_B.weight",
                &[HIDDEN, 2],
            ),
            ("model.layers.0.mlp.down_proj.lora_A.weight", &[3, BETWEEN]),
            ("model.layers.0.mlp.down_proj.lora_B.weight", &[HIDDEN, 3]),
            ("model.embed_tokens.lora_embedding_A", &[2, TOKENS]),
            ("model.embed_tokens.lora_embedding_B", &[HIDDEN, 2]),
            ("lm_head.weight", &[TOKENS, HIDDEN]),
        ],
        50,
    );
    let mut config = json!({
        "peft_type": "LORA", "r": 2, "lora_alpha": 4, "rank_pattern": {r"\d\.mlp\.down_proj": 3},
        "alpha_pattern": {"down_proj": 1.5}, "modules_to_save": ["lm_head"],
        "target_modules": ["q_proj", "down_proj", "embed_tokens"], "use_dora": false, "bias": "none",
    });
    change(&mut tensors, &mut config);
    let named: Tensors = tensors
        .iter()
        .map(|(name, tensor)| (format!("base_model.model.{name}"), tensor.clone()))
        .collect();
    write(place, "adapter/adapter_model.safetensors", &named);
    place.write("adapter/adapter_config.json", config.to_string());
    tensors
}

fn nothing(_: &mut Tensors, _: &mut Value) {}

#[test]
fn an_adapter_is_added_where_it_belongs() {
    let place = Place::new();
    let (before, adapter) = (model(&place, "m", nothing), adapter(&place, nothing));
    let ran = place.run(&["optimize", "m", "--lora", "adapter", "-o", "merged"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let after = read(&place, "merged/model.safetensors");
    assert_eq!(after.len(), before.len());
    for (name, (shape, values)) in &after {
        let was = &before[name].1;
        let columns = shape.last().copied().unwrap_or(1);
        // By layer: scale and rank, and B · A at a row and a column.
        let of = |name: &str| &adapter[name].1;
        let product = |row: usize, column: usize| -> f32 {
            let (scale, rank, part): (f32, usize, Box<dyn Fn(usize) -> f32>) = match name.as_str() {
                "model.layers.0.self_attn.q_proj.weight" => {
                    let [a, b] = ["A", "B"]
                        .map(|half| of(&format!("{LAYER}self_attn.q_proj.lora_{half}.weight")));
                    (
                        2.0,
                        2,
                        Box::new(move |k| b[row * 2 + k] * a[k * HIDDEN + column]),
                    )
                }
                "model.layers.0.mlp.down_proj.weight" => {
                    let [a, b] = ["A", "B"]
                        .map(|half| of(&format!("{LAYER}mlp.down_proj.lora_{half}.weight")));
                    (
                        0.5,
                        3,
                        Box::new(move |k| b[row * 3 + k] * a[k * BETWEEN + column]),
                    )
                }
                "model.embed_tokens.weight" => {
                    let [a, b] = ["A", "B"]
                        .map(|half| of(&format!("model.embed_tokens.lora_embedding_{half}")));
                    (
                        2.0,
                        2,
                        Box::new(move |k| b[column * 2 + k] * a[k * TOKENS + row]),
                    )
                }
                _ => return 0.0,
            };
            scale * (0..rank).map(part).sum::<f32>()
        };
        for (at, value) in values.iter().enumerate() {
            let was = if name == "lm_head.weight" {
                adapter[name].1[at]
            } else {
                was[at]
            };
            assert_eq!(
                *value,
                was + product(at / columns, at % columns),
                "{name} {at}"
            );
        }
    }
}

#[test]
fn in_one_pass_and_in_two_the_same_comes_out() {
    let place = Place::new();
    model(&place, "m", nothing);
    adapter(&place, nothing);
    let run = |arguments: &[&str]| {
        let ran = place.run(&[&["optimize"], arguments].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    };
    run(&["m", "--lora", "adapter", "-o", "merged"]);
    run(&["merged", "--fuse", "gate-up,qkv", "-o", "fused"]);
    for form in ["fp8", "nvfp4", "int4"] {
        let [one, two] = ["one", "two"].map(|name| format!("{form}-{name}"));
        let scales: &[&str] = if form == "int4" {
            &["--scales", "32"]
        } else {
            &[]
        };
        run(&[&["fused", "--to", form, "-o", &two], scales].concat());
        let all = [
            "m",
            "--lora",
            "adapter",
            "--fuse",
            "qkv,gate-up",
            "--to",
            form,
            "-o",
            &one,
        ];
        run(&[&all, scales].concat());
        for file in ["model.safetensors", "config.json"] {
            let [one, two] = [&one, &two]
                .map(|at| fs::read(place.path(&format!("{at}/{file}"))).expect("a file"));
            assert_eq!(one, two, "{form} {file}");
        }
    }
}

#[test]
fn fused_matrices_lie_below_one_another() {
    let place = Place::new();
    let before = model(&place, "m", nothing);
    let ran = place.run(&["optimize", "m", "--fuse", "qkv,gate-up", "-o", "fused"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let after = read(&place, "fused/model.safetensors");
    let of = |names: &[&str]| -> Vec<f32> {
        let each = names
            .iter()
            .map(|name| before[&format!("{LAYER}{name}.weight")].1.clone());
        each.flatten().collect()
    };
    let qkv = &after[&format!("{LAYER}self_attn.qkv_proj.weight")];
    assert_eq!(qkv.0, [HIDDEN + 64, HIDDEN]);
    assert_eq!(
        qkv.1,
        of(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"])
    );
    let gate_up = &after[&format!("{LAYER}mlp.gate_up_proj.weight")];
    assert_eq!(gate_up.1, of(&["mlp.gate_proj", "mlp.up_proj"]));
    assert_eq!(after.len(), before.len() - 3);
    let config = fs::read_to_string(place.path("fused/config.json")).expect("a file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["architectures"][0], "Phi3ForCausalLM");
    // Llama's default, where Phi-3 has another.
    assert_eq!(config["rms_norm_eps"], 1e-6);
    let memory = place.run(&["memory", "fused", "--gpu", "L4"]);
    assert_eq!(memory.code, 0, "{}", memory.err);
}
