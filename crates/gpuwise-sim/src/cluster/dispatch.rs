//! The gateway: which replica a request goes to, and how it gets there.

use super::{
    client::NANOSECOND,
    ends::Ending,
    events::{Kind, NEVER},
    flights::{Place, Prefill, Stage},
    gateway::Waiting,
    listener::{EngineEvent, EngineListener},
    observer::Observer,
    replicas::{PoolState, Slot},
    routers::{RoutingRequest, as_sent},
    run::Driver,
};
use crate::{cost::StepCost, traffic::Source};
use gpuwise_domain::request::{Outcome, Request};

impl<C, S, O> Driver<'_, C, S, O>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    /// A request comes to its gateway.
    pub(super) fn admit(&mut self, number: u64) {
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let pool = usize::from(flight.pool);
        let scenario = self.scenario;
        let Some(admission) = scenario.pools.get(pool).map(|pool| &pool.admission) else {
            // Nobody serves its tenant.
            self.conclude(number, Ending::at(self.now, Outcome::Failed));
            return;
        };
        let limit = admission
            .tenant_limits
            .iter()
            .find(|(tenant, _)| *tenant == flight.tenant);
        if let Some((tenant, most)) = limit {
            let count = self.tenants.entry(*tenant).or_default();
            if *count >= *most {
                self.conclude(number, Ending::at(self.now, Outcome::Rejected));
                return;
            }
            *count += 1;
            flight.counted = true;
        }
        // Those that wait already go first.
        if self.pools[pool].gateway.len() == 0 && self.place(number) {
            return;
        }
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let waiting = Waiting {
            number,
            tenant: flight.tenant,
            priority: flight
                .request
                .as_ref()
                .map_or(0, |request| request.priority),
            input: flight.input,
        };
        let gateway = &mut self.pools[pool].gateway;
        if gateway.has_room(admission, waiting.input) {
            flight.waits = gateway.push(admission, waiting);
            flight.place = Place::Gateway;
        } else {
            self.conclude(number, Ending::at(self.now, Outcome::Rejected));
        }
    }

    /// Lets requests that wait at a gateway through, as long as a replica takes them.
    pub(super) fn let_through(&mut self, pool: u16) {
        while let Some(number) = self.pools[usize::from(pool)].gateway.first() {
            if !self.place(number) {
                return;
            }
        }
    }

    /// Takes a request out of its gateway's queue, if it is there: `taken`, it goes to a replica, else it gives up.
    pub(super) fn leave_gateway(&mut self, number: u64, taken: bool) {
        if let Some(flight) = self.flights.get(number)
            && flight.place == Place::Gateway
        {
            let gateway = &mut self.pools[usize::from(flight.pool)].gateway;
            if taken {
                gateway.take(flight.waits);
            } else {
                gateway.leave(flight.waits);
            }
        }
    }

    /// Sends a request on to a replica; false if none takes it.
    fn place(&mut self, number: u64) -> bool {
        let Some(flight) = self.flights.get(number) else {
            return true;
        };
        let Some(request) = &flight.request else {
            return true;
        };
        let (pool, input) = (usize::from(flight.pool), flight.input);
        let scenario = &self.scenario.pools[pool];
        let aged = scenario.signal_age.0 > 0;
        let picked = pick(&mut self.pools[pool], &self.slots, aged, self.now, request);
        let Some(replica) = picked else { return false };
        let mut prefill = None;
        if let Some(remote) = &scenario.prefill {
            let found = self.slots[usize::from(replica)].engine.find(request);
            let tokens = input.saturating_sub(found);
            if tokens >= remote.threshold {
                let aged = self.scenario.pools[remote.pool].signal_age.0 > 0;
                let other = pick(
                    &mut self.pools[remote.pool],
                    &self.slots,
                    aged,
                    self.now,
                    request,
                );
                prefill = other.map(|replica| Prefill {
                    replica,
                    stage: Stage::Computing,
                    scheduled: None,
                    cached: 0,
                    tokens,
                });
            }
        }
        self.leave_gateway(number, true);
        self.count(replica, input, true);
        if let Some(prefill) = prefill {
            self.count(prefill.replica, input, true);
        }
        let first = prefill.map_or(replica, |prefill| prefill.replica);
        let before = self.slots[usize::from(first)]
            .engine
            .cost()
            .around(input)
            .before;
        let arrival = self.now.saturating_add(before.saturating_mul(NANOSECOND));
        if let Some(flight) = self.flights.get_mut(number) {
            flight.replica = replica;
            flight.place = Place::Transit;
            flight.prefill = prefill.map(Box::new);
            flight.wake = arrival;
        }
        if before == 0 {
            self.enter(number);
        } else {
            self.timers.add(arrival, Kind::Arrive, number);
        }
        true
    }

    /// A request is at its replica's queue.
    pub(super) fn arrive(&mut self, time: u64, number: u64) {
        let flight = self.flights.get(number);
        if flight.is_some_and(|flight| flight.wake == time && flight.place == Place::Transit) {
            self.enter(number);
        }
    }

    /// Puts a request into the engine that it is for.
    fn enter(&mut self, number: u64) {
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let prefill = flight.prefill.as_ref().map(|prefill| prefill.replica);
        let replica = prefill.unwrap_or(flight.replica);
        let slot = &mut self.slots[usize::from(replica)];
        if !slot.is_up() {
            self.conclude(number, Ending::at(self.now, Outcome::Failed));
            return;
        }
        let Some(request) = flight.request.take() else {
            return;
        };
        let own = slot.own(self.now);
        match slot.engine.submit(own, number, request) {
            Ok(ticket) => {
                flight.ticket = Some(ticket);
                flight.place = if prefill.is_some() {
                    Place::Prefill
                } else {
                    Place::Engine
                };
                self.soil(replica);
            }
            Err(done) => self.events.push_back(EngineEvent::Over(replica, *done)),
        }
    }

    /// Counts a request in or out of a replica.
    pub(super) fn count(&mut self, replica: u16, input: u32, comes: bool) {
        let Some(slot) = self.slots.get_mut(usize::from(replica)) else {
            return;
        };
        if comes {
            slot.requests += 1;
            slot.tokens += u64::from(input);
        } else {
            slot.requests -= 1;
            slot.tokens -= u64::from(input);
        }
        let pool = usize::from(slot.pool);
        if let Some(place) = slot.candidate {
            let admission = &self.scenario.pools[pool].admission;
            let pool = &mut self.pools[pool];
            let candidate = &mut pool.candidates[place];
            candidate.requests = slot.requests;
            candidate.tokens = slot.tokens;
            candidate.open = slot.is_open(admission);
            let open = candidate.open;
            if let Some(seen) = pool.seen.get_mut(place) {
                seen.open = open;
            }
            if open && pool.gateway.len() > 0 {
                self.opened.push(slot.pool);
            }
        }
        if !comes {
            self.end_drain(replica);
        }
    }

    /// The counts of a pool as of `time` are what its gateway sees from now on.
    pub(super) fn look_at_pool(&mut self, pool: usize, time: u64) {
        let pool = &mut self.pools[pool];
        refresh(pool, &self.slots, time);
        pool.seen.clone_from(&pool.candidates);
    }

    /// It is not known when this replica turns next.
    pub(super) fn soil(&mut self, replica: u16) {
        let slot = &mut self.slots[usize::from(replica)];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(replica);
        }
    }

    /// An engine's loop turns.
    pub(super) fn turn(&mut self, replica: u16) {
        let slot = &mut self.slots[usize::from(replica)];
        let until = slot.turn.unwrap_or_else(|| slot.own(self.now));
        slot.turn = None;
        let mut listener = EngineListener {
            observer: &mut *self.observer,
            events: &mut self.events,
            replica,
            clock: slot.clock.as_ref(),
        };
        slot.engine.advance(until, &mut listener);
        if let Some(clock) = &mut slot.clock {
            clock.forget(until);
        }
        self.turns.set(usize::from(replica), NEVER);
        self.soil(replica);
    }

    /// All that is submitted by now is in the steps that are planned now.
    pub(super) fn plan(&mut self) {
        for place in 0..self.dirty.len() {
            let replica = self.dirty[place];
            let slot = &mut self.slots[usize::from(replica)];
            slot.dirty = false;
            let mut listener = EngineListener {
                observer: &mut *self.observer,
                events: &mut self.events,
                replica,
                clock: slot.clock.as_ref(),
            };
            slot.turn = slot.engine.next_event(&mut listener);
            if slot.clock.is_some() {
                self.share(replica);
            } else {
                self.turns.set(usize::from(replica), slot.turns_at());
            }
        }
        self.dirty.clear();
        self.settle();
    }

    /// Hears what engines told, and lets requests that are held through, until nothing follows.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(events) = self.events.pop_front() {
                self.hear(events);
            } else if let Some(pool) = self.opened.pop() {
                self.let_through(pool);
            } else {
                return;
            }
        }
    }
}

