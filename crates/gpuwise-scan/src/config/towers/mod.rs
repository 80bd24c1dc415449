//! Vision and audio towers with their projectors.
//!
//! A multimodal type without its tower's configuration has its class defaults in the reference
//! implementation (transformers 5.23); the result then says that they were assumed.

mod audio;
mod blocks;
mod composite;
mod conformer;
mod glm;
mod llama;
mod mobilenet;
mod patches;
mod projectors;
mod qwen;
mod vision_encoders;

use super::{ConfigError, Context, Parts, fields::Fields};
use blocks::Sheet;
use gpuwise_domain::model::{Role, Tensor, Tower, TowerKind};
use gpuwise_units::Tokens;

/// Adds the towers of a model, and learned tokens that mark image rows.
pub(super) fn add(context: &Context<'_>, parts: &mut Parts) -> Result<(), ConfigError> {
    let vision = match context.root.object("vision_config")? {
        Some(own) => Some(own),
        None => context.root.object("visual")?,
    };
    let hearing = context.root.object("audio_config")?;
    let text = parts.hidden;
    let site = Site {
        root: context.root,
        fields: Reader(vision),
        text,
    };
    if let Some(eye) = eye(context.whole_type, &site, &mut parts.assumptions)? {
        if vision.is_none() {
            parts
                .assumptions
                .push("the vision tower is not described: that of the class is assumed".into());
        }
        parts.towers.push(eye.tower());
    }
    if let Some(fields) = hearing {
        parts
            .towers
            .extend(audio::tower(fields, text, &mut parts.assumptions)?);
    }
    if matches!(
        context.whole_type,
        "llava_next" | "llava_onevision" | "llava_next_video"
    ) {
        // A learned token ends each row of an image.
        parts
            .outside
            .push(Tensor::vector("image_newline", Role::Embedding, text));
    }
    Ok(())
}

/// Where a tower is described, and the width of the language model that it speaks to.
#[derive(Debug, Clone, Copy)]
struct Site<'a> {
    /// The whole configuration: some projectors are described there.
    root: Fields<'a>,
    /// The tower's own object.
    fields: Reader<'a>,
    /// Width of the language model.
    text: u64,
}

/// An encoder of images before its projector.
#[derive(Debug, Clone)]
struct VisionEncoder {
    hidden: u64,
    width: u64,
    layers: u64,
    /// Tensors of the encoder, then of the projector.
    tensors: Vec<Tensor>,
    /// Patches of the largest image, where the tower bounds it.
    largest_patches: Option<u64>,
    /// Tokens that it becomes.
    largest_item: Option<u64>,
    /// Whether it takes videos too: pairs of frames, each pair as large as the largest image.
    videos: bool,
}

impl VisionEncoder {
    fn tower(self) -> Tower {
        Tower {
            kind: TowerKind::Vision,
            hidden: self.hidden,
            width: self.width,
            layers: self.layers,
            largest_item: self.largest_item.map(Tokens),
            largest_patches: self.largest_patches,
            videos: self.videos,
            tensors: self.tensors,
        }
    }
}

/// The tower of a type; `None` for models without one.
fn eye(
    whole_type: &str,
    site: &Site<'_>,
    assumptions: &mut Vec<String>,
) -> Result<Option<VisionEncoder>, ConfigError> {
    let described = site.fields.0.is_some();
    Ok(Some(match whole_type {
        "llama4" => llama::llama4(site)?,
        "qwen2_vl" => qwen::qwen2(site)?,
        "qwen2_5_vl" | "qwen2_5_omni_thinker" => qwen::qwen2_5(site)?,
        "qwen3_5" | "qwen3_5_moe" | "qwen3_vl" | "qwen3_vl_moe" | "qwen3_omni_moe_thinker" => {
            qwen::qwen3(site)?
        }
        "kimi_k25" | "kimi_k3" | "kimi_vl" => vision_encoders::kimi(site, whole_type)?,
        "minimax_m3" | "minimax_m3_vl" => vision_encoders::minimax(site)?,
        "step3p7" => vision_encoders::step(site)?,
        "gemma3" => composite::gemma3(site)?,
        _ if !described => return Ok(None),
        "glm4v" | "glm4v_moe" | "glm46v" => glm::glm4(site)?,
        "glm5_next" => glm::glm5(site)?,
        "gemma4" => vision_encoders::gemma4(site)?,
        "gemma3n" => mobilenet::tower(site, assumptions)?,
        "mllama" => llama::mllama(site)?,
        "internvl" => vision_encoders::internvl(site)?,
        "molmo2" => vision_encoders::molmo2(site)?,
        _ => composite::read(whole_type, site, assumptions)?,
    }))
}

/// Reads counts from a tower's object, with the class default where it has none.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(Option<Fields<'a>>);

impl<'a> Reader<'a> {
    fn get(&self, names: &[&'static str], default: u64) -> Result<u64, ConfigError> {
        let stated = self
            .0
            .map(|fields| fields.count(names))
            .transpose()?
            .flatten();
        Ok(stated.unwrap_or(default))
    }

    /// A size of images or patches: a number, or the first of a list.
    fn size(&self, name: &'static str, default: u64) -> Result<u64, ConfigError> {
        let Some(fields) = self.0 else {
            return Ok(default);
        };
        let stated = fields.count_at(&[name], 0)?.filter(|size| *size > 0);
        Ok(stated.unwrap_or(default))
    }

    fn real(&self, name: &'static str, default: f64) -> Result<f64, ConfigError> {
        let stated = self
            .0
            .map(|fields| fields.real(name))
            .transpose()?
            .flatten();
        Ok(stated.unwrap_or(default))
    }

    fn flag(&self, name: &'static str, default: bool) -> Result<bool, ConfigError> {
        let stated = self
            .0
            .map(|fields| fields.flag(name))
            .transpose()?
            .flatten();
        Ok(stated.unwrap_or(default))
    }

    fn text(&self, name: &'static str) -> Result<Option<&'a str>, ConfigError> {
        Ok(self
            .0
            .map(|fields| fields.text(name))
            .transpose()?
            .flatten())
    }

    /// Patches across the image that the tower is made for.
    fn across(&self, image: u64, patch: u64) -> Result<u64, ConfigError> {
        Ok(self.size("image_size", image)? / self.size("patch_size", patch)?)
    }
}

/// A sheet of the encoder's tensors.
fn encoder() -> Sheet {
    Sheet::new(Role::Tower)
}

/// A sheet of what stands between the encoder and the language model.
fn projector() -> Sheet {
    Sheet::new(Role::Projector)
}
