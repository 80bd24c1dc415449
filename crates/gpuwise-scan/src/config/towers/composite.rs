//! Models put together from a known tower and a projector: LLaVA, PaliGemma, Idefics and the like.

use super::{Reader, Site, VisionEncoder, blocks::Blocks, encoder, patches::Patches, projectors};
use crate::config::ConfigError;

/// A tower by its own type and a projector by the type of the whole.
pub(super) fn read(
    whole_type: &str,
    site: &Site<'_>,
    assumptions: &mut Vec<String>,
) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let tower_type = reader.text("model_type")?.unwrap_or(whole_type);
    let mut eye = match tower_type {
        "clip_vision_model" => clip(reader)?,
        "pixtral" => pixtral(reader)?,
        "siglip_vision_model" => {
            let head = reader.flag("vision_use_head", true)?;
            siglip(reader, head)?
        }
        "idefics2" | "idefics2_vision" | "idefics3_vision" | "idefics3" | "smolvlm_vision" => {
            siglip(reader, false)?
        }
        other => {
            assumptions.push(format!(
                "vision tower {other:?} is not known: read as a CLIP-like transformer"
            ));
            clip(reader)?
        }
    };
    let known = projectors::add(whole_type, site, &mut eye)?;
    if !known {
        assumptions.push(format!(
            "projector of {whole_type:?} is not known: two linear maps assumed"
        ));
    }
    Ok(eye)
}

/// Gemma-3, whose tower is a class default where it is not described.
pub(super) fn gemma3(site: &Site<'_>) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let default = Vit {
        hidden: 1152,
        width: 4304,
        layers: 27,
        heads: 16,
        image: 896,
        patch: 14,
    };
    let (mut eye, _) = vit(reader, default, true)?;
    let head = reader.0.is_some() && reader.flag("vision_use_head", true)?;
    finish_siglip(&mut eye, head);
    projectors::add("gemma3", site, &mut eye)?;
    // Four by four patches are averaged into one token.
    eye.largest_item = Some(site.root.count(&["mm_tokens_per_image"])?.unwrap_or(256));
    Ok(eye)
}

/// Class defaults of a vision transformer.
#[derive(Debug, Clone, Copy)]
struct Vit {
    hidden: u64,
    width: u64,
    layers: u64,
    heads: u64,
    image: u64,
    patch: u64,
}

/// Layers and patches; also the number of patches of an image.
fn vit(
    reader: &Reader<'_>,
    default: Vit,
    patch_bias: bool,
) -> Result<(VisionEncoder, u64), ConfigError> {
    let hidden = reader.get(&["hidden_size", "embed_dim", "width"], default.hidden)?;
    let width = reader.get(&["intermediate_size"], default.width)?;
    let layers = reader.get(&["num_hidden_layers", "depth", "layers"], default.layers)?;
    let heads = reader.get(
        &["num_attention_heads", "num_heads", "heads"],
        default.heads,
    )?;
    let across = reader.across(default.image, default.patch)?;
    let mut sheet = encoder();
    sheet.blocks(&Blocks::usual(hidden, width, layers, heads));
    Patches::read(reader, default.patch, 1)?.embed(&mut sheet, hidden, patch_bias);
    let patches = across * across;
    // SigLIP has one position a patch, CLIP one more for its class token.
    sheet.matrix("positions", patches + u64::from(!patch_bias), hidden);
    let eye = VisionEncoder {
        hidden,
        width,
        layers,
        tensors: sheet.tensors,
        largest_patches: Some(patches),
        largest_item: Some(patches),
        videos: false,
    };
    Ok((eye, patches))
}

/// CLIP: a class token, norms before and after.
fn clip(reader: &Reader<'_>) -> Result<VisionEncoder, ConfigError> {
    let default = Vit {
        hidden: 768,
        width: 3072,
        layers: 12,
        heads: 12,
        image: 224,
        patch: 32,
    };
    let (mut eye, _) = vit(reader, default, false)?;
    let mut sheet = encoder();
    sheet.vectors("class_and_norms", eye.hidden, 1 + 4);
    eye.tensors.extend(sheet.tensors);
    Ok(eye)
}

fn siglip(reader: &Reader<'_>, head: bool) -> Result<VisionEncoder, ConfigError> {
    let default = Vit {
        hidden: 768,
        width: 3072,
        layers: 12,
        heads: 12,
        image: 224,
        patch: 16,
    };
    let (mut eye, _) = vit(reader, default, true)?;
    finish_siglip(&mut eye, head);
    Ok(eye)
}

/// The last norm, and the pooling head where it is kept: attention of one learned token, and a
/// feed-forward.
fn finish_siglip(eye: &mut VisionEncoder, head: bool) {
    let (hidden, width) = (eye.hidden, eye.width);
    let mut sheet = encoder();
    sheet.vectors("post_layernorm", hidden, 2);
    if head {
        sheet
            .vectors("head.probe_and_norm", hidden, 3)
            .linear("head.qkv", 3 * hidden, hidden)
            .linear("head.out", hidden, hidden)
            .linear("head.fc1", width, hidden)
            .linear("head.fc2", hidden, width);
    }
    eye.tensors.extend(sheet.tensors);
}

/// Pixtral: like a language model, with rotary positions in two dimensions.
fn pixtral(reader: &Reader<'_>) -> Result<VisionEncoder, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1024)?;
    let width = reader.get(&["intermediate_size"], 4096)?;
    let layers = reader.get(&["num_hidden_layers"], 24)?;
    let heads = reader.get(&["num_attention_heads"], 16)?;
    let head_dim = reader.get(&["head_dim"], (hidden / heads).max(1))?;
    let across = reader.across(1024, 16)?;
    let mut sheet = encoder();
    sheet.blocks(&Blocks {
        inner: heads * head_dim,
        ..Blocks::llama_like(hidden, width, layers, heads)
    });
    Patches::read(reader, 16, 1)?.embed(&mut sheet, hidden, false);
    sheet.vectors("ln_pre", hidden, 1);
    Ok(VisionEncoder {
        hidden,
        width,
        layers,
        tensors: sheet.tensors,
        largest_patches: Some(across * across),
        largest_item: Some(across * across),
        videos: false,
    })
}
