//! What reads the residual stream and what writes it turn together: products of both are what they were.

use super::{BETWEEN, HIDDEN, LAYER, TOKENS, Tensors, model, nothing, read, write};
use crate::support::Place;
use serde_json::{Value, json};
use std::fs;

fn layer(name: &str) -> String {
    format!("{LAYER}{name}.weight")
}

/// A · diag(gains) · Bᵀ, of rows as long as `gains`, in 64 bits.
fn product(a: &[f32], gains: &[f32], b: &[f32]) -> Vec<f64> {
    let rows = |of: &'static str, all: &[f32]| -> Vec<Vec<f64>> {
        assert_eq!(all.len() % gains.len(), 0, "{of}");
        let rows = all.chunks_exact(gains.len());
        rows.map(|row| row.iter().map(|one| f64::from(*one)).collect())
            .collect()
    };
    let (a, b) = (rows("a", a), rows("b", b));
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        let each = a.iter().zip(b).zip(gains);
        each.map(|((a, b), gain)| a * b * f64::from(*gain)).sum()
    };
    a.iter()
        .flat_map(|a| b.iter().map(|b| dot(a, b)).collect::<Vec<_>>())
        .collect()
}

fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    places.map(|at| values[at]).collect()
}

fn equal(what: &str, before: &[f64], after: &[f64]) {
    assert_eq!(before.len(), after.len(), "{what}");
    let largest = before.iter().fold(0.0_f64, |most, one| most.max(one.abs()));
    for (before, after) in before.iter().zip(after) {
        assert!(
            (before - after).abs() < 1e-5 * largest,
            "{what}: {before} became {after}"
        );
    }
}

fn computes_the_same(before: &Tensors, after: &Tensors, head: &str) {
    let ones = vec![1.0; HIDDEN];
    let was = |name: &str| &before[name].1;
    let now = |name: &str| &after[name].1;
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        assert!(now(&layer(norm)).iter().all(|one| *one == 1.0));
    }
    assert!(now("model.norm.weight").iter().all(|one| *one == 1.0));
    // What writes the stream: embeddings, and each output's columns.
    let wide = |name: &str, columns: usize, of: &Tensors| transposed(&of[name].1, columns);
    let embedding = "model.embed_tokens.weight";
    let reads = [
        (layer("self_attn.q_proj"), layer("input_layernorm")),
        (layer("self_attn.k_proj"), layer("input_layernorm")),
        (layer("mlp.gate_proj"), layer("post_attention_layernorm")),
        (layer("mlp.up_proj"), layer("post_attention_layernorm")),
        ("lm_head.weight".to_owned(), "model.norm.weight".to_owned()),
    ];
    let down = layer("mlp.down_proj");
    for (name, norm) in &reads {
        let source = if name == "lm_head.weight" { head } else { name };
        equal(
            name,
            &product(was(embedding), was(norm), was(source)),
            &product(now(embedding), &ones, now(name)),
        );
        equal(
            name,
            &product(&wide(&down, BETWEEN, before), was(norm), was(source)),
            &product(&wide(&down, BETWEEN, after), &ones, now(name)),
        );
    }
    // Values of each head of two, weighed, through their two heads of the output, of four in all; 16 wide.
    let (values, output) = (layer("self_attn.v_proj"), layer("self_attn.o_proj"));
    let through = |of: &Tensors, gains: &[f32], embedding: &[f32], group: usize, at: usize| {
        let values = &of[&values].1[group * 16 * HIDDEN..(group + 1) * 16 * HIDDEN];
        let answers = product(embedding, gains, values);
        let answers: Vec<f32> = answers.iter().map(|one| *one as f32).collect();
        let rows = of[&output].1.chunks_exact(HIDDEN);
        let part: Vec<f32> = rows
            .flat_map(|row| row[at * 16..(at + 1) * 16].to_vec())
            .collect();
        // Read again by queries, so that the stream's basis does not show.
        let written = product(&answers, &[1.0; 16], &part);
        written.iter().map(|one| *one as f32).collect::<Vec<f32>>()
    };
    for (group, at) in [(0, 0), (0, 1), (1, 2), (1, 3)] {
        let gains = was(&layer("input_layernorm"));
        let first = through(before, gains, was(embedding), group, at);
        let second = through(after, &ones, now(embedding), group, at);
        let query = layer("self_attn.q_proj");
        equal(
            &format!("head {at}"),
            &product(&first, gains, was(&query)),
            &product(&second, &ones, now(&query)),
        );
    }
}

