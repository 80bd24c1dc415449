//! Networks of diffusers: U-nets and autoencoders.

use super::Reader;
use crate::config::{ConfigError, fields::Fields};
use gpuwise_domain::network::{Autoencoder, DiffusionUnet, Shape, UnetLevel, VideoAutoencoder};

pub(super) fn reader(class: &str) -> Option<Reader> {
    Some(match class {
        "UNet2DConditionModel" => unet,
        "AutoencoderKL" | "AutoencoderKLFlux2" => autoencoder,
        "AutoencoderKLWan" | "AutoencoderKLQwenImage" => video_autoencoder,
        _ => return None,
    })
}

/// Levels of a U-net or an autoencoder: more than 16 halvings leave nothing of any image.
const MOST_LEVELS: usize = 16;
/// Residual or transformer blocks of a level.
const MOST_BLOCKS: u64 = 1000;

/// A count, where the class has a default.
pub(super) fn or(root: Fields<'_>, name: &'static str, default: u64) -> Result<u64, ConfigError> {
    Ok(root.count(&[name])?.unwrap_or(default))
}

/// One number for each level, or one for all.
fn of_levels(
    root: Fields<'_>,
    name: &'static str,
    levels: usize,
    default: u64,
) -> Result<Vec<u64>, ConfigError> {
    let values: Result<Vec<u64>, _> = (0..levels as u64)
        .map(|level| Ok(root.count_at(&[name], level)?.unwrap_or(default)))
        .collect();
    values
}

fn widths(root: Fields<'_>) -> Result<Vec<u64>, ConfigError> {
    let widths = root
        .counts("block_out_channels")?
        .ok_or(ConfigError::Missing {
            field: "block_out_channels",
            purpose: "width of the levels",
        })?;
    if widths.is_empty() || widths.len() > MOST_LEVELS || widths.contains(&0) {
        return Err(ConfigError::Contradiction(format!(
            "`block_out_channels` must be 1 to {MOST_LEVELS} numbers above 0"
        )));
    }
    Ok(widths)
}

/// Whether each level attends, by the names of its blocks.
fn attends(
    root: Fields<'_>,
    name: &'static str,
    levels: usize,
    known: [&str; 2],
) -> Result<Vec<bool>, ConfigError> {
    let names = root.texts(name)?.ok_or(ConfigError::Missing {
        field: name,
        purpose: "kind of the levels",
    })?;
    if names.len() != levels {
        return Err(ConfigError::Contradiction(format!(
            "`{name}` has {} entries for {levels} levels",
            names.len()
        )));
    }
    names
        .iter()
        .map(
            |block| match known.iter().position(|known| known == block) {
                Some(at) => Ok(at == 1),
                None => Err(ConfigError::Contradiction(format!(
                    "`{name}` names {block:?}; known are {} and {}",
                    known[0], known[1]
                ))),
            },
        )
        .collect()
}

/// Refuses what the walk does not know instead of counting wrongly.
pub(super) fn refuse(root: Fields<'_>, names: &[&'static str]) -> Result<(), ConfigError> {
    for name in names {
        let usual = |text: &str| matches!(text, "default" | "positional" | "silu" | "null");
        let harmless = match root.raw(name) {
            None => true,
            Some(value) => value.as_bool() == Some(false) || value.as_str().is_some_and(usual),
        };
        if !harmless && let Some(value) = root.raw(name) {
            return Err(root.wrong(name, value, "absent: this variant is not known"));
        }
    }
    Ok(())
}

