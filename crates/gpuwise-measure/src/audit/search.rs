//! All that a workload could hold in place of what it holds: fewer replicas, fewer GPUs for each, a slice
//! or another GPU, only the hours in which something happens, and all of these together. Of those that
//! bear what was needed the cheapest is proposed.

use super::{
    Case,
    market::{CatalogueDevice, Market},
};
use gpuwise_domain::usage::proposal::{Change, ChangeKind};
use gpuwise_units::Bytes;

/// Share of the key-value cache that replicas that are left may fill.
const CACHE_TARGET: f64 = 0.9;
/// Below this share of compute at the 95th percentile a device is not well used.
const WELL_USED: f64 = 0.5;

/// One way to hold what is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    /// In place of the device that is held; the same where absent.
    pub(super) device: Option<CatalogueDevice<'a>>,
    pub(super) replicas: u32,
    /// GPUs of each replica.
    pub(super) gpus: u32,
    /// Only while something happens.
    pub(super) scheduled: bool,
    /// By what compute of one device is multiplied.
    pub(super) scale: f64,
    /// Its cost by that of what is held now.
    pub(super) cost: f64,
}

impl Plan<'_> {
    /// How many things it changes.
    fn changes(&self, case: &Case<'_>) -> usize {
        let asked = &case.usage.asked;
        usize::from(self.device.is_some())
            + usize::from(self.replicas != asked.replicas.max(1))
            + usize::from(self.gpus != asked.devices.max(1))
            + usize::from(self.scheduled)
    }

    /// The only thing that it changes.
    pub(super) fn only(&self, case: &Case<'_>) -> Option<ChangeKind> {
        if self.changes(case) != 1 {
            return None;
        }
        Some(match self.device {
            Some(device) if device.slice.is_some() => ChangeKind::Slice,
            Some(_) => ChangeKind::OtherGpu,
            None if self.scheduled => ChangeKind::Schedule,
            None if self.gpus != case.usage.asked.devices.max(1) => ChangeKind::Gpus,
            None => ChangeKind::Replicas,
        })
    }
}

/// Why the device itself could not be looked at, though it is little used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Untold {
    pub(super) why: &'static str,
    /// Whether a smaller one may suffice for all that is known.
    pub(super) may_be_smaller: bool,
}

