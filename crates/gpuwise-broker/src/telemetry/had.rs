//! Who had what of a GPU, and when: what a source measured of a GPU is divided by it.

use crate::{Broker, Lease, lease::lease_number};
use gpuwise_account::{period::Interval, usage::Granted};
use gpuwise_domain::placement::{GpuId, GpuShare, Part};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// A lease had a share of a GPU over a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Had {
    pub lease: u32,
    pub interval: Interval,
    /// Of its compute, above 0, at most 1.
    pub share: f64,
    /// The profile of the MIG instances that it had, such as `1g.10gb`.
    pub profile: Option<String>,
    /// How many equal parts of the GPU that were.
    pub parts: u32,
}

impl Broker {
    /// Who had what of GPUs over a time, as it was granted, by their lasting ids.
    pub fn had<'u>(
        &self,
        now: Nanoseconds,
        within: Interval,
        uids: impl Iterator<Item = &'u str>,
    ) -> BTreeMap<&'u str, Vec<Had>> {
        let share = |granted: &Granted| {
            let share = granted.compute();
            f64::from(share.part) / f64::from(share.of.max(1))
        };
        let profile = |granted: &Granted| match granted {
            Granted::Slice { profile, .. } => Some(profile.clone()),
            _ => None,
        };
        let one = |lease: &str, interval: Interval, granted: &Granted| {
            let interval = interval.within(within);
            let lease = lease_number(lease).filter(|_| !interval.is_empty())?;
            Some(Had {
                lease,
                interval,
                share: share(granted),
                profile: profile(granted),
                parts: 1,
            })
        };
        let mut all: BTreeMap<&str, Vec<Had>> = uids.map(|uid| (uid, Vec::new())).collect();
        for (uid, had) in &mut all {
            for (_, series) in self.accounts.books.meter().of_device(uid) {
                let spans = series.spans.touching(within);
                had.extend(spans.filter_map(|span| one(&series.lease, span, &series.granted)));
            }
        }
        for record in self.open().flat_map(|lease| self.holding(now, lease)) {
            if let Some(had) = all.get_mut(record.device.as_str()) {
                let interval = Interval::new(record.start, record.end);
                had.extend(one(&record.lease, interval, &record.granted));
            }
        }
        for had in all.values_mut() {
            *had = together(std::mem::take(had));
        }
        all
    }

    /// How much of the compute of each GPU that a lease is on it has, on average: 1 where they are whole GPUs.
    pub fn share_of(&self, lease: &Lease) -> f64 {
        let of = |share: &GpuShare| match share.part {
            Part::Whole => Some(1.0),
            Part::Fraction { milli, .. } => Some(f64::from(milli) / 1000.0),
            Part::Slice { shape, .. } => {
                let kind = self.world.kind(self.world.gpu(share.gpu)?.gpu.kind)?;
                let mig = kind.mig.as_ref()?;
                let compute = f64::from(mig.shape(shape)?.compute);
                Some(compute / f64::from(mig.compute_slices.max(1)))
            }
        };
        let mut gpus: BTreeMap<GpuId, f64> = BTreeMap::new();
        for share in lease.place.iter().flat_map(|one| &one.gpus) {
            if let Some(part) = of(share).filter(|part| *part > 0.0) {
                *gpus.entry(share.gpu).or_default() += part;
            }
        }
        if gpus.is_empty() {
            return 1.0;
        }
        gpus.values().sum::<f64>() / gpus.len() as f64
    }
}

/// What leases had of one GPU, the parts of one lease and profile at a time as one.
fn together(mut had: Vec<Had>) -> Vec<Had> {
    had.sort_by(|one, other| {
        let key = |had: &Had| (had.lease, had.profile.clone());
        key(one).cmp(&key(other))
    });
    let mut all = Vec::new();
    for own in had.chunk_by(|one, other| one.lease == other.lease && one.profile == other.profile) {
        let bounds = own
            .iter()
            .flat_map(|one| [one.interval.start, one.interval.end]);
        let moments: BTreeSet<Nanoseconds> = bounds.collect();
        let moments: Vec<Nanoseconds> = moments.into_iter().collect();
        for pair in moments.windows(2) {
            let within = Interval::new(pair[0], pair[1]);
            let held = own.iter().filter(|one| one.interval.overlaps(within));
            let (parts, share) = held.fold((0, 0.0), |(parts, share), one| {
                (parts + one.parts, share + one.share)
            });
            let last: Option<&mut Had> = all.last_mut();
            match last {
                _ if parts == 0 => {}
                // Spans of one part that follow each other are one.
                Some(last)
                    if last.interval.end == within.start
                        && last.lease == own[0].lease
                        && last.profile == own[0].profile
                        && last.parts == parts
                        && last.share.total_cmp(&share).is_eq() =>
                {
                    last.interval.end = within.end;
                }
                _ => all.push(Had {
                    interval: within,
                    share,
                    parts,
                    ..own[0].clone()
                }),
            }
        }
    }
    all.sort_by_key(|one| (one.lease, one.interval.start));
    all
}
