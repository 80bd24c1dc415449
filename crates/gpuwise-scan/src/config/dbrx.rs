//! DBRX: experts in every layer, with its attention and experts in objects of their own.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{ExpertShape, attention, experts, layer, norms},
    common::{Common, Heads},
};
use gpuwise_domain::model::LayerRun;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    (model_type == "dbrx").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let missing = |field, purpose| ConfigError::Missing { field, purpose };
    let mixing = text
        .object("attn_config")?
        .ok_or(missing("attn_config", "key-value heads"))?;
    let feeding = text
        .object("ffn_config")?
        .ok_or(missing("ffn_config", "experts"))?;
    let mut heads = Heads::read(context, hidden)?;
    heads.kv_heads = mixing.count(&["kv_n_heads"])?.unwrap_or(1);
    let heads = heads.checked("`n_heads`")?;
    let count = feeding.count(&["moe_num_experts"])?.unwrap_or(4);
    let chosen = feeding.count(&["moe_top_k"])?.unwrap_or(1);
    let width = feeding.need(&["ffn_hidden_size"], "width of an expert")?;
    let one = layer(
        attention(&heads.shape(hidden)),
        experts(&ExpertShape::new(hidden, count, chosen, width).checked("ffn_config.moe_top_k")?),
        norms(2, 1, hidden),
    );
    let run = LayerRun {
        count: common.count,
        layer: one,
    };
    Ok(common.parts(context, vec![run], heads.dim))
}
