//! Latent attention (DeepSeek, Kimi, GLM-5 …) and DeepSeek-V4's compressed attention.

use super::{
    ConfigError, Context, Parts,
    build::{ExpertShape, dense, experts, layer, norms, outside, push},
    standard,
};
use gpuwise_domain::model::{Layer, LayerRun, Mixer, Role, Split, Tensor};
use gpuwise_units::Tokens;

type Reader = fn(&Context<'_>) -> Result<Parts, ConfigError>;

pub(super) fn reader(context: &Context<'_>) -> Result<Option<Reader>, ConfigError> {
    if context.model_type == "deepseek_v4" {
        return Ok(Some(read_compressed));
    }
    let latent = context.text.count(&["kv_lora_rank"])?.is_some();
    Ok((latent && context.text.raw("linear_attn_config").is_none()).then_some(read as Reader))
}

pub(super) fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let hidden = text.need(&["hidden_size"], "width of the model")?;
    let count = text.need(&["num_hidden_layers", "num_layers"], "depth of the model")?;
    let vocabulary = text.need(&["vocab_size"], "size of the embedding")?;
    let tied = context.tied(false)?;
    let mut layers = Vec::new();
    for index in 0..count {
        push(&mut layers, latent_layer(context, hidden, index)?);
    }
    let rotary = text.count(&["qk_rope_head_dim"])?.unwrap_or(64);
    let mut prediction = Vec::new();
    if let Some(heads) = text.count_or_zero(&["num_nextn_predict_layers"])?.filter(|n| (1..=16).contains(n)) {
        let mut one = latent_layer(context, hidden, count - 1)?;
        one.tensors.push(Tensor::matrix("eh_proj", Role::MlpUp, hidden, 2 * hidden, Split::Replicated));
        one.tensors.extend(norms(3, 1, hidden));
        prediction.push(LayerRun { count: heads, layer: one });
    }
    Ok(Parts {
        model_type: context.model_type.into(),
        hidden,
        vocabulary,
        tied,
        rotary_elements: rotary,
        layers,
        outside: outside(vocabulary, hidden, tied, 1),
        prediction,
        encoder: None,
        towers: Vec::new(),
        max_context: text.count(&["max_position_embeddings"])?,
        assumptions: Vec::new(),
    })
}

fn latent_layer(context: &Context<'_>, hidden: u64, index: u64) -> Result<Layer, ConfigError> {
    let mixer = latent_attention(context, hidden, index)?;
    let feed_forward = match standard::expert_shape_plain(context, hidden, index)? {
        Some(shape) => experts(&shape),
        None => dense(
            hidden,
            context.text.need(&["intermediate_size"], "width of the feed-forward")?,
            true,
            false,
        ),
    };
    Ok(layer(mixer, feed_forward, norms(2, 1, hidden)))
}

