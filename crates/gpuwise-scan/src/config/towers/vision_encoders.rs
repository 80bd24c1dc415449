//! Towers that only one family has.

use super::{
    Site, VisionEncoder, blocks::Blocks, blocks::Sheet, encoder, patches::Patches, projector,
};
use crate::config::ConfigError;

pub(super) fn eye(
    blocks: Blocks,
    mut sheet: Sheet,
    projector: Sheet,
    patches: Option<u64>,
    item: Option<u64>,
) -> VisionEncoder {
    sheet.tensors.extend(projector.tensors);
    VisionEncoder {
        hidden: blocks.hidden,
        width: blocks.width,
        layers: blocks.layers,
        tensors: sheet.tensors,
        largest_patches: patches,
        largest_item: item,
        videos: false,
    }
}

/// MoonViT; Kimi-K3's has neither biases nor shifts of norms.
pub(super) fn kimi(site: &Site<'_>, whole_type: &str) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["vt_hidden_size", "hidden_size"], 1152)?;
    let width = reader.get(&["vt_intermediate_size", "intermediate_size"], 4304)?;
    let layers = reader.get(&["vt_num_hidden_layers", "num_hidden_layers"], 27)?;
    let heads = reader.get(&["vt_num_attention_heads", "num_attention_heads"], 16)?;
    let bias = whole_type != "kimi_k3";
    let vectors = if bias { 2 } else { 1 };
    let blocks = Blocks {
        inner: reader.get(&["qkv_hidden_size"], hidden)?,
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
        vectors: 2 * vectors,
        ..Blocks::usual(hidden, width, layers, heads)
    };
    let rows = reader.get(&["init_pos_emb_height"], 64)?;
    let columns = reader.get(&["init_pos_emb_width"], 64)?;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, bias);
    sheet
        .matrix("pos_emb", rows * columns, hidden)
        .vectors("final_layernorm", hidden, vectors);
    // Two by two patches side by side.
    let merged = 4 * hidden;
    let mut maps = projector();
    maps.vectors("pre_norm", hidden, vectors)
        .linear("in_proj", merged, merged)
        .linear("out_proj", site.text, merged);
    Ok(eye(blocks, sheet, maps, None, None))
}

pub(super) fn gemma4(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 768)?;
    let width = reader.get(&["intermediate_size"], 3072)?;
    let heads = reader.get(&["num_attention_heads"], 12)?;
    let head_dim = reader.get(&["head_dim"], 64)?;
    let blocks = Blocks {
        inner: heads * head_dim,
        vectors: 4,
        small: 2 * head_dim,
        ..Blocks::llama_like(
            hidden,
            width,
            reader.get(&["num_hidden_layers"], 16)?,
            heads,
        )
    };
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 16, 1)?.embed(&mut sheet, hidden, false);
    // One table a direction.
    sheet.matrices(
        "positions",
        reader.get(&["position_embedding_size"], 10_240)?,
        hidden,
        2,
    );
    let mut embed = projector();
    embed.matrix("embedding_projection", site.text, hidden);
    let tokens = site
        .root
        .count(&["vision_soft_tokens_per_image"])?
        .unwrap_or(280);
    let pool = reader.get(&["pooling_kernel_size"], 3)?;
    Ok(eye(
        blocks,
        sheet,
        embed,
        Some(tokens * pool * pool),
        Some(tokens),
    ))
}

pub(super) fn minimax(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let width = reader.get(&["intermediate_size"], 5120)?;
    let heads = reader.get(&["num_attention_heads"], 16)?;
    let blocks = Blocks::usual(
        hidden,
        width,
        reader.get(&["num_hidden_layers"], 32)?,
        heads,
    );
    let merge = reader.get(&["spatial_merge_size"], 2)?;
    let inner = site.root.count(&["projector_hidden_size"])?.unwrap_or(6144);
    let text = site.text;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 2)?.embed(&mut sheet, hidden, false);
    sheet.vectors("pre_layrnorm", hidden, 2);
    let mut maps = projector();
    maps.linear("linear_1", inner, hidden)
        .linear("linear_2", text, inner)
        .linear("merge_linear_1", inner, text * merge * merge)
        .linear("merge_linear_2", text, inner);
    Ok(eye(blocks, sheet, maps, None, None))
}

