//! Its metrics, by the names of vLLM.

use super::Shared;
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use std::{
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Instant,
};

/// Upper ends of the classes of latencies, in seconds.
const ENDS: [f64; 17] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    30.0,
];

#[derive(Debug, Default)]
struct Histogram {
    counts: [u64; ENDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        for (count, end) in self.counts.iter_mut().zip(ENDS) {
            if seconds <= end {
                *count += 1;
            }
        }
        self.count += 1;
        self.sum += seconds;
    }
}

#[derive(Debug, Default)]
pub(super) struct Metrics {
    waiting: AtomicI64,
    running: AtomicI64,
    prompt: AtomicU64,
    generated: AtomicU64,
    requests: AtomicU64,
    /// Time to first token, time per output token, end to end.
    latencies: Mutex<[Histogram; 3]>,
}

/// Counts as long as it is there.
pub(super) struct Counted<'a>(&'a AtomicI64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    fn counted(gauge: &AtomicI64) -> Counted<'_> {
        gauge.fetch_add(1, Ordering::Relaxed);
        Counted(gauge)
    }

    pub(super) fn waits(&self) -> Counted<'_> {
        Self::counted(&self.waiting)
    }

    pub(super) fn runs(&self) -> Counted<'_> {
        Self::counted(&self.running)
    }

    pub(super) fn prompt(&self, tokens: u64) {
        self.prompt.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(super) fn generated(&self) {
        self.generated.fetch_add(1, Ordering::Relaxed);
    }

    /// A request that arrived and had its first token then has ended now.
    pub(super) fn done(&self, arrived: Instant, first: Instant, tokens: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let [ttft, tpot, whole] = &mut *latencies;
        ttft.add((first - arrived).as_secs_f64());
        if tokens > 1 {
            tpot.add(first.elapsed().as_secs_f64() / (tokens - 1) as f64);
        }
        whole.add(arrived.elapsed().as_secs_f64());
    }
}

pub(super) async fn show(State(engine): Shared) -> Response {
    let metrics = &engine.metrics;
    let label = format!("model_name=\"{}\"", engine.settings.model);
    let mut text = String::new();
    let gauges = [
        (
            "num_requests_running",
            metrics.running.load(Ordering::Relaxed),
        ),
        (
            "num_requests_waiting",
            metrics.waiting.load(Ordering::Relaxed),
        ),
    ];
    for (name, value) in gauges {
        let _ = writeln!(
            text,
            "# TYPE vllm:{name} gauge\nvllm:{name}{{{label}}} {value}"
        );
    }
    let counters = [
        (
            "prompt_tokens_total",
            metrics.prompt.load(Ordering::Relaxed),
        ),
        (
            "generation_tokens_total",
            metrics.generated.load(Ordering::Relaxed),
        ),
        (
            "request_success_total",
            metrics.requests.load(Ordering::Relaxed),
        ),
    ];
    for (name, value) in counters {
        let _ = writeln!(
            text,
            "# TYPE vllm:{name} counter\nvllm:{name}{{{label}}} {value}"
        );
    }
    let latencies = metrics
        .latencies
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let names = [
        "time_to_first_token_seconds",
        "time_per_output_token_seconds",
        "e2e_request_latency_seconds",
    ];
    for (name, histogram) in names.iter().zip(&*latencies) {
        let _ = writeln!(text, "# TYPE vllm:{name} histogram");
        for (end, count) in ENDS.iter().zip(histogram.counts) {
            let _ = writeln!(text, "vllm:{name}_bucket{{{label},le=\"{end}\"}} {count}");
        }
        let (count, sum) = (histogram.count, histogram.sum);
        let _ = writeln!(text, "vllm:{name}_bucket{{{label},le=\"+Inf\"}} {count}");
        let _ = writeln!(
            text,
            "vllm:{name}_sum{{{label}}} {sum}\nvllm:{name}_count{{{label}}} {count}"
        );
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
