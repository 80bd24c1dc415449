//! `gpuwise optimize` of models with layers that a form, or its loaders, do not take: refused or said, never passed over.

use crate::{
    optimize::{bf16, header},
    support::Place,
};
use serde_json::{Value, json};
use std::fs;

/// A checkpoint `m` of tensors with these shapes.
pub(crate) fn model(
    place: &Place,
    architecture: &str,
    model_type: &str,
    tensors: &[(&str, &[usize])],
) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, (tensor, shape)) in (1..).zip(tensors) {
        let begin = data.len();
        data.extend(bf16(shape.iter().product(), seed));
        let said = json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*tensor).into(), said);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    place.write("m/model.safetensors", file);
    let config = json!({"architectures": [architecture], "model_type": model_type});
    place.write("m/config.json", config.to_string());
}

fn ignored(place: &Place, directory: &str) -> Vec<String> {
    let text = fs::read_to_string(place.path(&format!("{directory}/config.json"))).expect("a file");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    let list = config["quantization_config"]["ignore"].as_array();
    let each = list.expect("a list").iter();
    each.map(|one| one.as_str().expect("a name").to_owned())
        .collect()
}

fn is_smaller(place: &Place, directory: &str, layer: &str) -> bool {
    let header = header(place, directory);
    let scale = format!("{layer}.weight_scale");
    header.as_object().expect("tensors").contains_key(&scale)
}

/// Runs `optimize m -o OUT` with flags; its lines are put together, as they are broken where they end.
fn optimize(place: &Place, out: &str, flags: &[&str]) -> (i32, String) {
    let ran = place.run(&[&["optimize", "m", "-o", out], flags].concat());
    assert_eq!(ran.code == 0, place.path(out).exists(), "{}", ran.err);
    let said = format!("{}{}", ran.out, ran.err);
    let words: Vec<_> = said.split_whitespace().collect();
    (ran.code, words.join(" "))
}

fn holds(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn layers_that_are_stored_transposed_are_refused_by_name() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 4] = [
        ("h.0.attn.c_proj.weight", &[64, 64]),
        ("h.0.attn.c_proj.bias", &[64]),
        ("h.0.attn.c_attn.weight", &[64, 192]),
        ("h.0.attn.c_attn.bias", &[192]),
    ];
    model(&place, "GPT2LMHeadModel", "gpt2", &layers);
    for form in ["fp8", "int8", "int4", "nvfp4", "2:4"] {
        let (code, said) = optimize(&place, "x", &["--to", form]);
        assert_eq!(code, 2, "{form}");
        holds(&said, &["`h.0.attn.c_attn.weight`", "Conv1D", "--gguf"]);
    }
}

#[test]
fn towers_stay_under_each_name_unless_they_are_asked_for() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 4] = [
        (
            "language_model.model.layers.0.mlp.up_proj.weight",
            &[256, 128],
        ),
        (
            "language_model.model.layers.0.mlp.down_proj.weight",
            &[128, 256],
        ),
        ("vision_tower.encoder.layers.0.mlp.fc1.weight", &[128, 128]),
        ("multi_modal_projector.linear.weight", &[128, 128]),
    ];
    model(&place, "Gemma3ForConditionalGeneration", "gemma3", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "int4", "--keep", "down_proj"]);
    assert_eq!(code, 0, "{said}");
    holds(
        &said,
        &["towers of images and sound, projectors (vision_tower"],
    );
    assert_eq!(
        ignored(&place, "x"),
        [
            "lm_head",
            r"re:(.*\.)?lm_head$",
            r"re:(.*\.)?multi_modal_projector(\..*)?$",
            r"re:(.*\.)?vision_tower(\..*)?$",
            r"re:.*language_model\.(model\.)?layers\.0\.mlp\.down_proj$",
        ]
    );
    let tower = "vision_tower.encoder.layers.0.mlp.fc1";
    assert!(!is_smaller(&place, "x", tower));
    let (code, said) = optimize(&place, "y", &["--to", "fp8", "--towers"]);
    assert_eq!(code, 0, "{said}");
    assert!(is_smaller(&place, "y", tower));
    // A model that is a tower and nothing else is no tower of another.
    model(
        &place,
        "SiglipVisionModel",
        "siglip_vision_model",
        &layers[2..3],
    );
    let (code, said) = optimize(&place, "z", &["--to", "fp8"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn experts_in_one_tensor_are_told_with_their_share_and_not_passed_over() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 3] = [
        ("model.layers.0.self_attn.q_proj.weight", &[128, 128]),
        ("model.layers.0.mlp.experts.gate_up_proj", &[4, 64, 128]),
        ("model.layers.0.mlp.experts.down_proj_bias", &[32, 64]),
    ];
    model(&place, "GptOssForCausalLM", "gpt_oss", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "fp8"]);
    assert_eq!(code, 2, "{said}");
    // 34,816 of 51,200 elements stay.
    let parts = [
        "68 % of the bytes would stay",
        "32 % become fp8",
        "several matrices in one tensor (`model.layers.0.mlp.experts.gate_up_proj`",
        "--keep gate_up_proj",
    ];
    holds(&said, &parts);
    let (code, said) = optimize(&place, "x", &["--to", "fp8", "--keep", "gate_up_proj"]);
    assert_eq!(code, 0, "{said}");
    // Fewer of them are said.
    let layers: [(&str, &[usize]); 2] = [layers[0], (layers[1].0, &[2, 64, 64])];
    model(&place, "GptOssForCausalLM", "gpt_oss", &layers);
    let (code, said) = optimize(&place, "y", &["--to", "fp8"]);
    assert_eq!(code, 0, "{said}");
    holds(
        &said,
        &["unasked: 33 % of the bytes, several matrices in one tensor"],
    );
}

