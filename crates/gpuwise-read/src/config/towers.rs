//! Vision and audio towers with their projectors.
//!
//! A multimodal type without its tower's configuration has its class defaults in the reference
//! implementation (transformers 5.23); the result then says that they were assumed.

use super::{ConfigError, Context, fields::Fields};
use gpuwise_domain::model::{Role, Split, Tensor, Tower, TowerKind};
use gpuwise_units::Tokens;

pub(super) fn towers(context: &Context<'_>, model_type: &str) -> Result<Vec<Tower>, ConfigError> {
    let mut towers = Vec::new();
    let vision = match context.root.object("vision_config")? {
        Some(own) => Some(own),
        None => context.root.object("visual")?,
    };
    let text_hidden = context.text.count(&["hidden_size", "n_embd", "d_model", "dim"])?.unwrap_or(0);
    if let Some(shape) = vision_shape(model_type, vision, context)? {
        towers.push(shape.tower(text_hidden));
    }
    if let Some(audio) = context.root.object("audio_config")? {
        towers.extend(audio_tower(audio, text_hidden)?);
    }
    Ok(towers)
}

/// A vision transformer of the usual form with the differences that count.
#[derive(Debug, Clone)]
struct Vision {
    hidden: u64,
    width: u64,
    layers: u64,
    /// Width of queries, keys and values together (usually `hidden` each).
    attention: u64,
    gated: bool,
    bias: bool,
    /// Vectors of each norm.
    norm_parts: u64,
    /// Norms of a layer.
    norms: u64,
    /// Elements of the patch embedding.
    patch: u64,
    /// Elements of learned positions.
    positions: u64,
    /// Vectors and tokens of width `hidden` outside of layers.
    vectors: u64,
    /// Further vectors of width `hidden` per layer (layer scales).
    layer_vectors: u64,
    /// Vectors of a head's width per layer (query and key norms).
    head_vectors: u64,
    /// Elements of everything between the last layer and the language model.
    projector: u64,
    largest_patches: Option<u64>,
    largest_item: Option<u64>,
}

impl Vision {
    fn tower(&self, text_hidden: u64) -> Tower {
        let (hidden, width) = (self.hidden, self.width);
        let role = Role::Tower;
        let ups = if self.gated { 2 } else { 1 };
        let matrix = |name, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
        let layers = self.layers;
        let mut tensors = vec![
            matrix("vision.qkv", self.attention, hidden, Split::Output(self.attention)).times(3 * layers),
            matrix("vision.out", hidden, self.attention, Split::Input(self.attention)).times(layers),
            matrix("vision.up", width, hidden, Split::Output(width)).times(ups * layers),
            matrix("vision.down", hidden, width, Split::Input(width)).times(layers),
        ];
        let mut vector = |name, length: u64, copies: u64| {
            if length * copies > 0 {
                tensors.push(Tensor::vector(name, role, length).times(copies));
            }
        };
        vector("vision.norms", hidden, self.norms * self.norm_parts * layers);
        if self.bias {
            vector("vision.attention.bias", 3 * self.attention + hidden, layers);
            vector("vision.mlp.bias", ups * width + hidden, layers);
        }
        vector("vision.layer.vectors", hidden, self.layer_vectors * layers);
        vector("vision.head.norms", self.head_vectors, layers);
        vector("vision.patch", self.patch, 1);
        vector("vision.positions", self.positions, 1);
        vector("vision.outside", hidden, self.vectors);
        if self.projector > 0 {
            let rows = if self.projector.is_multiple_of(text_hidden.max(1)) { text_hidden } else { 1 };
            let columns = self.projector / rows.max(1);
            tensors.push(Tensor::matrix("projector", Role::Projector, rows, columns, Split::Replicated));
        }
        Tower {
            kind: TowerKind::Vision,
            hidden,
            width,
            layers,
            largest_item: self.largest_item.map(Tokens),
            largest_patches: self.largest_patches,
            tensors,
        }
    }
}

