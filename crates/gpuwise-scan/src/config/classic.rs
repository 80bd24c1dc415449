//! Decoders from before Llama: learned or rotary positions, LayerNorm, plain feed-forwards.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{AttentionShape, attention, dense, layer, norms, outside, push},
    common::{Common, Heads},
};
use gpuwise_domain::model::{Role, Split, Tensor, Window};
use gpuwise_units::Tokens;
use serde_json::Value;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "gpt2" | "gptj" | "gpt_neox" | "gpt_neo" | "bloom" | "opt" | "falcon" | "RefinedWeb"
        | "RefinedWebModel" | "mpt" | "gpt_bigcode" | "codegen" => Some(read),
        _ => None,
    }
}

/// The dimensions and the differences that count.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a tensor is there, independently of the others"
)]
struct Classic {
    common: Common,
    heads: Heads,
    width: u64,
    /// Norms of a layer, and vectors of each.
    norms: u64,
    norm_parts: u64,
    attention_bias: bool,
    output_bias: bool,
    mlp_bias: bool,
    /// Rows of a learned position table.
    positions: u64,
    /// Norm after the embedding.
    embedding_norm: bool,
    head_bias: bool,
    rotary: u64,
    /// Width of the word embedding, where it differs and is projected.
    projected: Option<u64>,
    final_norm: bool,
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let shape = shape(context)?;
    let common = shape.common;
    let hidden = common.hidden;
    let mut layers = Vec::new();
    for index in 0..common.count {
        let mixer = attention(&AttentionShape {
            window: window(context, index)?,
            qkv_bias: shape.attention_bias,
            output_bias: shape.output_bias,
            ..shape.heads.shape(hidden)
        });
        let feed_forward = dense(hidden, shape.width, false, shape.mlp_bias);
        push(
            &mut layers,
            layer(
                mixer,
                feed_forward,
                norms(shape.norms, shape.norm_parts, hidden),
            ),
        );
    }
    let mut parts = common.parts(context, layers, shape.rotary);
    let word = shape.projected.unwrap_or(hidden);
    let mut outside = outside(common.vocabulary, word, common.tied, 0);
    if shape.final_norm {
        outside.extend(norms(1, shape.norm_parts, hidden));
    }
    if shape.projected.is_some() {
        let split = Split::Replicated;
        outside.push(Tensor::matrix(
            "project_in",
            Role::Embedding,
            hidden,
            word,
            split,
        ));
        outside.push(Tensor::matrix(
            "project_out",
            Role::Embedding,
            word,
            hidden,
            split,
        ));
    }
    if shape.positions > 0 {
        outside.push(Tensor::matrix(
            "positions",
            Role::Position,
            shape.positions,
            hidden,
            Split::Replicated,
        ));
    }
    if shape.embedding_norm {
        outside.extend(norms(1, shape.norm_parts, hidden));
    }
    if shape.head_bias {
        outside.push(Tensor::vector(
            "lm_head.bias",
            Role::Head,
            common.vocabulary,
        ));
    }
    parts.outside = outside;
    Ok(parts)
}

/// GPT-Neo's layers see everything and a window in turns, listed as `[[["global", "local"], 12]]`.
fn window(context: &Context<'_>, index: u64) -> Result<Window, ConfigError> {
    let text = context.text;
    if context.model_type != "gpt_neo" {
        return Ok(Window::Full);
    }
    let size = Tokens(text.length(&["window_size"])?.unwrap_or(256));
    let mut kinds: Vec<&str> = Vec::new();
    for turn in text.list("attention_types")?.unwrap_or_default() {
        let names: Vec<&str> = turn[0]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let repeated = turn[1].as_u64().unwrap_or(0);
        for _ in 0..repeated.min(1000) {
            kinds.extend(&names);
        }
    }
    let local = match kinds.get(index as usize) {
        Some(kind) => *kind == "local",
        None if kinds.is_empty() => index % 2 == 1,
        None => {
            return Err(ConfigError::Contradiction(format!(
                "`attention_types` describes {} layers, fewer than `num_layers`: expected one for each",
                kinds.len()
            )));
        }
    };
    Ok(if local {
        Window::Sliding(size)
    } else {
        Window::Full
    })
}

/// The dimensions, with the differences that most have.
fn base(context: &Context<'_>) -> Result<Classic, ConfigError> {
    let text = context.text;
    let mut common = Common::read(context, true)?;
    let hidden = common.hidden;
    let heads = Heads::read(context, hidden)?;
    common.context = text.length(&[
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "n_ctx",
    ])?;
    let width = text.count(&["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"])?;
    Ok(Classic {
        common,
        heads: Heads {
            kv_heads: heads.heads,
            ..heads
        },
        width: width.unwrap_or(4 * hidden),
        norms: 2,
        norm_parts: 2,
        attention_bias: true,
        output_bias: true,
        mlp_bias: true,
        positions: 0,
        embedding_norm: false,
        head_bias: false,
        rotary: 0,
        projected: None,
        final_norm: true,
    })
}

