//! Metrics, in Prometheus's text form. None names a tenant: they are for anybody.

use super::{Problem, call::Call};
use crate::gateway::{ENDS, Tally};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gpuwise_account::slo::CountedEvents;
use gpuwise_broker::{Broker, LeaseState, ReplicaRole};
use gpuwise_sched::report::{fleet_figures, typical};
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
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

/// How asking a monitoring system goes: until when it was read, in seconds since 1970, and how often it did
/// not answer.
#[derive(Debug, Default)]
pub(crate) struct Monitored {
    pub(crate) until: AtomicU64,
    pub(crate) failures: AtomicU64,
}

fn monitored(call: &Call, family: &mut impl FnMut(&str, &str, &str, &[(String, String)])) {
    if call.shared.desk.monitor().is_none() {
        return;
    }
    let monitored = &call.shared.monitored;
    let one = |value: &AtomicU64| [(String::new(), value.load(Ordering::Relaxed).to_string())];
    family(
        "gpuwise_prometheus_read_until_seconds",
        "gauge",
        "Until when Prometheus was read, in seconds since 1970.",
        &one(&monitored.until),
    );
    family(
        "gpuwise_prometheus_failures_total",
        "counter",
        "How often Prometheus did not answer; what it holds is read later.",
        &one(&monitored.failures),
    );
}

