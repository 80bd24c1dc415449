//! Fields of latent attention, recurrent mixers and encoder-decoder models.

use super::{ArchitectureError, architecture::blocks, keys::Keys};
use serde_json::{Map, Value, json};

/// Adds what the mixers of this architecture need.
pub(super) fn fields(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    if keys.some("attention.kv_lora_rank").is_some() {
        latent(keys, layers, config);
    }
    let space = StateSpace::read(keys);
    match keys.name {
        "mamba" | "mamba2" | "jamba" => space.pure(keys, layers, config),
        "nemotron_h" | "nemotron_h_moe" => space.nemotron(keys, layers, config),
        "granitehybrid" | "falcon-h1" => space.parallel(keys, layers, config),
        "qwen3next" | "qwen35" | "qwen35moe" => {
            let fields = [
                ("linear_num_key_heads", space.groups),
                ("linear_num_value_heads", space.heads),
                ("linear_key_head_dim", space.state),
                ("linear_value_head_dim", space.head_dim()),
                ("linear_conv_kernel_dim", space.kernel),
                (
                    "full_attention_interval",
                    keys.some("full_attention_interval"),
                ),
            ];
            put(config, &fields);
            layer_types(keys, layers, "linear_attention", config);
        }
        "lfm2" | "lfm2moe" => {
            put(
                config,
                &[
                    ("conv_L_cache", keys.some("shortconv.l_cache")),
                    ("num_dense_layers", keys.some("leading_dense_block_count")),
                ],
            );
            config.remove("first_k_dense_replace");
            layer_types(keys, layers, "conv", config);
        }
        "kimi-linear" => kimi(keys, layers, config),
        "gemma4" => gemma4(keys, layers, config),
        _ => {}
    }
}

/// Sets the fields that are known.
fn put(config: &mut Map<String, Value>, fields: &[(&str, Option<u64>)]) {
    for (name, value) in fields {
        if let Some(value) = value {
            config.insert((*name).into(), (*value).into());
        }
    }
}

/// What the keys under `ssm` say. What they mean differs: the "rank of the time step" is the
/// number of heads in all but the first Mamba.
#[derive(Debug, Clone, Copy)]
struct StateSpace {
    inner: Option<u64>,
    heads: Option<u64>,
    state: Option<u64>,
    kernel: Option<u64>,
    groups: Option<u64>,
}

impl StateSpace {
    fn read(keys: &Keys<'_>) -> Self {
        Self {
            inner: keys.some("ssm.inner_size"),
            heads: keys.some("ssm.time_step_rank"),
            state: keys.some("ssm.state_size"),
            kernel: keys.some("ssm.conv_kernel"),
            groups: keys.some("ssm.group_count"),
        }
    }

    fn head_dim(&self) -> Option<u64> {
        Some(self.inner? / self.heads?)
    }

    /// Mamba, Mamba-2, and Jamba, which has attention in between.
    fn pure(&self, keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
        match keys.name {
            "mamba" => put(
                config,
                &[
                    ("intermediate_size", self.inner),
                    ("state_size", self.state),
                    ("conv_kernel", self.kernel),
                    ("time_step_rank", self.heads),
                ],
            ),
            "mamba2" => put(
                config,
                &[
                    ("num_heads", self.heads),
                    ("head_dim", self.head_dim()),
                    ("n_groups", self.groups),
                    ("state_size", self.state),
                    ("conv_kernel", self.kernel),
                ],
            ),
            _ => {
                put(
                    config,
                    &[
                        ("mamba_d_state", self.state),
                        ("mamba_d_conv", self.kernel),
                        ("mamba_dt_rank", self.heads),
                    ],
                );
                jamba_periods(keys, layers, config);
            }
        }
    }

    fn nemotron(&self, keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
        put(
            config,
            &[
                ("mamba_num_heads", self.heads),
                ("mamba_head_dim", self.head_dim()),
                ("n_groups", self.groups),
                ("ssm_state_size", self.state),
                ("conv_kernel", self.kernel),
                ("moe_latent_size", keys.some("moe_latent_size")),
                (
                    "moe_shared_expert_intermediate_size",
                    keys.some("expert_shared_feed_forward_length"),
                ),
            ],
        );
        nemotron_kinds(keys, layers, config);
    }

