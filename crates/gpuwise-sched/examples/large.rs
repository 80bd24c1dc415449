//! What a world of many nodes holds in memory, and how long decisions on it take: for jobs of the mix and for
//! gangs: `cargo run --release -p gpuwise-sched --example large -- NODES [POLICY] [DECISIONS] [KIND]`;
//! where a kind is told (`gangs of 64`) only that is measured.
//!
//! The fleet is the one of [`rates`](../rates.rs), in racks of 16 nodes. Of ten racks nine are full of jobs that were
//! put there one after the other, by no policy, and one is empty. For each decision a job is submitted, decided on
//! and its plan begun and done; then as much ends as was taken. Each shape is asked for once before it counts.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "an example measures time and prints it"
)]

#[path = "../benches/mixed/mod.rs"]
mod mixed;

use gpuwise_domain::placement::{
    Action, Domain, DomainId, Ended, Event, Fleet, Gang, GpuAsk, Job, JobId, Kinds, Level, Need,
    NodeId, TimestampedEvent, TopologyWish, WorkerAsk,
};
use gpuwise_sched::{
    decide::{Effort, Policy, Tells, decide, decide_pending},
    fit::{Scope, assignment},
    policy::{PolicyContext, named},
    world::{JobState, World},
};
use gpuwise_units::{Nanoseconds, RandomStream};
use mixed::{fleet, job, shapes};
use std::{collections::VecDeque, env, fs, time::Instant};

/// Memory of this process in bytes, where the system says.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}

fn racks(nodes: u32) -> Fleet {
    let mut fleet = fleet(nodes);
    for (node, at) in fleet.nodes.iter_mut().zip(0..) {
        let rack = at / 16;
        if at % 16 == 0 {
            fleet.domains.push(Domain {
                name: format!("r{rack}"),
                level: Level::Rack,
                parent: None,
            });
        }
        node.domain = Some(DomainId(rack));
    }
    fleet
}

struct Run {
    world: World,
    running: VecDeque<(JobId, u64)>,
    next: u32,
}

impl Run {
    fn apply(&mut self, event: Event) -> bool {
        let at = self.world.now();
        self.world.apply(&TimestampedEvent { at, event }).is_ok()
    }

    /// Fills nine racks of ten.
    fn fill(&mut self, asks: &[(WorkerAsk, u64)]) {
        let mut stream = RandomStream::new(7, "jobs", 0);
        for node in (0..self.world.nodes().len() as u32).map(NodeId) {
            if node.0 / 16 % 10 == 9 {
                continue;
            }
            for _ in 0..40 {
                if self
                    .world
                    .node(node)
                    .is_none_or(|node| node.milli_free == 0)
                {
                    break;
                }
                let ask = asks[stream.below(asks.len() as u64) as usize].0;
                let Some(found) = assignment(&self.world, node, &ask, Scope::Fleet) else {
                    continue;
                };
                let id = JobId(self.next);
                self.next += 1;
                let submitted = self.world.now();
                self.apply(Event::Submitted(job(id.0, ask, submitted)));
                let assignments = vec![found.assignment];
                self.apply(Event::done(Action::Place {
                    job: id,
                    assignments,
                }));
                self.running.push_back((id, ask.gpu.milli()));
            }
        }
        // Who ends is anywhere.
        let mut all: Vec<(JobId, u64)> = self.running.drain(..).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, stream.below(at as u64 + 1) as usize);
        }
        self.running = all.into();
    }

    /// Decides on a job; how long it took in nanoseconds, and whether it was placed.
    fn decide(&mut self, policy: &mut Policy, asked: Job) -> (u64, bool) {
        let (own, at) = (asked.id, self.world.now());
        let milli = asked.worker.gpu.milli() * u64::from(asked.gang.least);
        let began = Instant::now();
        self.apply(Event::Submitted(asked));
        let (plan, _) = decide(at, &self.world, &[own], policy, Effort::BARE);
        let placed = self.world.accept(&plan).is_ok() && !plan.actions.is_empty();
        for action in plan.actions {
            self.apply(Event::done(action));
        }
        let took = began.elapsed().as_nanos() as u64;
        let mut over = vec![];
        if placed {
            self.running.push_back((own, milli));
            let mut left = milli;
            while let Some((job, milli)) = self.running.pop_front() {
                over.push(job);
                left = left.saturating_sub(milli);
                if left == 0 {
                    break;
                }
            }
        } else {
            over.push(own);
        }
        for job in over {
            let how = Ended::Finished;
            self.apply(Event::Ended { job, how });
        }
        (took, placed)
    }
}

