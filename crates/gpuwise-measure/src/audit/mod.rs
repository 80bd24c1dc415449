//! Which workloads hold too much, too little or nothing at all, what each should hold instead, what
//! that saves and what it risks.
//!
//! Rules are tried in a fixed order and the first that holds gives the verdict: seen too briefly,
//! nothing known, idle, starved by its CPUs, memory full or requests waiting; then, of all that it could
//! hold instead and that bears what was needed, the cheapest; else it is the right size, or it cannot be
//! told, by the name of what stands in the way. What is unknown lets no rule fire, and is said.

mod idle;
mod market;
mod propose;
mod search;
mod totals;
mod under;

pub use idle::{busy_hours, idle_of, observed_week};
pub use market::{Market, Portion, slice_share};
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

impl<'a> Case<'a> {
    fn of(usage: &'a Usage, window: Window, rules: &'a Rules, market: &'a Market<'a>) -> Self {
        let asked = &usage.asked;
        let gpu = asked.gpu.as_deref().filter(|_| !asked.slice_untold);
        let held = gpu.and_then(|gpu| market.held(gpu, asked.slice.as_deref()));
        let idle = if usage.compute_hourly.is_empty() {
            usage.idle
        } else {
            Some(idle_of(&usage.compute_hourly, window, rules))
        };
        Self {
            usage,
            window,
            rules,
            market,
            held,
            idle,
        }
    }
}

