//! Mamba of both kinds: the mixers, and models made of them only.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{layer, norms},
    common::Common,
    fields::Fields,
};
use gpuwise_domain::model::{FeedForward, LayerRun, Mixer, RecurrentState, Role, Split, Tensor};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "mamba" | "falcon_mamba" => Some(read_mamba),
        "mamba2" | "codestral_mamba" => Some(read_mamba2),
        _ => None,
    }
}

fn read_mamba(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let common = Common::read(context, true)?;
    let text = context.text;
    let inner = match text.count(&["intermediate_size"])? {
        Some(stated) => stated,
        None => text.count(&["expand"])?.unwrap_or(2) * common.hidden,
    };
    let mixer = mamba1(text, common.hidden, inner, false)?;
    Ok(pure(context, common, mixer))
}

fn read_mamba2(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let head_dim = text.count(&["head_dim"])?.unwrap_or(64);
    let expand = text.count(&["expand"])?.unwrap_or(2);
    let heads = text
        .count(&["num_heads"])?
        .unwrap_or(expand * hidden / head_dim);
    let mixer = mamba2(&Mamba2 {
        groups: text.count(&["n_groups"])?.unwrap_or(8),
        state: text.count(&["state_size"])?.unwrap_or(128),
        kernel: text.count(&["conv_kernel"])?.unwrap_or(4),
        conv_bias: text.flag("use_conv_bias")?.unwrap_or(true),
        bias: text.is("use_bias")?,
        state_bytes: state_bytes(text)?,
        ..Mamba2::new(hidden, heads, head_dim)
    });
    Ok(pure(context, common, mixer))
}

/// A model whose layers are this mixer and a norm.
fn pure(context: &Context<'_>, common: Common, mixer: (Mixer, Vec<Tensor>)) -> Parts {
    let one = layer(
        mixer,
        (FeedForward::None, Vec::new()),
        norms(1, 1, common.hidden),
    );
    let run = LayerRun {
        count: common.count,
        layer: one,
    };
    common.parts(context, vec![run], 0)
}

/// Bytes of a state element where the configuration fixes them; 0 leaves it to the engine.
pub(super) fn state_bytes(text: Fields<'_>) -> Result<u64, ConfigError> {
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

/// Mamba of the first kind, `inner` wide; Jamba norms the step and the state's projections.
pub(super) fn mamba1(
    text: Fields<'_>,
    hidden: u64,
    inner: u64,
    normed: bool,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let state = text.count(&["mamba_d_state", "state_size"])?.unwrap_or(16);
    let kernel = text.count(&["mamba_d_conv", "conv_kernel"])?.unwrap_or(4);
    let step = match text
        .raw("mamba_dt_rank")
        .or_else(|| text.raw("time_step_rank"))
    {
        // `auto`
        Some(serde_json::Value::String(_)) | None => hidden.div_ceil(16),
        Some(_) => text.need(&["mamba_dt_rank", "time_step_rank"], "recurrent step")?,
    };
    let conv_bias = text
        .flag("mamba_conv_bias")?
        .or(text.flag("use_conv_bias")?)
        .unwrap_or(true);
    let matrix =
        |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mut tensors = vec![
        matrix(
            "in_proj",
            Role::StateInput,
            2 * inner,
            hidden,
            Split::Output(inner),
        ),
        Tensor::vector(
            "conv1d",
            Role::StateOther,
            inner * (kernel + u64::from(conv_bias)),
        ),
        matrix(
            "x_proj",
            Role::StateInput,
            step + 2 * state,
            inner,
            Split::Input(inner),
        ),
        matrix(
            "dt_proj",
            Role::StateInput,
            inner,
            step,
            Split::Output(inner),
        ),
        Tensor::vector("decay", Role::StateOther, inner * state + 2 * inner),
        matrix(
            "out_proj",
            Role::StateOutput,
            hidden,
            inner,
            Split::Input(inner),
        ),
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

/// Dimensions of a Mamba-2 mixer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mamba2 {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) head_dim: u64,
    pub(super) groups: u64,
    pub(super) state: u64,
    pub(super) kernel: u64,
    pub(super) conv_bias: bool,
    pub(super) bias: bool,
    pub(super) norm: bool,
    pub(super) state_bytes: u64,
}

impl Mamba2 {
    /// With the sizes that most models have.
    pub(super) fn new(hidden: u64, heads: u64, head_dim: u64) -> Self {
        Self {
            hidden,
            heads,
            head_dim,
            groups: 1,
            state: 128,
            kernel: 4,
            conv_bias: true,
            bias: false,
            norm: true,
            state_bytes: 0,
        }
    }
}

pub(super) fn mamba2(shape: &Mamba2) -> (Mixer, Vec<Tensor>) {
    let inner = shape.heads * shape.head_dim;
    let mixed = inner + 2 * shape.groups * shape.state;
    let joined = inner + mixed + shape.heads;
    let by_heads = Split::Output(shape.heads);
    let mut tensors = vec![
        Tensor::matrix("in_proj", Role::StateInput, joined, shape.hidden, by_heads),
        Tensor::vector(
            "conv1d",
            Role::StateOther,
            mixed * (shape.kernel + u64::from(shape.conv_bias)),
        ),
        Tensor::vector("decay", Role::StateOther, 3 * shape.heads),
        Tensor::matrix(
            "out_proj",
            Role::StateOutput,
            shape.hidden,
            inner,
            Split::Input(shape.heads),
        ),
    ];
    if shape.norm {
        tensors.push(Tensor::vector("norm", Role::StateOther, inner));
    }
    if shape.bias {
        tensors.push(Tensor::vector(
            "proj.bias",
            Role::StateOther,
            joined + shape.hidden,
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
