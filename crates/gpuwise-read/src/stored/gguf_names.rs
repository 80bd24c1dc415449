//! Roles by llama.cpp's names of tensors.

use super::{
    Place,
    module::{Kind, Names},
};
use gpuwise_domain::model::Role;

/// What a module is for; layers after the decoder's `layers` predict further tokens.
pub(super) fn place(module: &str, kind: Kind, layers: u64, names: &Names<'_>) -> Place {
    if let Some(rest) = module.strip_prefix("blk.") {
        let Some((layer, part)) = rest.split_once('.') else {
            return Place::Unknown(Role::Norm);
        };
        let index = layer.parse::<u64>().unwrap_or(0);
        if part.starts_with("nextn.") || (layers > 0 && index >= layers) {
            return Place::Prediction;
        }
        return match delta_rule(part, layer, names) {
            Some(role) if kind == Kind::Weight => Place::Role(role),
            _ => in_layer(part, kind),
        };
    }
    if let Some(rest) = module
        .strip_prefix("dec.blk.")
        .or_else(|| module.strip_prefix("enc.blk."))
    {
        let Some((_, part)) = rest.split_once('.') else {
            return Place::Unknown(Role::Norm);
        };
        return in_layer(part, kind);
    }
    outside(module)
}

/// Projections of a delta rule are called like those of attention.
fn delta_rule(part: &str, layer: &str, names: &Names<'_>) -> Option<Role> {
    let there = |suffix: &str| names.get(&format!("blk.{layer}.{suffix}")).is_some();
    match part {
        "attn_qkv" | "attn_gate" if there("ssm_a") => Some(Role::StateInput),
        "attn_q" | "attn_k" | "attn_v" if there("ssm_conv1d_q.weight") => Some(Role::StateInput),
        "attn_output" if there("ssm_conv1d_q.weight") => Some(Role::StateOutput),
        _ => None,
    }
}

fn outside(module: &str) -> Place {
    let role = match module {
        "token_embd" | "token_types" | "altup_proj" | "altup_unembd_proj" => Role::Embedding,
        "output" => Role::Head,
        "position_embd" | "per_layer_token_embd" => Role::Position,
        "per_layer_model_proj" => Role::MlpUp,
        "rope_freqs" | "rope_factors_long" | "rope_factors_short" => {
            return Place::Buffer(Role::AttentionOther);
        }
        norm if norm.ends_with("_norm") => Role::Norm,
        tower if tower.starts_with("v.") || tower.starts_with("a.") => Role::Tower,
        projector if projector.starts_with("mm.") || projector.starts_with("resampler.") => {
            Role::Projector
        }
        _ => return Place::Unknown(Role::Norm),
    };
    Place::Role(role)
}

fn in_layer(part: &str, kind: Kind) -> Place {
    // Biases of projections are no matrices: they stand with the small parts of attention.
    let projection = |role: Role| {
        if kind == Kind::Bias {
            Role::AttentionOther
        } else {
            role
        }
    };
    let role = match part {
        "attn_qkv" if kind == Kind::Bias => Role::AttentionOther,
        "attn_qkv" => return Place::FusedAttention,
        "attn_q" => projection(Role::Query),
        "attn_k" => projection(Role::Key),
        "attn_v" => projection(Role::Value),
        "attn_output" | "attn_o" | "attn_out" => projection(Role::AttentionOutput),
        "attn_q_a" | "attn_kv_a_mqa" => Role::LatentDown,
        "attn_q_b" => Role::LatentQuery,
        "attn_kv_b" | "attn_k_b" | "attn_v_b" => Role::LatentKeyValue,
        "attn_rot_embd" => return Place::Buffer(Role::AttentionOther),
        "attn_norm" | "attn_norm_2" | "attn_output_norm" | "attn_post_norm" | "cross_attn_norm" => {
            Role::Norm
        }
        "ffn_gate_inp" | "ffn_latent_down" | "ffn_latent_up" | "ffn_gate_inp_shexp"
        | "exp_probs_b" => Role::Router,
        "inp_gate" => Role::MlpUp,
        "proj" => Role::MlpDown,
        "ssm_in" | "ssm_ba" | "ssm_beta" | "ssm_alpha" | "ssm_x" | "ssm_f_a" | "ssm_f_b"
        | "ssm_g_a" | "ssm_g_b" | "shortconv.in_proj" => Role::StateInput,
        "ssm_dt" if kind == Kind::Weight => Role::StateInput,
        "ssm_out" | "shortconv.out_proj" => Role::StateOutput,
        indexer if indexer.starts_with("indexer.") => {
            if indexer.ends_with("norm") {
                Role::AttentionOther
            } else {
                Role::Indexer
            }
        }
        cross if cross.starts_with("cross_attn_") => Role::CrossAttention,
        state if state.starts_with("ssm_") || state.starts_with("shortconv") => Role::StateOther,
        attention if attention.starts_with("attn_") => Role::AttentionOther,
        feed_forward if feed_forward.starts_with("ffn_") => return expert_or_dense(feed_forward),
        norm if norm.contains("norm") => Role::Norm,
        _ => return Place::Unknown(Role::Norm),
    };
    Place::Role(role)
}

fn expert_or_dense(part: &str) -> Place {
    let down = part.starts_with("ffn_down");
    let role = if part.contains("norm") {
        Role::Norm
    } else if part.ends_with("_shexp") {
        if down {
            Role::SharedDown
        } else {
            Role::SharedUp
        }
    } else if part.contains("exp") {
        // `_exps`, chunked `_chexps`, and files from before experts were joined: `ffn_up.3`.
        if down {
            Role::ExpertDown
        } else {
            Role::ExpertUp
        }
    } else if part
        .rsplit('.')
        .next()
        .is_some_and(|last| last.parse::<u32>().is_ok())
    {
        if down {
            Role::ExpertDown
        } else {
            Role::ExpertUp
        }
    } else if down {
        Role::MlpDown
    } else {
        Role::MlpUp
    };
    Place::Role(role)
}