/// Reads counts from the tower's object, with the class default where it has none.
struct Reader<'a>(Option<Fields<'a>>);

impl Reader<'_> {
    fn get(&self, names: &[&'static str], default: u64) -> Result<u64, ConfigError> {
        let stated = self.0.map(|fields| fields.count(names)).transpose()?.flatten();
        Ok(stated.unwrap_or(default))
    }

    /// An image size: a number, or the first of a list.
    fn size(&self, name: &'static str, default: u64) -> Result<u64, ConfigError> {
        let Some(fields) = self.0 else { return Ok(default) };
        if fields.raw(name).is_some_and(serde_json::Value::is_array) {
            return Ok(fields.counts(name)?.and_then(|l| l.first().copied()).unwrap_or(default));
        }
        self.get(&[name], default)
    }

    fn real(&self, name: &'static str, default: f64) -> Result<f64, ConfigError> {
        let stated = self.0.map(|fields| fields.real(name)).transpose()?.flatten();
        Ok(stated.unwrap_or(default))
    }
}

fn vision_shape(model_type: &str, vision: Option<Fields<'_>>, context: &Context<'_>) -> Result<Option<Vision>, ConfigError> {
    let reader = Reader(vision);
    let text_hidden = context.text.count(&["hidden_size", "n_embd", "d_model", "dim"])?.unwrap_or(0);
    Ok(match model_type {
        "llama4" => Some(llama4(&reader, text_hidden)?),
        "qwen2_vl" => Some(qwen2(&reader, text_hidden)?),
        "qwen2_5_vl" | "qwen2_5_omni_thinker" => Some(qwen2_5(&reader, text_hidden)?),
        "qwen3_5" | "qwen3_5_moe" | "qwen3_vl" | "qwen3_vl_moe" => Some(qwen3(&reader, text_hidden)?),
        "kimi_k25" | "kimi_k3" => Some(kimi(&reader, text_hidden, model_type)?),
        "gemma4" => vision.is_some().then(|| gemma4(&reader, text_hidden)).transpose()?,
        "gemma3" => Some(siglip(&reader, text_hidden, (1152, 4304, 27, 896, 14), 256, true)?),
        "minimax_m3" | "minimax_m3_vl" => Some(minimax(&reader, text_hidden)?),
        "step3p7" => Some(step(&reader, text_hidden)?),
        "mistral3" | "pixtral" => vision.is_some().then(|| pixtral(&reader, text_hidden, model_type)).transpose()?,
        "mllama" => vision.is_some().then(|| mllama(&reader, text_hidden)).transpose()?,
        _ => vision.is_some().then(|| generic(&reader, text_hidden)).transpose()?,
    })
}

fn llama4(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 768)?;
    let width = reader.get(&["intermediate_size"], 5632)?;
    let side = reader.size("image_size", 448)? / reader.size("patch_size", 14)?.max(1);
    let patch = reader.size("patch_size", 14)?;
    let input = reader.get(&["projector_input_dim"], 4096)?;
    let output = reader.get(&["projector_output_dim"], 4096)?;
    let handed = reader.get(&["vision_output_dim"], 7680)?;
    Ok(Vision {
        hidden,
        width,
        layers: reader.get(&["num_hidden_layers"], 34)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * hidden,
        positions: (side * side + 1) * hidden,
        vectors: 1 + 4,
        layer_vectors: 0,
        head_vectors: 0,
        projector: width * input + output * output + handed * text_hidden,
        largest_patches: Some(side * side * 17),
        // Sixteen tiles and a thumbnail, a quarter of the patches each.
        largest_item: Some(side * side / 4 * 17),
    })
}

