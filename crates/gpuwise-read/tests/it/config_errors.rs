//! What a wrong configuration is answered with: the field, what stands there, and what would be right.

use gpuwise_read::config::{read_config, read_config_value};
use serde_json::{Value, json};

/// A Llama with these fields instead of its own; null takes one away.
fn llama(changes: &Value) -> Value {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        config[name] = value.clone();
    }
    config
}

fn check(config: &str, expected: &str) {
    match read_config(config) {
        Ok(architecture) => panic!(
            "{config}\nis read as {} parameters",
            architecture.parameters().0
        ),
        Err(error) => {
            let said = error.to_string();
            assert!(
                said.contains(expected),
                "{config}\nis answered {said:?}, expected {expected:?}"
            );
        }
    }
}

fn check_llama(changes: &Value, expected: &str) {
    check(&llama(changes).to_string(), expected);
}

#[test]
fn missing_fields_are_named_with_their_purpose() {
    check_llama(
        &json!({"hidden_size": null}),
        "`hidden_size` is missing; without it the width of the model",
    );
    check_llama(
        &json!({"num_hidden_layers": null}),
        "`num_hidden_layers` is missing; without it the depth",
    );
    check_llama(
        &json!({"num_attention_heads": null}),
        "`num_attention_heads` is missing",
    );
    check_llama(
        &json!({"vocab_size": null}),
        "`vocab_size` is missing; without it the size of the embedding",
    );
    check_llama(
        &json!({"intermediate_size": null}),
        "`intermediate_size` is missing",
    );
    check_llama(
        &json!({"num_local_experts": 8}),
        "`num_experts_per_tok` is missing",
    );
    check(
        r#"{"model_type": "deepseek_v4"}"#,
        "`hidden_size` is missing",
    );
    check(r#"{"model_type": "t5"}"#, "`d_model` is missing");
    check(
        r#"{"model_type": "whisper", "d_model": 384, "vocab_size": 51865}"#,
        "`decoder_attention_heads` is missing",
    );
    check(
        r#"{"model_type": "nemotron_h", "hidden_size": 4480, "vocab_size": 131072}"#,
        "`hybrid_override_pattern` is missing; without it the order of recurrent, attention",
    );
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let dimension = "expected a whole number from 1 to 2^20";
    check_llama(
        &json!({"hidden_size": 0}),
        &format!("`hidden_size` is 0; {dimension}"),
    );
    check_llama(
        &json!({"hidden_size": -4096}),
        &format!("`hidden_size` is -4096; {dimension}"),
    );
    check_llama(
        &json!({"hidden_size": 4096.5}),
        &format!("`hidden_size` is 4096.5; {dimension}"),
    );
    check_llama(
        &json!({"hidden_size": "4096"}),
        &format!("`hidden_size` is \"4096\"; {dimension}"),
    );
    check_llama(
        &json!({"hidden_size": true}),
        &format!("`hidden_size` is true; {dimension}"),
    );
    check_llama(
        &json!({"hidden_size": [4096]}),
        &format!("`hidden_size` is [4096]; {dimension}"),
    );
    check_llama(&json!({"hidden_size": 1_u64 << 60}), dimension);
    check_llama(&json!({"hidden_size": 1e300}), dimension);
    check_llama(
        &json!({"vocab_size": u64::MAX}),
        "`vocab_size` is 18446744073709551615; expected a whole number from 1 to 2^40",
    );
    check_llama(
        &json!({"num_hidden_layers": 10_001}),
        "`num_hidden_layers` is 10001; expected a whole number from 1 to 10000",
    );
    check_llama(
        &json!({"sliding_window": -1}),
        "`sliding_window` is -1; expected a whole number from 0 to 2^40",
    );
    check_llama(
        &json!({"partial_rotary_factor": 0}),
        "`partial_rotary_factor` is 0; expected a number above 0",
    );
    check_llama(
        &json!({"tie_word_embeddings": 1}),
        "`tie_word_embeddings` is 1; expected true or false",
    );
    // Each dimension may be, all together may not.
    check_llama(
        &json!({"hidden_size": 1 << 20, "intermediate_size": 1 << 20, "num_hidden_layers": 10_000}),
        "no model has that many",
    );
}

#[test]
fn words_of_python_are_not_numbers() {
    let with = |word: &str| {
        llama(&json!({"hidden_size": "HERE"}))
            .to_string()
            .replace("\"HERE\"", word)
    };
    check(
        &with("NaN"),
        "`hidden_size` is \"NaN\"; expected a whole number",
    );
    check(
        &with("Infinity"),
        "`hidden_size` is \"Infinity\"; expected a whole number",
    );
    check(
        &with("-Infinity"),
        "`hidden_size` is \"-Infinity\"; expected a whole number",
    );
    // Where nothing reads them, they do no harm.
    let harmless = llama(&json!({"time_step_limit": "HERE"}))
        .to_string()
        .replace("\"HERE\"", "[0.0, Infinity]");
    assert!(read_config(&harmless).is_ok());
}

#[test]
fn whole_numbers_may_be_written_as_real_ones() {
    let usual = read_config_value(&llama(&json!({}))).expect("a Llama");
    assert_eq!(
        read_config_value(&llama(&json!({"hidden_size": 4096.0}))),
        Ok(usual)
    );
}

#[test]
fn fields_that_contradict_each_other_are_named_together() {
    check_llama(
        &json!({"num_key_value_heads": 5}),
        "`num_key_value_heads` 5 does not divide `num_attention_heads` 32: expected groups of equal size",
    );
    check_llama(
        &json!({"num_attention_heads": 31}),
        "`hidden_size` 4096 is no multiple of `num_attention_heads` 31",
    );
    check_llama(
        &json!({"num_local_experts": 8, "num_experts_per_tok": 9}),
        "`num_experts_per_tok` is 9; expected at least 1 and no more than the 8 experts",
    );
    check_llama(
        &json!({"num_local_experts": 8, "num_experts_per_tok": 0}),
        "`num_experts_per_tok` is 0; expected at least 1",
    );
    check_llama(
        &json!({"layer_types": ["full_attention"]}),
        "`layer_types` has 1 entries, but the model has 32 layers: expected one for each",
    );
    check_llama(
        &json!({"layer_types": vec!["full_attention"; 33]}),
        "`layer_types` has 33 entries",
    );
    check_llama(
        &json!({"layer_types": vec![0; 32]}),
        "`layer_types` is 0; expected a list of texts",
    );
    check_llama(
        &json!({"block_configs": [{}]}),
        "`block_configs` of layer 0: `ffn_mult` is null",
    );
    check(
        &json!({"model_type": "nemotron_h", "hidden_size": 8, "vocab_size": 8, "num_hidden_layers": 4,
            "hybrid_override_pattern": "M-M"})
        .to_string(),
        "`hybrid_override_pattern` describes 3 layers, `num_hidden_layers` says 4",
    );
    check(
        &json!({"model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 3, "num_attention_heads": 8,
            "vocab_size": 262_400, "intermediate_size": [8192, 8192]})
        .to_string(),
        "`intermediate_size` has 2 entries, but the model has 3 layers",
    );
}

#[test]
fn nested_fields_are_named_with_their_path() {
    let config = json!({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": "wide"}});
    check(&config.to_string(), "`text_config.hidden_size` is \"wide\"");
    check(
        r#"{"model_type": "gemma3", "text_config": []}"#,
        "`text_config` is []; expected an object",
    );
    let vision = json!({"model_type": "llava", "text_config": llama(&json!({})), "vision_config": {"hidden_size": 0}});
    check(&vision.to_string(), "`vision_config.hidden_size` is 0");
}

#[test]
fn an_unknown_type_with_the_usual_fields_is_read_with_an_assumption() {
    let usual = read_config_value(&llama(&json!({}))).expect("a Llama");
    assert!(usual.assumptions.is_empty());
    let unknown = read_config_value(&llama(&json!({"model_type": "brandnew"})))
        .expect("a Llama-like decoder");
    assert_eq!(unknown.parameters(), usual.parameters());
    assert_eq!(
        unknown.assumptions,
        [
            "model_type \"brandnew\" is not known: read as a Llama-like decoder from its usual fields"
        ]
    );
    let silent =
        read_config_value(&llama(&json!({"model_type": null}))).expect("a Llama-like decoder");
    assert!(
        silent
            .assumptions
            .iter()
            .any(|said| said.contains("no model_type is given"))
    );
}

#[test]
fn an_unknown_type_without_them_is_refused_as_such() {
    check(
        r#"{"model_type": "brandnew", "width": 4096}"#,
        "`model_type` \"brandnew\" is not known, and it cannot be read as a usual decoder: `hidden_size` is missing",
    );
    check("{}", "`model_type` \"\" is not known");
}

#[test]
fn other_kinds_of_models_are_named_as_such() {
    check(
        r#"{"model_type": "vit", "hidden_size": 768}"#,
        "`model_type` \"vit\" is not a language model",
    );
    check(
        r#"{"model_type": "resnet"}"#,
        "`model_type` \"resnet\" is not a language model",
    );
    check(
        r#"{"model_type": "bert", "hidden_size": 768}"#,
        "`model_type` \"bert\" is not a language model: it generates no text",
    );
}

#[test]
fn text_that_is_no_configuration_is_refused() {
    check("", "not a JSON document");
    check("hidden_size: 4096", "not a JSON document");
    check(r#"{"model_type": "llama""#, "not a JSON document");
    check(r#"{"model_type": NaN, "#, "not a JSON document");
    check(
        "[]",
        "a model configuration is a JSON object, this is a list",
    );
    check("4096", "this is a number");
    check("null", "this is null");
    // Deep nesting is an error of the parser, not the end of the stack.
    check(&"[".repeat(100_000), "recursion limit");
    check(&r#"{"a":"#.repeat(100_000), "recursion limit");
    check(&format!("{}NaN", "[".repeat(100_000)), "recursion limit");
}
