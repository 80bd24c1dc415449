//! The towers of Llama-3.2-Vision and Llama-4, which cut images into tiles.

use super::{
    Site, VisionEncoder, blocks::Blocks, encoder, patches::Patches, projector, vision_encoders::eye,
};
use crate::config::ConfigError;

pub(super) fn llama4(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 768)?;
    let width = reader.get(&["intermediate_size"], 5632)?;
    let heads = reader.get(&["num_attention_heads"], 16)?;
    let blocks = Blocks::usual(
        hidden,
        width,
        reader.get(&["num_hidden_layers"], 34)?,
        heads,
    );
    let across = reader.across(448, 14)?;
    let patches = across * across;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, false);
    sheet
        .matrix("positions", patches + 1, hidden)
        .vectors("class_and_norms", hidden, 1 + 4);
    let input = reader.get(&["projector_input_dim"], 4096)?;
    let output = reader.get(&["projector_output_dim"], 4096)?;
    let handed = reader.get(&["vision_output_dim"], 7680)?;
    let mut adapter = projector();
    adapter
        .matrix("adapter.fc1", input, width)
        .matrix("adapter.fc2", output, output)
        .matrix("linear_1", site.text, handed);
    // Sixteen tiles and a thumbnail, of which the adapter makes a quarter as many tokens.
    Ok(eye(
        blocks,
        sheet,
        adapter,
        Some(17 * patches),
        Some(17 * (patches / 4)),
    ))
}

/// Llama-3.2-Vision: tiles with positions by aspect ratio, then layers with gates over all tiles.
pub(super) fn mllama(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let width = reader.get(&["intermediate_size"], 5120)?;
    let heads = reader.get(&["attention_heads", "num_attention_heads"], 16)?;
    let global = reader.get(&["num_global_layers"], 8)?;
    let blocks = Blocks {
        qkv_bias: false,
        out_bias: false,
        ..Blocks::usual(
            hidden,
            width,
            reader.get(&["num_hidden_layers"], 32)? + global,
            heads,
        )
    };
    let across = reader.across(448, 14)?;
    let positions = across * across + 1;
    let tiles = reader.get(&["max_num_tiles"], 4)?;
    let listed = reader
        .0
        .map(|fields| fields.list("supported_aspect_ratios"))
        .transpose()?
        .flatten();
    // One more stands for padding.
    let ratios = 1 + listed.map_or(8, |list| list.len() as u64).min(1000);
    let mut sheet = encoder();
    sheet.blocks(&blocks).vectors("global.gates", 2, global);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, false);
    sheet
        .matrix("positions", positions, hidden)
        .matrix(
            "tile_positions",
            ratios.saturating_mul(tiles * positions),
            hidden,
        )
        .matrices("tile_embeddings", ratios * tiles, hidden, 2)
        .vectors("position.gates", 3, 1)
        .vectors("class_and_norms", hidden, 1 + 4);
    let handed = reader.get(&["vision_output_dim"], 7680)?;
    let mut adapter = projector();
    adapter.linear("multi_modal_projector", site.text, handed);
    let largest = Some(tiles * positions);
    Ok(eye(blocks, sheet, adapter, largest, largest))
}
