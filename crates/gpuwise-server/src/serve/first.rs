//! What happens before a daemon answers: the first event of a new log, the first token.

use super::{ServeError, Settings};
use crate::{clock::Clock, token, writer::entry};
use gpuwise_broker::Broker;
use gpuwise_store::{Epoch, Store};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent, Role, TokenDocument},
    live::{EventDocument, FleetDocument},
};
use std::path::Path;

/// The first event of a new log.
pub(super) fn begin(
    store: &Store,
    epoch: Epoch,
    settings: &Settings,
) -> Result<(Broker, u64), ServeError> {
    let (fleet, present) = settings.fleet.as_ref().ok_or(ServeError::NoFleet)?;
    let now = Clock::new(Nanoseconds(0), 1.0).now();
    let mut fleet = fleet.clone();
    // A fleet file speaks of times from now.
    for kept in &mut fleet.reservations {
        kept.from = Nanoseconds(kept.from.0.saturating_add(now.0));
        kept.until = Nanoseconds(kept.until.0.saturating_add(now.0));
    }
    let first = LoggedEvent {
        at_ns: now.0,
        event: BrokerEvent::Began {
            fleet: FleetDocument::of(&fleet),
            present: present.iter().map(EventDocument::of).collect(),
            policy: settings.policy.clone().ok_or(ServeError::NoFleet)?,
        },
    };
    let broker = Broker::begin(&first)?;
    store.append(epoch, &[entry(1, &first)])?;
    Ok((broker, 1))
}

/// Lets the first administrator in.
pub(super) fn first_token(
    store: &Store,
    epoch: Epoch,
    path: &Path,
    clock: &Clock,
    (broker, last): (&mut Broker, &mut u64),
) -> Result<(), ServeError> {
    let file = |source| ServeError::Token {
        file: path.display().to_string(),
        source,
    };
    let secret = token::draw().map_err(file)?;
    token::keep(path, &secret).map_err(file)?;
    let added = BrokerEvent::TokenAdded {
        token: TokenDocument {
            name: "admin".into(),
            hash: token::hash(&secret),
            role: Role::Administrator,
            tenant: None,
            expires_ns: None,
        },
    };
    happen(store, epoch, clock, added, (broker, last))
}

/// Something that happens while the daemon starts.
pub(super) fn happen(
    store: &Store,
    epoch: Epoch,
    clock: &Clock,
    event: BrokerEvent,
    (broker, last): (&mut Broker, &mut u64),
) -> Result<(), ServeError> {
    let logged = LoggedEvent {
        at_ns: clock.now().0,
        event,
    };
    broker.apply(&logged)?;
    store.append(epoch, &[entry(*last + 1, &logged)])?;
    *last += 1;
    Ok(())
}
