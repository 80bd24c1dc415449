//! Usage as CloudEvents 1.0: told by whoever measured, and told on.

use super::{Problem, call::Call, documents::time, json};
use crate::{
    message::{Answer, Command},
    replay::event,
};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use gpuwise_account::period::{HOUR, Interval};
use gpuwise_broker::{Lease, Refusal, lease_id};
use gpuwise_store::{Store, StoreError};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{
    BrokerEvent, GpuUse, LatencyHistogram, LeaseUsageAnswer, LoggedEvent, USAGE_TYPE, UsageData,
    UsageDocument, UsageEvent,
};
use serde_json::Value;
use std::collections::BTreeSet;
use tokio::sync::Semaphore;

/// Events of a batch at most.
const BATCH: usize = 10_000;

pub(crate) async fn report(call: Call) -> Result<Response, Problem> {
    // Until it is answered.
    let _counted = call.shared.usage.begin(call.tenant(), call.body.len())?;
    let body: Value = call.value()?;
    let events = match body {
        Value::Array(events) => events,
        one => vec![one],
    };
    if events.len() > BATCH {
        let what = format!("{} events at once: at most {BATCH}", events.len());
        return Err(Problem::invalid("events", what));
    }
    let mut told = Vec::with_capacity(events.len());
    for (place, event) in events.into_iter().enumerate() {
        let read: UsageEvent = serde_path_to_error::deserialize(event).map_err(|error| {
            let field = match error.path().to_string() {
                root if root == "." => format!("[{place}]"),
                path => format!("[{place}].{path}"),
            };
            Problem::invalid(&field, error.inner().to_string())
        })?;
        let wrong =
            |(field, what): (&str, String)| Problem::invalid(&format!("[{place}].{field}"), what);
        told.push(read_event(&call, read).map_err(wrong)?);
    }
    let answer = call.shared.ask(Command::Usage(told)).await?;
    match answer {
        Answer::Usage(answer) => Ok(json(StatusCode::OK, &answer)),
        _ => Err(Problem::not_found("nothing was told")),
    }
}

