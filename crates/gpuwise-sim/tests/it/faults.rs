//! Random fleets under random work and seeded failures: whatever happens, no GPU is used twice, no gang
//! runs in part, no job is lost, and a rerun gives the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod estate;
mod physical;

use gpuwise_domain::placement::{
    Action, Ended, Event, GpuId, Health, JobId, NodeId, Plan, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide, repair, wake_at},
    disruption::{Budget, Disruptions, Idle, Tidy, tidy},
    lint::{Limits, Severity, lint, lint_world},
    policy::{Indexed, MostAllocated},
    world::{Phase, World},
};
use gpuwise_sim::fleet::{
    PlansHash,
    executor::{Delays, Executor, Step},
};
use gpuwise_units::{Nanoseconds, RandomStream};
use physical::Physical;
use std::collections::{BTreeMap, BTreeSet};

const SECOND: u64 = 1_000_000_000;

/// Something from outside.
#[derive(Debug, Clone)]
enum Outside {
    Event(Event),
    /// A job that has run since then ends.
    Ends(JobId, Nanoseconds),
}

struct Run {
    world: World,
    executor: Executor,
    policy: Policy,
    physical: Physical,
    outside: BTreeMap<(Nanoseconds, u64), Outside>,
    sent: u64,
    random: RandomStream,
    submitted: BTreeSet<JobId>,
    ended: BTreeSet<JobId>,
    hash: PlansHash,
    fault_milli: u64,
    seen: BTreeMap<&'static str, u32>,
    /// Ends that were sent: of a job that has run since then.
    sent_ends: BTreeSet<(JobId, Nanoseconds)>,
    /// Outcomes that were told, to be told again.
    told: Vec<Event>,
    /// What happened, for who reads a failure.
    log: Vec<String>,
    /// When time alone may change something.
    wake: Option<Nanoseconds>,
}

/// How one run went.
#[derive(Debug, PartialEq)]
struct Trail {
    plans: u64,
    seen: BTreeMap<&'static str, u32>,
    end: String,
}

const TIDY: Tidy = Tidy {
    evacuate: true,
    detach_after: Some(Nanoseconds(40 * SECOND)),
    grow: true,
    defragment: Some(Budget {
        disruptions: 3,
        lost: Nanoseconds(600 * SECOND),
        per: Nanoseconds(120 * SECOND),
        horizon: Nanoseconds(600 * SECOND),
    }),
};

fn disruptions() -> Disruptions {
    Disruptions {
        reclaim: Some(Idle {
            busy_milli: 20,
            after: Nanoseconds(60 * SECOND),
            reload: Nanoseconds(20 * SECOND),
        }),
        ..Disruptions::USUAL
    }
}

