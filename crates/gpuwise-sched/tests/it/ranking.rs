//! What policy gpuwise keeps from one look to the next finds what it finds node by node.

use crate::support::{asking, fleet, job};
use gpuwise_domain::placement::{
    Action, Ended, Event, GpuAsk, Isolation, JobId, Kinds, Need, NodeId, TimestampedEvent,
    WorkerAsk,
};
use gpuwise_sched::{
    fit::Scope,
    policy::{Choice, ForecastPacking, NodeSelector, Search},
    world::World,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// So many workers of a shape are placed one after the other, as a gang's are, none on this node.
    Gang(usize, u32, u32),
    /// The job at this place of those that run ends.
    End(usize),
    /// What follows happens in a copy of the world, until it is left.
    Copy,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_usize, 1..7_u32, 0..60_u32)
            .prop_map(|(shape, workers, closed)| Step::Gang(shape, workers, closed)),
        4 => (0..40_usize).prop_map(Step::End),
        1 => Just(Step::Copy),
        1 => Just(Step::Leave),
    ]
}

fn shapes() -> Vec<WorkerAsk> {
    let whole = |count| GpuAsk::Whole {
        count,
        kinds: Kinds::ANY,
        need: Need::default(),
    };
    let part = |milli| GpuAsk::Fraction {
        milli,
        memory_mib: None,
        isolation: Isolation::TimeSlice,
        kinds: Kinds::ANY,
    };
    let gpus = [
        whole(1),
        whole(2),
        whole(4),
        part(300),
        part(550),
        GpuAsk::None,
    ];
    let ask = |(at, gpu): (u64, GpuAsk)| WorkerAsk {
        cpu_milli: 1500 + 2500 * (at % 3),
        memory_mib: 1024 * (1 + at),
        gpu,
    };
    (0..).zip(gpus).map(ask).collect()
}

/// What one that has just begun says to each node alone: the cheapest, of those within a fortieth of a GPU the
/// first; and how many there are.
fn node_by_node(
    usual: &[(WorkerAsk, u64)],
    world: &World,
    ask: &WorkerAsk,
    without: &[NodeId],
) -> Option<(Choice, u32)> {
    let mut fresh = ForecastPacking::new(usual.to_vec(), Vec::new());
    let nodes = (0..world.nodes().len() as u32).map(NodeId);
    let on = |id| {
        let scope = Scope::Node(id);
        let choice = fresh.select(world, &asking(ask), Search { scope, without })?;
        let beyond = choice.weighed[1].1 - ask.gpu.milli().cast_signed() * 1000;
        Some(((beyond + 12_500).div_euclid(25_000), id, choice))
    };
    let all: Vec<_> = nodes.filter_map(on).collect();
    let count = all.len() as u32;
    let best = all.into_iter().min_by_key(|(grains, id, _)| (*grains, *id));
    best.map(|(_, _, choice)| (choice, count))
}

struct Stage {
    usual: Vec<(WorkerAsk, u64)>,
    kept: ForecastPacking,
    worlds: Vec<(World, Vec<JobId>)>,
    next: u32,
}

impl Stage {
    fn happens(&mut self, event: Event) {
        let (world, _) = self.worlds.last_mut().unwrap();
        let at = world.now();
        world.apply(&TimestampedEvent { at, event }).unwrap();
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Gang(shape, workers, closed) => {
                let without = [NodeId(closed)];
                let without = if closed < 40 { &without[..] } else { &[] };
                for _ in 0..workers {
                    self.place(&shapes()[shape], without)?;
                }
            }
            Step::End(at) => {
                let (_, jobs) = self.worlds.last_mut().unwrap();
                if !jobs.is_empty() {
                    let (job, how) = (jobs.remove(at % jobs.len()), Ended::Finished);
                    self.happens(Event::Ended { job, how });
                }
            }
            Step::Copy if self.worlds.len() < 4 => {
                self.worlds.push(self.worlds.last().unwrap().clone());
            }
            Step::Leave if self.worlds.len() > 1 => drop(self.worlds.pop()),
            Step::Copy | Step::Leave => {}
        }
        Ok(())
    }

    /// Places a worker where the one that is kept says, which is where one that has just begun says node by node.
    fn place(&mut self, ask: &WorkerAsk, without: &[NodeId]) -> Result<(), TestCaseError> {
        let mut one = job(self.next, 1, 1, 1000);
        one.worker = *ask;
        self.next += 1;
        let job = one.id;
        self.happens(Event::Submitted(one));
        let (world, jobs) = self.worlds.last_mut().unwrap();
        let search = Search {
            without,
            ..Search::EVERYWHERE
        };
        let found = self.kept.select(world, &asking(ask), search);
        let plain = node_by_node(&self.usual, world, ask, without);
        let told = |choice: &Choice| (choice.candidate.clone(), choice.weighed.clone());
        prop_assert_eq!(
            found.as_ref().map(|one| (told(one), one.candidates)),
            plain.map(|(one, count)| (told(&one), count))
        );
        let Some(found) = found else {
            let how = Ended::Finished;
            self.happens(Event::Ended { job, how });
            return Ok(());
        };
        jobs.push(job);
        let assignments = vec![found.candidate.assignment];
        self.happens(Event::done(Action::Place { job, assignments }));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_look_at_groups_finds_what_a_look_at_nodes_finds(
        sizes in prop::collection::vec(1_u32..9, 4..40),
        cores in prop::collection::vec(1_u64..4, 40),
        often in prop::collection::vec(0_u64..5, 6),
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let mut fleet = fleet(&sizes);
        for (node, cores) in fleet.nodes.iter_mut().zip(&cores) {
            node.cpu_milli = node.cpu_milli * cores / 2;
        }
        // Where nothing is usual it goes by what was asked for, which moves with every job.
        let usual: Vec<_> = shapes().into_iter().zip(often).filter(|(_, often)| *often > 0).collect();
        let mut stage = Stage {
            kept: ForecastPacking::new(usual.clone(), Vec::new()),
            usual,
            worlds: vec![(World::new(&fleet), Vec::new())],
            next: 0,
        };
        for step in steps {
            stage.take(step)?;
        }
    }
}
