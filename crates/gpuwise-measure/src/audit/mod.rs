//! Which workloads hold too much, too little or nothing at all, what each should hold instead, what
//! that saves and what it risks.
//!
//! Rules are tried in a fixed order and the first that holds gives the verdict: seen too briefly,
//! nothing known, idle, starved by its CPUs, memory full or requests waiting, idle for long stretches,
//! more replicas than needed, a slice or another GPU that suffices; else it is the right size. What is
//! unknown lets no rule fire, and is said.

mod fit;
mod idle;
mod market;
mod need;
mod totals;
mod under;

pub use idle::{busy_hours, idle_of};
pub use market::{Market, slice_share};
pub(crate) use need::{Choice, Fit, Need, fit};
pub use totals::totals;

use gpuwise_domain::usage::{
    IdleUse, Usage, Window,
    proposal::{Change, Judgement, Proposal, Risk, Saving, Verdict},
    rules::Rules,
};
use market::CatalogueDevice;

/// A verdict with its reason and what to do.
struct DraftVerdict {
    verdict: Verdict,
    reason: String,
    proposal: Option<Proposal>,
}

impl DraftVerdict {
    fn new(verdict: Verdict, reason: String) -> Self {
        Self {
            verdict,
            reason,
            proposal: None,
        }
    }
}

/// Everything that rules look at of one workload.
struct Case<'a> {
    usage: &'a Usage,
    window: Window,
    rules: &'a Rules,
    market: &'a Market<'a>,
    /// What it holds, where the catalogue knows it.
    held: Option<CatalogueDevice<'a>>,
    idle: Option<IdleUse>,
}

/// Judges one workload.
///
/// `window` is the days that its hours lie in.
pub fn judge(usage: &Usage, window: Window, rules: &Rules, market: &Market<'_>) -> Judgement {
    let held = usage
        .asked
        .gpu
        .as_deref()
        .and_then(|gpu| market.held(gpu, usage.asked.slice.as_deref()));
    let idle = if usage.compute_hourly.is_empty() {
        usage.idle
    } else {
        Some(idle_of(&usage.compute_hourly, window, rules))
    };
    let case = Case {
        usage,
        window,
        rules,
        market,
        held,
        idle,
    };
    let mut notes = usage.missing.clone();
    if held.is_none() {
        notes.push(match &usage.asked.gpu {
            Some(gpu) => format!("{gpu:?} is not in the catalogue: no smaller GPU can be named"),
            None => "exporters do not name its GPU: no smaller one can be named".into(),
        });
    }
    let mut said = case.verdict(&mut notes);
    if !usage.present && said.proposal.take().is_some() {
        notes.push("it has ended: there is nothing left to change".into());
    }
    Judgement {
        holder: usage.holder.clone(),
        verdict: said.verdict,
        reason: said.reason,
        proposal: said.proposal,
        notes,
    }
}

