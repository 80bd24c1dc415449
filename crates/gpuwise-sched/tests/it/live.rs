//! What a world makes of executors that are late, say things twice, fail or see something else; of nodes
//! that do not answer, come, change and leave; and of jobs that change.

use super::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Attempt, Cause, DurationEstimate, Event, Failure, FailureCause, Fleet,
    FleetGpu, Gang, GpuId, GpuKind, GpuShare, Health, Home, Job, JobId, KindId, Kinds, Node,
    NodeId, Outcome, Part, Preemption, Queue, QueueId, Quota, Seen, Shortage, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, QUANTUM, decide, repair, wake_at},
    lint::{Limits, Rule, errors, lint, lint_world},
    policy::FirstFit,
    world::{Drift, FIRST, NODE_FAILURES, Phase, Refused, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// A world and what time it is there, in seconds.
struct Live {
    world: World,
    second: u64,
    policy: Policy,
}

impl Live {
    fn new(fleet: &Fleet) -> Self {
        Self {
            world: World::new(fleet),
            second: 0,
            policy: Policy::new(Box::new(FirstFit)),
        }
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.second * SECOND)
    }

    fn try_apply(&mut self, event: Event) -> Result<(), Refused> {
        let at = self.now();
        let result = self.world.apply(&TimestampedEvent { at, event });
        assert_eq!(lint_world(&self.world), Vec::new());
        result
    }

    fn apply(&mut self, event: Event) {
        self.try_apply(event).unwrap();
    }

    fn asks(&mut self, job: Job) {
        self.apply(Event::Submitted(job));
    }

    /// Decides on all, and takes the plan on; its actions with their numbers.
    fn decides(&mut self) -> Vec<(Action, Attempt)> {
        let demand: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        let now = self.now();
        let (plan, _) = decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        let notes = lint(&self.world, &plan, Limits::NONE);
        assert_eq!(errors(&notes).count(), 0, "{notes:?}");
        let first = self.world.attempts().0;
        self.world.accept(&plan).unwrap();
        let numbers = (first + 1..).map(Attempt);
        plan.actions.into_iter().zip(numbers).collect()
    }

    fn why(&mut self, id: u32) -> Shortage {
        let now = self.now();
        let demand = [JobId(id)];
        let (_, report) = decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        match &report.decisions[0].outcome {
            Outcome::Waits { shortage, .. } => *shortage,
            Outcome::Placed => panic!("it is placed"),
        }
    }

    fn begins(&mut self, action: Action) -> Attempt {
        self.apply(Event::begun(action));
        self.world.attempts()
    }

    fn done(&mut self, action: &Action, attempt: Attempt) {
        let action = action.clone();
        self.apply(Event::Done { action, attempt });
    }

    fn fails(&mut self, action: &Action, attempt: Attempt) {
        self.apply(failed(action, attempt));
    }

    /// Places all that wait, at once.
    fn runs(&mut self) {
        for (action, attempt) in self.decides() {
            self.done(&action, attempt);
        }
    }

    fn phase(&self, id: u32) -> Phase {
        self.world.job(JobId(id)).unwrap().phase
    }

    fn on(&self, id: u32) -> Vec<u32> {
        let seats = &self.world.job(JobId(id)).unwrap().assignments;
        seats.iter().map(|one| one.node.0).collect()
    }
}

fn failed(action: &Action, attempt: Attempt) -> Event {
    Event::Failed {
        action: action.clone(),
        attempt,
        failure: Failure {
            cause: FailureCause::Timeout,
            what: "no answer in 60 s".into(),
        },
    }
}

const fn preempt(job: u32) -> Action {
    Action::Preempt {
        job: JobId(job),
        cause: Cause::RoundEnd,
    }
}

fn place(job: u32, node: u32, gpus: &[u32]) -> Action {
    Action::Place {
        job: JobId(job),
        assignments: vec![seat(node, gpus)],
    }
}

