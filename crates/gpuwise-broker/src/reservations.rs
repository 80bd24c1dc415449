//! GPUs that are kept for tenants, from when to when.

use crate::{Broker, Refusal, tenants::is_name};
use gpuwise_domain::placement::{Event, QueueId, Reservation};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{Mirror as _, broker::BrokerEvent, live::EventDocument};

/// GPUs that are to be kept, by the names of things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    pub name: String,
    pub tenant: String,
    pub node: String,
    pub gpus: u32,
    pub from: Nanoseconds,
    pub until: Nanoseconds,
}

impl Broker {
    /// Keeps GPUs of a node for a tenant.
    ///
    /// # Errors
    /// When there is no such tenant or node, the time is over, or the node has too few beside what is kept
    /// already.
    pub fn keep_gpus(&self, at: Nanoseconds, keep: &Keep) -> Result<Vec<BrokerEvent>, Refusal> {
        if !is_name(&keep.name) {
            let problem = format!("{:?} cannot be a name", keep.name);
            return Err(Refusal::invalid("name", problem));
        }
        let kept = self.world.reservations();
        if kept.iter().any(|one| one.name == keep.name) {
            return Err(Refusal::ReservationExists(keep.name.clone()));
        }
        let mut queues = (0..).map(QueueId).zip(self.world.queues());
        let queue = queues.find(|(_, queue)| queue.name == keep.tenant);
        let (queue, _) = queue.ok_or_else(|| Refusal::NoSuchTenant(keep.tenant.clone()))?;
        let mut nodes = self.world.nodes().iter().enumerate();
        let node = nodes.find(|(_, state)| !state.left && state.node.name == keep.node);
        let Some((number, state)) = node else {
            let problem = format!("there is no node {:?}", keep.node);
            return Err(Refusal::invalid("node", problem));
        };
        let node = gpuwise_domain::placement::NodeId(u32::try_from(number).unwrap_or(u32::MAX));
        if keep.until <= keep.from || keep.until <= at {
            return Err(Refusal::invalid(
                "until",
                "expected a moment after `from` and after now",
            ));
        }
        let meets =
            |one: &&Reservation| one.node == node && one.from < keep.until && keep.from < one.until;
        let others: u32 = kept.iter().filter(meets).map(|one| one.gpus).sum();
        let has = u32::try_from(state.gpus.len()).unwrap_or(u32::MAX);
        if keep.gpus == 0 || keep.gpus > has.saturating_sub(others) {
            let problem = format!(
                "{}: expected 1 to {}: node {:?} has {has} GPUs, and {others} are reserved in that time",
                keep.gpus,
                has.saturating_sub(others),
                keep.node
            );
            return Err(Refusal::invalid("gpus", problem));
        }
        let kept = Reservation {
            name: keep.name.clone(),
            queue,
            node,
            gpus: keep.gpus,
            from: keep.from,
            until: keep.until,
        };
        if self.is_unmarked(&kept) {
            let problem = format!(
                "{:?} for exactly 365 days is how earlier releases kept GPUs of warm replicas: choose another name",
                keep.name
            );
            return Err(Refusal::invalid("name", problem));
        }
        Ok(vec![fleet(&Event::Reserved(kept))])
    }

    /// Withdraws a reservation.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn withdraw(&self, name: &str) -> Result<Vec<BrokerEvent>, Refusal> {
        let kept = self.world.reservations();
        if !kept.iter().any(|one| one.name == name) {
            return Err(Refusal::NoSuchReservation(name.into()));
        }
        Ok(vec![ended(name)])
    }

    /// Reservations whose time is over.
    pub(crate) fn reservations_over(&self, now: Nanoseconds) -> impl Iterator<Item = BrokerEvent> {
        let kept = self.world.reservations().iter();
        kept.filter(move |one| one.until <= now)
            .map(|one| ended(&one.name))
    }

    /// When the next one is.
    pub(crate) fn reservation_ends(&self) -> Option<Nanoseconds> {
        let kept = self.world.reservations().iter();
        kept.map(|one| one.until).min()
    }
}

fn ended(name: &str) -> BrokerEvent {
    fleet(&Event::ReservationEnded { name: name.into() })
}

fn fleet(event: &Event) -> BrokerEvent {
    BrokerEvent::Fleet {
        event: EventDocument::of(event),
    }
}
