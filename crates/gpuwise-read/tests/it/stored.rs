//! What headers say is stored, against what configurations say.

use gpuwise_domain::{
    model::{Architecture, Role},
    precision::WeightFormat,
};
use gpuwise_read::{
    config::read_config_value,
    stored::{InferError, StoredTensor, architecture_from_tensors, with_header},
};
use serde_json::{Value, json};

/// A tensor in a format of 16, 8 or 32 bits, by its name in safetensors headers.
fn tensor(name: &str, dtype: &str, shape: &[u64]) -> StoredTensor {
    let (format, bytes) = match dtype {
        "BF16" => (WeightFormat::BF16, 2),
        "F16" => (WeightFormat::F16, 2),
        "F32" => (WeightFormat::F32, 4),
        "I32" => (WeightFormat::I32, 4),
        "I64" => (WeightFormat::I64, 8),
        "I8" => (WeightFormat::I8, 1),
        "F8" => (
            WeightFormat {
                name: "fp8",
                block: 1,
                block_bytes: 1,
                row_bytes: 0,
            },
            1,
        ),
        "E8M0" => (
            WeightFormat {
                name: "e8m0",
                block: 1,
                block_bytes: 1,
                row_bytes: 0,
            },
            1,
        ),
        "U8" => (
            WeightFormat {
                name: "u8",
                block: 1,
                block_bytes: 1,
                row_bytes: 0,
            },
            1,
        ),
        other => panic!("{other}"),
    };
    let elements: u64 = shape.iter().product();
    StoredTensor {
        name: name.into(),
        format,
        shape: shape.to_vec(),
        bytes: elements * bytes,
    }
}

/// A Llama of two layers: width 256, 4 heads of 64, 2 key-value heads, feed-forward 512, 1000 tokens.
fn config(extra: Value) -> Value {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000, "torch_dtype": "bfloat16",
    });
    if let (Value::Object(fields), Value::Object(extra)) = (&mut config, extra) {
        fields.extend(extra);
    }
    config
}

fn shape(extra: Value) -> Architecture {
    read_config_value(&config(extra)).expect("a valid configuration")
}

/// Projections of a layer: name, outputs, inputs.
const PROJECTIONS: [(&str, u64, u64); 7] = [
    ("self_attn.q_proj", 256, 256),
    ("self_attn.k_proj", 128, 256),
    ("self_attn.v_proj", 128, 256),
    ("self_attn.o_proj", 256, 256),
    ("mlp.gate_proj", 512, 256),
    ("mlp.up_proj", 512, 256),
    ("mlp.down_proj", 256, 512),
];

/// The tensors of the Llama, its projections as the given function stores them.
fn llama(dtype: &str, project: impl Fn(&str, u64, u64) -> Vec<StoredTensor>) -> Vec<StoredTensor> {
    let mut tensors = vec![
        tensor("model.embed_tokens.weight", dtype, &[1000, 256]),
        tensor("model.norm.weight", dtype, &[256]),
        tensor("lm_head.weight", dtype, &[1000, 256]),
    ];
    for layer in 0..2 {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        tensors.push(tensor(&name("input_layernorm.weight"), dtype, &[256]));
        tensors.push(tensor(
            &name("post_attention_layernorm.weight"),
            dtype,
            &[256],
        ));
        for (part, rows, columns) in PROJECTIONS {
            tensors.extend(project(&name(part), rows, columns));
        }
    }
    tensors
}

fn plain(dtype: &str) -> Vec<StoredTensor> {
    llama(dtype, |name, rows, columns| {
        vec![tensor(&format!("{name}.weight"), dtype, &[rows, columns])]
    })
}

/// Parameters of the Llama.
const PARAMETERS: u64 = 2 * 256_000 + 256 + 2 * (512 + 2 * 65_536 + 2 * 32_768 + 3 * 131_072);

