//! How many decisions the kernel makes in a second, how long the slowest take, and what a world holds in
//! memory: `cargo run --release -p gpuwise-sched --example rates -- POLICY NODES [DECISIONS]`.
//!
//! Nodes are as in a fleet of mixed ages (8, 4, 2 and 1 GPU of seven kinds), jobs as in one that shares
//! GPUs: whole GPUs, fractions, some without, some with a model of GPU in mind. When nine tenths of the GPU time
//! are held, for each job that comes the oldest one ends, so that a decision meets a fleet that is almost
//! full. Timed is what the kernel does for a job: it is submitted, decided on, and its plan applied. The
//! digest is over all plans: two builds of which it is the same have decided alike.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "an example measures time and prints it"
)]

#[path = "../benches/mixed/mod.rs"]
mod mixed;

use gpuwise_domain::placement::{Ended, Event, JobId, TimestampedEvent};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    policy::{PolicyContext, named},
    world::World,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use mixed::{fleet, job, shapes};
use std::{
    collections::VecDeque,
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Instant,
};

/// Memory of this process in bytes, where the system says.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn main() {
    let mut given = env::args().skip(1);
    let name = given.next().unwrap_or_else(|| "bestfit".into());
    let nodes: u32 = given.next().and_then(|n| n.parse().ok()).unwrap_or(1213);
    let decisions: u32 = given.next().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let shapes = shapes();
    let setting = PolicyContext {
        demand: shapes.clone(),
        ..PolicyContext::default()
    };
    let Some(choose) = named(&name, &setting) else {
        println!("there is no policy {name}");
        return;
    };
    let mut policy = Policy::new(choose);
    let before = resident();
    let mut world = World::new(&fleet(nodes));
    let capacity = world.gpus().len() as u64 * 1000;
    let weight: u64 = shapes.iter().map(|(_, count)| count).sum();
    let mut stream = RandomStream::new(7, "jobs", 0);
    let mut running: VecDeque<(JobId, u64)> = VecDeque::new();
    let (mut held, mut id) = (0_u64, 0_u32);
    let mut times: Vec<u64> = Vec::new();
    let (mut waited, mut digest) = (0, DefaultHasher::new());
    while times.len() < decisions as usize {
        let full = held * 10 > capacity * 9;
        let mut left = stream.below(weight);
        let chosen = shapes.iter().find(|(_, count)| {
            let found = left < *count;
            left = left.saturating_sub(*count);
            found
        });
        let Some((ask, _)) = chosen else { continue };
        let at = Nanoseconds(u64::from(id));
        let job = job(id, *ask, at);
        let began = Instant::now();
        let own = job.id;
        let _ = world.apply(&TimestampedEvent {
            at,
            event: Event::Submitted(job),
        });
        let (plan, _) = decide(at, &world, &[own], &mut policy, Effort::ORDINARY);
        let placed = !plan.actions.is_empty();
        plan.hash(&mut digest);
        let _ = world.accept(&plan);
        for action in plan.actions {
            let _ = world.apply(&TimestampedEvent {
                at,
                event: Event::done(action),
            });
        }
        let took = began.elapsed().as_nanos() as u64;
        if full || id > 40 * nodes {
            times.push(took);
            waited += u32::from(!placed);
        }
        if placed {
            running.push_back((own, ask.gpu.milli()));
            held += ask.gpu.milli();
        } else {
            let how = Ended::Cancelled;
            let _ = world.apply(&TimestampedEvent {
                at,
                event: Event::Ended { job: own, how },
            });
        }
        if full && let Some((job, milli)) = running.pop_front() {
            let how = Ended::Finished;
            let _ = world.apply(&TimestampedEvent {
                at,
                event: Event::Ended { job, how },
            });
            held -= milli;
        }
        id += 1;
    }
    let total: u64 = times.iter().sum();
    times.sort_unstable();
    let at = |milli: usize| times[(times.len() - 1) * milli / 1000] as f64 / 1000.0;
    let per_gpu = resident()
        .zip(before)
        .map(|(now, then)| (now - then) / (capacity / 1000));
    println!(
        "{name}, {nodes} nodes, {} GPUs, {} jobs running: {:.0} decisions/s; median {:.1} µs, p99 {:.1} µs, longest {:.1} µs; {waited} of {} wait; {} bytes a GPU; digest {:016x}",
        capacity / 1000,
        running.len(),
        times.len() as f64 * 1e9 / total as f64,
        at(500),
        at(990),
        at(1000),
        times.len(),
        per_gpu.map_or_else(|| "–".into(), |bytes| bytes.to_string()),
        digest.finish(),
    );
}