type Wrong = (&'static str, String);

fn read_event(call: &Call, event: UsageEvent) -> Result<UsageDocument, Wrong> {
    if event.specversion != "1.0" {
        return Err((
            "specversion",
            format!("{:?}: expected 1.0", event.specversion),
        ));
    }
    if event.kind != USAGE_TYPE {
        return Err(("type", format!("{:?}: expected {USAGE_TYPE}", event.kind)));
    }
    for (field, text) in [("id", &event.id), ("source", &event.source)] {
        if text.is_empty() || text.len() > 255 {
            return Err((field, "expected 1 to 255 characters".into()));
        }
    }
    let lease = {
        let broker = call.shared.broker();
        let lease = broker.subject(&event.subject).ok();
        let seen = lease.filter(|lease| call.sees(&lease.ask.tenant));
        seen.map(|lease| lease.number)
    };
    let lease = lease.ok_or_else(|| ("subject", format!("there is no lease {}", event.subject)))?;
    let moment = |field, text: &str| {
        let read: Option<jiff::Timestamp> = text.parse().ok();
        let nanoseconds = read.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
        nanoseconds.ok_or_else(|| {
            let what = format!("{text:?}: expected a time such as 2026-11-26T08:00:00Z");
            (field, what)
        })
    };
    let data = event.data;
    check(&data)?;
    Ok(UsageDocument {
        by: Some(call.who().unwrap_or_default()),
        tenant: call.tenant().map(ToOwned::to_owned),
        source: event.source,
        id: event.id,
        lease,
        start_ns: moment("data.start", &data.start)?,
        end_ns: moment("data.end", &data.end)?,
        gpus: data.gpus,
        service: data.service,
    })
}

fn check(data: &UsageData) -> Result<(), Wrong> {
    let service = &data.service;
    for (field, histogram) in [("data.ttft", &service.ttft), ("data.tpot", &service.tpot)] {
        if let Some(what) = histogram.as_ref().and_then(LatencyHistogram::problem) {
            return Err((field, what.into()));
        }
    }
    let amount = |value: Option<f64>| value.is_none_or(|value| (0.0..=1e15).contains(&value));
    let good = |gpu: &GpuUse| amount(gpu.sm_seconds) && amount(gpu.joules) && !gpu.uid.is_empty();
    if !data.gpus.iter().all(good) {
        return Err(("data.gpus", "expected a uid, and amounts from 0".into()));
    }
    if service.quality.values().any(|value| !value.is_finite()) {
        return Err(("data.quality", "expected numbers".into()));
    }
    if let (Some(good), Some(all)) = (service.good, service.requests)
        && good > all
    {
        return Err(("data.good", format!("{good} of {all} requests")));
    }
    Ok(())
}

/// Usage of the log as CloudEvents.
pub(crate) async fn events(call: Call) -> Result<Response, Problem> {
    let number = |name: &str, usual: u64, most: u64| match call.query(name) {
        None => Ok(usual),
        Some(text) => text
            .parse::<u64>()
            .ok()
            .filter(|number| *number <= most)
            .ok_or_else(|| Problem::invalid(name, format!("{text:?}: expected 0 to {most}"))),
    };
    let after = number("after", 0, u64::MAX)?;
    let limit = number("limit", 1_000, 10_000)?.max(1);
    let address = call.shared.store.clone();
    let limit = u32::try_from(limit).unwrap_or(1_000);
    let unread = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store",
            "the log cannot be read",
        )
    };
    // However many ask, others are answered meanwhile.
    let _turn = READS.acquire().await.map_err(|_| unread())?;
    let page = tokio::task::spawn_blocking(move || recorded(&Store::open(&address)?, after, limit));
    let (page, last) = page.await.map_err(|_| unread())?.map_err(|_| unread())?;
    let broker = call.shared.broker();
    let seen = page.into_iter().filter(|(_, one)| {
        let lease = broker.lease(one.lease);
        lease.is_some_and(|lease| call.sees(&lease.ask.tenant))
    });
    let told: Vec<UsageEvent> = seen.map(|(at, usage)| out(at, usage)).collect();
    drop(broker);
    let mut response = json(StatusCode::OK, &told);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/cloudevents-batch+json"),
    );
    if let Some(last) = last
        && let Ok(next) = HeaderValue::from_str(&format!("</v1/usage?after={last}>; rel=\"next\""))
    {
        headers.insert(header::LINK, next);
    }
    Ok(response)
}

/// Pages of usage that are read at once.
static READS: Semaphore = Semaphore::const_new(2);

/// Records after which a page of usage ends; what was told at once is not divided.
const RECORDS: usize = 2_000;

/// What leases used, and the last event that was looked at.
type Recorded = (Vec<(Nanoseconds, UsageDocument)>, Option<u64>);

/// What events after one tell.
fn recorded(store: &Store, after: u64, limit: u32) -> Result<Recorded, StoreError> {
    /// Events that are read at once: each may be as large as a request.
    const EACH: u32 = 16;
    let (mut found, mut last, mut left) = (Vec::new(), None, limit);
    while left > 0 {
        let page = store.events_after(last.unwrap_or(after), left.min(EACH))?;
        if page.is_empty() {
            break;
        }
        for entry in &page {
            last = Some(entry.seq);
            left -= 1;
            if entry.kind != "used" {
                continue;
            }
            if let Ok(LoggedEvent {
                at_ns,
                event: BrokerEvent::Used { usage },
            }) = event(entry)
            {
                let at = Nanoseconds(at_ns);
                found.extend(usage.into_iter().map(|one| (at, one)));
            }
            if found.len() >= RECORDS {
                return Ok((found, last));
            }
        }
    }
    Ok((found, last))
}

fn out(at: Nanoseconds, usage: UsageDocument) -> UsageEvent {
    UsageEvent {
        specversion: "1.0".into(),
        id: usage.id,
        source: usage.source,
        kind: USAGE_TYPE.into(),
        time: Some(time(at)),
        subject: lease_id(usage.lease),
        datacontenttype: Some("application/json".into()),
        data: UsageData {
            start: precise(usage.start_ns),
            end: precise(usage.end_ns),
            gpus: usage.gpus,
            service: usage.service,
        },
    }
}

