//! Grants counted beside the books, so that a part that was granted and is not charged is found while it happens.
//!
//! What a lease had of each GPU is summed up here from the grants themselves, compute and memory apart, as whole
//! numbers of nanoseconds by the denominator of the share. The meter keeps spans of series. Both come to the same.

use crate::{Broker, Grant, lease::lease_id};
use gpuwise_domain::placement::{GpuId, GpuKind, Part};
use gpuwise_sched::world::World;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Breaches that are kept with their words; of more than these the number is kept.
const KEPT: usize = 100;

/// Nanoseconds of shares, by what these are a part of.
type Shares = BTreeMap<u32, u128>;

/// Compute and memory of a GPU that a lease had.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct HadOfGpu {
    compute: Shares,
    memory: Shares,
}

/// What leases that are not over were granted, and what was found wrong of those that are.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Conserved {
    leases: BTreeMap<u32, BTreeMap<GpuId, HadOfGpu>>,
    breaches: Vec<Unmetered>,
    count: u64,
}

/// A lease was granted something else of a GPU than the meter has of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error(
    "{lease} was granted {granted_ns} ns of the {resource} of GPU {gpu} and is charged for {metered_ns} ns: run \
     `gpuwise store check`, and report it with what it says"
)]
pub struct Unmetered {
    pub lease: String,
    /// The lasting id of the GPU.
    pub gpu: String,
    /// `compute` or `memory`.
    pub resource: String,
    /// Time of the whole GPU, rounded down.
    pub granted_ns: u128,
    pub metered_ns: u128,
    /// When the lease was over.
    pub at: Nanoseconds,
}

impl Conserved {
    /// Adds what a lease had.
    pub(crate) fn add(&mut self, world: &World, lease: u32, grants: &[Grant]) {
        for grant in grants {
            let kind = world
                .gpu(grant.gpu)
                .and_then(|one| world.kind(one.gpu.kind));
            let length = u128::from(grant.end.0.saturating_sub(grant.start.0));
            let gpus = self.leases.entry(lease).or_default();
            let had = gpus.entry(grant.gpu).or_default();
            // A part whose size is not known is held to have been the whole, which no meter has of it.
            let (compute, memory) = kind
                .and_then(|kind| shares(kind, grant.part))
                .unwrap_or(((1, 1), (1, 1)));
            for (sums, (part, of)) in [(&mut had.compute, compute), (&mut had.memory, memory)] {
                *sums.entry(of).or_default() += length * u128::from(part);
            }
        }
    }
}

/// The share of compute and of memory that a part is.
fn shares(kind: &GpuKind, part: Part) -> Option<((u32, u32), (u32, u32))> {
    Some(match part {
        Part::Whole => ((1, 1), (1, 1)),
        Part::Fraction {
            milli, memory_mib, ..
        } => {
            let all = kind.memory_mib.unwrap_or(memory_mib).max(1);
            ((milli, 1000), (memory_mib, all))
        }
        Part::Slice { shape, .. } => {
            let mig = kind.mig.as_ref()?;
            let shape = mig.shape(shape)?;
            (
                (shape.compute.into(), mig.compute_slices.into()),
                (shape.size.into(), mig.memory_slices.into()),
            )
        }
    })
}

impl Broker {
    /// What leases that are not over were granted and are not charged for, up to what was counted last.
    pub fn unmetered(&self) -> Vec<Unmetered> {
        let leases = self.conserved.leases.keys();
        leases.flat_map(|lease| self.unmetered_of(*lease)).collect()
    }

    /// The same of leases that are over: how many, and the first of them.
    pub fn breaches(&self) -> (u64, &[Unmetered]) {
        (self.conserved.count, &self.conserved.breaches)
    }

    /// A lease is over: what it was granted is held against the meter, and only what is wrong is kept.
    pub(crate) fn conserve(&mut self, lease: u32) {
        let wrong = self.unmetered_of(lease);
        self.conserved.leases.remove(&lease);
        for one in wrong {
            self.conserved.count += 1;
            if self.conserved.breaches.len() < KEPT {
                self.conserved.breaches.push(one);
            }
        }
    }

    fn unmetered_of(&self, lease: u32) -> Vec<Unmetered> {
        let id = lease_id(lease);
        let mut wrong = Vec::new();
        let gpus = self.conserved.leases.get(&lease).into_iter().flatten();
        for (gpu, had) in gpus {
            let uid = self
                .world
                .gpu(*gpu)
                .map_or_else(String::new, |one| one.gpu.uid.to_string());
            let metered = self.metered(&id, &uid);
            for (resource, granted, metered) in [
                ("compute", &had.compute, &metered.compute),
                ("memory", &had.memory, &metered.memory),
            ] {
                if differ(granted, metered) {
                    wrong.push(Unmetered {
                        lease: id.clone(),
                        gpu: uid.clone(),
                        resource: resource.to_owned(),
                        granted_ns: whole(granted),
                        metered_ns: whole(metered),
                        at: self.now,
                    });
                }
            }
        }
        wrong
    }

    fn metered(&self, lease: &str, uid: &str) -> HadOfGpu {
        let mut metered = HadOfGpu::default();
        let series = self.accounts.books.meter().of_lease(lease);
        for one in series.filter(|one| one.device == uid) {
            let spans = one.spans.iter();
            let length: u128 = spans.map(|span| u128::from(span.length())).sum();
            if length == 0 {
                continue;
            }
            for (sums, share) in [
                (&mut metered.compute, one.granted.compute()),
                (&mut metered.memory, one.granted.memory()),
            ] {
                *sums.entry(share.of).or_default() += length * u128::from(share.part);
            }
        }
        metered
    }
}

/// Whether sums of shares are not the same, exactly: all are taken by their common denominator.
fn differ(one: &Shares, other: &Shares) -> bool {
    let mut all: Vec<u32> = one.keys().chain(other.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    let common = all.iter().fold(1_u128, |common, of| {
        let of = u128::from((*of).max(1));
        common / divisor(common, of) * of
    });
    let sum = |shares: &Shares| -> Option<u128> {
        shares.iter().try_fold(0_u128, |sum, (of, length)| {
            sum.checked_add(length.checked_mul(common / u128::from((*of).max(1)))?)
        })
    };
    match (sum(one), sum(other)) {
        (Some(one), Some(other)) => one != other,
        // Beyond 128 bits: told apart by what they are made of.
        _ => one != other,
    }
}

const fn divisor(left: u128, right: u128) -> u128 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// Time of the whole GPU, rounded down for each denominator.
fn whole(shares: &Shares) -> u128 {
    let each = shares.iter();
    each.map(|(of, length)| length / u128::from((*of).max(1)))
        .sum()
}