#[track_caller]
fn check(extra: Value, tensors: &[StoredTensor], formats: &str, notes: &[&str]) {
    let model = with_header(shape(extra), tensors);
    let stored = model
        .stored
        .as_ref()
        .expect("the header says what is stored");
    assert_eq!(stored.elements, PARAMETERS, "elements");
    assert_eq!(
        stored.total(),
        tensors.iter().map(|t| t.bytes).sum::<u64>(),
        "bytes"
    );
    let quantized = model.quantization.iter().flat_map(|q| &q.assignments);
    let said: Vec<String> = quantized
        .map(|a| format!("{} {:?}", a.format.name, a.compute))
        .collect();
    assert_eq!(
        format!("{} [{}]", model.native.name, said.join(", ")),
        formats
    );
    let matches = model.assumptions.len() == notes.len()
        && model
            .assumptions
            .iter()
            .zip(notes)
            .all(|(said, note)| said.contains(note));
    assert!(matches, "got {:#?}\nexpected {notes:#?}", model.assumptions);
}

#[test]
fn plain_weights_agree() {
    check(json!({}), &plain("BF16"), "bf16 []", &[]);
}

#[test]
fn the_header_decides_the_native_format() {
    check(
        json!({}),
        &plain("F16"),
        "fp16 []",
        &["the header stores unquantized weights in fp16, the configuration says bf16"],
    );
}

#[test]
fn quantized_weights_count_as_what_they_stand_for() {
    let gptq = llama("F16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.qweight"), "I32", &[columns / 8, rows]),
            tensor(&format!("{name}.qzeros"), "I32", &[columns / 128, rows / 8]),
            tensor(&format!("{name}.scales"), "F16", &[columns / 128, rows]),
            tensor(&format!("{name}.g_idx"), "I32", &[columns]),
        ]
    });
    let stated = |method: &str| json!({"torch_dtype": "float16", "quantization_config": {"quant_method": method, "bits": 4, "group_size": 128}});
    check(stated("gptq"), &gptq, "fp16 [int4-zp Half]", &[]);
    let awq = llama("F16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.qweight"), "I32", &[columns, rows / 8]),
            tensor(&format!("{name}.qzeros"), "I32", &[columns / 128, rows / 8]),
            tensor(&format!("{name}.scales"), "F16", &[columns / 128, rows]),
        ]
    });
    check(stated("awq"), &awq, "fp16 [int4-zp Half]", &[]);
    let packed = llama("BF16", |name, rows, columns| {
        vec![
            tensor(
                &format!("{name}.weight_packed"),
                "I32",
                &[rows, columns / 8],
            ),
            tensor(
                &format!("{name}.weight_scale"),
                "BF16",
                &[rows, columns / 32],
            ),
            tensor(&format!("{name}.weight_shape"), "I64", &[2]),
        ]
    });
    check(
        json!({}),
        &packed,
        "bf16 [int4-g32 Half]",
        &["MLP in int4-g32 instead of bf16: the header is followed"],
    );
    let nf4 = llama("BF16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.weight"), "U8", &[rows * columns / 2, 1]),
            tensor(
                &format!("{name}.weight.absmax"),
                "U8",
                &[rows * columns / 64],
            ),
            tensor(
                &format!("{name}.weight.nested_absmax"),
                "F32",
                &[rows * columns / 64 / 256],
            ),
            tensor(&format!("{name}.weight.quant_map"), "F32", &[16]),
            tensor(
                &format!("{name}.weight.quant_state.bitsandbytes__nf4"),
                "U8",
                &[80],
            ),
        ]
    });
    let stated =
        json!({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}});
    check(stated, &nf4, "bf16 [nf4 Half]", &[]);
    let eight = llama("F16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.qweight"), "I32", &[columns / 4, rows]),
            tensor(&format!("{name}.qzeros"), "I32", &[columns / 128, rows / 4]),
            tensor(&format!("{name}.scales"), "F16", &[columns / 128, rows]),
        ]
    });
    let stated = json!({"torch_dtype": "float16", "quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 128}});
    check(stated, &eight, "fp16 [int8-w8a16 Half]", &[]);
}

#[test]
fn eight_bits_in_words() {
    let packed = |zeros: bool| {
        llama("BF16", move |name, rows, columns| {
            let mut all = vec![
                tensor(
                    &format!("{name}.weight_packed"),
                    "I32",
                    &[rows, columns / 4],
                ),
                tensor(&format!("{name}.weight_scale"), "BF16", &[rows, 1]),
                tensor(&format!("{name}.weight_shape"), "I64", &[2]),
            ];
            if zeros {
                let name = format!("{name}.weight_zero_point");
                all.push(tensor(&name, "I32", &[rows / 4, 1]));
            }
            all
        })
    };
    let stated = json!({"quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
        }},
        // Layers of towers are called as those of the language model.
        "ignore": ["lm_head", "vision_tower.encoder.layers.0.self_attn.q_proj", r"re:(.*\.)?vision_tower(\..*)?$"],
    }});
    check(stated, &packed(false), "bf16 [int8-w8a16 Half]", &[]);
    // Zero points tell how many bits there are, where no configuration does.
    check(
        json!({}),
        &packed(true),
        "bf16 [int8-w8a16 Half]",
        &["MLP in int8-w8a16 instead of bf16"],
    );
}

