//! Counts of several families against sums written out here, for many shapes of each.

use gpuwise_read::config::read_config_value;
use serde_json::{Value, json};

fn check(config: &Value, expected: u64) {
    let architecture =
        read_config_value(config).unwrap_or_else(|error| panic!("{config}: {error}"));
    assert_eq!(architecture.parameters().0, expected, "{config}");
    assert!(
        architecture.assumptions.is_empty(),
        "{:?}",
        architecture.assumptions
    );
}

/// Shapes: layers, width, heads, key-value heads, width of a head, vocabulary.
const SHAPES: [[u64; 6]; 5] = [
    [1, 64, 4, 4, 16, 100],
    [2, 128, 8, 2, 16, 1_000],
    [7, 96, 6, 1, 32, 333],
    [12, 256, 4, 2, 128, 50_257],
    [33, 512, 16, 8, 64, 32_001],
];

/// Query, key, value and output matrices without biases.
fn attention(h: u64, heads: u64, kv: u64, dim: u64) -> u64 {
    h * heads * dim + 2 * h * kv * dim + heads * dim * h
}

#[test]
fn llama() {
    for [layers, h, heads, kv, dim, v] in SHAPES {
        for (f, tied, bias) in [
            (3 * h, false, false),
            (h + 8, true, false),
            (4 * h, false, true),
        ] {
            let config = json!({"model_type": "llama", "hidden_size": h, "num_hidden_layers": layers,
                "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "intermediate_size": f,
                "vocab_size": v, "tie_word_embeddings": tied, "attention_bias": bias});
            let biases = if bias {
                heads * dim + 2 * kv * dim + h
            } else {
                0
            };
            let layer = attention(h, heads, kv, dim) + biases + 3 * h * f + 2 * h;
            check(
                &config,
                layers * layer + h + v * h * if tied { 1 } else { 2 },
            );
        }
    }
}

#[test]
fn gemma2() {
    for [layers, h, heads, kv, dim, v] in SHAPES {
        let f = 5 * h;
        let config = json!({"model_type": "gemma2", "hidden_size": h, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "intermediate_size": f,
            "vocab_size": v});
        // Tied without saying so, and a norm before and after each part.
        check(
            &config,
            layers * (attention(h, heads, kv, dim) + 3 * h * f + 4 * h) + h + v * h,
        );
    }
}

#[test]
fn qwen3_moe() {
    for [layers, h, heads, kv, dim, v] in SHAPES {
        for (experts, chosen, f) in [(2, 1, h), (8, 2, h / 2), (128, 8, 48)] {
            let config = json!({"model_type": "qwen3_moe", "hidden_size": h, "num_hidden_layers": layers,
                "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "intermediate_size": 3 * h,
                "num_experts": experts, "num_experts_per_tok": chosen, "moe_intermediate_size": f, "vocab_size": v,
                "mlp_only_layers": [0], "tie_word_embeddings": false});
            let common = attention(h, heads, kv, dim) + 2 * dim + 2 * h;
            let sparse = experts * 3 * h * f + experts * h;
            check(
                &config,
                layers * common + 3 * h * 3 * h + (layers - 1) * sparse + h + 2 * v * h,
            );
        }
    }
}

#[test]
fn deepseek_v3() {
    for [layers, h, heads, _, dim, v] in SHAPES {
        for (experts, shared, dense, q_rank) in
            [(4, 1, 0, Some(24)), (16, 2, 1, None), (256, 0, 1, Some(48))]
        {
            let (rank, rotary, plain, value, f) = (32, 8, dim, dim + 4, 40);
            let config = json!({"model_type": "deepseek_v3", "hidden_size": h, "num_hidden_layers": layers,
                "num_attention_heads": heads, "num_key_value_heads": heads, "kv_lora_rank": rank, "q_lora_rank": q_rank,
                "qk_rope_head_dim": rotary, "qk_nope_head_dim": plain, "v_head_dim": value, "intermediate_size": 2 * h,
                "moe_intermediate_size": f, "n_routed_experts": experts, "n_shared_experts": shared,
                "num_experts_per_tok": 4, "first_k_dense_replace": dense, "vocab_size": v});
            let key = plain + rotary;
            let query = q_rank.map_or(h * heads * key, |q: u64| h * q + q + q * heads * key);
            let mixing = query
                + h * (rank + rotary)
                + rank
                + rank * heads * (plain + value)
                + heads * value * h;
            let sparse = (experts + shared) * 3 * h * f + experts * h;
            let n_dense = dense.min(layers);
            let feeding = n_dense * 3 * h * 2 * h + (layers - n_dense) * sparse;
            check(&config, layers * (mixing + 2 * h) + feeding + h + 2 * v * h);
        }
    }
}

