//! Decoders of the common form: attention and a feed-forward in every layer, with the small
//! differences between families.

use super::{
    ConfigError, Context, Parts,
    build::{
        AttentionShape, ExpertShape, OutputGate, QueryKeyNorm, attention, dense, experts, layer, norms, outside, push,
    },
};
use gpuwise_domain::model::{FeedForward, Role, Tensor, Window};
use gpuwise_units::Tokens;

/// What distinguishes one family from Llama.
#[derive(Debug, Clone, Copy)]
struct Style {
    /// Vectors of a norm: 1 scale, 2 scale and bias, 0 none.
    norm_parts: u64,
    /// Norms of a layer.
    norms: u64,
    qkv_bias: bool,
    output_bias: bool,
    mlp_bias: bool,
    gated: bool,
    query_key_norm: QueryKeyNorm,
    gate: OutputGate,
    sinks: bool,
    tied: bool,
    head_bias: bool,
    known: bool,
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

fn style(context: &Context<'_>) -> Result<Style, ConfigError> {
    let text = context.text;
    let attention_bias = text.is("attention_bias")?;
    let base = Style {
        qkv_bias: attention_bias,
        output_bias: attention_bias,
        mlp_bias: text.is("mlp_bias")?,
        ..LLAMA
    };
    let per_head = Style {
        query_key_norm: QueryKeyNorm::PerHead,
        ..base
    };
    Ok(match context.model_type {
        "llama" | "mistral" | "mixtral" | "ministral" | "ministral3" | "granite" | "granitemoe" | "granitemoeshared"
        | "smollm3" | "phi3" | "phi3_v" | "internlm3" | "jais2" | "llama4_text" | "mllama_text_model" | "helium"
        | "diffllama" | "exaone" | "deepseek" | "longcat" | "nemotron-nas" | "deci" | "deepseek_v1" | "aquila"
        | "baichuan" | "yi" | "mistral3" | "csm" | "bitnet" => base,
        "internlm2" => Style { qkv_bias: text.is("bias")?, output_bias: text.is("bias")?, ..base },
        "qwen2" | "qwen2_moe" | "qwen2_vl" | "qwen2_5_vl" | "qwen2_vl_text" | "qwen2_5_vl_text" | "mimo"
        | "qwen2_audio_encoder" => Style {
            qkv_bias: true,
            output_bias: false,
            ..base
        },
        "qwen" => Style { qkv_bias: true, output_bias: false, ..base },
        "chatglm" => Style {
            qkv_bias: text.flag("add_qkv_bias")?.unwrap_or(true),
            output_bias: false,
            ..base
        },
        "glm" => Style { qkv_bias: attention_bias, output_bias: false, ..base },
        "glm4" => Style {
            qkv_bias: attention_bias,
            output_bias: false,
            norms: 4,
            ..base
        },
        "glm4_moe" | "glm4v_moe_text" => Style {
            output_bias: false,
            query_key_norm: if text.is("use_qk_norm")? { QueryKeyNorm::PerHead } else { QueryKeyNorm::None },
            ..base
        },
        "glm4v_text" => Style { qkv_bias: attention_bias, output_bias: false, norms: 4, ..base },
        "seed_oss" => Style {
            qkv_bias: text.flag("attention_bias")?.unwrap_or(true),
            output_bias: text.is("attention_out_bias")?,
            ..base
        },
        "qwen3" | "qwen3_moe" | "qwen3_vl_text" | "qwen3_vl_moe_text" | "qwen3_omni_moe_text" | "hunyuan_v1_dense"
        | "hunyuan_v1_moe" | "exaone_moe" => per_head,
        "dots1" => per_head,
        "gemma" => Style { tied: true, ..base },
        "gemma2" => Style { norms: 4, tied: true, ..base },
        "gemma3_text" | "gemma3" => Style { norms: 4, tied: true, ..per_head },
        "olmo" => Style { norm_parts: 0, ..base },
        "olmo2" | "olmo3" => Style { query_key_norm: QueryKeyNorm::Full, ..base },
        "olmoe" | "flex_olmo" => Style { query_key_norm: QueryKeyNorm::Full, ..base },
        "minimax_m2" => Style { query_key_norm: QueryKeyNorm::Full, ..base },
        "exaone4" => Style { ..per_head },
        "cohere" => Style {
            norms: 1,
            tied: true,
            query_key_norm: if text.is("use_qk_norm")? { QueryKeyNorm::EachHead } else { QueryKeyNorm::None },
            ..base
        },
        "cohere2" => Style { norms: 1, tied: true, ..base },
        "phimoe" => Style {
            norm_parts: 2,
            head_bias: text.is("lm_head_bias")?,
            ..base
        },
        "phi" => Style {
            norm_parts: 2,
            norms: 1,
            qkv_bias: true,
            output_bias: true,
            mlp_bias: true,
            gated: false,
            head_bias: true,
            query_key_norm: QueryKeyNorm::None,
            ..base
        },
        "stablelm" => Style {
            norm_parts: 2,
            norms: if text.is("use_parallel_residual")? { 1 } else { 2 },
            qkv_bias: text.is("use_qkv_bias")?,
            output_bias: false,
            ..base
        },
        "starcoder2" => {
            let bias = text.flag("use_bias")?.unwrap_or(true);
            Style {
                norm_parts: 2,
                qkv_bias: bias,
                output_bias: bias,
                mlp_bias: bias,
                gated: false,
                tied: true,
                ..base
            }
        }
        "nemotron" => Style { norm_parts: 2, gated: false, ..base },
        "arcee" => Style { gated: false, ..base },
        "apertus" => Style { gated: false, ..per_head },
        "gpt_oss" => Style {
            qkv_bias: text.flag("attention_bias")?.unwrap_or(true),
            output_bias: text.flag("attention_bias")?.unwrap_or(true),
            sinks: true,
            ..base
        },
        "ernie4_5" | "ernie4_5_moe" => Style {
            qkv_bias: text.is("use_bias")?,
            output_bias: text.is("use_bias")?,
            mlp_bias: text.is("use_bias")?,
            tied: true,
            ..base
        },
        "persimmon" => Style { norm_parts: 2, qkv_bias: true, output_bias: true, mlp_bias: true, gated: false, ..base },
        "step3p5" | "step3p7" | "step3p7_text" => Style {
            gate: OutputGate::PerHead,
            ..per_head
        },
        "minimax_m3" | "minimax_m3_text" | "minimax_m3_vl_text" => per_head,
        "mimo_v2_flash" => base,
        _ => Style { known: false, ..base },
    })
}

pub(super) fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let style = style(context)?;
    let hidden = text.need(&["hidden_size", "n_embd", "d_model", "dim"], "width of the model")?;
    let count = text.need(&["num_hidden_layers", "num_layers", "n_layer", "n_layers"], "depth of the model")?;
    let mut vocabulary = text.need(&["vocab_size", "padded_vocab_size"], "size of the embedding")?;
    let tied = context.tied(style.tied)?;
    let mut assumptions = Vec::new();
    if context.model_type == "step3p7" {
        // The reference reads a flat configuration of this composite type with its class default.
        assumptions.push(format!("vocabulary of 128815, the class default, instead of {vocabulary}"));
        vocabulary = 128_815;
    }
    if !style.known {
        assumptions.push(format!(
            "model_type {:?} is not known: read as a Llama-like decoder from its usual fields",
            context.model_type
        ));
    }
    let plan = Plan::read(context, hidden, count)?;
    let mut layers = Vec::new();
    for index in 0..count {
        let mixer = attention_of(context, &style, &plan, index)?;
        let feed_forward = feed_forward_of(context, &style, hidden, index)?;
        let mut one = layer_or_skip(mixer, feed_forward, &style, hidden);
        if let Some(indexer) = minimax_indexer(context, index)? {
            one.tensors.extend(indexer);
        }
        push(&mut layers, one);
    }
    let mut outside = outside(vocabulary, hidden, tied, style.norm_parts.min(2));
    if style.head_bias {
        outside.push(Tensor::vector("lm_head.bias", Role::Head, vocabulary));
    }
    let prediction = prediction(context, &style, &plan, hidden)?;
    Ok(Parts {
        model_type: context.model_type.into(),
        hidden,
        vocabulary,
        tied,
        rotary_elements: plan.rotary_elements,
        layers,
        outside,
        prediction,
        encoder: None,
        towers: Vec::new(),
        max_context: text.count(&["max_position_embeddings", "seq_length", "max_sequence_length", "model_max_length"])?,
        assumptions,
    })
}

