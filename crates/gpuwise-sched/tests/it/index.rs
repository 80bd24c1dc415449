//! What tournaments remember is what a look at every node finds, whatever happens in between, in a world
//! and in copies of it.

use crate::support::{asking, fleet, job};
use gpuwise_domain::placement::{
    Action, Ended, Event, GpuAsk, GpuId, Health, Isolation, JobId, KindId, Kinds, NodeId,
    TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::{
    decide::{Effort, ShortageIndex, shortage},
    disruption::{Disruptions, select_victims},
    fit,
    policy::{
        Alignment, BestFit, Clustering, DotProduct, GradientDescent, Indexed, NodeSelector,
        Packing, Score, Search, UsualAsks,
    },
    world::{StoredJob, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    /// A worker of this shape is placed on this node, if it fits.
    Place(usize, u32),
    /// The job at this place of those that run ends.
    End(usize),
    /// A node is drained, lost or up again.
    Node(u32, u8),
    /// A GPU is lost or up again.
    Gpu(u32, bool),
    /// What follows happens in a copy of the world, until it is left.
    Copy,
    /// The copy is left, and the world is as it was when it was made.
    Leave,
    /// Room is made for a worker of this shape and taken back; in a copy it is kept, and the policy looks at
    /// the copy first, where a GPU of the node is said to be up so many times more.
    Try(usize, u8),
    /// A shape is asked for.
    Ask(usize),
}

fn shapes() -> Vec<WorkerAsk> {
    let fraction = |milli, isolation| GpuAsk::Fraction {
        milli,
        memory_mib: None,
        isolation,
        kinds: Kinds::ANY,
    };
    let whole = |count, kinds| match job(0, 1, count, 1000).worker.gpu {
        GpuAsk::Whole { need, .. } => GpuAsk::Whole { count, kinds, need },
        other => other,
    };
    let gpus = [
        GpuAsk::None,
        fraction(250, Isolation::TimeSlice),
        fraction(600, Isolation::TimeSlice),
        fraction(400, Isolation::Mps),
        whole(1, Kinds::ANY),
        whole(2, Kinds::ANY),
        whole(1, Kinds::one(KindId(1))),
        whole(4, Kinds::one(KindId(0))),
    ];
    let ask = |(at, gpu): (u64, GpuAsk)| WorkerAsk {
        cpu_milli: 1000 + 1500 * (at % 4),
        memory_mib: 1024 * (1 + at),
        gpu,
    };
    (0..).zip(gpus).map(ask).collect()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..8_usize, 0..12_u32).prop_map(|(shape, node)| Step::Place(shape, node)),
        3 => (0..20_usize).prop_map(Step::End),
        1 => (0..12_u32, 0..3_u8).prop_map(|(node, health)| Step::Node(node, health)),
        1 => (0..40_u32, any::<bool>()).prop_map(|(gpu, up)| Step::Gpu(gpu, up)),
        1 => Just(Step::Copy),
        1 => Just(Step::Leave),
        2 => (0..8_usize, 0..3_u8).prop_map(|(shape, times)| Step::Try(shape, times)),
        8 => (0..8_usize).prop_map(Step::Ask),
    ]
}

/// Nodes of several sizes and two kinds, one of them in one node; one is larger than what is kept in a
/// few words.
fn world() -> World {
    let mut fleet = fleet(&[8, 8, 4, 2, 2, 1, 10, 4, 0, 2, 1, 8]);
    let mut other = fleet.kinds[0].clone();
    other.name = "B".into();
    other.memory_mib = None;
    fleet.kinds.push(other);
    for gpu in fleet.gpus.iter_mut().skip(17).step_by(2) {
        gpu.kind = KindId(1);
    }
    World::new(&fleet)
}

struct Stage {
    worlds: Vec<(World, Vec<JobId>)>,
    next: u32,
}

impl Stage {
    fn apply(&mut self, event: Event) -> bool {
        let (world, _) = self.worlds.last_mut().unwrap();
        let at = Nanoseconds(world.now().0 + 1);
        world.apply(&TimestampedEvent { at, event }).is_ok()
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Place(shape, node) => {
                let ask = shapes()[shape];
                let (world, _) = self.worlds.last().unwrap();
                let Some(found) = fit::assignment(world, NodeId(node), &ask, fit::Scope::Fleet)
                else {
                    return;
                };
                let mut job = job(self.next, 1, 1, 1000);
                self.next += 1;
                job.worker = ask;
                let id = job.id;
                self.apply(Event::Submitted(job));
                let assignments = vec![found.assignment];
                assert!(self.apply(Event::done(Action::Place {
                    job: id,
                    assignments
                })));
                self.worlds.last_mut().unwrap().1.push(id);
            }
            Step::End(at) => {
                let (_, jobs) = self.worlds.last_mut().unwrap();
                if !jobs.is_empty() {
                    let job = jobs.remove(at % jobs.len());
                    let how = Ended::Finished;
                    self.apply(Event::Ended { job, how });
                }
            }
            Step::Node(node, health) => {
                let health =
                    [Health::Up, Health::Draining, Health::Lost { xid: 79 }][usize::from(health)];
                let node = NodeId(node);
                self.apply(Event::NodeHealth { node, health });
            }
            Step::Gpu(gpu, up) => {
                let health = if up { Health::Up } else { Health::Maintenance };
                let gpu = GpuId(gpu);
                self.apply(Event::GpuHealth { gpu, health });
            }
            Step::Copy if self.worlds.len() < 4 => {
                self.worlds.push(self.worlds.last().unwrap().clone());
            }
            Step::Leave if self.worlds.len() > 1 => {
                self.worlds.pop();
            }
            Step::Copy | Step::Leave | Step::Try(..) | Step::Ask(_) => {}
        }
    }

    /// Makes room for a worker and takes it back; the copy in which it was kept.
    fn tried(&mut self, shape: usize, times: u8) -> Option<World> {
        let mut job = job(self.next, 1, 1, 1000);
        self.next += 1;
        job.worker = shapes()[shape];
        let id = job.id;
        self.apply(Event::Submitted(job));
        let (world, _) = self.worlds.last_mut().unwrap();
        let at = world.now();
        let mut copy = world.clone();
        let tried = select_victims(world, id, &Disruptions::USUAL, Effort::BARE, at);
        let how = Ended::Finished;
        self.apply(Event::Ended { job: id, how });
        kept(&mut copy, tried?.actions, times);
        Some(copy)
    }
}

