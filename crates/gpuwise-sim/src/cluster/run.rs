//! The loop: what is next happens.

use super::{
    client::{Client, NANOSECOND, Pulled, wake},
    events::{Event, Kind, NEVER, Timers, Tournament},
    flights::{Flights, Place},
    gateway::Gateway,
    listener::EngineEvent,
    observer::{Observer, ReplicaSample, RunStatistics, Sample},
    replicas::{PoolState, Shared, Slot},
    routers::Router,
    scenario::{Scenario, ScenarioError},
};
use crate::{cost::StepCost, traffic::Source};
use gpuwise_domain::request::{Outcome, Request};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, VecDeque};

/// Runs a scenario under traffic and tells an observer.
///
/// At equal times steps of engines end before anything else happens, and steps are planned after all
/// else; the rest is in the order of kind and number.
///
/// # Errors
/// A scenario that cannot be run.
pub fn run<C, S, O>(
    scenario: &Scenario<C>,
    source: S,
    observer: &mut O,
) -> Result<RunStatistics, ScenarioError>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    scenario.check()?;
    let mut driver = Driver::new(scenario, source, observer);
    driver.begin()?;
    driver.run();
    Ok(driver.finish())
}

/// A run. Times are picoseconds where nothing else is said.
pub(super) struct Driver<'a, C, S, O> {
    pub(super) scenario: &'a Scenario<C>,
    pub(super) observer: &'a mut O,
    pub(super) client: Client<S>,
    pub(super) flights: Flights,
    pub(super) timers: Timers,
    /// When clients give up, in order, with the request.
    pub(super) deadlines: VecDeque<(u64, u64)>,
    pub(super) slots: Vec<Slot<C>>,
    pub(super) pools: Vec<PoolState<C>>,
    /// When each engine turns next.
    pub(super) turns: Tournament,
    /// Replicas of which it is not known when they turn next.
    pub(super) dirty: Vec<u16>,
    /// What engines told that nobody has events yet.
    pub(super) events: VecDeque<EngineEvent>,
    /// Pools in which a replica may take a request that is held.
    pub(super) opened: Vec<u16>,
    /// Concurrent requests by tenant, where there are limits.
    pub(super) tenants: BTreeMap<u16, u32>,
    pub(super) now: u64,
    /// Requests sent and not over.
    pub(super) in_flight: u64,
    pub(super) statistics: RunStatistics,
    presence: u128,
    /// When gateways look next, and when the observer is shown the state.
    next_look: u64,
    next_sample: u64,
    samples: Vec<ReplicaSample>,
}

