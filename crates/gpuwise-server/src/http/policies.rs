//! By what the scheduler goes.

use super::{Problem, call::Call, documents::time, tags};
use crate::message::Command;
use axum::response::Response;
use gpuwise_broker::Broker;
use gpuwise_wire::{PolicyFile, broker::PolicyAnswer};

fn answer(broker: &Broker) -> PolicyAnswer {
    let (version, since) = broker.policy_version();
    PolicyAnswer {
        policy: broker.policy().clone(),
        version,
        since: time(since),
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let answer = answer(&call.shared.broker());
    Ok(tags::json(&call, &answer, &tags::of(&answer)))
}

pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let file: PolicyFile = call.document()?;
    let (version, policy, queues) = {
        let broker = call.shared.broker();
        let seen = answer(&broker);
        tags::unchanged(&call, &tags::of(&seen))?;
        let (policy, queues) = call.shared.desk.policy_file(&broker, file)?;
        (seen.version, policy, queues)
    };
    // Where somebody else sets one before the writer comes to it, what was seen is no longer so.
    let seen = call.header("if-match").map(|_| version);
    let origin = call.origin("policy", None)?;
    let command = Command::SetPolicy(Box::new(policy), queues, seen);
    call.shared.ask_for(origin, command).await?;
    show(call).await
}