pub(super) fn step(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size", "width"], 1536)?;
    let ratio = reader.real("mlp_ratio", 8960.0 / 1536.0)?;
    let width = (hidden as f64 * ratio + 1e-9) as u64;
    let layers = reader.get(&["num_hidden_layers", "layers"], 47)?;
    let blocks = Blocks {
        // Two layer scales beside the norms.
        vectors: 4 + 2,
        ..Blocks::usual(
            hidden,
            width,
            layers,
            reader.get(&["num_attention_heads", "heads"], 16)?,
        )
    };
    let across = reader.across(728, 14)?;
    let patches = across * across;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, false);
    sheet
        .matrix("positions", patches, hidden)
        .vectors("pre_layernorm", hidden, 2);
    // Two strided convolutions of 3 × 3, each doubling the width, then a linear map.
    let mut down = projector();
    down.linear("downsampler1", 2 * hidden, 9 * hidden)
        .linear("downsampler2", 4 * hidden, 9 * 2 * hidden)
        .matrix("multi_modal_projector", site.text, 4 * hidden);
    Ok(eye(blocks, sheet, down, Some(patches), Some(patches / 16)))
}

/// InternViT: layer scales; the large one norms by root mean square, also queries and keys.
pub(super) fn internvl(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1024)?;
    let width = reader.get(&["intermediate_size"], 4096)?;
    let norm_vectors = if reader.text("norm_type")? == Some("rms_norm") {
        1
    } else {
        2
    };
    let blocks = Blocks {
        qkv_bias: reader.flag("attention_bias", false)?,
        vectors: 2 * norm_vectors + 2,
        small: if reader.flag("use_qk_norm", false)? {
            2 * hidden
        } else {
            0
        },
        ..Blocks::usual(
            hidden,
            width,
            reader.get(&["num_hidden_layers"], 24)?,
            reader.get(&["num_attention_heads"], 16)?,
        )
    };
    let across = reader.across(448, 14)?;
    let patches = across * across;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, true);
    sheet.vectors("cls_token", hidden, 1);
    if reader.flag("use_absolute_position_embeddings", true)? {
        sheet.matrix("positions", patches + 1, hidden);
    }
    let ratio = site
        .root
        .real("downsample_ratio")?
        .unwrap_or(0.5)
        .clamp(1.0 / 64.0, 1.0);
    let joined = (1.0 / (ratio * ratio)) as u64;
    let merged = hidden * joined;
    let mut maps = projector();
    maps.vectors("layer_norm", merged, 2)
        .linear("linear_1", site.text, merged)
        .linear("linear_2", site.text, site.text);
    Ok(eye(
        blocks,
        sheet,
        maps,
        Some(patches),
        Some(patches / joined),
    ))
}

/// Molmo2: features of two layers, pooled by attention, then a gated map.
pub(super) fn molmo2(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let hidden = reader.get(&["hidden_size"], 1152)?;
    let width = reader.get(&["intermediate_size"], 4304)?;
    let heads = reader.get(&["num_attention_heads"], 16)?;
    let head_dim = reader.get(&["head_dim"], 72)?;
    let blocks = Blocks {
        inner: heads * head_dim,
        ..Blocks::usual(
            hidden,
            width,
            reader.get(&["num_hidden_layers"], 25)?,
            heads,
        )
    };
    let across = reader.across(378, 14)?;
    let positions = reader.get(&["num_position_embeddings"], (across * across).max(1))?;
    let mut sheet = encoder();
    sheet.blocks(&blocks);
    Patches::read(reader, 14, 1)?.embed(&mut sheet, hidden, true);
    sheet.matrix("positions", positions, hidden);
    let adapter = super::Reader(site.root.object("adapter_config")?);
    let own = adapter.get(&["hidden_size"], hidden)?;
    let pooled = adapter.get(&["num_attention_heads"], 16)? * adapter.get(&["head_dim"], 72)?;
    let taken = adapter
        .0
        .map(|fields| fields.list("vision_feature_layer"))
        .transpose()?
        .flatten();
    let features = hidden * taken.map_or(2, |layers| layers.len() as u64).clamp(1, 64);
    let inner = adapter.get(&["intermediate_size"], 18_944)?;
    let output = adapter.get(&["text_hidden_size"], site.text)?;
    let mut maps = projector();
    maps.matrices("pooling.qkv", pooled, features, 3)
        .vectors("pooling.bias", pooled, 3)
        .linear("pooling.o_proj", own, pooled)
        .matrices("gate_up_proj", inner, own, 2)
        .matrix("down_proj", output, inner);
    let patches = across * across;
    Ok(eye(blocks, sheet, maps, Some(patches), Some(patches / 4)))
}