type Mixed = Option<(gpuwise_domain::model::Mixer, Vec<Tensor>)>;
type Fed = Option<(FeedForward, Vec<Tensor>)>;

fn layer_or_skip(mixer: Mixed, feed_forward: Fed, style: &Style, hidden: u64) -> gpuwise_domain::model::Layer {
    // A block that pruning removed takes its norm along.
    let present = u64::from(mixer.is_some()) + u64::from(feed_forward.is_some());
    let count = if present == 2 { style.norms } else { present };
    layer(
        mixer.unwrap_or((gpuwise_domain::model::Mixer::None, Vec::new())),
        feed_forward.unwrap_or((FeedForward::None, Vec::new())),
        norms(count, style.norm_parts, hidden),
    )
}

/// Head counts and windows, which may differ from layer to layer.
#[derive(Debug)]
struct Plan<'a> {
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    value_dim: u64,
    rotary_elements: u64,
    window: Option<u64>,
    types: Option<Vec<&'a str>>,
    /// Layers in a period of which the last sees everything.
    period: Option<u64>,
}

impl<'a> Plan<'a> {
    fn read(context: &Context<'a>, hidden: u64, count: u64) -> Result<Self, ConfigError> {
        let text = context.text;
        let heads = text.need(&["num_attention_heads", "n_head", "n_heads", "num_heads"], "attention")?;
        let stated_kv = text.count(&["num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"])?;
        let kv_heads = stated_kv.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(ConfigError::Contradiction(format!(
                "`num_key_value_heads` {kv_heads} does not divide `num_attention_heads` {heads}"
            )));
        }
        let head_dim = match text.count(&["head_dim", "kv_channels", "attention_head_dim"])? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(ConfigError::Contradiction(format!(
                    "`hidden_size` {hidden} is no multiple of `num_attention_heads` {heads}, and `head_dim` is not given"
                )));
            }
        };
        let value_dim = text.count(&["v_head_dim"])?.unwrap_or(head_dim);
        let types = text.texts("layer_types")?;
        if let Some(types) = &types
            && (types.len() as u64) < count
        {
            return Err(ConfigError::Contradiction(format!(
                "`layer_types` lists {} layers, `num_hidden_layers` says {count}",
                types.len()
            )));
        }
        let rotary = text.real("partial_rotary_factor")?.unwrap_or(1.0).min(1.0);
        let mut plan = Self {
            heads,
            kv_heads,
            head_dim,
            value_dim,
            rotary_elements: (head_dim as f64 * rotary) as u64,
            window: text.count_or_zero(&["sliding_window", "sliding_window_size"])?.filter(|w| *w > 0),
            types,
            period: None,
        };
        plan.window_rule(context)?;
        Ok(plan)
    }

    /// Which layers slide, where `layer_types` does not say.
    fn window_rule(&mut self, context: &Context<'a>) -> Result<(), ConfigError> {
        let text = context.text;
        let reach = text.count(&["max_position_embeddings"])?.unwrap_or(u64::MAX);
        let switched_off = text.flag("use_sliding_window")? == Some(false);
        // Phi-3's mask slides, but the cache that engines keep does not.
        let mask_only = matches!(context.model_type, "phi3" | "phi3_v" | "phi" | "phimoe");
        if switched_off || mask_only || self.window.is_some_and(|w| w > reach) {
            self.window = None;
        }
        let stated = match text.raw("sliding_window_pattern") {
            Some(serde_json::Value::Number(_)) => text.count(&["sliding_window_pattern"])?,
            _ => text.count(&["_sliding_window_pattern"])?,
        };
        self.period = match context.model_type {
            "gemma2" => Some(2),
            "gemma3_text" | "gemma3" => Some(stated.unwrap_or(6)),
            "cohere2" | "exaone4" | "olmo3" => Some(stated.unwrap_or(4)),
            "gpt_oss" => Some(2),
            _ => stated,
        };
        if context.model_type == "gemma2" && self.window.is_none() {
            self.window = Some(4096);
        }
        Ok(())
    }

    fn window(&self, context: &Context<'_>, index: u64) -> Result<Window, ConfigError> {
        let text = context.text;
        if context.model_type == "llama4_text" {
            let chunk = text.count(&["attention_chunk_size"])?.unwrap_or(8192);
            let step = text.count(&["no_rope_layer_interval"])?.unwrap_or(4);
            let full = match text.counts("no_rope_layers")? {
                Some(rope) if !rope.is_empty() => rope.get(index as usize) == Some(&0),
                _ => (index + 1).is_multiple_of(step),
            };
            return Ok(if full { Window::Full } else { Window::Chunked(Tokens(chunk)) });
        }
        if let Some(kind) = self.types.as_ref().and_then(|types| types.get(index as usize)) {
            let sliding = matches!(*kind, "sliding_attention" | "chunked_attention" | "local_attention");
            return Ok(match self.window {
                Some(window) if sliding => Window::Sliding(Tokens(window)),
                _ => Window::Full,
            });
        }
        let Some(window) = self.window else { return Ok(Window::Full) };
        if let Some(pattern) = text.counts("hybrid_layer_pattern")? {
            let sliding = pattern.get(index as usize) == Some(&1);
            return Ok(if sliding { Window::Sliding(Tokens(window)) } else { Window::Full });
        }
        if let Some(period) = self.period {
            let full = (index + 1).is_multiple_of(period.max(1));
            return Ok(if full { Window::Full } else { Window::Sliding(Tokens(window)) });
        }
        let from = text.count_or_zero(&["max_window_layers"])?.unwrap_or(0);
        let qwen = context.model_type.starts_with("qwen");
        Ok(if qwen && index < from { Window::Full } else { Window::Sliding(Tokens(window)) })
    }
}