impl<'a, C, S, O> Driver<'a, C, S, O>
where
    C: StepCost + Clone,
    S: Source,
    O: Observer,
{
    fn new(scenario: &'a Scenario<C>, source: S, observer: &'a mut O) -> Self {
        let pools = (0..).zip(&scenario.pools).map(|(place, pool)| PoolState {
            cost: Shared::new(pool.cost.clone()),
            router: Router::new(
                &pool.routing,
                scenario.seed,
                place,
                pool.engine.max_adapters,
            ),
            gateway: Gateway::default(),
            candidates: Vec::new(),
            seen: Vec::new(),
            slots: Vec::new(),
            changes: 0,
        });
        let first = |every: Option<Nanoseconds>| match every {
            Some(every) if every.0 > 0 => every.0.saturating_mul(NANOSECOND),
            _ => NEVER,
        };
        let ages = scenario
            .pools
            .iter()
            .map(|pool| first(Some(pool.signal_age)));
        Self {
            pools: pools.collect(),
            client: Client::new(source),
            flights: Flights::default(),
            timers: Timers::default(),
            deadlines: VecDeque::new(),
            slots: Vec::new(),
            turns: Tournament::new(),
            dirty: Vec::new(),
            events: VecDeque::new(),
            opened: Vec::new(),
            tenants: BTreeMap::new(),
            now: 0,
            in_flight: 0,
            statistics: RunStatistics::default(),
            presence: 0,
            next_look: ages.min().unwrap_or(NEVER),
            next_sample: first(scenario.sample_every),
            samples: Vec::new(),
            scenario,
            observer,
        }
    }

    fn run(&mut self) {
        let horizon = self
            .scenario
            .horizon
            .map_or(NEVER - 1, |end| end.0.saturating_mul(NANOSECOND));
        loop {
            let event = self.next_event();
            let turn = self.turns.earliest();
            let time = event.0.min(turn);
            if time > self.now && !self.dirty.is_empty() {
                self.plan();
                continue;
            }
            let is_over = self.client.is_exhausted() && self.flights.len() == 0;
            if is_over || time > horizon {
                break;
            }
            if time >= self.next_look.min(self.next_sample) {
                self.look(time);
            }
            self.presence += u128::from(time - self.now) * u128::from(self.in_flight);
            self.now = time;
            if turn <= event.0 {
                let replica = self.turns.winner();
                self.turn(replica as u16);
            } else {
                self.happen(event);
            }
            self.settle();
            debug_assert!(
                self.is_work_conserving(),
                "a replica is open while requests are held"
            );
        }
        if let Some(end) = self.scenario.horizon {
            let end = end.0.saturating_mul(NANOSECOND);
            if self.flights.len() > 0 || !self.client.is_exhausted() {
                self.look(end);
                self.presence +=
                    u128::from(end.saturating_sub(self.now)) * u128::from(self.in_flight);
                self.now = self.now.max(end);
            }
        }
    }

    /// What comes next beside engines.
    fn next_event(&self) -> Event {
        let mut next = (
            self.client.next_time(self.now),
            Kind::Send,
            self.flights.next(),
        );
        if let Some(timer) = self.timers.peek() {
            next = next.min(timer);
        }
        if let Some((time, number)) = self.deadlines.front() {
            next = next.min((*time, Kind::TimeOut, *number));
        }
        next
    }

    fn happen(&mut self, event: Event) {
        let (time, kind, number) = event;
        if kind == Kind::TimeOut {
            self.deadlines.pop_front();
            self.time_out(time, number);
            return;
        }
        if kind == Kind::Send && number == self.flights.next() {
            self.pull();
            return;
        }
        self.timers.pop();
        match kind {
            Kind::Scale => self.scale(number),
            Kind::Ready => self.ready(time, number as u16),
            Kind::Fail => self.fail(time, number),
            Kind::Moved => self.moved(time, number),
            Kind::Seen => self.seen(number),
            Kind::Arrive => self.arrive(time, number),
            Kind::Send => self.called(time, number),
            Kind::TimeOut => {}
        }
    }

    /// The next request of the client.
    fn pull(&mut self) {
        let scenario = self.scenario;
        let now = self.nanoseconds();
        let before = self.flights.next();
        let pool_of = |request: &Request| pool_of(scenario, request);
        let pulled = self
            .client
            .pull(now, &mut self.flights, &mut self.timers, pool_of);
        self.statistics.requests += self.flights.next() - before;
        if let Pulled::Now(number) = pulled {
            self.send(number);
        }
    }

    /// The timer of a request that is with its client.
    fn called(&mut self, time: u64, number: u64) {
        let Some(flight) = self.flights.get(number) else {
            return;
        };
        if flight.wake != time || flight.place != Place::Client {
            return;
        }
        if flight.sent.is_some() || self.client.may_send(flight.due, number) {
            self.send(number);
        }
    }

    /// A client sees the end of a request.
    fn seen(&mut self, number: u64) {
        let Some(session) = self.flights.get(number).map(|flight| flight.session) else {
            return;
        };
        let now = self.nanoseconds();
        self.client
            .seen(now, session, &mut self.flights, &mut self.timers);
        self.flights.remove(number);
    }

    /// The client sends a request, for the first time or again.
    fn send(&mut self, number: u64) {
        let now = self.nanoseconds();
        let Some(flight) = self.flights.get_mut(number) else {
            return;
        };
        if flight.sent.is_none() {
            flight.sent = Some(now);
            self.client.sent();
            self.in_flight += 1;
        }
        if let Some(patience) = self.scenario.time_out {
            flight.deadline = now.saturating_add(patience.0).saturating_mul(NANOSECOND);
            self.deadlines.push_back((flight.deadline, number));
        }
        self.admit(number);
    }

    /// Now, in whole nanoseconds: what clients do is done at those.
    pub(super) fn nanoseconds(&self) -> u64 {
        self.now.div_ceil(NANOSECOND)
    }

    /// Sends a request again, after a wait.
    pub(super) fn send_again(&mut self, number: u64, at: u64) {
        wake(at, number, &mut self.flights, &mut self.timers);
    }

    /// Gateways and observers look at the state as it is before `time`.
    fn look(&mut self, time: u64) {
        if time >= self.next_look {
            let mut next = NEVER;
            for pool in 0..self.pools.len() {
                let age = self.scenario.pools[pool]
                    .signal_age
                    .0
                    .saturating_mul(NANOSECOND);
                if age > 0 {
                    self.look_at_pool(pool, time - time % age);
                    next = next.min((time - time % age).saturating_add(age));
                }
            }
            self.next_look = next;
        }
        while self.next_sample <= time {
            self.sample(self.next_sample);
            let every = self
                .scenario
                .sample_every
                .map_or(NEVER, |every| every.0.saturating_mul(NANOSECOND));
            self.next_sample = self.next_sample.saturating_add(every);
        }
    }

    fn sample(&mut self, time: u64) {
        self.samples.clear();
        self.samples
            .extend(self.slots.iter().map(|slot| ReplicaSample {
                pool: slot.pool,
                state: slot.state,
                load: slot.engine.load(slot.own(time)),
            }));
        let held = self
            .pools
            .iter()
            .map(|pool| pool.gateway.len() as u64)
            .sum();
        self.observer.sample(&Sample {
            time: Nanoseconds(time / NANOSECOND),
            in_flight: self.in_flight,
            held,
            replicas: &self.samples,
        });
    }

    /// Ends the run: what is not over is unfinished.
    fn finish(mut self) -> RunStatistics {
        let now = self.nanoseconds();
        for number in self.flights.numbers() {
            self.leave_unfinished(number);
        }
        if let Some(horizon) = self.scenario.horizon {
            while let Some(request) = self.client.held_back(horizon.0) {
                let pool = pool_of(self.scenario, &request);
                let number = self.flights.add(request, pool);
                self.statistics.requests += 1;
                self.leave_unfinished(number);
            }
        }
        self.statistics.end = Nanoseconds(now);
        self.statistics.presence = self.presence / u128::from(NANOSECOND);
        for pool in &self.pools {
            let most = pool.gateway.most as u64;
            self.statistics.most_held = self.statistics.most_held.max(most);
        }
        self.tell_replicas();
        debug_assert_eq!(
            self.statistics.requests,
            self.statistics.outcomes.iter().sum::<u64>(),
            "every request ends once"
        );
        self.statistics
    }

    pub(super) fn count_end(&mut self, outcome: Outcome) {
        let counts = Outcome::ALL.iter().zip(&mut self.statistics.outcomes);
        for (_, count) in counts.filter(|(other, _)| **other == outcome) {
            *count += 1;
        }
    }

    fn is_work_conserving(&self) -> bool {
        self.pools.iter().all(|pool| {
            pool.gateway.len() == 0 || !pool.candidates.iter().any(|candidate| candidate.open)
        })
    }
}

/// The first pool that serves the request's tenant and does not serve another pool.
fn pool_of<C>(scenario: &Scenario<C>, request: &Request) -> u16 {
    let serves = |pool: &super::Pool<C>| {
        pool.engine.role != crate::engine::Role::Prefill
            && (pool.tenants.is_empty() || pool.tenants.contains(&request.tenant))
    };
    let place = scenario.pools.iter().position(serves);
    place.map_or(super::flights::NOWHERE, |place| place as u16)
}
