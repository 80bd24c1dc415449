//! Head counts and windows, which may differ from layer to layer.

use super::super::{ConfigError, Context, build::AttentionShape, common::Heads};
use gpuwise_domain::model::Window;
use gpuwise_units::Tokens;

/// What a configuration says about the heads and windows of all layers.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    heads: Heads,
    value_dim: u64,
    pub(super) rotary_elements: u64,
    window: Option<u64>,
    types: Option<Vec<&'a str>>,
    /// Query heads by layer, where they differ.
    heads_of_layers: Option<Vec<u64>>,
    kv_heads_of_layers: Option<Vec<u64>>,
    /// 1 where a layer slides.
    sliding_pattern: Option<Vec<u64>>,
    /// 0 where a layer has no rotary positions: those see everything.
    rotary_pattern: Option<Vec<u64>>,
    /// Layers in a period of which the last sees everything.
    period: Option<u64>,
}

impl<'a> Plan<'a> {
    pub(super) fn read(
        context: &Context<'a>,
        hidden: u64,
        count: u64,
    ) -> Result<Self, ConfigError> {
        let text = context.text;
        let heads = Heads::read(context, hidden)?;
        let rotary = text.real("partial_rotary_factor")?.unwrap_or(1.0).min(1.0);
        let rotary_pattern = match text.list("no_rope_layers")? {
            Some(list) if !list.is_empty() => text.counts_of_layers("no_rope_layers", count)?,
            _ => None,
        };
        let mut plan = Self {
            heads,
            value_dim: text.count(&["v_head_dim"])?.unwrap_or(heads.dim),
            rotary_elements: (heads.dim as f64 * rotary) as u64,
            window: text
                .length_or_zero(&["sliding_window", "sliding_window_size"])?
                .filter(|window| *window > 0),
            types: text.texts_of_layers("layer_types", count)?,
            heads_of_layers: text.counts_of_layers("num_attention_heads_per_layer", count)?,
            kv_heads_of_layers: text.counts_of_layers("num_key_value_heads_per_layer", count)?,
            sliding_pattern: text.counts_of_layers("hybrid_layer_pattern", count)?,
            rotary_pattern,
            period: None,
        };
        plan.window_rule(context)?;
        Ok(plan)
    }

    /// Which layers slide, where `layer_types` does not say.
    fn window_rule(&mut self, context: &Context<'a>) -> Result<(), ConfigError> {
        let text = context.text;
        let reach = text
            .length(&["max_position_embeddings"])?
            .unwrap_or(u64::MAX);
        let switched_off = text.flag("use_sliding_window")? == Some(false);
        // Phi-3's mask slides, but the cache that engines keep does not.
        let mask_only = matches!(
            context.model_type,
            "phi3" | "phi3_v" | "phi4mm" | "phi" | "phimoe"
        );
        if switched_off || mask_only || self.window.is_some_and(|window| reach < window) {
            self.window = None;
        }
        // A text such as `LLLG` is spelled out in `layer_types` too.
        let stated = match text.raw("sliding_window_pattern") {
            Some(serde_json::Value::Number(_)) => text.count(&["sliding_window_pattern"])?,
            _ => text.count(&["_sliding_window_pattern"])?,
        };
        self.period = match context.model_type {
            "gemma2" | "gpt_oss" => Some(2),
            "gemma3_text" | "gemma3" => Some(stated.unwrap_or(6)),
            "cohere2" | "exaone4" | "olmo3" => Some(stated.unwrap_or(4)),
            "afmoe" => Some(text.count(&["global_attn_every_n_layers"])?.unwrap_or(4)),
            _ => stated,
        };
        if context.model_type == "gemma2" && self.window.is_none() {
            self.window = Some(4096);
        }
        Ok(())
    }

    /// What a layer sees.
    fn window(&self, context: &Context<'_>, index: u64) -> Result<Window, ConfigError> {
        let text = context.text;
        let at = index as usize;
        if context.model_type == "llama4_text" {
            let chunk = text.length(&["attention_chunk_size"])?.unwrap_or(8192);
            let step = text.count(&["no_rope_layer_interval"])?.unwrap_or(4);
            let full = match &self.rotary_pattern {
                Some(pattern) => pattern.get(at) == Some(&0),
                None => (index + 1).is_multiple_of(step),
            };
            return Ok(if full {
                Window::Full
            } else {
                Window::Chunked(Tokens(chunk))
            });
        }
        let slides = |sliding: bool| match self.window {
            Some(window) if sliding => Window::Sliding(Tokens(window)),
            _ => Window::Full,
        };
        if let Some(kind) = self.types.as_ref().and_then(|types| types.get(at)) {
            return Ok(slides(matches!(
                *kind,
                "sliding_attention" | "chunked_attention" | "local_attention"
            )));
        }
        if let Some(pattern) = &self.sliding_pattern {
            return Ok(slides(pattern.get(at) == Some(&1)));
        }
        if let Some(period) = self.period {
            return Ok(slides(!(index + 1).is_multiple_of(period)));
        }
        // Qwen's first layers see everything even where the window is switched on.
        let from = text.length_or_zero(&["max_window_layers"])?.unwrap_or(0);
        Ok(slides(
            !context.model_type.starts_with("qwen") || from <= index,
        ))
    }

    /// The heads and window of a layer.
    pub(super) fn shape(
        &self,
        context: &Context<'_>,
        hidden: u64,
        index: u64,
    ) -> Result<AttentionShape, ConfigError> {
        let text = context.text;
        let at = index as usize;
        let listed = |list: &Option<Vec<u64>>| list.as_ref().and_then(|list| list.get(at).copied());
        let heads = Heads {
            heads: listed(&self.heads_of_layers).unwrap_or(self.heads.heads),
            kv_heads: listed(&self.kv_heads_of_layers).unwrap_or(self.heads.kv_heads),
            dim: self.heads.dim,
        };
        let mut shape = AttentionShape {
            window: self.window(context, index)?,
            value_dim: self.value_dim,
            ..heads
                .checked(&format!("the heads of layer {index}, of which there are"))?
                .shape(hidden)
        };
        if context.model_type == "mimo_v2_flash" && matches!(shape.window, Window::Sliding(_)) {
            let sliding = Heads {
                heads: text
                    .count(&["swa_num_attention_heads"])?
                    .unwrap_or(heads.heads),
                kv_heads: text
                    .count(&["swa_num_key_value_heads"])?
                    .unwrap_or(heads.kv_heads),
                dim: text.count(&["swa_head_dim"])?.unwrap_or(heads.dim),
            };
            shape = AttentionShape {
                window: shape.window,
                value_dim: text.count(&["swa_v_head_dim"])?.unwrap_or(shape.value_dim),
                sinks: text.is("add_swa_attention_sink_bias")?,
                ..sliding.checked("`swa_num_attention_heads`")?.shape(hidden)
            };
        }
        Ok(shape)
    }
}
