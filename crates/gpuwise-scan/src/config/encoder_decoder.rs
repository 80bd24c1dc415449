//! T5, BART, Whisper and their relatives: an encoder, and a decoder that attends to it.

use super::{
    ConfigError, Parts,
    build::{AttentionShape, attention, dense, layer, norms, whole},
    fields::Fields,
};
use gpuwise_domain::model::{Encoder, Layer, LayerRun, Mixer, Role, Split, Tensor};
use gpuwise_units::Tokens;

type Reader = fn(Fields<'_>) -> Result<Parts, ConfigError>;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "t5" | "mt5" | "umt5" => Some(t5),
        "bart" | "mbart" | "plbart" | "whisper" | "m2m_100" | "pegasus" | "blenderbot" => {
            Some(bart)
        }
        _ => None,
    }
}

/// Query, key, value and output of attention to the encoder.
fn cross(hidden: u64, inner: u64, heads: u64, biases: u64) -> Vec<Tensor> {
    let role = Role::CrossAttention;
    let mut tensors = vec![
        Tensor::matrix("cross.qkv", role, inner, hidden, Split::Output(heads)).times(3),
        Tensor::matrix("cross.out", role, hidden, inner, Split::Input(heads)),
    ];
    if biases > 0 {
        tensors.push(Tensor::vector("cross.bias", role, biases));
    }
    tensors
}

fn table(name: &'static str, role: Role, rows: u64, hidden: u64) -> Tensor {
    Tensor::matrix(name, role, rows, hidden, Split::Vocabulary)
}

fn run(count: u64, layer: Layer) -> Vec<LayerRun> {
    vec![LayerRun { count, layer }]
}

/// What both kinds have in common; the rest is filled in by each.
fn parts(model_type: &str, hidden: u64, vocabulary: u64) -> Parts {
    Parts {
        model_type: model_type.into(),
        hidden,
        vocabulary,
        tied: true,
        rotary_elements: 0,
        layers: Vec::new(),
        outside: vec![table("embed_tokens", Role::Embedding, vocabulary, hidden)],
        prediction: Vec::new(),
        encoder: None,
        towers: Vec::new(),
        max_context: None,
        assumptions: Vec::new(),
    }
}

fn t5(root: Fields<'_>) -> Result<Parts, ConfigError> {
    let model_type = root.text("model_type")?.unwrap_or("t5");
    let hidden = root.need(&["d_model"], "width of the model")?;
    let heads = root.need(&["num_heads"], "attention")?;
    let dim = root.count(&["d_kv"])?.unwrap_or(64);
    let width = root.need(&["d_ff"], "width of the feed-forward")?;
    let count = root.layers(&["num_layers"])?;
    let decoders = match root.raw("num_decoder_layers") {
        Some(_) => root.layers(&["num_decoder_layers"])?,
        None => count,
    };
    let vocabulary = root.vocabulary()?;
    let activation = root.text("feed_forward_proj")?;
    let gated = activation.map_or(model_type != "t5", |kind| kind.starts_with("gated"));
    // The gated generation was trained with a head of its own, which checkpoints store; the class
    // of the reference ties it only where a checkpoint does not.
    let tied = root.flag("tie_word_embeddings")?.unwrap_or(!gated);
    let buckets = root
        .count(&["relative_attention_num_buckets"])?
        .unwrap_or(32);
    let bias = |name| whole(name, Role::AttentionOther, buckets, heads);
    let one = |norm_count| {
        let mixer = attention(&AttentionShape::new(hidden, heads, heads, dim));
        let mut one = layer(
            mixer,
            dense(hidden, width, gated, false),
            norms(norm_count, 1, hidden),
        );
        // The first layer's bias of relative positions serves all, except in UMT5.
        if model_type == "umt5" {
            one.tensors.push(bias("relative_bias"));
        }
        one
    };
    let mut decoder_layer = one(3);
    decoder_layer
        .tensors
        .extend(cross(hidden, heads * dim, heads, 0));
    decoder_layer.cross_attention = heads * dim;
    let around = |name| {
        let shared = (model_type != "umt5").then(|| bias(name));
        shared
            .into_iter()
            .chain(norms(1, 1, hidden))
            .collect::<Vec<_>>()
    };
    let mut parts = parts(model_type, hidden, vocabulary);
    if !tied {
        parts
            .outside
            .push(table("lm_head", Role::Head, vocabulary, hidden));
    }
    parts.outside.extend(around("decoder.relative_bias"));
    Ok(Parts {
        tied,
        layers: run(decoders, decoder_layer),
        encoder: Some(Encoder {
            layers: run(count, one(2)),
            outside: around("encoder.relative_bias"),
            positions: None,
        }),
        max_context: root.length(&["n_positions"])?,
        ..parts
    })
}