pub(super) fn latent_attention(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let kv_rank = text.need(&["kv_lora_rank"], "latent cache")?;
    let rotary_dim = text.need(&["qk_rope_head_dim"], "latent cache")?;
    let plain_dim = text.need(&["qk_nope_head_dim"], "query heads")?;
    let value_dim = text.need(&["v_head_dim"], "value heads")?;
    let query_rank = text.count_or_zero(&["q_lora_rank"])?.filter(|rank| *rank > 0);
    let key_dim = plain_dim + rotary_dim;
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut tensors = Vec::new();
    match query_rank {
        Some(rank) => {
            tensors.push(matrix("q_a_proj", Role::LatentDown, rank, hidden, Split::Replicated));
            tensors.push(Tensor::vector("q_a_norm", Role::AttentionOther, rank));
            tensors.push(matrix("q_b_proj", Role::LatentQuery, heads * key_dim, rank, Split::Output(heads)));
        }
        None => tensors.push(matrix("q_proj", Role::Query, heads * key_dim, hidden, Split::Output(heads))),
    }
    tensors.push(matrix(
        "kv_a_proj",
        Role::LatentDown,
        kv_rank + rotary_dim,
        hidden,
        Split::Replicated,
    ));
    tensors.push(Tensor::vector("kv_a_norm", Role::AttentionOther, kv_rank));
    tensors.push(matrix(
        "kv_b_proj",
        Role::LatentKeyValue,
        heads * (plain_dim + value_dim),
        kv_rank,
        Split::Output(heads),
    ));
    tensors.push(matrix(
        "o_proj",
        Role::AttentionOutput,
        hidden,
        heads * value_dim,
        Split::Input(heads),
    ));
    let mut index_dim = 0;
    if let (Some(index_heads), Some(dim)) = (text.count(&["index_n_heads"])?, text.count(&["index_head_dim"])?) {
        index_dim = dim;
        if has_indexer(context, index)? {
            tensors.push(matrix(
                "indexer.wq_b",
                Role::Indexer,
                index_heads * dim,
                query_rank.unwrap_or(hidden),
                Split::Replicated,
            ));
            tensors.push(matrix("indexer.wk", Role::Indexer, dim, hidden, Split::Replicated));
            tensors.push(matrix("indexer.weights", Role::Indexer, index_heads, hidden, Split::Replicated));
            tensors.push(Tensor::vector("indexer.norm", Role::AttentionOther, dim).times(2));
        }
    }
    let mixer = Mixer::Latent {
        heads,
        kv_rank,
        rotary_dim,
        plain_dim,
        value_dim,
        index_dim,
        top_tokens: text.count(&["index_topk"])?.unwrap_or(0),
    };
    Ok((mixer, tensors))
}

/// Whether a layer scores its own index, or takes that of an earlier layer.
fn has_indexer(context: &Context<'_>, index: u64) -> Result<bool, ConfigError> {
    let Some(types) = context.text.texts("indexer_types")? else { return Ok(true) };
    Ok(types.get(index as usize).is_none_or(|kind| *kind == "full"))
}

fn read_compressed(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let hidden = text.need(&["hidden_size"], "width of the model")?;
    let count = text.need(&["num_hidden_layers"], "depth of the model")?;
    let vocabulary = text.need(&["vocab_size"], "size of the embedding")?;
    let tied = context.tied(false)?;
    let streams = text.count(&["hc_mult"])?.unwrap_or(4);
    let ratios = compression_ratios(context, count)?;
    let mut layers = Vec::new();
    for ratio in &ratios {
        push(&mut layers, compressed_layer(context, hidden, streams, *ratio)?);
    }
    let mut outside = outside(vocabulary, hidden, tied, 1);
    outside.push(Tensor::matrix("hc_head.fn", Role::Router, streams, streams * hidden, Split::Replicated));
    outside.push(Tensor::vector("hc_head.base", Role::Router, streams + 1));
    let mut prediction = Vec::new();
    if let Some(heads) = text.count_or_zero(&["num_nextn_predict_layers"])?.filter(|n| (1..=16).contains(n)) {
        let mut one = compressed_layer(context, hidden, streams, 0)?;
        one.tensors.push(Tensor::matrix("eh_proj", Role::MlpUp, hidden, 2 * hidden, Split::Replicated));
        prediction.push(LayerRun { count: heads, layer: one });
    }
    Ok(Parts {
        model_type: context.model_type.into(),
        hidden,
        vocabulary,
        tied,
        rotary_elements: text.count(&["qk_rope_head_dim"])?.unwrap_or(64),
        layers,
        outside,
        prediction,
        encoder: None,
        towers: Vec::new(),
        max_context: text.count(&["max_position_embeddings"])?,
        assumptions: Vec::new(),
    })
}

fn compression_ratios(context: &Context<'_>, count: u64) -> Result<Vec<u64>, ConfigError> {
    let text = context.text;
    let ratios = if let Some(types) = text.texts("layer_types")? {
        types
            .iter()
            .map(|kind| match *kind {
                "compressed_sparse_attention" => 4,
                "heavily_compressed_attention" => 128,
                _ => 0,
            })
            .collect()
    } else if let Some(ratios) = text.counts("compress_ratios")? {
        ratios
    } else {
        (0..count)
            .map(|index| if index < 2 || index % 2 == 1 { 128 } else { 4 })
            .collect()
    };
    if (ratios.len() as u64) < count {
        return Err(ConfigError::Contradiction(format!(
            "`compress_ratios` lists {} layers, `num_hidden_layers` says {count}",
            ratios.len()
        )));
    }
    Ok(ratios.into_iter().take(count as usize).collect())
}

