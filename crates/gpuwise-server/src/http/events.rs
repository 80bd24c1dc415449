//! Events as they happen: server-sent, from any one on.

use super::{Problem, call::Call};
use crate::replay::event;
use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event, KeepAlive},
};
use gpuwise_store::{LogEntry, Store, StoreError};
use gpuwise_wire::broker::BrokerEvent;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{Semaphore, broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Events read from the log at a time.
const PAGE: u32 = 500;

/// Events on their way to one follower.
const WAY: usize = 64;

/// A follower's token is looked at before each event, and again after so long without any.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn follow(call: Call) -> Result<Response, Problem> {
    let after = call.header("last-event-id").or_else(|| call.query("after"));
    let after = after
        .map(|text| {
            let what = format!("{text:?}: expected the number of an event");
            text.parse::<u64>()
                .map_err(|_| Problem::invalid("after", what))
        })
        .transpose()?;
    let counted = call.shared.streams.open(call.tenant())?;
    let (sender, receiver) = mpsc::channel::<Result<Event, Infallible>>(WAY);
    tokio::spawn(async move {
        let _counted = counted;
        let call = Arc::new(call);
        // Whoever followed is gone, or the daemon stops.
        let _ = send(&call, after, &sender).await;
    });
    let stream = Sse::new(ReceiverStream::new(receiver));
    Ok(stream.keep_alive(KeepAlive::default()).into_response())
}

type Sender = mpsc::Sender<Result<Event, Infallible>>;

/// `None`: nobody listens any more, or nothing more comes.
async fn send(call: &Arc<Call>, after: Option<u64>, sender: &Sender) -> Option<()> {
    let mut live = call.shared.followers.subscribe();
    let mut closing = call.shared.closing.clone();
    let mut last = match after {
        Some(after) => behind(call, after, sender).await?,
        None => 0,
    };
    let mut allowed = tokio::time::interval(ASKED_AGAIN);
    loop {
        let heard = tokio::select! {
            heard = live.recv() => heard,
            // Where nothing happens a stream ends with its token, too.
            _ = allowed.tick() => {
                if call.is_still_allowed() {
                    continue;
                }
                return None;
            }
            _ = closing.wait_for(|closing| *closing) => return None,
            () = sender.closed() => return None,
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

/// Reads pages of the log for streams that are behind: one page at a time for all of them, each in its turn, so that
/// late readers take one thread and leave the others to requests.
#[derive(Debug, Clone)]
pub(crate) struct LateReads(Arc<Semaphore>);

impl Default for LateReads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// Sends what is in the log after an event, and says which was the last.
async fn behind(call: &Arc<Call>, mut last: u64, sender: &Sender) -> Option<u64> {
    loop {
        if sender.is_closed() {
            return None;
        }
        let turn = Arc::clone(&call.shared.late_reads.0).acquire_owned().await;
        let turn = turn.ok()?;
        let asker = call;
        let call = Arc::clone(call);
        let page = tokio::task::spawn_blocking(move || {
            let page = page(&call, last);
            drop(turn);
            page
        });
        let Some((newest, events)) = page.await.ok()?.ok()? else {
            return Some(last);
        };
        last = newest;
        for event in events {
            if !asker.is_still_allowed() {
                return None;
            }
            sender.send(Ok(event)).await.ok()?;
        }
    }
}

/// The next page of the log after an event: its last event, and those of it that may be seen; `None`: there is none.
fn page(call: &Call, last: u64) -> Result<Option<(u64, Vec<Event>)>, StoreError> {
    let page = Store::open(&call.shared.store)?.events_after(last, PAGE)?;
    let Some(newest) = page.last() else {
        return Ok(None);
    };
    let seen = page.iter().filter(|entry| may_see(call, entry));
    Ok(Some((newest.seq, seen.map(said).collect())))
}

async fn tell(call: &Call, entry: &LogEntry, sender: &Sender) -> Option<()> {
    if !call.is_still_allowed() {
        return None;
    }
    if !may_see(call, entry) {
        return Some(());
    }
    sender.send(Ok(said(entry))).await.ok()
}

fn said(entry: &LogEntry) -> Event {
    let data = format!("{{\"at_ns\":{},\"event\":{}}}", entry.at_ns, entry.body);
    Event::default()
        .id(entry.seq.to_string())
        .event(&entry.kind)
        .data(data)
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
        | BrokerEvent::Halted { lease, .. }
        | BrokerEvent::Resumed { lease }
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
        BrokerEvent::SecretSet { tenant, .. } | BrokerEvent::SecretRemoved { tenant, .. } => {
            return tenant == own;
        }
        BrokerEvent::Asked(asked) => return asked.about.as_deref() == Some(own),
        // A batch of usage may be of several tenants: each asks for its own.
        BrokerEvent::Used { .. }
        | BrokerEvent::SloRemoved { .. }
        | BrokerEvent::PriceSet { .. }
        | BrokerEvent::Held { .. }
        | BrokerEvent::MonthClosed { .. }
        | BrokerEvent::Began { .. }
        | BrokerEvent::WarmKept { .. }
        | BrokerEvent::FleetFiled { .. }
        | BrokerEvent::Cordoned { .. }
        | BrokerEvent::Uncordoned { .. }
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
