//! Decoders from before Llama: learned or rotary positions, LayerNorm, plain feed-forwards.

use super::{
    ConfigError, Context, Parts,
    build::{AttentionShape, OutputGate, QueryKeyNorm, attention, dense, layer, norms, outside, push},
};
use gpuwise_domain::model::{Role, Split, Tensor, Window};

type Reader = fn(&Context<'_>) -> Result<Parts, ConfigError>;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "gpt2" | "gptj" | "gpt_neox" | "gpt_neo" | "bloom" | "opt" | "falcon" | "RefinedWeb" | "RefinedWebModel"
        | "mpt" | "gpt_bigcode" | "codegen" => Some(read),
        _ => None,
    }
}

/// The dimensions and the differences that count.
#[derive(Debug, Clone, Copy)]
struct Classic {
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    width: u64,
    vocabulary: u64,
    tied: bool,
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
    context: Option<u64>,
    /// Width of the word embedding, where it differs and is projected.
    projected: Option<u64>,
    final_norm: bool,
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let shape = shape(context)?;
    let hidden = shape.hidden;
    if !hidden.is_multiple_of(shape.heads) {
        return Err(ConfigError::Contradiction(format!(
            "`hidden_size` {hidden} is no multiple of the {} heads",
            shape.heads
        )));
    }
    let head_dim = hidden / shape.heads;
    let mixer = attention(&AttentionShape {
        hidden,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        key_dim: head_dim,
        value_dim: head_dim,
        window: Window::Full,
        qkv_bias: shape.attention_bias,
        output_bias: shape.output_bias,
        norm: QueryKeyNorm::None,
        gate: OutputGate::None,
        sinks: false,
        keys_are_values: false,
        shares_cache: false,
    });
    let feed_forward = dense(hidden, shape.width, false, shape.mlp_bias);
    let one = layer(mixer, feed_forward, norms(shape.norms, shape.norm_parts, hidden));
    let mut layers = Vec::new();
    for _ in 0..shape.layers {
        push(&mut layers, one.clone());
    }
    let word = shape.projected.unwrap_or(hidden);
    let mut outside = outside(shape.vocabulary, word, shape.tied, 0);
    if shape.final_norm {
        outside.extend(norms(1, shape.norm_parts, hidden));
    }
    if shape.projected.is_some() {
        outside.push(Tensor::matrix("project", Role::Embedding, word, hidden, Split::Replicated).times(2));
    }
    if shape.positions > 0 {
        outside.push(Tensor::matrix("positions", Role::Position, shape.positions, hidden, Split::Replicated));
    }
    if shape.embedding_norm {
        outside.extend(norms(1, shape.norm_parts, hidden));
    }
    if shape.head_bias {
        outside.push(Tensor::vector("lm_head.bias", Role::Head, shape.vocabulary));
    }
    Ok(Parts {
        model_type: context.model_type.into(),
        hidden,
        vocabulary: shape.vocabulary,
        tied: shape.tied,
        rotary_elements: shape.rotary,
        layers,
        outside,
        prediction: Vec::new(),
        encoder: None,
        towers: Vec::new(),
        max_context: shape.context,
        assumptions: Vec::new(),
    })
}

fn shape(context: &Context<'_>) -> Result<Classic, ConfigError> {
    let text = context.text;
    let hidden = text.need(&["hidden_size", "n_embd", "d_model"], "width of the model")?;
    let heads = text.need(&["num_attention_heads", "n_head", "n_heads", "num_heads"], "attention")?;
    let context_length = text.count(&["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"])?;
    let base = Classic {
        hidden,
        layers: text.need(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"], "depth of the model")?,
        heads,
        kv_heads: heads,
        width: text
            .count(&["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"])?
            .unwrap_or(4 * hidden),
        vocabulary: text.need(&["vocab_size"], "size of the embedding")?,
        tied: context.tied(true)?,
        norms: 2,
        norm_parts: 2,
        attention_bias: true,
        output_bias: true,
        mlp_bias: true,
        positions: 0,
        embedding_norm: false,
        head_bias: false,
        rotary: 0,
        context: context_length,
        projected: None,
        final_norm: true,
    };
    let head_dim = hidden / heads;
    Ok(match context.model_type {
        "gpt2" => Classic { positions: context_length.unwrap_or(1024), ..base },
        "gpt_bigcode" => Classic {
            positions: context_length.unwrap_or(1024),
            kv_heads: if text.flag("multi_query")?.unwrap_or(true) { 1 } else { heads },
            ..base
        },
        "gpt_neo" => Classic {
            positions: context_length.unwrap_or(2048),
            attention_bias: false,
            ..base
        },
        "gptj" | "codegen" => Classic {
            norms: 1,
            attention_bias: false,
            output_bias: false,
            tied: context.tied(false)?,
            head_bias: true,
            rotary: text.count(&["rotary_dim"])?.unwrap_or(64),
            ..base
        },
        "gpt_neox" => Classic {
            tied: context.tied(false)?,
            attention_bias: text.flag("attention_bias")?.unwrap_or(true),
            output_bias: text.flag("attention_bias")?.unwrap_or(true),
            rotary: (head_dim as f64 * text.real("rotary_pct")?.unwrap_or(0.25)) as u64,
            ..base
        },
        "bloom" => Classic { embedding_norm: true, ..base },
        "opt" => opt(context, base)?,
        "mpt" => {
            let bias = text.flag("no_bias")? == Some(false);
            let ratio = text.count(&["expansion_ratio"])?.unwrap_or(4);
            let attention = text.object("attn_config")?;
            let kv = attention.map(|a| a.count(&["kv_n_heads"])).transpose()?.flatten();
            Classic {
                width: ratio * hidden,
                kv_heads: kv.unwrap_or(heads),
                norm_parts: if bias { 2 } else { 1 },
                attention_bias: bias,
                output_bias: bias,
                mlp_bias: bias,
                ..base
            }
        }
        _ => falcon(context, base)?,
    })
}

fn opt(context: &Context<'_>, base: Classic) -> Result<Classic, ConfigError> {
    let text = context.text;
    let word = text.count(&["word_embed_proj_dim"])?.unwrap_or(base.hidden);
    let before = text.flag("do_layer_norm_before")?.unwrap_or(true);
    Ok(Classic {
        // The table keeps two rows for padding.
        positions: base.context.unwrap_or(2048) + 2,
        projected: (word != base.hidden).then_some(word),
        final_norm: before,
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
        None => base.heads,
    };
    // The newer 11B has one norm in the new architecture too.
    let one_norm = text.count(&["num_ln_in_parallel_attn"])? == Some(1);
    let norms = match (new, parallel) {
        (true, _) => if one_norm { 1 } else { 2 },
        (false, true) => 1,
        (false, false) => 2,
    };
    Ok(Classic {
        kv_heads,
        norms,
        attention_bias: bias,
        output_bias: bias,
        mlp_bias: bias,
        rotary: if text.is("alibi")? { 0 } else { base.hidden / base.heads },
        ..base
    })
}
