//! Roles by the names that Hugging Face checkpoints, and those of the model's own authors, use.

use super::{Place, module::Kind};
use gpuwise_domain::model::Role;
use std::collections::BTreeSet;

/// Parts of a name that begin a tower.
const TOWERS: [&str; 14] = [
    "vision_tower",
    "visual",
    "vision_model",
    "vision_encoder",
    "vision_embed_tokens",
    "vision",
    "vit",
    "image_encoder",
    "img_processor",
    "audio_tower",
    "audio_encoder",
    "audio_model",
    "embed_tokens_extend",
    "patch_embed",
];

/// Parts of a name that begin what lies between a tower and the language model.
const PROJECTORS: [&str; 22] = [
    "multi_modal_projector",
    "mm_projector",
    "projector",
    "connector",
    "merger",
    "merger_list",
    "deepstack_merger_list",
    "patch_merger",
    "embed_vision",
    "embed_audio",
    "mlp1",
    "aligner",
    "vision_projection",
    "vision_language_adapter",
    "img_projection",
    "audio_projection",
    "language_projection",
    "vision_adapter",
    "resampler",
    "perceiver_resampler",
    "image_newline",
    "pre_mm_projector_norm",
];

/// The part of a name that begins a tower of images or sound, or what lies between it and the language model.
pub fn tower(name: &str) -> Option<&str> {
    let begins = |part: &&str| TOWERS.contains(part) || PROJECTORS.contains(part);
    name.split('.').find(begins)
}

/// The module in which a recurrence runs, if this tensor shows that it does.
pub(super) fn recurrent_module(name: &str) -> Option<&str> {
    let name = name
        .strip_suffix(".weight")
        .or_else(|| name.strip_suffix(".bias"))
        .unwrap_or(name);
    let (module, leaf) = name.rsplit_once('.')?;
    match leaf {
        "A_log" | "dt_bias" | "conv1d" | "q_conv1d" | "k_conv1d" | "output_gate" | "linear_x" => {}
        // LFM2 calls the module and its convolution alike.
        "conv" if module.rsplit('.').next() == Some("conv") => {}
        _ => return None,
    }
    Some(module.strip_suffix(".forget_gate").unwrap_or(module))
}

pub(super) fn place(
    module: &str,
    kind: Kind,
    dimensions: usize,
    layers: u64,
    recurrent: &BTreeSet<&str>,
) -> Place {
    let parts: Vec<&str> = module.split('.').collect();
    let has = |part: &str| parts.contains(&part);
    let leaf = leaf(&parts);
    if has("mtp") || has("mtp_layers") || has("mtp_block") || has("nextn") {
        return Place::Prediction;
    }
    if parts.iter().any(|part| PROJECTORS.contains(part)) {
        return Place::Role(Role::Projector);
    }
    if parts.iter().any(|part| TOWERS.contains(part)) {
        return Place::Role(Role::Tower);
    }
    // Causal masks of older decoders are four-dimensional "biases".
    let mask = kind == Kind::Bias && dimensions == 4;
    if mask
        || matches!(
            leaf,
            "inv_freq" | "masked_bias" | "position_ids" | "cos_cached" | "sin_cached"
        )
    {
        return Place::Buffer(Role::AttentionOther);
    }
    let is_encoder = has("encoder");
    if !is_encoder && layers > 0 && layer_index(&parts).is_some_and(|index| index >= layers) {
        return Place::Prediction;
    }
    if is_encoder && matches!(leaf, "conv1" | "conv2") {
        return Place::Role(Role::Tower);
    }
    if let Some(role) = outside(leaf, &parts) {
        return Place::Role(role);
    }
    if parts.iter().any(|part| is_cross_attention(part)) {
        return Place::Role(Role::CrossAttention);
    }
    if has("indexer") || leaf.starts_with("index_") {
        let small = leaf.contains("norm") || kind == Kind::Bias || leaf.ends_with("ape");
        return Place::Role(if small {
            Role::AttentionOther
        } else {
            Role::Indexer
        });
    }
    if in_recurrence(module, recurrent) {
        return Place::Role(state(leaf, kind));
    }
    if let Some(place) = feed_forward(leaf, &parts) {
        return place;
    }
    attention(leaf, &parts, kind)
}