/// To the nanosecond, so that what is read back is what was told.
pub(super) fn precise(nanoseconds: u64) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(nanoseconds));
    at.map_or_else(|_| nanoseconds.to_string(), |at| at.to_string())
}

/// The lease of the path, where whoever asks may see it.
fn seen(call: &Call) -> Result<u32, Problem> {
    let id = call.parameter("lease");
    let broker = call.shared.broker();
    let lease = broker.lease_of(id)?;
    if call.sees(&lease.ask.tenant) {
        Ok(lease.number)
    } else {
        Err(Refusal::NoSuchLease(id.to_owned()).into())
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let number = seen(&call)?;
    let last = call.query("last").unwrap_or("24h");
    let last = call.shared.desk.span("last", last)?;
    let broker = call.shared.broker();
    let lease = broker
        .lease(number)
        .ok_or_else(|| Refusal::NoSuchLease(lease_id(number)))?;
    Ok(json(
        StatusCode::OK,
        &usage_of(&broker, lease, call.now(), last),
    ))
}

pub(crate) fn usage_of(
    broker: &gpuwise_broker::Broker,
    lease: &Lease,
    now: Nanoseconds,
    last: Nanoseconds,
) -> LeaseUsageAnswer {
    let end = lease.over.as_ref().map_or(now, |over| over.at);
    // Telemetry is kept by the hour.
    let start = end.0.saturating_sub(last.0) / HOUR * HOUR;
    let start = Nanoseconds(start.max(lease.started.map_or(end.0, |at| at.0 / HOUR * HOUR)));
    let within = Interval::new(start, Nanoseconds(end.0.saturating_add(1)));
    let telemetry = broker.telemetry(lease.number);
    let summed = telemetry.map(|one| one.over(within)).unwrap_or_default();
    let all = &summed.all;
    let begun = start.0.max(lease.started.map_or(end.0, |at| at.0));
    let length = end.0.saturating_sub(begun);
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let seconds = |at: Option<Nanoseconds>| at.map(|at| at.seconds().get());
    LeaseUsageAnswer {
        id: lease.id(),
        from: time(Nanoseconds(begun)),
        to: time(end),
        measured: share(all.measured_ns, length).min(1.0),
        requests: all.requests,
        failed: all.failed,
        prompt_tokens: all.prompt_tokens,
        completion_tokens: all.completion_tokens,
        rate: summed.rate(),
        busiest: summed.busiest,
        ttft_mean: seconds(all.ttft.mean()),
        ttft_p95: seconds(all.ttft.at(950)),
        tpot_mean: seconds(all.tpot.mean()),
        tpot_p95: seconds(all.tpot.at(950)),
        gpus_measured: (all.sm_measured_ns > 0).then(|| {
            // Several parts of one GPU are measured as that GPU.
            let shares = lease.place.iter().flat_map(|one| &one.gpus);
            let gpus: BTreeSet<_> = shares.map(|share| share.gpu).collect();
            share(all.sm_measured_ns, length.saturating_mul(gpus.len() as u64)).min(1.0)
        }),
        // Of what it has: a slice that always works is not idle because the rest of its GPU is not its own.
        busy: (all.sm_measured_ns > 0)
            .then(|| (share(all.sm_ns, all.sm_measured_ns) / broker.share_of(lease)).min(1.0)),
        kilowatt_hours: all.energy_mj.map(|energy| energy as f64 / 3.6e9),
    }
}

pub(crate) async fn deployment(call: Call) -> Result<Response, Problem> {
    let number = seen(&call)?;
    let broker = call.shared.broker();
    let text = broker
        .lease(number)
        .and_then(|lease| lease.deployment.clone());
    drop(broker);
    let Some(text) = text else {
        let what = "its GPUs were named: no model of it was sized";
        return Err(Problem::not_found(what));
    };
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(json(StatusCode::OK, &value))
}