/// Events of SLOs, by their numbers alone.
fn slos(
    broker: &Broker,
    now: Nanoseconds,
    family: &mut impl FnMut(&str, &str, &str, &[(String, String)]),
) {
    let rows = |of: fn(&CountedEvents<'_>) -> u64| {
        let mut rows = Vec::new();
        for slo in broker.slos() {
            for (place, (objective, counted)) in broker.counted(slo, now).enumerate() {
                let labels = format!(
                    "{{slo=\"{}\",objective=\"{place}\",indicator=\"{}\"}}",
                    slo.id(),
                    objective.indicator.word()
                );
                rows.push((labels, of(&counted).to_string()));
            }
        }
        rows
    };
    let all = rows(|counted| counted.told().1);
    if all.is_empty() {
        return;
    }
    let help = "Events that SLOs are about, by SLO and objective.";
    family("gpuwise_slo_events_total", "counter", help, &all);
    let help = "Of them: those that were good.";
    let good = rows(|counted| counted.told().0);
    family("gpuwise_slo_good_total", "counter", help, &good);
    let help =
        "Events beside them that are bad already, such as leases that wait longer than promised.";
    let late = rows(|counted| counted.late());
    family("gpuwise_slo_late", "gauge", help, &late);
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
    connections(&call, &mut family);
    traces(&call, &mut family);
    monitored(&call, &mut family);
    through_the_gateway(&call, &mut family);
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
    slos(&broker, call.now(), &mut family);
    let rows = replicas(&broker);
    if !rows.is_empty() {
        let help =
            "Replicas of services that follow demand, by what they are for; wanted: as decided.";
        family("gpuwise_service_replicas", "gauge", help, &rows);
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
    family(
        "gpuwise_grants_not_charged",
        "gauge",
        "Leases and GPUs of which something else was granted than is charged; anything but 0 is an error of gpuwise.",
        &one(call.shared.unconserved.get().to_string()),
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

/// Replicas of services that follow demand.
fn replicas(broker: &Broker) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (service, scaling) in broker.scaled() {
        let mut row = |role: &str, count: u32| {
            let labels = format!("{{service=\"L-{service}\",role=\"{role}\"}}");
            rows.push((labels, count.to_string()));
        };
        for role in ReplicaRole::ALL {
            let own = scaling.replicas().filter(|(_, one)| *one == role);
            row(role.name(), u32::try_from(own.count()).unwrap_or(u32::MAX));
        }
        if let Some(wanted) = scaling.wanted() {
            row("wanted serving", wanted.replicas);
            row("wanted warm", wanted.warm);
        }
    }
    rows
}

/// What went through the gateway, of all services together.
fn through_the_gateway(
    call: &Call,
    family: &mut impl FnMut(&str, &str, &str, &[(String, String)]),
) {
    let all = call.shared.traffic.all();
    let sum = |of: fn(&Tally) -> u64| all.values().map(of).sum::<u64>();
    let row = |label: &str, value: &str, count: u64| {
        (format!("{{{label}=\"{value}\"}}"), count.to_string())
    };
    family(
        "gpuwise_gateway_requests_total",
        "counter",
        "Requests that services were asked, by how they ended.",
        &[
            row("result", "ok", sum(|one| one.good)),
            row("result", "failed", sum(|one| one.bad)),
        ],
    );
    family(
        "gpuwise_gateway_requests_in_flight",
        "gauge",
        "Requests that services are answering.",
        &[(String::new(), sum(|one| one.open).to_string())],
    );
    family(
        "gpuwise_gateway_tokens_total",
        "counter",
        "Tokens, as engines counted them; of requests whose engine did not, pieces of answers.",
        &[
            row("kind", "prompt", sum(|one| one.prompt)),
            row("kind", "completion", sum(|one| one.completion)),
        ],
    );
    family(
        "gpuwise_gateway_requests_uncounted_total",
        "counter",
        "Requests whose engine did not say its tokens.",
        &[(String::new(), sum(|one| one.uncounted).to_string())],
    );
    family(
        "gpuwise_gateway_requests_silent_total",
        "counter",
        "Requests that were given up as their engine was silent for too long.",
        &[(String::new(), sum(|one| one.silent).to_string())],
    );
    let (well, unwell) = call.shared.endpoints.well();
    family(
        "gpuwise_gateway_replicas",
        "gauge",
        "Replicas of services, by whether they say that they are well.",
        &[
            row("health", "well", well as u64),
            row("health", "unwell", unwell as u64),
        ],
    );
    let name = "gpuwise_gateway_time_to_first_token_seconds";
    let count = sum(|one| one.ttft.count);
    let seconds: f64 = all.values().map(|one| one.ttft.sum).sum();
    let classes = (0..).zip(ENDS).map(|(class, end): (usize, f64)| {
        let below: u64 = all
            .values()
            .filter_map(|one| one.ttft.counts.get(class))
            .sum();
        (format!("_bucket{{le=\"{end}\"}}"), below.to_string())
    });
    let mut rows: Vec<(String, String)> = classes.collect();
    rows.push(("_bucket{le=\"+Inf\"}".into(), count.to_string()));
    rows.push(("_sum".into(), seconds.to_string()));
    rows.push(("_count".into(), count.to_string()));
    let help = "From when a request came until the first piece of its answer.";
    family(name, "histogram", help, &rows);
}

fn connections(call: &Call, family: &mut impl FnMut(&str, &str, &str, &[(String, String)])) {
    let all = &call.shared.connections;
    family(
        "gpuwise_http_connections",
        "gauge",
        "Connections that are open.",
        &[(String::new(), all.count_open().to_string())],
    );
    let closed = all.closed();
    let closed = closed.map(|(why, count)| (format!("{{why=\"{why}\"}}"), count.to_string()));
    family(
        "gpuwise_http_connections_closed_total",
        "counter",
        "Connections that were refused, made room for others, or were silent for too long.",
        &closed.collect::<Vec<_>>(),
    );
}

fn traces(call: &Call, family: &mut impl FnMut(&str, &str, &str, &[(String, String)])) {
    let (sent, lost) = call.shared.traces.counts();
    let row = |result: &str, count: u64| (format!("{{result=\"{result}\"}}"), count.to_string());
    family(
        "gpuwise_spans_total",
        "counter",
        "Spans of leases, by whether a collector took them.",
        &[row("sent", sent), row("lost", lost)],
    );
}
