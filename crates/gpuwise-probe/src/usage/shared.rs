//! Devices that several pods hold at once, and devices of a pod that do nothing.

use super::{ask::Place, collected::Member, merge::is_present};
use std::collections::{BTreeMap, BTreeSet};

/// Hours in which two pods must both show one device: a change of hands shows in one or two.
const TOGETHER: usize = 3;

/// A device, by what tells it apart: its UUID, or host and number; and the MIG instance.
type Device<'a> = (&'a str, &'a str, &'a str);

fn device(place: &Place) -> Device<'_> {
    let unique = place.device.starts_with("GPU-") || place.device.starts_with("MIG-");
    let host = if unique { "" } else { place.host.as_str() };
    (host, &place.device, &place.instance)
}

/// Places of devices that several pods hold at the same time at the end, by time-slicing or MPS, with how
/// many do.
pub(super) fn shared<'a>(
    members: &'a BTreeMap<Place, Member>,
    hours: usize,
) -> BTreeMap<&'a Place, u32> {
    let mut devices: BTreeMap<Device<'_>, Vec<(&'a Place, &'a Member)>> = BTreeMap::new();
    for (place, member) in members {
        if !place.pod.is_empty() && !place.device.is_empty() && is_present(member, hours) {
            devices
                .entry(device(place))
                .or_default()
                .push((place, member));
        }
    }
    let mut found = BTreeMap::new();
    for holders in devices.values().filter(|holders| holders.len() > 1) {
        for (place, member) in holders {
            let others = holders.iter().filter(|(other, shown)| {
                pod(other) != pod(place) && together(member, shown) >= TOGETHER.min(hours)
            });
            let others: BTreeSet<_> = others.map(|(other, _)| pod(other)).collect();
            if !others.is_empty() {
                found.insert(*place, others.len() as u32 + 1);
            }
        }
    }
    found
}

fn pod(place: &Place) -> (&str, &str) {
    (&place.namespace, &place.pod)
}

/// Hours in which both are known.
fn together(one: &Member, other: &Member) -> usize {
    let both = |one: &[f32], other: &[f32]| {
        let hours = one.iter().zip(other);
        hours.filter(|(a, b)| !a.is_nan() && !b.is_nan()).count()
    };
    both(&one.memory_hourly, &other.memory_hourly)
        .max(both(&one.compute_hourly, &other.compute_hourly))
}

/// Devices of each pod that did nothing in the whole window, as many as every pod has; none where all did
/// nothing, which is another matter.
pub(super) fn idle_devices(members: &[(&Place, &Member)], idle_below: f64, hours: usize) -> u32 {
    let mut pods: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
    for (place, member) in members {
        if !is_present(member, hours) {
            continue;
        }
        let known = member.compute_hourly.iter().filter(|value| !value.is_nan());
        let mut known = known.peekable();
        let idle = known.peek().is_some() && known.all(|value| f64::from(*value) < idle_below);
        let counts = pods.entry(pod(place)).or_default();
        counts.0 += 1;
        counts.1 += u32::from(idle);
    }
    let idle = pods
        .values()
        .map(|(all, idle)| if idle < all { *idle } else { 0 });
    idle.min().unwrap_or(0)
}
