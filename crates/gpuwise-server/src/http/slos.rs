//! SLOs: set, shown, written as rules for Prometheus.

use super::{Problem, call::Call, json, rules::rules_of};
use crate::message::{Answer, Command};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gpuwise_account::{
    period::HOUR,
    slo::{CountedEvents, Rule, Severity},
};
use gpuwise_broker::{Broker, Refusal, Slo, exact, lease_id};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{
    BurnAnswer, IndicatorDocument, ObjectiveAnswer, ObjectiveDocument, SloAnswer, SloAsk,
    SloCostAnswer, SloCostList, SloList,
};
use std::sync::Arc;

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let now = call.now();
    let seen = broker.slos().filter(|slo| call.sees(&slo.document.tenant));
    let list = SloList {
        items: seen.map(|slo| answer(&broker, slo, now)).collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let ask: SloAsk = call.document()?;
    let (tenant, _) = call.shared.broker().target(&ask.target)?;
    if !call.sees(&tenant) {
        return Err(Refusal::NoSuchTenant(ask.target).into());
    }
    let shared = Arc::clone(&call.shared);
    let objectives = shared.desk.slo(&ask)?;
    match shared.ask(Command::SetSlo(ask.target, objectives)).await? {
        Answer::Slo(number) => answered(&call, number),
        _ => Err(Problem::not_found("nothing was set")),
    }
}

fn answered(call: &Call, number: u32) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let slo = broker
        .slo(number)
        .filter(|slo| call.sees(&slo.document.tenant));
    let slo = slo.ok_or_else(|| Refusal::NoSuchSlo(format!("S-{number}")))?;
    Ok(json(StatusCode::OK, &answer(&broker, slo, call.now())))
}

/// The SLO of the path, where whoever asks may see it.
fn number(call: &Call) -> Result<u32, Problem> {
    let id = call.parameter("slo");
    let number = id.strip_prefix("S-").unwrap_or(id).parse().ok();
    let broker = call.shared.broker();
    let known = number.and_then(|number| broker.slo(number));
    let known = known.filter(|slo| call.sees(&slo.document.tenant));
    let known = known.ok_or_else(|| Refusal::NoSuchSlo(id.to_owned()))?;
    Ok(known.document.number)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    answered(&call, number(&call)?)
}

pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    let number = number(&call)?;
    call.shared.ask(Command::RemoveSlo(number)).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

pub(crate) async fn rules(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = broker.slos().filter(|slo| call.sees(&slo.document.tenant));
    let text = rules_of(seen);
    let form = [(header::CONTENT_TYPE, "application/yaml")];
    Ok((form, text).into_response())
}

pub(crate) fn answer(broker: &Broker, slo: &Slo, now: Nanoseconds) -> SloAnswer {
    let each = broker.counted(slo, now);
    SloAnswer {
        id: slo.id(),
        tenant: slo.document.tenant.clone(),
        lease: slo.document.lease.map(lease_id),
        objectives: each
            .map(|(one, counted)| objective(one, counted, now))
            .collect(),
    }
}

fn objective(
    objective: &ObjectiveDocument,
    counted: CountedEvents<'_>,
    now: Nanoseconds,
) -> ObjectiveAnswer {
    let budget = counted.error_budget(now);
    let burn = Rule::ALL.into_iter().map(|rule| BurnAnswer {
        window: rule.name().into(),
        long: counted.burn_rate(now, rule.long()).as_f64(),
        short: counted.burn_rate(now, rule.short()).as_f64(),
        limit: rule.tenths() as f64 / 10.0,
    });
    let alerts = counted.alerts(now);
    let worst = alerts.iter().map(|alert| alert.rule.severity()).min();
    ObjectiveAnswer {
        indicator: objective.indicator.word().into(),
        target: target(&objective.indicator),
        objective: f64::from(objective.good_ppm) / 1e6,
        events: budget.events,
        bad: budget.bad,
        good: (budget.events > 0).then(|| 1.0 - budget.bad as f64 / budget.events as f64),
        budget_left: budget.left.as_f64(),
        burn: burn.collect(),
        alert: worst.map_or("ok", Severity::name).into(),
    }
}

/// What raised demands cost whom: of other tenants' leases only that there is one.
pub(crate) async fn costs(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let now = call.now();
    let seen = |number: u32| {
        let lease = broker.lease(number);
        lease.is_some_and(|lease| call.sees(&lease.ask.tenant))
    };
    let shown = |number: u32| {
        if seen(number) {
            lease_id(number)
        } else {
            "-".to_owned()
        }
    };
    let borne = broker
        .borne(now)
        .filter(|(of, who, _)| seen(*of) || seen(*who));
    let items = borne.map(|(of, who, borne)| SloCostAnswer {
        lease: shown(of),
        bearer: shown(who),
        stops: borne.stops,
        gpu_hours: borne.lost as f64 / 1e3 / HOUR as f64,
        worth: broker.worth(now, who, &borne).map(exact),
        passed: borne.passed,
        waited_s: borne.waited.seconds().get(),
    });
    let items = items.collect();
    Ok(json(StatusCode::OK, &SloCostList { items }))
}

/// What makes an event good, in words.
pub(crate) fn target(indicator: &IndicatorDocument) -> String {
    let within = |nanoseconds: u64| format!("≤ {}", Nanoseconds(nanoseconds));
    match indicator {
        IndicatorDocument::Ttft { within_ns }
        | IndicatorDocument::Tpot { within_ns }
        | IndicatorDocument::TimeToLease { within_ns } => within(*within_ns),
        IndicatorDocument::Goodput => "all latency targets".into(),
        IndicatorDocument::Survival => "lasts as promised".into(),
        IndicatorDocument::Quality {
            metric,
            at_least,
            at_most,
        } => match (at_least, at_most) {
            (Some(bound), _) => format!("{metric} ≥ {bound}"),
            (None, Some(bound)) => format!("{metric} ≤ {bound}"),
            (None, None) => metric.clone(),
        },
    }
}