impl<'a> Case<'a> {
    /// All plans that bear what was needed and save enough, the cheapest first; of equal ones that which
    /// changes least.
    pub(super) fn plans(&self) -> Vec<Plan<'a>> {
        let (replicas, gpus) = (self.replicas(), self.gpus());
        let mut plans = Vec::new();
        let fewer = Some(gpus - self.idle_gpus()).filter(|fewer| *fewer < gpus);
        for gpus in [Some(gpus), fewer].into_iter().flatten() {
            for (device, scale, cost) in self.devices(gpus) {
                for to in self.replica_counts(device.as_ref(), scale) {
                    for (scheduled, hours) in self.hours() {
                        plans.push(Plan {
                            device,
                            replicas: to,
                            gpus,
                            scheduled,
                            scale: scale * f64::from(replicas) / f64::from(to),
                            cost: cost
                                * (f64::from(to) / f64::from(replicas))
                                * (f64::from(gpus) / f64::from(self.gpus()))
                                * hours,
                        });
                    }
                }
            }
        }
        plans.retain(|plan| plan.cost <= 1.0 - self.rules.least_saving);
        // Equal costs that were reached by other roads differ in their last bits.
        let micro = |plan: &Plan<'_>| (plan.cost * 1e9).round();
        plans.sort_by(|a, b| {
            let memory = |plan: &Plan<'_>| plan.device.map_or(Bytes::ZERO, |device| device.memory);
            micro(a)
                .total_cmp(&micro(b))
                .then_with(|| a.changes(self).cmp(&b.changes(self)))
                .then_with(|| a.device.is_some().cmp(&b.device.is_some()))
                .then_with(|| memory(a).cmp(&memory(b)))
        });
        plans
    }

    fn replicas(&self) -> u32 {
        self.usage.asked.replicas.max(1)
    }

    fn gpus(&self) -> u32 {
        self.usage.asked.devices.max(1)
    }

    /// GPUs of each replica that did nothing; one is left in any case.
    fn idle_gpus(&self) -> u32 {
        self.usage.idle_devices.min(self.gpus() - 1)
    }

    /// The device that is held and all that would do for one replica's share of the load, with what
    /// compute is multiplied by and what each costs by what the held one does.
    fn devices(&self, gpus: u32) -> Vec<(Option<CatalogueDevice<'a>>, f64, f64)> {
        let mut devices = vec![(None, 1.0, 1.0)];
        if gpus == 1 && self.untold(1).is_none() {
            let others = self.other_devices().into_iter();
            devices.extend(others.map(|(device, scale, cost)| (Some(device), scale, cost)));
        }
        devices
    }

    /// As many replicas as there are where a device bears its share, and the fewest that bear all.
    fn replica_counts(&self, device: Option<&CatalogueDevice<'a>>, scale: f64) -> Vec<u32> {
        let from = self.replicas();
        let mut counts = Vec::new();
        if device.is_none_or(|device| self.bears(device, scale, 1.0)) {
            counts.push(from);
        }
        counts.extend(self.fewest_replicas(device, scale));
        counts
    }

    /// The fewest replicas that bear all.
    fn fewest_replicas(&self, device: Option<&CatalogueDevice<'a>>, scale: f64) -> Option<u32> {
        let usage = self.usage;
        let from = self.replicas();
        if from < 2 || !matches!(usage.holder.kind.as_str(), "Deployment" | "StatefulSet") {
            return None;
        }
        let sum = usage.compute.as_ref()?.p95_sum?;
        let least = (self.rules.least_replicas as u32).max(1);
        let by_compute = (sum * scale / self.rules.replica_target).ceil() as u32;
        let to = by_compute.max(least);
        // What else limits it gets no better with fewer.
        (to..from).find(|to| {
            let more = f64::from(from) / f64::from(*to);
            match device {
                Some(device) => self.bears(device, scale * more, more),
                None => self.cache_and_bandwidth_bear(more),
            }
        })
    }

    /// Whether the device that is held would bear so many times the load of one replica, compute apart.
    fn cache_and_bandwidth_bear(&self, more: f64) -> bool {
        let engine = self.usage.engine.as_ref();
        let cache = engine.and_then(|engine| engine.cache_peak).unwrap_or(0.0);
        let dram = self.usage.dram_p95.unwrap_or(0.0);
        cache * more <= CACHE_TARGET && dram * more <= self.rules.bandwidth_target
    }

    /// Whether another device would bear so many times the load of one replica: memory, compute (scaled
    /// already) and bandwidth.
    fn bears(&self, device: &CatalogueDevice<'_>, scale: f64, more: f64) -> bool {
        let (Some(need), Some(p95), Some(held)) = (self.memory_need(more), self.p95(), &self.held)
        else {
            return false;
        };
        // Where DRAM activity is unknown, by compute, which memory is seldom busier than.
        let dram = self.usage.dram_p95.unwrap_or(p95) * more * held.bandwidth();
        let fits = |p95: f64| p95 * scale <= self.rules.compute_target;
        need.as_f64() * self.rules.memory_headroom <= device.memory.as_f64()
            && (more > 1.0 || fits(p95))
            && dram <= self.rules.bandwidth_target * device.bandwidth()
    }

    /// Memory that a device needs under so many times the load of one replica.
    fn memory_need(&self, more: f64) -> Option<Bytes> {
        let peak = self.usage.memory_peak?;
        match self.usage.engine.as_ref().filter(|_| self.takes_all()) {
            None => Some(peak),
            // Its cache is within what it took, so that the share in use is at most that of all.
            Some(engine) => {
                let cache = engine.cache_peak? * more * peak.as_f64();
                Some(Bytes::from_f64(engine.weights?.as_f64() + cache))
            }
        }
    }

    /// Whether an engine runs there that takes memory at the start, whatever it needs.
    pub(super) fn takes_all(&self) -> bool {
        self.usage.engine.as_ref().is_some_and(|engine| {
            engine.model.is_some() || engine.cache_peak.is_some() || !engine.engine.is_empty()
        })
    }

    /// Compute in use at the 95th percentile; weaker measures are upper bounds.
    pub(super) fn p95(&self) -> Option<f64> {
        let compute = self.usage.compute.as_ref()?;
        compute.p95.or(compute.average)
    }

    /// Hours in which it would be held: always, and where it pays only while something happens.
    fn hours(&self) -> Vec<(bool, f64)> {
        let mut hours = vec![(false, 1.0)];
        if let Some(stretches) = self.stretches() {
            hours.push((true, 1.0 - stretches));
        }
        hours
    }

    /// Why nothing can be said of another device where each replica has so many.
    pub(super) fn untold(&self, gpus: u32) -> Option<Untold> {
        let (p95, peak, held) = (self.p95()?, self.usage.memory_peak?, self.held?);
        let little = p95 < WELL_USED;
        let engine = self.usage.engine.as_ref();
        if self.takes_all() && self.memory_need(1.0).is_none() {
            let cache = engine.and_then(|engine| engine.cache_peak).unwrap_or(0.0);
            return Some(Untold {
                why: "its engine takes memory at the start, whatever it needs: `gpuwise plan` says which GPU suffices",
                may_be_smaller: little && cache < WELL_USED,
            });
        }
        (gpus > 1).then(|| {
            let twice = 2.0 * peak.as_f64() * self.rules.memory_headroom <= held.memory.as_f64();
            let smaller = || {
                let mut all = self.other_devices().into_iter();
                let most = 1.0 - self.rules.least_saving;
                all.any(|(device, scale, cost)| cost <= most && self.bears(&device, scale, 1.0))
            };
            Untold {
                why: "it spans several GPUs: whether fewer suffice cannot be told from here",
                may_be_smaller: little && (twice || smaller()),
            }
        })
    }

    /// Other devices, with what compute is multiplied by and what each costs by what the held one does.
    fn other_devices(&self) -> Vec<(CatalogueDevice<'a>, f64, f64)> {
        let (market, Some(held)) = (self.market, self.held) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for device in market.devices_beside(&held) {
            let same_board = device.gpu.name == held.gpu.name;
            let scale = match (held.device().units(), device.device().units()) {
                (Some(from), Some(to)) if same_board && to > 0 => f64::from(from) / f64::from(to),
                _ if same_board => held.share / device.share.max(1e-9),
                _ => match (held.rate(), device.rate()) {
                    (Some(from), Some(to)) => from / to.max(1.0),
                    _ => continue,
                },
            };
            let Some(cost) = market.cost_ratio(&device, &held) else {
                continue;
            };
            out.push((device, scale, cost));
        }
        out
    }
}