    /// Granite-4 and Falcon-H1.
    fn parallel(&self, keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
        let shared = keys.some("expert_shared_feed_forward_length");
        put(
            config,
            &[
                ("mamba_n_heads", self.heads),
                ("mamba_d_head", self.head_dim()),
                ("mamba_d_ssm", self.inner),
                ("mamba_n_groups", self.groups),
                ("mamba_d_state", self.state),
                ("mamba_d_conv", self.kernel),
                (
                    "shared_intermediate_size",
                    shared.or_else(|| keys.some("feed_forward_length")),
                ),
            ],
        );
        config.insert("mamba_rms_norm".into(), keys.has("ssm_norm.weight").into());
        layer_types(keys, layers, "mamba", config);
    }
}

/// Newer files describe the latent cache as attention with one key-value head, and the heads that
/// it stands for under `_mla`; older ones describe the heads.
fn latent(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let key = keys
        .some("attention.key_length_mla")
        .or_else(|| keys.some("attention.key_length"));
    let value = keys
        .some("attention.value_length_mla")
        .or_else(|| keys.some("attention.value_length"));
    let rotary = keys.some("rope.dimension_count");
    config.remove("num_key_value_heads");
    let plain = key
        .zip(rotary)
        .and_then(|(key, rotary)| key.checked_sub(rotary));
    put(
        config,
        &[
            ("kv_lora_rank", keys.some("attention.kv_lora_rank")),
            ("q_lora_rank", keys.some("attention.q_lora_rank")),
            ("qk_rope_head_dim", rotary),
            ("qk_nope_head_dim", plain),
            ("v_head_dim", value),
            ("index_n_heads", keys.some("attention.indexer.head_count")),
            ("index_head_dim", keys.some("attention.indexer.key_length")),
            ("index_topk", keys.some("attention.indexer.top_k")),
        ],
    );
    indexer_types(keys, layers, config);
}

/// Which layers score their own index; the others take that of an earlier one.
fn indexer_types(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let own = |layer: u64| keys.layer_has(layer, "indexer.attn_q_b.weight");
    let kinds: Vec<&str> = (0..layers)
        .map(|layer| if own(layer) { "full" } else { "shared" })
        .collect();
    if kinds.contains(&"full") {
        config.insert("indexer_types".into(), json!(kinds));
    }
}

/// Whether a layer mixes tokens by a recurrence, by its tensors.
fn is_recurrent(keys: &Keys<'_>, layer: u64) -> bool {
    [
        "ssm_out.weight",
        "ssm_conv1d.weight",
        "ssm_conv1d_q.weight",
        "shortconv.conv.weight",
    ]
    .iter()
    .any(|tensor| keys.layer_has(layer, tensor))
}

fn layer_types(keys: &Keys<'_>, layers: u64, recurrent: &str, config: &mut Map<String, Value>) {
    let kinds: Vec<&str> = (0..layers)
        .map(|layer| {
            if is_recurrent(keys, layer) {
                recurrent
            } else {
                "full_attention"
            }
        })
        .collect();
    config.insert("layer_types".into(), json!(kinds));
}

/// Every layer of Nemotron-H has one part: what it is shows in its tensors.
fn nemotron_kinds(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let kinds: Vec<&str> = (0..layers)
        .map(|layer| {
            if is_recurrent(keys, layer) {
                "mamba"
            } else if keys.layer_has(layer, "attn_q.weight") {
                "attention"
            } else if keys.layer_has(layer, "ffn_gate_inp.weight") {
                "moe"
            } else {
                "mlp"
            }
        })
        .collect();
    config.insert("layers_block_type".into(), json!(kinds));
}