fn attention_of(context: &Context<'_>, style: &Style, plan: &Plan<'_>, index: u64) -> Result<Mixed, ConfigError> {
    let text = context.text;
    let window = plan.window(context, index)?;
    let hidden = text.need(&["hidden_size", "n_embd", "d_model", "dim"], "width of the model")?;
    let mut shape = AttentionShape {
        hidden,
        heads: plan.heads,
        kv_heads: plan.kv_heads,
        key_dim: plan.head_dim,
        value_dim: plan.value_dim,
        window,
        qkv_bias: style.qkv_bias,
        output_bias: style.output_bias,
        norm: style.query_key_norm,
        gate: style.gate,
        sinks: style.sinks,
        keys_are_values: false,
        shares_cache: false,
    };
    if let Some(block) = block_config(context, index)? {
        match block.attention_kv_heads {
            None => return Ok(None),
            Some(group) if group > 0 => shape.kv_heads = (plan.heads / group).max(1),
            Some(_) => {}
        }
    }
    if let Some(per_layer) = text.counts("num_key_value_heads_per_layer")?
        && let Some(own) = per_layer.get(index as usize)
    {
        shape.kv_heads = *own;
    }
    if context.model_type == "mimo_v2_flash" && matches!(window, Window::Sliding(_)) {
        shape.heads = text.count(&["swa_num_attention_heads"])?.unwrap_or(shape.heads);
        shape.kv_heads = text.count(&["swa_num_key_value_heads"])?.unwrap_or(shape.kv_heads);
        shape.key_dim = text.count(&["swa_head_dim"])?.unwrap_or(shape.key_dim);
        shape.value_dim = text.count(&["swa_v_head_dim"])?.unwrap_or(shape.value_dim);
        shape.sinks = text.is("add_swa_attention_sink_bias")?;
    }
    if shape.kv_heads == 0 || !shape.heads.is_multiple_of(shape.kv_heads) {
        return Err(ConfigError::Contradiction(format!(
            "layer {index}: {} key-value heads do not divide {} heads",
            shape.kv_heads, shape.heads
        )));
    }
    Ok(Some(attention(&shape)))
}

