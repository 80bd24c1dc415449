//! Llama-3.2-Vision: a Llama in which some layers attend to the image instead of the text.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{attention, dense, layer, norms, outside_with, push},
    common::{Common, Heads},
};
use gpuwise_domain::model::{Layer, Mixer, Role, Split, Tensor};

/// Rows of the embedding for the image token and its neighbours, which the head never emits.
const IMAGE_ROWS: u64 = 8;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    matches!(model_type, "mllama_text_model" | "mllama").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let heads = Heads::read(context, hidden)?;
    let width = text.need(&["intermediate_size"], "width of the feed-forward")?;
    let cross = text.counts("cross_attention_layers")?.unwrap_or_default();
    let mut layers = Vec::new();
    for index in 0..common.count {
        let one = if cross.contains(&index) {
            cross_layer(heads, hidden, width)
        } else {
            let mixer = attention(&heads.shape(hidden));
            layer(
                mixer,
                dense(hidden, width, true, false),
                norms(2, 1, hidden),
            )
        };
        push(&mut layers, one);
    }
    let mut parts = common.parts(context, layers, heads.dim);
    parts.outside = outside_with(IMAGE_ROWS, common.vocabulary, hidden, common.tied, 1);
    Ok(parts)
}

/// Keys and values come from the image once: the cache does not grow with text.
fn cross_layer(heads: Heads, hidden: u64, width: u64) -> Layer {
    let Heads {
        heads,
        kv_heads,
        dim,
    } = heads;
    let role = Role::CrossAttention;
    let matrix = |name, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let mixing = vec![
        matrix("cross.q_proj", heads * dim, hidden, Split::Output(heads)),
        matrix(
            "cross.kv_proj",
            kv_heads * dim,
            hidden,
            Split::Output(kv_heads),
        )
        .times(2),
        matrix("cross.o_proj", hidden, heads * dim, Split::Input(heads)),
        Tensor::vector("cross.norms", role, dim).times(2),
        Tensor::vector("cross.gates", role, 2),
    ];
    let feed_forward = dense(hidden, width, true, false);
    let mut one = layer((Mixer::None, mixing), feed_forward, norms(2, 1, hidden));
    one.cross_attention = kv_heads * dim;
    one
}