/// Jamba's configuration states periods and offsets: found from the first layers that show them.
fn jamba_periods(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let found = |suffix: &str| -> Vec<u64> {
        (0..layers)
            .filter(|layer| keys.layer_has(*layer, suffix))
            .take(2)
            .collect()
    };
    for (suffix, period, offset) in [
        ("attn_q.weight", "attn_layer_period", "attn_layer_offset"),
        (
            "ffn_gate_inp.weight",
            "expert_layer_period",
            "expert_layer_offset",
        ),
    ] {
        if let [first, second] = found(suffix)[..] {
            config.insert(period.into(), (second - first).into());
            config.insert(offset.into(), first.into());
        }
    }
}

fn kimi(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    // Layers are counted from 1 there.
    let full: Vec<u64> = (0..layers)
        .filter(|layer| !is_recurrent(keys, *layer))
        .map(|layer| layer + 1)
        .collect();
    let linear = json!({
        "num_heads": keys.some("attention.head_count"),
        "head_dim": keys.some("kda.head_dim"),
        "short_conv_kernel_size": keys.some("ssm.conv_kernel"),
        "full_attn_layers": full,
    });
    config.insert("linear_attn_config".into(), linear);
}

/// Gemma-4: the stated head is the global one, and the window's has keys of its own.
fn gemma4(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let smallest = keys
        .uneven("attention.head_count_kv")
        .and_then(|counts| counts.into_iter().min());
    put(
        config,
        &[
            ("global_head_dim", keys.some("attention.key_length")),
            ("head_dim", keys.some("attention.key_length_swa")),
            (
                "num_kv_shared_layers",
                keys.some("attention.shared_kv_layers"),
            ),
            (
                "hidden_size_per_layer_input",
                keys.some("embedding_length_per_layer_input"),
            ),
            (
                "num_global_key_value_heads",
                smallest.filter(|heads| *heads > 0),
            ),
        ],
    );
    config.remove("v_head_dim");
    config.insert(
        "enable_moe_block".into(),
        keys.has("ffn_gate_inp.weight").into(),
    );
    let keys_are_values = (0..layers).any(|layer| {
        keys.layer_has(layer, "attn_k.weight") && !keys.layer_has(layer, "attn_v.weight")
    });
    config.insert("attention_k_eq_v".into(), keys_are_values.into());
    let wide = keys
        .uneven("feed_forward_length")
        .and_then(|widths| widths.into_iter().min());
    if let Some(narrow) = wide.filter(|width| *width > 0) {
        config.insert("intermediate_size".into(), narrow.into());
        config.insert("use_double_wide_mlp".into(), true.into());
    }
}

/// T5: layers of both sides under the same keys.
pub(super) fn encoder_decoder(keys: &Keys<'_>) -> Result<Map<String, Value>, ArchitectureError> {
    let need = |key: &str| {
        keys.some(key)
            .ok_or_else(|| ArchitectureError::Missing(format!("{}.{key}", keys.name)))
    };
    let layers = blocks(keys, "block_count")?
        .ok_or_else(|| ArchitectureError::Missing("t5.block_count".into()))?;
    let gated = keys.shape("enc.blk.0.ffn_gate.weight").is_some();
    let vocabulary = keys
        .vocabulary()
        .ok_or_else(|| ArchitectureError::Missing("token_embd.weight".into()))?;
    let config = json!({
        "model_type": "t5",
        "d_model": need("embedding_length")?,
        "num_heads": need("attention.head_count")?,
        "d_kv": keys.some("attention.key_length"),
        "d_ff": need("feed_forward_length")?,
        "num_layers": layers,
        "num_decoder_layers": blocks(keys, "decoder_block_count")?.unwrap_or(layers),
        "vocab_size": vocabulary,
        "feed_forward_proj": if gated { "gated-gelu" } else { "relu" },
        "relative_attention_num_buckets": keys.some("attention.relative_buckets_count"),
        "tie_word_embeddings": keys.shape("output.weight").is_none(),
    });
    match config {
        Value::Object(config) => Ok(config),
        _ => Ok(Map::new()),
    }
}
