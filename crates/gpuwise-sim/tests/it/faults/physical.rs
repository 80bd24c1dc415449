//! Who is on which GPU, as somebody standing before the machines would see it.

use gpuwise_domain::placement::{Action, Assignment, Event, GpuId, JobId, Part};
use gpuwise_sched::world::{Link, Phase, World};
use gpuwise_sim::fleet::executor::Step;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Physical {
    /// What each worker of a job has.
    on: BTreeMap<JobId, Vec<Worker>>,
    /// What each had before it was told to move or to be resized.
    before: BTreeMap<JobId, Vec<Worker>>,
}

type Worker = Vec<(GpuId, Part)>;

fn workers(assignments: &[Assignment]) -> Vec<Worker> {
    let worker = |one: &Assignment| {
        one.gpus
            .iter()
            .map(|share| (share.gpu, share.part))
            .collect()
    };
    // Who has no GPU is not to be seen there.
    let seen = assignments.iter().filter(|one| !one.gpus.is_empty());
    seen.map(worker).collect()
}

impl Physical {
    pub(super) fn follow(&mut self, step: &Step) {
        match step {
            Step::Started(_, action) => match action {
                Action::Place { job, assignments } | Action::Restore { job, assignments } => {
                    let before = self.on.insert(*job, workers(assignments));
                    assert!(before.is_none(), "job {job} started twice");
                }
                Action::Move {
                    job, assignments, ..
                }
                | Action::Resize { job, assignments } => {
                    let here = self.on.entry(*job).or_default();
                    self.before.insert(*job, here.clone());
                    for worker in workers(assignments) {
                        if !here.contains(&worker) {
                            here.push(worker);
                        }
                    }
                }
                _ => {}
            },
            Step::Ended(stamped) => match &stamped.event {
                Event::Done {
                    action:
                        Action::Place { job, assignments }
                        | Action::Restore { job, assignments }
                        | Action::Move {
                            job, assignments, ..
                        }
                        | Action::Resize { job, assignments },
                    ..
                } => {
                    self.on.insert(*job, workers(assignments));
                }
                Event::Done {
                    action: Action::Preempt { job, .. } | Action::Reclaim { job },
                    ..
                }
                | Event::Failed {
                    action: Action::Place { job, .. } | Action::Restore { job, .. },
                    ..
                } => {
                    self.on.remove(job);
                }
                Event::Failed {
                    action: Action::Move { job, .. } | Action::Resize { job, .. },
                    ..
                } => {
                    if let Some(before) = self.before.remove(job) {
                        self.on.insert(*job, before);
                    }
                }
                _ => {}
            },
            Step::Dropped(..) => {}
        }
    }

    /// No GPU is used twice, and what is used is there.
    pub(super) fn holds(&mut self, world: &World) {
        // Who was killed with its node or GPU, or has ended, is gone.
        let alive = |(gpu, _): &(GpuId, Part)| {
            let gpu = world.gpu(*gpu).unwrap();
            let node = gpu.node.and_then(|node| world.node(node));
            gpu.gpu.health.keeps_work() && node.is_some_and(|node| node.node.health.keeps_work())
        };
        self.on.retain(|id, here| {
            let Some(state) = world.job(*id) else {
                return false;
            };
            let had = !here.is_empty();
            here.retain(|worker| worker.iter().all(alive));
            let known = state.stopping || state.phase.holds_gpus();
            assert!(
                known || here.is_empty(),
                "job {id} runs and nobody knows: {here:?}"
            );
            // Who had GPUs and none is left runs nowhere.
            known && !(had && here.is_empty())
        });
        let mut used: BTreeMap<GpuId, Vec<(JobId, Part)>> = BTreeMap::new();
        for (job, here) in &self.on {
            for (gpu, part) in here.iter().flatten() {
                used.entry(*gpu).or_default().push((*job, *part));
            }
        }
        for (gpu, users) in &used {
            let state = world.gpu(*gpu).unwrap();
            assert_eq!(state.link, Link::Here, "GPU {gpu} is used and not there");
            for (at, (job, part)) in users.iter().enumerate() {
                for (other, beside) in &users[at + 1..] {
                    let apart = match (part, beside) {
                        (Part::Slice { start: a, .. }, Part::Slice { start: b, .. }) => a != b,
                        (
                            Part::Fraction { isolation: a, .. },
                            Part::Fraction { isolation: b, .. },
                        ) => a == b,
                        _ => job == other,
                    };
                    assert!(apart, "GPU {gpu} is used by {users:?}");
                }
            }
            let milli: u32 = users
                .iter()
                .map(|(_, part)| match part {
                    Part::Fraction { milli, .. } => *milli,
                    _ => 0,
                })
                .sum();
            assert!(milli <= 1000, "GPU {gpu} is used by {users:?}");
        }
        for (id, state) in world.jobs() {
            if matches!(state.phase, Phase::Running { .. }) {
                let mut here = self.on.get(&id).cloned().unwrap_or_default();
                let mut there = workers(&state.assignments);
                let key = |worker: &Worker| format!("{worker:?}");
                here.sort_by_key(key);
                there.sort_by_key(key);
                assert_eq!(here, there, "job {id} runs where its seats are");
            }
        }
    }
}