impl Case<'_> {
    fn verdict(&self, notes: &mut Vec<String>) -> DraftVerdict {
        let usage = self.usage;
        if usage.hours < self.rules.least_hours {
            let reason = format!(
                "seen for {:.0} h; {:.0} h are needed",
                usage.hours, self.rules.least_hours
            );
            return DraftVerdict::new(Verdict::TooEarly, reason);
        }
        if self.idle.is_none() && usage.compute.is_none() && usage.memory_peak.is_none() {
            return DraftVerdict::new(
                Verdict::Unknown,
                "neither its compute nor its memory is known".into(),
            );
        }
        if let Some(said) = self
            .idle()
            .or_else(|| self.starved())
            .or_else(|| self.too_small())
        {
            return said;
        }
        let fixes = [self.part_time(), self.fewer_replicas(), self.smaller(notes)];
        // The one that frees most; the first of equals.
        let best = fixes.into_iter().flatten().reduce(|best, other| {
            let freed = |said: &DraftVerdict| said.proposal.as_ref().map_or(0.0, |p| p.saving.gpus);
            if freed(&other) > freed(&best) {
                other
            } else {
                best
            }
        });
        best.unwrap_or_else(|| self.right_size())
    }

    fn idle(&self) -> Option<DraftVerdict> {
        let idle = self.idle?;
        let known = self.known_hours();
        if known <= 0.0 || idle.hours < self.rules.idle_share * known {
            return None;
        }
        if self
            .usage
            .engine
            .as_ref()
            .is_some_and(|e| e.waiting.unwrap_or(0.0) > 0.0)
        {
            return None;
        }
        let reason = format!(
            "did nothing in {:.0} of {known:.0} h{}",
            idle.hours,
            match self.usage.memory_peak {
                Some(peak) => format!(", holding {peak}"),
                None => String::new(),
            }
        );
        let mut said = DraftVerdict::new(Verdict::Idle, reason);
        let busy = (known - idle.hours).max(0.0);
        said.proposal = Some(Proposal {
            title: "scale to 0, or delete it".into(),
            saving: self.saving(1.0, 1.0, 1.0),
            risk: Risk {
                hours_short: Some(busy.round() as u32),
                hours_seen: known.round() as u32,
                note: "somebody may keep it warm for a start without delay".into(),
            },
            change: Change::ScaleToZero,
        });
        Some(said)
    }

    /// It does nothing for long stretches.
    fn part_time(&self) -> Option<DraftVerdict> {
        let idle = self.idle?;
        let known = self.known_hours();
        let share = idle.in_stretches / known.max(1.0);
        if share < self.rules.part_time_share {
            return None;
        }
        let lost = f64::from(idle.stretches) * self.rules.wake_hours / known.max(1.0);
        let weekend = if idle.weekend > 0.0 {
            format!(", {:.0} h of them at weekends", idle.weekend)
        } else {
            String::new()
        };
        let reason = format!(
            "did nothing in {:.0} of {known:.0} h, in stretches of {:.0} h and more{weekend}",
            idle.in_stretches, self.rules.stretch_hours
        );
        let hours = busy_hours(&self.usage.compute_hourly, self.window, self.rules);
        let (pattern, surprises) = hours.unwrap_or_default();
        let mut said = DraftVerdict::new(Verdict::PartTime, reason);
        said.proposal = Some(Proposal {
            title: "give the GPU back while nothing happens".into(),
            saving: self.saving(share, (share - lost).max(0.0), share),
            risk: Risk {
                hours_short: (!self.usage.compute_hourly.is_empty()).then_some(surprises),
                hours_seen: known.round() as u32,
                note:
                    "what lies in its memory is lost at each stop; it takes its time to come back"
                        .into(),
            },
            change: Change::Schedule {
                busy_hours: pattern,
            },
        });
        Some(said)
    }

    fn right_size(&self) -> DraftVerdict {
        let usage = self.usage;
        let compute = usage.compute.as_ref().and_then(|compute| {
            let p95 = compute.p95.or(compute.average)?;
            Some(format!(
                "{} {:.0} % at p95",
                compute.measure.title(),
                p95 * 100.0
            ))
        });
        let memory = usage.memory_peak.map(|peak| match self.held {
            Some(held) => format!("memory {peak} of {}", held.memory),
            None => format!("memory {peak}"),
        });
        let known: Vec<String> = compute.into_iter().chain(memory).collect();
        if self.held.is_none() || usage.compute.is_none() || usage.memory_peak.is_none() {
            let reason = format!("{}; the rest cannot be told", known.join(", "));
            return DraftVerdict::new(Verdict::Unknown, reason);
        }
        DraftVerdict::new(Verdict::RightSized, known.join(", "))
    }

    /// Hours of which something is known.
    fn known_hours(&self) -> f64 {
        let hourly = &self.usage.compute_hourly;
        if hourly.is_empty() {
            return self.usage.hours;
        }
        hourly.iter().filter(|value| !value.is_nan()).count() as f64
    }

    /// What freeing a share of all that it holds is worth.
    fn saving(&self, share: f64, low: f64, high: f64) -> Saving {
        let devices = f64::from(self.usage.devices());
        let device = self.held.map_or(1.0, |held| held.share);
        let gpus = |share: f64| share * devices * device;
        let price = self.held.and_then(|held| self.market.price(&held.gpu.name));
        let money = |share: f64| {
            price.map(|price| price.0.times((gpus(share) * 1e6).round() as i64, 1_000_000))
        };
        Saving {
            gpus: gpus(share),
            gpus_low: gpus(low),
            gpus_high: gpus(high),
            hourly: money(share),
            hourly_low: money(low),
            hourly_high: money(high),
        }
    }
}