/// How the relatives of BART differ outside of their layers.
#[derive(Debug, Clone, Copy)]
struct Edges {
    /// Rows of the position tables that are kept for padding; `None` where positions are computed.
    spare_positions: Option<u64>,
    /// Norms of the encoder, and of the decoder, outside of layers: of the embedding, and the last.
    norms: u64,
}

fn edges(model_type: &str) -> Edges {
    let (spare_positions, norms) = match model_type {
        "whisper" | "pegasus" | "blenderbot" => (Some(0), 1),
        "mbart" => (Some(2), 2),
        "m2m_100" => (None, 1),
        _ => (Some(2), 1),
    };
    Edges {
        spare_positions,
        norms,
    }
}

fn bart(root: Fields<'_>) -> Result<Parts, ConfigError> {
    let model_type = root.text("model_type")?.unwrap_or("bart");
    let whisper = model_type == "whisper";
    let hidden = root.need(&["d_model"], "width of the model")?;
    let vocabulary = root.vocabulary()?;
    let heads = root.need(&["decoder_attention_heads"], "attention")?;
    if !hidden.is_multiple_of(heads) {
        return Err(ConfigError::Contradiction(format!(
            "`d_model` {hidden} is no multiple of `decoder_attention_heads` {heads}"
        )));
    }
    let encoder_width = root.need(&["encoder_ffn_dim"], "width of the encoder")?;
    let decoder_width = root.need(&["decoder_ffn_dim"], "width of the decoder")?;
    // Whisper's keys have no bias.
    let biases = if whisper { 3 * hidden } else { 4 * hidden };
    let mixer = biased_attention(hidden, heads, biases);
    let encoder_layer = layer(
        mixer.clone(),
        dense(hidden, encoder_width, false, true),
        norms(2, 2, hidden),
    );
    let mut decoder_layer = layer(
        mixer,
        dense(hidden, decoder_width, false, true),
        norms(3, 2, hidden),
    );
    decoder_layer
        .tensors
        .extend(cross(hidden, hidden, heads, biases));
    decoder_layer.cross_attention = hidden;
    let source = root
        .length(&["max_source_positions", "max_position_embeddings"])?
        .unwrap_or(1024);
    let target = root
        .length(&["max_target_positions", "max_position_embeddings"])?
        .unwrap_or(1024);
    let edges = edges(model_type);
    let around = |positions: u64| {
        let rows = edges.spare_positions.map(|spare| positions + spare);
        let table = rows.map(|rows| {
            Tensor::matrix("positions", Role::Position, rows, hidden, Split::Replicated)
        });
        table
            .into_iter()
            .chain(norms(edges.norms, 2, hidden))
            .collect::<Vec<_>>()
    };
    let mut encoder_outside = around(source);
    if whisper {
        encoder_outside.extend(convolutions(root, hidden)?);
    }
    let mut parts = parts(model_type, hidden, vocabulary);
    parts.outside.extend(around(target));
    Ok(Parts {
        layers: run(root.layers(&["decoder_layers"])?, decoder_layer),
        encoder: Some(Encoder {
            layers: run(root.layers(&["encoder_layers"])?, encoder_layer),
            outside: encoder_outside,
            positions: whisper.then_some(Tokens(source)),
        }),
        max_context: Some(target),
        ..parts
    })
}

fn biased_attention(hidden: u64, heads: u64, biases: u64) -> (Mixer, Vec<Tensor>) {
    let (mixer, mut tensors) =
        attention(&AttentionShape::new(hidden, heads, heads, hidden / heads));
    tensors.push(Tensor::vector(
        "attention.bias",
        Role::AttentionOther,
        biases,
    ));
    (mixer, tensors)
}

/// Two convolutions over three frames each, from the spectrum to the width of the encoder.
fn convolutions(root: Fields<'_>, hidden: u64) -> Result<Vec<Tensor>, ConfigError> {
    let bins = root.count(&["num_mel_bins"])?.unwrap_or(80);
    let convolution =
        |name, input| Tensor::matrix(name, Role::Tower, hidden, 3 * input, Split::Replicated);
    Ok(vec![
        convolution("conv1", bins),
        convolution("conv2", hidden),
        Tensor::vector("conv.bias", Role::Tower, 2 * hidden),
    ])
}
