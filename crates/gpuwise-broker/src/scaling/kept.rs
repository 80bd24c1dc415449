//! What warm replicas gave up is kept for their tenants: only who may be stopped gets it meanwhile.
//!
//! A reservation says how many GPUs of a node a queue can have, those among them that it holds: so there is one for
//! each tenant and node, which follows what the tenant holds there.

use crate::{Broken, Broker};
use gpuwise_domain::placement::{Event, GpuAsk, NodeId, QueueId, Reservation};
use gpuwise_sched::world::{Phase, Tenancy};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::BrokerEvent,
    live::{EventDocument, ReservationDocument},
};
use std::collections::BTreeMap;

/// For how long at a time: what is kept is looked at whenever something happens.
const LONG: u64 = 365 * 86_400_000_000_000;

pub(crate) type Whose = (NodeId, QueueId);

impl Broker {
    /// What is kept from now on, where that is not so yet.
    pub(crate) fn keep_warm(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        let own = |one: &&Reservation| self.is_own(one);
        let reservations = self.world.reservations();
        if self.scaling.is_empty() && !reservations.iter().any(|one| own(&one)) {
            return Vec::new();
        }
        let mut wanted = self.wanted_warm(now);
        let mut events = Vec::new();
        for one in reservations.iter().filter(own) {
            let whose = (one.node, one.queue);
            if wanted
                .get(&whose)
                .is_some_and(|wanted| wanted.gpus == one.gpus)
            {
                wanted.remove(&whose);
            } else {
                let name = one.name.clone();
                events.push(BrokerEvent::Fleet {
                    event: EventDocument::of(&Event::ReservationEnded { name }),
                });
            }
        }
        events.extend(wanted.values().map(|one| BrokerEvent::WarmKept {
            reservation: ReservationDocument::of(one),
        }));
        events
    }

    /// A reservation of the broker's own begins.
    pub(crate) fn warm_kept(
        &mut self,
        at: Nanoseconds,
        reservation: &ReservationDocument,
    ) -> Result<(), Broken> {
        let reservation = reservation.clone().noun();
        self.warm_kept.insert(reservation.name.clone());
        self.fleet_event(at, Event::Reserved(reservation))
    }

    /// Whether a reservation is the broker's own, and nobody asked for it: by how it began.
    fn is_own(&self, one: &Reservation) -> bool {
        self.warm_kept.contains(&one.name) || self.is_unmarked(one)
    }

    /// Whether a reservation is as the broker's own were before their events said so: of that name for its node and its
    /// tenant, and for exactly as long. None of people is admitted that is.
    pub(crate) fn is_unmarked(&self, one: &Reservation) -> bool {
        let node = self.world.node(one.node);
        let queue = self.world.queues().get(one.queue.index());
        let named = node.zip(queue).is_some_and(|(node, queue)| {
            one.name == format!("warm-{}-{}", node.node.name, queue.name)
        });
        named && one.until.0.saturating_sub(one.from.0) == LONG
    }

    /// A name that no other reservation has, and none that people ask for can have.
    fn own_name(&self, node: &str, tenant: &str) -> String {
        let mut name = format!("warm/{node}/{tenant}");
        let taken = |name: &str| {
            let mut all = self.world.reservations().iter();
            all.any(|one| one.name == name && !self.is_own(one))
        };
        while taken(&name) {
            name.push('+');
        }
        name
    }

    fn wanted_warm(&self, now: Nanoseconds) -> BTreeMap<Whose, Reservation> {
        let mut parked: BTreeMap<Whose, u32> = BTreeMap::new();
        for (_, scaling) in self.scaled() {
            if scaling.rules().warm_cost.is_none() {
                continue;
            }
            for (number, _) in scaling.replicas() {
                if let Some((whose, gpus)) = self.gave_up(number) {
                    *parked.entry(whose).or_default() += gpus;
                }
            }
        }
        let each = parked.into_iter().filter_map(|(whose, gpus)| {
            let (node, queue) = whose;
            let holds = self.holds(node, queue);
            let gpus = (gpus + holds).min(self.room(node));
            let name = &self.world.node(node)?.node.name;
            let tenant = &self.world.queues().get(queue.0 as usize)?.name;
            let kept = Reservation {
                name: self.own_name(name, tenant),
                queue,
                node,
                gpus,
                from: now,
                until: Nanoseconds(now.0.saturating_add(LONG)),
            };
            (gpus > 0).then_some((whose, kept))
        });
        each.collect()
    }

    /// Where a replica was that gave its GPUs up, and how many. One on several nodes would need a reservation that
    /// spans them: nothing is kept for it.
    pub(crate) fn gave_up(&self, number: u32) -> Option<(Whose, u32)> {
        let lease = self.lease(number).filter(|one| one.over.is_none())?;
        let job = self.world.job(lease.job())?;
        let gave = matches!(job.phase, Phase::Reclaimed { .. }) && lease.draining.is_none();
        let [place] = lease.place.as_slice() else {
            return None;
        };
        // It keeps its place on the node, without GPUs.
        let GpuAsk::Whole { count: gpus, .. } = job.job.worker.gpu else {
            return None;
        };
        gave.then_some(((place.node, job.job.queue?), gpus))
    }

    /// GPUs of a node that a queue's jobs hold.
    fn holds(&self, node: NodeId, queue: QueueId) -> u32 {
        let gpus = self
            .world
            .node(node)
            .into_iter()
            .flat_map(|state| &state.gpus);
        let own = gpus.filter(|gpu| {
            let held = self.world.gpu(**gpu).map(|state| &state.held);
            let job = match held {
                Some(Tenancy::Whole(job)) => self.world.job(*job),
                _ => None,
            };
            job.is_some_and(|state| state.job.queue == Some(queue))
        });
        u32::try_from(own.count()).unwrap_or(u32::MAX)
    }

    /// GPUs of a node beside those that people reserved.
    fn room(&self, node: NodeId) -> u32 {
        let reservations = self.world.reservations().iter();
        let others = reservations.filter(|one| one.node == node && !self.is_own(one));
        let others: u32 = others.map(|one| one.gpus).sum();
        let has = self.world.node(node).map_or(0, |state| state.gpus.len());
        u32::try_from(has)
            .unwrap_or(u32::MAX)
            .saturating_sub(others)
    }
}