fn compressed_layer(context: &Context<'_>, hidden: u64, streams: u64, ratio: u64) -> Result<Layer, ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let dim = text.need(&["head_dim"], "attention")?;
    let rank = text.need(&["q_lora_rank"], "query heads")?;
    let groups = text.count(&["o_groups"])?.unwrap_or(8);
    let output_rank = text.count(&["o_lora_rank"])?.unwrap_or(1024);
    let index_heads = text.count(&["index_n_heads"])?.unwrap_or(64);
    let index_dim = text.count(&["index_head_dim"])?.unwrap_or(128);
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut tensors = vec![
        matrix("q_a_proj", Role::LatentDown, rank, hidden, Split::Replicated),
        matrix("q_b_proj", Role::LatentQuery, heads * dim, rank, Split::Output(heads)),
        matrix("kv_proj", Role::LatentDown, dim, hidden, Split::Replicated),
        matrix(
            "o_a_proj",
            Role::LatentQuery,
            groups * output_rank,
            heads * dim / groups.max(1),
            Split::Output(groups),
        ),
        matrix(
            "o_b_proj",
            Role::AttentionOutput,
            hidden,
            groups * output_rank,
            Split::Input(groups),
        ),
        Tensor::vector("attention.vectors", Role::AttentionOther, rank + dim + heads),
    ];
    if ratio > 0 {
        // Overlapping windows keep two halves; the heavy kind keeps one.
        let halves = if ratio <= 8 { 2 } else { 1 };
        tensors.push(matrix("compressor.kv", Role::LatentDown, halves * dim, hidden, Split::Replicated));
        tensors.push(matrix("compressor.gate", Role::LatentDown, halves * dim, hidden, Split::Replicated));
        tensors.push(Tensor::vector("compressor.bias", Role::AttentionOther, ratio * halves * dim + dim));
    }
    let indexed = ratio > 0 && ratio <= 8;
    if indexed {
        tensors.push(matrix("indexer.kv", Role::Indexer, 2 * index_dim, hidden, Split::Replicated));
        tensors.push(matrix("indexer.gate", Role::Indexer, 2 * index_dim, hidden, Split::Replicated));
        tensors.push(matrix("indexer.q_b", Role::Indexer, index_heads * index_dim, rank, Split::Replicated));
        tensors.push(matrix("indexer.weights", Role::Indexer, index_heads, hidden, Split::Replicated));
        tensors.push(Tensor::vector(
            "indexer.bias",
            Role::AttentionOther,
            ratio * 2 * index_dim + index_dim,
        ));
    }
    let joined = (2 + streams) * streams;
    tensors.push(matrix("hc.fn", Role::Router, joined, streams * hidden, Split::Replicated).times(2));
    tensors.push(Tensor::vector("hc.base", Role::Router, joined + 3).times(2));
    let mixer = Mixer::Compressed {
        heads,
        dim,
        window: Tokens(text.count(&["sliding_window"])?.unwrap_or(128)),
        ratio,
        index_dim: if indexed { index_dim } else { 0 },
        top_entries: if indexed { text.count(&["index_topk"])?.unwrap_or(512) } else { 0 },
    };
    let width = text.need(&["moe_intermediate_size"], "width of an expert")?;
    let feed_forward = experts(&ExpertShape {
        hidden,
        count: text.need(&["n_routed_experts"], "number of experts")?,
        chosen: text.need(&["num_experts_per_tok"], "number of experts that work on a token")?,
        width,
        input: hidden,
        gated: true,
        shared_width: text.count_or_zero(&["n_shared_experts"])?.unwrap_or(1) * width,
        shared_gate: false,
        router_bias: false,
        expert_bias: false,
    });
    Ok(layer((mixer, tensors), feed_forward, norms(2, 1, hidden)))
}
