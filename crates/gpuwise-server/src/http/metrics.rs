//! Metrics, in Prometheus's text form. None names a tenant: they are for anybody.

use super::{Problem, call::Call};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gpuwise_broker::LeaseState;
use gpuwise_sched::report::{fleet_figures, typical};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

/// Requests by route and status.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Counters {
    pub(crate) fn count(&self, route: &'static str, status: StatusCode) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((route, status.as_u16())).or_default() += 1;
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: &[(String, String)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let counts = call
        .shared
        .counters
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let requests = counts.iter().map(|((route, status), count)| {
        (
            format!("{{route=\"{route}\",status=\"{status}\"}}"),
            count.to_string(),
        )
    });
    family(
        "gpuwise_http_requests_total",
        "counter",
        "Requests answered, by route and status.",
        &requests.collect::<Vec<_>>(),
    );
    let broker = call.shared.broker();
    let leases = LeaseState::ALL
        .into_iter()
        .filter(|state| !state.is_over())
        .map(|state| {
            let of = broker.open().filter(|lease| broker.state(lease).0 == state);
            (
                format!("{{state=\"{}\"}}", state.name()),
                of.count().to_string(),
            )
        });
    family(
        "gpuwise_leases",
        "gauge",
        "Leases that are not over, by state.",
        &leases.collect::<Vec<_>>(),
    );
    let slos = |of: fn((u64, u64)) -> u64| {
        let mut rows = Vec::new();
        for slo in broker.slos() {
            for (place, (objective, tally)) in slo.objectives().enumerate() {
                let labels = format!(
                    "{{slo=\"{}\",objective=\"{place}\",indicator=\"{}\"}}",
                    slo.id(),
                    objective.indicator.word()
                );
                rows.push((labels, of(tally.total()).to_string()));
            }
        }
        rows
    };
    let rows = slos(|(_, all)| all);
    if !rows.is_empty() {
        let help = "Events that SLOs are about, by SLO and objective.";
        family("gpuwise_slo_events_total", "counter", help, &rows);
        let help = "Of them: those that were good.";
        let rows = slos(|(good, _)| good);
        family("gpuwise_slo_good_total", "counter", help, &rows);
    }
    let world = broker.world();
    let figures = fleet_figures(world, &typical(world, 950)).basic;
    let gpus = |milli: u64| format!("{}", milli as f64 / 1000.0);
    let one = |value: String| [(String::new(), value)];
    family(
        "gpuwise_gpus",
        "gauge",
        "GPUs that can be used.",
        &one(gpus(figures.capacity_milli)),
    );
    family(
        "gpuwise_gpus_leased",
        "gauge",
        "GPUs that are held.",
        &one(gpus(figures.allocated_milli)),
    );
    let info = format!(
        "{{version=\"{}\",executor=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        call.shared.executor
    );
    family("gpuwise_info", "gauge", "What runs.", &[(info, "1".into())]);
    let form = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((form, text).into_response())
}
