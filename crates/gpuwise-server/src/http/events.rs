//! Events as they happen: server-sent, from any one on.

use super::{Problem, call::Call};
use crate::replay::event;
use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event, KeepAlive},
};
use gpuwise_store::{LogEntry, Store};
use gpuwise_wire::broker::BrokerEvent;
use std::{convert::Infallible, sync::Arc};
use tokio::sync::{broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Events read from the log at a time.
const PAGE: u32 = 1_000;

/// Events on their way to one follower.
const WAY: usize = 64;

pub(crate) async fn follow(call: Call) -> Result<Response, Problem> {
    let after = call.header("last-event-id").or_else(|| call.query("after"));
    let after = after
        .map(|text| {
            let what = format!("{text:?}: expected the number of an event");
            text.parse::<u64>()
                .map_err(|_| Problem::invalid("after", what))
        })
        .transpose()?;
    let (sender, receiver) = mpsc::channel::<Result<Event, Infallible>>(WAY);
    tokio::spawn(async move {
        // Whoever followed is gone, or the daemon stops.
        let _ = send(&call, after, &sender).await;
    });
    let stream = Sse::new(ReceiverStream::new(receiver));
    Ok(stream.keep_alive(KeepAlive::default()).into_response())
}

type Sender = mpsc::Sender<Result<Event, Infallible>>;

/// `None`: nobody listens any more, or nothing more comes.
async fn send(call: &Call, after: Option<u64>, sender: &Sender) -> Option<()> {
    let mut live = call.shared.followers.subscribe();
    let mut closing = call.shared.closing.clone();
    let mut last = match after {
        Some(after) => behind(call, after, sender).await?,
        None => 0,
    };
    loop {
        let heard = tokio::select! {
            heard = live.recv() => heard,
            _ = closing.wait_for(|closing| *closing) => return None,
        };
        match heard {
            Ok(entry) if entry.seq <= last => {}
            Ok(entry) => {
                last = entry.seq;
                tell(call, &entry, sender).await?;
            }
            Err(RecvError::Lagged(_)) => last = behind(call, last, sender).await?,
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Sends what is in the log after an event, and says which was the last.
async fn behind(call: &Call, mut last: u64, sender: &Sender) -> Option<u64> {
    loop {
        let address = call.shared.store.clone();
        let page =
            tokio::task::spawn_blocking(move || Store::open(&address)?.events_after(last, PAGE));
        let page: Vec<LogEntry> = page.await.ok()?.ok()?;
        let Some(newest) = page.last() else {
            return Some(last);
        };
        last = newest.seq;
        for entry in page {
            tell(call, &Arc::new(entry), sender).await?;
        }
    }
}

async fn tell(call: &Call, entry: &Arc<LogEntry>, sender: &Sender) -> Option<()> {
    if !may_see(call, entry) {
        return Some(());
    }
    let data = format!("{{\"at_ns\":{},\"event\":{}}}", entry.at_ns, entry.body);
    let event = Event::default()
        .id(entry.seq.to_string())
        .event(&entry.kind)
        .data(data);
    sender.send(Ok(event)).await.ok()
}

/// A tenant sees events of its leases; who sees all tenants sees all but hashes of tokens.
fn may_see(call: &Call, entry: &LogEntry) -> bool {
    let tokens = entry.kind.starts_with("token_");
    let Some(own) = call.tenant() else {
        return !tokens || call.role() == gpuwise_wire::broker::Role::Administrator;
    };
    let Ok(logged) = event(entry) else {
        return false;
    };
    let lease = match logged.event {
        BrokerEvent::LeaseRequested { ask, .. } => return ask.tenant == own,
        BrokerEvent::Draining { lease, .. }
        | BrokerEvent::Ended { lease, .. }
        | BrokerEvent::Restarting { lease, .. }
        | BrokerEvent::Restarted { lease }
        | BrokerEvent::DemandSet { lease, .. }
        | BrokerEvent::Learned { lease, .. } => lease,
        BrokerEvent::ScaleSet { service, .. } => service,
        BrokerEvent::Scaled { look } => look.service,
        BrokerEvent::Pooled { pool } => return pool.tenant == own,
        BrokerEvent::SloSet { slo } => return slo.tenant == own,
        BrokerEvent::Proposed { proposal } => proposal.lease,
        BrokerEvent::ProposalMoved { proposal, .. } => {
            let broker = call.shared.broker();
            let known = broker.proposal_of(&proposal.to_string());
            match known {
                Ok(known) => known.document.lease,
                Err(_) => return false,
            }
        }
        BrokerEvent::Asked(asked) => return asked.about.as_deref() == Some(own),
        // A batch of usage may be of several tenants: each asks for its own.
        BrokerEvent::Used { .. }
        | BrokerEvent::SloRemoved { .. }
        | BrokerEvent::PriceSet { .. }
        | BrokerEvent::MonthClosed { .. }
        | BrokerEvent::Began { .. }
        | BrokerEvent::PolicySet { .. }
        | BrokerEvent::MonthBegan { .. }
        | BrokerEvent::TenantSet { .. }
        | BrokerEvent::TokenAdded { .. }
        | BrokerEvent::TokenRevoked { .. }
        | BrokerEvent::Planned { .. }
        | BrokerEvent::Fleet { .. } => return false,
    };
    let broker = call.shared.broker();
    broker
        .lease(lease)
        .is_some_and(|lease| lease.ask.tenant == own)
}
