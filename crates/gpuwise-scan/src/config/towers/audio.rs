//! Audio towers with their projectors.

use super::{Reader, blocks::Blocks, blocks::Sheet, conformer, encoder, projector};
use crate::config::{ConfigError, fields::Fields};
use gpuwise_domain::model::{Tower, TowerKind};
use gpuwise_units::Tokens;

/// An ear: the tower of an `audio_config`.
pub(super) fn tower(
    fields: Fields<'_>,
    text: u64,
    assumptions: &mut Vec<String>,
) -> Result<Option<Tower>, ConfigError> {
    let reader = Reader(Some(fields));
    Ok(Some(match reader.text("model_type")?.unwrap_or("") {
        "gemma3n_audio" => conformer::gemma3n(&reader, text)?,
        "gemma4_audio" => conformer::gemma4(&reader, text)?,
        "qwen3_omni_moe_audio_encoder" => qwen3(&reader)?,
        "qwen2_audio_encoder" => whisper(&reader, text)?,
        other => {
            if fields.count(&["d_model", "hidden_size"])?.is_none() {
                return Ok(None);
            }
            assumptions.push(format!(
                "audio tower {other:?} is not known: read as a Whisper-like encoder"
            ));
            whisper(&reader, text)?
        }
    }))
}

pub(super) fn ear(
    blocks: Blocks,
    mut sheet: Sheet,
    projector: Sheet,
    frames: Option<u64>,
    item: Option<u64>,
) -> Tower {
    sheet.tensors.extend(projector.tensors);
    Tower {
        kind: TowerKind::Audio,
        hidden: blocks.hidden,
        width: blocks.width,
        layers: blocks.layers,
        largest_item: item.map(Tokens),
        largest_patches: frames,
        videos: false,
        tensors: sheet.tensors,
    }
}

fn blocks(reader: &Reader<'_>) -> Result<Blocks, ConfigError> {
    let hidden = reader.get(&["d_model", "hidden_size"], 1280)?;
    Ok(Blocks::usual(
        hidden,
        reader.get(&["encoder_ffn_dim", "intermediate_size"], 4 * hidden)?,
        reader.get(&["encoder_layers", "num_hidden_layers"], 32)?,
        reader.get(&["encoder_attention_heads", "num_attention_heads"], 20)?,
    ))
}

/// Whisper's encoder, whose keys have no bias.
fn whisper(reader: &Reader<'_>, text: u64) -> Result<Tower, ConfigError> {
    let blocks = Blocks {
        qkv_bias: false,
        ..blocks(reader)?
    };
    let hidden = blocks.hidden;
    let bins = reader.get(&["num_mel_bins", "input_feat_size"], 128)?;
    let positions = reader.get(&["max_source_positions"], 1500)?;
    let mut sheet = encoder();
    sheet
        .blocks(&blocks)
        .vectors("qv.bias", hidden, 2 * blocks.layers)
        .linear("conv1", hidden, 3 * bins)
        .linear("conv2", hidden, 3 * hidden)
        .matrix("positions", positions, hidden)
        .vectors("layer_norm", hidden, 2);
    let mut map = projector();
    map.linear("linear", text, hidden);
    Ok(ear(
        blocks,
        sheet,
        map,
        Some(positions),
        Some(positions / 2),
    ))
}

/// Qwen3-Omni: three strided convolutions over the spectrum as an image.
fn qwen3(reader: &Reader<'_>) -> Result<Tower, ConfigError> {
    let blocks = blocks(reader)?;
    let hidden = blocks.hidden;
    let channels = reader.get(&["downsample_hidden_size"], 480)?;
    let bins = reader.get(&["num_mel_bins"], 128)?;
    // Each convolution halves the bins, rounded up.
    let left = bins.div_ceil(2).div_ceil(2).div_ceil(2);
    let mut sheet = encoder();
    sheet
        .blocks(&blocks)
        .linear("conv2d1", channels, 9)
        .linear("conv2d2", channels, 9 * channels)
        .linear("conv2d3", channels, 9 * channels)
        .matrix("conv_out", hidden, channels * left)
        .vectors("ln_post", hidden, 2);
    let output = reader.get(&["output_dim"], 2048)?;
    let mut maps = projector();
    maps.linear("proj1", hidden, hidden)
        .linear("proj2", output, hidden);
    // Thirteen tokens a second, of clips of any length.
    Ok(ear(blocks, sheet, maps, None, None))
}
