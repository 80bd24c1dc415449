//! Models in which some layers keep a state of constant size instead of a cache, and Gemma-4,
//! whose layers differ in shape.

use super::{
    ConfigError, Context, Parts,
    build::{
        AttentionShape, ExpertShape, OutputGate, QueryKeyNorm, attention, dense, experts, layer, norms, outside, push,
    },
    fields::Fields,
    latent, standard,
};
use gpuwise_domain::model::{FeedForward, Layer, LayerRun, Mixer, RecurrentState, Role, Split, Tensor, Window};
use gpuwise_units::Tokens;

type Reader = fn(&Context<'_>) -> Result<Parts, ConfigError>;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    Some(match model_type {
        "qwen3_next" | "qwen3_5_text" | "qwen3_5_moe_text" | "qwen3_5" | "qwen3_5_moe" => read_delta,
        "nemotron_h" => read_nemotron,
        "kimi_linear" => read_kimi,
        "jamba" => read_jamba,
        "mamba" | "falcon_mamba" => read_mamba,
        "mamba2" | "codestral_mamba" => read_mamba2,
        "granitemoehybrid" | "bamba" | "falcon_h1" => read_parallel_hybrid,
        "minimax" | "minimax_text_01" | "minimax_m1" => read_lightning,
        "lfm2" | "lfm2_moe" => read_convolution,
        "gemma4_text" | "gemma4" => read_gemma4,
        _ => return None,
    })
}

/// The fields that every decoder has.
struct Common {
    hidden: u64,
    count: u64,
    vocabulary: u64,
    tied: bool,
    context: Option<u64>,
}

impl Common {
    fn read(context: &Context<'_>, tied: bool) -> Result<Self, ConfigError> {
        let text = context.text;
        Ok(Self {
            hidden: text.need(&["hidden_size", "d_model"], "width of the model")?,
            count: text.need(&["num_hidden_layers", "n_layer", "num_layers"], "depth of the model")?,
            vocabulary: text.need(&["vocab_size"], "size of the embedding")?,
            tied: context.tied(tied)?,
            context: text.count(&["max_position_embeddings", "max_sequence_length"])?,
        })
    }

    fn parts(self, context: &Context<'_>, layers: Vec<LayerRun>, rotary: u64) -> Parts {
        Parts {
            model_type: context.model_type.into(),
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            tied: self.tied,
            rotary_elements: rotary,
            layers,
            outside: outside(self.vocabulary, self.hidden, self.tied, 1),
            prediction: Vec::new(),
            encoder: None,
            towers: Vec::new(),
            max_context: self.context,
            assumptions: Vec::new(),
        }
    }
}

fn state_bytes(text: Fields<'_>) -> Result<u64, ConfigError> {
    let stated = match text.text("mamba_ssm_cache_dtype")? {
        Some(own) => Some(own),
        None => text.text("mamba_ssm_dtype")?,
    };
    Ok(match stated {
        Some("float32") => 4,
        Some("float16" | "bfloat16") => 2,
        _ => 0,
    })
}

fn plain_attention(context: &Context<'_>, hidden: u64, gate: OutputGate, norm: QueryKeyNorm) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let dim = text.count(&["head_dim", "attention_head_dim"])?.unwrap_or(hidden / heads);
    let bias = text.is("attention_bias")?;
    let kv_heads = text.count(&["num_key_value_heads"])?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(ConfigError::Contradiction(format!(
            "`num_key_value_heads` {kv_heads} does not divide `num_attention_heads` {heads}"
        )));
    }
    Ok(attention(&AttentionShape {
        hidden,
        heads,
        kv_heads,
        key_dim: dim,
        value_dim: dim,
        window: Window::Full,
        qkv_bias: bias,
        output_bias: bias,
        norm,
        gate,
        sinks: false,
        keys_are_values: false,
        shares_cache: false,
    }))
}

fn usual_feed_forward(context: &Context<'_>, hidden: u64, index: u64) -> Result<(FeedForward, Vec<Tensor>), ConfigError> {
    if let Some(shape) = standard::expert_shape_plain(context, hidden, index)? {
        return Ok(experts(&shape));
    }
    let width = context
        .text
        .need(&["intermediate_size", "feed_forward_hidden_dim"], "width of the feed-forward")?;
    Ok(dense(hidden, width, true, false))
}