#[test]
fn small_floats_with_scales() {
    let nvfp4 = llama("BF16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.weight"), "U8", &[rows, columns / 2]),
            tensor(&format!("{name}.weight_scale"), "F8", &[rows, columns / 16]),
            tensor(&format!("{name}.weight_scale_2"), "F32", &[]),
            tensor(&format!("{name}.input_scale"), "F32", &[]),
        ]
    });
    check(
        json!({}),
        &nvfp4,
        "bf16 [nvfp4 Fp4]",
        &["MLP in nvfp4 instead of bf16"],
    );
    let fp8 = llama("BF16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.weight"), "F8", &[rows, columns]),
            tensor(
                &format!("{name}.weight_scale_inv"),
                "F32",
                &[rows / 128, columns / 128],
            ),
        ]
    });
    check(
        json!({}),
        &fp8,
        "bf16 [fp8-block Fp8]",
        &["attention in fp8-block instead of bf16"],
    );
    let stated =
        json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}});
    check(stated.clone(), &fp8, "bf16 [fp8-block Fp8]", &[]);
    check(
        stated,
        &plain("BF16"),
        "bf16 []",
        &[
            "attention in bf16 instead of fp8-block, MLP in bf16 instead of fp8-block: the header is followed",
        ],
    );
    let deepseek_v4 = llama("BF16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.weight"), "I8", &[rows, columns / 2]),
            tensor(&format!("{name}.scale"), "E8M0", &[rows, columns / 32]),
        ]
    });
    check(
        json!({}),
        &deepseek_v4,
        "bf16 [mxfp4 Fp4]",
        &["MLP in mxfp4 instead of bf16"],
    );
    let int8 = llama("BF16", |name, rows, columns| {
        vec![
            tensor(&format!("{name}.weight"), "I8", &[rows, columns]),
            tensor(&format!("{name}.SCB"), "F32", &[rows]),
        ]
    });
    check(
        json!({}),
        &int8,
        "bf16 [int8 Half]",
        &["MLP in int8 instead of bf16"],
    );
}

