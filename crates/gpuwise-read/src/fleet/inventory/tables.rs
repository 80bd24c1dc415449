//! What a fleet file holds, table by table.

use super::super::text::Many;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) name: Option<String>,
    pub(super) fabric: Option<String>,
    pub(super) sharing: Option<SharingTable>,
    pub(super) scheduling: Option<SchedulingTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulingTable {
    pub(super) order: Option<String>,
    pub(super) backfill: Option<String>,
    pub(super) starvation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SharingTable {
    pub(super) weigh: Option<String>,
    pub(super) half_life: Option<String>,
    pub(super) past: Option<f64>,
    pub(super) budget_period: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindTable {
    pub(super) name: String,
    pub(super) memory: Option<String>,
    pub(super) units: Option<u32>,
    pub(super) bandwidth_gbs: Option<u32>,
    pub(super) tflops: Option<u32>,
    pub(super) price: Option<String>,
    pub(super) mig: Option<GeometryTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryTable {
    pub(super) compute_slices: u8,
    pub(super) memory_slices: u8,
    pub(super) profile: Vec<ProfileTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileTable {
    pub(super) name: String,
    pub(super) memory: Option<String>,
    pub(super) units: Option<u32>,
    pub(super) compute: u8,
    pub(super) size: u8,
    pub(super) starts: Vec<u8>,
    pub(super) most: u8,
    #[serde(default)]
    pub(super) media: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DomainTable {
    pub(super) name: String,
    pub(super) block: Option<String>,
    pub(super) zone: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IslandTable {
    pub(super) name: String,
    pub(super) nodes: Many<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolTable {
    pub(super) name: String,
    pub(super) gpus: Many<String>,
    pub(super) attach: String,
    pub(super) detach: Option<String>,
    pub(super) nodes: Option<Many<String>>,
    pub(super) slots: Option<u32>,
    pub(super) hot_plug: Option<bool>,
    pub(super) resource_blocks: Option<Many<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    pub(super) name: String,
    pub(super) gpus: Option<Many<String>>,
    pub(super) uuids: Option<Vec<String>>,
    pub(super) resource_block: Option<String>,
    pub(super) features: Option<Many<String>>,
    pub(super) cpu: Option<f64>,
    pub(super) memory: Option<String>,
    pub(super) rack: Option<String>,
    pub(super) block: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) island: Option<String>,
    pub(super) nvlink: Option<Links>,
    pub(super) numa: Option<Spots>,
    pub(super) switches: Option<Spots>,
    pub(super) rails: Option<Spots>,
    pub(super) mig: Option<Mig>,
    pub(super) pools: Option<Many<String>>,
    pub(super) slots: Option<u32>,
    pub(super) health: Option<String>,
    #[serde(default)]
    pub(super) gpu_health: BTreeMap<String, String>,
}

/// How GPUs of a node are joined by NVLink.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "nvlink is true, false, a number of GPUs in a group, or lists of GPUs such as [[0, 1], [2, 3]]"
)]
pub(super) enum Links {
    /// All with all, or none with none.
    All(bool),
    /// Groups of so many, in order.
    Groups(u32),
    Listed(Vec<Vec<u32>>),
}

/// Where each GPU is.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected how many there are, or a number for each GPU such as [0, 0, 1, -1], -1 where it is not known"
)]
pub(super) enum Spots {
    /// Evenly over so many, in order.
    Evenly(u32),
    /// As listed, one number for each GPU; -1: not known.
    Listed(Vec<i64>),
}

/// MIG of a node's GPUs.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "mig is true, false, or instances by GPU such as { 0 = [\"3g.40gb@4\"], 1-3 = [] }"
)]
pub(super) enum Mig {
    /// On or off for all.
    All(bool),
    /// Instances on each of these GPUs; MIG is off on the others.
    Instances(BTreeMap<String, Vec<String>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueTable {
    pub(super) name: String,
    pub(super) parent: Option<String>,
    pub(super) quota: Option<Many<QuotaTable>>,
    pub(super) weight: Option<f64>,
    pub(super) priority: Option<i32>,
    pub(super) reclaims: Option<bool>,
    pub(super) budget: Option<String>,
    pub(super) used: Option<f64>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaTable {
    pub(super) types: Option<Many<String>>,
    pub(super) gpus: f64,
    pub(super) borrow: Option<f64>,
    pub(super) lend: Option<f64>,
    pub(super) cap: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservationTable {
    pub(super) name: String,
    pub(super) queue: String,
    pub(super) nodes: Many<String>,
    pub(super) gpus: u32,
    pub(super) from: Option<String>,
    pub(super) until: String,
}
