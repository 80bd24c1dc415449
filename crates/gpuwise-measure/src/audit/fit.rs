//! Smaller devices and fewer replicas that would do.

use super::{
    Case, Said,
    market::{Held, Market},
};
use gpuwise_domain::usage::proposal::{Change, Proposal, Risk, Saving, Verdict};
use gpuwise_units::{Bytes, significant};

/// How a smaller device would have borne the load.
struct Choice<'a> {
    held: Held<'a>,
    /// Share of its cost by cost of what is held now; the smaller the better.
    cost: f64,
    /// What compute is multiplied by.
    scale: f64,
}

impl Case<'_> {
    /// Replicas that could go.
    pub(super) fn fewer_replicas(&self) -> Option<Said> {
        let usage = self.usage;
        let from = usage.asked.replicas;
        if from < 2 || !matches!(usage.holder.kind.as_str(), "Deployment" | "StatefulSet") {
            return None;
        }
        let sum = usage.compute.as_ref()?.p95_sum?;
        let least = (self.rules.least_replicas as u32).max(1);
        let by_compute = (sum / self.rules.replica_target).ceil() as u32;
        let cache = usage.engine.as_ref().and_then(|engine| engine.cache_peak);
        let by_cache = cache.map_or(1, |share| (share * f64::from(from) / 0.9).ceil() as u32);
        let to = by_compute.max(by_cache).max(least);
        let freed = f64::from(from.saturating_sub(to)) / f64::from(from);
        if to >= from || freed < self.rules.least_saving {
            return None;
        }
        let reason = format!(
            "{from} replicas with {:.0} % at p95 together: {to} would bear it at {:.0} %",
            sum * 100.0,
            sum / f64::from(to) * 100.0
        );
        let scale = f64::from(from) / f64::from(to);
        let mut said = Said::new(Verdict::OverProvisioned, reason);
        said.proposal = Some(Proposal {
            title: format!("{to} replicas in place of {from}"),
            saving: self.saving(freed, freed, freed),
            risk: self.risk(
                None,
                scale,
                "latency rises with the load of each; an autoscaler bears peaks",
            ),
            change: Change::Replicas { from, to },
        });
        Some(said)
    }

    /// A slice or another GPU.
    pub(super) fn smaller(&self, notes: &mut Vec<String>) -> Option<Said> {
        let held = self.held?;
        let usage = self.usage;
        let compute = usage.compute.as_ref()?;
        let p95 = compute.p95.or(compute.average)?;
        let peak = usage.memory_peak?;
        if usage
            .engine
            .as_ref()
            .is_some_and(|engine| engine.model.is_some() || engine.cache_peak.is_some())
        {
            if p95 < 0.5 {
                notes.push("its engine takes memory at the start, whatever it needs: `gpuwise plan` says which GPU would do".into());
            }
            return None;
        }
        if usage.asked.devices > 1 {
            if p95 < 0.5 {
                notes.push(
                    "it spans several GPUs: whether fewer would do cannot be told from here".into(),
                );
            }
            return None;
        }
        let need = Bytes::from_f64(peak.as_f64() * self.rules.memory_headroom);
        let now = self.cost(&held)?;
        let options = self.options(&held, now);
        let fits = |option: &Choice<'_>| {
            option.held.memory >= need
                && p95 * option.scale <= self.rules.compute_target
                && self.bandwidth_fits(&held, &option.held, p95)
        };
        let best = options
            .into_iter()
            .filter(|option| option.cost <= 1.0 - self.rules.least_saving)
            .filter(fits)
            .min_by(|a, b| {
                a.cost
                    .total_cmp(&b.cost)
                    .then_with(|| a.held.memory.cmp(&b.held.memory))
            })?;
        Some(self.proposed(&held, &best, p95, peak))
    }

    fn proposed(&self, held: &Held<'_>, best: &Choice<'_>, p95: f64, peak: Bytes) -> Said {
        let reason = format!(
            "peaks at {peak} of {}, {} {:.0} % at p95",
            held.memory,
            self.usage
                .compute
                .as_ref()
                .map_or("", |c| c.measure.title()),
            p95 * 100.0
        );
        let mut said = Said::new(Verdict::OverProvisioned, reason);
        let gpu = best.held.gpu.name.clone();
        let (title, change) = match best.held.slice {
            Some(slice) => (
                format!("{} of {gpu}", slice.profile),
                Change::Slice {
                    gpu,
                    profile: slice.profile.clone(),
                },
            ),
            None => (gpu.clone(), Change::OtherGpu { gpu }),
        };
        let note = if best.held.slice.is_some() {
            format!(
                "compute would be at {} % at p95; slices of one GPU cannot exchange data",
                significant(p95 * best.scale * 100.0, 2)
            )
        } else {
            format!(
                "compute would be at {} % at p95, if it has the precision that is used",
                significant(p95 * best.scale * 100.0, 2)
            )
        };
        let freed = 1.0 - best.cost;
        said.proposal = Some(Proposal {
            title,
            saving: self.price_gap(held, best, freed),
            risk: self.risk(Some(best.held.memory), best.scale, &note),
            change,
        });
        said
    }

    /// GPUs that are freed are shares of the board that is held; a cheaper board frees the price gap.
    fn price_gap(&self, held: &Held<'_>, best: &Choice<'_>, freed: f64) -> Saving {
        let mut saving = self.saving(freed, freed, freed);
        if best.held.gpu.name != held.gpu.name {
            // One of the dear kind is freed for one of the cheap kind.
            let whole = self.saving(1.0, 1.0, 1.0);
            (saving.gpus, saving.gpus_low, saving.gpus_high) = (whole.gpus, whole.gpus, whole.gpus);
        }
        saving
    }

    /// What it holds costs, in money where there is a price; slices of an unpriced board in boards.
    fn cost(&self, held: &Held<'_>) -> Option<f64> {
        let price = self.market.price(&held.gpu.name);
        Some(held.share * price.map_or(1.0, |price| price.0.as_f64())).filter(|cost| *cost > 0.0)
    }

    fn options(&self, held: &Held<'_>, now: f64) -> Vec<Choice<'_>> {
        let mut out = Vec::new();
        let Some(board) = self.held.map(|held| held.gpu) else {
            return out;
        };
        for slice in self.market.slices(board) {
            let smaller = Market::sliced(board, slice);
            let scale = match (held.device().units(), smaller.device().units()) {
                (Some(from), Some(to)) if to > 0 => f64::from(from) / f64::from(to),
                _ => held.share / smaller.share.max(1e-9),
            };
            if let Some(cost) = self.cost(&smaller) {
                out.push(Choice {
                    held: smaller,
                    cost: cost / now,
                    scale,
                });
            }
        }
        for gpu in self
            .market
            .candidates()
            .filter(|gpu| gpu.name != board.name)
        {
            let Some(other) = Market::whole(gpu) else {
                continue;
            };
            let priced =
                self.market.price(&gpu.name).is_some() && self.market.price(&board.name).is_some();
            let (Some(from), Some(to), Some(cost)) = (held.rate(), other.rate(), self.cost(&other))
            else {
                continue;
            };
            if priced {
                out.push(Choice {
                    held: other,
                    cost: cost / now,
                    scale: from / to.max(1.0),
                });
            }
        }
        out
    }

    /// By DRAM activity; where that is unknown, by compute, which memory is seldom busier than.
    fn bandwidth_fits(&self, held: &Held<'_>, other: &Held<'_>, p95: f64) -> bool {
        let used = self.usage.dram_p95.unwrap_or(p95);
        used * held.bandwidth() <= self.rules.bandwidth_target * other.bandwidth()
    }

    /// Hours that would have been short of memory or compute.
    fn risk(&self, memory: Option<Bytes>, scale: f64, note: &str) -> Risk {
        let usage = self.usage;
        let room = memory.map_or(f64::INFINITY, Bytes::as_f64);
        let hours = usage.compute_hourly.len().max(usage.memory_hourly.len());
        let mut seen = 0;
        let mut short = 0;
        for hour in 0..hours {
            let at = |values: &[f32]| values.get(hour).copied().map_or(f64::NAN, f64::from);
            let (compute, mib) = (at(&usage.compute_hourly), at(&usage.memory_hourly));
            if compute.is_nan() && mib.is_nan() {
                continue;
            }
            seen += 1;
            if compute * scale > 1.0 || mib * 1_048_576.0 > room {
                short += 1;
            }
        }
        Risk {
            hours_short: (hours > 0).then_some(short),
            hours_seen: if hours > 0 { seen } else { usage.hours as u32 },
            note: note.into(),
        }
    }
}