fn seat(node: u32, gpus: &[u32]) -> Assignment {
    let whole = |gpu: &u32| GpuShare {
        gpu: GpuId(*gpu),
        part: Part::Whole,
    };
    Assignment {
        node: NodeId(node),
        gpus: gpus.iter().map(whole).collect(),
    }
}

fn stoppable(job: Job) -> Job {
    let minute = Nanoseconds(60 * SECOND);
    Job {
        preemption: Preemption::Allowed {
            checkpoint_every: minute,
            restart: minute,
        },
        ..job
    }
}

#[test]
fn what_comes_late_or_twice_is_counted_and_seats_nobody() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    let (start, first) = live.decides().remove(0);
    live.fails(&start, first);
    assert!(live.phase(0).waits());
    // The start that failed is told to be done after all, and failed again.
    live.done(&start, first);
    live.fails(&start, first);
    assert!(live.phase(0).waits());
    assert_eq!(live.world.ignored().repeated, 2);
    live.second = 60;
    let (start, second) = live.decides().remove(0);
    assert!(second > first);
    live.done(&start, first);
    assert_eq!(live.world.ignored().late, 1);
    assert!(matches!(live.phase(0), Phase::Starting { .. }));
    live.done(&start, second);
    live.apply(Event::Begun {
        action: start.clone(),
        attempt: second,
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    live.apply(Event::Ended {
        job: JobId(0),
        how: gpuwise_domain::placement::Ended::Finished,
    });
    // Another job under the old number knows nothing of it.
    live.asks(job(0, 1, 1, 1000));
    live.done(&start, second);
    assert!(live.phase(0).waits());
    live.apply(Event::Measured {
        job: JobId(7),
        busy_milli: 1,
    });
    assert_eq!(live.world.ignored().unknown, 1);
}

#[test]
fn what_is_done_before_its_beginning_is_heard_of_has_begun() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    live.done(&place(0, 0, &[0]), Attempt(1));
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    let action = place(0, 0, &[0]);
    live.apply(Event::Begun {
        action,
        attempt: Attempt(1),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    // What cannot have been done as far as is known is counted.
    live.asks(job(1, 1, 1, 1000));
    live.done(&place(1, 0, &[0]), Attempt(2));
    assert_eq!(live.world.ignored().unexpected, 1);
    assert!(live.phase(1).waits());
}

#[test]
fn a_failed_start_is_tried_elsewhere_and_later_there() {
    let mut live = Live::new(&fleet(&[1, 1]));
    live.asks(job(0, 1, 1, 1000));
    let (start, attempt) = live.decides().remove(0);
    live.fails(&start, attempt);
    // At once on the other node.
    let (start, attempt) = live.decides().remove(0);
    assert_eq!(live.on(0), vec![1]);
    live.fails(&start, attempt);
    // Then nowhere for twice the first wait.
    assert!(live.decides().is_empty());
    let until = Nanoseconds(2 * FIRST.0);
    assert_eq!(live.why(0), Shortage::BackOff { until });
    let now = live.now();
    assert_eq!(wake_at(&live.world, &mut live.policy, now), Some(until));
    live.second = until.0 / SECOND;
    // The first node is avoided for as long; the second for twice that.
    let (start, attempt) = live.decides().remove(0);
    assert_eq!(live.on(0), vec![0]);
    live.done(&start, attempt);
    assert!(live.world.job(JobId(0)).unwrap().trouble().is_none());
}

#[test]
fn a_node_where_one_after_the_other_fails_is_closed_for_a_while() {
    let mut live = Live::new(&fleet(&[1, 1]));
    for id in 0..NODE_FAILURES {
        live.asks(job(id, 1, 1, 1000));
        let attempt = live.begins(place(id, 0, &[0]));
        live.fails(&place(id, 0, &[0]), attempt);
        let (job, held) = (JobId(id), true);
        live.apply(Event::Held { job, held });
    }
    assert!(!live.world.node(NodeId(0)).unwrap().takes_work());
    live.asks(job(9, 1, 1, 1000));
    live.runs();
    assert_eq!(live.on(9), vec![1]);
    live.second = FIRST.0 / SECOND;
    live.asks(job(10, 1, 1, 1000));
    live.runs();
    assert!(live.world.node(NodeId(0)).unwrap().takes_work());
}

#[test]
fn who_does_not_stop_keeps_its_gpu_and_who_counted_on_it_waits() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(job(1, 1, 1, 1000));
    let stop = live.begins(preempt(0));
    let start = live.begins(place(1, 0, &[0]));
    assert!(!live.world.can_start(&place(1, 0, &[0])));
    live.fails(&preempt(0), stop);
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert_eq!(live.on(0), vec![0]);
    assert!(live.phase(1).waits());
    // Its start is over; its failure is not its own.
    live.done(&place(1, 0, &[0]), start);
    assert!(live.phase(1).waits() && live.world.job(JobId(1)).unwrap().trouble().is_none());
    // It is not told again at once.
    let state = live.world.job(JobId(0)).unwrap();
    assert!(!live.world.may_disrupt(state, live.now()));
    assert!(live.world.may_disrupt(state, FIRST));
    // It has stopped after all: that counts.
    live.done(&preempt(0), stop);
    assert!(live.phase(0).waits());
    assert!(!live.world.job(JobId(0)).unwrap().stopping);
    assert_eq!(live.world.figures().allocated_milli, 0);
}

#[test]
fn a_failed_move_or_resize_goes_on_where_it_was() {
    let mut live = Live::new(&fleet(&[2, 2]));
    let elastic = Gang {
        least: 1,
        preferred: 1,
        most: 2,
    };
    live.asks(stoppable(Job {
        gang: elastic,
        ..job(0, 1, 2, 1000)
    }));
    live.runs();
    live.second = 100;
    let moves = Action::Move {
        job: JobId(0),
        assignments: vec![seat(1, &[2, 3])],
        cause: Cause::Defragmentation,
    };
    let attempt = live.begins(moves.clone());
    // Somebody counts on its old place.
    live.asks(job(1, 1, 2, 1000));
    let waits = live.begins(place(1, 0, &[0, 1]));
    live.fails(&moves, attempt);
    assert_eq!(live.on(0), vec![0]);
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.phase(1).waits());
    live.done(&place(1, 0, &[0, 1]), waits);
    assert!(live.phase(1).waits());
    assert_eq!(live.world.done_by(live.now(), JobId(0)), live.now());
    live.second = 200;
    let grows = Action::Resize {
        job: JobId(0),
        assignments: vec![seat(0, &[0, 1]), seat(1, &[2, 3])],
    };
    let attempt = live.begins(grows.clone());
    live.fails(&grows, attempt);
    assert_eq!(live.on(0), vec![0]);
}