#[test]
fn packed_experts() {
    let config = json!({
        "model_type": "gpt_oss", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "intermediate_size": 128, "vocab_size": 1000, "num_local_experts": 4, "num_experts_per_tok": 2,
        "tie_word_embeddings": false, "quantization_config": {"quant_method": "mxfp4"},
    });
    let at = |part: &str| format!("model.layers.0.{part}");
    let mut tensors = vec![
        tensor("model.embed_tokens.weight", "BF16", &[1000, 256]),
        tensor("model.norm.weight", "BF16", &[256]),
        tensor("lm_head.weight", "BF16", &[1000, 256]),
        tensor(&at("input_layernorm.weight"), "BF16", &[256]),
        tensor(&at("post_attention_layernorm.weight"), "BF16", &[256]),
        tensor(&at("self_attn.sinks"), "BF16", &[4]),
        tensor(&at("mlp.router.weight"), "BF16", &[4, 256]),
        tensor(&at("mlp.router.bias"), "BF16", &[4]),
        tensor(
            &at("mlp.experts.gate_up_proj_blocks"),
            "U8",
            &[4, 256, 8, 16],
        ),
        tensor(&at("mlp.experts.gate_up_proj_scales"), "U8", &[4, 256, 8]),
        tensor(&at("mlp.experts.gate_up_proj_bias"), "BF16", &[4, 256]),
        tensor(&at("mlp.experts.down_proj_blocks"), "U8", &[4, 256, 4, 16]),
        tensor(&at("mlp.experts.down_proj_scales"), "U8", &[4, 256, 4]),
        tensor(&at("mlp.experts.down_proj_bias"), "BF16", &[4, 256]),
    ];
    for (part, rows, columns) in &PROJECTIONS[..4] {
        tensors.push(tensor(
            &at(&format!("{part}.weight")),
            "BF16",
            &[*rows, *columns],
        ));
        tensors.push(tensor(&at(&format!("{part}.bias")), "BF16", &[*rows]));
    }
    let shape = read_config_value(&config).expect("a valid configuration");
    let model = with_header(shape.clone(), &tensors);
    let stored = model
        .stored
        .as_ref()
        .expect("the header says what is stored");
    assert_eq!(stored.elements, shape.parameters().0);
    assert_eq!(model.assumptions, Vec::<String>::new());
    assert_eq!(model.quantization, shape.quantization);
    let up = 4 * 256 * 8 * 17 + 2 * 4 * 256;
    assert_eq!(stored.bytes(Role::ExpertUp), Some(up));
}

/// Names in checkpoints, and what they mean; `None` is left out of the count.
const ROLES: &[(&str, Option<Role>)] = &[
    (
        "model.layers.1.block_sparse_moe.experts.3.w1.weight",
        Some(Role::ExpertUp),
    ),
    (
        "model.layers.1.block_sparse_moe.experts.3.w2.weight",
        Some(Role::ExpertDown),
    ),
    (
        "model.layers.1.block_sparse_moe.gate.weight",
        Some(Role::Router),
    ),
    (
        "model.layers.1.mlp.experts.3.down_proj.weight",
        Some(Role::ExpertDown),
    ),
    (
        "model.layers.1.mlp.shared_experts.up_proj.weight",
        Some(Role::SharedUp),
    ),
    (
        "model.layers.1.mlp.shared_expert_gate.weight",
        Some(Role::Router),
    ),
    (
        "model.layers.1.mlp.gate.e_score_correction_bias",
        Some(Role::Router),
    ),
    (
        "model.layers.1.self_attn.q_a_proj.weight",
        Some(Role::LatentDown),
    ),
    (
        "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
        Some(Role::LatentDown),
    ),
    (
        "model.layers.1.self_attn.kv_a_layernorm.weight",
        Some(Role::AttentionOther),
    ),
    (
        "model.layers.1.self_attn.q_b_proj.weight",
        Some(Role::LatentQuery),
    ),
    (
        "model.layers.1.self_attn.kv_b_proj.weight",
        Some(Role::LatentKeyValue),
    ),
    (
        "model.layers.1.self_attn.indexer.wq_b.weight",
        Some(Role::Indexer),
    ),
    ("model.layers.4.mlp.experts.3.down_proj.weight", None),
    ("model.layers.4.eh_proj.weight", None),
    ("mtp.0.ffn.experts.3.w1.weight", None),
    ("mtp.layers.0.self_attn.q_proj.weight", None),
    ("layers.1.attention.wq.weight", Some(Role::Query)),
    ("layers.1.attention.wo.weight", Some(Role::AttentionOutput)),
    ("layers.1.feed_forward.w3.weight", Some(Role::MlpUp)),
    ("layers.1.attention_norm.weight", Some(Role::Norm)),
    ("tok_embeddings.weight", Some(Role::Embedding)),
    ("output.weight", Some(Role::Head)),
    ("transformer.wte.weight", Some(Role::Embedding)),
    ("transformer.wpe.weight", Some(Role::Position)),
    (
        "transformer.h.1.attn.c_proj.weight",
        Some(Role::AttentionOutput),
    ),
    ("transformer.h.1.mlp.c_proj.weight", Some(Role::MlpDown)),
    ("transformer.h.1.ln_1.weight", Some(Role::Norm)),
    (
        "gpt_neox.layers.1.mlp.dense_h_to_4h.weight",
        Some(Role::MlpUp),
    ),
    (
        "gpt_neox.layers.1.attention.dense.weight",
        Some(Role::AttentionOutput),
    ),
    (
        "transformer.h.1.self_attention.dense.weight",
        Some(Role::AttentionOutput),
    ),
    (
        "model.decoder.layers.1.encoder_attn.k_proj.weight",
        Some(Role::CrossAttention),
    ),
    (
        "decoder.block.1.layer.1.EncDecAttention.q.weight",
        Some(Role::CrossAttention),
    ),
    (
        "decoder.block.1.layer.2.DenseReluDense.wo.weight",
        Some(Role::MlpDown),
    ),
    (
        "decoder.block.1.layer.0.SelfAttention.o.weight",
        Some(Role::AttentionOutput),
    ),
    ("model.visual.blocks.12.attn.qkv.weight", Some(Role::Tower)),
    ("visual.merger.mlp.0.weight", Some(Role::Projector)),
    (
        "vision_tower.vision_model.encoder.layers.20.mlp.fc1.weight",
        Some(Role::Tower),
    ),
    (
        "multi_modal_projector.linear_1.weight",
        Some(Role::Projector),
    ),
    (
        "model.layers.1.linear_attn.in_proj_qkvz.weight",
        Some(Role::StateInput),
    ),
    (
        "model.layers.1.linear_attn.out_proj.weight",
        Some(Role::StateOutput),
    ),
    (
        "model.layers.1.mamba.in_proj.weight",
        Some(Role::StateInput),
    ),
    ("model.layers.1.mamba.x_proj.weight", Some(Role::StateInput)),
    ("model.layers.1.mamba.conv1d.weight", Some(Role::StateOther)),
    ("backbone.layers.1.mixer.q_proj.weight", Some(Role::Query)),
    ("backbone.layers.1.mixer.up_proj.weight", Some(Role::MlpUp)),
    (
        "backbone.layers.1.mixer.experts.7.down_proj.weight",
        Some(Role::ExpertDown),
    ),
    (
        "model.language_model.layers.1.per_layer_input_gate.weight",
        Some(Role::MlpUp),
    ),
];