/// Qwen3-Next and Qwen3.5: gated delta rule, with gated attention every few layers.
fn read_delta(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let key_heads = text.need(&["linear_num_key_heads"], "linear attention")?;
    let value_heads = text.need(&["linear_num_value_heads"], "linear attention")?;
    let key_dim = text.need(&["linear_key_head_dim"], "linear attention")?;
    let value_dim = text.need(&["linear_value_head_dim"], "linear attention")?;
    let kernel = text.count(&["linear_conv_kernel_dim"])?.unwrap_or(4);
    let interval = text.count(&["full_attention_interval"])?.unwrap_or(4);
    let types = text.texts("layer_types")?;
    let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
    let mixed = 2 * keys + values;
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut layers = Vec::new();
    let mut full = None;
    for index in 0..common.count {
        let is_full = match &types {
            Some(types) => types.get(index as usize).is_some_and(|kind| *kind == "full_attention"),
            None => (index + 1).is_multiple_of(interval),
        };
        let mixer = if is_full {
            plain_attention(context, hidden, OutputGate::InQuery, QueryKeyNorm::PerHead)?
        } else {
            let tensors = vec![
                matrix("in_proj_qkvz", Role::StateInput, mixed + values, hidden, Split::Output(key_heads)),
                matrix("in_proj_ba", Role::StateInput, 2 * value_heads, hidden, Split::Output(value_heads)),
                Tensor::vector("conv1d", Role::StateOther, mixed * kernel),
                Tensor::vector("decay", Role::StateOther, 2 * value_heads + value_dim),
                matrix("out_proj", Role::StateOutput, hidden, values, Split::Input(value_heads)),
            ];
            let state = RecurrentState {
                heads: value_heads,
                state_per_head: key_dim * value_dim,
                convolution: (kernel - 1) * mixed,
                state_bytes: state_bytes(text)?,
            };
            (Mixer::Recurrent(state), tensors)
        };
        let one = layer(mixer, usual_feed_forward(context, hidden, index)?, norms(2, 1, hidden));
        if is_full {
            full = Some(one.clone());
        }
        push(&mut layers, one);
    }
    let head_dim = text.count(&["head_dim"])?.unwrap_or(256);
    let rotary = text
        .object("rope_parameters")?
        .map_or(text.real("partial_rotary_factor"), |rope| rope.real("partial_rotary_factor"))?
        .unwrap_or(0.25);
    let mut parts = common.parts(context, layers, (head_dim as f64 * rotary) as u64);
    let predicted = text.count_or_zero(&["mtp_num_hidden_layers", "num_nextn_predict_layers"])?;
    if let (Some(mut one), Some(count)) = (full, predicted.filter(|n| (1..=16).contains(n))) {
        one.tensors.push(matrix("mtp.fc", Role::MlpUp, hidden, 2 * hidden, Split::Replicated));
        one.tensors.extend(norms(3, 1, hidden));
        parts.prediction.push(LayerRun { count, layer: one });
    }
    Ok(parts)
}

/// Dimensions of a Mamba-2 mixer.
#[derive(Debug, Clone, Copy)]
struct Mamba2 {
    hidden: u64,
    heads: u64,
    head_dim: u64,
    groups: u64,
    state: u64,
    kernel: u64,
    conv_bias: bool,
    bias: bool,
    norm: bool,
    state_bytes: u64,
}

fn mamba2(shape: &Mamba2) -> (Mixer, Vec<Tensor>) {
    let inner = shape.heads * shape.head_dim;
    let mixed = inner + 2 * shape.groups * shape.state;
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut tensors = vec![
        matrix(
            "in_proj",
            Role::StateInput,
            inner + mixed + shape.heads,
            shape.hidden,
            Split::Output(shape.heads),
        ),
        Tensor::vector("conv1d", Role::StateOther, mixed * (shape.kernel + u64::from(shape.conv_bias))),
        Tensor::vector("decay", Role::StateOther, 3 * shape.heads),
        matrix("out_proj", Role::StateOutput, shape.hidden, inner, Split::Input(shape.heads)),
    ];
    if shape.norm {
        tensors.push(Tensor::vector("norm", Role::StateOther, inner));
    }
    if shape.bias {
        tensors.push(Tensor::vector(
            "in_proj.bias",
            Role::StateOther,
            inner + mixed + shape.heads + shape.hidden,
        ));
    }
    let state = RecurrentState {
        heads: shape.heads,
        state_per_head: shape.head_dim * shape.state,
        convolution: (shape.kernel - 1) * mixed,
        state_bytes: shape.state_bytes,
    };
    (Mixer::Recurrent(state), tensors)
}