/// The last part that is no number: `input_layernorm.0` is a norm.
fn leaf<'a>(parts: &[&'a str]) -> &'a str {
    let named = parts.iter().rev().find(|part| part.parse::<u32>().is_err());
    named.copied().unwrap_or("")
}

fn layer_index(parts: &[&str]) -> Option<u64> {
    let at = parts
        .iter()
        .position(|part| matches!(*part, "layers" | "h" | "blocks" | "block"))?;
    parts.get(at + 1)?.parse().ok()
}

fn is_cross_attention(part: &str) -> bool {
    matches!(part, "encoder_attn" | "EncDecAttention" | "crossattention")
        || part.starts_with("cross_attn")
}

fn in_recurrence(module: &str, recurrent: &BTreeSet<&str>) -> bool {
    let mut outer = module;
    while let Some((parent, _)) = outer.rsplit_once('.') {
        if recurrent.contains(parent) {
            return true;
        }
        outer = parent;
    }
    recurrent.contains(module)
}

/// Tensors outside of layers.
fn outside(leaf: &str, parts: &[&str]) -> Option<Role> {
    let in_layer = layer_index(parts).is_some();
    Some(match leaf {
        "embed_tokens" | "wte" | "tok_embeddings" | "embed_in" | "word_embeddings" => {
            Role::Embedding
        }
        "project_in" | "project_out" => Role::Embedding,
        "embeddings" | "shared" | "embed" if !in_layer => Role::Embedding,
        "lm_head" | "embed_out" => Role::Head,
        "head" | "output" if !in_layer => Role::Head,
        "wpe" | "embed_positions" | "position_embeddings" | "embed_tokens_per_layer" => {
            Role::Position
        }
        "per_layer_model_projection" | "per_layer_input_gate" => Role::MlpUp,
        "per_layer_projection" => Role::MlpDown,
        _ => return None,
    })
}

/// Parts of a recurrent mixer: matrices into it and out of it, and the small rest.
fn state(leaf: &str, kind: Kind) -> Role {
    if kind == Kind::Bias {
        return Role::StateOther;
    }
    match leaf {
        "out_proj" | "o_proj" | "linear_out" => Role::StateOutput,
        "output_gate" | "linear_x" | "linear_y" | "input_gate_weight" | "recurrent_gate_weight" => {
            Role::StateInput
        }
        projection if projection.ends_with("_proj") || projection.starts_with("in_proj_") => {
            Role::StateInput
        }
        _ => Role::StateOther,
    }
}

/// Routers, experts and feed-forwards; `None` where the module is none.
fn feed_forward(leaf: &str, parts: &[&str]) -> Option<Place> {
    let any = |test: fn(&str) -> bool| parts.iter().any(|part| test(part));
    if leaf == "tid2eid" {
        return Some(Place::Buffer(Role::Router));
    }
    if matches!(
        leaf,
        "e_score_correction_bias" | "e_score_correction" | "expert"
    ) {
        return Some(Place::Role(Role::Router));
    }
    if let Some(role) = alternating(leaf, parts) {
        return Some(Place::Role(role));
    }
    if leaf.contains("norm") && !any(is_attention) {
        return Some(Place::Role(Role::Norm));
    }
    let router = leaf == "shared_expert_gate"
        || any(|part| {
            part == "router" || part == "attn_hc" || part == "ffn_hc" || part.starts_with("hc_")
        })
        || matches!(leaf, "fc1_latent_proj" | "fc2_latent_proj" | "wg");
    if router || (leaf == "gate" && any(is_feed_forward)) {
        return Some(Place::Role(Role::Router));
    }
    let is_down = match leaf {
        "gate_proj"
        | "up_proj"
        | "gate_up_proj"
        | "up_gate_proj"
        | "w1"
        | "w3"
        | "v1"
        | "wi"
        | "wi_0"
        | "wi_1"
        | "fc1"
        | "c_fc"
        | "dense_h_to_4h"
        | "fc_in"
        | "input_linear"
        | "gate_up_proj_adapter_list" => false,
        "down_proj" | "w2" | "fc2" | "dense_4h_to_h" | "fc_out" | "output_linear" => true,
        "wo" | "c_proj" if any(is_feed_forward) => true,
        _ => return None,
    };
    // A gate of attention is called like that of a feed-forward.
    if any(is_attention) {
        return None;
    }
    let [up, down] = if any(|part| {
        part.starts_with("shared_expert") || matches!(part, "share_expert" | "shared_mlp")
    }) {
        [Role::SharedUp, Role::SharedDown]
    } else if any(|part| {
        matches!(
            part,
            "experts" | "local_experts" | "block_sparse_moe" | "moe"
        )
    }) {
        [Role::ExpertUp, Role::ExpertDown]
    } else {
        [Role::MlpUp, Role::MlpDown]
    };
    Some(Place::Role(if is_down { down } else { up }))
}

