//! What decides is in the world: asking why moves no later decision, and a run cut in two decides as one
//! in one piece.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Ended, Event, Fleet, FleetGpu, Gang, Health, Home, JobId, KindId, Node, NodeId, Plan,
    Preemption, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    disruption::{Budget, Disruptions, Tidy, tidy},
    policy::{PolicyContext, named, names},
    report::deepen,
    rounds::{MeasuredPair, Pairs, Rounds},
    world::World,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

/// Enough to find what helps on fleets so small.
const WHY: Effort = Effort {
    steps: 300,
    explains: true,
};

/// A budget that is soon spent, and that some of it is back before the end of a run.
const TIDY: Tidy = Tidy {
    evacuate: true,
    detach_after: None,
    grow: true,
    defragment: Some(Budget {
        disruptions: 2,
        lost: Nanoseconds(1_000_000),
        per: Nanoseconds(20_000_000),
        horizon: Nanoseconds(1_000_000_000),
    }),
};

#[derive(Debug, Clone)]
enum Step {
    /// Workers, GPUs of each, thousandths, cores and priority.
    Ask(u32, u32, u32, u64, i32),
    /// One of those that run ends.
    End(prop::sample::Index),
    /// A node is lost, or up again.
    Turn(prop::sample::Index),
    /// A node of the second kind joins, with so many GPUs.
    Join(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let milli = prop::sample::select(vec![150_u32, 300, 450, 550, 700, 1000, 1000]);
    let ask = (1_u32..3, 1_u32..4, milli, 1_u64..9, 0_i32..3);
    let step = prop_oneof![
        12 => ask.prop_map(|(workers, gpus, milli, cores, priority)| {
            Step::Ask(workers, gpus, milli, cores, priority)
        }),
        4 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => any::<prop::sample::Index>().prop_map(Step::Turn),
        1 => (1_u32..5).prop_map(Step::Join),
    ];
    prop::collection::vec(step, 30..70)
}

fn two_kinds(sizes: &[u32]) -> Fleet {
    let mut fleet = fleet(sizes);
    let mut other = fleet.kinds[0].clone();
    other.name = "B".into();
    fleet.kinds.push(other);
    fleet
}

/// What moves a world.
#[derive(Debug, Clone)]
enum Entry {
    Event(Box<TimestampedEvent>),
    Plan(Plan),
}

fn rebuilt(fleet: &Fleet, log: &[Entry]) -> World {
    let mut world = World::new(fleet);
    for entry in log {
        match entry {
            Entry::Event(event) => world.apply(event).unwrap(),
            Entry::Plan(plan) => world.accept(plan).unwrap(),
        }
    }
    world
}

fn policy(name: &str, preempts: bool) -> Policy {
    let disruptions = if preempts {
        Disruptions::USUAL
    } else {
        Disruptions::NONE
    };
    // Rounds of seven steps, where jobs may be stopped.
    let length = Nanoseconds(7_000_000);
    Policy {
        disruptions,
        rounds: preempts.then_some(Rounds { length }),
        pairs: Pairs(vec![MeasuredPair {
            jobs: ["job *".into(), "job *".into()],
            gpu: "A".into(),
            speeds_milli: [800, 650],
        }]),
        ..Policy::new(named(name, &PolicyContext::default()).unwrap())
    }
}

fn event_of(step: &Step, id: u32, world: &World) -> Option<Event> {
    Some(match step {
        Step::Ask(workers, gpus, milli, cores, priority) => {
            let mut asked = job(id, *workers, *gpus, *milli);
            asked.worker.cpu_milli = cores * 1000;
            asked.priority = *priority;
            asked.gang = Gang::exactly(*workers);
            asked.preemption = Preemption::Allowed {
                checkpoint_every: Nanoseconds(1000),
                restart: Nanoseconds(10),
            };
            Event::Submitted(asked)
        }
        Step::End(which) => {
            let running = world.jobs().filter(|(_, state)| state.phase.holds_gpus());
            let running: Vec<JobId> = running.map(|(id, _)| id).collect();
            let job = *running.get(which.index(running.len().max(1)))?;
            let how = Ended::Finished;
            Event::Ended { job, how }
        }
        Step::Turn(which) => {
            let node = NodeId(which.index(world.nodes().len()) as u32);
            let health = match world.node(node)?.node.health {
                Health::Up => Health::Lost { xid: 79 },
                _ => Health::Up,
            };
            Event::NodeHealth { node, health }
        }
        Step::Join(gpus) => joins(world, *gpus, KindId(1)),
    })
}

fn joins(world: &World, gpus: u32, kind: KindId) -> Event {
    let mut template = fleet(&[gpus]);
    let node = NodeId(world.nodes().len() as u32);
    let mut members: Vec<FleetGpu> = std::mem::take(&mut template.gpus);
    for gpu in &mut members {
        (gpu.kind, gpu.home) = (kind, Home::Node(node));
    }
    Event::NodeJoined {
        node: Node {
            name: format!("joined-{}", node.0),
            ..template.nodes.remove(0)
        },
        gpus: members,
    }
}

/// Ends actions as soon as each can start; those whose subject is gone are dropped.
fn carried_out(world: &mut World, at: Nanoseconds, mut actions: Vec<Action>) -> Vec<Entry> {
    let mut log = Vec::new();
    loop {
        actions.retain(|action| world.is_under_way(action));
        let Some(next) = actions.iter().position(|action| world.can_start(action)) else {
            return log;
        };
        let event = Event::done(actions.remove(next));
        let event = TimestampedEvent { at, event };
        world.apply(&event).unwrap();
        log.push(Entry::Event(Box::new(event)));
    }
}

/// How a run goes on after an event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Between {
    Nothing,
    /// Everybody who waits is told why, and what would help.
    Asked,
    /// The world is made anew of its events, and the policy anew.
    Cut,
    /// The world is written down and read again, and the policy is made anew.
    Saved,
}

