//! From a tower of a known kind to the language model.

use super::{Site, VisionEncoder, blocks::Sheet, projector};
use crate::config::ConfigError;

/// Adds the projector of a type to its tower; false where the type is not known and LLaVA's was
/// taken.
pub(super) fn add(
    whole_type: &str,
    site: &Site<'_>,
    eye: &mut VisionEncoder,
) -> Result<bool, ConfigError> {
    let (handed, text) = (eye.hidden, site.text);
    let mut sheet = projector();
    let mut known = true;
    match whole_type {
        "gemma3" => {
            sheet
                .matrix("projection", text, handed)
                .vectors("norm", handed, 1);
        }
        "paligemma" => {
            let output = site.root.count(&["projection_dim"])?.unwrap_or(text);
            sheet.linear("linear", output, handed);
        }
        "mistral3" => mistral3(site, eye, &mut sheet)?,
        "aya_vision" | "cohere2_vision" => cohere(whole_type, site, eye, &mut sheet)?,
        "idefics2" => idefics2(site, eye, &mut sheet)?,
        "idefics3" | "smolvlm" => {
            // Neighbouring patches are put side by side.
            let scale = site.root.count(&["scale_factor"])?.unwrap_or(2);
            let joined = scale * scale;
            sheet.matrix("proj", text, handed * joined);
            eye.largest_item = eye.largest_item.map(|tokens| tokens / joined);
        }
        _ => {
            known = matches!(
                whole_type,
                "llava"
                    | "llava_next"
                    | "llava_onevision"
                    | "llava_next_video"
                    | "vipllava"
                    | "pixtral"
            );
            llava(site, handed, &mut sheet)?;
        }
    }
    eye.tensors.extend(sheet.tensors);
    Ok(known)
}

/// Two linear maps; features of several layers may be put side by side.
fn llava(site: &Site<'_>, handed: u64, sheet: &mut Sheet) -> Result<(), ConfigError> {
    let taken = match site.root.raw("vision_feature_layer") {
        Some(serde_json::Value::Array(layers)) => (layers.len() as u64).clamp(1, 64),
        _ => 1,
    };
    let bias = site.root.flag("multimodal_projector_bias")?.unwrap_or(true);
    sheet
        .linear_if(bias, "linear_1", site.text, taken * handed)
        .linear_if(bias, "linear_2", site.text, site.text);
    Ok(())
}

/// A norm, a merger of neighbouring patches, and two linear maps.
fn mistral3(
    site: &Site<'_>,
    eye: &mut VisionEncoder,
    sheet: &mut Sheet,
) -> Result<(), ConfigError> {
    let merge = site.root.count(&["spatial_merge_size"])?.unwrap_or(2);
    let joined = merge * merge;
    let bias = site.root.is("multimodal_projector_bias")?;
    sheet
        .vectors("norm", eye.hidden, 1)
        .matrix("patch_merger", eye.hidden, eye.hidden * joined)
        .linear_if(bias, "linear_1", site.text, eye.hidden)
        .linear_if(bias, "linear_2", site.text, site.text);
    eye.largest_item = eye.largest_item.map(|tokens| tokens / joined);
    Ok(())
}

/// Neighbouring patches side by side, and a gated map of which half gates.
fn cohere(
    whole_type: &str,
    site: &Site<'_>,
    eye: &mut VisionEncoder,
    sheet: &mut Sheet,
) -> Result<(), ConfigError> {
    let factor = site.root.count(&["downsample_factor"])?.unwrap_or(2);
    let joined = eye.hidden * factor * factor;
    let inner = site
        .root
        .count(&["alignment_intermediate_size"])?
        .unwrap_or(site.text);
    if whole_type == "aya_vision" {
        sheet.vectors("layernorm", joined, 2);
    }
    sheet
        .linear("linear_1", inner, joined)
        .linear("linear_2", site.text, inner / 2);
    eye.largest_item = eye.largest_item.map(|tokens| tokens / (factor * factor));
    Ok(())
}

/// A gated map, then learned queries that attend to the image over a few layers.
fn idefics2(
    site: &Site<'_>,
    eye: &mut VisionEncoder,
    sheet: &mut Sheet,
) -> Result<(), ConfigError> {
    let perceiver = super::Reader(site.root.object("perceiver_config")?);
    let text_config = super::Reader(site.root.object("text_config")?);
    let width = text_config.get(&["intermediate_size"], 4 * site.text)?;
    let hidden = perceiver.get(&["hidden_size"], site.text)?;
    let depth = perceiver.get(&["resampler_depth"], 3)?;
    let head_dim = perceiver.get(&["resampler_head_dim"], 96)?;
    let queries = perceiver.get(&["resampler_n_heads"], 16)? * head_dim;
    let keys = perceiver.get(&["num_key_value_heads"], 4)? * head_dim;
    let latents = perceiver.get(&["resampler_n_latents"], 64)?;
    sheet
        .matrices("gate_up_proj", width, eye.hidden, 2)
        .matrix("down_proj", site.text, width)
        .matrix("latents", latents, hidden)
        .matrices("resampler.q_proj", queries, hidden, depth)
        .matrices("resampler.kv_proj", keys, hidden, 2 * depth)
        .matrices("resampler.o_proj", hidden, queries, depth)
        .matrices("resampler.gate_up_proj", 4 * hidden, hidden, 2 * depth)
        .matrices("resampler.down_proj", hidden, 4 * hidden, depth)
        .vectors("resampler.norms", hidden, 3 * depth + 1);
    eye.largest_item = Some(latents);
    Ok(())
}