/// The replica that a pool's router picks.
fn pick<C: StepCost>(
    pool: &mut PoolState<C>,
    slots: &[Slot<C>],
    aged: bool,
    now: u64,
    request: &Request,
) -> Option<u16> {
    if !aged && pool.router.needs().load {
        refresh(pool, slots, now);
    }
    let hits = |replica: u16| {
        slots
            .get(usize::from(replica))
            .map_or(0, |slot| slot.engine.find(request))
    };
    let ask = RoutingRequest {
        request,
        time: now / NANOSECOND,
        hits: &hits,
        has: &as_sent,
    };
    let seen = if aged { &pool.seen } else { &pool.candidates };
    let place = pool.router.pick(&ask, seen)?;
    seen.get(place).map(|candidate| candidate.replica)
}

/// The counts of engines at a time.
fn refresh<C: StepCost>(pool: &mut PoolState<C>, slots: &[Slot<C>], time: u64) {
    for candidate in &mut pool.candidates {
        let Some(slot) = slots.get(usize::from(candidate.replica)) else {
            continue;
        };
        let load = slot.engine.load(slot.own(time));
        candidate.waiting = load.waiting;
        candidate.running = load.running;
        candidate.queued_tokens = load.queued_tokens;
        candidate.kv_used = load.kv_used;
        candidate.kv_blocks = load.kv_blocks;
    }
}
