//! Devices of a node by dynamic resource allocation, and the GPUs that they are or are parts of.

use super::{DeviceId, Inventory, Key, Text, devices::Slice};
use crate::objects::{self, Device, SliceSpec};
use gpuwise_read::fleet::{FoundGpu, FoundSlice};
use std::collections::{BTreeMap, BTreeSet};

/// A GPU that a driver offers, whole or in partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceGpu {
    /// Its counter set, or the device itself where it has none.
    pub name: Text,
    pub product: Option<String>,
    pub uuid: Option<String>,
    pub memory: Option<u64>,
    /// The device that is the whole GPU, where it is offered whole.
    pub whole: Option<DeviceId>,
    /// Devices that are a part of it, with the profile that they say.
    pub parts: Vec<(DeviceId, Option<String>)>,
    /// Taints of a device of it that keep pods away: `key:effect`.
    pub taints: BTreeSet<String>,
}

impl Inventory {
    /// Slices that count: of each pool those of its newest generation, and only when all are there.
    pub fn current_slices(&self) -> Vec<(Text, &Slice)> {
        let pool = |spec: &SliceSpec| (spec.driver.clone(), spec.pool.name.clone());
        let mut newest: BTreeMap<(String, String), (i64, i64)> = BTreeMap::new();
        for slice in self.slices.values() {
            let own = slice.spec.pool.generation;
            let (generation, count) = newest.entry(pool(&slice.spec)).or_insert((own, 0));
            if own > *generation {
                (*generation, *count) = (own, 0);
            }
            *count += i64::from(own == *generation);
        }
        let counts = |spec: &SliceSpec| {
            newest.get(&pool(spec)).is_some_and(|(generation, count)| {
                spec.pool.generation == *generation && *count >= spec.pool.resource_slice_count
            })
        };
        let all = self.slices.iter();
        all.filter(|(_, slice)| counts(&slice.spec))
            .map(|(key, slice)| (key.name, slice.as_ref()))
            .collect()
    }

    /// GPUs that drivers offer on nodes, by node.
    pub fn device_gpus(&self) -> BTreeMap<Text, Vec<DeviceGpu>> {
        let mut out: BTreeMap<Text, BTreeMap<(String, String), DeviceGpu>> = BTreeMap::new();
        for (_, slice) in self.current_slices() {
            let spec = &slice.spec;
            for device in &spec.devices {
                let node = device.node_name.as_ref().or(spec.node_name.as_ref());
                let Some(node) = node.filter(|_| is_gpu(&spec.driver, device)) else {
                    continue;
                };
                let known = self.node(node);
                let node = known.map_or_else(|| node.as_str().into(), |node| node.name.clone());
                let set = gpu_of(device).to_owned();
                let gpus = out.entry(node).or_default();
                let gpu = gpus
                    .entry((spec.pool.name.clone(), set.clone()))
                    .or_insert_with(|| empty(&set));
                add(gpu, spec, device);
            }
        }
        out.into_iter()
            .map(|(node, gpus)| (node, gpus.into_values().collect()))
            .collect()
    }

    /// Devices that claims hold, each with the claims; more than one where it is shared, or wrongly given.
    pub fn allocated(&self) -> BTreeMap<DeviceId, Vec<Key>> {
        let mut out: BTreeMap<DeviceId, Vec<Key>> = BTreeMap::new();
        for (key, claim) in self.claims.iter() {
            for got in claim.got.iter().flatten().filter(|got| !got.admin) {
                out.entry(got.device.clone()).or_default().push(key.clone());
            }
        }
        out
    }
}

fn empty(name: &str) -> DeviceGpu {
    DeviceGpu {
        name: name.into(),
        product: None,
        uuid: None,
        memory: None,
        whole: None,
        parts: Vec::new(),
        taints: BTreeSet::new(),
    }
}

/// Drivers of GPUs have it in their names (`gpu.nvidia.com`, `gpu.intel.com`), or their devices name a product.
pub fn is_gpu(driver: &str, device: &Device) -> bool {
    driver.contains("gpu") || text(device, "productName").is_some()
}

/// Whether a device is a part of a GPU, and not the whole.
pub fn is_part(device: &Device) -> bool {
    let profile = text(device, "profile").filter(|profile| *profile != "full");
    text(device, "type").is_some_and(|kind| kind.starts_with("mig"))
        || (profile.is_some() && !device.consumes_counters.is_empty())
}

/// What a device is a part of: the set of counters that it takes from, its parent, or itself.
fn gpu_of(device: &Device) -> &str {
    let counters = device.consumes_counters.first();
    counters
        .map(|used| used.counter_set.as_str())
        .or_else(|| text(device, "parentUUID"))
        .unwrap_or(&device.name)
}

/// An attribute that is a text, whatever domain its name has.
fn text<'a>(device: &'a Device, name: &str) -> Option<&'a str> {
    let mut all = device.attributes.iter();
    let (_, value) = all.find(|(key, _)| key.rsplit('/').next() == Some(name))?;
    value.get("string")?.as_str()
}

fn add(gpu: &mut DeviceGpu, spec: &SliceSpec, device: &Device) {
    let id = DeviceId {
        driver: spec.driver.as_str().into(),
        pool: spec.pool.name.as_str().into(),
        device: device.name.as_str().into(),
    };
    let memory = device.capacity.iter();
    let memory = memory
        .filter(|(key, _)| key.rsplit('/').next() == Some("memory"))
        .find_map(|(_, measure)| objects::whole(&measure.value).ok());
    let said = |name: &str| text(device, name).map(ToOwned::to_owned);
    let profile = said("profile").filter(|profile| profile != "full");
    gpu.product = gpu.product.take().or_else(|| said("productName"));
    if is_part(device) {
        gpu.parts.push((id, profile));
    } else {
        gpu.uuid = gpu.uuid.take().or_else(|| said("uuid"));
        gpu.whole.get_or_insert(id);
    }
    gpu.memory = gpu.memory.max(memory);
    let keeps = device.taints.iter().filter(|taint| taint.effect != "None");
    gpu.taints
        .extend(keeps.map(|taint| format!("{}:{}", taint.key, taint.effect)));
}

impl DeviceGpu {
    /// As a fleet file takes it: cut where parts are held, with these as its instances.
    pub(super) fn found(&self, held: &BTreeMap<DeviceId, Vec<Key>>) -> FoundGpu {
        let taken: Vec<FoundSlice> = self
            .parts
            .iter()
            .filter(|(id, _)| held.contains_key(id))
            .map(|(_, profile)| FoundSlice {
                profile: profile.clone(),
                ..FoundSlice::default()
            })
            .collect();
        FoundGpu {
            product: self.product.clone(),
            uuid: self.uuid.clone(),
            memory_mib: self
                .memory
                .and_then(|memory| u32::try_from(memory >> 20).ok()),
            mig: (!taken.is_empty()).then_some(taken),
            ..FoundGpu::default()
        }
    }
}