/// A run that fails shows what went before.
impl Drop for Run {
    #[allow(clippy::print_stderr, reason = "only where a test fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.log.iter().rev().take(200).rev() {
                eprintln!("{line}");
            }
        }
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "faults", 0);
        let fleet = estate::fleet(&mut random);
        let mut run = Self {
            world: World::new(&fleet),
            executor: Executor::new(Delays {
                start: Nanoseconds(5 * SECOND),
                stop: Nanoseconds(3 * SECOND),
                mig_instance: Nanoseconds(2 * SECOND),
                switch: Nanoseconds(7 * SECOND),
            }),
            policy: Policy {
                order: Order::Priority,
                disruptions: disruptions(),
                ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
            },
            physical: Physical::default(),
            outside: BTreeMap::new(),
            sent: 0,
            random,
            submitted: BTreeSet::new(),
            ended: BTreeSet::new(),
            hash: PlansHash::default(),
            fault_milli: 100,
            seen: BTreeMap::new(),
            sent_ends: BTreeSet::new(),
            told: Vec::new(),
            log: Vec::new(),
            wake: None,
        };
        run.script(&fleet);
        run
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound.max(1))
    }

    fn send(&mut self, at: u64, what: Outside) {
        self.sent += 1;
        self.outside.insert((Nanoseconds(at), self.sent), what);
    }

    /// Jobs that come, and what breaks.
    fn script(&mut self, fleet: &gpuwise_domain::placement::Fleet) {
        for id in 0..20 {
            let job = estate::job(id, fleet, &mut self.random);
            let at = self.below(600) * SECOND;
            let wanted = self.below(3) == 0;
            self.send(at, Outside::Event(Event::Submitted(job)));
            for part in 1..4 {
                let busy_milli = if wanted && part < 3 { 5 } else { 700 };
                let job = JobId(id);
                let after = at + part * 90 * SECOND;
                self.send(after, Outside::Event(Event::Measured { job, busy_milli }));
                if wanted && part == 3 {
                    self.send(after, Outside::Event(Event::Wanted { job }));
                }
            }
        }
        for _ in 0..8 {
            let at = self.below(700) * SECOND;
            let whole = self.below(2) == 0;
            let health = match self.below(4) {
                0 => Health::Draining,
                1 => Health::Maintenance,
                _ => Health::Lost { xid: 79 },
            };
            let (node, gpu) = (
                NodeId(self.below(fleet.nodes.len() as u64) as u32),
                GpuId(self.below(fleet.gpus.len() as u64) as u32),
            );
            let event = |health| {
                if whole {
                    Event::NodeHealth { node, health }
                } else {
                    Event::GpuHealth { gpu, health }
                }
            };
            self.send(at, Outside::Event(event(health)));
            let back = at + (30 + self.below(200)) * SECOND;
            if whole && matches!(health, Health::Lost { .. }) && self.below(2) == 0 {
                // Somebody makes sure that nothing runs there; then it comes back as it was.
                let by = "power".to_owned();
                let fenced = at + (5 + self.below(20)) * SECOND;
                self.send(fenced, Outside::Event(Event::NodeFenced { node, by }));
                let gpus = fleet.nodes[node.index()].gpus.iter();
                let gpus = gpus.map(|gpu| fleet.gpus[gpu.index()].clone()).collect();
                let node = fleet.nodes[node.index()].clone();
                self.send(back, Outside::Event(Event::NodeJoined { node, gpus }));
            } else {
                self.send(back, Outside::Event(event(Health::Up)));
            }
        }
    }

    fn go(mut self) -> Trail {
        loop {
            let outside = self.outside.keys().next().map(|(at, _)| *at);
            let inside = self.executor.next(&self.world);
            let wake = self.wake;
            let Some(now) = outside.into_iter().chain(inside).chain(wake).min() else {
                break;
            };
            if wake == Some(now) && outside != wake && inside != wake {
                self.wakes();
            } else if inside.is_some_and(|inside| inside <= now) {
                let chance = self.fault_milli;
                let random = &mut self.random;
                let steps = self
                    .executor
                    .advance(now, &mut self.world, |_| random.below(1000) < chance);
                self.follow(steps);
            } else if let Some((_, what)) = self.outside.pop_first() {
                self.happens(now, what);
            }
            self.tells_again(now);
            self.holds();
            self.decides(now);
            self.wake = wake_at(&self.world, &mut self.policy, now);
        }
        assert_eq!(self.executor.left(), 0, "hangs: {:?}", self.executor);
        for (id, state) in self.world.jobs() {
            assert!(
                !matches!(state.phase, Phase::Starting { .. }) && !state.stopping,
                "job {id} hangs"
            );
        }
        Trail {
            plans: self.hash.value(),
            seen: std::mem::take(&mut self.seen),
            end: format!("{:?}", self.world.figures()),
        }
    }

    fn happens(&mut self, at: Nanoseconds, what: Outside) {
        let event = match what {
            Outside::Event(event) => event,
            Outside::Ends(job, since) => {
                let running = Phase::Running { since };
                if self
                    .world
                    .job(job)
                    .is_none_or(|state| state.phase != running)
                {
                    return;
                }
                let how = Ended::Finished;
                Event::Ended { job, how }
            }
        };
        match &event {
            Event::Submitted(job) => {
                self.submitted.insert(job.id);
            }
            Event::Ended { job, .. } => {
                self.ended.insert(*job);
            }
            Event::Measured { job, .. } | Event::Wanted { job }
                if self.world.job(*job).is_none() =>
            {
                return;
            }
            _ => {}
        }
        self.log.push(format!("{at}: {event:?}"));
        self.world.apply(&TimestampedEvent { at, event }).unwrap();
        // Who was on a node that is known to be off is gone before anything else starts.
        self.physical.holds(&self.world);
        self.sends_ends();
        let mut steps = Vec::new();
        self.executor.start(at, &self.world, &mut steps);
        self.follow(steps);
    }

    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            self.log.push(format!("{step:?}"));
            self.physical.follow(&step);
            let name = match &step {
                Step::Ended(stamped) => match &stamped.event {
                    Event::Done { action, .. } => estate::word(action),
                    Event::Failed { .. } => "failed",
                    _ => continue,
                },
                Step::Dropped(..) => "dropped",
                Step::Started(..) => continue,
            };
            *self.seen.entry(name).or_default() += 1;
            if let Step::Ended(stamped) = &step {
                self.told.push(stamped.event.clone());
            }
        }
        self.sends_ends();
    }

    /// Jobs that run end when they have run for as long as they do.
    fn sends_ends(&mut self) {
        let mut ends = Vec::new();
        for (job, state) in self.world.jobs() {
            let Phase::Running { since } = state.phase else {
                continue;
            };
            if self.sent_ends.insert((job, since)) {
                let duration = state.job.duration.unwrap().expected;
                ends.push(((since + duration).0, job, since));
            }
        }
        for (at, job, since) in ends {
            self.send(at, Outside::Ends(job, since));
        }
    }

    /// Nothing has happened: what is decided now could not have been decided a moment earlier.
    fn wakes(&mut self) {
        let Some(wake) = self.wake else { return };
        let demand: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        let from = self.world.now().0;
        let effort = Effort {
            steps: 2_000,
            explains: false,
        };
        // What was tidied up since may have made room: then there is something to decide at once.
        for moment in [from, from + (wake.0 - from) / 2, wake.0 - 1] {
            let moment = Nanoseconds(moment.max(from));
            let (plan, _) = decide(moment, &self.world, &demand, &mut self.policy, effort);
            if moment.0 == from && !plan.actions.is_empty() {
                return;
            }
            assert_eq!(plan.actions, Vec::new(), "at {moment} before {wake}");
        }
        *self.seen.entry("woke").or_default() += 1;
    }

    /// What was told before is told again: it is counted, and changes nothing else.
    fn tells_again(&mut self, at: Nanoseconds) {
        if self.told.is_empty() || self.below(2) == 0 {
            return;
        }
        let which = self.below(self.told.len() as u64) as usize;
        let event = self.told[which].clone();
        let before = self.world.clone();
        self.world
            .apply(&TimestampedEvent {
                at,
                event: event.clone(),
            })
            .unwrap();
        let after = self.world.ignored();
        assert_eq!(after.total(), before.ignored().total() + 1, "{event:?}");
        assert!(before.jobs().eq(self.world.jobs()), "{event:?}");
        assert!(before.gpus().iter().eq(self.world.gpus()), "{event:?}");
        *self.seen.entry("told again").or_default() += 1;
    }

    /// What must hold after every event.
    fn holds(&mut self) {
        assert_eq!(lint_world(&self.world), Vec::new());
        self.physical.holds(&self.world);
        let known: BTreeSet<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        assert!(known.is_disjoint(&self.ended));
        let all: BTreeSet<JobId> = known.union(&self.ended).copied().collect();
        assert_eq!(all, self.submitted, "no job is lost");
        for (id, state) in self.world.jobs() {
            let (gang, workers) = (state.job.gang, state.assignments.len() as u32);
            if state.phase.holds_gpus() {
                assert!((gang.least..=gang.most).contains(&workers), "job {id}");
            }
        }
    }

    fn decides(&mut self, now: Nanoseconds) {
        let before = self.world.clone();
        let demand: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        let effort = Effort {
            steps: 2_000,
            explains: false,
        };
        let (plan, _) = decide(now, &self.world, &demand, &mut self.policy, effort);
        self.carries_out(&before, &plan);
        let before = self.world.clone();
        self.carries_out(&before, &repair(now, &self.world));
        if self.sent.is_multiple_of(3) {
            let before = self.world.clone();
            let (plan, _) = tidy(now, &self.world, &TIDY, effort);
            self.carries_out(&before, &plan);
        }
    }

    fn carries_out(&mut self, before: &World, plan: &Plan) {
        let now = plan.made;
        assert_eq!(*before, self.world, "deciding changes nothing");
        self.hash.add(plan);
        if plan.actions.is_empty() {
            return;
        }
        let notes = lint(&self.world, plan, Limits::NONE);
        let wrong: Vec<_> = notes
            .into_iter()
            .filter(|note| note.severity == Severity::Error)
            .collect();
        assert_eq!(wrong, Vec::new(), "{plan:?}");
        kept(&self.world, plan);
        self.log.push(format!("{plan:?}"));
        self.executor.accept(&mut self.world, plan).unwrap();
        let mut steps = Vec::new();
        self.executor.start(now, &self.world, &mut steps);
        self.follow(steps);
        self.holds();
    }
}

