//! The inventory as fleet and job files take it.

use super::{Amounts, DeviceId, Inventory, Key, Pod, Text};
use gpuwise_read::fleet::{FoundAsk, FoundJob, FoundNode, FoundPlace};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Where each device of a driver is: its node, the number of its GPU there, its profile where it is a part.
type Places = BTreeMap<DeviceId, (Text, u32, Option<String>)>;

/// Pods of a gang that are workers of one job.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Workers {
    gang: Key,
    asks: Amounts,
    /// They have nodes.
    held: bool,
}

impl Inventory {
    /// Nodes as a fleet file takes them; GPUs by dynamic allocation where no device plugin offers any. Nodes
    /// that cannot be read are left out, and are among the findings.
    pub fn found_nodes(&self) -> Vec<FoundNode> {
        let devices = self.device_gpus();
        let held = self.allocated();
        let mut out = Vec::new();
        for node in self.nodes.values() {
            let Some(mut found) = node.found.clone() else {
                continue;
            };
            let offered = devices.get(&node.name).filter(|_| found.gpus.is_empty());
            if let Some(gpus) = offered {
                found.gpus = gpus.iter().map(|gpu| gpu.found(&held)).collect();
                let tainted = gpus.iter().flat_map(|gpu| {
                    let taints = gpu.taints.iter();
                    taints.map(|taint| format!("GPU {} has the taint {taint}", gpu.name))
                });
                found.notes.extend(tainted);
            }
            out.push(found);
        }
        out
    }

    /// Who holds what and who waits, as a job file takes it. `now` in seconds since 1970. Pods without
    /// GPUs on nodes that have some are one job for each node.
    pub fn found_jobs(&self, now: i64) -> Vec<FoundJob> {
        let places = self.device_places();
        let mut gangs: BTreeMap<Workers, Vec<Arc<Pod>>> = BTreeMap::new();
        let mut out = Vec::new();
        for (key, pod) in self.pods.iter() {
            if pod.phase.ended() || self.gpus_asked(pod).is_none() {
                continue;
            }
            match self.gang(pod) {
                Some((gang, _)) => {
                    let alike = Workers {
                        gang,
                        asks: pod.shape.asks.clone(),
                        held: pod.node.is_some(),
                    };
                    gangs.entry(alike).or_default().push(pod.clone());
                }
                None => out.extend(self.jobs_of(
                    &key.to_string(),
                    std::slice::from_ref(pod),
                    1,
                    now,
                    &places,
                )),
            }
        }
        for (Workers { gang, held, .. }, pods) in gangs {
            let least = pods.first().and_then(|pod| self.gang(pod)?.1).unwrap_or(1);
            let name = if held {
                gang.to_string()
            } else {
                format!("{gang} (waiting)")
            };
            out.extend(self.jobs_of(&name, &pods, least, now, &places));
        }
        out.extend(self.others());
        once(&mut out);
        out
    }

    /// One job of a gang's pods, or several where a worker asks more than one part of a GPU.
    fn jobs_of(
        &self,
        name: &str,
        pods: &[Arc<Pod>],
        least: u32,
        now: i64,
        places: &Places,
    ) -> Vec<FoundJob> {
        let Some(first) = pods.first() else {
            return Vec::new();
        };
        let asks = &first.shape.asks;
        let created = pods.iter().map(|pod| pod.created).min().unwrap_or(now);
        let mut notes = vec![self.workload(first).to_string()];
        if let Some(waiting) = first.waiting() {
            notes.push(waiting.to_string());
        }
        let count = pods.len() as u32;
        let waits = u64::try_from(now - created).unwrap_or(0);
        let mut out = Vec::new();
        for (at, (ask, said)) in self.parts(first, places).into_iter().enumerate() {
            let on = pods.iter().filter_map(|pod| {
                let gpus = match pods {
                    [_] => said.clone(),
                    _ => self
                        .parts(pod, places)
                        .get(at)
                        .map_or_else(Vec::new, |part| part.1.clone()),
                };
                Some(FoundPlace {
                    node: pod.node.as_ref()?.to_string(),
                    gpus,
                })
            });
            let own = at == 0;
            out.push(FoundJob {
                name: if own {
                    name.to_owned()
                } else {
                    format!("{name} +{at}")
                },
                tenant: Some(first.namespace.to_string()),
                priority: first.shape.priority,
                gpu: ask,
                cpu_milli: if own { asks.cpu_milli } else { 0 },
                memory_mib: if own { asks.memory >> 20 } else { 0 },
                workers: (least.clamp(1, count.max(1)), count),
                on: on.collect(),
                waits_seconds: Some(waits),
                notes: if own { notes.clone() } else { Vec::new() },
            });
        }
        out
    }

