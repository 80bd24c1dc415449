//! What happens before a daemon answers: the first event of a new log, the first token.

use super::{ServeError, Settings};
use crate::{clock::Clock, token, writer::entry};
use gpuwise_broker::{Broker, FleetChanges};
use gpuwise_domain::placement::Fleet;
use gpuwise_store::{Epoch, Store};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, FleetChange, LoggedEvent, Role, TokenDocument},
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
    let now = Clock::start(None, settings.speed, settings.clock)?.now();
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

/// A policy that the command line gives replaces that of the log.
pub(super) fn policy_given(
    settings: &Settings,
    store: &Store,
    epoch: Epoch,
    clock: &Clock,
    (ahead, last): (&mut Broker, &mut u64),
) -> Result<(), ServeError> {
    let given = settings.policy.clone().filter(|_| settings.policy_said);
    let Some(policy) = given.filter(|policy| ahead.policy() != policy) else {
        return Ok(());
    };
    let set = BrokerEvent::PolicySet { policy };
    happen(store, epoch, clock, set, (ahead, last))
}

/// A fleet file that the command line names changes the fleet of the log; what it changes, and what it cannot.
pub(super) fn fleet_given(
    file: &Fleet,
    is_new: bool,
    (store, epoch, clock): (&Store, Epoch, &Clock),
    (ahead, last): (&mut Broker, &mut u64),
) -> Result<Vec<FleetChange>, ServeError> {
    let followed = if is_new {
        FleetChanges {
            events: ahead.first_filed(file).into_iter().collect(),
            changes: Vec::new(),
        }
    } else {
        if let Some(problem) = file.problem() {
            return Err(ServeError::Fleet(problem));
        }
        ahead.fleet_file(clock.now(), file)
    };
    // All of it or nothing: a node that is to be another one leaves and joins.
    let at_ns = clock.now().0;
    let mut entries = Vec::new();
    for event in followed.events {
        let logged = LoggedEvent { at_ns, event };
        ahead.apply(&logged)?;
        *last += 1;
        entries.push(entry(*last, &logged));
    }
    if !entries.is_empty() {
        store.append(epoch, &entries)?;
    }
    Ok(followed.changes)
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