/// Names of checkpoints that their authors published in forms of their own.
#[test]
fn names_and_their_roles() {
    let role = |name: &str| {
        let config = json!({
            "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "kv_lora_rank": 16,
            "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "intermediate_size": 64, "vocab_size": 100,
            "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1,
        });
        let shape = read_config_value(&config).expect("a valid configuration");
        let mut tensors = vec![tensor(name, "BF16", &[8, 8])];
        if name.contains("linear_attn") || name.contains("mamba") {
            let (module, _) = name
                .trim_end_matches(".weight")
                .rsplit_once('.')
                .expect("a module");
            tensors.push(tensor(&format!("{module}.A_log"), "F32", &[1]));
        }
        let stored = with_header(shape, &tensors)
            .stored
            .expect("the header says what is stored");
        stored
            .by_role
            .iter()
            .max_by_key(|(_, bytes)| *bytes)
            .map(|(role, _)| *role)
    };
    for (name, expect) in ROLES {
        assert_eq!(role(name), *expect, "{name}");
    }
}

#[test]
fn a_fused_projection_is_shared_out() {
    let mut tensors = plain("BF16");
    tensors.retain(|t| {
        !t.name.contains("_proj") || t.name.contains("o_proj") || t.name.contains("mlp")
    });
    for layer in 0..2 {
        tensors.push(tensor(
            &format!("model.layers.{layer}.self_attn.qkv_proj.weight"),
            "BF16",
            &[512, 256],
        ));
    }
    let model = with_header(shape(json!({})), &tensors);
    let stored = model.stored.expect("the header says what is stored");
    assert_eq!(stored.bytes(Role::Query), Some(2 * 2 * 65_536));
    assert_eq!(stored.bytes(Role::Value), Some(2 * 2 * 32_768));
    assert_eq!(stored.elements, PARAMETERS);
}