fn plans(
    name: &str,
    fleet: &Fleet,
    steps: &[Step],
    preempts: bool,
    between: impl Fn(usize) -> Between,
) -> Vec<Vec<Action>> {
    let mut world = World::new(fleet);
    let mut policy = self::policy(name, preempts);
    let mut log: Vec<Entry> = Vec::new();
    let mut plans = Vec::new();
    for (step, at) in steps.iter().zip(0..) {
        let now = Nanoseconds(1_000_000 * u64::from(at));
        let Some(event) = event_of(step, at, &world) else {
            continue;
        };
        let event = TimestampedEvent { at: now, event };
        world.apply(&event).unwrap();
        log.push(Entry::Event(Box::new(event)));
        let demand: Vec<JobId> = world.jobs().map(|(id, _)| id).collect();
        let (plan, mut report) = decide(
            now,
            &world,
            &demand,
            &mut policy,
            Effort {
                explains: false,
                ..WHY
            },
        );
        world.accept(&plan).unwrap();
        log.push(Entry::Plan(plan.clone()));
        log.extend(carried_out(&mut world, now, plan.actions.clone()));
        plans.push(plan.actions);
        let (plan, _) = tidy(now, &world, &TIDY, WHY);
        if !plan.actions.is_empty() {
            world.accept(&plan).unwrap();
            log.push(Entry::Plan(plan.clone()));
            log.extend(carried_out(&mut world, now, plan.actions.clone()));
            plans.push(plan.actions);
        }
        match between(at as usize) {
            Between::Nothing => {}
            Between::Asked => {
                deepen(&world, &mut report, &mut policy, WHY, 2);
                // On copies of the fleet to which other nodes were added.
                for (gpus, kind) in [(2, KindId(0)), (2, KindId(1)), (7, KindId(1))] {
                    let mut copy = world.clone();
                    let event = joins(&world, gpus, kind);
                    copy.apply(&TimestampedEvent { at: now, event }).unwrap();
                    let (_, report) = decide(now, &copy, &demand, &mut policy, WHY);
                    assert!(report.decisions.len() <= demand.len());
                }
            }
            Between::Cut => {
                let anew = rebuilt(fleet, &log);
                assert_eq!(anew, world);
                world = anew;
                policy = self::policy(name, preempts);
            }
            Between::Saved => {
                let bytes = postcard::to_allocvec(&world).unwrap();
                world = postcard::from_bytes(&bytes).unwrap();
                policy = self::policy(name, preempts);
            }
        }
    }
    plans
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn asking_why_changes_no_later_decision(
        sizes in prop::collection::vec(1_u32..5, 2..6),
        steps in steps(),
        preempts in any::<bool>(),
        every in 1_usize..5,
    ) {
        let fleet = two_kinds(&sizes);
        for name in names() {
            let plain = plans(name, &fleet, &steps, preempts, |_| Between::Nothing);
            let asked = plans(name, &fleet, &steps, preempts, |at| {
                if at % every == 0 { Between::Asked } else { Between::Nothing }
            });
            prop_assert_eq!(plain, asked, "{}", name);
        }
    }

    #[test]
    fn a_run_cut_in_two_decides_as_one_in_one_piece(
        sizes in prop::collection::vec(1_u32..5, 2..6),
        steps in steps(),
        preempts in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let fleet = two_kinds(&sizes);
        let cut = cut.index(steps.len());
        for name in names() {
            let plain = plans(name, &fleet, &steps, preempts, |_| Between::Nothing);
            for how in [Between::Cut, Between::Saved] {
                let pieces = plans(name, &fleet, &steps, preempts, |at| {
                    if at == cut { how } else { Between::Nothing }
                });
                prop_assert_eq!(&plain, &pieces, "{} {:?}", name, how);
            }
        }
    }
}