impl<'a> Market<'a> {
    /// The same board and the others of the market, whole and in slices; but what is held.
    fn devices_beside(&self, held: &CatalogueDevice<'a>) -> Vec<CatalogueDevice<'a>> {
        let others = self.candidates().filter(|gpu| gpu.name != held.gpu.name);
        let mut out = Vec::new();
        for gpu in std::iter::once(held.gpu).chain(others) {
            out.extend(Self::whole(gpu));
            out.extend(self.slices(gpu).map(|slice| Self::sliced(gpu, slice)));
        }
        let profile = |device: &CatalogueDevice<'a>| device.slice.map(|slice| &slice.profile);
        let same = |device: &CatalogueDevice<'a>| {
            device.gpu.name == held.gpu.name && profile(device) == profile(held)
        };
        out.retain(|device| !same(device));
        out
    }

    /// What a device costs by what another does: in money, and where a board has no price in shares of
    /// one board alone.
    fn cost_ratio(&self, of: &CatalogueDevice<'_>, by: &CatalogueDevice<'_>) -> Option<f64> {
        let share = of.share / by.share;
        if of.gpu.name == by.gpu.name {
            return Some(share);
        }
        let price = |of: &CatalogueDevice<'_>| self.price(&of.gpu.name).map(|p| p.0.as_f64());
        let (of, by) = (price(of)?, price(by).filter(|by| *by > 0.0)?);
        Some(share * of / by)
    }
}

/// What a plan changes, one by one.
pub(super) fn changes_of(plan: &Plan<'_>, case: &Case<'_>, busy_hours: &[u8]) -> Vec<Change> {
    let mut changes = Vec::new();
    let (replicas, gpus) = (case.replicas(), case.gpus());
    if plan.replicas != replicas {
        let (from, to) = (replicas, plan.replicas);
        changes.push(Change::Replicas { from, to });
    }
    if plan.gpus != gpus {
        let (from, to) = (gpus, plan.gpus);
        changes.push(Change::Gpus { from, to });
    }
    if let Some(device) = plan.device {
        let gpu = device.gpu.name.clone();
        changes.push(match device.slice {
            Some(slice) => Change::Slice {
                gpu,
                profile: slice.profile.clone(),
            },
            None => Change::OtherGpu { gpu },
        });
    }
    if plan.scheduled {
        changes.push(Change::Schedule {
            busy_hours: busy_hours.to_vec(),
        });
    }
    changes
}