/// One entry of `block_configs`, as searched architectures (Puzzle) have them.
struct BlockConfig {
    /// Query heads per key-value head; `None` where the attention was removed.
    attention_kv_heads: Option<u64>,
    /// Factor on the width; `None` where the feed-forward was removed.
    ffn_factor: Option<f64>,
}

fn block_config(context: &Context<'_>, index: u64) -> Result<Option<BlockConfig>, ConfigError> {
    let Some(blocks) = context.text.list("block_configs")? else { return Ok(None) };
    let Some(block) = blocks.get(index as usize) else {
        return Err(ConfigError::Contradiction(format!(
            "`block_configs` lists {} layers, fewer than `num_hidden_layers`",
            blocks.len()
        )));
    };
    let gone = |part: &serde_json::Value| {
        ["no_op", "replace_with_linear"]
            .iter()
            .any(|key| part.get(key).and_then(serde_json::Value::as_bool) == Some(true))
    };
    let attention = &block["attention"];
    let ffn = &block["ffn"];
    let group = attention["n_heads_in_group"].as_u64().unwrap_or(0);
    Ok(Some(BlockConfig {
        attention_kv_heads: (!gone(attention)).then_some(group),
        ffn_factor: (!gone(ffn)).then(|| ffn["ffn_mult"].as_f64().unwrap_or(0.0)),
    }))
}

