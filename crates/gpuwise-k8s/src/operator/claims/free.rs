//! Devices that nobody holds, and which sorts they serve.

use super::{
    Served, Sort,
    users::{Users, is_used},
};
use crate::{
    inventory::{DeviceId, Inventory, Key, Selector, is_gpu, is_part},
    objects::{self, SliceSpec, whole},
    steer::{Counter, Device, Devices, Pool},
};
use std::collections::{BTreeMap, BTreeSet};

/// What a sort is served by, of all devices that drivers offer.
pub(super) fn served(inventory: &Inventory, sort: &Sort) -> Served {
    let wanted = match selectors(inventory, sort) {
        None => return Served::NoClass,
        Some(Err(why)) => return Served::Unread(why),
        Some(Ok(wanted)) => wanted,
    };
    let mut others = false;
    for (_, slice) in inventory.current_slices() {
        for device in &slice.spec.devices {
            match selects(&wanted, &slice.spec.driver, device) {
                None => {
                    return Served::Unread(format!(
                        "a selector of class {} cannot be weighed for device {} of {}",
                        sort.class, device.name, slice.spec.driver
                    ));
                }
                Some(true) if is_gpu(&slice.spec.driver, device) => return Served::Gpus,
                Some(is) => others |= is,
            }
        }
    }
    // Where no device is of it nobody knows what for it is: it waits for one.
    if others { Served::Others } else { Served::Gpus }
}

fn selects(wanted: &[Selector], driver: &str, device: &objects::Device) -> Option<bool> {
    for one in wanted {
        if !one.selects(driver, device)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Devices of nodes that no claim has, for sorts that somebody asks.
pub(super) fn devices(inventory: &Inventory, sorts: &[Sort], users: &Users) -> Devices {
    let mut out = Devices {
        asked: sorts.iter().map(Sort::name).collect(),
        ..Devices::default()
    };
    let wanted: Vec<(String, Vec<Selector>)> = sorts
        .iter()
        .filter_map(|sort| Some((sort.name(), selectors(inventory, sort)?.ok()?)))
        .collect();
    let allocated = inventory.allocated();
    let mut whole: BTreeSet<String> = BTreeSet::new();
    let slices = inventory.current_slices();
    for spec in slices.iter().map(|(_, slice)| &slice.spec) {
        let Some(node) = &spec.node_name else {
            continue;
        };
        let pool = out.pools.entry(node.clone()).or_default();
        counters(spec, pool);
    }
    // The same, were nothing held.
    let mut full = out.pools.clone();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for spec in slices.iter().map(|(_, slice)| &slice.spec) {
        for device in &spec.devices {
            let Some(node) = device.node_name.as_ref().or(spec.node_name.as_ref()) else {
                continue;
            };
            let pool = out.pools.entry(node.clone()).or_default();
            let takes = takes(spec, device);
            let claims = allocated.get(&id(spec, device));
            let is_held = claims.is_some();
            if is_held && !device.allow_multiple_allocations {
                for (counter, count) in &takes {
                    if let Some(left) = pool.counters.get_mut(counter) {
                        *left = left.saturating_sub(*count);
                    }
                }
            }
            let serves: BTreeSet<String> = wanted
                .iter()
                .filter(|(_, wanted)| selects(wanted, &spec.driver, device) == Some(true))
                .map(|(name, _)| name.clone())
                .collect();
            if is_part(device) {
                out.parts.extend(serves.iter().cloned());
            } else {
                whole.extend(serves.iter().cloned());
            }
            let keeps = device.taints.iter().any(|taint| taint.effect != "None");
            let at = counts.entry(node.clone()).or_default();
            *at += 1;
            let one = Device {
                at: *at,
                takes,
                serves: if keeps { BTreeSet::new() } else { serves },
            };
            if let Some(claims) = claims.filter(|_| !device.allow_multiple_allocations) {
                hold(inventory, users, (node, &one), claims, &mut out);
            }
            if one.serves.is_empty() {
                continue;
            }
            let empty = full.entry(node.clone()).or_default();
            empty.devices.push(one.clone());
            if let (false, Some(pool)) = (is_held, out.pools.get_mut(node)) {
                pool.devices.push(one);
            }
        }
    }
    for name in &out.asked {
        let counts = full
            .values()
            .map(|pool| pool.clone().take(name, u32::MAX).len() as u32);
        if let Some(most) = counts.max().filter(|most| *most > 0) {
            out.most.insert(name.clone(), most);
        }
    }
    // What whole GPUs serve too counts as they do.
    out.parts.retain(|name| !whole.contains(name));
    out
}

/// Says who a device is free after: a pod, or nobody any more.
fn hold(
    inventory: &Inventory,
    users: &Users,
    (node, device): (&str, &Device),
    claims: &[Key],
    out: &mut Devices,
) {
    let used = claims.iter().any(|key| {
        let claim = inventory.claims.at(key);
        claim.is_some_and(|claim| is_used(inventory, &key.namespace, claim))
    });
    let all = match claims {
        _ if !used => out.going.entry(node.to_owned()).or_default(),
        [claim] => match users.holder(claim) {
            Some(uid) => out.held.entry(uid.to_owned()).or_default(),
            None => return,
        },
        _ => return,
    };
    all.push(device.clone());
}

fn id(spec: &SliceSpec, device: &objects::Device) -> DeviceId {
    DeviceId {
        driver: spec.driver.as_str().into(),
        pool: spec.pool.name.as_str().into(),
        device: device.name.as_str().into(),
    }
}

/// A set of counters, by driver and pool beside its own name.
fn set(spec: &SliceSpec, name: &str) -> String {
    format!("{}/{}/{name}", spec.driver, spec.pool.name)
}

fn counters(spec: &SliceSpec, pool: &mut Pool) {
    for one in &spec.shared_counters {
        for (counter, measure) in &one.counters {
            // What is no quantity gives nothing.
            let count = whole(&measure.value).unwrap_or_default();
            pool.counters
                .insert((set(spec, &one.name), counter.clone()), count);
        }
    }
}

fn takes(spec: &SliceSpec, device: &objects::Device) -> Vec<(Counter, u64)> {
    let mut all: BTreeMap<Counter, u64> = BTreeMap::new();
    for used in &device.consumes_counters {
        for (counter, measure) in &used.counters {
            // What is no quantity is more than there is.
            let count = whole(&measure.value).unwrap_or(u64::MAX);
            all.insert((set(spec, &used.counter_set), counter.clone()), count);
        }
    }
    all.into_iter().collect()
}

/// What selects devices of a sort: of its class, and its own. `None`: there is no such class.
fn selectors(inventory: &Inventory, sort: &Sort) -> Option<Result<Vec<Selector>, String>> {
    let class = inventory.classes.get("", &sort.class)?;
    let of_class = class.spec.selectors.iter();
    let of_class = of_class.filter_map(|one| Some(&one.cel.as_ref()?.expression));
    let all: BTreeSet<&String> = of_class.chain(&sort.selectors).collect();
    let read = all.into_iter().map(|text| Selector::read(text));
    Some(
        read.collect::<Result<_, _>>()
            .map_err(|unread| unread.to_string()),
    )
}
