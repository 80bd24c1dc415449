//! Replicas come, die and go.

use super::{
    client::NANOSECOND,
    clock::{ALONE, Clock},
    events::{Kind, NEVER},
    flights::{Place, Stage},
    listener::EngineListener,
    observer::{Observer, ReplicaState, ReplicaStatistics},
    replicas::Slot,
    routers::Candidate,
    run::Driver,
    scenario::{ScenarioError, Sharing},
    start::Failures,
};
use crate::{cost::StepCost, engine::Replica, traffic::Source};
use gpuwise_domain::request::Outcome;
use gpuwise_units::Nanoseconds;

/// Most replicas: one number means none.
const MOST: usize = u16::MAX as usize - 1;
/// A timer's number of a listed failure: its pool above, its place in the list below this bit.
const LISTED: u32 = 32;

impl<C, S, O> Driver<'_, C, S, O>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    /// The replicas that are there from the beginning, and the timers of what is known.
    pub(super) fn begin(&mut self) -> Result<(), ScenarioError> {
        let scenario = self.scenario;
        let most = |pool: &super::Pool<C>| {
            pool.replicas
                .iter()
                .map(|(_, count)| usize::from(*count))
                .max()
        };
        let all: usize = scenario.pools.iter().filter_map(most).sum();
        if all > MOST {
            return Err(ScenarioError::TooMany);
        }
        for (place, pool) in scenario.pools.iter().enumerate() {
            // Once, so that later replicas cannot fail to be made.
            Replica::new(pool.engine.clone(), self.pools[place].cost.clone()).map_err(|error| {
                ScenarioError::Engine {
                    pool: pool.name.clone(),
                    error,
                }
            })?;
            let changes = pool
                .replicas
                .iter()
                .take_while(|(time, _)| time.0 == 0)
                .count();
            let first = changes
                .checked_sub(1)
                .map_or(0, |last| pool.replicas[last].1);
            self.pools[place].changes = changes;
            for _ in 0..first {
                if let Some(replica) = self.add(place, ReplicaState::Ready) {
                    self.serve(replica);
                }
            }
            for (time, _) in &pool.replicas[changes..] {
                self.timers
                    .add(time.0.saturating_mul(NANOSECOND), Kind::Scale, place as u64);
            }
            if let Failures::Listed(list) = &pool.failures {
                for (nth, failure) in list.iter().enumerate() {
                    let number = (place as u64 + 1) << LISTED | nth as u64;
                    self.timers
                        .add(failure.at.0.saturating_mul(NANOSECOND), Kind::Fail, number);
                }
            }
            let changes = pool.replicas.len() > changes || pool.failures != Failures::None;
            let unknown = pool.start.unknown();
            if changes && !unknown.is_empty() {
                self.statistics.unknown.push(format!(
                    "how long a start takes in pool “{}”: nobody stated the time of {}",
                    pool.name,
                    unknown.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// A replica more, in a state; none if it cannot be made.
    fn add(&mut self, pool: usize, state: ReplicaState) -> Option<u16> {
        let scenario = self.scenario;
        if self.slots.len() >= MOST {
            return None;
        }
        let state_of = &mut self.pools[pool];
        let engine =
            Replica::new(scenario.pools[pool].engine.clone(), state_of.cost.clone()).ok()?;
        let replica = self.slots.len() as u16;
        let place = state_of.slots.len() as u16;
        state_of.slots.push(replica);
        let mut slot = Slot::new(engine, pool as u16, place, self.now);
        let shares = |together: &super::CoLocated| {
            together.sharing != Sharing::Slices && together.pools.contains(&pool)
        };
        if scenario.together.as_ref().is_some_and(shares) {
            slot.clock = Some(Clock::new(self.now));
        }
        self.slots.push(slot);
        self.turns.set(usize::from(replica), NEVER);
        self.enter_state(replica, state);
        Some(replica)
    }

    /// A replica is in another state from now on.
    fn enter_state(&mut self, replica: u16, state: ReplicaState) {
        let now = self.now;
        let slot = &mut self.slots[usize::from(replica)];
        if slot.is_up() {
            slot.ready += now - slot.ready_since;
        }
        if slot.state != ReplicaState::Gone {
            slot.kept += now - slot.kept_since;
        }
        slot.state = state;
        (slot.kept_since, slot.ready_since) = (now, now);
        let time = Nanoseconds(now.div_ceil(NANOSECOND));
        self.observer.replica(time, replica, state);
        self.arrange(usize::from(self.slots[usize::from(replica)].pool));
    }

    /// Lists the replicas that serve anew.
    fn arrange(&mut self, pool: usize) {
        let admission = &self.scenario.pools[pool].admission;
        let state = &mut self.pools[pool];
        let before = std::mem::take(&mut state.seen);
        state.candidates.clear();
        for replica in &state.slots {
            let slot = &mut self.slots[usize::from(*replica)];
            slot.candidate = None;
            if slot.state == ReplicaState::Ready {
                slot.candidate = Some(state.candidates.len());
                let load = slot.engine.load(slot.own(self.now));
                let candidate = Candidate {
                    replica: *replica,
                    open: slot.is_open(admission),
                    requests: slot.requests,
                    tokens: slot.tokens,
                    waiting: load.waiting,
                    running: load.running,
                    queued_tokens: load.queued_tokens,
                    kv_used: load.kv_used,
                    kv_blocks: load.kv_blocks,
                };
                let seen = before.iter().find(|seen| seen.replica == *replica);
                state.seen.push(seen.map_or(candidate, |seen| Candidate {
                    open: candidate.open,
                    ..*seen
                }));
                state.candidates.push(candidate);
            }
        }
    }

    /// Lets a replica serve from now on, until it dies by chance.
    fn serve(&mut self, replica: u16) {
        let pool = usize::from(self.slots[usize::from(replica)].pool);
        let slot = &mut self.slots[usize::from(replica)];
        let failures = &self.scenario.pools[pool].failures;
        if let Some((lives, _)) = failures.draw(self.scenario.seed, replica, slot.failures) {
            slot.wake = self.now.saturating_add(lives.saturating_mul(NANOSECOND));
            self.timers.add(slot.wake, Kind::Fail, u64::from(replica));
        }
        self.opened.push(pool as u16);
    }

    /// Starts a replica, after `lies` nanoseconds.
    fn start(&mut self, replica: u16, lies: u64, again: bool) {
        let slot = &mut self.slots[usize::from(replica)];
        let start = &self.scenario.pools[usize::from(slot.pool)].start;
        let takes = start.draw(self.scenario.seed, replica, slot.starts, again);
        slot.starts += 1;
        let whole = lies.saturating_add(takes).saturating_mul(NANOSECOND);
        slot.wake = self.now.saturating_add(whole);
        self.timers.add(slot.wake, Kind::Ready, u64::from(replica));
    }

    /// A start is over.
    pub(super) fn ready(&mut self, time: u64, number: u16) {
        let slot = &self.slots[usize::from(number)];
        let starts = matches!(slot.state, ReplicaState::Starting | ReplicaState::Down);
        if slot.wake == time && starts {
            self.enter_state(number, ReplicaState::Ready);
            self.serve(number);
        }
    }

    /// A pool is to have another number of replicas.
    pub(super) fn scale(&mut self, number: u64) {
        let pool = number as usize;
        let changes = self.pools[pool].changes;
        let Some((_, wanted)) = self.scenario.pools[pool].replicas.get(changes) else {
            return;
        };
        self.pools[pool].changes += 1;
        let wanted = usize::from(*wanted);
        let mut live: Vec<u16> = self.pools[pool].slots.clone();
        live.retain(|replica| {
            let state = self.slots[usize::from(*replica)].state;
            !matches!(state, ReplicaState::Gone | ReplicaState::Draining)
        });
        for _ in live.len()..wanted {
            if let Some(replica) = self.add(pool, ReplicaState::Starting) {
                self.start(replica, 0, false);
            }
        }
        // Those that do not serve yet go first, then the newest.
        live.sort_by_key(|replica| {
            (
                self.slots[usize::from(*replica)].state == ReplicaState::Ready,
                u16::MAX - replica,
            )
        });
        for replica in live.iter().take(live.len().saturating_sub(wanted)) {
            if self.slots[usize::from(*replica)].state == ReplicaState::Ready {
                self.enter_state(*replica, ReplicaState::Draining);
                self.end_drain(*replica);
            } else {
                self.enter_state(*replica, ReplicaState::Gone);
            }
        }
    }

    /// A replica that drains and has nothing left goes.
    pub(super) fn end_drain(&mut self, replica: u16) {
        let slot = &self.slots[usize::from(replica)];
        if slot.state == ReplicaState::Draining && slot.requests == 0 && slot.holds == 0 {
            self.enter_state(replica, ReplicaState::Gone);
        }
    }

    /// A replica dies, by chance or as listed.
    pub(super) fn fail(&mut self, time: u64, number: u64) {
        let listed = number >> LISTED;
        if listed == 0 {
            let slot = &self.slots[number as usize];
            if slot.wake == time && slot.is_up() {
                let failures = &self.scenario.pools[usize::from(slot.pool)].failures;
                let lies = failures.draw(self.scenario.seed, number as u16, slot.failures);
                self.die(number as u16, lies.map(|(_, lies)| lies));
            }
            return;
        }
        let pool = listed as usize - 1;
        let Failures::Listed(list) = &self.scenario.pools[pool].failures else {
            return;
        };
        let Some(failure) = list.get((number & u64::from(u32::MAX)) as usize) else {
            return;
        };
        if let Some(replica) = self.pools[pool]
            .slots
            .get(usize::from(failure.replica))
            .copied()
            && self.slots[usize::from(replica)].is_up()
        {
            self.die(replica, failure.returns.then_some(0));
        }
    }

    /// A replica dies; its start begins after `lies` nanoseconds, if it comes back.
    fn die(&mut self, replica: u16, lies: Option<u64>) {
        let slot = &mut self.slots[usize::from(replica)];
        let drains = slot.state == ReplicaState::Draining;
        slot.failures += 1;
        let own = slot.own(self.now);
        let mut listener = EngineListener {
            observer: &mut *self.observer,
            events: &mut self.events,
            replica,
            clock: slot.clock.as_ref(),
        };
        slot.engine.fail(own, &mut listener);
        let pool = usize::from(slot.pool);
        let holds = slot.holds > 0;
        slot.turn = None;
        self.turns.set(usize::from(replica), NEVER);
        self.soil(replica);
        self.pools[pool].router.lost(replica);
        match lies {
            Some(lies) if !drains => {
                self.enter_state(replica, ReplicaState::Down);
                self.start(replica, lies, true);
            }
            _ => self.enter_state(replica, ReplicaState::Gone),
        }
        if holds {
            self.lose_caches(replica);
        }
    }

    /// Caches that this replica held for others are lost, and with them the requests.
    fn lose_caches(&mut self, replica: u16) {
        for number in self.flights.numbers() {
            let Some(flight) = self.flights.get(number) else {
                continue;
            };
            let held = flight.prefill.as_ref().is_some_and(|prefill| {
                prefill.replica == replica && matches!(prefill.stage, Stage::Held(_))
            });
            if held && flight.place == Place::Moving {
                let ending = self.withdraw(number, Outcome::Failed);
                self.conclude(number, ending);
            }
        }
    }

    /// What this replica does next is known: those that share its GPU get slower or faster.
    pub(super) fn share(&mut self, replica: u16) {
        let Some(together) = &self.scenario.together else {
            return;
        };
        let place = usize::from(self.slots[usize::from(replica)].place);
        let members: Vec<u16> = together
            .pools
            .iter()
            .filter_map(|pool| self.pools.get(*pool)?.slots.get(place).copied())
            .collect();
        let is_busy = |replica: &u16| self.slots[usize::from(*replica)].turn.is_some();
        let busy = members.iter().filter(|member| is_busy(member)).count() as u64;
        let slowness = match together.sharing {
            Sharing::TimeSlices => ALONE * busy.max(1),
            Sharing::Mps { interference } if busy > 1 => {
                libm::round(interference.unwrap_or(1.0) * ALONE as f64) as u64
            }
            Sharing::Slices | Sharing::Mps { .. } => ALONE,
        };
        let now = self.now;
        for member in members {
            let slot = &mut self.slots[usize::from(member)];
            if let Some(clock) = &mut slot.clock {
                clock.slow(now, slowness);
            }
            let turns_at = slot.turns_at();
            self.turns.set(usize::from(member), turns_at);
        }
    }

    /// What each replica did, at the end.
    pub(super) fn tell_replicas(&mut self) {
        let now = self.now;
        self.statistics.replicas = self
            .slots
            .iter()
            .map(|slot| {
                let ready = slot.ready
                    + if slot.is_up() {
                        now - slot.ready_since
                    } else {
                        0
                    };
                let is_kept = slot.state != ReplicaState::Gone;
                let kept = slot.kept + if is_kept { now - slot.kept_since } else { 0 };
                ReplicaStatistics {
                    pool: slot.pool,
                    engine: slot.engine.statistics(),
                    kept: Nanoseconds(kept / NANOSECOND),
                    ready: Nanoseconds(ready / NANOSECOND),
                    failures: slot.failures,
                }
            })
            .collect();
    }
}