fn feed_forward_of(context: &Context<'_>, style: &Style, hidden: u64, index: u64) -> Result<Fed, ConfigError> {
    if let Some(block) = block_config(context, index)? {
        let Some(factor) = block.ffn_factor else { return Ok(None) };
        // The reference rounds 2/3 of 4 × hidden × factor up to a multiple of 256.
        let wanted = (2.0 * factor * hidden as f64 / 3.0) as u64;
        return Ok(Some(dense(hidden, wanted.div_ceil(256) * 256, true, false)));
    }
    if let Some(shape) = expert_shape(context, style, hidden, index)? {
        return Ok(Some(experts(&shape)));
    }
    let text = context.text;
    let width = match context.model_type {
        "llama4_text" => text.count(&["intermediate_size_mlp", "intermediate_size"])?,
        "minimax_m3" | "minimax_m3_text" => text.count(&["dense_intermediate_size", "intermediate_size"])?,
        "granitemoeshared" | "granitemoehybrid" => text.count(&["shared_intermediate_size", "intermediate_size"])?,
        "qwen" => text.count(&["intermediate_size"])?.map(|both| both / 2),
        _ => text.count(&["intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "hidden_dim"])?,
    };
    let width = width.ok_or(ConfigError::Missing {
        field: "intermediate_size",
        purpose: "width of the feed-forward",
    })?;
    Ok(Some(dense(hidden, width, style.gated, style.mlp_bias)))
}

/// The experts of a layer, or `None` where it is dense.
pub(super) fn expert_shape_plain(context: &Context<'_>, hidden: u64, index: u64) -> Result<Option<ExpertShape>, ConfigError> {
    expert_shape(context, &LLAMA, hidden, index)
}

fn expert_shape(
    context: &Context<'_>,
    style: &Style,
    hidden: u64,
    index: u64,
) -> Result<Option<ExpertShape>, ConfigError> {
    let text = context.text;
    let counted = text.count_or_zero(&[
        "num_local_experts",
        "n_routed_experts",
        "num_experts",
        "moe_num_experts",
        "num_routed_experts",
    ])?;
    let count = match counted {
        Some(count) if count > 0 => count,
        _ => return Ok(None),
    };
    if count == 1 || !is_sparse(context, index)? {
        return Ok(None);
    }
    let chosen = text
        .count(&[
            "num_experts_per_tok",
            "experts_per_token",
            "num_experts_per_token",
            "moe_top_k",
            "top_k_experts",
            "moe_k",
            "moe_topk",
            "num_selected_experts",
        ])?
        .ok_or(ConfigError::Missing {
            field: "num_experts_per_tok",
            purpose: "number of experts that work on a token",
        })?;
    if chosen > count {
        return Err(ConfigError::Contradiction(format!(
            "`num_experts_per_tok` {chosen} is more than the {count} experts"
        )));
    }
    let width = text
        .count(&["moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"])?
        .ok_or(ConfigError::Missing {
            field: "moe_intermediate_size",
            purpose: "width of an expert",
        })?;
    let gpt_oss = context.model_type == "gpt_oss";
    Ok(Some(ExpertShape {
        hidden,
        count,
        chosen,
        width,
        input: hidden,
        gated: style.gated,
        shared_width: shared_width(context, width)?,
        shared_gate: matches!(context.model_type, "qwen2_moe" | "qwen3_next" | "qwen3_5_moe_text"),
        router_bias: gpt_oss,
        expert_bias: gpt_oss,
    }))
}

fn shared_width(context: &Context<'_>, width: u64) -> Result<u64, ConfigError> {
    let text = context.text;
    if context.model_type == "llama4_text" {
        return Ok(width);
    }
    if let Some(stated) = text.count_or_zero(&[
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
    ])? {
        return Ok(stated);
    }
    if matches!(context.model_type, "granitemoeshared" | "granitemoehybrid") {
        return Ok(text.count_or_zero(&["shared_intermediate_size"])?.unwrap_or(0));
    }
    let number = text.count_or_zero(&["n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"])?;
    Ok(number.unwrap_or(0) * width)
}

/// Whether a layer of a mixture-of-experts model has experts, by the many ways of saying so.
fn is_sparse(context: &Context<'_>, index: u64) -> Result<bool, ConfigError> {
    let text = context.text;
    if let Some(types) = text.texts("mlp_layer_types")? {
        return Ok(types.get(index as usize).is_none_or(|kind| *kind == "sparse"));
    }
    if let Some(dense_layers) = text.counts("mlp_only_layers")?
        && dense_layers.contains(&index)
    {
        return Ok(false);
    }
    if let Some(moe_layers) = text.counts("moe_layers")?
        && !moe_layers.is_empty()
    {
        return Ok(moe_layers.contains(&index));
    }
    let first_dense = match text.count_or_zero(&["first_k_dense_replace", "moe_layer_start_index"])? {
        Some(first) => first,
        None if matches!(context.model_type, "step3p5" | "step3p7") => 3,
        None => 0,
    };
    if index < first_dense {
        return Ok(false);
    }
    if let Some(last) = text.count_or_zero(&["moe_layer_end_index"])?
        && index > last
    {
        return Ok(false);
    }
    if let Some(pattern) = text.raw("moe_layer_freq") {
        if pattern.is_array() {
            let pattern = text.counts("moe_layer_freq")?.unwrap_or_default();
            return Ok(pattern.get(index as usize).is_none_or(|sparse| *sparse > 0));
        }
        let every = text.count(&["moe_layer_freq"])?.unwrap_or(1);
        return Ok(index.is_multiple_of(every));
    }
    let step = text.count(&["interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval"])?;
    Ok((index + 1).is_multiple_of(step.unwrap_or(1)))
}

/// MiniMax-M3's block selection: a small query and key per sparse layer.
fn minimax_indexer(context: &Context<'_>, index: u64) -> Result<Option<Vec<Tensor>>, ConfigError> {
    let text = context.text;
    let Some(sparse) = text.object("sparse_attention_config")? else { return Ok(None) };
    let pattern = sparse.counts("sparse_attention_freq")?.unwrap_or_default();
    if pattern.get(index as usize).copied().unwrap_or(1) == 0 {
        return Ok(None);
    }
    let hidden = text.need(&["hidden_size"], "width of the model")?;
    let heads = sparse.count(&["sparse_num_index_heads"])?.unwrap_or(4);
    let dim = sparse.count(&["sparse_index_dim"])?.unwrap_or(128);
    let split = gpuwise_domain::model::Split::Replicated;
    Ok(Some(vec![
        Tensor::matrix("index_q_proj", Role::Indexer, heads * dim, hidden, split),
        Tensor::matrix("index_k_proj", Role::Indexer, dim, hidden, split),
        Tensor::vector("index_norms", Role::Indexer, dim).times(2),
    ]))
}

/// Multi-token-prediction layers: a projection of two streams into one, and a layer.
fn prediction(
    context: &Context<'_>,
    style: &Style,
    plan: &Plan<'_>,
    hidden: u64,
) -> Result<Vec<gpuwise_domain::model::LayerRun>, ConfigError> {
    let text = context.text;
    let count = text.count_or_zero(&["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"])?;
    let Some(count) = count.filter(|c| *c > 0 && *c <= 16) else { return Ok(Vec::new()) };
    let last = text
        .count(&["num_hidden_layers"])?
        .map_or(0, |layers| layers.saturating_sub(1));
    let mixer = attention_of(context, style, plan, last)?;
    let feed_forward = feed_forward_of(context, style, hidden, last)?;
    let mut one = layer_or_skip(mixer, feed_forward, style, hidden);
    one.tensors.push(Tensor::matrix(
        "eh_proj",
        Role::MlpUp,
        hidden,
        2 * hidden,
        gpuwise_domain::model::Split::Replicated,
    ));
    one.tensors.extend(norms(3, style.norm_parts, hidden));
    Ok(vec![gpuwise_domain::model::LayerRun { count, layer: one }])
}
