//! Right-sizing proposals: listed, decided.

use super::{Problem, call::Call, documents::time, json};
use crate::message::Command;
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Broker, Proposal, Refusal, lease_id};
use gpuwise_wire::broker::{ProposalAnswer, ProposalDecision, ProposalList, ProposalStepAnswer};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = broker
        .proposals()
        .rev()
        .filter(|one| sees(&call, &broker, one));
    let list = ProposalList {
        items: seen.map(|one| answer(&broker, one)).collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

fn sees(call: &Call, broker: &Broker, proposal: &Proposal) -> bool {
    let lease = broker.lease(proposal.document.lease);
    lease.is_some_and(|lease| call.sees(&lease.ask.tenant))
}

/// The proposal of the path, where whoever asks may see it.
fn seen<'b>(call: &Call, broker: &'b Broker) -> Result<&'b Proposal, Problem> {
    let id = call.parameter("proposal");
    let proposal = broker.proposal_of(id)?;
    if sees(call, broker, proposal) {
        Ok(proposal)
    } else {
        Err(Refusal::NoSuchProposal(id.to_owned()).into())
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let proposal = seen(&call, &broker)?;
    Ok(json(StatusCode::OK, &answer(&broker, proposal)))
}

pub(crate) async fn decide(call: Call) -> Result<Response, Problem> {
    let decision: ProposalDecision = call.document()?;
    let id = seen(&call, &call.shared.broker())?.id();
    let accepted = match decision.decision.as_str() {
        "accept" => true,
        "reject" => false,
        other => {
            let what = format!("{other:?}: expected accept or reject");
            return Err(Problem::invalid("decision", what));
        }
    };
    let said = decision.reason.unwrap_or_default();
    let by = call.who().unwrap_or_default();
    let reason = match (accepted, said.is_empty()) {
        (true, true) => format!("accepted by {by}"),
        (false, true) => format!("rejected by {by}"),
        (true, false) => format!("accepted by {by}: {said}"),
        (false, false) => format!("rejected by {by}: {said}"),
    };
    let command = Command::DecideProposal(id, accepted, reason);
    call.shared.ask(command).await?;
    let broker = call.shared.broker();
    let proposal = seen(&call, &broker)?;
    Ok(json(StatusCode::OK, &answer(&broker, proposal)))
}

pub(crate) fn answer(broker: &Broker, proposal: &Proposal) -> ProposalAnswer {
    let document = &proposal.document;
    let lease = broker.lease(document.lease);
    let before = lease.and_then(|lease| lease.size.as_ref());
    let (since, _, reason) = proposal.steps.last().cloned().unwrap_or_else(|| {
        let why = document.reason.clone();
        (proposal.made, proposal.state, why)
    });
    ProposalAnswer {
        id: proposal.id(),
        tenant: lease
            .map(|lease| lease.ask.tenant.clone())
            .unwrap_or_default(),
        lease: lease_id(document.lease),
        state: proposal.state,
        since: time(since),
        made_at: time(proposal.made),
        reason,
        because: document.reason.clone(),
        before: before.map_or_else(String::new, |size| size.deployment.clone()),
        after: document.size.deployment.clone(),
        saving: document.saving.clone(),
        saved: proposal.saved.clone(),
        successor: proposal.successor.map(lease_id),
        steps: proposal
            .steps
            .iter()
            .map(|(at, state, reason)| ProposalStepAnswer {
                at: time(*at),
                state: *state,
                reason: reason.clone(),
            })
            .collect(),
    }
}