fn read_nemotron(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let (common, kinds) = nemotron_common(context)?;
    let hidden = common.hidden;
    let mamba = mamba2(&Mamba2 {
        hidden,
        heads: text.need(&["mamba_num_heads"], "recurrent layers")?,
        head_dim: text.need(&["mamba_head_dim"], "recurrent layers")?,
        groups: text.count(&["n_groups"])?.unwrap_or(8),
        state: text.count(&["ssm_state_size"])?.unwrap_or(128),
        kernel: text.count(&["conv_kernel"])?.unwrap_or(4),
        conv_bias: text.flag("use_conv_bias")?.unwrap_or(true),
        bias: text.is("use_bias")?,
        norm: true,
        state_bytes: state_bytes(text)?,
    });
    let mut layers = Vec::new();
    let none = || (Mixer::None, Vec::new());
    let nothing = || (FeedForward::None, Vec::new());
    for kind in kinds {
        let norm = norms(1, 1, hidden);
        let one = match kind {
            'M' => layer(mamba.clone(), nothing(), norm),
            '*' => layer(
                plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?,
                nothing(),
                norm,
            ),
            'E' => layer(none(), experts(&nemotron_experts(text, hidden)?), norm),
            _ => {
                let width = text.need(&["intermediate_size"], "width of the feed-forward")?;
                layer(none(), dense(hidden, width, false, text.is("mlp_bias")?), norm)
            }
        };
        push(&mut layers, one);
    }
    Ok(common.parts(context, layers, 0))
}

fn nemotron_experts(text: Fields<'_>, hidden: u64) -> Result<ExpertShape, ConfigError> {
    Ok(ExpertShape {
        hidden,
        count: text.need(&["n_routed_experts"], "number of experts")?,
        chosen: text.need(&["num_experts_per_tok"], "number of experts that work on a token")?,
        width: text.need(&["moe_intermediate_size"], "width of an expert")?,
        input: text.count(&["moe_latent_size"])?.unwrap_or(hidden),
        gated: false,
        shared_width: text.count_or_zero(&["moe_shared_expert_intermediate_size"])?.unwrap_or(0),
        shared_gate: false,
        router_bias: false,
        expert_bias: false,
    })
}

/// The kinds of layers; newer configurations state their number by listing them only.
fn nemotron_common(context: &Context<'_>) -> Result<(Common, Vec<char>), ConfigError> {
    let text = context.text;
    let stated = text.count(&["num_hidden_layers"])?;
    let kinds = nemotron_kinds(text, stated)?;
    let common = Common {
        hidden: text.need(&["hidden_size"], "width of the model")?,
        count: kinds.len() as u64,
        vocabulary: text.need(&["vocab_size"], "size of the embedding")?,
        tied: context.tied(false)?,
        context: text.count(&["max_position_embeddings"])?,
    };
    Ok((common, kinds))
}

fn nemotron_kinds(text: Fields<'_>, count: Option<u64>) -> Result<Vec<char>, ConfigError> {
    let listed = match text.texts("layers_block_type")? {
        Some(own) => Some(own),
        None => text.texts("layer_types")?,
    };
    if let Some(types) = listed {
        return Ok(types
            .iter()
            .map(|kind| match *kind {
                "mamba" | "linear_attention" => 'M',
                "attention" | "full_attention" => '*',
                "moe" => 'E',
                _ => '-',
            })
            .collect());
    }
    let pattern = text.text("hybrid_override_pattern")?.ok_or(ConfigError::Missing {
        field: "hybrid_override_pattern",
        purpose: "order of recurrent, attention and feed-forward layers",
    })?;
    let kinds: Vec<char> = pattern.chars().filter(|c| *c != '|').collect();
    if let Some(count) = count.filter(|count| *count != kinds.len() as u64) {
        return Err(ConfigError::Contradiction(format!(
            "`hybrid_override_pattern` has {} layers, `num_hidden_layers` says {count}",
            kinds.len()
        )));
    }
    Ok(kinds)
}

