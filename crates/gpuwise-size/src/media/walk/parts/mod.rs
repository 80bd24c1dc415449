//! One part of a network at the sizes of an input.

mod language;

use super::{
    WalkError, autoencoder, convolutional, denoise,
    denoise::Tokens,
    grid::Grid,
    recommender,
    sizes::{Sizes, divisible, missing},
    tracer::{Tracer, product},
    transformer, unet, video,
};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::network::{
    Autoencoder, Component, DiffusionTransformer, Part, PartRole, Shape, TextEncoder,
    VideoAutoencoder, VisionTransformer,
};

type Parts = Result<Vec<Part>, WalkError>;

/// The parts of a component; what had to be assumed is added.
pub(super) fn of(sizes: &Sizes<'_>, component: &Component, assumed: &mut Vec<String>) -> Parts {
    let name = component.name.as_str();
    match &component.shape {
        Shape::Text(shape) => text(sizes, name, shape),
        Shape::ClipText(shape) => {
            // Prompts are padded to the positions, unless fewer tokens are asked of the tower alone.
            let asked = sizes.input.text_tokens.unwrap_or(shape.positions);
            let alone = sizes.network.components.len() == 1;
            let last = !has_longer_text(sizes);
            if last && asked > shape.positions {
                sizes.text_up_to(name, shape.positions)?;
            }
            let tokens = if alone { asked } else { shape.positions };
            let mut tracer = Tracer::new();
            check_heads(name, shape.size.hidden, shape.size.heads)?;
            transformer::clip_text(&mut tracer, shape, tokens);
            let passes = sizes.guidance();
            Ok(vec![tracer.part(name, PartRole::TextEncoder, passes)])
        }
        Shape::Language(model, part) => {
            language::language_model(sizes, name, model, *part, assumed)
        }
        Shape::Vision(shape) => vision(sizes, name, shape, assumed),
        Shape::Residual(shape) => {
            let image = sizes.image(name, Some(shape.image))?;
            let mut tracer = Tracer::new();
            convolutional::residual(&mut tracer, shape, image);
            Ok(vec![tracer.part(name, PartRole::Backbone, 1.0)])
        }
        Shape::Retinanet(shape) => {
            let image = sizes.image(name, Some(shape.backbone.image))?;
            let mut tracer = Tracer::new();
            convolutional::retinanet(&mut tracer, shape, image);
            Ok(vec![tracer.part(name, PartRole::Backbone, 1.0)])
        }
        Shape::VolumeUnet(shape) => {
            let windows = sizes.input.windows.unwrap_or_else(|| {
                assumed.push(format!("{name}: one window of a volume"));
                1.0
            });
            let mut tracer = Tracer::new();
            convolutional::volume(&mut tracer, shape, shape.window);
            Ok(vec![tracer.part(name, PartRole::Backbone, windows)])
        }
        Shape::Unet(shape) => {
            let latents = sizes.latents(name, 1)?;
            let text = match sizes.clip_tokens() {
                Some(tokens) => tokens,
                None => sizes.text(name)?,
            };
            let mut tracer = Tracer::new();
            unet::step(&mut tracer, shape, latents, text);
            Ok(vec![tracer.part(
                name,
                PartRole::Denoiser,
                sizes.steps(name)?,
            )])
        }
        Shape::Autoencoder(shape) => image_autoencoder(sizes, name, shape),
        Shape::VideoAutoencoder(shape) => video_autoencoder(sizes, name, shape),
        Shape::Transformer(shape) => denoiser(sizes, name, shape),
        Shape::Recommender(shape) => {
            let (mut tables, mut networks) = (Tracer::new(), Tracer::new());
            recommender::tables(&mut tables, shape);
            recommender::networks(&mut networks, shape);
            Ok(vec![
                tables.part(format!("{name}.tables"), PartRole::Tables, 1.0),
                networks.part(format!("{name}.networks"), PartRole::Head, 1.0),
            ])
        }
    }
}

/// Whether another encoder takes the text that does not fit into CLIP's tower.
fn has_longer_text(sizes: &Sizes<'_>) -> bool {
    let mut shapes = sizes.network.components.iter().map(|part| &part.shape);
    shapes.any(|shape| matches!(shape, Shape::Language(..)))
}

fn check_heads(part: &str, hidden: u64, heads: u64) -> Result<(), WalkError> {
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(WalkError::Contradiction {
            part: part.into(),
            problem: format!("a width of {hidden} is no multiple of {heads} heads"),
        });
    }
    Ok(())
}

fn text(sizes: &Sizes<'_>, name: &str, shape: &TextEncoder) -> Parts {
    let most = shape.positions.saturating_sub(shape.spare_positions);
    let tokens = sizes.text_up_to(name, most)?;
    check_heads(name, shape.size.hidden, shape.size.heads)?;
    let mut tracer = Tracer::new();
    transformer::text(&mut tracer, shape, tokens);
    Ok(vec![tracer.part(name, PartRole::Backbone, 1.0)])
}

