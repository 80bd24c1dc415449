//! Usage and telemetry: what leases are told to have used, by interval, as CloudEvents 1.0.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The type of usage events.
pub const USAGE_TYPE: &str = "dev.gpuwise.usage.v1";

/// A CloudEvent 1.0 in its structured form; a JSON array of them is a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageEvent {
    /// `1.0`.
    pub specversion: String,
    /// Unique within its source: what comes twice counts once.
    pub id: String,
    /// Who measured, such as `/dcgm/node1`.
    pub source: String,
    /// `dev.gpuwise.usage.v1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was told (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The lease, such as `L-42`.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    pub data: UsageData,
}

/// What a lease used from `start` on, up to and without `end`. What is left out was not measured, which is
/// not 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageData {
    /// RFC 3339.
    pub start: String,
    pub end: String,
    /// By GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    #[serde(flatten)]
    pub service: ServiceUse,
}

/// What was used of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuUse {
    /// Its lasting id, as `gpuwise lease show` names it.
    pub uid: String,
    /// Seconds in which its multiprocessors worked, over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_seconds: Option<f64>,
    /// Bytes in use times seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_byte_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
}

/// What a service did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceUse {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Requests that were answered whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Requests that failed by the service's fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Requests that met all latency targets of the lease at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<u64>,
    /// Time to first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<LatencyHistogram>,
    /// Time per output token after the first, by request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<LatencyHistogram>,
    /// Metrics of quality, such as `accuracy`: what the tenant says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quality: BTreeMap<String, f64>,
}

/// Latencies by upper bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyHistogram {
    /// Upper bounds in seconds, rising; what is above the last is in one bucket more.
    pub bounds: Vec<f64>,
    /// Requests of each bucket, not summed up: as many as bounds, or one more.
    pub counts: Vec<u64>,
    /// Sum of all latencies in seconds.
    pub sum: f64,
}

impl LatencyHistogram {
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Requests within a time. Those of the bucket that it lies in are taken to be spread evenly, as
    /// Prometheus does; what is above the last bound is not within.
    pub fn within(&self, seconds: f64) -> u64 {
        let mut low = 0.0;
        let mut sum = 0.0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            // Bounds such as 0.1 + 0.2 stand for what they are meant to be.
            if *bound <= seconds * (1.0 + 1e-9) {
                sum += *count as f64;
            } else {
                if seconds > low {
                    sum += *count as f64 * (seconds - low) / (bound - low);
                }
                break;
            }
            low = *bound;
        }
        (sum + 1e-6) as u64
    }

    /// What is wrong with it; `None`: nothing.
    pub fn problem(&self) -> Option<&'static str> {
        let extra = self.counts.len().wrapping_sub(self.bounds.len());
        let rising = self.bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let finite = self
            .bounds
            .iter()
            .all(|bound| bound.is_finite() && *bound > 0.0);
        if extra > 1 {
            Some("it needs as many counts as bounds, or one more")
        } else if !(rising && finite) {
            Some("its bounds are to rise, above 0")
        } else if !(self.sum.is_finite() && self.sum >= 0.0) {
            Some("its sum is no time")
        } else {
            None
        }
    }
}

/// Usage as the log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageDocument {
    /// The client that told it; nothing: the broker measured it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The tenant of that client; nothing: it is an operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub source: String,
    pub id: String,
    /// The lease's number.
    pub lease: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    pub service: ServiceUse,
}

/// What became of a batch of usage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageAnswer {
    /// Events that count.
    pub accepted: u64,
    /// Events that were told before.
    pub duplicates: u64,
    /// Of those accepted: events of a month whose statement is closed; they become corrections.
    pub corrections: u64,
    /// Events that are kept aside and count for nothing, and why.
    pub aside: Vec<UsageAside>,
}

/// An event that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageAside {
    pub source: String,
    pub id: String,
    pub reason: String,
}

/// What a lease used lately, and what of it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseUsageAnswer {
    pub id: String,
    pub from: String,
    pub to: String,
    /// The part of the time for which somebody measured the service; the rest is billed by grant alone.
    pub measured: f64,
    pub requests: u64,
    pub failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Requests a second, and those of the busiest hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<f64>,
    /// Seconds: mean and 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_p95: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_p95: Option<f64>,
    /// The part of the granted GPU time for which somebody measured what GPUs did; left out: of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_measured: Option<f64>,
    /// The part of it in which multiprocessors worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kilowatt_hours: Option<f64>,
}