/// Gemma-3n's alternating updates of several streams, and its low-rank residual.
fn alternating(leaf: &str, parts: &[&str]) -> Option<Role> {
    Some(match leaf {
        "linear_left" | "altup_projections" | "altup_unembed_projections" => Role::MlpUp,
        "linear_right" => Role::MlpDown,
        "correct_output_scale" => Role::Norm,
        _ if parts.contains(&"altup") && !leaf.contains("norm") => Role::Router,
        _ => return None,
    })
}

fn is_feed_forward(part: &str) -> bool {
    matches!(
        part,
        "mlp"
            | "feed_forward"
            | "ffn"
            | "DenseReluDense"
            | "block_sparse_moe"
            | "moe"
            | "mixer"
            | "mlp_block"
    )
}

fn is_attention(part: &str) -> bool {
    matches!(
        part,
        "self_attn" | "attn" | "attention" | "self_attention" | "SelfAttention" | "temporal_block"
    )
}

/// Parts of attention, and what stands beside it.
fn attention(leaf: &str, parts: &[&str], kind: Kind) -> Place {
    let inside = parts
        .iter()
        .any(|part| is_attention(part) || *part == "mixer");
    // Biases of projections are no matrices: they stand with the small parts.
    let role = match leaf {
        _ if inside && (kind == Kind::Bias || leaf.contains("norm")) => Role::AttentionOther,
        "q_proj" | "wq" | "query" | "q" => Role::Query,
        // A gate as wide as the query, on what attention gives.
        "gate_proj" if inside && !parts.contains(&"compressor") => Role::Query,
        "k_proj" | "wk" | "key" | "k" => Role::Key,
        "v_proj" | "wv" | "value" | "v" => Role::Value,
        "qkv_proj" | "query_key_value" | "Wqkv" | "wqkv" | "c_attn" | "qkv" | "W_pack" => {
            return Place::FusedAttention;
        }
        "o_proj" | "out_proj" | "dense" | "c_proj" | "wo" | "o" | "o_b_proj" | "wo_b" => {
            Role::AttentionOutput
        }
        "q_a_proj"
        | "kv_a_proj_with_mqa"
        | "kv_a_proj"
        | "wq_a"
        | "wkv_a"
        | "wkv"
        | "fused_qkv_a_proj_with_mqa"
        | "kv_proj" => Role::LatentDown,
        _ if parts.contains(&"compressor") => match leaf {
            "gate_proj" | "wgate" => Role::LatentDown,
            _ => Role::AttentionOther,
        },
        "q_b_proj" | "wq_b" | "o_a_proj" | "wo_a" => Role::LatentQuery,
        "kv_b_proj" | "wkv_b" | "k_b_proj" | "v_b_proj" => Role::LatentKeyValue,
        norm if norm.contains("norm") || norm.starts_with("ln_") || norm == "ln" => Role::Norm,
        _ if inside => Role::AttentionOther,
        // Zamba hands what its shared block gives to the layer through a matrix of the layer's own.
        "linear" => Role::AttentionOutput,
        _ if parts.iter().any(|part| is_feed_forward(part)) => Role::MlpUp,
        _ => return Place::Unknown(Role::Norm),
    };
    Place::Role(role)
}