#[test]
fn what_is_left_out_and_what_disagrees_is_said() {
    let notes = |extra: Value, tensors: &[StoredTensor]| {
        with_header(shape(extra), tensors).assumptions.join("\n")
    };
    let tied = notes(json!({"tie_word_embeddings": true}), &plain("BF16"));
    assert_eq!(
        tied,
        "512,000 bytes of an output head are stored although it is tied to the embedding, and left out of the count"
    );
    let mut more = plain("BF16");
    more.push(tensor("model.layers.2.eh_proj.weight", "BF16", &[256, 512]));
    assert_eq!(
        notes(json!({}), &more),
        "262,144 bytes of multi-token-prediction layers are stored, and left out of the count"
    );
    let deeper = notes(json!({"num_hidden_layers": 3}), &plain("BF16"));
    assert_eq!(
        deeper,
        "the header holds 1,692,928 parameters, the configuration makes 2,283,264 (25.9 % apart): sizes are the header's"
    );
    let mut odd = plain("BF16");
    odd.push(tensor("something.new", "BF16", &[512, 512]));
    let said = notes(json!({}), &odd);
    assert!(
        said.contains(
            "524,288 bytes of tensors with names that are not known (such as \"something.new\")"
        ),
        "{said}"
    );
    let mut masks = plain("BF16");
    masks.push(tensor("model.layers.0.attn.bias", "F32", &[1, 1, 512, 512]));
    masks.push(tensor(
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "F32",
        &[32],
    ));
    assert_eq!(notes(json!({}), &masks), "");
}

#[test]
fn tensors_without_a_configuration() {
    let mut tensors = plain("BF16");
    let error = architecture_from_tensors(&tensors).expect_err("heads do not show");
    assert_eq!(
        error.to_string(),
        "the header shows 2 layers of width 256, a vocabulary of 1000 and 1.69M parameters, but not the number of heads: put the model's config.json beside the file"
    );
    for layer in 0..2 {
        for part in ["q_norm", "k_norm"] {
            tensors.push(tensor(
                &format!("model.layers.{layer}.self_attn.{part}.weight"),
                "BF16",
                &[64],
            ));
        }
    }
    let model = architecture_from_tensors(&tensors).expect("norms show the width of a head");
    assert_eq!(
        (model.layer_count(), model.hidden, model.vocabulary),
        (2, 256, 1000)
    );
    assert_eq!(model.cache_elements_per_token(), 2 * 2 * 2 * 64);
    assert_eq!(
        model.stored.as_ref().map(|stored| stored.elements),
        Some(PARAMETERS + 4 * 64)
    );
    assert_eq!(model.parameters().0, PARAMETERS + 4 * 64);
    tensors.push(tensor(
        "model.layers.1.mlp.experts.0.w1.weight",
        "BF16",
        &[8, 8],
    ));
    assert!(matches!(
        architecture_from_tensors(&tensors),
        Err(InferError::NeedsConfig {
            unknown: "how many experts work on a token",
            ..
        })
    ));
    assert_eq!(
        architecture_from_tensors(&[]),
        Err(InferError::NotALanguageModel)
    );
    assert_eq!(
        architecture_from_tensors(&[tensor("conv.weight", "F32", &[8, 8])]),
        Err(InferError::NotALanguageModel)
    );
    // Shapes may be anything.
    let scalars = ["q_proj", "k_proj", "q_norm"].map(|part| {
        tensor(
            &format!("model.layers.0.self_attn.{part}.weight"),
            "F32",
            &[],
        )
    });
    let mut odd = scalars.to_vec();
    odd.push(tensor("model.embed_tokens.weight", "F32", &[8, 8]));
    odd.push(tensor("model.layers.0.mlp.gate_proj.weight", "F32", &[]));
    assert!(architecture_from_tensors(&odd).is_err());
    odd.push(tensor(
        "model.layers.18446744073709551615.x.weight",
        "F32",
        &[],
    ));
    assert_eq!(
        architecture_from_tensors(&odd),
        Err(InferError::NotALanguageModel)
    );
}