/// Kimi-Linear and Kimi-K3: delta attention with latent attention in between.
fn read_kimi(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let linear = text.object("linear_attn_config")?.ok_or(ConfigError::Missing {
        field: "linear_attn_config",
        purpose: "shape of the linear attention",
    })?;
    let full = linear.counts("full_attn_layers")?.unwrap_or_default();
    let heads = linear.need(&["num_heads"], "linear attention")?;
    let dim = linear.need(&["head_dim"], "linear attention")?;
    let kernel = linear.count(&["short_conv_kernel_size"])?.unwrap_or(4);
    let inner = heads * dim;
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let full_rank = linear.is("use_full_rank_gate")?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        // Layers are counted from 1 there.
        let mut mixer = if full.contains(&(index + 1)) {
            latent::latent_attention(context, hidden, index)?
        } else {
            let mut tensors = vec![
                matrix("qkv_proj", Role::StateInput, 3 * inner, hidden, Split::Output(heads)),
                matrix("b_proj", Role::StateInput, heads, hidden, Split::Output(heads)),
                matrix("f_a", Role::StateOther, dim, hidden, Split::Replicated),
                matrix("f_b", Role::StateOther, inner, dim, Split::Output(heads)),
                Tensor::vector("conv1d", Role::StateOther, 3 * inner * kernel),
                Tensor::vector("decay", Role::StateOther, heads + inner + dim),
                matrix("o_proj", Role::StateOutput, hidden, inner, Split::Input(heads)),
            ];
            if full_rank {
                tensors.push(matrix("g_proj", Role::StateInput, inner, hidden, Split::Output(heads)));
            } else {
                tensors.push(matrix("g_a", Role::StateOther, dim, hidden, Split::Replicated));
                tensors.push(matrix("g_b", Role::StateOther, inner, dim, Split::Output(heads)));
            }
            let state = RecurrentState {
                heads,
                state_per_head: dim * dim,
                convolution: 3 * (kernel - 1) * inner,
                state_bytes: 4,
            };
            (Mixer::Recurrent(state), tensors)
        };
        if full.contains(&(index + 1)) && text.is("mla_use_output_gate")? {
            mixer.1.push(matrix("g_proj", Role::AttentionOther, inner, hidden, Split::Output(heads)));
        }
        let feed_forward = match standard::expert_shape_plain(context, hidden, index)? {
            Some(shape) => experts(&ExpertShape {
                input: text.count(&["routed_expert_hidden_size"])?.unwrap_or(hidden),
                ..shape
            }),
            None => dense(hidden, text.need(&["intermediate_size"], "width of the feed-forward")?, true, false),
        };
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    let mut parts = common.parts(context, layers, 0);
    if text.count(&["routed_expert_hidden_size"])?.is_some() {
        parts
            .assumptions
            .push("the reference implementation of this model is not public: small tensors may be missing".into());
    }
    Ok(parts)
}

