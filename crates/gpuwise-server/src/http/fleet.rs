//! The fleet, and how it changes.

use super::{Problem, call::Call, documents, json};
use crate::message::{Answer, Command};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::Refusal;
use gpuwise_domain::placement::{Fleet, GpuKind};
use gpuwise_wire::{
    Mirror as _,
    broker::{FleetChangeList, NodeAsk},
    live::FleetDocument,
};

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let document = documents::fleet(&broker, call.now(), |tenant| call.sees(tenant));
    Ok(json(StatusCode::OK, &document))
}

fn asked(call: &Call) -> Result<Fleet, Problem> {
    let file: FleetDocument = call.document()?;
    let file = file.noun();
    match file.problem() {
        Some(problem) => Err(Problem::invalid("fleet", problem)),
        None => Ok(file),
    }
}

/// What would be otherwise if the fleet were as a file says.
pub(crate) async fn compare(call: Call) -> Result<Response, Problem> {
    let file = asked(&call)?;
    let items = call.shared.broker().fleet_file(call.now(), &file).changes;
    let list = FleetChangeList {
        applied: false,
        items,
    };
    Ok(json(StatusCode::OK, &list))
}

/// The fleet is as a file says from now on, but for what is refused.
pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let command = Command::FleetFile(Box::new(asked(&call)?));
    changed(call, command, StatusCode::OK).await
}

pub(crate) async fn add(call: Call) -> Result<Response, Problem> {
    let mut file = asked(&call)?;
    let known = GpuKind::names(call.shared.broker().world().kinds())
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    for kind in &mut file.kinds {
        // Prices are administrators'; facts of a GPU are the catalogue's or the fleet's, whichever operator adds the node.
        if known.contains(&kind.name) {
            kind.price = None;
            continue;
        }
        let of_catalogue = call.shared.desk.gpu_kind(&kind.name);
        let Some(of_catalogue) = of_catalogue else {
            let what = format!(
                "neither the fleet nor the catalogue has GPU {:?}: a fleet file describes it ([[gpu_kind]]), and \
                 `gpuwise node reload` takes it over",
                kind.name
            );
            return Err(Problem::invalid("kinds", what));
        };
        *kind = GpuKind {
            features: std::mem::take(&mut kind.features),
            price: None,
            ..of_catalogue
        };
    }
    let command = Command::AddNodes(Box::new(file));
    changed(call, command, StatusCode::CREATED).await
}

async fn changed(call: Call, command: Command, status: StatusCode) -> Result<Response, Problem> {
    let origin = call.origin("fleet", None)?;
    let items = match call.shared.ask_for(origin, command).await? {
        Answer::Fleet(items) => items,
        // It was asked for under this key before.
        _ => Vec::new(),
    };
    let list = FleetChangeList {
        applied: true,
        items,
    };
    Ok(json(status, &list))
}

pub(crate) async fn tell(call: Call) -> Result<Response, Problem> {
    let ask: NodeAsk = call.document()?;
    let node = call.parameter("node").to_owned();
    let origin = call.origin(format!("{}: {node}", ask.verb.name()), None)?;
    let command = Command::Node {
        node: node.clone(),
        verb: ask.verb,
        end: ask.end,
        by: call.who().unwrap_or_default(),
    };
    call.shared.ask_for(origin, command).await?;
    let broker = call.shared.broker();
    let fleet = documents::fleet(&broker, call.now(), |tenant| call.sees(tenant));
    let found = fleet.nodes.into_iter().find(|one| one.name == node);
    let found = found.ok_or(Refusal::NoSuchNode(node))?;
    Ok(json(StatusCode::OK, &found))
}

pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    let node = call.parameter("node").to_owned();
    let origin = call.origin(&*node, None)?;
    let command = Command::RemoveNode(node);
    call.shared.ask_for(origin, command).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
