//! Stacks of equal transformer layers with biases: BERT, RoBERTa, the towers of CLIP, `ViT`.

use super::tracer::{Attention, Kernel, Tracer, product};
use gpuwise_domain::network::{
    BertHead, ClipText, TextEncoder, TransformerSize, VisionHead, VisionTransformer,
};

/// Layers of attention and a plain feed-forward, each with a norm and a residual.
fn layers(tracer: &mut Tracer, size: &TransformerSize, tokens: u64) {
    let TransformerSize {
        layers,
        hidden,
        heads,
        width,
    } = *size;
    let states = product(&[tokens, hidden]);
    tracer.repeat(layers, |tracer| {
        tracer.holding(states, |tracer| {
            tracer.norm("layer.norm", states, 2 * hidden);
            tracer.linears("layer.attention.qkv", 3, tokens, (hidden, hidden), true);
            let width = hidden / heads.max(1);
            let size = Attention::full(tokens, tokens, heads, width);
            tracer.attention("layer.attention", &size);
            tracer.linear("layer.attention.out", tokens, (hidden, hidden), true);
        });
        tracer.elementwise("layer.residual", 2 * states, states);
        // The layer's input, what attention made of it, and the norm of that.
        tracer.holding(3 * states, |tracer| {
            tracer.norm("layer.norm", states, 2 * hidden);
            let inner = product(&[tokens, width]);
            tracer.linear("layer.mlp.up", tokens, (hidden, width), true);
            tracer.elementwise("layer.mlp.activation", inner, inner);
            tracer.linear("layer.mlp.down", tokens, (width, hidden), true);
        });
        tracer.elementwise("layer.residual", 2 * states, states);
    });
}

/// BERT and RoBERTa over a text of so many tokens.
pub(super) fn text(tracer: &mut Tracer, shape: &TextEncoder, tokens: u64) {
    let hidden = shape.size.hidden;
    let states = product(&[tokens, hidden]);
    for (name, rows) in [
        ("embeddings.words", shape.vocabulary),
        ("embeddings.positions", shape.positions),
        ("embeddings.segments", shape.segments),
    ] {
        tracer.lookup(name, (rows, hidden), tokens, tokens);
    }
    tracer.norm("embeddings.norm", states, 2 * hidden);
    layers(tracer, &shape.size, tokens);
    bert_head(tracer, shape, tokens);
}

fn bert_head(tracer: &mut Tracer, shape: &TextEncoder, tokens: u64) {
    let hidden = shape.size.hidden;
    let square = (hidden, hidden);
    let words = |tracer: &mut Tracer| {
        tracer.linear("head.transform", tokens, square, true);
        tracer.norm("head.norm", product(&[tokens, hidden]), 2 * hidden);
        // The table of words again, with a bias of its own.
        tracer.parameters(shape.vocabulary);
        tracer.shared(|tracer| {
            tracer.linear("head.words", tokens, (hidden, shape.vocabulary), true);
        });
    };
    match shape.head {
        BertHead::None => {}
        BertHead::Pooler => tracer.linear("pooler", 1, square, true),
        BertHead::PreTraining => {
            tracer.linear("pooler", 1, square, true);
            words(tracer);
            tracer.linear("head.order", 1, (hidden, 2), true);
        }
        BertHead::Words => words(tracer),
        BertHead::Spans => tracer.linear("head.spans", tokens, (hidden, 2), true),
        BertHead::Classes(classes) => {
            tracer.linear("pooler", 1, square, true);
            tracer.linear("head.classes", 1, (hidden, classes), true);
        }
        BertHead::DenseClasses(classes) => {
            tracer.linear("head.dense", 1, square, true);
            tracer.linear("head.classes", 1, (hidden, classes), true);
        }
        BertHead::TokenClasses(classes) => {
            tracer.linear("head.classes", tokens, (hidden, classes), true);
        }
    }
}

/// The text tower of CLIP over a prompt that is padded to so many tokens.
pub(super) fn clip_text(tracer: &mut Tracer, shape: &ClipText, tokens: u64) {
    let hidden = shape.size.hidden;
    tracer.lookup(
        "embeddings.words",
        (shape.vocabulary, hidden),
        tokens,
        tokens,
    );
    tracer.lookup(
        "embeddings.positions",
        (shape.positions, hidden),
        tokens,
        tokens,
    );
    layers(tracer, &shape.size, tokens);
    tracer.norm("norm", product(&[tokens, hidden]), 2 * hidden);
    if let Some(width) = shape.projection {
        tracer.linear("projection", 1, (hidden, width), false);
    }
}

/// A transformer over so many patches, and one token for the whole.
pub(super) fn vision(tracer: &mut Tracer, shape: &VisionTransformer, patches: u64) {
    let hidden = shape.size.hidden;
    let clip = matches!(shape.head, VisionHead::Clip { .. });
    let area = product(&[shape.patch, shape.patch]);
    let kernel = Kernel {
        elements: area,
        bias: !clip,
        ..Kernel::square(shape.channels, hidden, 1)
    };
    tracer.convolution("patches", &kernel, product(&[patches, area]), patches);
    let tokens = patches.saturating_add(1);
    let states = product(&[tokens, hidden]);
    let side = shape.image / shape.patch.max(1);
    let positions = product(&[side, side]).saturating_add(1);
    tracer.parameters(hidden);
    tracer.parameters(product(&[positions, hidden]));
    tracer.elementwise("positions", 2 * states, states);
    if clip {
        tracer.norm("norm", states, 2 * hidden);
    }
    layers(tracer, &shape.size, tokens);
    match shape.head {
        VisionHead::None => tracer.norm("norm", states, 2 * hidden),
        VisionHead::Pooler => {
            tracer.norm("norm", states, 2 * hidden);
            tracer.linear("pooler", 1, (hidden, hidden), true);
        }
        VisionHead::Classes(classes) => {
            tracer.norm("norm", states, 2 * hidden);
            tracer.linear("head.classes", 1, (hidden, classes), true);
        }
        VisionHead::Clip { projection, scale } => {
            tracer.norm("norm", hidden, 2 * hidden);
            if let Some(width) = projection {
                tracer.linear("projection", 1, (hidden, width), false);
            }
            if scale {
                tracer.parameters(1);
                // One text against one image.
                let width = projection.unwrap_or(hidden);
                tracer.shared(|tracer| tracer.linear("similarity", 1, (width, 1), false));
            }
        }
    }
}
