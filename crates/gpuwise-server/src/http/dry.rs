//! What would become of a lease.

use super::{Problem, call::Call, documents, images, json, offers::cold, secrets};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Asked, DryRun, NotRun, Refusal, exact};
use gpuwise_units::Money;
use gpuwise_wire::broker::{DryRunAnswer, LeaseAsk, LeaseSize};
use std::sync::Arc;

pub(crate) async fn run(call: Call) -> Result<Response, Problem> {
    let mut ask: LeaseAsk = call.document()?;
    // One that is wrong is said to be so, though nothing is done under it.
    call.key()?;
    if ask.tenant.is_empty() {
        ask.tenant = call.tenant().unwrap_or_default().to_owned();
    }
    if !call.sees(&ask.tenant) {
        return Err(Refusal::NoSuchTenant(ask.tenant).into());
    }
    images::checked(&ask, call.shared.executor, call.shared.takes_images)?;
    secrets::checked(&ask, call.shared.executor)?;
    let service = ask.service.as_ref().map(|service| service.model.clone());
    let cold = service.and_then(|model| cold(&call.shared.broker(), &ask.tenant, &model));
    let (shared, now) = (Arc::clone(&call.shared), call.now());
    let ran = tokio::task::spawn_blocking(move || {
        let broker = shared.broker().slice();
        let sized = shared.desk.lease(&broker, &ask)?;
        let size = sized.size.clone();
        let asked = Asked {
            ask,
            job: sized.job,
            size: sized.size,
            length: sized.length,
            key: None,
            deployment: sized.deployment,
            objectives: sized.objectives,
            in_place_of: None,
        };
        let mut policy = shared.desk.policy(&broker);
        Ok::<_, NotRun>((broker.dry_run(now, asked, &mut policy)?, size, broker))
    });
    let internal = || {
        let what = "it could not be tried: this is an error of gpuwise";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", what)
    };
    let answer = match ran.await.map_err(|_| internal())? {
        Ok((run, size, broker)) => DryRunAnswer {
            cold,
            ..would_be(&call, &broker, &run, size)
        },
        // What cannot be asked at all is an error; what is refused is an answer.
        Err(NotRun::Refused(refusal @ Refusal::Invalid { .. })) => return Err(refusal.into()),
        Err(NotRun::Refused(refusal)) => refused(refusal),
        Err(NotRun::Broken(_)) => return Err(internal()),
    };
    Ok(json(StatusCode::OK, &answer))
}

fn would_be(
    call: &Call,
    broker: &gpuwise_broker::Broker,
    run: &DryRun,
    size: Option<LeaseSize>,
) -> DryRunAnswer {
    let disturbed = run.disturbs.iter().map(|number| {
        let lease = broker.lease(*number);
        let own = lease.filter(|lease| call.sees(&lease.ask.tenant));
        own.map_or_else(|| "-".to_owned(), gpuwise_broker::Lease::id)
    });
    DryRunAnswer {
        admitted: true,
        problem: None,
        state: Some(run.state.name().to_owned()),
        gpus: documents::held(broker.world(), &run.lease.place),
        size,
        reason: Some(run.waits.reason.clone()).filter(|reason| !reason.is_empty()),
        expected_start: run.waits.start.map(documents::time),
        fixes: run.waits.fixes.clone(),
        disturbs: disturbed.collect(),
        costs_at_most: at_most(&run.worst),
        cold: None,
    }
}

/// What it costs at most: the one or the other, where GPUs that it may get have prices in different currencies.
fn at_most(worst: &[Money]) -> Option<String> {
    let each: Vec<String> = worst.iter().copied().map(exact).collect();
    (!each.is_empty()).then(|| each.join(" or "))
}

fn refused(refusal: Refusal) -> DryRunAnswer {
    DryRunAnswer {
        admitted: false,
        problem: Some(Problem::from(refusal).document()),
        state: None,
        gpus: Vec::new(),
        size: None,
        reason: None,
        expected_start: None,
        fixes: Vec::new(),
        disturbs: Vec::new(),
        costs_at_most: None,
        cold: None,
    }
}