/// Dimensions of a Mamba mixer of the first kind.
fn mamba1(text: Fields<'_>, hidden: u64, normed: bool) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let expand = text.count(&["mamba_expand", "expand"])?.unwrap_or(2);
    let inner = text.count(&["intermediate_size"]).ok().flatten().filter(|_| !normed).unwrap_or(expand * hidden);
    let state = text.count(&["mamba_d_state", "state_size"])?.unwrap_or(16);
    let kernel = text.count(&["mamba_d_conv", "conv_kernel"])?.unwrap_or(4);
    let step_name: [&'static str; 2] = ["mamba_dt_rank", "time_step_rank"];
    let step = match text.raw(step_name[0]).or_else(|| text.raw(step_name[1])) {
        Some(serde_json::Value::String(_)) | None => hidden.div_ceil(16),
        Some(_) => text.count(&step_name)?.unwrap_or(hidden.div_ceil(16)),
    };
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let conv_bias = text.flag("mamba_conv_bias")?.or(text.flag("use_conv_bias")?).unwrap_or(true);
    let mut tensors = vec![
        matrix("in_proj", Role::StateInput, 2 * inner, hidden, Split::Output(inner)),
        Tensor::vector("conv1d", Role::StateOther, inner * (kernel + u64::from(conv_bias))),
        matrix("x_proj", Role::StateOther, step + 2 * state, inner, Split::Input(inner)),
        matrix("dt_proj", Role::StateOther, inner, step, Split::Output(inner)),
        Tensor::vector("decay", Role::StateOther, inner * state + 2 * inner),
        matrix("out_proj", Role::StateOutput, hidden, inner, Split::Input(inner)),
    ];
    if normed {
        tensors.push(Tensor::vector("norms", Role::StateOther, step + 2 * state));
    }
    let mixer = Mixer::Recurrent(RecurrentState {
        heads: inner,
        state_per_head: state,
        convolution: (kernel - 1) * inner,
        state_bytes: state_bytes(text)?,
    });
    Ok((mixer, tensors))
}

fn read_jamba(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let period = text.count(&["attn_layer_period"])?.unwrap_or(8);
    let offset = text.count_or_zero(&["attn_layer_offset"])?.unwrap_or(4);
    let expert_period = text.count(&["expert_layer_period"])?.unwrap_or(2);
    let expert_offset = text.count_or_zero(&["expert_layer_offset"])?.unwrap_or(1);
    let width = text.need(&["intermediate_size"], "width of the feed-forward")?;
    let number = text.count(&["num_experts"])?.unwrap_or(1);
    let mut layers = Vec::new();
    for index in 0..common.count {
        let mixer = if index % period == offset {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            mamba1(text, hidden, true)?
        };
        let feed_forward = if number > 1 && index % expert_period == expert_offset {
            experts(&ExpertShape {
                hidden,
                count: number,
                chosen: text.count(&["num_experts_per_tok"])?.unwrap_or(2),
                width,
                input: hidden,
                gated: true,
                shared_width: 0,
                shared_gate: false,
                router_bias: false,
                expert_bias: false,
            })
        } else {
            dense(hidden, width, true, false)
        };
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, 0))
}

fn read_mamba(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let one = layer(
        mamba1(context.text, hidden, false)?,
        (FeedForward::None, Vec::new()),
        norms(1, 1, hidden),
    );
    let layers = vec![LayerRun { count: common.count, layer: one }];
    Ok(common.parts(context, layers, 0))
}

fn read_mamba2(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let head_dim = text.count(&["head_dim"])?.unwrap_or(64);
    let expand = text.count(&["expand"])?.unwrap_or(2);
    let mixer = mamba2(&Mamba2 {
        hidden,
        heads: text.count(&["num_heads"])?.unwrap_or(expand * hidden / head_dim),
        head_dim,
        groups: text.count(&["n_groups"])?.unwrap_or(8),
        state: text.count(&["state_size"])?.unwrap_or(128),
        kernel: text.count(&["conv_kernel"])?.unwrap_or(4),
        conv_bias: text.flag("use_conv_bias")?.unwrap_or(true),
        bias: text.is("use_bias")?,
        norm: true,
        state_bytes: state_bytes(text)?,
    });
    let one = layer(mixer, (FeedForward::None, Vec::new()), norms(1, 1, hidden));
    let layers = vec![LayerRun { count: common.count, layer: one }];
    Ok(common.parts(context, layers, 0))
}

