//! Smaller devices and fewer replicas that suffice.

use super::{
    Case, DraftVerdict,
    market::CatalogueDevice,
    need::{Choice, Fit, Need, fit},
};
use gpuwise_domain::usage::proposal::{Change, Proposal, Risk, Saving, Verdict};
use gpuwise_units::{Bytes, significant};

impl Case<'_> {
    /// Replicas that could go.
    pub(super) fn fewer_replicas(&self) -> Option<DraftVerdict> {
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
        let mut said = DraftVerdict::new(Verdict::OverProvisioned, reason);
        said.proposal = Some(Proposal {
            title: format!("{to} replicas in place of {from}"),
            saving: self.saving(freed, freed, freed),
            risk: self.risk(
                None,
                scale,
                "latency rises with the load of each; an autoscaler sustains peaks",
            ),
            change: Change::Replicas { from, to },
        });
        Some(said)
    }

    /// A slice or another GPU.
    pub(super) fn smaller(&self, notes: &mut Vec<String>) -> Option<DraftVerdict> {
        let held = self.held?;
        let usage = self.usage;
        let compute = usage.compute.as_ref()?;
        let p95 = compute.p95.or(compute.average)?;
        let peak = usage.memory_peak?;
        let need = Need {
            peak,
            compute_p95: p95,
            dram_p95: usage.dram_p95,
            engine: usage
                .engine
                .as_ref()
                .is_some_and(|engine| engine.model.is_some() || engine.cache_peak.is_some()),
            devices: usage.asked.devices,
        };
        match fit(&need, &held, self.market, self.rules) {
            Fit::Smaller(best) => Some(self.proposed(&held, &best, p95, peak)),
            Fit::None => None,
            Fit::Untold(why) => {
                if p95 < 0.5 {
                    notes.push(why.into());
                }
                None
            }
        }
    }

    fn proposed(
        &self,
        held: &CatalogueDevice<'_>,
        best: &Choice<'_>,
        p95: f64,
        peak: Bytes,
    ) -> DraftVerdict {
        let reason = format!(
            "peaks at {peak} of {}, {} {:.0} % at p95",
            held.memory,
            self.usage
                .compute
                .as_ref()
                .map_or("", |c| c.measure.title()),
            p95 * 100.0
        );
        let mut said = DraftVerdict::new(Verdict::OverProvisioned, reason);
        let gpu = best.held.gpu.name.clone();
        let title = best.title();
        let change = match best.held.slice {
            Some(slice) => Change::Slice {
                gpu,
                profile: slice.profile.clone(),
            },
            None => Change::OtherGpu { gpu },
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
    fn price_gap(&self, held: &CatalogueDevice<'_>, best: &Choice<'_>, freed: f64) -> Saving {
        let mut saving = self.saving(freed, freed, freed);
        if best.held.gpu.name != held.gpu.name {
            // One of the dear kind is freed for one of the cheap kind.
            let whole = self.saving(1.0, 1.0, 1.0);
            (saving.gpus, saving.gpus_low, saving.gpus_high) = (whole.gpus, whole.gpus, whole.gpus);
        }
        saving
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
