//! How requests end, and what follows.

use super::{
    client::NANOSECOND,
    events::Kind,
    flights::{Flight, NOWHERE, Place, Prefill, Stage},
    listener::EngineEvent,
    observer::Observer,
    run::Driver,
};
use crate::{
    cost::StepCost,
    engine::{Done, Ticket},
    traffic::Source,
};
use gpuwise_domain::request::{Outcome, Request, RequestRecord};
use gpuwise_units::Nanoseconds;

/// The end of a request, or of one try of it. Times are picoseconds of the run.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) end: u64,
    pub(super) scheduled: Option<u64>,
    pub(super) first_token: Option<u64>,
    pub(super) generated: u32,
    pub(super) cached: Option<u32>,
    pub(super) preemptions: u16,
    pub(super) request: Option<Request>,
}

impl Ending {
    /// Of a request that no engine knows.
    pub(super) fn at(end: u64, outcome: Outcome) -> Self {
        Self {
            outcome,
            end,
            scheduled: None,
            first_token: None,
            generated: 0,
            cached: None,
            preemptions: 0,
            request: None,
        }
    }

    /// As the engine says.
    pub(super) fn told(done: Done) -> Self {
        Self {
            outcome: done.outcome,
            end: done.end,
            scheduled: done.scheduled,
            first_token: done.first_token,
            generated: done.generated,
            cached: done.scheduled.map(|_| done.cached),
            preemptions: done.preemptions,
            request: Some(done.request),
        }
    }

    /// Times that were told when they were now.
    fn tell(&mut self, told: (Option<u64>, Option<u64>)) {
        self.scheduled = self.scheduled.and(told.0);
        self.first_token = self.first_token.and(told.1);
    }
}

