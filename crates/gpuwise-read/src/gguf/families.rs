//! Which configuration a GGUF architecture was converted from.

use super::keys::Keys;
use serde_json::{Map, Value, json};

/// The `model_type` of an architecture. Names that mean the same in both stay; unknown ones too,
/// and are then read as Llama-like with an assumption that says so.
pub(super) fn model_type<'a>(keys: &Keys<'a>) -> &'a str {
    let experts = keys.some("expert_count").is_some();
    match keys.name {
        "llama" if experts => "mixtral",
        "llama4" => "llama4_text",
        "deci" => "nemotron-nas",
        "gptneox" => "gpt_neox",
        "starcoder" => "gpt_bigcode",
        "qwen2moe" => "qwen2_moe",
        "qwen2vl" | "dream" => "qwen2",
        "qwen3moe" | "rnd1" => "qwen3_moe",
        "qwen3next" => "qwen3_next",
        "qwen3vl" => "qwen3_vl_text",
        "qwen3vlmoe" => "qwen3_vl_moe_text",
        "qwen35" => "qwen3_5_text",
        "qwen35moe" => "qwen3_5_moe_text",
        "phi2" => "phi",
        "gemma3" => "gemma3_text",
        "gemma4" => "gemma4_text",
        "mistral3" | "llama-embed" | "xverse" => "llama",
        "command-r" => "cohere",
        "deepseek2" | "deepseek2-ocr" | "mistral4" => "deepseek_v3",
        "glm-dsa" => "glm_moe_dsa",
        "glm4moe" => "glm4_moe",
        "nemotron_h_moe" => "nemotron_h",
        "exaone-moe" => "exaone_moe",
        "granitemoe" if keys.has("ffn_up_shexp.weight") => "granitemoeshared",
        "granitehybrid" => "granitemoehybrid",
        "ernie4_5-moe" => "ernie4_5_moe",
        "falcon-h1" => "falcon_h1",
        "hunyuan-moe" => "hunyuan_v1_moe",
        "hunyuan-dense" | "hunyuan_vl" => "hunyuan_v1_dense",
        "gpt-oss" => "gpt_oss",
        "lfm2moe" => "lfm2_moe",
        "minimax-m2" => "minimax_m2",
        "mimo2" => "mimo_v2_flash",
        "step35" => "step3p5",
        "kimi-linear" => "kimi_linear",
        "mamba" if keys.has("ssm_dt_norm.weight") => "falcon_mamba",
        same => same,
    }
}

/// Fields that one family needs beside the usual ones, or other than they are.
pub(super) fn own_fields(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Value| {
        config.insert(name.into(), value);
    };
    let some = |key: &str| keys.some(key).map_or(Value::Null, Value::from);
    match keys.name {
        // The window of a Mistral is stated, and no engine of GGUF files follows it.
        "llama" | "mistral3" => put("sliding_window", Value::Null),
        "llama4" => {
            put("intermediate_size_mlp", some("feed_forward_length"));
            put("intermediate_size", some("expert_feed_forward_length"));
            put("attention_chunk_size", some("attention.chunk_size"));
        }
        "deci" => put("block_configs", blocks(keys, layers)),
        "falcon" | "mpt" => classic(keys, config),
        "starcoder" => put(
            "multi_query",
            (keys.some("attention.head_count_kv") == Some(1)).into(),
        ),
        "starcoder2" => put("use_bias", keys.has("attn_output.bias").into()),
        "mimo2" => {
            put("swa_head_dim", some("attention.key_length_swa"));
            put("swa_v_head_dim", some("attention.value_length_swa"));
        }
        "gptj" => put("rotary_dim", some("rope.dimension_count")),
        "stablelm" => {
            put("use_qkv_bias", keys.has("attn_q.bias").into());
            put("qk_layernorm", keys.has("attn_q_norm.weight").into());
            put(
                "use_parallel_residual",
                (!keys.has("ffn_norm.weight")).into(),
            );
        }
        "chatglm" => put(
            "add_qkv_bias",
            (keys.has("attn_qkv.bias") || keys.has("attn_q.bias")).into(),
        ),
        "internlm2" => put("bias", keys.has("attn_q.bias").into()),
        "phimoe" => put("lm_head_bias", keys.shape("output.bias").is_some().into()),
        "seed_oss" => put("attention_out_bias", keys.has("attn_output.bias").into()),
        "ernie4_5" | "ernie4_5-moe" => put("use_bias", keys.has("attn_q.bias").into()),
        "granitemoe" => {
            // Its experts are as wide as the feed-forward that is stated.
            put(
                "shared_intermediate_size",
                some("expert_shared_feed_forward_length"),
            );
        }
        _ => {}
    }
}

/// Falcon and MPT, which state what they are in words of their own.
fn classic(keys: &Keys<'_>, config: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Value| {
        config.insert(name.into(), value);
    };
    let kv_heads = keys.some("attention.head_count_kv");
    if keys.name == "falcon" {
        let heads = kv_heads.unwrap_or(1);
        let two_norms = keys.has("attn_norm_2.weight");
        let new = two_norms || heads > 1;
        put("new_decoder_architecture", new.into());
        put("multi_query", (heads == 1).into());
        put("num_kv_heads", heads.into());
        if new && !two_norms {
            put("num_ln_in_parallel_attn", 1.into());
        }
        return;
    }
    put("no_bias", (!keys.has("attn_output.bias")).into());
    put("attn_config", json!({ "kv_n_heads": kv_heads }));
    let width = keys.some("feed_forward_length");
    if let Some((width, hidden)) = width.zip(keys.some("embedding_length")) {
        put("expansion_ratio", (width / hidden).max(1).into());
    }
}

/// The blocks of a searched architecture, one a layer, of which parts may be gone.
fn blocks(keys: &Keys<'_>, layers: u64) -> Value {
    let list = |key: &str| {
        let counts = keys.counts(key).unwrap_or_default();
        move |layer: usize| counts.get(layer).or(counts.last()).copied().unwrap_or(0)
    };
    let (heads, kv_heads) = (
        list("attention.head_count"),
        list("attention.head_count_kv"),
    );
    let widths = list("feed_forward_length");
    let hidden = keys.some("embedding_length").unwrap_or(1) as f64;
    let block = |layer: usize| {
        let (heads, kv_heads, width) = (heads(layer), kv_heads(layer), widths(layer));
        let attention = match (heads, kv_heads) {
            (0, _) => json!({ "no_op": true }),
            (_, 0) => json!({ "replace_with_linear": true }),
            _ => json!({ "n_heads_in_group": (heads / kv_heads).max(1) }),
        };
        // The factor of which the reader makes this width again.
        let ffn = if width == 0 {
            json!({ "no_op": true })
        } else {
            json!({ "ffn_mult": 1.5 * width as f64 / hidden })
        };
        json!({ "attention": attention, "ffn": ffn })
    };
    (0..layers as usize).map(block).collect()
}