/// How long a decision takes after one job has ended, while many wait: of all of them from scratch, and with
/// those who wait kept from one decision to the next.
fn waiting(run: &mut Run, name: &str, asks: &[(WorkerAsk, u64)], many: u32) {
    let setting = PolicyContext {
        demand: asks.to_vec(),
        ..PolicyContext::default()
    };
    let policy = || named(name, &setting).map(Policy::new);
    let (Some(mut scans), Some(mut keeps)) = (policy(), policy()) else {
        return;
    };
    let at = run.world.now();
    for _ in 0..many {
        let id = run.next;
        run.next += 1;
        let mut asked = job(id, asks[id as usize % asks.len()].0, at);
        // More than any node has.
        asked.worker.cpu_milli += if id.is_multiple_of(4) { 0 } else { 1 << 20 };
        asked.priority = (id % 3).cast_signed();
        run.apply(Event::Submitted(asked));
    }
    let (mut scanned, mut kept) = (Vec::new(), Vec::new());
    for turn in 0..200 {
        let all = run.world.jobs().filter(|(_, state)| state.seeks());
        let all: Vec<JobId> = all.map(|(id, _)| id).collect();
        let began = Instant::now();
        let (effort, tells) = (Effort::BARE, Tells::Changes);
        let (plan, _) = decide_pending(at, &run.world, &|_| false, &mut keeps, effort, tells);
        let took = began.elapsed().as_nanos() as u64;
        if turn > 0 {
            kept.push(took);
        }
        if (1..12).contains(&turn) {
            let began = Instant::now();
            let (same, _) = decide(at, &run.world, &all, &mut scans, effort);
            scanned.push(began.elapsed().as_nanos() as u64);
            assert_eq!(same, plan, "both decide the same");
        }
        let _ = run.world.accept(&plan);
        for action in plan.actions {
            run.apply(Event::done(action));
        }
        if let Some((job, _)) = run.running.pop_front() {
            let how = Ended::Finished;
            run.apply(Event::Ended { job, how });
        }
    }
    kept.sort_unstable();
    scanned.sort_unstable();
    let (jobs, lines) = keeps.backlog.size();
    println!(
        "{name}, {jobs} wait in {lines} lines, one job ends: median {:.0} µs, p99 {:.0} µs; from scratch {:.0} µs",
        kept[kept.len() / 2] as f64 / 1000.0,
        kept[(kept.len() - 1) * 99 / 100] as f64 / 1000.0,
        scanned[scanned.len() / 2] as f64 / 1000.0,
    );
}

fn gang(id: u32, workers: u32, within: Option<Level>, at: Nanoseconds) -> Job {
    let ask = WorkerAsk {
        cpu_milli: 4000,
        memory_mib: 16 * 1024,
        gpu: GpuAsk::Whole {
            count: 1,
            kinds: Kinds::ANY,
            need: Need::default(),
        },
    };
    Job {
        gang: Gang::exactly(workers),
        topology: within.map(|within| TopologyWish {
            within,
            required: true,
            penalty_milli: 0,
        }),
        ..job(id, ask, at)
    }
}

fn main() {
    let mut given = env::args().skip(1);
    let nodes: u32 = given.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let names = given.next().unwrap_or_else(|| "bestfit,fgd,gpuwise".into());
    let decisions: usize = given.next().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let only = given.next();
    let asks = shapes();
    let fleet = racks(nodes);
    let before = resident();
    let mut run = Run {
        world: World::new(&fleet),
        running: VecDeque::new(),
        next: 0,
    };
    let gpus = run.world.gpus().len() as u64;
    let empty = resident() - before;
    run.fill(&asks);
    let full = resident() - before - 16 * run.running.len() as u64;
    println!(
        "{nodes} nodes, {gpus} GPUs, {} jobs: {} bytes a GPU, {} of them without jobs; a job's state has {} bytes",
        run.running.len(),
        full / gpus,
        empty / gpus,
        size_of::<JobState>(),
    );
    drop(fleet);
    let kinds: [(&str, u32, Option<Level>); 5] = [
        ("the mix", 1, None),
        ("gangs of 8", 8, None),
        ("gangs of 64", 64, None),
        ("gangs of 8 in a rack", 8, Some(Level::Rack)),
        ("gangs of 64 in a rack", 64, Some(Level::Rack)),
    ];
    for name in names.split(',').filter(|_| decisions > 0) {
        // As much is free for each as for the first.
        let (world, running) = (run.world.clone(), run.running.clone());
        let setting = PolicyContext {
            demand: asks.clone(),
            ..PolicyContext::default()
        };
        let Some(choose) = named(name, &setting) else {
            println!("there is no policy {name}");
            return;
        };
        let mut policy = Policy::new(choose);
        for (what, workers, within) in kinds {
            if only.as_ref().is_some_and(|only| only != what) {
                continue;
            }
            let warm = if workers == 1 { 2 * asks.len() } else { 4 };
            let (mut times, mut waited) = (Vec::new(), 0);
            for turn in 0..decisions + warm {
                let (id, at) = (run.next, run.world.now());
                run.next += 1;
                let asked = if workers == 1 {
                    job(id, asks[turn % asks.len()].0, at)
                } else {
                    gang(id, workers, within, at)
                };
                let (took, placed) = run.decide(&mut policy, asked);
                if turn >= warm {
                    times.push(took);
                    waited += u32::from(!placed);
                }
            }
            times.sort_unstable();
            let at = |milli: usize| times[(times.len() - 1) * milli / 1000] as f64 / 1000.0;
            println!(
                "{name}, {what}: median {:.0} µs, p99 {:.0} µs, longest {:.0} µs; {waited} of {} wait",
                at(500),
                at(990),
                at(1000),
                times.len(),
            );
        }
        if only.is_none() {
            waiting(&mut run, name, &asks, 100_000);
        }
        (run.world, run.running) = (world, running);
    }
}
