//! `gpuwise optimize --to 2:4`: with zeros, and with a bitmask.

use crate::{
    optimize::{checkpoint, header},
    support::Place,
};
use serde_json::{Value, json};
use std::fs;

const DOWN: &str = "model.layers.0.mlp.down_proj";

fn written(place: &Place, directory: &str, file: &str) -> Vec<u8> {
    fs::read(place.path(&format!("{directory}/{file}"))).expect("a file")
}

fn config(place: &Place, directory: &str) -> Value {
    serde_json::from_slice(&written(place, directory, "config.json")).expect("JSON")
}

/// The bytes of a tensor.
fn tensor(place: &Place, directory: &str, name: &str) -> Vec<u8> {
    let said = header(place, directory);
    let file = written(place, directory, "model.safetensors");
    let begin = 8 + u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let at = |end: usize| said[name]["data_offsets"][end].as_u64().expect(name) as usize;
    file[begin + at(0)..begin + at(1)].to_vec()
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    let each = bytes.chunks_exact(2);
    each.map(|two| f32::from_bits(u32::from(u16::from_le_bytes([two[0], two[1]])) << 16))
        .collect()
}

fn pruned(place: &Place, to: &str, flags: &[&str]) -> Value {
    let all = [&["optimize", "m", "--to", "2:4", "-o", to], flags].concat();
    place.json(&all)
}

