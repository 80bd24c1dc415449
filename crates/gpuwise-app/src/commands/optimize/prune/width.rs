//! How wide a model is, by its configuration.

use serde_json::Value;

/// How wide a model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) hidden: u64,
    /// Channels of the MLP.
    pub(super) between: u64,
    pub(super) head: u64,
    pub(super) heads: u64,
    /// Heads of keys and values, each with its group of heads.
    pub(super) groups: u64,
}

impl Width {
    pub(super) fn of(config: &Value) -> Result<Self, String> {
        let whole = |field: &str| {
            let number = config.get(field).and_then(Value::as_u64);
            let number = number.filter(|number| (1..1 << 32).contains(number));
            number.ok_or_else(|| {
                format!("config.json: `{field}` is not said, or no whole number above 0")
            })
        };
        let said = |field: &str| config.get(field).is_some_and(|said| !said.is_null());
        let (hidden, heads) = (whole("hidden_size")?, whole("num_attention_heads")?);
        let groups = match config.pointer("/architectures/0").and_then(Value::as_str) {
            _ if said("num_key_value_heads") => whole("num_key_value_heads")?,
            // As these configurations mean it.
            Some("LlamaForCausalLM") => heads,
            _ => return Err("config.json: `num_key_value_heads` is not said".into()),
        };
        let head = if said("head_dim") {
            whole("head_dim")?
        } else {
            hidden / heads
        };
        if !heads.is_multiple_of(groups) || head == 0 {
            return Err(format!(
                "config.json: {heads} heads of {head} in {groups} groups of keys and values"
            ));
        }
        Ok(Self {
            hidden,
            between: whole("intermediate_size")?,
            head,
            heads,
            groups,
        })
    }

    /// Rows and columns of a layer's matrix; `None` of what is no such.
    pub(super) fn shape(self, layer: &str) -> Option<[u64; 2]> {
        let Self {
            hidden, between, ..
        } = self;
        Some(match layer {
            "self_attn.q_proj" => [self.heads * self.head, hidden],
            "self_attn.k_proj" | "self_attn.v_proj" => [self.groups * self.head, hidden],
            "self_attn.o_proj" => [hidden, self.heads * self.head],
            "mlp.gate_proj" | "mlp.up_proj" => [between, hidden],
            "mlp.down_proj" => [hidden, between],
            _ => return None,
        })
    }
}
