//! Figures, by the names and with the meaning of `controller-runtime`, and ours beside them.

mod text;

use gpuwise_otlp::{Counts, Queue};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Bounds of times, in seconds.
const BOUNDS: [f64; 19] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

#[derive(Default)]
struct Histogram {
    counts: [u64; BOUNDS.len()],
    all: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        for (count, bound) in self.counts.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        self.all += 1;
        self.sum += seconds;
    }

    fn write(&self, out: &mut String, name: &str, about: &str) {
        let _ = write!(out, "# HELP {name} {about}\n# TYPE {name} histogram\n");
        for (count, bound) in self.counts.iter().zip(BOUNDS) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", self.all);
        let _ = write!(out, "{name}_sum {}\n{name}_count {}\n", self.sum, self.all);
    }
}

#[derive(Default)]
struct Counted {
    looks: Histogram,
    decisions: Histogram,
    gated: Histogram,
    own: Histogram,
    reviews: Histogram,
    writes: Histogram,
    results: BTreeMap<&'static str, u64>,
    requests: BTreeMap<(&'static str, u16), u64>,
    waiting: BTreeMap<&'static str, u64>,
    told: BTreeMap<String, u64>,
    slos: BTreeMap<&'static str, u64>,
    cost: BTreeMap<String, f64>,
    adopted: Histogram,
    woken: Histogram,
    warm: [(&'static str, u64); 4],
    cold: [u64; 2],
    acts: BTreeMap<&'static str, u64>,
    lacking: BTreeMap<&'static str, u64>,
    unread: BTreeMap<&'static str, u64>,
    troubles: BTreeMap<String, u64>,
}

/// What the operator counts.
#[derive(Default)]
pub struct Metrics {
    leads: AtomicBool,
    synced: AtomicBool,
    placed: AtomicU64,
    reviews_gated: AtomicU64,
    certificate_ends: AtomicU64,
    depth: AtomicU64,
    traces: OnceLock<Queue>,
    counted: Mutex<Counted>,
}

impl Metrics {
    fn change(&self, with: impl FnOnce(&mut Counted)) {
        with(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    pub(super) fn synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    pub(super) fn certificate(&self, ends: u64) {
        self.certificate_ends.store(ends, Ordering::Relaxed);
    }

    pub(super) fn depth(&self, waiting: usize) {
        self.depth.store(waiting as u64, Ordering::Relaxed);
    }

    /// Where spans are counted.
    pub(super) fn traced(&self, queue: Queue) {
        let _ = self.traces.set(queue);
    }

    pub(crate) fn reviewed(&self, gated: bool, seconds: f64) {
        self.reviews_gated
            .fetch_add(u64::from(gated), Ordering::Relaxed);
        self.change(|all| all.reviews.add(seconds));
    }

    /// A look is over: how it went and what it took, in seconds.
    pub(super) fn looked(&self, result: &'static str, seconds: f64) {
        self.change(|all| {
            all.looks.add(seconds);
            *all.results.entry(result).or_default() += 1;
        });
    }

    pub(super) fn decided(&self, seconds: f64, waiting: BTreeMap<&'static str, u64>) {
        self.change(|all| {
            all.decisions.add(seconds);
            all.waiting = waiting;
        });
    }

    /// Something was said of a workload: the reason of an event.
    pub(super) fn told(&self, reason: &str) {
        self.change(|all| *all.told.entry(reason.to_owned()).or_default() += 1);
    }

    /// GpuWorkloads by whether their SLOs are kept, and what their pods hold costs an hour, by currency.
    pub(super) fn workloads(&self, slos: BTreeMap<&'static str, u64>, cost: BTreeMap<String, f64>) {
        self.change(|all| (all.slos, all.cost) = (slos, cost));
    }

    /// A warm pod is a replica, so many seconds after it was wanted.
    pub(super) fn adopted(&self, seconds: f64) {
        self.change(|all| all.adopted.add(seconds));
    }

    /// An engine that slept serves, so many seconds after it was asked.
    pub(super) fn woken(&self, seconds: f64) {
        self.change(|all| all.woken.add(seconds));
    }

    /// How many pods are warm, by what is said of them.
    pub(super) fn warm(&self, pods: [(&'static str, u64); 4]) {
        self.change(|all| all.warm = pods);
    }

    /// Replicas start from nothing though pods are kept warm: as those are lent, and as there were no more.
    pub(super) fn cold(&self, lent: u32, none: u32) {
        self.change(|all| {
            all.cold[0] += u64::from(lent);
            all.cold[1] += u64::from(none);
        });
    }

    /// A gate is off: so many seconds after it was put on, and of these until we began to write, where that is
    /// known.
    pub(super) fn placed(&self, gated: Option<f64>, own: Option<f64>) {
        self.placed.fetch_add(1, Ordering::Relaxed);
        self.change(|all| {
            if let Some(seconds) = gated {
                all.gated.add(seconds);
            }
            if let Some(seconds) = own {
                all.own.add(seconds);
            }
        });
    }

    /// Something that disrupts was begun.
    pub(super) fn acted(&self, what: &'static str) {
        self.change(|all| *all.acts.entry(what).or_default() += 1);
    }

    /// Fields that the cluster's definitions do not have, by kind.
    pub(super) fn lacking(&self, fields: BTreeMap<&'static str, u64>) {
        self.change(|all| all.lacking = fields);
    }

    /// Objects of ours that cannot be read, by kind.
    pub(super) fn unread(&self, kind: &'static str, count: u64) {
        self.change(|all| {
            all.unread.insert(kind, count);
        });
    }

    /// Watches that do not go, by what they are of.
    pub(super) fn troubled(&self, troubles: BTreeMap<String, u64>) {
        self.change(|all| all.troubles = troubles);
    }

    /// A write was answered with this status; 0: with none.
    pub(super) fn wrote(&self, method: &'static str, status: u16, seconds: f64) {
        self.change(|all| {
            all.writes.add(seconds);
            *all.requests.entry((method, status)).or_default() += 1;
        });
    }

    /// All of it in the text form of Prometheus.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let number = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let mut one = |name: &str, kind: &str, about: &str, labels: &str, value: u64| {
            let _ = write!(
                out,
                "# HELP {name} {about}\n# TYPE {name} {kind}\n{name}{labels} {value}\n"
            );
        };
        let leads = u64::from(self.leads.load(Ordering::Relaxed));
        let controller = "{controller=\"pods\"}";
        one(
            "leader_election_master_status",
            "gauge",
            "Whether this one leads.",
            "{name=\"gpuwise-operator\"}",
            leads,
        );
        one(
            "controller_runtime_active_workers",
            "gauge",
            "Loops that look.",
            controller,
            leads,
        );
        one(
            "workqueue_depth",
            "gauge",
            "Pods that wait for a decision.",
            "{name=\"pods\"}",
            number(&self.depth),
        );
        one(
            "gpuwise_operator_pods_placed_total",
            "counter",
            "Gates taken off.",
            "",
            number(&self.placed),
        );
        one(
            "gpuwise_operator_reviews_changed_total",
            "counter",
            "Pods that the webhook gated or annotated.",
            "",
            number(&self.reviews_gated),
        );
        one(
            "gpuwise_operator_certificate_end_seconds",
            "gauge",
            "When the webhook's certificate ends, in seconds since 1970; 0: there is none.",
            "",
            number(&self.certificate_ends),
        );
        if let Some(queue) = self.traces.get() {
            out.push_str("# HELP gpuwise_operator_trace_spans_total Spans of traces: taken by the collector, refused by it, dropped as it is too slow.\n# TYPE gpuwise_operator_trace_spans_total counter\n");
            let Counts {
                sent,
                refused,
                dropped,
            } = queue.counts();
            for (result, count) in [("sent", sent), ("refused", refused), ("dropped", dropped)] {
                let _ = writeln!(
                    out,
                    "gpuwise_operator_trace_spans_total{{result=\"{result}\"}} {count}"
                );
            }
        }
        self.counted(&mut out);
        out
    }
}
