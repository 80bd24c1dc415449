//! One decision on a fleet that is nine tenths full, by policy and number of nodes.

mod mixed;

use divan::{Bencher, bench};
use gpuwise_domain::placement::{Ended, Event, JobId, TimestampedEvent};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    policy::{PolicyContext, named},
    world::World,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use mixed::{fleet, job, shapes};

fn main() {
    divan::main();
}

/// A fleet on which jobs were placed until nine tenths of its GPU time are held, and its policy.
fn full(policy: &str, nodes: u32) -> (World, Policy, u32) {
    let shapes = shapes();
    let setting = PolicyContext {
        demand: shapes.clone(),
        ..PolicyContext::default()
    };
    let Some(choose) = named(policy, &setting) else {
        unreachable!("{policy} is a policy");
    };
    let mut policy = Policy::new(choose);
    let mut world = World::new(&fleet(nodes));
    let capacity = world.gpus().len() as u64 * 1000;
    let (mut held, mut id) = (0, 0);
    let mut stream = RandomStream::new(7, "jobs", 0);
    while held * 10 < capacity * 9 && id < 40 * nodes {
        let ask = shapes[stream.below(shapes.len() as u64) as usize].0;
        if place(&mut world, &mut policy, id, ask) {
            held += ask.gpu.milli();
        } else {
            leave(&mut world, id);
        }
        id += 1;
    }
    (world, policy, id)
}

fn place(
    world: &mut World,
    policy: &mut Policy,
    id: u32,
    ask: gpuwise_domain::placement::WorkerAsk,
) -> bool {
    let at = world.now();
    let event = Event::Submitted(job(id, ask, at));
    let _ = world.apply(&TimestampedEvent { at, event });
    let (plan, _) = decide(at, world, &[JobId(id)], policy, Effort::ORDINARY);
    world.accept(&plan).is_ok() && !plan.actions.is_empty()
}

fn leave(world: &mut World, id: u32) {
    let how = Ended::Finished;
    let event = Event::Ended {
        job: JobId(id),
        how,
    };
    let at = Nanoseconds(world.now().0 + 1);
    let _ = world.apply(&TimestampedEvent { at, event });
}

/// Submits a job, decides on it, applies the plan, and ends the job.
#[bench(args = [("bestfit", 1213), ("fgd", 1213), ("gpuwise", 1213), ("bestfit", 10_000), ("fgd", 10_000), ("gpuwise", 10_000)])]
fn decision(bencher: Bencher<'_, '_>, (policy, nodes): (&str, u32)) {
    let (mut world, mut policy, mut id) = full(policy, nodes);
    let shapes = shapes();
    bencher.bench_local(|| {
        let ask = shapes[id as usize % shapes.len()].0;
        place(&mut world, &mut policy, id, ask);
        leave(&mut world, id);
        id += 1;
    });
}
