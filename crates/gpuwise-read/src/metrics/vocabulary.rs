//! How engines name what they measure.
//!
//! Names are those of the engines' own documentation and sources: vLLM's first and second engine,
//! SGLang before and after its metrics were renamed, TGI, Triton's TensorRT-LLM backend and
//! llama.cpp. A colon may have become an underscore on the way, and `_total` may be missing.

use super::exposition::Exposition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Histogram: tokens of prompts.
    PromptLength,
    /// Histogram: tokens generated for a request.
    OutputLength,
    /// Histogram: tokens that requests allow at most.
    MaxTokens,
    /// Histogram: seconds to first token.
    Ttft,
    /// Histogram: a request's seconds per output token after the first.
    Tpot,
    /// Histogram: seconds between two tokens.
    Itl,
    /// Histogram: seconds from request to last token.
    EndToEnd,
    /// Histogram: seconds in the queue.
    Queue,
    /// Gauge: requests in batches.
    Running,
    /// Gauge: requests in the queue.
    Waiting,
    /// Gauge: share of the key-value cache in use.
    CacheUse,
    /// Counter: prompt tokens looked up in the prefix cache.
    PrefixQueries,
    /// Counter: prompt tokens found there.
    PrefixHits,
    /// Gauge: share of them found, where it is not counted.
    PrefixHitRate,
    PromptTokens,
    OutputTokens,
    /// Counter: requests that ended, by reason.
    Finished,
    /// Counter: requests that failed.
    Failed,
    /// Counter: requests that lost their place.
    Preempted,
    /// Counter: tokens or blocks that the prefix cache gave up.
    Evicted,
    /// Gauge: slots of a batch that are computed for nothing.
    EmptySlots,
    /// Gauge: slots of a batch that generate.
    FullSlots,
}

#[derive(Debug)]
pub struct Vocabulary {
    /// The engine as flags name it.
    pub engine: &'static str,
    pub prefix: &'static str,
    pub model_labels: &'static [&'static str],
    /// Names without the prefix; of several for one quantity the first that is there counts.
    names: &'static [(Quantity, &'static str)],
}

use Quantity as Q;

pub const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary {
        engine: "vllm",
        prefix: "vllm:",
        model_labels: &["model_name"],
        names: &[
            (Q::PromptLength, "request_prompt_tokens"),
            (Q::OutputLength, "request_generation_tokens"),
            (Q::MaxTokens, "request_params_max_tokens"),
            (Q::Ttft, "time_to_first_token_seconds"),
            (Q::Tpot, "request_time_per_output_token_seconds"),
            (Q::Itl, "inter_token_latency_seconds"),
            // Observed once for each token, whatever its name says.
            (Q::Itl, "time_per_output_token_seconds"),
            (Q::EndToEnd, "e2e_request_latency_seconds"),
            (Q::Queue, "request_queue_time_seconds"),
            (Q::Queue, "time_in_queue_requests"),
            (Q::Running, "num_requests_running"),
            (Q::Waiting, "num_requests_waiting"),
            (Q::CacheUse, "kv_cache_usage_perc"),
            (Q::CacheUse, "gpu_cache_usage_perc"),
            (Q::PrefixQueries, "prefix_cache_queries"),
            (Q::PrefixQueries, "gpu_prefix_cache_queries"),
            (Q::PrefixHits, "prefix_cache_hits"),
            (Q::PrefixHits, "gpu_prefix_cache_hits"),
            (Q::PrefixHitRate, "gpu_prefix_cache_hit_rate"),
            (Q::PromptTokens, "prompt_tokens"),
            (Q::OutputTokens, "generation_tokens"),
            (Q::Finished, "request_success"),
            (Q::Preempted, "num_preemptions"),
            (Q::Evicted, "kv_block_idle_before_evict_seconds_count"),
        ],
    },
    Vocabulary {
        engine: "sglang",
        prefix: "sglang:",
        model_labels: &["model_name", "name"],
        names: &[
            (Q::PromptLength, "prompt_tokens_histogram"),
            (Q::PromptLength, "request_prompt_tokens"),
            (Q::OutputLength, "generation_tokens_histogram"),
            (Q::OutputLength, "request_generation_tokens"),
            (Q::Ttft, "time_to_first_token_seconds"),
            (Q::Itl, "inter_token_latency_seconds"),
            (Q::Itl, "time_per_output_token_seconds"),
            (Q::EndToEnd, "e2e_request_latency_seconds"),
            (Q::Queue, "queue_time_seconds"),
            (Q::Queue, "waiting_request_latency_seconds"),
            (Q::Running, "num_running_reqs"),
            (Q::Running, "num_requests_running"),
            (Q::Waiting, "num_queue_reqs"),
            (Q::Waiting, "num_requests_waiting"),
            (Q::CacheUse, "token_usage"),
            (Q::PrefixHits, "cached_tokens"),
            (Q::PrefixHitRate, "cache_hit_rate"),
            (Q::PromptTokens, "prompt_tokens"),
            (Q::OutputTokens, "generation_tokens"),
            (Q::Finished, "num_requests"),
            (Q::Failed, "num_aborted_requests"),
            (Q::Preempted, "num_retracted_requests"),
            (Q::Evicted, "evicted_tokens"),
        ],
    },
    Vocabulary {
        engine: "tgi",
        prefix: "tgi_",
        model_labels: &["model_name", "model_id"],
        names: &[
            (Q::PromptLength, "request_input_length"),
            (Q::OutputLength, "request_generated_tokens"),
            (Q::MaxTokens, "request_max_new_tokens"),
            (Q::Tpot, "request_mean_time_per_token_duration"),
            (Q::EndToEnd, "request_duration"),
            (Q::Queue, "request_queue_duration"),
            (Q::Running, "batch_current_size"),
            (Q::Waiting, "queue_size"),
            (Q::Finished, "request_success"),
            (Q::Failed, "request_failure"),
        ],
    },
    Vocabulary {
        engine: "trtllm",
        prefix: "nv_trt_llm_",
        model_labels: &["model"],
        names: &[
            (Q::Running, "request_metrics{request_type=active}"),
            (Q::Waiting, "request_metrics{request_type=waiting}"),
            (
                Q::CacheUse,
                "kv_cache_block_metrics{kv_cache_block_type=fraction}",
            ),
            // Static batching: tensorrtllm_backend@0b9d7d5 README.
            (
                Q::EmptySlots,
                "v1_metrics{v1_specific_metric=empty_generation_slots}",
            ),
            (
                Q::FullSlots,
                "v1_metrics{v1_specific_metric=total_generation_tokens}",
            ),
        ],
    },
    Vocabulary {
        engine: "llamacpp",
        prefix: "llamacpp:",
        model_labels: &["model"],
        names: &[
            (Q::PromptTokens, "prompt_tokens"),
            (Q::OutputTokens, "tokens_predicted"),
            (Q::Running, "requests_processing"),
            (Q::Waiting, "requests_deferred"),
            (Q::CacheUse, "kv_cache_usage_ratio"),
        ],
    },
    // triton-inference-server/server docs/user_guide/metrics.md.
    Vocabulary {
        engine: "triton",
        prefix: "nv_inference_",
        model_labels: &["model"],
        names: &[
            (Q::Waiting, "pending_request_count"),
            (Q::Finished, "request_success"),
            (Q::Failed, "request_failure"),
        ],
    },
];

