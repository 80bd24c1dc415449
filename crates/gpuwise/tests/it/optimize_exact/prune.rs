//! What stays of a narrower model, by hand.

use super::{BETWEEN, HIDDEN, LAYER, Tensors, model, read};
use crate::support::Place;
use serde_json::{Value, json};
use std::fs;

fn layer(name: &str) -> String {
    format!("{LAYER}{name}.weight")
}

/// Channels that are not of these become a hundredth; so does the first of two heads of values.
fn weak(tensors: &mut Tensors, strong: &[usize]) {
    let mut change = |name: &str, change: &dyn Fn(usize) -> bool| {
        let (_, values) = tensors.get_mut(&layer(name)).expect("a tensor");
        for (at, value) in values.iter_mut().enumerate() {
            if change(at) {
                *value /= 128.0;
            }
        }
    };
    change("mlp.up_proj", &|at| !strong.contains(&(at / HIDDEN)));
    change("self_attn.v_proj", &|at| at / HIDDEN < 16);
}

#[test]
fn the_strongest_stay_in_their_order_and_all_that_is_of_them() {
    let place = Place::new();
    // Of 96 a third is not a power of two: they stay by 32.
    let strong: Vec<usize> = (0..BETWEEN).filter(|at| at % 3 != 1).collect();
    let before = model(&place, "m", |tensors, _| weak(tensors, &strong));
    let ran = place.run(&[
        "optimize",
        "m",
        "--prune",
        "mlp=70%,kv-heads=1",
        "-o",
        "narrow",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("64 of 96 channels"), "{}", ran.out);
    let after = read(&place, "narrow/model.safetensors");
    let rows = |name: &str, kept: &[usize], wide: usize| -> Vec<f32> {
        let values = &before[&layer(name)].1;
        let each = kept.iter().map(|at| &values[at * wide..(at + 1) * wide]);
        each.flatten().copied().collect()
    };
    let columns = |name: &str, kept: &[usize], wide: usize| -> Vec<f32> {
        let values = before[&layer(name)].1.chunks_exact(wide);
        values
            .flat_map(|row| kept.iter().map(|at| row[*at]))
            .collect()
    };
    for name in ["mlp.gate_proj", "mlp.up_proj"] {
        assert_eq!(after[&layer(name)].0, [64, HIDDEN]);
        assert_eq!(after[&layer(name)].1, rows(name, &strong, HIDDEN), "{name}");
    }
    let down = "mlp.down_proj";
    assert_eq!(after[&layer(down)].0, [HIDDEN, 64]);
    assert_eq!(after[&layer(down)].1, columns(down, &strong, BETWEEN));
    // The second of two heads of 16, with the second two of four that read it.
    let (values, heads): (Vec<_>, Vec<_>) = ((16..32).collect(), (32..64).collect());
    for (name, kept) in [
        ("self_attn.q_proj", &heads),
        ("self_attn.k_proj", &values),
        ("self_attn.v_proj", &values),
    ] {
        assert_eq!(after[&layer(name)].1, rows(name, kept, HIDDEN), "{name}");
    }
    let output = "self_attn.o_proj";
    assert_eq!(after[&layer(output)].0, [HIDDEN, 32]);
    assert_eq!(after[&layer(output)].1, columns(output, &heads, HIDDEN));
    let config = fs::read_to_string(place.path("narrow/config.json")).expect("a file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    for (field, value) in [
        ("intermediate_size", 64),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
        ("head_dim", 16),
    ] {
        assert_eq!(config[field], value, "{field}");
    }
    let memory = place.run(&["memory", "narrow", "--gpu", "L4"]);
    assert_eq!(memory.code, 0, "{}", memory.err);
}

#[test]
fn what_cannot_become_narrower_says_why() {
    let place = Place::new();
    model(&place, "m", |_, _| {});
    model(&place, "qwen", |_, config| {
        config["architectures"] = json!(["Qwen2ForCausalLM"]);
    });
    model(&place, "odd", |_, config| {
        config["intermediate_size"] = json!(128);
    });
    model(&place, "three", |_, config| {
        config["hidden_size"] = json!(60);
        config["num_attention_heads"] = json!(12);
        config["num_key_value_heads"] = json!(3);
    });
    for (name, asked, said) in [
        ("m", "mlp=100%", "at least 32 and less than all"),
        ("m", "kv-heads=0", "0 of 2 would be left"),
        ("m", "layers=1", "layers is not known"),
        ("m", "mlp", "says not what is left"),
        ("qwen", "mlp=70%", "Qwen2ForCausalLM"),
        ("odd", "mlp=64", "not as config.json has it"),
        ("three", "kv-heads=2", "divides its hidden_size of 60"),
    ] {
        let ran = place.run(&["optimize", name, "--prune", asked, "-o", "narrow"]);
        assert_eq!(ran.code, 2, "{asked}: {}", ran.err);
        assert!(ran.err.contains(said), "{asked}: {}", ran.err);
        assert!(!place.path("narrow").exists());
    }
    let both = ["optimize", "m", "--prune", "mlp=70%", "--rotate", "-o", "n"];
    assert_eq!(place.run(&both).code, 2);
}

#[test]
fn the_recipe_names_both_models() {
    let place = Place::new();
    let ran = place.run(&[
        "optimize",
        "./a \"b\"",
        "--recipe",
        "distill",
        "--teacher",
        "./c",
        "-o",
        "distill.py",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let script = fs::read_to_string(place.path("distill.py")).expect("a file");
    assert!(
        script.contains(r#"TEACHER, STUDENT = "./c", "./a \"b\"""#),
        "{script}"
    );
    for flags in [
        &["--recipe", "distill"] as &[&str],
        &["--recipe", "gptq", "--teacher", "c"],
        &["--recipe", "distill", "--teacher", "c", "--to", "int4"],
    ] {
        let ran = place.run(&[&["optimize", "m"], flags].concat());
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.out);
    }
}