#[test]
fn what_was_called_off_is_nobodys_fault() {
    let mut live = Live::new(&fleet(&[1]));
    let patient = Job {
        grace: Nanoseconds(30 * SECOND),
        ..job(0, 1, 1, 1000)
    };
    live.asks(stoppable(patient));
    live.runs();
    live.second = 10;
    let attempt = live.begins(preempt(0));
    let task = live.world.under_way().remove(0);
    assert_eq!(task.deadline, Some(Nanoseconds(40 * SECOND)));
    live.apply(Event::Withdrawn {
        action: preempt(0),
        attempt,
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.world.job(JobId(0)).unwrap().trouble().is_none());
    // What such actions took is what they are expected to take.
    let attempt = live.begins(preempt(0));
    live.second = 18;
    live.done(&preempt(0), attempt);
    assert_eq!(
        live.world.expected(&preempt(0)),
        Some(Nanoseconds(8 * SECOND))
    );
}

#[test]
fn nothing_of_a_suspected_node_starts_elsewhere_until_it_is_fenced() {
    let mut live = Live::new(&fleet(&[1, 1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    let (node, by) = (NodeId(0), "heartbeat".to_owned());
    live.apply(Event::NodeSuspected { node, by });
    assert!(live.decides().is_empty());
    assert_eq!(live.on(0), vec![0]);
    // Told to stop it cannot say that it has.
    live.begins(preempt(0));
    assert_eq!(live.why(0), Shortage::Unfenced { node });
    assert!(live.decides().is_empty());
    live.second = 5;
    let by = "power switch".to_owned();
    live.apply(Event::NodeFenced {
        node,
        by: by.clone(),
    });
    let fence = live.world.node(node).unwrap().fence().unwrap().clone();
    assert_eq!(
        (fence.suspected_by.as_str(), fence.fenced),
        ("heartbeat", Some((live.now(), by)))
    );
    live.runs();
    assert_eq!(live.on(0), vec![1]);
    // Good news alone does not bring it back.
    live.apply(Event::NodeHealth {
        node,
        health: Health::Up,
    });
    assert_eq!(live.world.ignored().fenced, 1);
    assert!(!live.world.node(node).unwrap().takes_work());
    let fleet = fleet(&[1, 1]);
    let gpus = vec![fleet.gpus[0].clone()];
    live.apply(Event::NodeJoined {
        node: fleet.nodes[0].clone(),
        gpus,
    });
    assert!(live.world.node(node).unwrap().takes_work());
    assert_eq!((live.world.nodes().len(), live.world.gpus().len()), (2, 2));
}

#[test]
fn a_suspicion_that_was_wrong_disturbs_nobody() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    live.runs();
    let node = NodeId(0);
    live.apply(Event::NodeHealth {
        node,
        health: Health::Lost { xid: 0 },
    });
    assert!(live.world.node(node).unwrap().is_suspected());
    live.apply(Event::NodeHealth {
        node,
        health: Health::Up,
    });
    assert!(live.world.node(node).unwrap().takes_work());
    assert!(matches!(live.phase(0), Phase::Running { .. }));
}

#[test]
fn what_a_gang_has_left_is_stopped_before_it_starts_again() {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    live.asks(job(0, 2, 1, 1000));
    live.runs();
    assert_eq!(live.on(0), vec![0, 1]);
    let (node, by) = (NodeId(0), "x".to_owned());
    live.apply(Event::NodeFenced { node, by });
    let task = live.world.under_way().remove(0);
    assert_eq!(
        task.action,
        Action::Preempt {
            job: JobId(0),
            cause: Cause::Lost
        }
    );
    let start = live.decides().remove(0);
    assert!(!live.world.can_start(&start.0));
    live.done(&task.action, task.attempt);
    assert!(live.world.can_start(&start.0));
}

#[test]
fn an_elastic_job_goes_on_without_the_worker_that_it_lost() {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    let elastic = Gang {
        least: 2,
        preferred: 3,
        most: 3,
    };
    live.asks(Job {
        gang: elastic,
        ..job(0, 3, 1, 1000)
    });
    live.runs();
    let lost = seat(1, &[1]);
    live.apply(Event::WorkerLost {
        job: JobId(0),
        assignment: lost.clone(),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert_eq!(live.on(0), vec![0, 2]);
    live.apply(Event::WorkerLost {
        job: JobId(0),
        assignment: lost,
    });
    assert_eq!(live.world.ignored().repeated, 1);
    live.apply(Event::GpuHealth {
        gpu: GpuId(2),
        health: Health::Lost { xid: 79 },
    });
    assert!(live.phase(0).waits());
    assert!(live.world.job(JobId(0)).unwrap().stopping);
}

#[test]
fn what_is_seen_is_held_against_what_was_wanted() {
    let mut live = Live::new(&fleet(&[2]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(stoppable(job(1, 1, 1, 1000)));
    live.second = 10;
    let whole = |gpu| {
        vec![GpuShare {
            gpu: GpuId(gpu),
            part: Part::Whole,
        }]
    };
    let node = NodeId(0);
    let sees = |live: &mut Live, seen: Vec<Seen>| {
        let seen_at = live.now();
        live.second += 1;
        live.apply(Event::Observed {
            node,
            seen_at,
            seen,
        });
    };
    let first = Seen {
        job: JobId(0),
        gpus: whole(0),
    };
    // Job 1 is seen though it was never placed, and somebody whom nobody knows.
    let stray = Seen {
        job: JobId(1),
        gpus: whole(1),
    };
    sees(&mut live, vec![first.clone(), stray]);
    let drift: Vec<_> = live.world.drift().map(|(_, all)| all.to_vec()).collect();
    assert_eq!(drift, vec![vec![Drift::Stray(JobId(1))]]);
    assert_eq!(live.why(1), Shortage::Leaving);
    // Nothing is done by surprise: a plan stops it.
    assert!(live.world.under_way().is_empty());
    let plan = repair(live.now(), &live.world);
    assert_eq!(
        plan.actions,
        vec![Action::Preempt {
            job: JobId(1),
            cause: Cause::Drift
        }]
    );
    assert_eq!(errors(&lint(&live.world, &plan, Limits::NONE)).count(), 0);
    live.world.accept(&plan).unwrap();
    live.second += 1;
    sees(&mut live, vec![first.clone()]);
    assert!(!live.world.job(JobId(1)).unwrap().stopping);
    assert_eq!(live.world.drift().count(), 0);
    let unknown = Seen {
        job: JobId(99),
        gpus: whole(1),
    };
    sees(&mut live, vec![first, unknown]);
    assert!(live.decides().is_empty(), "somebody is on the other GPU");
    // A worker that is not there is lost.
    sees(&mut live, Vec::new());
    assert!(live.phase(0).waits());
    live.runs();
    assert_eq!((live.on(0), live.on(1)), (vec![0], vec![0]));
}

#[test]
fn a_lost_word_of_a_stop_is_made_up_for_by_what_is_seen() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(job(1, 1, 1, 1000));
    live.begins(preempt(0));
    live.begins(place(1, 0, &[0]));
    live.second = 5;
    live.apply(Event::Observed {
        node: NodeId(0),
        seen_at: live.now(),
        seen: Vec::new(),
    });
    assert!(live.world.can_start(&place(1, 0, &[0])));
}

#[test]
fn nodes_change_leave_and_come_back_and_quotas_follow() {
    let mut there = fleet(&[2, 2]);
    there.queues = vec![Queue {
        name: "q".into(),
        parent: None,
        quotas: vec![Quota {
            kinds: Kinds::ANY,
            nominal_milli: 4000,
            borrowing_milli: None,
            lending_milli: None,
            cap_milli: None,
        }],
        weight_milli: 1000,
        priority: 0,
        reclaims: false,
        budget: None,
        used_milli: 0,
    }];
    let mut live = Live::new(&there);
    let queued = |id| Job {
        queue: Some(QueueId(0)),
        ..job(id, 1, 2, 1000)
    };
    live.asks(queued(0));
    live.asks(queued(1));
    live.runs();
    let capacity = |live: &Live| live.world.shares().capacity(0);
    assert_eq!(capacity(&live), 4000);
    live.apply(Event::NodeLeft { node: NodeId(1) });
    live.apply(Event::NodeLeft { node: NodeId(1) });
    assert_eq!((capacity(&live), live.phase(1).waits()), (2000, true));
    assert_eq!(live.world.figures().capacity_milli, 2000);
    // It is back with one GPU replaced by another, of a new kind.
    live.apply(Event::KindAdded(GpuKind::named("new")));
    let gpu = |uid: &str, kind| FleetGpu {
        uid: uid.into(),
        ..FleetGpu::new(KindId(kind), Home::Node(NodeId(1)), 0)
    };
    let node = Node {
        gpus: Vec::new(),
        ..there.nodes[1].clone()
    };
    let old = live.world.gpu(GpuId(2)).unwrap().gpu.uid.clone();
    let gpus = vec![gpu(&old, 0), gpu("GPU-new", 1)];
    live.apply(Event::NodeJoined {
        node: node.clone(),
        gpus: gpus.clone(),
    });
    let own = live.world.node(NodeId(1)).unwrap().gpus.clone();
    assert_eq!(own, vec![GpuId(2), GpuId(4)]);
    assert_eq!(
        (capacity(&live), live.world.shares().capacity(1)),
        (3000, 1000)
    );
    let before = live.world.ignored().repeated;
    live.apply(Event::NodeJoined { node, gpus });
    assert_eq!(live.world.ignored().repeated, before + 1);
    // Two of one id, a kind that is not there, another kind of one name.
    let twice = vec![gpu("GPU-a", 0), gpu("GPU-a", 0)];
    let named = |name: &str| Node {
        name: name.into(),
        ..Node::default()
    };
    for (gpus, refused) in [
        (twice, Refused::Second("GPU")),
        (vec![gpu("GPU-b", 9)], Refused::Dangling("kind of GPU")),
    ] {
        let event = Event::NodeJoined {
            node: named("c"),
            gpus,
        };
        assert_eq!(live.try_apply(event), Err(refused));
    }
    let other = GpuKind {
        memory_mib: Some(1),
        ..GpuKind::named("new")
    };
    let refused = live.try_apply(Event::KindAdded(other));
    assert_eq!(refused, Err(Refused::Second("kind of GPU")));
    // A GPU that moves to another node leaves the first; who ran on it waits.
    let moved = vec![gpu(&live.world.gpu(GpuId(0)).unwrap().gpu.uid.clone(), 0)];
    live.apply(Event::NodeJoined {
        node: named("c"),
        gpus: moved,
    });
    assert_eq!(live.world.node(NodeId(0)).unwrap().gpus, vec![GpuId(1)]);
    assert!(live.phase(0).waits());
    assert_eq!(live.world.gpu(GpuId(0)).unwrap().node, Some(NodeId(2)));
}

#[test]
fn a_smaller_node_keeps_who_came_first() {
    let there = fleet(&[2]);
    let mut live = Live::new(&there);
    for id in 0..2 {
        let mut asked = job(id, 1, 1, 1000);
        asked.worker.cpu_milli = 8000;
        live.asks(asked);
        live.runs();
    }
    let node = Node {
        cpu_milli: 9000,
        ..there.nodes[0].clone()
    };
    live.apply(Event::NodeJoined {
        node,
        gpus: there.gpus.clone(),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.phase(1).waits());
}

#[test]
fn jobs_change_while_they_wait_and_while_they_run() {
    let mut live = Live::new(&fleet(&[1, 2]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.apply(Event::Held {
        job: JobId(0),
        held: true,
    });
    assert_eq!(live.why(0), Shortage::Held);
    assert!(live.decides().is_empty());
    let mut plan = decide(live.now(), &live.world, &[], &mut live.policy, Effort::BARE).0;
    plan.actions.push(place(0, 0, &[0]));
    let notes = lint(&live.world, &plan, Limits::NONE);
    assert!(
        errors(&notes).any(|note| note.rule == Rule::BackOff),
        "{notes:?}"
    );
    live.apply(Event::Held {
        job: JobId(0),
        held: false,
    });
    live.runs();
    assert_eq!(live.on(0), vec![0]);
    // It asks for two GPUs from its next start on.
    let mut larger = stoppable(job(0, 1, 2, 1000));
    larger.priority = 7;
    live.apply(Event::JobSet(larger));
    assert_eq!(live.world.job(JobId(0)).unwrap().job.priority, 7);
    live.second = 90;
    live.apply(Event::Checkpointed { job: JobId(0) });
    live.second = 100;
    let attempt = live.begins(preempt(0));
    live.done(&preempt(0), attempt);
    // What it saved itself counts, not the last whole minute.
    assert_eq!(
        live.world.job(JobId(0)).unwrap().done,
        Nanoseconds(90 * SECOND)
    );
    live.runs();
    assert_eq!(live.on(0), vec![1]);
}

/// Outcomes of a plan that stops two and starts two in their places, in this order, and some of them again.
fn told(order: &[usize], again: &[usize]) -> World {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    for id in 0..3 {
        live.asks(stoppable(job(id, 1, 1, 1000)));
    }
    live.runs();
    for id in 3..5 {
        live.asks(stoppable(job(id, 1, 1, 1000)));
    }
    live.second = 7;
    let moves = Action::Move {
        job: JobId(2),
        assignments: vec![seat(0, &[0])],
        cause: Cause::Defragmentation,
    };
    let actions = [
        preempt(0),
        preempt(1),
        moves,
        place(3, 1, &[1]),
        place(4, 2, &[2]),
    ];
    let mut outcomes = Vec::new();
    for action in actions {
        let attempt = live.begins(action.clone());
        outcomes.push(Event::Done { action, attempt });
    }
    outcomes[1] = match outcomes[1].clone() {
        Event::Done { action, attempt } => failed(&action, attempt),
        other => other,
    };
    // Whoever was to start in the place of the one that did not stop is called off.
    for at in order.iter().chain(again) {
        if *at != 3 {
            live.apply(outcomes[*at].clone());
        }
    }
    live.world
}

proptest! {
    /// Outcomes in any order, and some of them twice, come to what they come to in order.
    #[test]
    fn in_whatever_order_outcomes_come_they_come_to_the_same(
        order in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        again in prop::collection::vec(0_usize..5, 0..8),
    ) {
        let clean = told(&[0, 1, 2, 3, 4], &[]);
        let world = told(&order, &again);
        prop_assert!(clean.jobs().eq(world.jobs()));
        prop_assert!(clean.gpus().iter().eq(world.gpus().iter()));
        prop_assert!(clean.nodes().iter().eq(world.nodes().iter()));
        let twice = again.iter().filter(|at| **at != 3).count() as u64;
        prop_assert_eq!(world.ignored().total(), twice);
    }

    /// Between a decision that was carried out and the moment at which time alone may change it, deciding
    /// again gives nothing.
    #[test]
    fn nothing_is_decided_before_its_time(
        asks in prop::collection::vec((1_u32..4, 1_u64..300, any::<bool>()), 1..12),
        (backfills, starves) in (any::<bool>(), any::<bool>()),
        parts in prop::collection::vec(0_u64..1000, 1..20),
    ) {
        let mut live = Live::new(&fleet(&[2, 3]));
        live.policy.limits.reservations = u32::from(backfills);
        live.policy.limits.starvation_timeout = starves.then_some(Nanoseconds(150 * SECOND));
        for ((gpus, seconds, fails), id) in asks.iter().zip(0..) {
            let duration = Some(DurationEstimate {
                expected: Nanoseconds(seconds * SECOND),
                spread: 0.0,
            });
            let submitted = live.now();
            live.asks(Job {
                duration,
                submitted,
                ..job(id, 1, *gpus, 1000)
            });
            for (action, attempt) in live.decides() {
                if *fails {
                    live.fails(&action, attempt);
                } else {
                    live.done(&action, attempt);
                }
            }
            live.second += 3;
        }
        for part in parts {
            for (action, attempt) in live.decides() {
                live.done(&action, attempt);
            }
            let now = live.now();
            let Some(wake) = wake_at(&live.world, &mut live.policy, now) else { break };
            prop_assert!(wake > now);
            live.second = wake.0.div_ceil(SECOND);
            if wake == now + QUANTUM {
                // Somebody is overdue, and what is planned around him moves with every moment.
                continue;
            }
            let between = Nanoseconds(now.0 + (wake.0 - 1 - now.0) * part / 1000);
            let demand: Vec<JobId> = live.world.jobs().map(|(id, _)| id).collect();
            let (plan, _) = decide(between, &live.world, &demand, &mut live.policy, Effort::BARE);
            prop_assert_eq!(plan.actions, Vec::new());
        }
    }
}
