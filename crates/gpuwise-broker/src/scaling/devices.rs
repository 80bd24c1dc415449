//! GPUs that services may share out among them: whole devices, counted by kind.
//!
//! A replica of such a service takes whole GPUs. A device can be given to one where it can be used and no lease that
//! stays has a part of it: eight leases of an eighth on one GPU take one device, not eight, and what lies on a device
//! that cannot be used takes none of the others. A tenant's guarantee is a sum of thousandths, as its quota is.

use crate::{Broker, Lease};
use gpuwise_domain::placement::{GpuId, Health, KindId, Kinds};
use gpuwise_scale::arbitrate::Bound;
use gpuwise_sched::{queues::held_by, world::Link};
use std::collections::{BTreeMap, BTreeSet};

/// Unions of kinds that bounds are made of, at most; fewer bounds allow more, never less.
const BOUNDS: usize = 256;

/// Devices that can be given whole, by kind.
pub(super) struct FreeDevices(BTreeMap<KindId, u32>);

impl FreeDevices {
    /// Those of some kinds.
    pub(super) fn of(&self, kinds: Kinds) -> u32 {
        let own = self.0.iter().filter(|(kind, _)| kinds.has(**kind));
        own.map(|(_, many)| *many).sum()
    }

    /// How many GPUs services get together, by the kinds that each may get: services that may get the same kinds, or
    /// some of them, have no more than the devices of these kinds.
    pub(super) fn bounds(&self, sets: &[Kinds]) -> Vec<Bound> {
        let mut unions: BTreeSet<Kinds> = BTreeSet::new();
        let distinct: BTreeSet<Kinds> = sets.iter().copied().collect();
        for set in distinct {
            let joined: Vec<Kinds> = unions.iter().map(|union| union.or(set)).collect();
            if unions.len() + joined.len() < BOUNDS {
                unions.extend(joined);
            }
            unions.insert(set);
        }
        unions.insert(sets.iter().fold(Kinds::NONE, |all, set| all.or(*set)));
        let bound = |union: &Kinds| Bound {
            gpus: self.of(*union),
            asks: (sets.iter().enumerate())
                .filter(|(_, set)| set.and(*union) == **set)
                .map(|(place, _)| place)
                .collect(),
        };
        unions.iter().map(bound).collect()
    }
}

impl Broker {
    /// Devices that can be given whole to services.
    pub(super) fn free_devices(&self) -> FreeDevices {
        let taken = self.taken_devices();
        let mut free = BTreeMap::new();
        for (id, state) in (0..).map(GpuId).zip(self.world.gpus()) {
            let node = state.node.and_then(|node| self.world.node(node));
            let up = node.is_some_and(|node| node.node.health == Health::Up && !node.left);
            let usable = up && state.gpu.health == Health::Up && state.link == Link::Here;
            if usable && !taken.contains(&id) {
                *free.entry(state.gpu.kind).or_default() += 1;
            }
        }
        FreeDevices(free)
    }

    /// Devices of which a lease has a part that stays there whatever services want.
    fn taken_devices(&self) -> BTreeSet<GpuId> {
        let stays = self.open().filter(|lease| {
            let spot = lease.ask.preemptible == Some(true);
            !spot && !self.is_shared_out(lease)
        });
        let jobs = stays.filter_map(|lease| self.world.job(lease.job()));
        let places = jobs.flat_map(|job| &job.assignments);
        let parts = places.flat_map(|one| &one.gpus);
        parts.map(|share| share.gpu).collect()
    }

    /// Whether a lease is a replica of a service whose GPUs are shared out: it takes whole ones.
    fn is_shared_out(&self, lease: &Lease) -> bool {
        let service = self.scaling_of(lease);
        service.is_some_and(|(service, _)| self.whole_gpus(service).is_some())
    }

    /// Whole GPUs of these kinds that are a tenant's own, without what its leases hold that are not shared out.
    pub(super) fn guarantee(&self, tenant: &str, kinds: Kinds) -> u32 {
        let queue = self.world.queues().iter().find(|one| one.name == tenant);
        let quotas = queue.into_iter().flat_map(|queue| &queue.quotas);
        let own = quotas.filter(|quota| quota.kinds.iter().any(|kind| kinds.has(kind)));
        let nominal: u64 = own.map(|quota| quota.nominal_milli).sum();
        let others = self.open_of(tenant);
        let others = others.filter(|lease| !self.is_shared_out(lease));
        let held: u64 = others.map(|lease| self.milli_of(lease, kinds)).sum();
        u32::try_from(nominal.saturating_sub(held) / 1000).unwrap_or(u32::MAX)
    }

    /// Thousandths of GPUs of these kinds that a lease holds, as quotas count them.
    fn milli_of(&self, lease: &Lease, kinds: Kinds) -> u64 {
        let job = self.world.job(lease.job());
        let held = job.map(|job| held_by(&self.world, &job.assignments));
        let each = held.into_iter().flatten();
        let own = each.filter(|(kind, _)| kinds.has(KindId(*kind)));
        own.map(|(_, milli)| milli).sum()
    }
}