    /// What a pod asks as jobs can: each with the numbers of its GPUs where these are known.
    fn parts(&self, pod: &Pod, places: &Places) -> Vec<(FoundAsk, Vec<u32>)> {
        let asked = self.gpus_asked(pod);
        let node = pod.node.as_ref().and_then(|node| self.node(node));
        let mut out = Vec::new();
        if asked.whole > 0 {
            let replicas = node.map_or(1, |node| node.replicas());
            let instances = node
                .and_then(|node| {
                    node.found
                        .as_ref()?
                        .gpus
                        .first()?
                        .mig
                        .as_ref()?
                        .first()?
                        .profile
                        .clone()
                })
                .filter(|_| {
                    node.is_some_and(|node| node.label("nvidia.com/mig.strategy") == Some("single"))
                });
            match instances {
                Some(profile) => out.extend(
                    (0..asked.whole.min(64))
                        .map(|_| (FoundAsk::Slice(profile.clone()), Vec::new())),
                ),
                None if replicas > 1 => {
                    let milli = (1000 * asked.whole / replicas).clamp(1, 1000);
                    out.push((FoundAsk::Share(milli as u32), Vec::new()));
                }
                None => {
                    let count = u32::try_from(asked.whole).unwrap_or(u32::MAX);
                    out.push((FoundAsk::Whole(count), Vec::new()));
                }
            }
        }
        for (profile, count) in asked.slices {
            let each = (0..count.min(64)).map(|_| (FoundAsk::Slice(profile.clone()), Vec::new()));
            out.extend(each);
        }
        out.extend(self.by_claims(pod, places));
        let wished: u64 = asked.devices.iter().map(|one| one.count.unwrap_or(1)).sum();
        if out.is_empty() && wished > 0 {
            let count = u32::try_from(wished).unwrap_or(u32::MAX);
            out.push((FoundAsk::Whole(count), Vec::new()));
        }
        out
    }

    /// What a pod's claims got.
    fn by_claims(&self, pod: &Pod, places: &Places) -> Vec<(FoundAsk, Vec<u32>)> {
        let named = pod.shape.claims.iter().filter_map(|claim| pod.claim(claim));
        let extended = pod.made_claims.iter();
        let extended = extended
            .filter(|(name, _)| name.is_empty())
            .map(|(_, claim)| claim.clone());
        let all: BTreeSet<Text> = named.chain(extended).collect();
        let mut whole = Vec::new();
        let mut out = Vec::new();
        for claim in all {
            let claim = self.claims.get(&pod.namespace, &claim);
            let got = claim.and_then(|claim| claim.got.as_ref());
            for got in got.into_iter().flatten().filter(|got| !got.admin) {
                match places.get(&got.device) {
                    Some((_, number, Some(profile))) => {
                        out.push((FoundAsk::Slice(profile.clone()), vec![*number]));
                    }
                    Some((_, number, None)) => whole.push(*number),
                    None => {}
                }
            }
        }
        if !whole.is_empty() {
            whole.sort_unstable();
            out.insert(0, (FoundAsk::Whole(whole.len() as u32), whole));
        }
        out
    }

    fn device_places(&self) -> Places {
        let mut out = BTreeMap::new();
        for (node, gpus) in self.device_gpus() {
            for (number, gpu) in (0_u32..).zip(gpus) {
                if let Some(whole) = gpu.whole {
                    out.insert(whole, (node.clone(), number, None));
                }
                for (part, profile) in gpu.parts {
                    let profile = Some(profile.unwrap_or_default());
                    out.insert(part, (node.clone(), number, profile));
                }
            }
        }
        out
    }

    /// What pods without GPUs hold of nodes with some, one job a node.
    fn others(&self) -> Vec<FoundJob> {
        let mut out = Vec::new();
        for node in self.nodes.values() {
            let (mut cpu, mut memory, mut count) = (0_u64, 0_u64, 0_u32);
            for pod in self.pods_on(&node.name) {
                if self.gpus_asked(pod).is_none() {
                    cpu = cpu.saturating_add(pod.shape.asks.cpu_milli);
                    memory = memory.saturating_add(pod.shape.asks.memory);
                    count += 1;
                }
            }
            if cpu == 0 && memory == 0 {
                continue;
            }
            out.push(FoundJob {
                name: format!("other pods of {}", node.name),
                cpu_milli: cpu,
                memory_mib: memory >> 20,
                workers: (1, 1),
                on: vec![FoundPlace {
                    node: node.name.to_string(),
                    gpus: Vec::new(),
                }],
                notes: vec![format!("{count} pods without GPUs")],
                ..FoundJob::default()
            });
        }
        out
    }
}

/// Names are used once.
fn once(jobs: &mut [FoundJob]) {
    let mut used = BTreeSet::new();
    for job in jobs {
        let (bare, mut at) = (job.name.clone(), 1);
        while !used.insert(job.name.clone()) {
            at += 1;
            job.name = format!("{bare} ({at})");
        }
    }
}