fn shape(context: &Context<'_>) -> Result<Classic, ConfigError> {
    let text = context.text;
    let base = base(context)?;
    let Classic { common, heads, .. } = base;
    let context_length = common.context;
    Ok(match context.model_type {
        "gpt2" => Classic {
            positions: context_length.unwrap_or(1024),
            ..base
        },
        "gpt_bigcode" => {
            let multi_query = text.flag("multi_query")?.unwrap_or(true);
            Classic {
                positions: context_length.unwrap_or(1024),
                heads: with_kv_heads(base.heads, if multi_query { 1 } else { heads.heads })?,
                ..base
            }
        }
        "gpt_neo" => Classic {
            positions: context_length.unwrap_or(2048),
            attention_bias: false,
            ..base
        },
        "gptj" | "codegen" => Classic {
            common: Common {
                tied: context.tied(false)?,
                ..common
            },
            norms: 1,
            attention_bias: false,
            output_bias: false,
            head_bias: true,
            rotary: text.count(&["rotary_dim"])?.unwrap_or(64),
            ..base
        },
        "gpt_neox" => {
            let bias = text.flag("attention_bias")?.unwrap_or(true);
            Classic {
                common: Common {
                    tied: context.tied(false)?,
                    ..common
                },
                attention_bias: bias,
                output_bias: bias,
                rotary: (heads.dim as f64 * text.real("rotary_pct")?.unwrap_or(0.25)) as u64,
                ..base
            }
        }
        "bloom" => Classic {
            embedding_norm: true,
            ..base
        },
        "opt" => opt(context, base)?,
        "mpt" => mpt(context, base)?,
        _ => falcon(context, base)?,
    })
}

fn mpt(context: &Context<'_>, base: Classic) -> Result<Classic, ConfigError> {
    let text = context.text;
    let bias = text.flag("no_bias")? == Some(false);
    let ratio = text.count(&["expansion_ratio"])?.unwrap_or(4);
    let attention = text.object("attn_config")?;
    let kv_heads = attention
        .map(|a| a.count(&["kv_n_heads"]))
        .transpose()?
        .flatten();
    Ok(Classic {
        width: ratio * base.common.hidden,
        heads: with_kv_heads(base.heads, kv_heads.unwrap_or(base.heads.heads))?,
        norm_parts: if bias { 2 } else { 1 },
        attention_bias: bias,
        output_bias: bias,
        mlp_bias: bias,
        ..base
    })
}

fn with_kv_heads(heads: Heads, kv_heads: u64) -> Result<Heads, ConfigError> {
    Heads { kv_heads, ..heads }.checked("the heads, of which there are")
}

fn opt(context: &Context<'_>, base: Classic) -> Result<Classic, ConfigError> {
    let text = context.text;
    let hidden = base.common.hidden;
    let word = text.count(&["word_embed_proj_dim"])?.unwrap_or(hidden);
    Ok(Classic {
        // The table keeps two rows for padding.
        positions: base.common.context.unwrap_or(2048) + 2,
        projected: (word != hidden).then_some(word),
        final_norm: text.flag("do_layer_norm_before")?.unwrap_or(true),
        ..base
    })
}

fn falcon(context: &Context<'_>, base: Classic) -> Result<Classic, ConfigError> {
    let text = context.text;
    let new = text.is("new_decoder_architecture")?;
    let multi_query = text.flag("multi_query")?.unwrap_or(true);
    let bias = text.is("bias")?;
    let parallel = text.flag("parallel_attn")?.unwrap_or(true);
    let kv_heads = match text.count(&["num_kv_heads", "n_head_kv"])? {
        Some(stated) if new => stated,
        _ if multi_query && !new => 1,
        Some(stated) => stated,
        None => base.heads.heads,
    };
    // The newer 11B has one norm in the new architecture too.
    let one_norm = text.count(&["num_ln_in_parallel_attn"])? == Some(1);
    let single = if new { one_norm } else { parallel };
    Ok(Classic {
        heads: with_kv_heads(base.heads, kv_heads)?,
        norms: if single { 1 } else { 2 },
        attention_bias: bias,
        output_bias: bias,
        mlp_bias: bias,
        rotary: if text.is("alibi")? { 0 } else { base.heads.dim },
        ..base
    })
}
