//! A model from bare numbers: what is not given is assumed, and said.

use super::ResolvedModel;
use crate::error::Problem;
use anyhow::Context as _;
use clap::Args;
use gpuwise_domain::model::Architecture;
use gpuwise_read::config::read_config_value;
use gpuwise_units::Parameters;
use serde_json::{Value, json};

/// Width of a head that most decoders have.
const HEAD: u64 = 128;
/// Key-value heads of most decoders with grouped queries.
const KV_HEADS: u64 = 8;
/// Rows of the embedding of most recent decoders.
const VOCABULARY: u64 = 128_000;
/// Attention and feed-forward of a usual decoder layer hold some 12 hidden² elements.
const ELEMENTS_PER_LAYER: f64 = 12.0;
/// How far the parameters that the shape makes may be from those that were stated.
const TOLERANCE: f64 = 0.1;

/// A model by its numbers, in place of a name.
#[derive(Debug, Clone, Default, Args)]
pub struct Numbers {
    /// Parameters in all, such as 8e9 or 8B
    #[arg(long, value_name = "N", value_parser = parameters)]
    pub params: Option<u64>,
    /// Decoder layers
    #[arg(long, value_name = "N")]
    pub layers: Option<u64>,
    /// Width of the residual stream
    #[arg(long, value_name = "N")]
    pub hidden: Option<u64>,
    /// Attention heads
    #[arg(long, value_name = "N")]
    pub heads: Option<u64>,
    /// Key-value heads
    #[arg(long, value_name = "N")]
    pub kv_heads: Option<u64>,
    /// Width of a head
    #[arg(long, value_name = "N")]
    pub head_dim: Option<u64>,
    /// Width of the feed-forward, or of one expert
    #[arg(long, value_name = "N")]
    pub intermediate: Option<u64>,
    /// Rows of the embedding
    #[arg(long, value_name = "N")]
    pub vocab: Option<u64>,
    /// Routed experts of each layer
    #[arg(long, value_name = "N", requires = "experts_per_token")]
    pub experts: Option<u64>,
    /// Experts that each token uses
    #[arg(long, value_name = "N", requires = "experts")]
    pub experts_per_token: Option<u64>,
}

fn parameters(text: &str) -> Result<u64, String> {
    text.parse::<Parameters>()
        .map(|count| count.0)
        .map_err(|error| error.to_string())
}

struct Shape {
    layers: u64,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    vocab: u64,
    /// Experts and how many of them a token uses.
    experts: Option<(u64, u64)>,
    assumed: Vec<String>,
}

impl Numbers {
    pub fn given(&self) -> bool {
        self.fields().iter().any(|(_, value)| value.is_some())
    }

