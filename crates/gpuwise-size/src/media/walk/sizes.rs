//! What an input comes to inside a network: latents, patches, tokens.

use super::{WalkError, denoise::Tokens, grid::Grid};
use alloc::string::{String, ToString};
use gpuwise_domain::network::{DiffusionTransformer, InputSize, Network, Shape};

/// Pixels of a latent's side, and frames of a latent, where a pipeline has no autoencoder that says
/// so: those of every autoencoder that the known transformers were trained with.
const USUAL_FACTOR: u64 = 8;
const USUAL_TIME_FACTOR: u64 = 4;
/// The longest side in pixels, and the most of everything else, that is accepted: far above what
/// any network takes, far below where counts overflow.
const LONGEST_SIDE: u64 = 1 << 16;
const MOST: u64 = 1 << 24;

/// An input as it was asked for, with what is usual for the rest.
pub(super) struct Sizes<'a> {
    pub(super) network: &'a Network,
    pub(super) input: InputSize,
}

impl Sizes<'_> {
    /// Refuses sizes that cannot be.
    pub(super) fn check(&self) -> Result<(), WalkError> {
        let InputSize {
            width,
            height,
            frames,
            steps,
            text_tokens,
            seconds,
            written_tokens,
            windows,
            ..
        } = self.input;
        for (what, value, most) in [
            ("the width", width, LONGEST_SIDE),
            ("the height", height, LONGEST_SIDE),
            ("the number of frames", frames, MOST),
            ("the number of steps", steps, MOST),
            ("the number of tokens of text", text_tokens, MOST),
            ("the number of tokens written", written_tokens, MOST),
        ] {
            if let Some(value) = value.filter(|value| *value == 0 || *value > most) {
                return Err(WalkError::Wrong {
                    what,
                    found: value.to_string(),
                    expected: "a number above 0 and no larger than any network takes",
                });
            }
        }
        for (what, value) in [
            ("the length of audio", seconds),
            ("the number of windows", windows),
        ] {
            let possible = |value: &f64| 0.0 < *value && *value <= 1e9;
            if let Some(value) = value.filter(|value| !possible(value)) {
                return Err(WalkError::Wrong {
                    what,
                    found: value.to_string(),
                    expected: "a number above 0, up to 1e9",
                });
            }
        }
        Ok(())
    }

    /// The image that was asked for, else a square of this side.
    pub(super) fn image(&self, part: &str, side: Option<u64>) -> Result<Grid, WalkError> {
        let InputSize { width, height, .. } = self.input;
        let width = width.or(height).or(side);
        let height = height.or(width);
        match (width, height) {
            (Some(width), Some(height)) => Ok(Grid { height, width }),
            _ => Err(missing(part, "a width and a height in pixels")),
        }
    }

    /// Pixels of one latent's side.
    pub(super) fn factor(&self) -> u64 {
        let known = |shape: &Shape| match shape {
            Shape::Autoencoder(shape) => Some(shape.factor()),
            Shape::VideoAutoencoder(shape) => Some(shape.factor()),
            _ => None,
        };
        self.shapes().find_map(known).unwrap_or(USUAL_FACTOR)
    }

    /// Frames of one latent, but for the first.
    pub(super) fn time_factor(&self) -> u64 {
        let known = |shape: &Shape| match shape {
            Shape::VideoAutoencoder(shape) => Some(shape.time_factor()),
            _ => None,
        };
        self.shapes().find_map(known).unwrap_or(USUAL_TIME_FACTOR)
    }

    fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.network.components.iter().map(|part| &part.shape)
    }

    /// Pixels for which the denoiser was trained, where it says so.
    pub(super) fn trained_side(&self) -> Option<u64> {
        let sample = self.shapes().find_map(|shape| match shape {
            Shape::Unet(shape) => shape.sample,
            Shape::Transformer(DiffusionTransformer::StableDiffusion3(shape)) => shape.sample,
            _ => None,
        });
        sample.map(|sample| sample.saturating_mul(self.factor()))
    }

    /// Latents of the image, whose sides must be multiples of the autoencoder's factor times `patch`.
    pub(super) fn latents(&self, part: &str, patch: u64) -> Result<Grid, WalkError> {
        let image = self.image(part, self.trained_side())?;
        let factor = self.factor();
        let because = alloc::format!(
            "the autoencoder makes one latent of {factor} × {factor} pixels{}",
            if patch > 1 {
                alloc::format!(" and the denoiser one patch of {patch} × {patch} latents")
            } else {
                String::new()
            }
        );
        divisible(part, image, factor.saturating_mul(patch), because)?;
        Ok(image.divided(factor))
    }

    /// Latents of the video in time.
    pub(super) fn latent_frames(&self, part: &str, patch: u64) -> Result<u64, WalkError> {
        let frames = self.input.frames.unwrap_or(1);
        let multiple = self.time_factor();
        let rest = (frames.saturating_sub(1)) % multiple;
        if rest != 0 {
            let below = frames - rest;
            let up = 2 * rest > multiple;
            return Err(WalkError::Frames {
                part: part.into(),
                frames,
                multiple,
                nearest: if up { below + multiple } else { below },
            });
        }
        let latents = (frames - 1) / multiple + 1;
        Ok(latents / patch.max(1))
    }

    /// Tokens of CLIP's text tower, where the pipeline has one.
    pub(super) fn clip_tokens(&self) -> Option<u64> {
        self.shapes().find_map(|shape| match shape {
            Shape::ClipText(shape) => Some(shape.positions),
            _ => None,
        })
    }

    /// Tokens of text that were asked for.
    pub(super) fn text(&self, part: &str) -> Result<u64, WalkError> {
        self.input
            .text_tokens
            .ok_or_else(|| missing(part, "a number of tokens of text"))
    }

    /// Tokens of text, of which a part takes only so many.
    pub(super) fn text_up_to(&self, part: &str, most: u64) -> Result<u64, WalkError> {
        let tokens = self.text(part)?;
        if tokens > most {
            return Err(WalkError::TextTooLong {
                part: part.into(),
                tokens,
                most,
            });
        }
        Ok(tokens)
    }

    /// Tokens of a denoiser over latents in patches of this side.
    pub(super) fn tokens(&self, part: &str, patch: u64, text: u64) -> Result<Tokens, WalkError> {
        let latents = self.latents(part, patch)?;
        Ok(Tokens {
            image: latents.divided(patch).positions(),
            text,
        })
    }

    /// Passes of the denoiser: its steps, twice with guidance.
    pub(super) fn steps(&self, part: &str) -> Result<f64, WalkError> {
        let steps = self
            .input
            .steps
            .ok_or_else(|| missing(part, "a number of steps"))?;
        Ok(steps as f64 * self.guidance())
    }

    /// 2 where each step is run with and without the prompt.
    pub(super) fn guidance(&self) -> f64 {
        let guided = self
            .input
            .guided
            .unwrap_or_else(|| self.guides_by_two_passes());
        if guided { 2.0 } else { 1.0 }
    }

    /// Whether the denoiser's class is usually guided by a second pass: those that were not trained
    /// to take guidance as an input, or to do without.
    pub(super) fn guides_by_two_passes(&self) -> bool {
        self.shapes().any(|shape| match shape {
            Shape::Unet(_) => true,
            Shape::Transformer(shape) => !matches!(
                shape,
                DiffusionTransformer::Flux(_) | DiffusionTransformer::HunyuanVideo(_)
            ),
            _ => false,
        })
    }

    /// Whether there is a denoiser, so that the autoencoder only decodes.
    pub(super) fn denoises(&self) -> bool {
        self.shapes()
            .any(|shape| matches!(shape, Shape::Unet(_) | Shape::Transformer(_)))
    }
}

pub(super) fn missing(part: &str, what: &'static str) -> WalkError {
    WalkError::Missing {
        part: part.into(),
        what,
    }
}

/// Refuses sides that are no multiples, with the nearest that are.
pub(super) fn divisible(
    part: &str,
    image: Grid,
    multiple: u64,
    because: String,
) -> Result<(), WalkError> {
    let multiple = multiple.max(1);
    if image.width.is_multiple_of(multiple) && image.height.is_multiple_of(multiple) {
        return Ok(());
    }
    let nearest = |side: u64| ((side + multiple / 2) / multiple).max(1) * multiple;
    Err(WalkError::Resolution {
        part: part.into(),
        width: image.width,
        height: image.height,
        multiple,
        because,
        nearest_width: nearest(image.width),
        nearest_height: nearest(image.height),
    })
}
