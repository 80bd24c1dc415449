//! Language models that run as one forward pass: encoders, decoders that embed, and encoder-decoders.

use super::tracer::{Attention, Kernel, Tracer, product};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::model::{Architecture, FeedForward, LayerRun, Mixer, Role, Tensor};

/// Tokens that a stack works on, those that they see, and those of the encoder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) tokens: u64,
    pub(super) context: f64,
    pub(super) source: u64,
    /// Whether keys and values of the source are counted elsewhere.
    pub(super) source_cached: bool,
}

impl Span {
    /// A whole sequence at once.
    pub(super) fn whole(tokens: u64) -> Self {
        Self {
            tokens,
            context: tokens as f64,
            source: 0,
            source_cached: false,
        }
    }
}

fn table(tensor: &Tensor) -> (u64, u64) {
    (tensor.rows, product(&[tensor.columns, tensor.copies]))
}

/// Rows of the embedding and of positions, for so many tokens; what else there is outside of layers
/// is a norm, or stands alone.
pub(super) fn outside(tracer: &mut Tracer, tensors: &[Tensor], tokens: u64) {
    for tensor in tensors {
        match tensor.role {
            Role::Embedding | Role::Position => {
                tracer.lookup(&tensor.name, table(tensor), tokens, tokens);
            }
            Role::Norm => {
                let elements = product(&[tokens, tensor.rows]);
                tracer.norm(&tensor.name, elements, tensor.elements());
            }
            // Walked where they are multiplied.
            Role::Head | Role::Tower => {}
            _ => tracer.parameters(tensor.elements()),
        }
    }
}

/// The convolutions in front of an encoder of sound, from twice as many frames.
pub(super) fn convolutions(tracer: &mut Tracer, tensors: &[Tensor], hidden: u64, frames: u64) {
    let mut positions = frames.saturating_mul(2);
    for tensor in tensors.iter().filter(|tensor| tensor.role == Role::Tower) {
        if !tensor.is_matrix() {
            tracer.parameters(tensor.elements());
            continue;
        }
        let channels = tensor.columns / SOUND_KERNEL;
        let kernel = Kernel {
            elements: SOUND_KERNEL,
            bias: false,
            ..Kernel::square(channels, tensor.rows, 1)
        };
        // The second one, from the encoder's width, halves.
        let to = if channels == hidden {
            frames
        } else {
            positions
        };
        tracer.convolution(&tensor.name, &kernel, positions, to);
        let elements = product(&[to, tensor.rows]);
        tracer.elementwise("convolution.activation", elements, elements);
        positions = to;
    }
}

/// Frames that a convolution of Whisper's encoder sees: `kernel_size=3`.
const SOUND_KERNEL: u64 = 3;

/// Layers over a span; what could not be counted is said.
pub(super) fn layers(
    tracer: &mut Tracer,
    name: &str,
    runs: &[LayerRun],
    hidden: u64,
    span: Span,
) -> Vec<String> {
    let mut unknown = Vec::new();
    for run in runs {
        tracer.repeat(run.count, |tracer| {
            let states = product(&[span.tokens, hidden]);
            // The layer's input, what attention made of it, and the norm of that.
            tracer.holding(3 * states, |tracer| {
                mix(tracer, name, &run.layer.mixer, span, &mut unknown);
                for tensor in &run.layer.tensors {
                    multiply(tracer, name, tensor, span, &run.layer.feed_forward);
                }
                if run.layer.cross_attention > 0 {
                    let size =
                        Attention::full(span.tokens, span.source, 1, run.layer.cross_attention);
                    tracer.attention(&format!("{name}.cross_attention"), &size);
                }
            });
            tracer.elementwise(&format!("{name}.residual"), 2 * states, states);
        });
    }
    unknown
}

fn mix(tracer: &mut Tracer, name: &str, mixer: &Mixer, span: Span, unknown: &mut Vec<String>) {
    if let Some(shape) = mixer.head_shape() {
        let size = Attention {
            queries: span.tokens,
            keys: libm::round(mixer.window().visible(span.context)) as u64,
            heads: shape.heads,
            key_width: shape.key_dim,
            value_width: shape.value_dim,
            kv_heads: shape.kv_heads,
        };
        tracer.attention(&format!("{name}.attention"), &size);
    } else if !matches!(mixer, Mixer::None) {
        let line = format!("{name}: products of state or latent attention are not counted");
        if !unknown.contains(&line) {
            unknown.push(line);
        }
    }
}

fn multiply(tracer: &mut Tracer, name: &str, tensor: &Tensor, span: Span, mlp: &FeedForward) {
    let called = format!("{name}.{}", tensor.name);
    let elements = product(&[span.tokens, tensor.rows]);
    match tensor.role {
        Role::Norm => tracer.norm(&called, elements, tensor.elements()),
        // Biases, and tables of relative positions.
        Role::AttentionOther | Role::Position | Role::StateOther => {
            tracer.parameters(tensor.elements());
        }
        _ if !tensor.is_matrix() => tracer.parameters(tensor.elements()),
        Role::CrossAttention if tensor.copies == 3 => {
            let shape = (tensor.columns, tensor.rows);
            tracer.linear(&called, span.tokens, shape, false);
            if !span.source_cached {
                tracer.linears(&called, 2, span.source, shape, false);
            }
        }
        role => {
            let shape = (tensor.columns, tensor.rows);
            if role.is_routed_expert() {
                let all = tensor.elements();
                let rows = span.tokens as f64 * mlp.chosen_share() * tensor.copies as f64;
                tracer.parameters(all);
                let rows = libm::round(rows) as u64;
                tracer.shared(|tracer| tracer.linear(&called, rows, shape, false));
                return;
            }
            tracer.linears(&called, tensor.copies, span.tokens, shape, false);
            if role == Role::MlpUp {
                tracer.elementwise(&format!("{name}.activation"), elements, elements);
            }
        }
    }
}

/// Keys and values of the encoder's output, which all tokens of a decoder read.
pub(super) fn source_cache(tracer: &mut Tracer, model: &Architecture, source: u64) {
    for run in &model.layers {
        let crossing = run
            .layer
            .tensors
            .iter()
            .filter(|tensor| tensor.role == Role::CrossAttention && tensor.copies == 3);
        for tensor in crossing {
            let shape = (tensor.columns, tensor.rows);
            tracer.repeat(run.count, |tracer| {
                tracer.linears("cross_attention.key_value", 2, source, shape, false);
            });
        }
    }
}

/// Scores of the vocabulary for so many tokens; a tied head's weights are the embedding's.
pub(super) fn head(tracer: &mut Tracer, model: &Architecture, tokens: u64) {
    let shape = (model.hidden, model.vocabulary);
    let own = model
        .outside
        .iter()
        .find(|tensor| tensor.role == Role::Head);
    match own {
        Some(tensor) => {
            tracer.linear("lm_head", tokens, (tensor.columns, tensor.rows), false);
        }
        None => tracer.shared(|tracer| tracer.linear("lm_head", tokens, shape, false)),
    }
}
