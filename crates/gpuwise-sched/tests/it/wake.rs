//! When time alone changes a decision, as it is kept, and by a walk over all jobs.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, DurationEstimate, Ended, Event, Failure, FailureCause, Job, JobId, NodeId, Preemption,
    TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Policy, QUANTUM, wake_at},
    disruption::Idle,
    fit::{self, Scope},
    policy::FirstFit,
    queues::length,
    rounds::Rounds,
    world::{Phase, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
enum Step {
    /// One comes: GPUs, seconds it is expected to take, whether it may be stopped.
    Comes(u32, Option<u64>, bool),
    /// One of those that wait is placed; whether that is done, or fails.
    Starts(usize, Option<bool>),
    /// One is told to stop; whether that is done, or fails.
    Stops(usize, bool),
    Measured(usize, u32),
    Ends(usize),
    /// Seconds go by.
    Later(u64),
    /// Another policy, or back.
    Policy(u8),
    /// What follows happens in a copy of the world, or the copy is left.
    Copy(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..8_usize;
    prop_oneof![
        4 => (1..4_u32, prop::option::of(1..90_u64), any::<bool>())
            .prop_map(|(gpus, seconds, stops)| Step::Comes(gpus, seconds, stops)),
        5 => (at.clone(), prop::option::weighted(0.8, any::<bool>()))
            .prop_map(|(at, done)| Step::Starts(at, done)),
        2 => (at.clone(), any::<bool>()).prop_map(|(at, done)| Step::Stops(at, done)),
        3 => (at.clone(), 0..200_u32).prop_map(|(at, busy)| Step::Measured(at, busy)),
        2 => at.prop_map(Step::Ends),
        4 => (1..60_u64).prop_map(Step::Later),
        1 => (0..16_u8).prop_map(Step::Policy),
        1 => any::<bool>().prop_map(Step::Copy),
    ]
}

/// Each bit switches something on.
fn set(policy: &mut Policy, bits: u8) {
    let on = |bit: u8| bits >> bit & 1 == 1;
    policy.limits.starvation_timeout = on(0).then_some(Nanoseconds(70 * SECOND));
    policy.limits.reservations = u32::from(on(1));
    policy.limits.padding_sigmas = if on(2) { 1.0 } else { 0.0 };
    policy.disruptions.reclaim = on(3).then_some(Idle {
        busy_milli: 50,
        after: Nanoseconds(40 * SECOND),
        reload: Nanoseconds(SECOND),
    });
    policy.rounds = (bits == 5).then_some(Rounds {
        length: Nanoseconds(25 * SECOND),
    });
}

/// The same by a look at every job.
fn walked(world: &World, policy: &Policy, now: Nanoseconds) -> Option<Nanoseconds> {
    let limits = policy.limits;
    let mut moments = Vec::new();
    let seekers = world.jobs().filter(|(_, state)| state.seeks()).count();
    let turns = world.jobs().any(|(_, state)| {
        matches!(state.phase, Phase::Running { .. })
            && matches!(state.job.preemption, Preemption::Allowed { .. })
    });
    if let Some(rounds) = policy.rounds.filter(|_| seekers > 0 && turns) {
        moments.push(rounds.next(now));
    }
    if seekers == 0 {
        return None;
    }
    moments.extend(world.closed().iter().map(|(until, _)| *until));
    for (id, state) in world.jobs() {
        if let Some(trouble) = state.trouble() {
            moments.push(trouble.stays_until);
            let avoids = trouble.avoids.iter().map(|(_, until)| *until);
            moments.extend(avoids.chain([trouble.until]).filter(|_| state.seeks()));
        }
        if state.seeks() {
            let timeout = limits.starvation_timeout.iter();
            moments.extend(timeout.map(|timeout| state.job.submitted + *timeout));
        }
        if let Some(idle) = policy.disruptions.reclaim {
            let since = state.idle_since(idle.busy_milli);
            moments.extend(since.map(|since| since + idle.after));
        }
        let ahead = limits.reservations > 0 || limits.starvation_timeout.is_some();
        let running = matches!(state.phase, Phase::Running { .. });
        if let Some(belief) = state.job.duration.filter(|_| ahead && running) {
            let planned = length(belief, limits.padding_sigmas);
            // Work that is done does not become less, so that the end is found by halving.
            let done = |at: u64| world.done_by(Nanoseconds(at), id) >= planned;
            let (mut before, mut end) = (0, u64::from(u32::MAX) * SECOND);
            while before + 1 < end {
                let middle = before.midpoint(end);
                *if done(middle) { &mut end } else { &mut before } = middle;
            }
            moments.push(if done(now.0) {
                now + QUANTUM
            } else {
                Nanoseconds(end)
            });
        }
    }
    moments.into_iter().filter(|at| *at > now).min()
}

struct Stage {
    worlds: Vec<World>,
    policy: Policy,
    now: Nanoseconds,
    next: u32,
}

impl Stage {
    fn world(&self) -> &World {
        self.worlds.last().unwrap()
    }

    fn happens(&mut self, event: Event) -> bool {
        let at = self.now;
        let world = self.worlds.last_mut().unwrap();
        world.apply(&TimestampedEvent { at, event }).is_ok()
    }

    /// Begins an action, and says how it ended.
    fn does(&mut self, action: Action, done: Option<bool>) {
        if !self.happens(Event::begun(action.clone())) {
            return;
        }
        let (Some(attempt), Some(done)) = (self.world().attempt_of(&action), done) else {
            return;
        };
        self.happens(if done {
            Event::Done { action, attempt }
        } else {
            let failure = Failure {
                cause: FailureCause::Timeout,
                what: String::new(),
            };
            Event::Failed {
                action,
                attempt,
                failure,
            }
        });
    }

    fn nth(&self, at: usize, among: impl Fn(&Phase) -> bool) -> Option<JobId> {
        let found = self.world().jobs().filter(|(_, state)| among(&state.phase));
        let all: Vec<JobId> = found.map(|(id, _)| id).collect();
        (!all.is_empty()).then(|| all[at % all.len()])
    }

    fn take(&mut self, step: &Step) {
        let running = |phase: &Phase| matches!(phase, Phase::Running { .. });
        match *step {
            Step::Comes(gpus, seconds, stops) => {
                let duration = seconds.map(|seconds| DurationEstimate {
                    expected: Nanoseconds(seconds * SECOND),
                    spread: 0.3,
                });
                let preemption = Preemption::Allowed {
                    checkpoint_every: Nanoseconds(SECOND),
                    restart: Nanoseconds(SECOND),
                };
                let one = Job {
                    duration,
                    submitted: self.now,
                    preemption: if stops { preemption } else { Preemption::Never },
                    ..job(self.next, 1, gpus, 1000)
                };
                self.next += 1;
                self.happens(Event::Submitted(one));
            }
            Step::Starts(at, done) => {
                let Some(job) = self.nth(at, |phase| phase.waits()) else {
                    return;
                };
                let worker = self.world().job(job).unwrap().job.worker;
                let nodes = (0..3).map(NodeId);
                let mut found =
                    nodes.filter_map(|id| fit::assignment(self.world(), id, &worker, Scope::Fleet));
                if let Some(found) = found.next() {
                    let assignments = vec![found.assignment];
                    self.does(Action::Place { job, assignments }, done);
                }
            }
            Step::Stops(at, done) => {
                if let Some(job) = self.nth(at, running) {
                    let cause = gpuwise_domain::placement::Cause::Reclaim;
                    self.does(Action::Preempt { job, cause }, Some(done));
                }
            }
            Step::Measured(at, busy_milli) => {
                if let Some(job) = self.nth(at, running) {
                    self.happens(Event::Measured { job, busy_milli });
                }
            }
            Step::Ends(at) => {
                if let Some(job) = self.nth(at, |_| true) {
                    let how = Ended::Finished;
                    self.happens(Event::Ended { job, how });
                }
            }
            Step::Later(seconds) => self.now.0 += seconds * SECOND,
            Step::Policy(bits) => set(&mut self.policy, bits),
            Step::Copy(true) => self.worlds.push(self.world().clone()),
            Step::Copy(false) if self.worlds.len() > 1 => drop(self.worlds.pop()),
            Step::Copy(false) => {}
        }
    }
}

proptest! {
    #[test]
    fn what_is_kept_wakes_when_a_walk_does(
        bits in 0..16_u8,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut stage = Stage {
            worlds: vec![World::new(&fleet(&[2, 3, 1]))],
            policy: Policy::new(Box::new(FirstFit)),
            now: Nanoseconds(0),
            next: 0,
        };
        set(&mut stage.policy, bits);
        for step in &steps {
            stage.take(step);
            let (world, now) = (stage.worlds.last().unwrap(), stage.now);
            let walked = walked(world, &stage.policy, now);
            prop_assert_eq!(wake_at(world, &mut stage.policy, now), walked);
        }
    }
}
