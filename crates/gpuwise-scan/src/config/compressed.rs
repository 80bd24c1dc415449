//! DeepSeek-V4: a local window and compressed entries beyond it, and several residual streams.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{ExpertShape, experts, layer, norms, push},
    common::Common,
};
use gpuwise_domain::model::{Layer, LayerRun, Mixer, Role, Split, Tensor};
use gpuwise_units::Tokens;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    (model_type == "deepseek_v4").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let streams = text.count(&["hc_mult"])?.unwrap_or(4);
    let ratios = compression_ratios(context, common.count)?;
    let mut layers = Vec::new();
    for ratio in &ratios {
        push(
            &mut layers,
            compressed_layer(context, hidden, streams, *ratio)?,
        );
    }
    let rotary = text.count(&["qk_rope_head_dim"])?.unwrap_or(64);
    let mut parts = common.parts(context, layers, rotary);
    parts.outside.push(Tensor::matrix(
        "hc_head.fn",
        Role::Router,
        streams,
        streams * hidden,
        Split::Replicated,
    ));
    parts
        .outside
        .push(Tensor::vector("hc_head.base", Role::Router, streams + 1));
    let predicted = text.count_or_zero(&["num_nextn_predict_layers"])?;
    if let Some(count) = predicted.filter(|count| (1..=16).contains(count)) {
        let mut one = compressed_layer(context, hidden, streams, 0)?;
        one.tensors.push(Tensor::matrix(
            "eh_proj",
            Role::MlpUp,
            hidden,
            2 * hidden,
            Split::Replicated,
        ));
        parts.prediction.push(LayerRun { count, layer: one });
    }
    Ok(parts)
}

/// Tokens per compressed entry of each layer; 0 for layers that see their window only.
fn compression_ratios(context: &Context<'_>, count: u64) -> Result<Vec<u64>, ConfigError> {
    let text = context.text;
    let ratios = if let Some(types) = text.texts_of_layers("layer_types", count)? {
        types
            .iter()
            .map(|kind| match *kind {
                "compressed_sparse_attention" => 4,
                "heavily_compressed_attention" => 128,
                _ => 0,
            })
            .collect()
    } else if let Some(ratios) = text.counts_of_layers("compress_ratios", count)? {
        ratios
    } else {
        (0..count)
            .map(|index| if index < 2 || index % 2 == 1 { 128 } else { 4 })
            .collect()
    };
    Ok(ratios.into_iter().take(count as usize).collect())
}

/// What joins and parts several residual streams around a mixer or feed-forward: scores of each
/// pair of streams, and of each stream's share before and after.
pub(super) fn stream_connections(hidden: u64, streams: u64) -> [Tensor; 2] {
    let joined = (2 + streams) * streams;
    [
        Tensor::matrix(
            "hc.fn",
            Role::Router,
            joined,
            streams * hidden,
            Split::Replicated,
        )
        .times(2),
        Tensor::vector("hc.base", Role::Router, joined + 3).times(2),
    ]
}

fn compressed_layer(
    context: &Context<'_>,
    hidden: u64,
    streams: u64,
    ratio: u64,
) -> Result<Layer, ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let dim = text.need(&["head_dim"], "attention")?;
    // Overlapping windows keep two halves and are indexed; the heavy kind keeps one and is not.
    let indexed = 0 < ratio && ratio <= 8;
    let index_dim = text.count(&["index_head_dim"])?.unwrap_or(128);
    let index_heads = text.count(&["index_n_heads"])?.unwrap_or(64);
    let mut tensors = projections(context, hidden, heads, dim)?;
    if ratio > 0 {
        let halves = if indexed { 2 } else { 1 };
        let matrix = |name| {
            Tensor::matrix(
                name,
                Role::LatentDown,
                halves * dim,
                hidden,
                Split::Replicated,
            )
        };
        tensors.push(matrix("compressor.kv"));
        tensors.push(matrix("compressor.gate"));
        tensors.push(Tensor::vector(
            "compressor.bias",
            Role::AttentionOther,
            ratio * halves * dim + dim,
        ));
    }
    if indexed {
        tensors.extend(indexer(context, hidden, ratio, [index_heads, index_dim])?);
    }
    tensors.extend(stream_connections(hidden, streams));
    let mixer = Mixer::Compressed {
        heads,
        dim,
        window: Tokens(text.length(&["sliding_window"])?.unwrap_or(128)),
        ratio,
        index_heads: if indexed { index_heads } else { 0 },
        index_dim: if indexed { index_dim } else { 0 },
        top_entries: if indexed {
            text.length(&["index_topk"])?.unwrap_or(512)
        } else {
            0
        },
    };
    let width = text.need(&["moe_intermediate_size"], "width of an expert")?;
    let count = text.need(&["n_routed_experts"], "number of experts")?;
    let chosen = text.need(
        &["num_experts_per_tok"],
        "number of experts that work on a token",
    )?;
    let feed_forward = experts(&ExpertShape {
        shared_width: text.count_or_zero(&["n_shared_experts"])?.unwrap_or(1) * width,
        ..ExpertShape::new(hidden, count, chosen, width).checked("num_experts_per_tok")?
    });
    Ok(layer((mixer, tensors), feed_forward, norms(2, 1, hidden)))
}

/// Query through a latent, one key-value head for all, and a grouped output through another latent.
fn projections(
    context: &Context<'_>,
    hidden: u64,
    heads: u64,
    dim: u64,
) -> Result<Vec<Tensor>, ConfigError> {
    let text = context.text;
    let rank = text.need(&["q_lora_rank"], "query heads")?;
    let groups = text.count(&["o_groups"])?.unwrap_or(8);
    let output_rank = groups * text.count(&["o_lora_rank"])?.unwrap_or(1024);
    let matrix =
        |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    Ok(vec![
        matrix(
            "q_a_proj",
            Role::LatentDown,
            rank,
            hidden,
            Split::Replicated,
        ),
        matrix(
            "q_b_proj",
            Role::LatentQuery,
            heads * dim,
            rank,
            Split::Output(heads),
        ),
        matrix("kv_proj", Role::LatentDown, dim, hidden, Split::Replicated),
        matrix(
            "o_a_proj",
            Role::LatentQuery,
            output_rank,
            heads * dim / groups,
            Split::Output(groups),
        ),
        matrix(
            "o_b_proj",
            Role::AttentionOutput,
            hidden,
            output_rank,
            Split::Input(groups),
        ),
        Tensor::vector(
            "attention.vectors",
            Role::AttentionOther,
            rank + dim + heads,
        ),
    ])
}

fn indexer(
    context: &Context<'_>,
    hidden: u64,
    ratio: u64,
    [heads, dim]: [u64; 2],
) -> Result<Vec<Tensor>, ConfigError> {
    let text = context.text;
    let rank = text.need(&["q_lora_rank"], "query heads")?;
    let matrix =
        |name, rows, columns| Tensor::matrix(name, Role::Indexer, rows, columns, Split::Replicated);
    Ok(vec![
        matrix("indexer.kv", 2 * dim, hidden),
        matrix("indexer.gate", 2 * dim, hidden),
        matrix("indexer.q_b", heads * dim, rank),
        matrix("indexer.weights", heads, hidden),
        Tensor::vector("indexer.bias", Role::AttentionOther, ratio * 2 * dim + dim),
    ])
}