fn vision(
    sizes: &Sizes<'_>,
    name: &str,
    shape: &VisionTransformer,
    assumed: &mut Vec<String>,
) -> Parts {
    let image = sizes.image(name, Some(shape.image))?;
    let patch = shape.patch;
    let because = format!("a patch has {patch} × {patch} pixels");
    divisible(name, image, patch, because)?;
    check_heads(name, shape.size.hidden, shape.size.heads)?;
    if image
        != (Grid {
            height: shape.image,
            width: shape.image,
        })
    {
        assumed.push(format!(
            "{name}: positions of {0} × {0} pixels are interpolated",
            shape.image
        ));
    }
    let mut tracer = Tracer::new();
    transformer::vision(&mut tracer, shape, image.divided(patch).positions());
    Ok(vec![tracer.part(name, PartRole::Encoder, 1.0)])
}

fn image_autoencoder(sizes: &Sizes<'_>, name: &str, shape: &Autoencoder) -> Parts {
    let latents = sizes.latents(name, 1)?;
    let pixels = latents.times(shape.factor());
    let (mut encoder, mut decoder) = (Tracer::new(), Tracer::new());
    autoencoder::encoder(&mut encoder, shape, pixels);
    autoencoder::decoder(&mut decoder, shape, latents);
    Ok(both(sizes, name, encoder, decoder))
}

fn video_autoencoder(sizes: &Sizes<'_>, name: &str, shape: &VideoAutoencoder) -> Parts {
    let latents = sizes.latents(name, 1)?;
    let frames = sizes.latent_frames(name, 1)?;
    let pixels = latents.times(shape.factor());
    let (mut encoder, mut decoder) = (Tracer::new(), Tracer::new());
    video::encoder(&mut encoder, shape, pixels, frames);
    video::decoder(&mut decoder, shape, latents, frames);
    Ok(both(sizes, name, encoder, decoder))
}

/// Encoder and decoder, of which a pipeline that denoises runs the decoder only.
fn both(sizes: &Sizes<'_>, name: &str, encoder: Tracer, decoder: Tracer) -> Vec<Part> {
    let (role, called) = (PartRole::ImageEncoder, format!("{name}.encoder"));
    vec![
        if sizes.denoises() {
            encoder.stored(called, role)
        } else {
            encoder.part(called, role, 1.0)
        },
        decoder.part(format!("{name}.decoder"), PartRole::ImageDecoder, 1.0),
    ]
}

fn denoiser(sizes: &Sizes<'_>, name: &str, shape: &DiffusionTransformer) -> Parts {
    let mut tracer = Tracer::new();
    match shape {
        DiffusionTransformer::Flux(shape) => {
            let tokens = sizes.tokens(name, PACKED_SIDE, sizes.text(name)?)?;
            denoise::flux(&mut tracer, shape, tokens);
        }
        DiffusionTransformer::StableDiffusion3(shape) => {
            let latents = sizes.latents(name, shape.patch)?;
            let patches = latents.divided(shape.patch);
            let side = patches.height.max(patches.width);
            if side > shape.largest_side {
                return Err(too_large(
                    sizes,
                    name,
                    product(&[shape.largest_side, shape.patch]),
                ));
            }
            let tokens = Tokens {
                image: patches.positions(),
                // The towers of CLIP and T5 one after the other.
                text: sizes
                    .text(name)?
                    .saturating_add(sizes.clip_tokens().unwrap_or(0)),
            };
            denoise::stable_diffusion_3(&mut tracer, shape, latents.positions(), tokens);
        }
        DiffusionTransformer::QwenImage(shape) => {
            let tokens = sizes.tokens(name, shape.patch, sizes.text(name)?)?;
            denoise::qwen_image(&mut tracer, shape, tokens);
        }
        DiffusionTransformer::Wan(shape) => {
            let tokens = video_tokens(sizes, name, shape.patch)?;
            denoise::wan(&mut tracer, shape, tokens);
        }
        DiffusionTransformer::HunyuanVideo(shape) => {
            let tokens = video_tokens(sizes, name, shape.patch)?;
            denoise::hunyuan_video(&mut tracer, shape, tokens);
        }
    }
    Ok(vec![tracer.part(
        name,
        PartRole::Denoiser,
        sizes.steps(name)?,
    )])
}

/// Latents of a side that FLUX packs into one token before its transformer, whose own patch is 1.
const PACKED_SIDE: u64 = 2;

fn too_large(sizes: &Sizes<'_>, part: &str, latents: u64) -> WalkError {
    let image = sizes.image(part, sizes.trained_side());
    let Ok(Grid { height, width }) = image else {
        return missing(part, "a width and a height in pixels");
    };
    WalkError::ImageTooLarge {
        part: part.into(),
        width,
        height,
        most: product(&[latents, sizes.factor()]),
    }
}

fn video_tokens(sizes: &Sizes<'_>, name: &str, patch: [u64; 3]) -> Result<Tokens, WalkError> {
    let [time, side, other] = patch;
    if side != other {
        return Err(WalkError::Contradiction {
            part: name.into(),
            problem: format!("patches of {side} × {other} latents are not square"),
        });
    }
    let text = sizes.text(name)?;
    let frame = sizes.tokens(name, side, text)?;
    let frames = sizes.latent_frames(name, time)?;
    Ok(Tokens {
        image: product(&[frame.image, frames]),
        text,
    })
}
