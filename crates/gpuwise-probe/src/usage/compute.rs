//! How busy the devices of a workload were together.

use super::{
    collected::{Mean, Member, higher},
    merge::Held,
};
use gpuwise_domain::usage::ComputeUse;
use std::collections::BTreeMap;

/// By the best measure of its devices.
pub(super) fn compute(
    members: &[Held<'_>],
    counted: &[Held<'_>],
    span_of: impl Fn(&Member) -> f64,
) -> Option<ComputeUse> {
    let measure = members
        .iter()
        .filter_map(|(_, member)| member.measure)
        .max()?;
    let mut average = Mean::default();
    let mut p95 = None;
    for (_, member) in members {
        average.add(
            member.compute_average.get().unwrap_or(f64::NAN),
            span_of(member),
        );
        higher(&mut p95, percentile(member).unwrap_or(f64::NAN));
    }
    let mut pods: BTreeMap<&str, f64> = BTreeMap::new();
    let mut whole = true;
    for (place, member) in counted {
        match percentile(member) {
            Some(p95) => {
                let known = pods.entry(place.pod.as_str()).or_insert(p95);
                *known = known.max(p95);
            }
            None => whole = false,
        }
    }
    Some(ComputeUse {
        measure,
        average: average.get(),
        p95,
        p95_sum: (whole && !pods.is_empty()).then(|| pods.values().sum()),
        of_hours: members
            .iter()
            .any(|(_, member)| member.compute_p95.is_none()),
    })
}

/// The 95th percentile of all samples where it was asked for, else that of the largest of each hour.
fn percentile(member: &Member) -> Option<f64> {
    member.compute_p95.or_else(|| {
        let known = member.compute_hourly.iter().filter(|value| !value.is_nan());
        let mut known: Vec<f32> = known.copied().collect();
        let rank = (known.len() as f64 * 0.95).ceil().max(1.0) as usize - 1;
        if rank >= known.len() {
            return None;
        }
        let (_, value, _) = known.select_nth_unstable_by(rank, f32::total_cmp);
        Some(f64::from(*value))
    })
}
