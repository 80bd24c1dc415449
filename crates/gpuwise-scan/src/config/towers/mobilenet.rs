//! MobileNet-V5, the convolutional eye of Gemma-3n: a fixed network, known by its name.

use super::{Site, VisionEncoder, blocks::Sheet, encoder, projector};
use crate::config::ConfigError;

pub(super) fn tower(
    site: &Site<'_>,
    assumptions: &mut Vec<String>,
) -> Result<VisionEncoder, ConfigError> {
    let reader = &site.fields;
    let name = reader
        .text("architecture")?
        .unwrap_or("mobilenetv5_300m_enc");
    if name != "mobilenetv5_300m_enc" {
        assumptions.push(format!(
            "vision tower {name:?} is not known: counted as mobilenetv5_300m_enc"
        ));
    }
    let handed = reader.get(&["hidden_size"], 2048)?;
    let mut sheet = encoder();
    network(&mut sheet);
    let mut embed = projector();
    embedder(
        &mut embed,
        reader.get(&["vocab_size"], 128)?,
        handed,
        site.text,
    );
    sheet.tensors.extend(embed.tensors);
    Ok(VisionEncoder {
        hidden: 1280,
        width: 2560,
        layers: 84,
        tensors: sheet.tensors,
        // An image of 768 pixels is halved five times, then pooled.
        largest_patches: Some(24 * 24),
        videos: false,
        largest_item: Some(
            site.root
                .count(&["vision_soft_tokens_per_image"])?
                .unwrap_or(256),
        ),
    })
}

/// From a tower to the language model: an embedding of the tower's own tokens, norms, and a map.
pub(super) fn embedder(sheet: &mut Sheet, tokens: u64, handed: u64, text: u64) {
    sheet
        .matrix("embedding", tokens, handed)
        .vectors("embedding_norms", handed, 2)
        .matrix("embedding_projection", text, handed);
}

/// The stages, after timm's `mobilenetv5_300m_enc`.
fn network(sheet: &mut Sheet) {
    sheet.linear("stem", 64, 3 * 9).vectors("stem.bn", 64, 1);
    edge_residual(sheet, 64, 256, 128, 1);
    edge_residual(sheet, 128, 512, 128, 2);
    for block in STAGES {
        block.add(sheet);
    }
    // Features of the last two stages are fused.
    sheet
        .matrix("msfa.pw_exp", 3840, 1920)
        .matrix("msfa.pw_proj", 2048, 3840)
        .vectors("msfa.bn", 3840 + 2048, 1)
        .vectors("msfa.norm", 2048, 1);
}

/// A full convolution that widens, and one of a pixel that narrows.
fn edge_residual(sheet: &mut Sheet, input: u64, width: u64, output: u64, copies: u64) {
    sheet
        .matrices("conv_exp", width, 9 * input, copies)
        .matrices("conv_pwl", output, width, copies)
        .vectors("bn", width + output, copies);
}

/// Blocks of the later stages.
#[derive(Debug, Clone, Copy)]
enum Block {
    /// An inverted bottleneck with depthwise convolutions of these sizes (0: none) at its start and
    /// in its middle.
    Inverted {
        input: u64,
        width: u64,
        output: u64,
        start: u64,
        middle: u64,
        copies: u64,
    },
    /// Attention with one key and value for all heads.
    Attention {
        hidden: u64,
        queries: u64,
        keys: u64,
        /// Whether keys and values are taken from a coarser image.
        coarser: bool,
        copies: u64,
    },
}

const fn inverted(
    input: u64,
    width: u64,
    output: u64,
    start: u64,
    middle: u64,
    copies: u64,
) -> Block {
    Block::Inverted {
        input,
        width,
        output,
        start,
        middle,
        copies,
    }
}

const STAGES: [Block; 11] = [
    inverted(128, 768, 256, 3, 5, 1),
    inverted(256, 1024, 256, 5, 0, 2),
    inverted(256, 1024, 256, 3, 0, 2),
    inverted(256, 1536, 640, 5, 5, 1),
    inverted(640, 2560, 640, 5, 0, 7),
    inverted(640, 640, 640, 0, 0, 1),
    Block::Attention {
        hidden: 640,
        queries: 768,
        keys: 64,
        coarser: true,
        copies: 14,
    },
    inverted(640, 1280, 640, 0, 0, 14),
    inverted(640, 3840, 1280, 5, 5, 1),
    Block::Attention {
        hidden: 1280,
        queries: 1536,
        keys: 96,
        coarser: false,
        copies: 19,
    },
    inverted(1280, 2560, 1280, 0, 0, 19),
];

impl Block {
    fn add(self, sheet: &mut Sheet) {
        match self {
            Self::Inverted {
                input,
                width,
                output,
                start,
                middle,
                copies,
            } => {
                // A depthwise convolution has a norm too.
                let depthwise = |size: u64, channels: u64| {
                    if size > 0 {
                        (size * size + 1) * channels
                    } else {
                        0
                    }
                };
                sheet
                    .matrices("pw_exp", width, input, copies)
                    .matrices("pw_proj", output, width, copies)
                    .vectors(
                        "depthwise",
                        depthwise(start, input) + depthwise(middle, width),
                        copies,
                    )
                    // Norms, and the scale of the layer.
                    .vectors("bn", width + 2 * output, copies);
            }
            Self::Attention {
                hidden,
                queries,
                keys,
                coarser,
                copies,
            } => {
                let down = if coarser { 2 * (9 + 1) * hidden } else { 0 };
                sheet
                    .matrices("query", queries, hidden, copies)
                    .matrices("key_value", keys, hidden, 2 * copies)
                    .matrices("output", hidden, queries, copies)
                    .vectors("norm", 2 * hidden + down, copies);
            }
        }
    }
}
