//! Qwen's towers: patches in space and time, merged two by two before the language model.

use super::{
    Site, VisionEncoder, blocks::Blocks, blocks::Sheet, encoder, patches::Patches, projector,
};
use crate::config::ConfigError;

/// Tokens of the largest image by default, of four patches each.
const LARGEST_ITEM: u64 = 16_384;

fn eye(blocks: Blocks, sheet: Sheet, projector: Sheet) -> VisionEncoder {
    let mut tensors = sheet.tensors;
    tensors.extend(projector.tensors);
    VisionEncoder {
        hidden: blocks.hidden,
        width: blocks.width,
        layers: blocks.layers,
        tensors,
        largest_patches: Some(4 * LARGEST_ITEM),
        largest_item: Some(LARGEST_ITEM),
        videos: true,
    }
}

/// Width of the patches that a merger puts side by side.
fn merged(site: &Site<'_>, hidden: u64) -> Result<u64, ConfigError> {
    let merge = site.fields.get(&["spatial_merge_size"], 2)?;
    Ok(hidden * merge * merge)
}

pub(super) fn qwen2(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    // Here `hidden_size` is the language model's.
    let hidden = reader.get(&["embed_dim"], 1280)?;
    let width = (hidden as f64 * reader.real("mlp_ratio", 4.0)?) as u64;
    let blocks = Blocks::usual(
        hidden,
        width,
        reader.get(&["depth"], 32)?,
        reader.get(&["num_heads"], 16)?,
    );
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 2)?.embed(&mut sheet, hidden, false);
    let merged = merged(site, hidden)?;
    let mut maps = projector();
    maps.vectors("ln_q", hidden, 2)
        .linear("maps.0", merged, merged)
        .linear("maps.2", site.text, merged);
    Ok(eye(blocks, sheet, maps))
}

pub(super) fn qwen2_5(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let width = reader.get(&["intermediate_size"], 3420)?;
    let blocks = Blocks {
        gated: true,
        vectors: 2,
        ..Blocks::usual(
            hidden,
            width,
            reader.get(&["depth"], 32)?,
            reader.get(&["num_heads"], 16)?,
        )
    };
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 2)?.embed(&mut sheet, hidden, false);
    let merged = merged(site, hidden)?;
    let output = reader.get(&["out_hidden_size"], site.text)?;
    let mut maps = projector();
    maps.vectors("ln_q", hidden, 1)
        .linear("maps.0", merged, merged)
        .linear("maps.2", output, merged);
    Ok(eye(blocks, sheet, maps))
}

/// Qwen3-VL and Qwen3.5: learned positions, and mergers also of some deeper layers.
pub(super) fn qwen3(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1152)?;
    let width = reader.get(&["intermediate_size"], 4304)?;
    let blocks = Blocks::usual(
        hidden,
        width,
        reader.get(&["depth"], 27)?,
        reader.get(&["num_heads"], 16)?,
    );
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 16, 2)?.embed(&mut sheet, hidden, true);
    sheet.matrix(
        "pos_embed",
        reader.get(&["num_position_embeddings"], 2304)?,
        hidden,
    );
    let merged = merged(site, hidden)?;
    let output = reader.get(&["out_hidden_size"], site.text)?;
    let deep = match reader.0 {
        Some(fields) => fields
            .counts("deepstack_visual_indexes")?
            .map_or(0, |list| list.len() as u64),
        None => 0,
    };
    let mut maps = projector();
    maps.vectors("norm", hidden, 2)
        // Mergers of deeper layers norm after merging.
        .vectors("deepstack.norm", merged, 2 * deep)
        .matrices("maps.fc1", merged, merged, 1 + deep)
        .matrices("maps.fc2", output, merged, 1 + deep)
        .vectors("maps.bias", merged + output, 1 + deep);
    Ok(eye(blocks, sheet, maps))
}