/// Granite-4, Bamba and Falcon-H1: Mamba-2 in most layers, attention in some, or both side by side.
fn read_parallel_hybrid(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let falcon = context.model_type == "falcon_h1";
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let inner = text
        .count(&["mamba_d_ssm"])?
        .unwrap_or(text.count(&["mamba_expand"])?.unwrap_or(2) * hidden);
    let heads = text.count(&["mamba_n_heads"])?.unwrap_or(128);
    let head_dim = match text.raw("mamba_d_head") {
        Some(serde_json::Value::Number(_)) => text.count(&["mamba_d_head"])?.unwrap_or(inner / heads),
        _ => inner / heads,
    };
    let mamba = mamba2(&Mamba2 {
        hidden,
        heads,
        head_dim,
        groups: text.count(&["mamba_n_groups"])?.unwrap_or(1),
        state: text.count(&["mamba_d_state"])?.unwrap_or(256),
        kernel: text.count(&["mamba_d_conv"])?.unwrap_or(4),
        conv_bias: text.flag("mamba_conv_bias")?.unwrap_or(true),
        bias: text.is("mamba_proj_bias")?,
        norm: if falcon { text.is("mamba_rms_norm")? } else { true },
        state_bytes: state_bytes(text)?,
    });
    let types = match text.texts("layer_types")? {
        Some(own) => Some(own),
        None => text.texts("layers_block_type")?,
    };
    let listed = text.counts("attn_layer_indices")?.unwrap_or_default();
    let mut layers = Vec::new();
    for index in 0..common.count {
        let is_attention = match &types {
            Some(types) => types.get(index as usize).is_some_and(|kind| kind.contains("attention")),
            None => listed.contains(&index),
        };
        let mixer = if falcon {
            let own = plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?;
            let mut tensors = own.1;
            tensors.extend(mamba.1.iter().cloned());
            (own.0, tensors)
        } else if is_attention {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            mamba.clone()
        };
        let feed_forward = granite_feed_forward(context, hidden, index)?;
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    let mut parts = common.parts(context, layers, 0);
    if falcon {
        parts
            .assumptions
            .push("the recurrent state beside attention is small and left out of the cache".into());
    }
    Ok(parts)
}

fn granite_feed_forward(context: &Context<'_>, hidden: u64, index: u64) -> Result<(FeedForward, Vec<Tensor>), ConfigError> {
    let text = context.text;
    if context.model_type == "granitemoehybrid" {
        let shared = text.count_or_zero(&["shared_intermediate_size"])?.unwrap_or(0);
        return Ok(match standard::expert_shape_plain(context, hidden, index)? {
            Some(shape) => experts(&shape),
            None => dense(hidden, shared, true, false),
        });
    }
    usual_feed_forward(context, hidden, index)
}

/// MiniMax-Text-01 and M1: lightning attention with softmax attention every eighth layer.
fn read_lightning(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let dim = text.count(&["head_dim"])?.unwrap_or(hidden / heads);
    let inner = heads * dim;
    let kinds = text.counts("attn_type_list")?;
    let types = text.texts("layer_types")?;
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut layers = Vec::new();
    for index in 0..common.count {
        let is_full = match (&kinds, &types) {
            (Some(kinds), _) => kinds.get(index as usize) == Some(&1),
            (None, Some(types)) => types.get(index as usize).is_some_and(|kind| *kind == "full_attention"),
            (None, None) => index % 8 == 7,
        };
        let mixer = if is_full {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            let state = RecurrentState {
                heads,
                state_per_head: dim * dim,
                convolution: 0,
                state_bytes: 4,
            };
            let tensors = vec![
                matrix("qkv_proj", Role::StateInput, 3 * inner, hidden, Split::Output(heads)),
                matrix("output_gate", Role::StateInput, inner, hidden, Split::Output(heads)),
                Tensor::vector("norm", Role::StateOther, inner),
                matrix("out_proj", Role::StateOutput, hidden, inner, Split::Input(heads)),
            ];
            (Mixer::Recurrent(state), tensors)
        };
        let feed_forward = usual_feed_forward(context, hidden, index)?;
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, dim))
}

/// LFM2: short convolutions with attention in some layers.
fn read_convolution(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let kernel = text.count(&["conv_L_cache"])?.unwrap_or(3);
    let full = text.counts("full_attn_idxs")?.unwrap_or_default();
    let types = text.texts("layer_types")?;
    let mut width = text.need(&["block_ff_dim", "intermediate_size"], "width of the feed-forward")?;
    if text.flag("block_auto_adjust_ff_dim")?.unwrap_or(false) {
        let multiple = text.count(&["block_multiple_of"])?.unwrap_or(256);
        width = (2 * width / 3).div_ceil(multiple) * multiple;
    }
    let first_dense = text.count_or_zero(&["num_dense_layers"])?.unwrap_or(0);
    let matrix = |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut layers = Vec::new();
    for index in 0..common.count {
        let is_full = match &types {
            Some(types) => types.get(index as usize).is_some_and(|kind| *kind == "full_attention"),
            None => full.contains(&index),
        };
        let mixer = if is_full {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::PerHead)?
        } else {
            let state = RecurrentState {
                heads: hidden,
                state_per_head: 0,
                convolution: (kernel - 1) * hidden,
                state_bytes: 2,
            };
            let tensors = vec![
                matrix("in_proj", Role::StateInput, 3 * hidden, hidden, Split::Output(hidden)),
                Tensor::vector("conv", Role::StateOther, kernel * hidden),
                matrix("out_proj", Role::StateOutput, hidden, hidden, Split::Input(hidden)),
            ];
            (Mixer::Recurrent(state), tensors)
        };
        let sparse = index >= first_dense && context.model_type == "lfm2_moe";
        let feed_forward = match standard::expert_shape_plain(context, hidden, index)? {
            Some(shape) if sparse => experts(&shape),
            _ => dense(hidden, width, true, false),
        };
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, hidden / text.count(&["num_attention_heads"])?.unwrap_or(1)))
}