#[test]
fn zeros_are_half_of_each_row_and_the_model_is_as_any() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let said = pruned(&place, "sparse", &["--report", "removed.csv"]);
    let name = format!("{DOWN}.weight");
    let (was, is) = (
        numbers(&tensor(&place, "m", &name)),
        numbers(&tensor(&place, "sparse", &name)),
    );
    let (mut removed, mut all) = (0.0, 0.0);
    for (was, is) in was.chunks(4).zip(is.chunks(4)) {
        let mut sizes: Vec<f64> = was.iter().map(|one| f64::from(*one).powi(2)).collect();
        assert_eq!(is.iter().filter(|one| **one == 0.0).count(), 2);
        sizes.sort_by(f64::total_cmp);
        removed += sizes[0] + sizes[1];
        all += sizes.iter().sum::<f64>();
    }
    let rows = said["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["layers"] == "down_proj");
    let share = row.expect("a row")["removed"].as_f64().expect("a number");
    assert!((share - removed / all).abs() < 1e-6, "{share} {removed}");
    let report = fs::read_to_string(place.path("removed.csv")).expect("a file");
    assert!(report.starts_with("tensor,elements,bytes_before,bytes_after,removed,kept"));
    // Nothing speaks of zeros, which engines would refuse.
    assert_eq!(config(&place, "sparse"), config(&place, "m"));
    let memory = |model: &str| place.json(&["memory", model, "--gpu", "L4"])["parts"].clone();
    assert_eq!(memory("sparse"), memory("m"));
    // Zeros stay zeros in other forms.
    let ran = place.run(&["optimize", "sparse", "--to", "fp8", "-o", "fp8"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let codes = tensor(&place, "fp8", &name);
    assert!(
        codes
            .chunks(4)
            .all(|four| four.iter().map(|code| u32::from(*code == 0)).sum::<u32>() >= 2)
    );
}

#[test]
fn a_bitmask_is_the_same_weights_in_fewer_bytes() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    pruned(&place, "dense", &[]);
    pruned(&place, "bits", &["--sparse-as", "bitmask"]);
    let said = &config(&place, "bits")["quantization_config"];
    assert_eq!(said["quant_method"], "compressed-tensors");
    assert_eq!(said["sparsity_config"]["format"], "sparse-24-bitmask");
    assert_eq!(said["sparsity_config"]["ignore"], json!(["lm_head"]));
    let header = header(&place, "bits");
    assert_eq!(
        header[format!("{DOWN}.compressed")]["shape"],
        json!([64, 64])
    );
    assert_eq!(header[format!("{DOWN}.bitmask")]["shape"], json!([64, 16]));
    assert_eq!(header[format!("{DOWN}.shape")]["shape"], json!([2, 1]));
    let ran = place.run(&["optimize", "bits", "--to", "bf16", "-o", "back"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(config(&place, "back"), config(&place, "dense"));
    for layer in [DOWN, "model.layers.0.self_attn.q_proj", "lm_head"] {
        let name = format!("{layer}.weight");
        assert_eq!(
            tensor(&place, "back", &name),
            tensor(&place, "dense", &name),
            "{name}"
        );
    }
    let again = place.run(&["optimize", "bits", "--to", "fp8", "-o", "x"]);
    assert!(again.err.contains("quantized already"), "{}", again.err);
}

#[test]
fn what_is_planned_of_a_bitmask_is_what_is_there() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    pruned(&place, "bits", &["--sparse-as", "bitmask"]);
    let old = place.run(&[
        "memory",
        "bits",
        "--gpu",
        "H100 SXM",
        "--engine",
        "vllm@0.18",
    ]);
    assert!(old.out.contains("2:4 weights"), "{} {}", old.out, old.err);
    // As many as there were: this model has few of the tensors of one.
    let count = |out: &str| {
        out.split("the header holds ")
            .nth(1)
            .map(|rest| rest[..6].to_owned())
    };
    let dense = place.run(&["memory", "m", "--gpu", "L4"]);
    assert_eq!(count(&old.out), count(&dense.out));
    assert!(count(&old.out).is_some(), "{}", old.out);
    let asked = [
        "--rate",
        "1",
        "--isl",
        "constant:16",
        "--osl",
        "constant:16",
        "--ttft",
        "p95:1s",
    ];
    let plan = |gpu: &str, engine: &str| {
        place.run(
            &[
                &["plan", "bits", "--gpu", gpu, "--engine", engine],
                &asked[..],
            ]
            .concat(),
        )
    };
    let old = plan("H100 SXM", "vllm@0.18");
    assert_eq!(old.code, 0, "{} {}", old.out, old.err);
    // Its kernels are gone.
    let new = plan("H100 SXM", "vllm@0.33");
    assert_eq!(new.code, 1, "{} {}", new.out, new.err);
    assert!(new.out.contains("weights:2:4"), "{}", new.out);
}

#[test]
fn what_is_not_sparse_in_this_way_is_refused() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let cases: [(&[&str], &str); 5] = [
        (
            &["m", "--to", "2:4", "--scales", "32"],
            "--scales with --to 2:4",
        ),
        (
            &["m", "--to", "2:4", "--asymmetric"],
            "--asymmetric with --to 2:4",
        ),
        (&["m", "--to", "2:4", "--kv", "fp8"], "--kv with --to 2:4"),
        (
            &["m", "--to", "fp8", "--sparse-as", "dense"],
            "--sparse-as with --to fp8",
        ),
        (
            &["m", "--to", "bf16", "--sparse-as", "dense"],
            "--sparse-as with --to bf16",
        ),
    ];
    for (arguments, said) in cases {
        let ran = place.run(&[&["optimize"], arguments, &["-o", "x"]].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.out);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
    }
    pruned(&place, "bits", &["--sparse-as", "bitmask"]);
    // One bit more than there are elements.
    let mut file = written(&place, "bits", "model.safetensors");
    let bits = tensor(&place, "bits", &format!("{DOWN}.bitmask"));
    let at = file.windows(bits.len()).position(|some| some == bits);
    file[at.expect("it is there")] = 0xff;
    place.write("bits/model.safetensors", file);
    let ran = place.run(&["optimize", "bits", "--to", "bf16", "-o", "x"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains(DOWN) && ran.err.contains("do not fit"),
        "{}",
        ran.err
    );
    // A form that is not known.
    let mut said = config(&place, "bits");
    said["quantization_config"]["sparsity_config"]["format"] = json!("sparse-bitmask");
    place.write("bits/config.json", said.to_string());
    for command in [
        &["optimize", "bits", "--to", "bf16", "-o", "x"][..],
        &["memory", "bits", "--gpu", "L4"],
    ] {
        let ran = place.run(command);
        assert_ne!(ran.code, 0, "{}", ran.out);
        assert!(ran.err.contains("sparse-bitmask"), "{}", ran.err);
    }
    assert!(!place.path("x").exists());
}