    fn fields(&self) -> [(&'static str, Option<u64>); 10] {
        [
            ("--params", self.params),
            ("--layers", self.layers),
            ("--hidden", self.hidden),
            ("--heads", self.heads),
            ("--kv-heads", self.kv_heads),
            ("--head-dim", self.head_dim),
            ("--intermediate", self.intermediate),
            ("--vocab", self.vocab),
            ("--experts", self.experts),
            ("--experts-per-token", self.experts_per_token),
        ]
    }

    /// The decoder that these numbers make.
    ///
    /// # Errors
    /// When too few are given, one cannot be, or they contradict each other.
    pub fn resolve(&self) -> anyhow::Result<ResolvedModel> {
        for (flag, value) in self.fields() {
            if value == Some(0) {
                return Err(Problem::new(format!("{flag} is 0; a model has at least 1")).into());
            }
        }
        let mut shape = self.shape()?;
        let width = match (self.intermediate, self.params) {
            (Some(width), _) => width,
            (None, Some(params)) => shape.solve_width(params)?,
            (None, None) => {
                let width = shape.hidden.saturating_mul(4);
                shape
                    .assumed
                    .push(format!("--intermediate {width}: 4 × hidden"));
                width
            }
        };
        let mut architecture = shape.read(width)?;
        let made = architecture.parameters();
        if let Some(stated) = self.params {
            let apart = (made.0 as f64 - stated as f64).abs() / stated as f64;
            if apart > TOLERANCE {
                return Err(Problem::new(format!(
                    "these numbers contradict each other: --params says {}, the shape makes {made}",
                    Parameters(stated)
                ))
                .hint("leave --intermediate out to have it follow from --params, or --params to have it follow from the shape")
                .into());
            }
        }
        if !shape.assumed.is_empty() {
            architecture.assumptions.push(format!(
                "assumed of the model: {}",
                shape.assumed.join("; ")
            ));
        }
        Ok(ResolvedModel {
            name: format!("your-model-{made}"),
            origin: "numbers on the command line".into(),
            architecture,
            gguf: false,
        })
    }

    /// The width with which layers and embedding have so many parameters:
    /// `12 · layers · hidden² + 2 · vocabulary · hidden`.
    fn width(&self, params: f64, layers: f64) -> f64 {
        let square = ELEMENTS_PER_LAYER * layers * (self.experts.unwrap_or(1) as f64).sqrt();
        let linear = 2.0 * self.vocab.unwrap_or(VOCABULARY) as f64;
        ((linear * linear + 4.0 * square * params).sqrt() - linear) / (2.0 * square)
    }

    fn shape(&self) -> anyhow::Result<Shape> {
        let layers = self.layers.ok_or_else(|| {
            Problem::new("--layers is missing")
                .hint("a model by numbers needs --layers and --params or --hidden")
        })?;
        let mut assumed = Vec::new();
        let mut assume = |flag: &str, value: u64, why: &str| {
            assumed.push(format!("{flag} {value}: {why}"));
            value
        };
        let head_dim = match (self.head_dim, self.hidden, self.heads) {
            (Some(given), ..) => given,
            (None, Some(hidden), Some(heads)) if hidden.is_multiple_of(heads) => hidden / heads,
            _ => assume("--head-dim", HEAD, "that of most models"),
        };
        let hidden = match (self.hidden, self.params) {
            (Some(given), _) => given,
            (None, Some(params)) => {
                let wide = self.width(params as f64, layers as f64);
                // A multiple of so many heads that they divide over GPUs.
                let step = if wide > 1.5 * (HEAD * KV_HEADS) as f64 {
                    HEAD * KV_HEADS
                } else {
                    HEAD
                };
                let hidden = ((wide / step as f64).round() as u64).max(1) * step;
                assume("--hidden", hidden, "from parameters and layers")
            }
            (None, None) => {
                return Err(Problem::new("--params or --hidden is missing")
                    .hint("a model by numbers needs --layers and --params or --hidden")
                    .into());
            }
        };
        let heads = self.heads.unwrap_or_else(|| {
            assume(
                "--heads",
                (hidden / head_dim).max(1),
                "hidden over head width",
            )
        });
        let kv_heads = match self.kv_heads {
            Some(given) => given,
            None if heads.is_multiple_of(KV_HEADS) => {
                assume("--kv-heads", KV_HEADS, "that of most models")
            }
            None => assume("--kv-heads", heads, "one for each head"),
        };
        let vocab = self
            .vocab
            .unwrap_or_else(|| assume("--vocab", VOCABULARY, "that of most recent models"));
        Ok(Shape {
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            vocab,
            experts: self.experts.zip(self.experts_per_token),
            assumed,
        })
    }
}

impl Shape {
    /// The width of the feed-forward with which the model has so many parameters: they grow
    /// linearly with it, so two widths show the line.
    fn solve_width(&mut self, params: u64) -> anyhow::Result<u64> {
        let step = HEAD;
        let one = self.read(step)?.parameters().0 as f64;
        let two = self.read(2 * step)?.parameters().0 as f64;
        let wanted = 1.0 + (params as f64 - one) / (two - one);
        let width = (wanted.round() as u64).saturating_mul(step);
        if !wanted.is_finite() || wanted < 1.0 {
            return Err(Problem::new(format!(
                "these numbers contradict each other: attention and embedding alone have more than --params {}",
                Parameters(params)
            ))
            .hint("give --vocab, --hidden, --heads and --kv-heads of the model")
            .into());
        }
        self.assumed
            .push(format!("--intermediate {width}: from parameters"));
        Ok(width)
    }

    fn read(&self, width: u64) -> anyhow::Result<Architecture> {
        let mut config = json!({
            "model_type": "llama",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": width,
            "vocab_size": self.vocab,
            "tie_word_embeddings": false,
            "torch_dtype": "bfloat16",
        });
        if let (Some((experts, chosen)), Value::Object(fields)) = (self.experts, &mut config) {
            fields.insert("model_type".into(), "mixtral".into());
            fields.insert("num_local_experts".into(), experts.into());
            fields.insert("num_experts_per_tok".into(), chosen.into());
        }
        read_config_value(&config).context("these numbers make no model that can be")
    }
}
