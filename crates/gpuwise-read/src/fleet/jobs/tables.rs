//! What a job file holds.

use super::super::text::Many;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    #[serde(rename = "name")]
    _name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobTable {
    pub(super) name: String,
    pub(super) id: Option<u32>,
    pub(super) count: Option<u32>,
    pub(super) tenant: Option<String>,
    pub(super) queue: Option<String>,
    #[serde(default)]
    pub(super) priority: i32,
    pub(super) submitted: Option<String>,
    pub(super) gpus: Option<Gpus>,
    pub(super) types: Option<Many<String>>,
    #[serde(default)]
    pub(super) need: NeedTable,
    pub(super) slice: Option<Slice>,
    pub(super) fraction: Option<Share>,
    pub(super) features: Option<Many<String>>,
    pub(super) cpu: Option<f64>,
    pub(super) memory: Option<String>,
    pub(super) workers: Option<Workers>,
    pub(super) within: Option<Within>,
    pub(super) spread: Option<SpreadTable>,
    pub(super) deadline: Option<String>,
    pub(super) preemptible: Option<Preemptible>,
    pub(super) duration: Option<Duration>,
    #[serde(default)]
    pub(super) speeds: BTreeMap<String, f64>,
    pub(super) near: Option<Many<String>>,
    pub(super) running: Option<Many<String>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "gpus is a number, or a number and a type, such as 8 or \"8xH100\""
)]
pub(super) enum Gpus {
    Count(i64),
    Text(String),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct NeedTable {
    pub(super) memory: Option<String>,
    pub(super) tflops: Option<u32>,
    pub(super) bandwidth_gbs: Option<u32>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "slice is a MIG profile such as \"1g.10gb\", or { memory = \"9GiB\", units = 14, media = false }"
)]
pub(super) enum Slice {
    Profile(String),
    Least(SliceTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SliceTable {
    pub(super) memory: Option<String>,
    pub(super) units: Option<u32>,
    #[serde(default)]
    pub(super) media: bool,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "fraction is a share such as 0.25, or { share = 0.25, memory = \"10GiB\", isolation = \"mps\" }"
)]
pub(super) enum Share {
    Of(f64),
    Table(ShareTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareTable {
    pub(super) share: f64,
    pub(super) memory: Option<String>,
    pub(super) isolation: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "workers is a number, or { min = 1, preferred = 2, max = 4 }"
)]
pub(super) enum Workers {
    Exactly(u32),
    Range(WorkersTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersTable {
    pub(super) min: u32,
    pub(super) preferred: Option<u32>,
    pub(super) max: Option<u32>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "within is a level such as \"nvlink\", or { level = \"nvlink\", slower = 0.2 }"
)]
pub(super) enum Within {
    Required(String),
    Wished(WithinTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WithinTable {
    pub(super) level: String,
    pub(super) slower: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpreadTable {
    pub(super) over: String,
    pub(super) most: Option<u32>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "preemptible is true, false, or { checkpoint = \"30min\", restart = \"2min\" }"
)]
pub(super) enum Preemptible {
    Flag(bool),
    Table(PreemptibleTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreemptibleTable {
    pub(super) checkpoint: Option<String>,
    pub(super) restart: String,
    pub(super) grace: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "duration is a time such as \"5h\", or { expected = \"5h\", spread = 0.4 }, of which spread can be left out"
)]
pub(super) enum Duration {
    Known(String),
    Believed(DurationTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DurationTable {
    pub(super) expected: String,
    pub(super) spread: Option<f64>,
}
