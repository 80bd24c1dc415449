//! Transformers of diffusers that denoise.

use super::{
    Reader,
    denoiser::{or, refuse},
};
use crate::config::{ConfigError, fields::Fields};
use gpuwise_domain::network::{
    DiffusionTransformer, FluxDenoiser, HunyuanVideo, QwenImage, Shape, StableDiffusion3, Wan,
};

pub(super) fn reader(class: &str) -> Option<Reader> {
    Some(match class {
        "FluxTransformer2DModel" => flux,
        "Flux2Transformer2DModel" => flux_2,
        "SD3Transformer2DModel" => stable_diffusion_3,
        "WanTransformer3DModel" => wan,
        "QwenImageTransformer2DModel" => qwen_image,
        "HunyuanVideoTransformer3DModel" => hunyuan_video,
        _ => return None,
    })
}

/// Heads and their width.
fn heads(root: Fields<'_>) -> Result<(u64, u64), ConfigError> {
    Ok((
        root.need(&["num_attention_heads"], "attention")?,
        root.need(&["attention_head_dim"], "attention")?,
    ))
}

/// The inner width of a feed-forward, as a multiple of the width.
fn ratio(root: Fields<'_>, default: f64, hidden: u64) -> Result<u64, ConfigError> {
    let ratio = root.real("mlp_ratio")?.unwrap_or(default);
    Ok((ratio * hidden as f64) as u64)
}

fn transformer(shape: DiffusionTransformer) -> Shape {
    Shape::Transformer(shape)
}

fn flux(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let (heads, head_width) = heads(root)?;
    let patch = or(root, "patch_size", 1)?;
    let input_channels = or(root, "in_channels", 64)?;
    let output_channels = or(root, "out_channels", input_channels)?;
    Ok(transformer(DiffusionTransformer::Flux(FluxDenoiser {
        second: false,
        input_channels,
        output_channels: output_channels * patch * patch,
        double_blocks: root.layers(&["num_layers"])?,
        single_blocks: root.layers(&["num_single_layers"])?,
        heads,
        head_width,
        feed_forward: 4 * heads * head_width,
        text_width: or(root, "joint_attention_dim", 4096)?,
        pooled_width: or(root, "pooled_projection_dim", 768)?,
        time_channels: 256,
        guidance: root.is("guidance_embeds")?,
    })))
}

fn flux_2(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let (heads, head_width) = heads(root)?;
    let patch = or(root, "patch_size", 1)?;
    let input_channels = or(root, "in_channels", 128)?;
    let output_channels = or(root, "out_channels", input_channels)?;
    Ok(transformer(DiffusionTransformer::Flux(FluxDenoiser {
        second: true,
        input_channels,
        output_channels: output_channels * patch * patch,
        double_blocks: root.layers(&["num_layers"])?,
        single_blocks: root.layers(&["num_single_layers"])?,
        heads,
        head_width,
        feed_forward: ratio(root, 3.0, heads * head_width)?,
        text_width: or(root, "joint_attention_dim", 15360)?,
        pooled_width: 0,
        time_channels: or(root, "timestep_guidance_channels", 256)?,
        guidance: root.flag("guidance_embeds")?.unwrap_or(true),
    })))
}

/// Whether queries and keys have norms; refuses kinds that are not known.
fn head_norms(root: Fields<'_>, known: &str) -> Result<bool, ConfigError> {
    match root.text("qk_norm")? {
        None => Ok(false),
        Some(kind) if kind == known => Ok(true),
        Some(kind) => Err(ConfigError::Contradiction(format!(
            "`qk_norm` is {kind:?}; known is {known}"
        ))),
    }
}

