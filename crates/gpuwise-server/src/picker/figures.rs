//! What a picker did, as Prometheus reads it.

use super::{Picked, exchange::Refused, pool::Pool};
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
    pub(super) fn text(&self, pool: Option<&Pool>) -> String {
        let shown = pool.map(Pool::shown).unwrap_or_default();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.is_some() {
            let there = |address: &String| shown.iter().any(|one| one.address == *address);
            counts.picked.retain(|address, _| there(address));
        }
        let mut out = String::new();
        head(
            &mut out,
            "gpuwise_epp_picks_total",
            "counter",
            "Requests sent to an endpoint.",
        );
        for (endpoint, count) in &counts.picked {
            let _ = writeln!(
                out,
                "gpuwise_epp_picks_total{{endpoint=\"{endpoint}\"}} {count}"
            );
        }
        head(
            &mut out,
            "gpuwise_epp_refused_total",
            "counter",
            "Requests for which no endpoint was picked.",
        );
        for (reason, count) in &counts.refused {
            let _ = writeln!(
                out,
                "gpuwise_epp_refused_total{{reason=\"{reason}\"}} {count}"
            );
        }
        head(
            &mut out,
            "gpuwise_epp_pick_duration_seconds",
            "histogram",
            "Time to pick an endpoint.",
        );
        let name = "gpuwise_epp_pick_duration_seconds";
        for (count, end) in counts.took.iter().zip(ENDS) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{end}\"}} {count}");
        }
        let (count, seconds) = (counts.count, counts.seconds);
        let _ = writeln!(
            out,
            "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {seconds}\n{name}_count {count}"
        );
        if pool.is_some() {
            head(
                &mut out,
                "gpuwise_epp_endpoint_up",
                "gauge",
                "Whether an endpoint answers.",
            );
            for one in &shown {
                let _ = writeln!(
                    out,
                    "gpuwise_epp_endpoint_up{{endpoint=\"{}\"}} {}",
                    one.address,
                    u8::from(one.open)
                );
            }
            head(
                &mut out,
                "gpuwise_epp_endpoint_requests",
                "gauge",
                "Requests under way at an endpoint.",
            );
            for one in &shown {
                let _ = writeln!(
                    out,
                    "gpuwise_epp_endpoint_requests{{endpoint=\"{}\"}} {}",
                    one.address, one.requests
                );
            }
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