fn qwen2(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["embed_dim"], 1280)?;
    let width = (hidden as f64 * reader.real("mlp_ratio", 4.0)?) as u64;
    let patch = reader.size("patch_size", 14)?;
    let time = reader.get(&["temporal_patch_size"], 2)?;
    let merged = hidden * reader.get(&["spatial_merge_size"], 2)?.pow(2);
    Ok(Vision {
        hidden,
        width,
        layers: reader.get(&["depth"], 32)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * time * hidden,
        positions: 0,
        vectors: 2,
        layer_vectors: 0,
        head_vectors: 0,
        projector: merged * merged + merged + merged * text_hidden + text_hidden,
        largest_patches: Some(16384 * 4),
        largest_item: Some(16384),
    })
}

fn qwen2_5(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let merged = hidden * reader.get(&["spatial_merge_size"], 2)?.pow(2);
    let output = reader.get(&["out_hidden_size"], text_hidden)?;
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 3420)?,
        layers: reader.get(&["depth"], 32)?,
        gated: true,
        norm_parts: 1,
        vectors: 1,
        projector: merged * merged + merged + merged * output + output,
        ..qwen2(reader, text_hidden)?
    }
    .with_attention(hidden, reader)?)
}

impl Vision {
    fn with_attention(mut self, hidden: u64, reader: &Reader<'_>) -> Result<Self, ConfigError> {
        let patch = reader.size("patch_size", 14)?;
        let time = reader.get(&["temporal_patch_size"], 2)?;
        self.attention = hidden;
        self.patch = 3 * patch * patch * time * hidden;
        Ok(self)
    }
}

fn qwen3(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1152)?;
    let patch = reader.size("patch_size", 16)?;
    let time = reader.get(&["temporal_patch_size"], 2)?;
    let merged = hidden * reader.get(&["spatial_merge_size"], 2)?.pow(2);
    let output = reader.get(&["out_hidden_size"], text_hidden)?;
    let merger = merged * merged + merged + merged * output + output;
    let deep = match reader.0 {
        Some(fields) => fields.counts("deepstack_visual_indexes")?.map_or(0, |l| l.len() as u64),
        None => 0,
    };
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 4304)?,
        layers: reader.get(&["depth"], 27)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * time * hidden + hidden,
        positions: reader.get(&["num_position_embeddings"], 2304)? * hidden,
        vectors: 2,
        layer_vectors: 0,
        head_vectors: 0,
        // Mergers of deeper layers norm after merging.
        projector: merger + deep * (merger + 2 * merged),
        largest_patches: Some(16384 * 4),
        largest_item: Some(16384),
    })
}

fn kimi(reader: &Reader<'_>, text_hidden: u64, model_type: &str) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["vt_hidden_size", "hidden_size"], 1152)?;
    let patch = reader.size("patch_size", 14)?;
    let rows = reader.get(&["init_pos_emb_height"], 64)?;
    let columns = reader.get(&["init_pos_emb_width"], 64)?;
    let merged = hidden * 4;
    let attention = reader.get(&["qkv_hidden_size"], hidden)?;
    let bias = model_type != "kimi_k3";
    Ok(Vision {
        hidden,
        width: reader.get(&["vt_intermediate_size", "intermediate_size"], 4304)?,
        layers: reader.get(&["vt_num_hidden_layers", "num_hidden_layers"], 27)?,
        attention,
        gated: false,
        bias,
        norm_parts: if bias { 2 } else { 1 },
        norms: 2,
        patch: 3 * patch * patch * hidden + if bias { hidden } else { 0 },
        positions: rows * columns * hidden,
        vectors: if bias { 4 } else { 2 },
        layer_vectors: 0,
        head_vectors: 0,
        projector: merged * merged + merged + merged * text_hidden + text_hidden,
        largest_patches: None,
        largest_item: None,
    })
}

fn gemma4(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 768)?;
    let heads = reader.get(&["num_attention_heads"], 12)?;
    let head_dim = reader.get(&["head_dim"], 64)?;
    let patch = reader.size("patch_size", 16)?;
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 3072)?,
        layers: reader.get(&["num_hidden_layers"], 16)?,
        attention: heads * head_dim,
        gated: true,
        bias: false,
        norm_parts: 1,
        norms: 4,
        patch: 3 * patch * patch * hidden,
        positions: 2 * reader.get(&["position_embedding_size"], 10240)? * hidden,
        vectors: 0,
        layer_vectors: 0,
        head_vectors: 2 * head_dim,
        projector: hidden * text_hidden,
        largest_patches: Some(2520),
        largest_item: Some(280),
    })
}