#[test]
fn gpt_oss() {
    for [layers, h, heads, kv, dim, v] in SHAPES {
        for (experts, f) in [(4, h), (32, 24)] {
            let config = json!({"model_type": "gpt_oss", "hidden_size": h, "num_hidden_layers": layers,
                "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "intermediate_size": f,
                "num_local_experts": experts, "num_experts_per_tok": 4, "vocab_size": v, "tie_word_embeddings": false});
            let biases = heads * dim + 2 * kv * dim + h + heads;
            let expert = 3 * h * f + 2 * f + h;
            let layer = attention(h, heads, kv, dim)
                + biases
                + experts * expert
                + experts * (h + 1)
                + 2 * h;
            check(&config, layers * layer + h + 2 * v * h);
        }
    }
}

#[test]
fn nemotron_h() {
    for [repeats, h, heads, kv, dim, v] in SHAPES {
        for (mamba_heads, mamba_dim, groups, state, kernel) in [(8, 16, 2, 8, 4), (16, 8, 1, 32, 3)]
        {
            let (f, experts, expert_f, shared_f) = (3 * h, 6, 20, 44);
            let pattern = "M-*E".repeat(repeats as usize);
            let config = json!({"model_type": "nemotron_h", "hidden_size": h, "num_hidden_layers": 4 * repeats,
                "hybrid_override_pattern": pattern, "num_attention_heads": heads, "num_key_value_heads": kv,
                "head_dim": dim, "intermediate_size": f, "mamba_num_heads": mamba_heads, "mamba_head_dim": mamba_dim,
                "n_groups": groups, "ssm_state_size": state, "conv_kernel": kernel, "vocab_size": v,
                "n_routed_experts": experts, "num_experts_per_tok": 2, "moe_intermediate_size": expert_f,
                "moe_shared_expert_intermediate_size": shared_f, "tie_word_embeddings": false});
            let inner = mamba_heads * mamba_dim;
            let mixed = inner + 2 * groups * state;
            let mamba = h * (inner + mixed + mamba_heads)
                + mixed * (kernel + 1)
                + 3 * mamba_heads
                + inner
                + inner * h;
            let dense = 2 * h * f;
            let sparse = experts * 2 * h * expert_f + 2 * h * shared_f + experts * h;
            let period = mamba + dense + attention(h, heads, kv, dim) + sparse + 4 * h;
            check(&config, repeats * period + h + 2 * v * h);
        }
    }
}

/// Relatives of BART, whose class defaults transformers 5.23 counts on the meta device.
#[test]
fn relatives_of_bart() {
    for (model_type, vocabulary, expected) in [
        ("mbart", 50_265, 406_295_552),
        ("m2m_100", 128_112, 483_905_536),
        ("pegasus", 50_265, 406_287_360),
    ] {
        let config = json!({"model_type": model_type, "vocab_size": vocabulary, "d_model": 1024, "encoder_layers": 12,
            "decoder_layers": 12, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16,
            "max_position_embeddings": 1024});
        check(&config, expected);
    }
    let umt5 = json!({"model_type": "umt5", "vocab_size": 250_112, "d_model": 512, "num_layers": 8, "num_heads": 6,
        "d_kv": 64, "d_ff": 1024, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": true});
    check(&umt5, 172_122_112);
}