/// A plan's actions, done one by one or begun together and then done, give the same world.
fn kept(world: &World, plan: &Plan) {
    let at = plan.made;
    let done = |action: &Action| TimestampedEvent {
        at,
        event: Event::done(action.clone()),
    };
    let mut stepwise = world.clone();
    let mut together = world.clone();
    together.accept(plan).unwrap();
    // What waits for something that is under way in this world cannot be done at once.
    let ready = plan
        .actions
        .iter()
        .all(|action| together.apply(&done(action)).is_ok());
    if !ready {
        return;
    }
    for action in &plan.actions {
        stepwise.apply(&done(action)).unwrap();
    }
    for (id, state) in together.jobs() {
        assert_eq!(Some(state), stepwise.job(id));
    }
    assert_eq!(together.figures(), stepwise.figures());
    assert!(together.nodes().iter().eq(stepwise.nodes().iter()));
    assert!(together.gpus().iter().eq(stepwise.gpus().iter()));
}

#[test]
fn failures_break_nothing() {
    let mut seen: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..100 {
        let trail = Run::new(seed).go();
        if seed % 25 == 0 {
            assert_eq!(trail, Run::new(seed).go(), "a rerun gives the same");
        }
        for (name, count) in trail.seen {
            *seen.entry(name).or_default() += count;
        }
    }
    for name in estate::WORDS {
        assert!(seen.contains_key(name), "{name} never happened: {seen:?}");
    }
}
