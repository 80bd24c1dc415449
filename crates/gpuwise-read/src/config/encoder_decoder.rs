//! T5, BART and Whisper: an encoder, and a decoder that attends to it.

use super::{
    ConfigError, Parts,
    build::{AttentionShape, OutputGate, QueryKeyNorm, attention, dense, layer, norms},
    fields::Fields,
};
use gpuwise_domain::model::{Encoder, LayerRun, Role, Split, Tensor, Window};
use gpuwise_units::Tokens;

type Reader = fn(Fields<'_>) -> Result<Parts, ConfigError>;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "t5" | "mt5" | "umt5" | "longt5" | "switch_transformers" => Some(t5),
        "bart" | "mbart" | "whisper" | "m2m_100" | "pegasus" => Some(bart),
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

fn t5(root: Fields<'_>) -> Result<Parts, ConfigError> {
    let hidden = root.need(&["d_model"], "width of the model")?;
    let heads = root.need(&["num_heads"], "attention")?;
    let dim = root.count(&["d_kv"])?.unwrap_or(64);
    let width = root.need(&["d_ff"], "width of the feed-forward")?;
    let count = root.need(&["num_layers"], "depth of the model")?;
    let decoders = root.count(&["num_decoder_layers"])?.unwrap_or(count);
    let vocabulary = root.need(&["vocab_size"], "size of the embedding")?;
    let gated = root.text("feed_forward_proj")?.is_some_and(|kind| kind.starts_with("gated"));
    let tied = root.flag("tie_word_embeddings")?.unwrap_or(true);
    let buckets = root.count(&["relative_attention_num_buckets"])?.unwrap_or(32);
    let mixer = attention(&AttentionShape {
        hidden,
        heads,
        kv_heads: heads,
        key_dim: dim,
        value_dim: dim,
        window: Window::Full,
        qkv_bias: false,
        output_bias: false,
        norm: QueryKeyNorm::None,
        gate: OutputGate::None,
        sinks: false,
        keys_are_values: false,
        shares_cache: false,
    });
    let encoder_layer = layer(mixer.clone(), dense(hidden, width, gated, false), norms(2, 1, hidden));
    let mut decoder_layer = layer(mixer, dense(hidden, width, gated, false), norms(3, 1, hidden));
    decoder_layer.tensors.extend(cross(hidden, heads * dim, heads, 0));
    decoder_layer.cross_attention = heads * dim;
    let own = |name| {
        let mut tensors = vec![Tensor::matrix(name, Role::AttentionOther, buckets, heads, Split::Replicated)];
        tensors.extend(norms(1, 1, hidden));
        tensors
    };
    let table = |name, role| Tensor::matrix(name, role, vocabulary, hidden, Split::Vocabulary);
    let mut outside = vec![table("shared", Role::Embedding)];
    if !tied {
        outside.push(table("lm_head", Role::Head));
    }
    outside.extend(own("decoder.relative_bias"));
    Ok(Parts {
        model_type: root.text("model_type")?.unwrap_or("t5").into(),
        hidden,
        vocabulary,
        tied,
        rotary_elements: 0,
        layers: vec![LayerRun { count: decoders, layer: decoder_layer }],
        outside,
        prediction: Vec::new(),
        encoder: Some(Encoder {
            layers: vec![LayerRun { count, layer: encoder_layer }],
            outside: own("encoder.relative_bias"),
            positions: None,
        }),
        towers: Vec::new(),
        max_context: root.count(&["n_positions"])?,
        assumptions: Vec::new(),
    })
}

fn bart(root: Fields<'_>) -> Result<Parts, ConfigError> {
    let model_type = root.text("model_type")?.unwrap_or("bart");
    let whisper = model_type == "whisper";
    let hidden = root.need(&["d_model"], "width of the model")?;
    let vocabulary = root.need(&["vocab_size"], "size of the embedding")?;
    let heads = root.need(&["decoder_attention_heads"], "attention")?;
    if !hidden.is_multiple_of(heads) {
        return Err(ConfigError::Contradiction(format!(
            "`d_model` {hidden} is no multiple of `decoder_attention_heads` {heads}"
        )));
    }
    let encoder_width = root.need(&["encoder_ffn_dim"], "width of the encoder")?;
    let decoder_width = root.need(&["decoder_ffn_dim"], "width of the decoder")?;
    let dim = hidden / heads;
    // Whisper's keys have no bias.
    let biases = if whisper { 3 * hidden } else { 4 * hidden };
    let (mixer, mut tensors) = attention(&AttentionShape {
        hidden,
        heads,
        kv_heads: heads,
        key_dim: dim,
        value_dim: dim,
        window: Window::Full,
        qkv_bias: false,
        output_bias: false,
        norm: QueryKeyNorm::None,
        gate: OutputGate::None,
        sinks: false,
        keys_are_values: false,
        shares_cache: false,
    });
    tensors.push(Tensor::vector("attention.bias", Role::AttentionOther, biases));
    let encoder_layer = layer(
        (mixer, tensors.clone()),
        dense(hidden, encoder_width, false, true),
        norms(2, 2, hidden),
    );
    let mut decoder_layer = layer((mixer, tensors), dense(hidden, decoder_width, false, true), norms(3, 2, hidden));
    decoder_layer.tensors.extend(cross(hidden, hidden, heads, biases));
    decoder_layer.cross_attention = hidden;
    let source = root
        .count(&["max_source_positions", "max_position_embeddings"])?
        .unwrap_or(1024);
    let target = root
        .count(&["max_target_positions", "max_position_embeddings"])?
        .unwrap_or(1024);
    // BART's tables keep two rows for padding, and norm the embedding.
    let spare = if whisper { 0 } else { 2 };
    let mut encoder_outside = vec![Tensor::vector("encoder.positions", Role::Position, (source + spare) * hidden)];
    encoder_outside.extend(norms(1, 2, hidden));
    let mut outside = vec![
        Tensor::matrix("shared", Role::Embedding, vocabulary, hidden, Split::Vocabulary),
        Tensor::vector("decoder.positions", Role::Position, (target + spare) * hidden),
    ];
    outside.extend(norms(1, 2, hidden));
    if whisper {
        let bins = root.count(&["num_mel_bins"])?.unwrap_or(80);
        let convolutions = 3 * bins * hidden + 3 * hidden * hidden + 2 * hidden;
        encoder_outside.push(Tensor::vector("convolutions", Role::Tower, convolutions));
    }
    Ok(Parts {
        model_type: model_type.into(),
        hidden,
        vocabulary,
        tied: true,
        rotary_elements: 0,
        layers: vec![LayerRun {
            count: root.need(&["decoder_layers"], "depth of the decoder")?,
            layer: decoder_layer,
        }],
        outside,
        prediction: Vec::new(),
        encoder: Some(Encoder {
            layers: vec![LayerRun {
                count: root.need(&["encoder_layers"], "depth of the encoder")?,
                layer: encoder_layer,
            }],
            outside: encoder_outside,
            positions: whisper.then_some(Tokens(source)),
        }),
        towers: Vec::new(),
        max_context: Some(target),
        assumptions: Vec::new(),
    })
}
