//! Prompts that one replica computes for another: their KV cache is moved over a link.

use super::{
    client::NANOSECOND,
    ends::Ending,
    events::Kind,
    flights::{Place, Stage},
    listener::EngineEvent,
    observer::Observer,
    run::Driver,
    scenario::RemotePrefill,
};
use crate::{
    cost::StepCost,
    engine::{Done, Ticket},
    traffic::Source,
};
use gpuwise_domain::request::Outcome;
use gpuwise_units::Nanoseconds;

impl<C, S, O> Driver<'_, C, S, O>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    /// A prompt is computed: the replica that decodes asks for its blocks.
    pub(super) fn prefilled(&mut self, done: Done) {
        let number = done.number;
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let (replica, input, adapter) = (flight.replica, flight.input, flight.adapter);
        let Some(prefill) = &mut flight.prefill else {
            return;
        };
        let other = prefill.replica;
        let shared = self.slots[usize::from(other)].clock.is_some();
        prefill.stage = Stage::Held(done.ticket);
        prefill.scheduled = if shared {
            flight.told.0
        } else {
            done.scheduled
        };
        prefill.cached = done.cached;
        flight.preemptions = flight.preemptions.saturating_add(done.preemptions);
        flight.told = (None, None);
        flight.place = Place::Moving;
        self.slots[usize::from(other)].holds += 1;
        self.left(other, input, adapter);
        let slot = &mut self.slots[usize::from(replica)];
        if !slot.is_up() {
            let ending = Ending {
                end: done.end,
                ..Ending::at(self.now, Outcome::Failed)
            };
            let ending = Ending {
                request: Some(done.request),
                ..ending
            };
            self.conclude(number, ending);
            return;
        }
        let own = slot.own(self.now);
        match slot.engine.submit_remote(own, number, done.request) {
            Ok(ticket) => {
                if let Some(flight) = self.flights.get_mut(number) {
                    flight.ticket = Some(ticket);
                }
                self.soil(replica);
            }
            Err(done) => self.events.push_back(EngineEvent::Over(replica, *done)),
        }
    }

    /// A replica that decodes has room for a prompt's cache: it is moved when both links are free.
    pub(super) fn move_cache(&mut self, number: u64, ticket: Ticket) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        let (Some(prefill), Place::Moving) = (&flight.prefill, flight.place) else {
            return;
        };
        flight.ticket = Some(ticket);
        let (to, from, tokens) = (
            usize::from(flight.replica),
            usize::from(prefill.replica),
            prefill.tokens,
        );
        let Some(remote) = &self.scenario.pools[usize::from(flight.pool)].prefill else {
            return;
        };
        let free = self.slots[from].out_free.max(self.slots[to].in_free);
        let start = now.max(free);
        let (bytes, length) = cost_of(remote, tokens);
        let end = start.saturating_add(length);
        self.slots[from].out_free = end;
        self.slots[to].in_free = end;
        flight.wake = end;
        let moves = &mut self.statistics.moves;
        moves.count += 1;
        moves.bytes += u128::from(bytes);
        moves.busy = Nanoseconds(moves.busy.0 + length / NANOSECOND);
        moves.waited = Nanoseconds(moves.waited.0 + (start - now) / NANOSECOND);
        self.timers.add(end, Kind::Moved, number);
    }

    /// The cache is there.
    pub(super) fn moved(&mut self, time: u64, number: u64) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        if flight.wake != time || flight.place != Place::Moving {
            return;
        }
        let (replica, ticket) = (flight.replica, flight.ticket);
        flight.place = Place::Engine;
        let Some(prefill) = &mut flight.prefill else {
            return;
        };
        let (other, stage) = (prefill.replica, prefill.stage);
        prefill.stage = Stage::Done;
        if let Some(ticket) = ticket {
            let slot = &mut self.slots[usize::from(replica)];
            let own = slot.own(now);
            slot.engine.remote_arrived(own, ticket);
            self.soil(replica);
        }
        if let Stage::Held(ticket) = stage {
            self.give_back(other, ticket);
        }
    }
}

/// Bytes of a prompt's cache, and the picoseconds that it takes to move them.
fn cost_of(remote: &RemotePrefill, tokens: u32) -> (u64, u64) {
    let bytes = remote.bytes_per_token.saturating_mul(u64::from(tokens));
    let seconds = bytes as f64 / remote.link.bytes_per_second;
    let time = libm::ceil(seconds * 1e12).min(1e19) as u64;
    (
        bytes,
        time.saturating_add(remote.link.latency.0.saturating_mul(NANOSECOND)),
    )
}
