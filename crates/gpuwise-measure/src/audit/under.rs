//! Workloads that need more: CPUs, memory, or serving capacity.

use super::{Case, DraftVerdict, market::Market};
use gpuwise_domain::usage::proposal::{Change, Proposal, Risk, Saving, Verdict};
use gpuwise_units::{Bytes, significant};

impl Case<'_> {
    /// Its GPU waits for its CPUs.
    pub(super) fn starved(&self) -> Option<DraftVerdict> {
        let usage = self.usage;
        let used = usage.cpu_share?;
        let p95 = usage
            .compute
            .as_ref()
            .and_then(|compute| compute.p95.or(compute.average))?;
        let starved = match usage.throttled_share {
            Some(throttled) => used >= self.rules.cpu_full && throttled >= self.rules.throttled,
            None => used >= 0.5_f64.mul_add(self.rules.cpu_full, 0.5),
        };
        if !starved || p95 >= self.rules.starved_below {
            return None;
        }
        let throttled = usage.throttled_share.map_or(String::new(), |share| {
            format!(", throttled in {:.0} % of periods", share * 100.0)
        });
        let reason = format!(
            "uses {:.0} % of its CPUs{throttled}, while the GPU reaches {:.0} % at p95",
            used * 100.0,
            p95 * 100.0
        );
        let mut said = DraftVerdict::new(Verdict::Starved, reason);
        said.proposal = usage.asked.cpus.map(|from| {
            let to = (from * 2.0).ceil();
            Proposal {
                title: format!("{} CPUs in place of {}", significant(to, 3), significant(from, 3)),
                saving: nothing(),
                risk: Risk {
                    hours_short: None,
                    hours_seen: usage.hours as u32,
                    note: "how many it needs cannot be told while it is throttled: double, and look again".into(),
                },
                change: Change::Cpus { from, to },
                alternatives: Vec::new(),
            }
        });
        Some(said)
    }

    /// Its memory is full, or requests wait.
    pub(super) fn too_small(&self) -> Option<DraftVerdict> {
        self.queueing().or_else(|| self.memory_full())
    }

    fn queueing(&self) -> Option<DraftVerdict> {
        let engine = self.usage.engine.as_ref()?;
        let waiting = engine
            .waiting
            .filter(|waiting| *waiting >= self.rules.waiting)?;
        let cache = engine.cache_peak.map_or(String::new(), |share| {
            format!(", its cache up to {:.0} % full", share * 100.0)
        });
        let reason = format!(
            "{} requests wait on average{cache}",
            significant(waiting, 2)
        );
        let mut said = DraftVerdict::new(Verdict::UnderProvisioned, reason);
        let from = self.usage.asked.replicas.max(1);
        said.proposal = Some(Proposal {
            title: format!("{} replicas in place of {from}", from + 1),
            saving: nothing(),
            risk: Risk {
                hours_short: None,
                hours_seen: self.usage.hours as u32,
                note: "one more at a time; `gpuwise plan` says how many an SLO needs".into(),
            },
            change: Change::Replicas { from, to: from + 1 },
            alternatives: Vec::new(),
        });
        Some(said)
    }

    fn memory_full(&self) -> Option<DraftVerdict> {
        let held = self.held?;
        // Engines take their share of memory at the start, whatever they need.
        if self.usage.engine.is_some() {
            return None;
        }
        let peak = self.usage.memory_peak?;
        let edge = held.memory.as_f64() * self.rules.memory_full;
        if peak.as_f64() < edge {
            return None;
        }
        let hourly = &self.usage.memory_hourly;
        let share = if hourly.is_empty() {
            self.usage.memory_full_share?
        } else {
            let known = hourly.iter().filter(|mib| !mib.is_nan());
            let full = hourly
                .iter()
                .filter(|mib| f64::from(**mib) * 1_048_576.0 >= edge);
            full.count() as f64 / known.count().max(1) as f64
        };
        if share < self.rules.memory_full_share {
            return None;
        }
        let reason = format!(
            "memory is full in {:.0} % of hours: {peak} of {}",
            share * 100.0,
            held.memory
        );
        let mut said = DraftVerdict::new(Verdict::UnderProvisioned, reason);
        let larger = self.larger(held.memory);
        said.proposal = Some(Proposal {
            title: match &larger {
                Some(gpu) => format!("a GPU with more memory: {gpu}; or less in memory"),
                None => "less in memory: no GPU of this fleet has more".into(),
            },
            saving: nothing(),
            risk: Risk {
                hours_short: None,
                hours_seen: self.usage.hours as u32,
                note: "allocators may hold memory that they do not need; checkpointing, smaller batches or sharding cost no GPU".into(),
            },
            change: Change::MoreMemory { gpu: larger },
            alternatives: Vec::new(),
        });
        Some(said)
    }

    /// The GPU of the fleet with the next larger memory.
    fn larger(&self, than: Bytes) -> Option<String> {
        let more = self.market.candidates().filter_map(Market::whole);
        let more = more.filter(|held| held.memory > than);
        more.min_by_key(|held| held.memory)
            .map(|held| held.gpu.name.clone())
    }
}

fn nothing() -> Saving {
    Saving {
        gpus: 0.0,
        gpus_low: 0.0,
        gpus_high: 0.0,
        hourly: None,
        hourly_low: None,
        hourly_high: None,
    }
}
