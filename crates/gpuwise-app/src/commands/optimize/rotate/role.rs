//! What tensors have to do with the residual stream, by their names.

pub(super) const LAYERS: &str = "model.layers.";
pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";
pub(super) const HEAD: &str = "lm_head.weight";
pub(super) const LAST_NORM: &str = "model.norm.weight";
pub(super) const FIRST: &str = "input_layernorm.weight";
pub(super) const SECOND: &str = "post_attention_layernorm.weight";

/// What a tensor has to do with the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Rows of the stream.
    Embedding,
    Norm,
    /// Reads the stream behind a norm of its layer, or the last.
    Reads(&'static str),
    /// Reads it, and writes what attention weighs.
    Values,
    /// What is added to values.
    ValuesBias,
    /// Reads what attention weighed, and writes the stream.
    Output,
    Writes,
    /// Neither.
    Beside,
}

pub(super) fn role(name: &str) -> Option<Role> {
    match name {
        EMBEDDING => return Some(Role::Embedding),
        LAST_NORM => return Some(Role::Norm),
        HEAD => return Some(Role::Reads(LAST_NORM)),
        _ => {}
    }
    let (number, rest) = name.strip_prefix(LAYERS)?.split_once('.')?;
    number.parse::<u32>().ok()?;
    if [FIRST, SECOND].contains(&rest) {
        return Some(Role::Norm);
    }
    let (layer, kind) = rest.rsplit_once('.')?;
    let bias = match kind {
        "weight" => false,
        "bias" => true,
        _ => return (rest == "self_attn.rotary_emb.inv_freq").then_some(Role::Beside),
    };
    let (block, last) = layer.rsplit_once('.')?;
    let mlp = ["mlp", "block_sparse_moe"]
        .iter()
        .any(|one| block.starts_with(one));
    let reads = |norm| {
        if bias {
            Role::Beside
        } else {
            Role::Reads(norm)
        }
    };
    match last {
        "q_proj" | "k_proj" if block == "self_attn" => Some(reads(FIRST)),
        "v_proj" if block == "self_attn" && bias => Some(Role::ValuesBias),
        "v_proj" if block == "self_attn" => Some(Role::Values),
        "o_proj" if block == "self_attn" && !bias => Some(Role::Output),
        "o_proj" if block == "self_attn" => Some(Role::Writes),
        "q_norm" | "k_norm" if block == "self_attn" => Some(Role::Beside),
        "gate_proj" | "up_proj" | "w1" | "w3" | "gate" | "shared_expert_gate" if mlp => {
            Some(reads(SECOND))
        }
        "down_proj" | "w2" if mlp => Some(Role::Writes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, LAST_NORM, Role, SECOND, role};

    #[test]
    fn what_reads_the_residual_stream_and_what_writes_it() {
        for (name, expected) in [
            ("lm_head.weight", Role::Reads(LAST_NORM)),
            ("model.layers.3.self_attn.k_proj.weight", Role::Reads(FIRST)),
            ("model.layers.3.self_attn.k_proj.bias", Role::Beside),
            ("model.layers.3.self_attn.v_proj.bias", Role::ValuesBias),
            ("model.layers.3.self_attn.o_proj.bias", Role::Writes),
            (
                "model.layers.3.mlp.experts.17.up_proj.weight",
                Role::Reads(SECOND),
            ),
            ("model.layers.3.mlp.gate.weight", Role::Reads(SECOND)),
            (
                "model.layers.3.block_sparse_moe.experts.1.w2.weight",
                Role::Writes,
            ),
        ] {
            assert_eq!(role(name), Some(expected), "{name}");
        }
        for name in [
            "model.layers.3.pre_feedforward_layernorm.weight",
            "model.layers.x.mlp.down_proj.weight",
            "model.layers.3.cross_attn.v_proj.weight",
            "visual.blocks.0.mlp.down_proj.weight",
        ] {
            assert_eq!(role(name), None, "{name}");
        }
    }
}
