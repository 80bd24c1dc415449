//! What distinguishes one family of decoders from Llama.

use super::super::{
    ConfigError, Context,
    build::{OutputGate, QueryKeyNorm},
};

/// The differences that count.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a tensor is there, independently of the others"
)]
pub(super) struct Style {
    /// Vectors of a norm: 1 scale, 2 scale and bias, 0 none.
    pub(super) norm_parts: u64,
    /// Norms of a layer.
    pub(super) norms: u64,
    pub(super) qkv_bias: bool,
    pub(super) output_bias: bool,
    pub(super) mlp_bias: bool,
    pub(super) gated: bool,
    pub(super) query_key_norm: QueryKeyNorm,
    pub(super) gate: OutputGate,
    pub(super) sinks: bool,
    pub(super) tied: bool,
    pub(super) head_bias: bool,
    pub(super) known: bool,
}

const LLAMA: Style = Style {
    norm_parts: 1,
    norms: 2,
    qkv_bias: false,
    output_bias: false,
    mlp_bias: false,
    gated: true,
    query_key_norm: QueryKeyNorm::None,
    gate: OutputGate::None,
    sinks: false,
    tied: false,
    head_bias: false,
    known: true,
};

/// The style of the context's type: first families that are Llama with biases, then those with
/// norms of queries and keys, then the rest.
pub(super) fn style(context: &Context<'_>) -> Result<Style, ConfigError> {
    let text = context.text;
    let attention_bias = text.is("attention_bias")?;
    let base = Style {
        qkv_bias: attention_bias,
        output_bias: attention_bias,
        mlp_bias: text.is("mlp_bias")?,
        ..LLAMA
    };
    if let Some(style) = plain(context, base)? {
        return Ok(style);
    }
    if let Some(style) = normed(context, base)? {
        return Ok(style);
    }
    if let Some(style) = gated_attention(context, base) {
        return Ok(style);
    }
    if let Some(style) = layer_norm(context, base)? {
        return Ok(style);
    }
    if let Some(style) = plain_feed_forward(context, base)? {
        return Ok(style);
    }
    Ok(Style {
        known: false,
        ..base
    })
}

/// Root-mean-square norms, a gated feed-forward; biases and ties differ.
fn plain(context: &Context<'_>, base: Style) -> Result<Option<Style>, ConfigError> {
    let text = context.text;
    let qkv_only = Style {
        qkv_bias: true,
        output_bias: false,
        ..base
    };
    Ok(Some(match context.model_type {
        "llama" | "mistral" | "mixtral" | "ministral" | "ministral3" | "granite" | "granitemoe"
        | "granitemoeshared" | "smollm3" | "phi3" | "phi3_v" | "phi4mm" | "internlm3"
        | "llama4_text" | "helium" | "exaone" | "deepseek" | "nemotron-nas" | "deci" | "aquila"
        | "baichuan" | "yi" | "mistral3" | "minicpm" | "solar_open" | "bitnet"
        | "mimo_v2_flash" => base,
        "qwen2" | "qwen2_moe" | "qwen2_vl" | "qwen2_5_vl" | "qwen2_vl_text" | "qwen2_5_vl_text"
        | "mimo" | "qwen" => qkv_only,
        "internlm2" => Style {
            qkv_bias: text.is("bias")?,
            output_bias: text.is("bias")?,
            ..base
        },
        "chatglm" => Style {
            qkv_bias: text.flag("add_qkv_bias")?.unwrap_or(true),
            ..qkv_only
        },
        "glm" => Style {
            output_bias: false,
            ..base
        },
        "glm4" | "glm4v_text" => Style {
            output_bias: false,
            norms: 4,
            ..base
        },
        "seed_oss" => Style {
            qkv_bias: text.flag("attention_bias")?.unwrap_or(true),
            output_bias: text.is("attention_out_bias")?,
            ..base
        },
        "gemma" => Style { tied: true, ..base },
        "gemma2" => Style {
            norms: 4,
            tied: true,
            ..base
        },
        "arcee" => Style {
            gated: false,
            ..base
        },
        "gpt_oss" => Style {
            qkv_bias: text.flag("attention_bias")?.unwrap_or(true),
            output_bias: text.flag("attention_bias")?.unwrap_or(true),
            sinks: true,
            ..base
        },
        "ernie4_5" | "ernie4_5_moe" => {
            let bias = text.is("use_bias")?;
            Style {
                qkv_bias: bias,
                output_bias: bias,
                mlp_bias: bias,
                tied: true,
                ..base
            }
        }
        _ => return Ok(None),
    }))
}

