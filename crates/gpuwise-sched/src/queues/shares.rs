//! All that a world keeps of its queues.

use super::{
    account::{Account, Rates, upwards},
    pool::{Pool, pools},
};
use crate::world::{Link, World};
use gpuwise_domain::placement::{
    Assignment, FleetGpu, JobId, KindId, Kinds, Node, Part, Queue, QueueId, Sharing, WorkerAsk,
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// What queues hold and may take; kept by [`World::apply`](crate::world::World::apply), event by event.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Shares {
    /// What of the past counts, and how GPUs compare.
    pub(crate) sharing: Sharing,
    pub(crate) rates: Rates,
    accounts: Vec<Account>,
    pools: Vec<Pool>,
    /// What the fleet has, in thousandths of GPUs, by kind.
    capacity_milli: Vec<u64>,
    cpu_milli: u64,
    memory_mib: u64,
}

/// What some assignments hold, in thousandths of GPUs, by kind. An instance counts as its part of the
/// board's compute slices, rounded up.
pub fn held_by(world: &World, assignments: &[Assignment]) -> BTreeMap<u32, u64> {
    let mut held = BTreeMap::new();
    for (kind, milli) in shares_of(world, assignments) {
        *held.entry(kind.0).or_default() += milli;
    }
    held
}

/// What some assignments hold in all, in thousandths of GPUs.
pub fn milli_of(world: &World, assignments: &[Assignment]) -> u64 {
    shares_of(world, assignments).map(|(_, milli)| milli).sum()
}

fn shares_of<'w>(
    world: &'w World,
    assignments: &'w [Assignment],
) -> impl Iterator<Item = (KindId, u64)> + 'w {
    let shares = assignments.iter().flat_map(|assignment| &assignment.gpus);
    shares.filter_map(|share| {
        let kind = world.gpu(share.gpu)?.gpu.kind;
        let milli = match share.part {
            Part::Whole => 1000,
            Part::Fraction { milli, .. } => u64::from(milli),
            Part::Slice { shape, .. } => slice_milli(world, kind, shape),
        };
        Some((kind, milli))
    })
}

/// What an instance of a profile counts, in thousandths of a GPU.
pub fn slice_milli(world: &World, kind: KindId, shape: u8) -> u64 {
    let geometry = world.kind(kind).and_then(|kind| kind.mig.as_ref());
    let part = geometry.and_then(|geometry| {
        let compute = u64::from(geometry.shapes.get(usize::from(shape))?.compute);
        Some((1000 * compute).div_ceil(u64::from(geometry.compute_slices.max(1))))
    });
    part.unwrap_or(1000)
}

impl Shares {
    /// What queues hold now.
    pub fn account(&self, queue: QueueId) -> Option<&Account> {
        self.accounts.get(queue.index())
    }

    /// Sets of kinds that quotas name.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    pub const fn rates(&self) -> &Rates {
        &self.rates
    }

    /// What of the past counts.
    pub const fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// What the fleet has of a kind, in thousandths of GPUs.
    pub fn capacity(&self, kind: usize) -> u64 {
        self.capacity_milli.get(kind).copied().unwrap_or(0)
    }

    /// What the fleet has of processor time (thousandths of cores) and memory (MiB).
    pub const fn host_capacity(&self) -> (u64, u64) {
        (self.cpu_milli, self.memory_mib)
    }

    /// Assignments are taken or given back by a job of a queue.
    pub(crate) fn change(
        &mut self,
        at: Nanoseconds,
        queues: &[Queue],
        (queue, job): (QueueId, JobId),
        held: &BTreeMap<u32, u64>,
        host: (u64, u64),
        takes: bool,
    ) {
        let moved = |value: &mut u64, by: u64| {
            *value = if takes {
                value.saturating_add(by)
            } else {
                value.saturating_sub(by)
            }
        };
        let mut budgeted = false;
        for id in upwards(queues, Some(queue)) {
            let Some(account) = self.accounts.get_mut(id.index()) else {
                continue;
            };
            account.settle(at, &self.rates);
            for (kind, milli) in held {
                if let Some(value) = account.held_milli.get_mut(*kind as usize) {
                    moved(value, *milli);
                }
            }
            moved(&mut account.cpu_milli, host.0);
            moved(&mut account.memory_mib, host.1);
            budgeted |= queues.get(id.index()).is_some_and(|q| q.budget.is_some());
            if budgeted && takes {
                account.running.insert(job);
            } else {
                account.running.remove(&job);
            }
        }
        for pool in &mut self.pools {
            let inside = held.iter().filter(|(kind, _)| {
                let kind = KindId(**kind);
                pool.kinds.has(kind)
            });
            let milli: u64 = inside.map(|(_, milli)| milli).sum();
            if milli > 0 {
                pool.change(queues, queue, milli, takes);
            }
        }
    }
}

