//! Grants as accounting sees them.

use super::{SOURCE, class};
use crate::{Lease, grants::Grant};
use gpuwise_account::usage::{Granted, Principal, Sharing, UsageRecord, Used};
use gpuwise_domain::{
    offer::Terms,
    placement::{GpuAsk, GpuId, KindId, Part},
};
use gpuwise_sched::world::World;

/// A grant as accounting sees it.
pub(crate) struct Seen {
    pub(crate) device: String,
    pub(crate) kind: String,
    pub(crate) granted: Granted,
    pub(crate) isolation: Sharing,
    pub(crate) class: Terms,
}

pub(super) fn record(
    world: &World,
    lease: &Lease,
    grant: &Grant,
    id: String,
    sequence: u64,
) -> Option<UsageRecord> {
    let seen = seen(world, lease, grant.gpu, grant.part)?;
    Some(UsageRecord {
        principal: Principal::Broker,
        source: SOURCE.into(),
        id,
        sequence,
        tenant: lease.ask.tenant.clone(),
        lease: lease.id(),
        device: seen.device,
        part: grant.nth,
        kind: seen.kind,
        granted: seen.granted,
        isolation: seen.isolation,
        class: seen.class,
        start: grant.start,
        end: grant.end,
        used: Used {
            start_ns: grant
                .starting
                .then(|| grant.end.0.saturating_sub(grant.start.0)),
            ..Used::default()
        },
    })
}

pub(crate) fn seen(world: &World, lease: &Lease, gpu: GpuId, part: Part) -> Option<Seen> {
    let state = world.gpu(gpu)?;
    let kind = world.kind(state.gpu.kind)?;
    let (granted, isolation) = match part {
        Part::Whole => (Granted::Whole, Sharing::Exclusive),
        Part::Fraction {
            milli,
            memory_mib,
            isolation,
        } => {
            let granted = Granted::Fraction {
                compute_milli: milli,
                memory_mib,
                of_mib: kind.memory_mib.unwrap_or(memory_mib).max(1),
            };
            (granted, isolation.into())
        }
        Part::Slice { shape, .. } => {
            let mig = kind.mig.as_ref()?;
            let shape = mig.shape(shape)?;
            let granted = Granted::Slice {
                profile: shape.profile.clone(),
                compute: shape.compute,
                of_compute: mig.compute_slices,
                memory: shape.size,
                of_memory: mig.memory_slices,
            };
            (granted, Sharing::Mig)
        }
    };
    Some(Seen {
        device: state.gpu.uid.to_string(),
        kind: kind.name.clone(),
        granted,
        isolation,
        class: class(lease),
    })
}

/// What an ask is granted of a kind at most, and how many such parts a worker gets.
pub(super) fn granted(
    world: &World,
    kind: KindId,
    ask: &GpuAsk,
) -> Option<(Granted, Sharing, u32)> {
    let kind = world.kind(kind)?;
    Some(match ask {
        GpuAsk::None => (Granted::Nothing, Sharing::Exclusive, 0),
        GpuAsk::Whole { count, .. } => (Granted::Whole, Sharing::Exclusive, *count),
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            ..
        } => {
            let granted = Granted::Fraction {
                compute_milli: *milli,
                memory_mib: memory_mib.unwrap_or(0),
                of_mib: kind.memory_mib.or(*memory_mib).unwrap_or(1).max(1),
            };
            (granted, (*isolation).into(), 1)
        }
        // Which profile it gets is the kernel's choice: at most the whole.
        GpuAsk::Slice { slice, .. } => {
            let mig = kind.mig.as_ref()?;
            let fits = |shape: &&gpuwise_domain::placement::MigShape| {
                (slice.compute == 0 || shape.compute == slice.compute)
                    && (slice.memory_slices == 0 || shape.size == slice.memory_slices)
                    && shape.memory_mib.is_none_or(|mib| mib >= slice.memory_mib)
            };
            let mut shapes: Vec<_> = mig.shapes.iter().filter(fits).collect();
            if slice.compute == 0 && slice.memory_slices == 0 {
                shapes = mig.shapes.iter().collect();
            }
            let largest = shapes
                .iter()
                .max_by_key(|shape| (shape.compute, shape.size))?;
            let granted = Granted::Slice {
                profile: largest.profile.clone(),
                compute: largest.compute,
                of_compute: mig.compute_slices,
                memory: largest.size,
                of_memory: mig.memory_slices,
            };
            (granted, Sharing::Mig, 1)
        }
    })
}
