//! What was kept for a sleeping spare, and is lent to others: who has it now, and since when.
//!
//! Of a node's GPUs so many are lent as are kept for spares that sleep, less those that nobody holds: these stand for
//! what is kept first. A borrower is a lease of another tenant that may be stopped and has the whole GPU. Who lent
//! what stays as it was while it can be; else those that gave up first, and GPUs by their numbers.

use crate::Broker;
use gpuwise_account::{lent::Loan, period::Interval};
use gpuwise_domain::placement::{GpuId, NodeId, Part};
use gpuwise_sched::world::{NodeState, Tenancy};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// A GPU that is lent: by the replica that gave it up, to the lease that has it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct LentGpu {
    pub by: u32,
    pub gpu: GpuId,
    pub to: u32,
}

/// What is lent, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lending {
    open: BTreeMap<LentGpu, Nanoseconds>,
}

/// A replica that gave up so many GPUs of a node.
struct Spare {
    lease: u32,
    gpus: usize,
}

impl Broker {
    /// What is lent now, and since when.
    pub fn lent(&self) -> impl Iterator<Item = (LentGpu, Nanoseconds)> {
        self.lending.open.iter().map(|(one, since)| (*one, *since))
    }

    /// Notes who lends what from now on, and books what is over.
    pub(crate) fn lend(&mut self, at: Nanoseconds) {
        if self.scaling.is_empty() && self.lending.open.is_empty() {
            return;
        }
        let now = self.lending_now();
        let before = std::mem::take(&mut self.lending.open);
        for (one, since) in &before {
            if !now.contains(one) {
                self.lent_until(*one, *since, at);
            }
        }
        let since = |one: &LentGpu| before.get(one).copied().unwrap_or(at);
        self.lending.open = now.iter().map(|one| (*one, since(one))).collect();
    }

    /// Books what is lent up to a moment, and goes on from there.
    pub(crate) fn cut_lent(&mut self, at: Nanoseconds) {
        let before = std::mem::take(&mut self.lending.open);
        for (one, since) in before {
            self.lent_until(one, since, at);
            self.lending.open.insert(one, since.max(at));
        }
    }

    fn lent_until(&mut self, one: LentGpu, since: Nanoseconds, at: Nanoseconds) {
        if let Some((loan, time)) = self.loan(one, since, at) {
            self.accounts.books.lend(loan, time);
        }
    }

    /// What a tenant lends, up to now: loans that are not booked.
    pub(crate) fn lending_of(&self, now: Nanoseconds, tenant: &str) -> Vec<(Loan, Interval)> {
        let each = self.lent();
        let loans = each.filter_map(|(one, since)| self.loan(one, since, now));
        loans.filter(|(loan, _)| loan.tenant == tenant).collect()
    }

    fn loan(
        &self,
        one: LentGpu,
        since: Nanoseconds,
        until: Nanoseconds,
    ) -> Option<(Loan, Interval)> {
        let (by, to) = (self.leases.get(&one.by)?, self.leases.get(&one.to)?);
        let seen = crate::money::seen(&self.world, to, one.gpu, Part::Whole)?;
        let loan = Loan {
            tenant: by.ask.tenant.clone(),
            lease: by.id(),
            borrower: to.ask.tenant.clone(),
            device: seen.device,
            kind: seen.kind,
            granted: seen.granted,
            isolation: seen.isolation,
            class: seen.class,
        };
        (since < until).then(|| (loan, Interval::new(since, until)))
    }

    /// Who lends what, as it is now.
    fn lending_now(&self) -> BTreeSet<LentGpu> {
        let mut spares: BTreeMap<NodeId, Vec<Spare>> = BTreeMap::new();
        for (_, scaling) in self.scaled() {
            if scaling.rules().warm_cost.is_none() {
                continue;
            }
            for (lease, _) in scaling.replicas() {
                if let Some(((node, _), gpus)) = self.gave_up(lease) {
                    let gpus = gpus as usize;
                    spares.entry(node).or_default().push(Spare { lease, gpus });
                }
            }
        }
        let each = spares.into_iter();
        each.flat_map(|(node, spares)| self.lent_of(node, spares))
            .collect()
    }

    fn lent_of(&self, node: NodeId, mut spares: Vec<Spare>) -> Vec<LentGpu> {
        let (free, mut had) = self.borrowers(node);
        let kept: usize = spares.iter().map(|one| one.gpus).sum();
        let mut most = kept.saturating_sub(free);
        let mut lent = Vec::new();
        // What is lent already stays so.
        for one in self.lending.open.keys() {
            let still = had.get(&one.gpu) == Some(&one.to);
            let own = spares.iter_mut().find(|spare| spare.lease == one.by);
            if let Some(spare) = own.filter(|spare| still && spare.gpus > 0 && most > 0) {
                spare.gpus -= 1;
                most -= 1;
                had.remove(&one.gpu);
                lent.push(*one);
            }
        }
        spares.sort_by_key(|spare| spare.lease);
        for spare in spares {
            let others: Vec<(GpuId, u32)> = had
                .iter()
                .filter(|(_, to)| !self.is_of_one_tenant(spare.lease, **to))
                .map(|(gpu, to)| (*gpu, *to))
                .take(spare.gpus.min(most))
                .collect();
            most -= others.len();
            for (gpu, to) in others {
                had.remove(&gpu);
                let by = spare.lease;
                lent.push(LentGpu { by, gpu, to });
            }
        }
        lent
    }

    fn is_of_one_tenant(&self, one: u32, other: u32) -> bool {
        let tenant = |lease| self.lease(lease).map(|lease| &lease.ask.tenant);
        tenant(one) == tenant(other)
    }

    /// GPUs of a node that nobody holds and that can be had, and those that leases which may be stopped have whole.
    fn borrowers(&self, node: NodeId) -> (usize, BTreeMap<GpuId, u32>) {
        let own = self.world.node(node);
        let open = own.is_some_and(NodeState::takes_work);
        let mut free = 0;
        let mut had = BTreeMap::new();
        for gpu in own.into_iter().flat_map(|state| &state.gpus) {
            let Some(state) = self.world.gpu(*gpu) else {
                continue;
            };
            match &state.held {
                Tenancy::Free => free += usize::from(open && state.takes_work()),
                Tenancy::Whole(job) if self.grants.has(job.0, *gpu, Part::Whole) => {
                    let lease = self.lease(job.0);
                    if lease.is_some_and(|lease| lease.ask.preemptible == Some(true)) {
                        had.insert(*gpu, job.0);
                    }
                }
                _ => {}
            }
        }
        (free, had)
    }
}