/// Judges one workload: the one place where that is done, for an audit over days as for a watch over
/// minutes.
///
/// `window` is the days that its hours lie in.
pub fn judge(usage: &Usage, window: Window, rules: &Rules, market: &Market<'_>) -> Judgement {
    let case = Case::of(usage, window, rules, market);
    let mut notes = usage.missing.clone();
    if case.held.is_none() {
        notes.push(case.not_held());
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

/// Exact percentiles on which what is said of a workload depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclear {
    pub compute: bool,
    pub bandwidth: bool,
}

/// Whether what is said of a workload depends on where exactly its compute lies below what is known of it
/// at the most: whether something else would be proposed if it were the least that it can be; and whether
/// it rests on memory bandwidth that is not known.
pub fn unclear(usage: &Usage, window: Window, rules: &Rules, market: &Market<'_>) -> Unclear {
    let mut most = usage.clone();
    most.dram_p95 = Some(usage.dram_p95.unwrap_or(0.0));
    let mut least = most.clone();
    let hourly = usage.compute_hourly.iter().copied();
    let largest = f64::from(hourly.fold(f32::NAN, f32::max));
    if let Some(compute) = &mut least.compute {
        // No more than a twentieth of samples lies above the percentile, and none above the largest:
        // mean <= 0.95 p95 + 0.05 max.
        let mean = compute.average.unwrap_or(0.0);
        let p95 = ((mean - 0.05 * largest) / 0.95).max(0.0);
        compute.p95 = compute.p95.map(|known| known.min(p95));
        // The replica that is busier than the mean bears as much alone.
        compute.p95_sum = compute.p95_sum.map(|known| known.min(p95));
    }
    let change = |usage: &Usage| {
        let proposal = judge(usage, window, rules, market).proposal?;
        Some(proposal.change)
    };
    let (at_most, at_least) = (change(&most), change(&least));
    let fewer = at_least.iter().flat_map(Change::parts).any(|part| {
        matches!(
            part,
            Change::Slice { .. } | Change::OtherGpu { .. } | Change::Replicas { .. }
        )
    });
    Unclear {
        compute: at_most != at_least,
        bandwidth: fewer && usage.dram_p95.is_none(),
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
        let said = self
            .idle()
            .or_else(|| self.starved())
            .or_else(|| self.too_small())
            .or_else(|| self.shared());
        if let Some(said) = said {
            return said;
        }
        let untold = self.untold(usage.asked.devices.max(1));
        let untold = untold.filter(|untold| untold.may_be_smaller);
        notes.extend(untold.map(|untold| untold.why.to_owned()));
        let plans = self.plans();
        match (plans.first(), untold) {
            (Some(_), _) => self.proposed(&plans),
            (None, Some(untold)) => {
                let reason = format!("{}; {}", self.shown().join(", "), untold.why);
                DraftVerdict::new(Verdict::Unknown, reason)
            }
            (None, None) => self.right_size(),
        }
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
            saving: self.all_of_it(),
            risk: Risk {
                hours_short: Some(busy.round() as u32),
                hours_seen: known.round() as u32,
                note: "somebody may keep it warm for a start without delay".into(),
            },
            change: Change::ScaleToZero,
            alternatives: Vec::new(),
        });
        Some(said)
    }

    /// Others hold its GPU at the same time: what exporters show is of all together.
    fn shared(&self) -> Option<DraftVerdict> {
        let others = self.usage.asked.shared_by.saturating_sub(1);
        (others > 0).then(|| {
            let pods = if others == 1 { "pod" } else { "pods" };
            let reason = format!(
                "{}, together with {others} other {pods} on the same GPU: how much of it is its own cannot be told",
                self.shown().join(", ")
            );
            DraftVerdict::new(Verdict::Unknown, reason)
        })
    }

    /// Share of its hours in idle stretches, where they are long enough to give the GPU back.
    fn stretches(&self) -> Option<f64> {
        let known = self.idle?.in_stretches / self.known_hours().max(1.0);
        // A schedule keeps the hours of the week that were never observed.
        let observed = observed_week(&self.usage.compute_hourly, self.window);
        let share = known * observed.unwrap_or(1.0);
        (share >= self.rules.part_time_share).then_some(share)
    }

    /// What of its use is known, in words.
    fn shown(&self) -> Vec<String> {
        let usage = self.usage;
        let compute = usage.compute.as_ref().and_then(|compute| {
            let most = if compute.of_hours { "at most " } else { "" };
            Some(format!(
                "{} {most}{:.0} % at p95",
                compute.measure.title(),
                self.p95()? * 100.0
            ))
        });
        let memory = usage.memory_peak.map(|peak| match self.held {
            Some(held) => format!("memory {peak} of {}", held.memory),
            None => format!("memory {peak}"),
        });
        let cache = usage.engine.as_ref().and_then(|engine| engine.cache_peak);
        let cache = cache.map(|share| format!("its cache up to {:.0} % full", share * 100.0));
        compute.into_iter().chain(memory).chain(cache).collect()
    }

    fn right_size(&self) -> DraftVerdict {
        let usage = self.usage;
        let mut known = self.shown();
        if self.held.is_none() || usage.compute.is_none() || usage.memory_peak.is_none() {
            if self.held.is_none() {
                known.push(self.not_held());
            }
            let reason = format!("{}; the rest cannot be told", known.join(", "));
            return DraftVerdict::new(Verdict::Unknown, reason);
        }
        DraftVerdict::new(Verdict::RightSized, known.join(", "))
    }

    /// Why what it holds is not known.
    fn not_held(&self) -> String {
        let asked = &self.usage.asked;
        match (&asked.gpu, &asked.slice) {
            _ if asked.slice_untold => {
                "exporters do not name the profile of its MIG instance: how much it holds cannot be told".into()
            }
            (Some(gpu), None) => {
                format!("{gpu:?} is not in the catalogue: no smaller GPU can be named")
            }
            (Some(gpu), Some(slice)) => format!(
                "{slice:?} of {gpu:?} is not in the catalogue: no smaller one can be named"
            ),
            (None, _) => "exporters do not name its GPU: no smaller one can be named".into(),
        }
    }

    /// Hours of which something is known.
    fn known_hours(&self) -> f64 {
        let hourly = &self.usage.compute_hourly;
        if hourly.is_empty() {
            return self.usage.hours;
        }
        hourly.iter().filter(|value| !value.is_nan()).count() as f64
    }

    /// What freeing all that it holds is worth.
    fn all_of_it(&self) -> Saving {
        let devices = f64::from(self.usage.devices());
        let portion = self.market.portion(&self.usage.asked);
        let (low, high) = (portion.low * devices, portion.high * devices);
        let money = |gpus: f64| portion.price.map(|price| propose::money(gpus, price));
        Saving {
            gpus: low,
            gpus_low: low,
            gpus_high: high,
            hourly: money(low),
            hourly_low: money(low),
            hourly_high: money(high),
        }
    }
}