impl<C, S, O> Driver<'_, C, S, O>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    /// An engine told something.
    pub(super) fn hear(&mut self, events: EngineEvent) {
        match events {
            EngineEvent::Over(replica, done) => self.over(replica, done),
            EngineEvent::Taken(number, ticket) => self.move_cache(number, ticket),
            EngineEvent::Scheduled(time, number) => {
                if let Some(flight) = self.flights.get_mut(number) {
                    flight.told.0.get_or_insert(time);
                }
            }
            EngineEvent::First(time, number) => {
                if let Some(flight) = self.flights.get_mut(number) {
                    flight.told.1.get_or_insert(time);
                }
            }
        }
    }

    /// A request is over in an engine.
    fn over(&mut self, replica: u16, done: Done) {
        let number = done.number;
        let Some(flight) = self.flights.get(number) else {
            return;
        };
        let told = flight.told;
        let computes =
            |prefill: &Prefill| prefill.replica == replica && prefill.stage == Stage::Computing;
        let is_prefill = flight.prefill.as_deref().is_some_and(computes);
        if is_prefill && done.outcome == Outcome::Completed {
            self.prefilled(done);
            return;
        }
        let mut ending = Ending::told(done);
        if self.slots[usize::from(replica)].clock.is_some() {
            ending.tell(told);
        }
        self.conclude(number, ending);
    }

    /// A client gives up.
    pub(super) fn time_out(&mut self, time: u64, number: u64) {
        let waits = |flight: &Flight| {
            flight.deadline == time && !matches!(flight.place, Place::Client | Place::Over)
        };
        if self.flights.get(number).is_some_and(waits) {
            let ending = self.withdraw(number, Outcome::TimedOut);
            self.conclude(number, ending);
        }
    }

    /// What is not over at the end of the run.
    pub(super) fn leave_unfinished(&mut self, number: u64) {
        let is_over = self
            .flights
            .get(number)
            .is_none_or(|flight| flight.place == Place::Over);
        if !is_over {
            let ending = self.withdraw(number, Outcome::Unfinished);
            self.record(number, &ending);
        }
    }

    /// Takes a request out of wherever it is.
    pub(super) fn withdraw(&mut self, number: u64, outcome: Outcome) -> Ending {
        let now = self.now;
        let mut ending = Ending::at(now, outcome);
        let Some(flight) = self.flights.get(number) else {
            return ending;
        };
        let replica = match flight.place {
            Place::Prefill => flight.prefill.as_ref().map(|prefill| prefill.replica),
            Place::Moving | Place::Engine => Some(flight.replica),
            Place::Client | Place::Gateway | Place::Transit | Place::Over => None,
        };
        let told = flight.told;
        if let (Some(replica), Some(ticket)) = (replica, flight.ticket) {
            let slot = &mut self.slots[usize::from(replica)];
            let own = slot.own(now);
            if let Some(done) = slot.engine.cancel(own, ticket) {
                let shared = slot.clock.is_some();
                ending = Ending {
                    outcome,
                    end: now,
                    ..Ending::told(done)
                };
                if shared {
                    ending.tell(told);
                }
            }
            self.soil(replica);
        }
        self.leave_gateway(number, false);
        ending
    }

    /// A try is over: the request is sent again, or this is its end.
    pub(super) fn conclude(&mut self, number: u64, mut ending: Ending) {
        self.leave_replicas(number);
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        flight.deadline = u64::MAX;
        if let Some(prefill) = flight.prefill.take() {
            ending.scheduled = prefill.scheduled.or(ending.scheduled);
            ending.cached = prefill.scheduled.map(|_| prefill.cached).or(ending.cached);
        }
        flight.preemptions = flight.preemptions.saturating_add(ending.preemptions);
        if flight.request.is_none() {
            flight.request = ending.request.take();
        }
        let seen = self.seen_at(number, ending.end);
        if let Some(wait) = self.retry(number, ending.outcome) {
            if let Some(flight) = self.flights.get_mut(number) {
                flight.place = Place::Client;
                flight.retries += 1;
                flight.replica = NOWHERE;
                flight.told = (None, None);
            }
            self.statistics.retries += 1;
            self.send_again(number, seen.saturating_add(wait.0));
            return;
        }
        self.record(number, &ending);
        self.in_flight -= 1;
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        if self.client.cares(flight.session) {
            flight.place = Place::Over;
            flight.request = None;
            self.timers
                .add(seen.saturating_mul(NANOSECOND), Kind::Seen, number);
        } else {
            self.flights.remove(number);
        }
    }

    /// How long a request waits before it is sent again; none if it is not.
    fn retry(&mut self, number: u64, outcome: Outcome) -> Option<Nanoseconds> {
        let retry = self.scenario.retry.as_ref()?;
        let again = self.flights.get(number)?.retries.saturating_add(1);
        let wait = retry.wait(self.scenario.seed, number, again, outcome)?;
        let first = self.statistics.requests;
        if !retry.affords(first, self.statistics.retries) {
            self.statistics.retries_spared += 1;
            return None;
        }
        Some(wait)
    }

    /// Takes a request out of the counts of its replicas, its tenant and its router.
    fn leave_replicas(&mut self, number: u64) {
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let (input, replica, tenant) = (flight.input, flight.replica, flight.tenant);
        let adapter = flight.adapter;
        let placed = !matches!(flight.place, Place::Client | Place::Gateway | Place::Over);
        let prefill = flight
            .prefill
            .as_ref()
            .map(|prefill| (prefill.replica, prefill.stage));
        flight.ticket = None;
        if std::mem::take(&mut flight.counted)
            && let Some(count) = self.tenants.get_mut(&tenant)
        {
            *count -= 1;
        }
        if !placed {
            return;
        }
        match prefill {
            Some((other, Stage::Computing)) => self.left(other, input, adapter),
            Some((other, Stage::Held(ticket))) => self.give_back(other, ticket),
            Some((_, Stage::Done)) | None => {}
        }
        self.left(replica, input, adapter);
    }

    pub(super) fn left(&mut self, replica: u16, input: u32, adapter: u16) {
        let pool = self.slots[usize::from(replica)].pool;
        self.pools[usize::from(pool)].router.ended(replica, adapter);
        self.count(replica, input, false);
    }

    /// Blocks that were held for another replica are free.
    pub(super) fn give_back(&mut self, replica: u16, ticket: Ticket) {
        let slot = &mut self.slots[usize::from(replica)];
        slot.holds -= 1;
        if slot.is_up() {
            let own = slot.own(self.now);
            slot.engine.release_remote(own, ticket);
            self.soil(replica);
        }
        self.end_drain(replica);
    }

    /// When, in nanoseconds, a client hears of something that happened at a time in picoseconds.
    fn seen_at(&self, number: u64, time: u64) -> u64 {
        let flight = self.flights.get(number);
        let slot =
            flight.and_then(|flight| Some((flight, self.slots.get(usize::from(flight.replica))?)));
        let after = slot.map_or(0, |(flight, slot)| {
            slot.engine.cost().around(flight.input).after
        });
        time.div_ceil(NANOSECOND).saturating_add(after)
    }

    /// Tells what became of a request.
    fn record(&mut self, number: u64, ending: &Ending) {
        let Some(flight) = self.flights.get(number) else {
            return;
        };
        let whole = |time: u64| Nanoseconds(time.div_ceil(NANOSECOND));
        // What ends without the client having been told ends for it at once.
        let told = matches!(ending.outcome, Outcome::Completed | Outcome::Failed);
        let end = if told {
            self.seen_at(number, ending.end)
        } else {
            whole(ending.end).0
        };
        let first_token = ending.first_token.map(|time| self.seen_at(number, time));
        let sent = flight.sent.unwrap_or(end.max(flight.due));
        let request = flight.request.as_ref().or(ending.request.as_ref());
        let record = RequestRecord {
            number,
            due: Nanoseconds(flight.due),
            sent: Nanoseconds(sent),
            scheduled: ending.scheduled.map(whole),
            first_token: first_token.map(|time| Nanoseconds(time.min(end))),
            end: Nanoseconds(end.max(sent)),
            input: flight.input,
            output: ending.generated,
            cached: ending.cached,
            preemptions: flight.preemptions,
            retries: flight.retries,
            tenant: flight.tenant,
            stage: request.map_or(0, |request| request.stage),
            session: flight.session,
            replica: (flight.replica != NOWHERE).then_some(flight.replica),
            outcome: ending.outcome,
        };
        if flight.sent.is_some() {
            self.statistics.residence += u128::from(record.end.0.saturating_sub(sent));
        }
        self.count_end(ending.outcome);
        self.observer.record(&record);
    }
}