/// Gemma-4: global layers have their own head width and count; experts stand beside a dense part.
fn read_gemma4(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let types = text.texts("layer_types")?;
    let shared_layers = text.count_or_zero(&["num_kv_shared_layers"])?.unwrap_or(0);
    let per_layer = text.count_or_zero(&["hidden_size_per_layer_input"])?.unwrap_or(0);
    let mut layers = Vec::new();
    for index in 0..common.count {
        let sliding = match &types {
            Some(types) => types.get(index as usize).is_none_or(|kind| *kind == "sliding_attention"),
            None => !(index + 1).is_multiple_of(6),
        };
        let shares = index + shared_layers >= common.count && shared_layers > 0;
        let mut one = gemma4_layer(context, hidden, sliding, shares)?;
        if per_layer > 0 {
            let split = Split::Replicated;
            one.tensors.push(Tensor::matrix("per_layer_gate", Role::MlpUp, per_layer, hidden, split));
            one.tensors.push(Tensor::matrix("per_layer_projection", Role::MlpDown, hidden, per_layer, split));
            one.tensors.extend(norms(1, 1, hidden));
        }
        push(&mut layers, one);
    }
    let (count, head_dim) = (common.count, text.count(&["head_dim"])?.unwrap_or(256));
    let mut parts = common.parts(context, layers, head_dim);
    if per_layer > 0 {
        let rows = text.count(&["vocab_size_per_layer_input"])?.unwrap_or(parts.vocabulary);
        let wide = count * per_layer;
        parts
            .outside
            .push(Tensor::matrix("embed_per_layer", Role::Position, rows, wide, Split::Replicated));
        parts
            .outside
            .push(Tensor::matrix("per_layer_model_projection", Role::MlpUp, wide, hidden, Split::Replicated));
        parts.outside.push(Tensor::vector("per_layer_norm", Role::Norm, per_layer));
    }
    Ok(parts)
}

fn gemma4_layer(context: &Context<'_>, hidden: u64, sliding: bool, shares_cache: bool) -> Result<Layer, ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let mut kv_heads = text.count(&["num_key_value_heads"])?.unwrap_or(heads);
    let mut dim = text.count(&["head_dim"])?.unwrap_or(256);
    let mut keys_are_values = false;
    if !sliding {
        dim = text.count(&["global_head_dim"])?.unwrap_or(dim);
        kv_heads = text.count(&["num_global_key_value_heads"])?.unwrap_or(kv_heads);
        keys_are_values = text.is("attention_k_eq_v")?;
    }
    let window = if sliding {
        Window::Sliding(Tokens(text.count(&["sliding_window"])?.unwrap_or(1024)))
    } else {
        Window::Full
    };
    let bias = text.is("attention_bias")?;
    let mixer = attention(&AttentionShape {
        hidden,
        heads,
        kv_heads,
        key_dim: dim,
        value_dim: dim,
        window,
        qkv_bias: bias,
        output_bias: bias,
        norm: QueryKeyNorm::PerHead,
        gate: OutputGate::None,
        sinks: false,
        keys_are_values,
        shares_cache,
    });
    let mut width = text.need(&["intermediate_size"], "width of the feed-forward")?;
    if shares_cache && text.is("use_double_wide_mlp")? {
        width *= 2;
    }
    if !text.is("enable_moe_block")? {
        return Ok(layer(mixer, dense(hidden, width, true, false), norms(4, 1, hidden)));
    }
    let count = text.need(&["num_experts"], "number of experts")?;
    let (feed_forward, mut tensors) = experts(&ExpertShape {
        hidden,
        count,
        chosen: text.need(&["top_k_experts", "num_experts_per_tok"], "number of experts that work on a token")?,
        width: text.need(&["moe_intermediate_size"], "width of an expert")?,
        input: hidden,
        gated: true,
        // The dense part works on every token, as a shared expert does.
        shared_width: width,
        shared_gate: false,
        router_bias: false,
        expert_bias: false,
    });
    tensors.push(Tensor::vector("router.scales", Role::Router, hidden + count));
    Ok(layer(mixer, (feed_forward, tensors), norms(7, 1, hidden)))
}