fn unet(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    refuse(
        root,
        &[
            "class_embed_type",
            "num_class_embeds",
            "encoder_hid_dim",
            "encoder_hid_dim_type",
            "dual_cross_attention",
            "time_embedding_dim",
            "time_embedding_type",
            "resnet_time_scale_shift",
            "time_cond_proj_dim",
            "attention_type",
            "reverse_transformer_layers_per_block",
            "mid_block_only_cross_attention",
            "only_cross_attention",
            "class_embeddings_concat",
        ],
    )?;
    let widths = widths(root)?;
    let count = widths.len();
    let down = attends(
        root,
        "down_block_types",
        count,
        ["DownBlock2D", "CrossAttnDownBlock2D"],
    )?;
    let up = attends(
        root,
        "up_block_types",
        count,
        ["UpBlock2D", "CrossAttnUpBlock2D"],
    )?;
    let depths = of_levels(root, "transformer_layers_per_block", count, 1)?;
    // What is called the width of a head is their number, as its authors found too late.
    let heads = if root.raw("num_attention_heads").is_some() {
        of_levels(root, "num_attention_heads", count, 8)?
    } else {
        of_levels(root, "attention_head_dim", count, 8)?
    };
    let transformers = |attends: Option<&bool>, level: usize| match attends {
        Some(true) => depths.get(level).copied().unwrap_or(1),
        _ => 0,
    };
    let levels = widths
        .iter()
        .enumerate()
        .map(|(level, &channels)| UnetLevel {
            channels,
            down_transformers: transformers(down.get(level), level),
            // From the inside out.
            up_transformers: transformers(up.get(count - 1 - level), level),
            heads: heads.get(level).copied().unwrap_or(1).max(1),
        })
        .collect();
    let stated = root.text("mid_block_type")?;
    let middle = match stated {
        Some("UNetMidBlock2DCrossAttn") => Some(depths.last().copied().unwrap_or(1)),
        None if root.raw("mid_block_type").is_none() => Some(depths.last().copied().unwrap_or(1)),
        _ => {
            return Err(ConfigError::Contradiction(format!(
                "`mid_block_type` is {stated:?}; known is UNetMidBlock2DCrossAttn"
            )));
        }
    };
    let added = root.text("addition_embed_type")?;
    if added.is_some_and(|kind| kind != "text_time") {
        return Err(ConfigError::Contradiction(format!(
            "`addition_embed_type` is {added:?}; known is text_time"
        )));
    }
    let blocks = or(root, "layers_per_block", 2)?;
    let size = |name| -> Result<u64, ConfigError> {
        if added.is_some() {
            root.need(&[name], "width of the added embedding")
        } else {
            Ok(0)
        }
    };
    if blocks > MOST_BLOCKS || depths.iter().any(|depth| *depth > MOST_BLOCKS) {
        return Err(ConfigError::Contradiction(format!(
            "a level has more than {MOST_BLOCKS} blocks"
        )));
    }
    Ok(Shape::Unet(DiffusionUnet {
        input_channels: or(root, "in_channels", 4)?,
        output_channels: or(root, "out_channels", 4)?,
        sample: root.count(&["sample_size"])?,
        levels,
        blocks,
        middle_transformers: middle,
        cross_width: root.need(&["cross_attention_dim"], "width of the text's states")?,
        linear_projection: root.is("use_linear_projection")?,
        added_width: size("projection_class_embeddings_input_dim")?,
        added_size_width: size("addition_time_embed_dim")?,
    }))
}

fn autoencoder(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let levels = widths(root)?;
    let count = levels.len();
    for (name, block) in [
        ("down_block_types", "DownEncoderBlock2D"),
        ("up_block_types", "UpDecoderBlock2D"),
    ] {
        attends(root, name, count, [block, block])?;
    }
    let flag = |name| Ok::<_, ConfigError>(root.flag(name)?.unwrap_or(true));
    let blocks = or(root, "layers_per_block", 1)?;
    if blocks > MOST_BLOCKS {
        return Err(ConfigError::Contradiction(format!(
            "`layers_per_block` is above {MOST_BLOCKS}"
        )));
    }
    Ok(Shape::Autoencoder(Autoencoder {
        input_channels: or(root, "in_channels", 3)?,
        output_channels: or(root, "out_channels", 3)?,
        latent_channels: or(root, "latent_channels", 4)?,
        levels,
        blocks,
        quantize: flag("use_quant_conv")?,
        dequantize: flag("use_post_quant_conv")?,
        middle_attention: flag("mid_block_add_attention")?,
    }))
}

fn video_autoencoder(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    refuse(root, &["is_residual", "patch_size"])?;
    if root
        .list("attn_scales")?
        .is_some_and(|scales| !scales.is_empty())
    {
        return Err(ConfigError::Contradiction(
            "`attn_scales` is not empty: this variant is not known".into(),
        ));
    }
    let multipliers = root.counts("dim_mult")?.unwrap_or_else(|| vec![1, 2, 4, 4]);
    let halves = match root.list("temperal_downsample")? {
        None => vec![false, true, true],
        Some(items) => items
            .iter()
            .map(serde_json::Value::as_bool)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| {
                ConfigError::Contradiction("`temperal_downsample` is no list of truths".into())
            })?,
    };
    let blocks = or(root, "num_res_blocks", 2)?;
    let steps = multipliers.len().saturating_sub(1);
    if steps == 0
        || steps > MOST_LEVELS
        || halves.len() != steps
        || multipliers.contains(&0)
        || blocks > MOST_BLOCKS
    {
        return Err(ConfigError::Contradiction(format!(
            "`dim_mult` must be 2 to {MOST_LEVELS} numbers above 0, `temperal_downsample` one less, \
             and `num_res_blocks` at most {MOST_BLOCKS}"
        )));
    }
    Ok(Shape::VideoAutoencoder(VideoAutoencoder {
        base: or(root, "base_dim", 96)?,
        latent_channels: or(root, "z_dim", 16)?,
        channels: or(root, "in_channels", 3)?,
        multipliers,
        blocks,
        halve_time: halves,
    }))
}