/// Root-mean-square norms, also of queries and keys.
fn normed(context: &Context<'_>, base: Style) -> Result<Option<Style>, ConfigError> {
    let text = context.text;
    let per_head = Style {
        query_key_norm: QueryKeyNorm::PerHead,
        ..base
    };
    let full = Style {
        query_key_norm: QueryKeyNorm::Full,
        ..base
    };
    Ok(Some(match context.model_type {
        "qwen3"
        | "qwen3_moe"
        | "qwen3_vl_text"
        | "qwen3_vl_moe_text"
        | "qwen3_omni_moe_text"
        | "hunyuan_v1_dense"
        | "hunyuan_v1_moe"
        | "hy_v3"
        | "exaone4"
        | "exaone_moe"
        | "dots1"
        | "minimax_m3"
        | "minimax_m3_text"
        | "minimax_m3_vl_text" => per_head,
        "olmo2" | "olmo3" | "olmoe" | "flex_olmo" | "minimax_m2" => full,
        "glm4_moe" | "glm4v_moe_text" => Style {
            output_bias: false,
            query_key_norm: norm_if(text.is("use_qk_norm")?, QueryKeyNorm::PerHead),
            ..base
        },
        // The second generation norms queries and keys without saying so.
        "bailing_moe" | "bailing_moe_v2" => {
            let normed = text
                .flag("use_qk_norm")?
                .unwrap_or(context.model_type == "bailing_moe_v2");
            Style {
                qkv_bias: text.is("use_qkv_bias")?,
                output_bias: text.is("use_bias")?,
                query_key_norm: norm_if(normed, QueryKeyNorm::PerHead),
                ..base
            }
        }
        "gemma3_text" | "gemma3" => Style {
            norms: 4,
            tied: true,
            ..per_head
        },
        "apertus" => Style {
            gated: false,
            ..per_head
        },
        "molmo2_text" => Style {
            qkv_bias: text.is("qkv_bias")?,
            output_bias: false,
            query_key_norm: match text.text("qk_norm_type")? {
                Some("qwen3") => QueryKeyNorm::PerHead,
                Some("olmo") => QueryKeyNorm::Full,
                _ => norm_if(text.is("use_qk_norm")?, QueryKeyNorm::PerHead),
            },
            ..base
        },
        _ => return Ok(None),
    }))
}

/// Norms of queries and keys, and a gate on the output of attention.
fn gated_attention(context: &Context<'_>, base: Style) -> Option<Style> {
    let per_head = Style {
        query_key_norm: QueryKeyNorm::PerHead,
        ..base
    };
    Some(match context.model_type {
        "step3p5" | "step3p7" | "step3p7_text" => Style {
            gate: OutputGate::PerHead,
            ..per_head
        },
        // Stated as true or as a text.
        "laguna" => Style {
            gate: match context
                .text
                .raw("gating")
                .and_then(serde_json::Value::as_str)
            {
                None | Some("per-head") => OutputGate::PerHead,
                Some(_) => OutputGate::Full,
            },
            ..per_head
        },
        "afmoe" => Style {
            norms: 4,
            gate: OutputGate::Full,
            ..per_head
        },
        _ => return None,
    })
}

/// Layer norms, with or without biases.
fn layer_norm(context: &Context<'_>, base: Style) -> Result<Option<Style>, ConfigError> {
    let text = context.text;
    let biased = Style {
        norm_parts: 2,
        ..base
    };
    Ok(Some(match context.model_type {
        "olmo" => Style {
            norm_parts: 0,
            ..base
        },
        "cohere" => Style {
            norms: 1,
            tied: true,
            query_key_norm: norm_if(text.is("use_qk_norm")?, QueryKeyNorm::EachHead),
            ..base
        },
        "cohere2" => Style {
            norms: 1,
            tied: true,
            ..base
        },
        "phimoe" => Style {
            head_bias: text.is("lm_head_bias")?,
            ..biased
        },
        "stablelm" => Style {
            norms: if text.is("use_parallel_residual")? {
                1
            } else {
                2
            },
            qkv_bias: text.is("use_qkv_bias")?,
            output_bias: false,
            query_key_norm: norm_if(text.is("qk_layernorm")?, QueryKeyNorm::EachHead),
            ..biased
        },
        _ => return Ok(None),
    }))
}

/// Layer norms with biases, and a feed-forward without a gate.
fn plain_feed_forward(context: &Context<'_>, base: Style) -> Result<Option<Style>, ConfigError> {
    let text = context.text;
    let biased = Style {
        norm_parts: 2,
        gated: false,
        ..base
    };
    Ok(Some(match context.model_type {
        "phi" => Style {
            norms: 1,
            qkv_bias: true,
            output_bias: true,
            mlp_bias: true,
            head_bias: true,
            ..biased
        },
        "starcoder2" => {
            let bias = text.flag("use_bias")?.unwrap_or(true);
            Style {
                qkv_bias: bias,
                output_bias: bias,
                mlp_bias: bias,
                tied: true,
                ..biased
            }
        }
        "nemotron" => biased,
        "jais2" => {
            let bias = text.flag("attention_bias")?.unwrap_or(true);
            Style {
                qkv_bias: bias,
                output_bias: bias,
                mlp_bias: text.flag("mlp_bias")?.unwrap_or(true),
                ..biased
            }
        }
        _ => return Ok(None),
    }))
}

fn norm_if(normed: bool, norm: QueryKeyNorm) -> QueryKeyNorm {
    if normed { norm } else { QueryKeyNorm::None }
}