#[test]
fn blocks_that_loaders_do_not_take_are_left() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 6] = [
        ("model.layers.0.self_attn.q_proj.weight", &[256, 256]),
        ("model.layers.0.self_attn.k_proj.weight", &[64, 256]),
        ("model.layers.0.self_attn.v_proj.weight", &[64, 256]),
        // Alone in its matrix: its last block may be cut.
        ("model.layers.0.self_attn.o_proj.weight", &[192, 256]),
        ("model.layers.0.mlp.up_proj.weight", &[768, 256]),
        ("model.layers.0.mlp.down_proj.weight", &[256, 320]),
    ];
    model(&place, "LlamaForCausalLM", "llama", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "fp8", "--scales", "block"]);
    assert_eq!(code, 0, "{said}");
    let parts = [
        "its rows have 320 elements, which do not divide into blocks of 128 (model.layers.0.mlp.down_proj",
        "it has 64 rows, which do not divide into blocks of 128",
    ];
    holds(&said, &parts);
    let smaller = ["self_attn.o_proj", "mlp.up_proj"];
    for (layer, _) in layers {
        let layer = layer.trim_end_matches(".weight");
        let expected = smaller.iter().any(|end| layer.ends_with(end));
        assert_eq!(is_smaller(&place, "x", layer), expected, "{layer}");
    }
    // Where most are such, it is refused.
    let layers: [(&str, &[usize]); 2] = [
        ("model.layers.0.mlp.up_proj.weight", &[512, 192]),
        ("model.layers.0.self_attn.o_proj.weight", &[128, 128]),
    ];
    model(&place, "LlamaForCausalLM", "llama", &layers);
    let (code, said) = optimize(&place, "y", &["--to", "fp8", "--scales", "block"]);
    assert_eq!(code, 2, "{said}");
    holds(&said, &["86 % of the bytes would stay", "--scales channel"]);
}

#[test]
fn groups_are_those_with_the_fewest_bytes() {
    let place = Place::new();
    // As SmolLM2: 576 is nine times 64.
    let layers: [(&str, &[usize]); 2] = [
        ("model.layers.0.mlp.up_proj.weight", &[512, 576]),
        ("model.layers.0.mlp.down_proj.weight", &[576, 512]),
    ];
    model(&place, "LlamaForCausalLM", "llama", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "int4"]);
    assert_eq!(code, 0, "{said}");
    holds(
        &said,
        &[
            "groups of 64, with which 306 KiB are written",
            "groups of 128",
        ],
    );
    assert!(is_smaller(&place, "x", "model.layers.0.mlp.up_proj"));
    // One that is asked for stays.
    let (code, said) = optimize(&place, "y", &["--to", "int4", "--scales", "128"]);
    assert_eq!(code, 0, "{said}");
    assert!(!is_smaller(&place, "y", "model.layers.0.mlp.up_proj"));
    holds(
        &said,
        &["which do not divide into groups of 128 (model.layers.0.mlp.up_proj"],
    );
}

#[test]
fn what_nothing_opens_is_refused_and_what_is_unknown_is_said() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 1] = [(
        "model.layers.0.block_sparse_moe.experts.0.w1.weight",
        &[128, 128],
    )];
    model(&place, "MixtralForCausalLM", "mixtral", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "nvfp4"]);
    assert_eq!(code, 2, "{said}");
    let parts = [
        "MixtralForCausalLM in nvfp4 is opened by no loader that was tried: transformers",
        "forms that are opened: fp8",
        "--unchecked",
    ];
    holds(&said, &parts);
    let (code, said) = optimize(&place, "x", &["--to", "nvfp4", "--unchecked"]);
    assert_eq!(code, 0, "{said}");
    holds(
        &said,
        &["opened by: no loader that was tried; transformers"],
    );
    model(&place, "LlamaForCausalLM", "llama", &layers);
    let (code, said) = optimize(&place, "y", &["--to", "int4", "--asymmetric"]);
    assert_eq!(code, 0, "{said}");
    holds(&said, &["opened by: vllm", "not by: transformers"]);
    model(&place, "NewForCausalLM", "new", &layers);
    let (code, said) = optimize(&place, "z", &["--to", "fp8"]);
    assert_eq!(code, 0, "{said}");
    holds(&said, &["opened by: unknown; NewForCausalLM in fp8"]);
}

#[test]
fn a_head_that_shares_the_embeddings_is_left_out_by_its_own_name() {
    let place = Place::new();
    let layers: [(&str, &[usize]); 2] = [
        ("bert.embeddings.word_embeddings.weight", &[32, 128]),
        ("bert.encoder.layer.0.output.dense.weight", &[128, 128]),
    ];
    model(&place, "BertForMaskedLM", "bert", &layers);
    let (code, said) = optimize(&place, "x", &["--to", "fp8"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(ignored(&place, "x"), ["cls.predictions.decoder", "lm_head"]);
}
