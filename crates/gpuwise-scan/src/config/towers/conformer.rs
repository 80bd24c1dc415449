//! The conformer ears of Gemma-3n and Gemma-4: two half feed-forwards around attention with relative
//! positions and a gated convolution.

use super::{
    Reader,
    audio::ear,
    blocks::{Blocks, Sheet},
    encoder,
    mobilenet::embedder,
    projector,
};
use crate::config::ConfigError;
use gpuwise_domain::model::Tower;

/// Layers of a conformer.
#[derive(Debug, Clone, Copy)]
struct Conformer {
    hidden: u64,
    layers: u64,
    heads: u64,
    kernel: u64,
}

impl Conformer {
    fn blocks(self) -> Blocks {
        Blocks::usual(self.hidden, 4 * self.hidden, self.layers, self.heads)
    }

    fn add(self, sheet: &mut Sheet) {
        let Self { hidden, layers, .. } = self;
        sheet
            // Query, key, value, output and relative position.
            .matrices("attention", hidden, hidden, 5 * layers)
            .matrices("ffw.up", 4 * hidden, hidden, 2 * layers)
            .matrices("ffw.down", hidden, 4 * hidden, 2 * layers)
            .matrices("lconv1d.start", 2 * hidden, hidden, layers)
            .matrices("lconv1d.end", hidden, hidden, layers)
            .vectors("depthwise_conv1d", self.kernel * hidden, layers)
            .vectors("per_dim_scale", hidden / self.heads, layers)
            // Two around each feed-forward and the attention, two in the convolution, one last.
            .vectors("norms", hidden, 9 * layers);
    }
}

/// Two strided convolutions over the spectrum, and a map into the stream.
fn subsampling(sheet: &mut Sheet, channels: [u64; 2], bins: u64, hidden: u64) {
    let [first, second] = channels;
    sheet
        .vectors("conv_0", 9 * first, 1)
        .matrix("conv_1", second, 9 * first)
        .vectors("conv_norms", first + second, 1)
        .matrix("input_proj", hidden, second * (bins / 4));
}

fn channels(reader: &Reader<'_>, name: &'static str) -> Result<[u64; 2], ConfigError> {
    let stated = reader
        .0
        .map(|fields| fields.counts(name))
        .transpose()?
        .flatten();
    Ok(match stated.as_deref() {
        Some([first, second]) => [*first, *second],
        _ => [128, 32],
    })
}

pub(super) fn gemma3n(reader: &Reader<'_>, text: u64) -> Result<Tower, ConfigError> {
    let conformer = Conformer {
        hidden: reader.get(&["hidden_size"], 1536)?,
        layers: reader.get(&["conf_num_hidden_layers"], 12)?,
        heads: reader.get(&["conf_num_attention_heads"], 8)?,
        kernel: reader.get(&["conf_conv_kernel_size"], 5)?,
    };
    let mut sheet = encoder();
    conformer.add(&mut sheet);
    let bins = reader.get(&["input_feat_size"], 128)?;
    subsampling(
        &mut sheet,
        channels(reader, "sscp_conv_channel_size")?,
        bins,
        conformer.hidden,
    );
    let mut embed = projector();
    embedder(
        &mut embed,
        reader.get(&["vocab_size"], 128)?,
        conformer.hidden,
        text,
    );
    // The tokens of a clip of 30 s, which every clip is filled up to.
    Ok(ear(conformer.blocks(), sheet, embed, None, Some(188)))
}

pub(super) fn gemma4(reader: &Reader<'_>, text: u64) -> Result<Tower, ConfigError> {
    let conformer = Conformer {
        hidden: reader.get(&["hidden_size"], 1024)?,
        layers: reader.get(&["num_hidden_layers"], 12)?,
        heads: reader.get(&["num_attention_heads"], 8)?,
        kernel: reader.get(&["conv_kernel_size"], 5)?,
    };
    let mut sheet = encoder();
    conformer.add(&mut sheet);
    let channels = channels(reader, "subsampling_conv_channels")?;
    // As many bins as channels of the first convolution, as the reference has it.
    subsampling(&mut sheet, channels, channels[0], conformer.hidden);
    let output = reader.get(&["output_proj_dims"], 1536)?;
    sheet.linear("output_proj", output, conformer.hidden);
    let mut embed = projector();
    embed.matrix("embedding_projection", text, output);
    // Clips of 30 s at most, as the processor cuts them.
    Ok(ear(conformer.blocks(), sheet, embed, None, Some(750)))
}
