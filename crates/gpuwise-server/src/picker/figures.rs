//! What a picker did, as Prometheus reads it.

use super::{
    Picked,
    admission::Admission,
    exchange::Refused,
    kv::{Followed, Index},
    pool::Pool,
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Upper ends of the classes of times to pick, in seconds.
const ENDS: [f64; 8] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.05, 1.0,
];

const PREFIX: &str = "gpuwise_epp";

#[derive(Debug, Default)]
pub(super) struct Figures(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    picked: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    took: [u64; ENDS.len()],
    count: u64,
    seconds: f64,
}

impl Figures {
    pub(super) fn picked(&self, picked: &Result<Picked, Refused>, took: Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match picked {
            Ok(picked) => {
                let first = picked.endpoints.first().cloned().unwrap_or_default();
                *counts.picked.entry(first).or_default() += 1;
            }
            Err(refused) => *counts.refused.entry(refused.code.clone()).or_default() += 1,
        }
        let seconds = took.as_secs_f64();
        for (count, end) in counts.took.iter_mut().zip(ENDS) {
            *count += u64::from(seconds <= end);
        }
        counts.count += 1;
        counts.seconds += seconds;
    }

    /// As text; of endpoints that are gone nothing is said.
    pub(super) fn text(&self, pool: &Pool, admission: &Admission) -> String {
        let shown = pool.shown();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = |address: &String| shown.iter().any(|one| one.address == *address);
        counts.picked.retain(|address, _| there(address));
        let mut out = Page::default();
        let picks = counts
            .picked
            .iter()
            .map(|(name, count)| (name.as_str(), *count));
        out.counter(
            "picks_total",
            "Requests sent to an endpoint.",
            "endpoint",
            picks,
        );
        let refused = counts
            .refused
            .iter()
            .map(|(name, count)| (name.as_str(), *count));
        let about = "Requests for which no endpoint was picked.";
        out.counter("refused_total", about, "reason", refused);
        out.duration(&counts);
        let waiting: Vec<(String, usize)> = admission
            .waiting()
            .into_iter()
            .map(|(priority, count)| (priority.to_string(), count))
            .collect();
        let waiting = waiting
            .iter()
            .map(|(priority, count)| (priority.as_str(), *count as u64));
        let about = "Requests that wait for an endpoint, by priority.";
        out.gauge("waiting", about, "priority", waiting);
        out.objectives(&admission.objectives().all());
        let up = shown
            .iter()
            .map(|one| (one.address.as_str(), u64::from(one.open)));
        out.gauge(
            "endpoint_up",
            "Whether an endpoint answers.",
            "endpoint",
            up,
        );
        let requests = shown
            .iter()
            .map(|one| (one.address.as_str(), u64::from(one.requests)));
        let about = "Requests under way at an endpoint.";
        out.gauge("endpoint_requests", about, "endpoint", requests);
        if let Some(index) = pool.index() {
            out.cached(index);
        }
        out.0
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family<'a>(
        &mut self,
        [name, kind, help, label]: [&str; 4],
        samples: impl Iterator<Item = (&'a str, u64)>,
    ) {
        let _ = writeln!(
            self.0,
            "# HELP {PREFIX}_{name} {help}\n# TYPE {PREFIX}_{name} {kind}"
        );
        for (of, value) in samples {
            let _ = writeln!(self.0, "{PREFIX}_{name}{{{label}=\"{of}\"}} {value}");
        }
    }

    fn counter<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (&'a str, u64)>,
    ) {
        self.family([name, "counter", help, label], samples);
    }

    fn gauge<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (&'a str, u64)>,
    ) {
        self.family([name, "gauge", help, label], samples);
    }

    fn duration(&mut self, counts: &Counts) {
        let name = "pick_duration_seconds";
        let help = "Time to pick an endpoint, with what a request waited for it.";
        self.family([name, "histogram", help, ""], std::iter::empty());
        for (count, end) in counts.took.iter().zip(ENDS) {
            let _ = writeln!(self.0, "{PREFIX}_{name}_bucket{{le=\"{end}\"}} {count}");
        }
        let (count, seconds) = (counts.count, counts.seconds);
        let _ = writeln!(
            self.0,
            "{PREFIX}_{name}_bucket{{le=\"+Inf\"}} {count}\n{PREFIX}_{name}_sum {seconds}\n{PREFIX}_{name}_count {count}"
        );
    }

    fn objectives(&mut self, all: &BTreeMap<String, i64>) {
        let name = "objective_priority";
        let about = "Priority of an InferenceObjective.";
        self.family([name, "gauge", about, ""], std::iter::empty());
        for (objective, priority) in all {
            // A name of a flag may be any text.
            let objective = objective.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(
                self.0,
                "{PREFIX}_{name}{{objective=\"{objective}\"}} {priority}"
            );
        }
    }

    /// What engines say of their caches.
    fn cached(&mut self, index: &Index) {
        let all = index.shown();
        let of = |value: fn(&Followed) -> u64| {
            let value =
                move |(address, shown): &'_ (String, Followed)| (address.clone(), value(shown));
            all.iter().map(value).collect::<Vec<_>>()
        };
        let about = "Whether events of an endpoint's KV cache come.";
        self.of_endpoints(
            "kv_events_up",
            "gauge",
            about,
            &of(|one| u64::from(one.follows)),
        );
        let about = "Blocks that an endpoint says it has cached.";
        self.of_endpoints("kv_blocks", "gauge", about, &of(|one| one.blocks as u64));
        let about = "Times that events were missed and could not be had again.";
        self.of_endpoints(
            "kv_events_lost_total",
            "counter",
            about,
            &of(|one| one.lost),
        );
        let about = "Events that could not be read.";
        self.of_endpoints(
            "kv_events_malformed_total",
            "counter",
            about,
            &of(|one| one.malformed),
        );
        let _ = writeln!(
            self.0,
            "# HELP {PREFIX}_kv_texts Pieces of prompts whose tokens are known.\n# TYPE {PREFIX}_kv_texts gauge\n{PREFIX}_kv_texts {}",
            index.texts()
        );
    }

    fn of_endpoints(&mut self, name: &str, kind: &str, help: &str, all: &[(String, u64)]) {
        let samples = all
            .iter()
            .map(|(address, value)| (address.as_str(), *value));
        self.family([name, kind, help, "endpoint"], samples);
    }
}
