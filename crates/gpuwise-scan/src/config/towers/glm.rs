//! GLM's towers: a convolution that merges patches, and a gated map before the language model.

use super::{Site, VisionEncoder, blocks::Blocks, encoder, patches::Patches, projector};
use crate::config::ConfigError;

pub(super) fn glm4(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1536)?;
    let output = reader.get(&["out_hidden_size"], 4096)?;
    let bias = reader.flag("attention_bias", false)?;
    let blocks = Blocks {
        qkv_bias: bias,
        // The layers are as wide inside as the output; `intermediate_size` is the merger's.
        ..Blocks::llama_like(
            hidden,
            output,
            reader.get(&["depth"], 24)?,
            reader.get(&["num_heads"], 12)?,
        )
    };
    let across = reader.across(336, 14)?;
    let mut eye = around(
        site,
        blocks,
        reader.get(&["intermediate_size"], 13_696)?,
        output,
    )?;
    let mut sheet = encoder();
    sheet
        .matrix("position_embedding", across * across, hidden)
        .vectors("post_conv_layernorm", hidden, 1);
    eye.tensors.extend(sheet.tensors);
    Ok(eye)
}

/// GLM-5.3: biases, norms of queries and keys, no learned positions.
pub(super) fn glm5(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1024)?;
    let width = reader.get(&["intermediate_size"], 4096)?;
    let heads = reader.get(&["num_heads"], 16)?;
    let bias = reader.flag("attention_bias", true)?;
    let blocks = Blocks {
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
        small: 2 * (hidden / heads),
        ..Blocks::llama_like(hidden, width, reader.get(&["depth"], 24)?, heads)
    };
    let inner = reader.get(&["projection_intermediate_size"], 10_240)?;
    around(site, blocks, inner, reader.get(&["out_hidden_size"], 1536)?)
}

/// What both have around their layers.
fn around(
    site: &Site<'_>,
    blocks: Blocks,
    inner: u64,
    output: u64,
) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = blocks.hidden;
    let merge = reader.get(&["spatial_merge_size"], 2)?;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 2)?.embed(&mut sheet, hidden, true);
    sheet.vectors("post_layernorm", hidden, 1);
    let mut maps = projector();
    maps.linear("downsample", output, hidden * merge * merge)
        .matrix("maps.proj", output, output)
        .vectors("maps.norm", output, 2)
        .matrices("maps.gate_up_proj", inner, output, 2)
        .matrix("maps.down_proj", output, inner);
    sheet.tensors.extend(maps.tensors);
    Ok(VisionEncoder {
        hidden,
        width: blocks.width,
        layers: blocks.layers,
        tensors: sheet.tensors,
        largest_patches: None,
        largest_item: None,
        videos: false,
    })
}