/// What some workers hold of processor time and memory.
fn host_of(ask: &WorkerAsk, assignments: &[Assignment]) -> (u64, u64) {
    let workers = assignments.len() as u64;
    (
        ask.cpu_milli.saturating_mul(workers),
        ask.memory_mib.saturating_mul(workers),
    )
}

impl World {
    /// What queues hold and may take.
    pub const fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Books what a job's assignments take or give back.
    pub(crate) fn book(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        assignments: &[Assignment],
        takes: bool,
    ) {
        let Some(state) = self.jobs.get(job) else {
            return;
        };
        let (queue, ask) = (state.job.queue, state.job.worker);
        let Some(queue) = queue.filter(|queue| queue.index() < self.queues.len()) else {
            return;
        };
        let held = held_by(self, assignments);
        let host = host_of(&ask, assignments);
        self.shares
            .change(at, &self.queues, (queue, job), &held, host, takes);
    }

    /// Counts what nodes that were not there before add; what queues hold stays as it is.
    pub(crate) fn book_joined(&mut self, at: Nanoseconds, nodes: &[(Node, Vec<FleetGpu>)]) {
        let shares = &mut self.shares;
        for account in &mut shares.accounts {
            account.settle(at, &shares.rates);
        }
        if self.queues.is_empty() {
            return;
        }
        for (node, gpus) in nodes {
            for gpu in gpus {
                if let Some(sum) = shares.capacity_milli.get_mut(gpu.kind.index()) {
                    *sum += 1000;
                }
            }
            shares.cpu_milli += node.cpu().unwrap_or(0);
            shares.memory_mib += node.memory().unwrap_or(0);
        }
        for pool in &mut shares.pools {
            let kinds = shares.capacity_milli.iter().zip((0..).map(KindId));
            let inside = kinds.filter(|(_, kind)| pool.kinds.has(*kind));
            let capacity_milli = inside.map(|(sum, _)| sum).sum();
            pool.set_capacity(&self.queues, capacity_milli);
        }
    }

    /// Counts pools and what queues hold anew, after queues, kinds or what is installed have changed.
    pub(crate) fn rebook(&mut self, at: Nanoseconds) {
        for account in &mut self.shares.accounts {
            account.settle(at, &self.shares.rates);
            account.held_milli.fill(0);
            account.held_milli.resize(self.kinds.len(), 0);
            account.used.resize(self.kinds.len(), 0);
            (account.cpu_milli, account.memory_mib) = (0, 0);
            account.running.clear();
        }
        let kinds = self.kinds.len();
        for number in self.shares.accounts.len()..self.queues.len() {
            self.shares.accounts.push(Account::new(kinds, at));
            let used = self.queues.get(number).map_or(0, |queue| queue.used_milli);
            for id in upwards(&self.queues, Some(QueueId(number as u32))) {
                if let Some(account) = self.shares.accounts.get_mut(id.index()) {
                    account.past += used as f64 * 3.6;
                }
            }
        }
        self.shares.rates = Rates::new(&self.kinds, &self.shares.sharing);
        if self.queues.is_empty() {
            return;
        }
        let mut capacity = vec![0_u64; kinds];
        // What has left is nobody's quota any more.
        for gpu in self.gpus.iter().filter(|gpu| gpu.link != Link::Gone) {
            if let Some(sum) = capacity.get_mut(gpu.gpu.kind.index()) {
                *sum += 1000;
            }
        }
        let of = |set: Kinds| {
            let kinds = capacity.iter().zip((0..).map(KindId));
            kinds
                .filter(|(_, kind)| set.has(*kind))
                .map(|(sum, _)| sum)
                .sum()
        };
        self.shares.pools = pools(&self.queues, of);
        self.shares.capacity_milli = capacity;
        let hosts = self.nodes.iter().filter(|node| !node.left);
        let hosts = hosts.map(|node| &node.node);
        (self.shares.cpu_milli, self.shares.memory_mib) = hosts.fold((0, 0), |(cpu, mem), node| {
            (
                cpu + node.cpu().unwrap_or(0),
                mem + node.memory().unwrap_or(0),
            )
        });
        let seated: Vec<(JobId, Vec<Assignment>)> = self
            .jobs
            .iter()
            .filter(|(_, state)| state.job.queue.is_some() && !state.assignments.is_empty())
            .map(|(id, state)| (*id, state.assignments.clone()))
            .collect();
        for (id, assignments) in seated {
            self.book(at, id, &assignments, true);
        }
    }
}
