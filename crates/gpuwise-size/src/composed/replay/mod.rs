//! A trace of tasks replayed on fixed hosts, and on the same hosts with their GPUs in pools.

mod demand;
mod fixed;
mod pooled;
mod run;

pub use demand::{Demand, carried_over, every_nth};
pub use run::{Outcome, Reasons};

use alloc::{string::String, vec::Vec};
use fixed::FixedHosts;
use gpuwise_domain::fleet::{FleetNode, FleetTask};
use pooled::PooledHosts;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The first that has room.
    FirstFit,
    /// The one with the least GPU, then the least processor time, left.
    BestFit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pooling {
    /// GPUs that a host can have at most.
    pub gpus_per_host: u32,
    /// Hosts that share one fabric; 0: all.
    pub hosts_per_fabric: usize,
    /// Seconds from asking for a GPU until the task can begin.
    pub attach: u64,
    /// Seconds from giving a GPU back until it can be asked for.
    pub detach: u64,
    /// GPUs in the pools as thousandths of those of the nodes, rounded up in each pool.
    pub thousandths: u32,
}

/// What a task asks for, with models as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cpu: u64,
    memory: u64,
    gpus: u32,
    milli: u32,
    models: u64,
}

impl Shape {
    const fn gpu_milli(&self) -> u64 {
        self.gpus as u64 * self.milli as u64
    }
}

/// Names of GPU models, at most 64 of them; others count as the last.
fn models(nodes: &[FleetNode]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in nodes.iter().filter(|node| node.gpus > 0) {
        if !names.contains(&node.model) && names.len() < 64 {
            names.push(node.model.clone());
        }
    }
    names
}

fn shape(task: &FleetTask, models: &[String]) -> Shape {
    let bit = |(index, name): (usize, &String)| {
        let wanted = task.models.is_empty() || task.models.contains(name);
        if wanted { 1_u64 << index } else { 0 }
    };
    Shape {
        cpu: task.cpu_milli,
        memory: task.memory_mib,
        gpus: task.gpus,
        milli: task.gpu_milli,
        models: models
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |all, one| all | one),
    }
}

pub fn fixed(nodes: &[FleetNode], demand: &Demand, choice: Choice) -> Outcome {
    let names = models(nodes);
    run::run(FixedHosts::new(nodes, &names, choice), demand, &names)
}

/// The demand on the same nodes with their GPUs in pools of a fabric.
pub fn pooled(nodes: &[FleetNode], demand: &Demand, choice: Choice, pooling: Pooling) -> Outcome {
    let names = models(nodes);
    let hosts = PooledHosts::new(nodes, &names, choice, pooling);
    run::run(hosts, demand, &names)
}

/// The smallest pools, in thousandths of the nodes' GPUs, that let GPU tasks wait no longer in all
/// than in `service` (attaching left aside); `None`: not even all of them do.
pub fn pools_for(
    nodes: &[FleetNode],
    demand: &Demand,
    choice: Choice,
    pooling: Pooling,
    service: &Outcome,
) -> Option<(u32, Outcome)> {
    let at = |thousandths| {
        let pooling = Pooling {
            thousandths,
            ..pooling
        };
        let outcome = pooled(nodes, demand, choice, pooling);
        outcome
            .serves_like(service)
            .then_some((thousandths, outcome))
    };
    let mut best = at(1000)?;
    let (mut low, mut high) = (0_u32, 1000_u32);
    while high - low > 5 {
        let middle = u32::midpoint(low, high);
        match at(middle) {
            Some(found) => {
                high = middle;
                best = found;
            }
            None => low = middle,
        }
    }
    Some(best)
}
