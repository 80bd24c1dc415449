//! What is not merged, and not fused.

use super::{LAYER, Tensors, adapter, model, nothing};
use crate::support::Place;
use serde_json::{Value, json};

#[test]
fn what_has_no_equal_is_not_fused() {
    type Change = fn(&mut Tensors, &mut Value);
    let cases: [(Change, &str, &str); 6] = [
        (
            |_, config| config["architectures"] = json!(["Qwen3ForCausalLM"]),
            "qkv,gate-up",
            "Qwen3ForCausalLM",
        ),
        (
            |_, config| config["rope_scaling"] = json!({"rope_type": "llama3", "factor": 8.0}),
            "qkv,gate-up",
            "llama3",
        ),
        (
            |_, config| config["attention_bias"] = json!(true),
            "qkv,gate-up",
            "attention_bias",
        ),
        (
            |_, config| config["num_key_value_heads"] = json!(4),
            "qkv,gate-up",
            "k_proj",
        ),
        (
            |tensors, _| {
                tensors.insert(
                    format!("{LAYER}self_attn.q_norm.weight"),
                    (vec![16], vec![1.0; 16]),
                );
            },
            "qkv,gate-up",
            "q_norm",
        ),
        (|_, _| {}, "qkv", "expected --fuse qkv,gate-up"),
    ];
    for (change, fuse, said) in cases {
        let place = Place::new();
        model(&place, "m", change);
        let ran = place.run(&["optimize", "m", "--fuse", fuse, "-o", "x"]);
        assert_eq!(ran.code, 2, "{said}: {}", ran.out);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        assert!(
            !place.path("x").exists() && !place.path("x.partial").exists(),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_adapter_of_the_model_is_named() {
    type Change = fn(&mut Tensors, &mut Value);
    const A: &str = "model.layers.0.self_attn.q_proj.lora_A.weight";
    const B: &str = "model.layers.0.self_attn.q_proj.lora_B.weight";
    let cases: [(Change, &[&str]); 14] = [
        (
            |_, config| config["use_dora"] = json!(true),
            &["use_dora", "DoRA"],
        ),
        (
            |_, config| config["peft_type"] = json!("IA3"),
            &["adapter_config.json", "IA3"],
        ),
        (
            |_, config| config["sparkle_config"] = json!({"a": 1}),
            &["sparkle_config"],
        ),
        (
            |_, config| config["init_lora_weights"] = json!("pissa_niter_4"),
            &["pissa_niter_4"],
        ),
        (
            |_, config| config["r"] = json!(4),
            &["embed_tokens", "rank is 2"],
        ),
        (
            |_, config| config["rank_pattern"] = json!({"(": 3}),
            &["rank_pattern"],
        ),
        (
            |_, config| config["lora_alpha"] = json!("16"),
            &["lora_alpha"],
        ),
        (
            |_, config| config["modules_to_save"] = json!(["lm_head", "norm"]),
            &["modules_to_save", "norm"],
        ),
        (
            |tensors, _| drop(tensors.remove(B)),
            &["q_proj", "has A and no B"],
        ),
        (
            |tensors, _| {
                let one = tensors.remove(A).expect("A");
                tensors.insert(A.replace("q_proj", "x_proj"), one.clone());
                tensors.insert(B.replace("q_proj", "x_proj"), one);
            },
            &["q_proj", "has B and no A"],
        ),
        (
            |tensors, _| {
                for name in [A, B] {
                    let one = tensors[name].clone();
                    tensors.insert(name.replace(".0.", ".7."), one);
                }
            },
            &["model.layers.7.self_attn.q_proj.weight"],
        ),
        (
            |tensors, _| drop(tensors.insert(A.into(), (vec![2, 8], vec![0.0; 16]))),
            &["q_proj", "[2, 8]"],
        ),
        (
            |tensors, _| tensors.get_mut(B).expect("B").1[5] = f32::NAN,
            &["q_proj.lora_B", "element 5"],
        ),
        (
            |tensors, _| {
                drop(tensors.insert(
                    format!("{LAYER}self_attn.q_proj.lora_magnitude_vector"),
                    (vec![64], vec![1.0; 64]),
                ));
            },
            &["lora_magnitude_vector"],
        ),
    ];
    for (change, said) in cases {
        let place = Place::new();
        model(&place, "m", nothing);
        adapter(&place, change);
        for extra in [&[][..], &["--to", "fp8"]] {
            let ran =
                place.run(&[&["optimize", "m", "--lora", "adapter", "-o", "x"], extra].concat());
            assert_eq!(ran.code, 2, "{said:?}: {}", ran.out);
            for said in said {
                assert!(ran.err.contains(said), "{said}: {}", ran.err);
            }
            assert!(
                !place.path("x").exists() && !place.path("x.partial").exists(),
                "{said:?}"
            );
        }
    }
}

#[test]
fn a_sum_that_is_too_large_and_a_head_that_is_shared_are_refused() {
    let place = Place::new();
    adapter(&place, |_, config| config["lora_alpha"] = json!(1e39));
    model(&place, "m", nothing);
    let ran = place.run(&["optimize", "m", "--lora", "adapter", "-o", "x"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("is NaN or infinite once the adapter"),
        "{}",
        ran.err
    );
    adapter(&place, nothing);
    model(&place, "tied", |_, config| {
        config["tie_word_embeddings"] = json!(true);
    });
    let ran = place.run(&["optimize", "tied", "--lora", "adapter", "-o", "y"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("one matrix for head and embeddings"),
        "{}",
        ran.err
    );
}
