//! How services follow demand, as answers say it.

use super::{
    Problem,
    call::Call,
    documents::time,
    leases::{self, seen},
};
use crate::message::Command;
use axum::response::Response;
use gpuwise_broker::{Broker, Lease, Scaling, lease_id, scale_reason};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{
    ReplicaAnswer, ResidentAnswer, ScaleDecisionAnswer, ScalePolicy, ScaledDocument, ScalingAnswer,
};

/// Lets a service follow demand by another policy.
pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let policy: ScalePolicy = call.document()?;
    let (number, tenant) = {
        let broker = call.shared.broker();
        let lease = seen(&call, &broker)?;
        (lease.number, lease.ask.tenant.clone())
    };
    let command = Command::SetScaling(number, Box::new(policy));
    let origin = call.origin(lease_id(number), Some(&tenant))?;
    call.shared.ask_for(origin, command).await?;
    leases::show(call).await
}

/// Of the service of a lease; `None`: it does not follow demand.
pub(super) fn answer(broker: &Broker, lease: &Lease) -> Option<ScalingAnswer> {
    let (service, scaling) = broker.scaling_of(lease)?;
    let last = scaling.last();
    let role = scaling.replicas().find(|(one, _)| *one == lease.number);
    Some(ScalingAnswer {
        service: lease_id(service),
        role: role.map_or("leaving", |(_, role)| role.name()).to_owned(),
        replicas: last.map_or(1, |last| last.replicas),
        warm: last.map_or(0, |last| last.warm),
        because: last.map_or_else(|| "min".into(), |last| last.because.clone()),
        reason: last.map_or_else(|| "it was not looked at yet".into(), scale_reason),
        seen: last.map(|last| last.seen.clone()),
        members: members(broker, scaling),
        decisions: scaling.changes().rev().map(decision).collect(),
        return_p99: return_p99(broker, scaling),
        weights: weights(broker, lease),
        starts: broker.starts_of(lease),
    })
}

/// Nodes in whose memory the weights of what a lease serves lie, or are put.
fn weights(broker: &Broker, lease: &Lease) -> Vec<ResidentAnswer> {
    let model = lease.ask.service.as_ref().map(|one| one.model.as_str());
    let own = broker
        .residents()
        .filter(|(_, tenant, name, _)| *tenant == lease.ask.tenant && Some(*name) == model);
    own.map(|(node, tenant, model, one)| {
        let node = broker.world().node(node);
        ResidentAnswer {
            node: node.map_or_else(String::new, |state| state.node.name.clone()),
            tenant: tenant.to_owned(),
            model: model.to_owned(),
            bytes: one.bytes,
            state: if one.there { "there" } else { "loading" }.to_owned(),
            since: time(one.since),
            reason: one.reason.clone(),
        }
    })
    .collect()
}

fn members(broker: &Broker, scaling: &Scaling) -> Vec<ReplicaAnswer> {
    let each = scaling.replicas().filter_map(|(number, role)| {
        let lease = broker.lease(number)?;
        Some(ReplicaAnswer {
            lease: lease.id(),
            role: role.name().to_owned(),
            state: broker.state(lease).0.name().to_owned(),
        })
    });
    each.collect()
}

fn return_p99(broker: &Broker, scaling: &Scaling) -> Option<f64> {
    let all = scaling
        .replicas()
        .filter_map(|(number, _)| broker.lease(number));
    let times: Vec<Nanoseconds> = all
        .flat_map(|lease| lease.returned.iter().copied())
        .collect();
    Lease::p99(&times).map(|time| time.seconds().get())
}

fn decision((at, look): &(Nanoseconds, ScaledDocument)) -> ScaleDecisionAnswer {
    let step = |step: &gpuwise_wire::broker::ScaleStep| {
        format!("{} {}", step.what.name(), lease_id(step.lease))
    };
    ScaleDecisionAnswer {
        at: time(*at),
        replicas: look.replicas,
        warm: look.warm,
        because: look.because.clone(),
        reason: scale_reason(look),
        steps: look.steps.iter().map(step).collect(),
        refused: look.refused.clone(),
        grant: look.grant.clone(),
    }
}

/// Why a lease of a service is what it is, in words.
pub(super) fn words(broker: &Broker, lease: &Lease) -> Option<String> {
    let answer = answer(broker, lease)?;
    let what = match answer.role.as_str() {
        "warm" => "it is warm, and wakes when it is needed",
        "leaving" => "it ends once it has answered what it has",
        _ => "it serves",
    };
    let of = if answer.service == lease.id() {
        String::new()
    } else {
        format!(" as a replica of {}", answer.service)
    };
    Some(format!("{what}{of}: {}", answer.reason))
}