fn stable_diffusion_3(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let (heads, head_width) = heads(root)?;
    let hidden = heads * head_width;
    let blocks = root.layers(&["num_layers"])?;
    let dual = root.counts("dual_attention_layers")?.unwrap_or_default();
    if dual
        .iter()
        .enumerate()
        .any(|(at, layer)| *layer != at as u64)
    {
        return Err(ConfigError::Contradiction(
            "`dual_attention_layers` are not the first ones; other orders are not known".into(),
        ));
    }
    let caption = or(root, "caption_projection_dim", hidden)?;
    if caption != hidden || dual.len() as u64 > blocks {
        return Err(ConfigError::Contradiction(format!(
            "`caption_projection_dim` must be {hidden}, and at most {blocks} blocks attend twice"
        )));
    }
    let input_channels = or(root, "in_channels", 16)?;
    Ok(transformer(DiffusionTransformer::StableDiffusion3(
        StableDiffusion3 {
            patch: or(root, "patch_size", 2)?,
            input_channels,
            output_channels: or(root, "out_channels", input_channels)?,
            sample: root.count(&["sample_size"])?,
            blocks,
            dual_blocks: dual.len() as u64,
            heads,
            head_width,
            text_width: or(root, "joint_attention_dim", 4096)?,
            pooled_width: or(root, "pooled_projection_dim", 2048)?,
            largest_side: or(root, "pos_embed_max_size", 96)?,
            head_norms: head_norms(root, "rms_norm")?,
        },
    )))
}

fn wan(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    refuse(
        root,
        &["added_kv_proj_dim", "image_dim", "pos_embed_seq_len"],
    )?;
    let (heads, head_width) = heads(root)?;
    let patch = root.counts("patch_size")?.unwrap_or_else(|| vec![1, 2, 2]);
    let Ok(patch) = <[u64; 3]>::try_from(patch) else {
        return Err(ConfigError::Contradiction(
            "`patch_size` must be three numbers: time, height, width".into(),
        ));
    };
    if patch.contains(&0) {
        return Err(ConfigError::Contradiction("`patch_size` holds a 0".into()));
    }
    if !head_norms(root, "rms_norm_across_heads")? {
        return Err(ConfigError::Contradiction(
            "`qk_norm` is absent; known is rms_norm_across_heads".into(),
        ));
    }
    let input_channels = or(root, "in_channels", 16)?;
    Ok(transformer(DiffusionTransformer::Wan(Wan {
        patch,
        input_channels,
        output_channels: or(root, "out_channels", 16)?,
        blocks: root.layers(&["num_layers"])?,
        heads,
        head_width,
        feed_forward: root.need(&["ffn_dim"], "width of the feed-forward")?,
        text_width: or(root, "text_dim", 4096)?,
        time_channels: or(root, "freq_dim", 256)?,
        cross_norm: root.flag("cross_attn_norm")?.unwrap_or(true),
    })))
}

fn qwen_image(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    refuse(root, &["use_additional_t_cond", "use_layer3d_rope"])?;
    let (heads, head_width) = heads(root)?;
    Ok(transformer(DiffusionTransformer::QwenImage(QwenImage {
        patch: or(root, "patch_size", 2)?,
        input_channels: or(root, "in_channels", 64)?,
        output_channels: or(root, "out_channels", 16)?,
        blocks: root.layers(&["num_layers"])?,
        heads,
        head_width,
        text_width: or(root, "joint_attention_dim", 3584)?,
    })))
}

fn hunyuan_video(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    refuse(root, &["image_condition_type"])?;
    let (heads, head_width) = heads(root)?;
    let side = or(root, "patch_size", 2)?;
    let input_channels = or(root, "in_channels", 16)?;
    Ok(transformer(DiffusionTransformer::HunyuanVideo(
        HunyuanVideo {
            patch: [or(root, "patch_size_t", 1)?, side, side],
            input_channels,
            output_channels: or(root, "out_channels", input_channels)?,
            double_blocks: root.layers(&["num_layers"])?,
            single_blocks: root.layers(&["num_single_layers"])?,
            refiner_blocks: root.layers(&["num_refiner_layers"])?,
            heads,
            head_width,
            feed_forward: ratio(root, 4.0, heads * head_width)?,
            text_width: or(root, "text_embed_dim", 4096)?,
            pooled_width: or(root, "pooled_projection_dim", 768)?,
            guidance: root.flag("guidance_embeds")?.unwrap_or(true),
        },
    )))
}