/// The name of a metric on a page, with the one label that picks it where it needs one.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) label: Option<(&'static str, &'static str)>,
}

impl Vocabulary {
    pub fn of(engine: &str) -> Option<&'static Self> {
        VOCABULARIES
            .iter()
            .find(|vocabulary| vocabulary.engine == engine)
    }

    /// The vocabulary in which these names are written.
    pub fn spoken<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'static Self> {
        // A page may have metrics of more than one: the first in the list counts.
        names
            .filter_map(|name| VOCABULARIES.iter().position(|one| one.owns(name)))
            .min()
            .and_then(|place| VOCABULARIES.get(place))
    }

    pub(crate) fn owns(&self, name: &str) -> bool {
        let stem = self.prefix.trim_end_matches([':', '_']);
        name.strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with([':', '_']))
    }

    /// Names under which a quantity may stand, best first: with the engine's separator, with an
    /// underscore, with and without `_total`. Names in the same row of the vocabulary stay together.
    pub fn candidates(&self, quantity: Quantity) -> Vec<String> {
        self.spelled(quantity)
            .into_iter()
            .filter(|named| named.label.is_none())
            .map(|named| named.name)
            .collect()
    }

    pub(crate) fn spelled(&self, quantity: Quantity) -> Vec<Named> {
        let stem = self.prefix.trim_end_matches([':', '_']);
        let counted = matches!(
            quantity,
            Q::PrefixQueries
                | Q::PrefixHits
                | Q::PromptTokens
                | Q::OutputTokens
                | Q::Finished
                | Q::Failed
                | Q::Preempted
                | Q::Evicted
        );
        let mut out = Vec::new();
        for (_, name) in self.names.iter().filter(|(of, _)| *of == quantity) {
            let (name, label) = match name.split_once('{') {
                Some((name, label)) => (name, label.trim_end_matches('}').split_once('=')),
                None => (*name, None),
            };
            let endings: &[&str] = if counted { &["_total", ""] } else { &[""] };
            for ending in endings {
                for separator in [":", "_"] {
                    out.push(Named {
                        name: format!("{stem}{separator}{name}{ending}"),
                        label,
                    });
                }
            }
        }
        out
    }

    /// The name under which a quantity stands on this page; `suffix` is that of a histogram's count.
    pub(super) fn on_page(
        &self,
        page: &Exposition<'_>,
        quantity: Quantity,
        suffix: &str,
    ) -> Option<Named> {
        self.spelled(quantity).into_iter().find(|named| {
            let full = format!("{}{suffix}", named.name);
            page.samples.iter().any(|sample| {
                sample.name == full
                    && named
                        .label
                        .is_none_or(|(key, value)| sample.label(key) == Some(value))
            })
        })
    }
}