fn siglip(
    reader: &Reader<'_>,
    text_hidden: u64,
    (hidden, width, layers, image, patch): (u64, u64, u64, u64, u64),
    tokens: u64,
    gemma: bool,
) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], hidden)?;
    let patch = reader.size("patch_size", patch)?;
    let side = reader.size("image_size", image)? / patch.max(1);
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], width)?,
        layers: reader.get(&["num_hidden_layers"], layers)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * hidden + hidden,
        positions: side * side * hidden,
        vectors: 2,
        layer_vectors: 0,
        head_vectors: 0,
        projector: hidden * text_hidden + if gemma { hidden } else { 0 },
        largest_patches: Some(side * side),
        largest_item: Some(tokens),
    })
}

fn minimax(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let patch = reader.size("patch_size", 14)?;
    let time = reader.get(&["temporal_patch_size"], 2)?;
    let merge = reader.get(&["spatial_merge_size"], 2)?;
    let inner = 6144;
    let merged = text_hidden * merge * merge;
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 5120)?,
        layers: reader.get(&["num_hidden_layers"], 32)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * time * hidden,
        positions: 0,
        vectors: 2,
        layer_vectors: 0,
        head_vectors: 0,
        projector: (hidden * inner + inner) + 2 * (inner * text_hidden + text_hidden) + (merged * inner + inner),
        largest_patches: None,
        largest_item: None,
    })
}

fn step(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size", "width"], 1536)?;
    let patch = reader.size("patch_size", 14)?;
    let side = reader.size("image_size", 728)? / patch.max(1);
    let ratio = reader.real("mlp_ratio", 8960.0 / 1536.0)?;
    Ok(Vision {
        hidden,
        width: (hidden as f64 * ratio + 1e-9) as u64,
        layers: reader.get(&["num_hidden_layers", "layers"], 47)?,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * hidden,
        positions: side * side * hidden,
        vectors: 2,
        layer_vectors: 2,
        head_vectors: 0,
        // Two strided convolutions of 3 × 3, each doubling the width, then a linear map.
        projector: 9 * hidden * 2 * hidden + 2 * hidden
            + 9 * 2 * hidden * 4 * hidden + 4 * hidden
            + 4 * hidden * text_hidden,
        largest_patches: Some(side * side),
        largest_item: Some(side * side / 16),
    })
}

fn pixtral(reader: &Reader<'_>, text_hidden: u64, model_type: &str) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1024)?;
    let patch = reader.size("patch_size", 14)?;
    let side = reader.size("image_size", 1540)? / patch.max(1);
    let merge = if model_type == "mistral3" { 2 } else { 1 };
    let joined = if merge > 1 {
        // Patch merger, norm, and two linear maps without bias.
        hidden * hidden * 4 + hidden + hidden * text_hidden + text_hidden * text_hidden
    } else {
        hidden * text_hidden + text_hidden + text_hidden * text_hidden + text_hidden
    };
    let heads = reader.get(&["num_attention_heads"], 16)?;
    let head_dim = reader.get(&["head_dim"], hidden / heads.max(1))?;
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 4096)?,
        layers: reader.get(&["num_hidden_layers"], 24)?,
        attention: heads * head_dim,
        gated: true,
        bias: false,
        norm_parts: 1,
        norms: 2,
        patch: 3 * patch * patch * hidden,
        positions: 0,
        vectors: 1,
        layer_vectors: 0,
        head_vectors: 0,
        projector: joined,
        largest_patches: Some(side * side),
        largest_item: Some(side * side / (merge * merge)),
    })
}