/// Begins these in a world; the GPUs of who is placed are said to be up so many times more, which they were.
fn kept(world: &mut World, actions: Vec<Action>, times: u8) {
    let at = world.now();
    for action in actions {
        let seats = match &action {
            Action::Place { assignments, .. } => assignments.clone(),
            _ => Vec::new(),
        };
        let event = Event::begun(action);
        world.apply(&TimestampedEvent { at, event }).unwrap();
        for share in seats.iter().flat_map(|seat| &seat.gpus) {
            for _ in 0..times {
                let (gpu, health) = (share.gpu, Health::Up);
                let event = Event::GpuHealth { gpu, health };
                world.apply(&TimestampedEvent { at, event }).unwrap();
            }
        }
    }
}

fn check<S: Score + Send + Clone>(score: &S, steps: &[Step]) -> Result<(), TestCaseError> {
    let ranks = vec![7, 3, 11, 0, 5, 2, 9, 1, 4, 10, 6, 8];
    let mut indexed = Indexed::new(score.clone(), ranks.clone());
    let mut shortages = ShortageIndex::default();
    let mut stage = Stage {
        worlds: vec![(world(), Vec::new())],
        next: 0,
    };
    for step in steps {
        stage.take(step);
        if let Step::Try(shape, times) = *step
            && let Some(copy) = stage.tried(shape, times)
        {
            indexed.best(&copy, &shapes()[shape]);
        }
        if let Step::Ask(shape) | Step::Try(shape, _) = step {
            let (world, _) = stage.worlds.last().unwrap();
            let ask = shapes()[*shape];
            let without = [NodeId(1), NodeId(6)];
            for without in [&[][..], &without] {
                let search = Search {
                    without,
                    ..Search::EVERYWHERE
                };
                let found = indexed.select(world, &asking(&ask), search);
                let mut fresh = Indexed::new(score.clone(), ranks.clone());
                let scanned = fresh.select_by_scan(world, &ask, search);
                let assignment = |choice: Option<gpuwise_sched::policy::Choice>| {
                    choice.map(|choice| (choice.candidate, choice.weighed))
                };
                prop_assert_eq!(assignment(found), assignment(scanned));
            }
            for (cores, gib) in [(0, 0), (30_000, 0), (9000, 400)] {
                let mut asking = StoredJob::from(&job(0, 1, 1, 1000));
                asking.worker = ask;
                asking.worker.cpu_milli += cores;
                asking.worker.memory_mib += gib * 1024;
                if fit_somewhere(world, &asking.worker) {
                    continue;
                }
                let told = shortages.shortage(world, &asking);
                prop_assert_eq!(told, shortage(world, &asking));
            }
        }
    }
    Ok(())
}

fn fit_somewhere(world: &World, ask: &WorkerAsk) -> bool {
    let mut nodes = (0..world.nodes().len() as u32).map(NodeId);
    nodes.any(|id| fit::assignment(world, id, ask, fit::Scope::Fleet).is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_tournament_finds_what_a_scan_finds(
        steps in prop::collection::vec(step(), 1..80),
        which in 0..6_u8,
    ) {
        let demand: Vec<(WorkerAsk, u64)> = shapes().into_iter().zip((1..=8).rev()).collect();
        match which {
            0 => check(&BestFit, &steps)?,
            1 => check(&DotProduct, &steps)?,
            2 => check(&Alignment, &steps)?,
            3 => check(&Packing, &steps)?,
            4 => check(&Clustering::default(), &steps)?,
            _ => check(&GradientDescent::new(UsualAsks::new(&demand)), &steps)?,
        }
    }
}

/// What was tried for somebody and taken back is free again for an index that saw the same in a copy.
#[test]
fn what_was_tried_and_taken_back_is_free_again() {
    let mut world = World::new(&fleet(&[1]));
    let (at, asked) = (world.now(), job(0, 1, 1, 1000));
    let event = Event::Submitted(asked.clone());
    world.apply(&TimestampedEvent { at, event }).unwrap();
    let mut index = Indexed::<BestFit>::default();
    assert!(index.best(&world, &asked.worker).is_some());
    let mut copy = world.clone();
    // The search seats it twice, to find the place and then in the order of all actions, and takes both back: the
    // node changes as often as it does in the copy, and to the same.
    let victims = select_victims(&mut world, asked.id, &Disruptions::USUAL, Effort::BARE, at);
    kept(&mut copy, victims.unwrap().actions, 1);
    assert_eq!(index.best(&copy, &asked.worker), None);
    assert!(index.best(&world, &asked.worker).is_some());
}
