//! `gpuwise optimize` over checkpoints that are broken on purpose: an error that says where, or a directory that can be
//! read again; never a panic, and nothing left of what failed.

use crate::{optimize::checkpoint, support::Place};
use serde_json::{Value, json};
use std::fs;

/// Numbers that repeat with no short period.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn of<T: Clone>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())].clone()
    }
}

fn split(file: &[u8]) -> (Value, &[u8]) {
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let header = serde_json::from_slice(&file[8..8 + length]).expect("JSON");
    (header, &file[8 + length..])
}

fn joined(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes(), &header[..], data].concat()
}

/// Something that is wrong with the header of a file.
fn wrong_header(random: &mut Random, file: &[u8]) -> Vec<u8> {
    let (mut header, data) = split(file);
    let names: Vec<String> = header
        .as_object()
        .expect("tensors")
        .keys()
        .cloned()
        .collect();
    let name = random.of(&names);
    let huge = u64::MAX;
    let (field, value) = random.of(&[
        ("dtype", json!("BF17")),
        ("dtype", json!(16)),
        ("dtype", json!("F8_E4M3")),
        ("dtype", json!("F64")),
        ("shape", json!([])),
        ("shape", json!([0, 64])),
        ("shape", json!([huge, huge])),
        ("shape", json!([-1, 64])),
        ("shape", json!([1_u64 << 40, 1_u64 << 40])),
        ("shape", json!([64.5, 64])),
        ("shape", json!("64x64")),
        ("data_offsets", json!([0, 1])),
        ("data_offsets", json!([8, 0])),
        ("data_offsets", json!([huge - 1, huge])),
        ("data_offsets", json!([0])),
        ("data_offsets", json!(null)),
    ]);
    match random.below(4) {
        0 => {
            header.as_object_mut().expect("tensors").remove(&name);
        }
        1 => header[&name] = json!([name]),
        _ => header[&name][field] = value,
    }
    joined(&header, data)
}

/// Bytes that are wrong somewhere.
fn wrong_bytes(random: &mut Random, file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let header = bytes.len().min(700);
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let length = random.of(&[0, 1, 7, u64::MAX, 1 << 62, 100_000_001]);
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(header);
                bytes[at] = random.below(256) as u8;
            }
        }
    }
    bytes
}

fn wrong_index(random: &mut Random) -> Value {
    let file = random.of(&[
        json!("../m/model.safetensors"),
        json!("/etc/hostname"),
        json!("model-00002-of-00002.safetensors"),
        json!(""),
        json!(3),
    ]);
    random.of(&[
        json!({"weight_map": {"lm_head.weight": file}}),
        json!({"weight_map": [file]}),
        json!({"metadata": {}}),
        json!([]),
    ])
}

fn wrong_config(random: &mut Random) -> String {
    random.of(&[
        String::new(),
        "[]".into(),
        "{".into(),
        "null".into(),
        json!({"quantization_config": {"quant_method": "gptq"}}).to_string(),
        json!({"quantization_config": 3}).to_string(),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
    ])
}

#[test]
fn what_is_broken_is_told_and_nothing_is_left_of_it() {
    let place = Place::new();
    checkpoint(&place, "m", |_, _| {});
    let whole = fs::read(place.path("m/model.safetensors")).expect("a file");
    let config = fs::read_to_string(place.path("m/config.json")).expect("a file");
    let mut random = Random(20);
    let mut told = 0;
    for round in 0..96 {
        let model = format!("broken-{round}");
        let mut file = whole.clone();
        let mut said = config.clone();
        match random.below(6) {
            0 | 1 => file = wrong_header(&mut random, &whole),
            2 | 3 => file = wrong_bytes(&mut random, &whole),
            4 => {
                let index = wrong_index(&mut random).to_string();
                place.write(&format!("{model}/model.safetensors.index.json"), index);
            }
            _ => said = wrong_config(&mut random),
        }
        place.write(&format!("{model}/model.safetensors"), &file);
        place.write(&format!("{model}/config.json"), &said);
        let form = random.of(&["fp8", "int8", "int4", "nvfp4"]);
        let scales: &[&str] = if form == "int4" {
            &["--scales", "32"]
        } else {
            &[]
        };
        let out = format!("out-{round}");
        let ran = place.run(&[&["optimize", &model, "--to", form, "-o", &out], scales].concat());
        match ran.code {
            0 => {
                let back = format!("back-{round}");
                let again = place.run(&["optimize", &out, "--to", "f32", "-o", &back]);
                assert_eq!(again.code, 0, "{round}: {}", again.err);
            }
            2 => {
                told += 1;
                assert!(ran.err.starts_with("error: "), "{round}: {}", ran.err);
                assert!(!ran.err.contains("panicked"), "{round}: {}", ran.err);
                assert!(!place.path(&out).exists(), "{round}");
            }
            other => panic!("{round}: exit code {other}: {}", ran.err),
        }
    }
    assert!(told > 48, "{told}");
}