fn mllama(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size"], 1280)?;
    let patch = reader.size("patch_size", 14)?;
    let side = reader.size("image_size", 448)? / patch.max(1);
    let handed = reader.get(&["vision_output_dim"], 7680)?;
    let tiles = reader.get(&["max_num_tiles"], 4)?;
    let global = reader.get(&["num_global_layers"], 8)?;
    let ratios = 9;
    let patches = side * side + 1;
    Ok(Vision {
        hidden,
        width: reader.get(&["intermediate_size"], 5120)?,
        layers: reader.get(&["num_hidden_layers"], 32)? + global,
        attention: hidden,
        gated: false,
        bias: false,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * hidden,
        // Positions of patches and, by aspect ratio, of tiles; before and after the layers.
        positions: patches * hidden + ratios * tiles * patches * hidden + 2 * ratios * tiles * hidden,
        vectors: 1 + 4,
        layer_vectors: 0,
        head_vectors: 0,
        projector: handed * text_hidden + text_hidden,
        largest_patches: Some(tiles * patches),
        largest_item: Some(tiles * patches),
    })
}

/// An unknown tower with the usual fields.
fn generic(reader: &Reader<'_>, text_hidden: u64) -> Result<Vision, ConfigError> {
    let hidden = reader.get(&["hidden_size", "embed_dim", "width"], 1024)?;
    let layers = reader.get(&["num_hidden_layers", "depth", "layers"], 24)?;
    let width = reader.get(&["intermediate_size"], 4 * hidden)?;
    let patch = reader.size("patch_size", 14)?;
    let side = reader.size("image_size", 336)? / patch.max(1);
    Ok(Vision {
        hidden,
        width,
        layers,
        attention: hidden,
        gated: false,
        bias: true,
        norm_parts: 2,
        norms: 2,
        patch: 3 * patch * patch * hidden,
        positions: (side * side + 1) * hidden,
        vectors: 5,
        layer_vectors: 0,
        head_vectors: 0,
        projector: hidden * text_hidden + text_hidden + text_hidden * text_hidden + text_hidden,
        largest_patches: Some(side * side),
        largest_item: Some(side * side),
    })
}

/// A Whisper-like audio encoder in front of a language model.
fn audio_tower(fields: Fields<'_>, text_hidden: u64) -> Result<Option<Tower>, ConfigError> {
    let Some(hidden) = fields.count(&["d_model", "hidden_size"])? else { return Ok(None) };
    let layers = fields.count(&["encoder_layers", "num_hidden_layers"])?.unwrap_or(32);
    let width = fields.count(&["encoder_ffn_dim", "intermediate_size"])?.unwrap_or(4 * hidden);
    let bins = fields.count(&["num_mel_bins", "input_feat_size"])?.unwrap_or(128);
    let positions = fields.count(&["max_source_positions"])?.unwrap_or(1500);
    let role = Role::Tower;
    let matrix = |name, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    Ok(Some(Tower {
        kind: TowerKind::Audio,
        hidden,
        width,
        layers,
        largest_item: Some(Tokens(positions / 2)),
        largest_patches: Some(positions),
        tensors: vec![
            matrix("audio.qkv", hidden, hidden, Split::Output(hidden)).times(3 * layers),
            matrix("audio.out", hidden, hidden, Split::Input(hidden)).times(layers),
            matrix("audio.up", width, hidden, Split::Output(width)).times(layers),
            matrix("audio.down", hidden, width, Split::Input(width)).times(layers),
            Tensor::vector("audio.norms", role, hidden).times(4 * layers + 2),
            Tensor::vector("audio.attention.bias", role, 3 * hidden).times(layers),
            Tensor::vector("audio.mlp.bias", role, width + hidden).times(layers),
            Tensor::vector("audio.convolutions", role, 3 * bins * hidden + 3 * hidden * hidden + 2 * hidden),
            Tensor::vector("audio.positions", role, positions * hidden),
            Tensor::matrix("audio.projector", Role::Projector, text_hidden, hidden, Split::Replicated),
        ],
    }))
}