#[test]
fn a_rotated_model_computes_the_same() {
    let place = Place::new();
    let before = model(&place, "m", nothing);
    let ran = place.run(&["optimize", "m", "--rotate", "-o", "rotated"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let after = read(&place, "rotated/model.safetensors");
    assert_eq!(after.len(), before.len());
    computes_the_same(&before, &after, "lm_head.weight");
    assert_ne!(before[&layer("mlp.up_proj")], after[&layer("mlp.up_proj")]);
}

#[test]
fn a_head_that_was_the_embeddings_gets_a_tensor_of_its_own() {
    let place = Place::new();
    let before = model(&place, "m", |tensors, config| {
        tensors.remove("lm_head.weight");
        config["tie_word_embeddings"] = json!(true);
    });
    let ran = place.run(&["optimize", "m", "--rotate", "-o", "rotated"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let after = read(&place, "rotated/model.safetensors");
    assert_eq!(after["lm_head.weight"].0, [TOKENS, HIDDEN]);
    computes_the_same(&before, &after, "model.embed_tokens.weight");
    let config = fs::read_to_string(place.path("rotated/config.json")).expect("a file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["tie_word_embeddings"], false);
    assert!(ran.out.contains("the head"), "{}", ran.out);
}

/// In one pass and in two the same comes out, with the matrices one below the other too.
#[test]
fn rotated_and_then_smaller_is_both_at_once() {
    let place = Place::new();
    model(&place, "m", nothing);
    let run = |arguments: &[&str]| {
        let ran = place.run(&[&["optimize"], arguments].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    };
    run(&["m", "--rotate", "-o", "rotated"]);
    run(&["rotated", "--fuse", "qkv,gate-up", "-o", "fused"]);
    for (form, fuse, source) in [("nvfp4", false, "rotated"), ("int8", true, "fused")] {
        let [one, two] = ["one", "two"].map(|name| format!("{form}-{name}"));
        run(&[source, "--to", form, "-o", &two]);
        let mut all = vec!["m", "--rotate", "--to", form, "-o", &one];
        if fuse {
            all.extend(["--fuse", "qkv,gate-up"]);
        }
        run(&all);
        for file in ["model.safetensors", "config.json"] {
            let [one, two] = [&one, &two]
                .map(|at| fs::read(place.path(&format!("{at}/{file}"))).expect("a file"));
            assert_eq!(one, two, "{form} {file}");
        }
    }
}

#[test]
fn what_is_not_known_to_compute_the_same_is_refused() {
    for (change, said) in [
        (
            Box::new(|_: &mut Tensors, config: &mut Value| {
                config["architectures"] = json!(["Gemma2ForCausalLM"]);
            }) as Box<dyn Fn(&mut Tensors, &mut Value)>,
            "Gemma2ForCausalLM",
        ),
        (
            Box::new(|tensors: &mut Tensors, _: &mut Value| {
                let norm = tensors[&layer("input_layernorm")].clone();
                tensors.insert(layer("pre_feedforward_layernorm"), norm);
            }),
            "pre_feedforward_layernorm",
        ),
        (
            Box::new(|_: &mut Tensors, config: &mut Value| config["head_dim"] = json!(24)),
            "heads of 24",
        ),
        (
            Box::new(|tensors: &mut Tensors, _: &mut Value| {
                tensors.remove("model.norm.weight");
            }),
            "model.norm.weight",
        ),
        (
            Box::new(|tensors: &mut Tensors, _: &mut Value| {
                if let Some(tensor) = tensors.get_mut(&layer("mlp.down_proj")) {
                    tensor.1[3 * BETWEEN + 7] = f32::NAN;
                }
            }),
            "row 3, column 7 is NaN",
        ),
    ] {
        let place = Place::new();
        let tensors = model(&place, "m", change);
        write(&place, "m/model.safetensors", &tensors);
        let ran = place.run(&["optimize", "m", "--rotate", "-o", "rotated"]);
        assert_eq!(ran.code, 2, "{said}: {}", ran.err);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        assert!(!place.path("rotated").exists());
    }
}
