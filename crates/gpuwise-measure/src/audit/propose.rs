//! The cheapest plan as a proposal: what it is called, what it saves, what it risks.

use super::{
    Case, DraftVerdict,
    idle::busy_hours,
    search::{Plan, changes_of},
};
use gpuwise_domain::usage::proposal::{Alternative, Change, Proposal, Risk, Saving, Verdict};
use gpuwise_units::{HourlyPrice, Money, significant};

/// What so many boards cost an hour.
pub(super) fn money(boards: f64, price: HourlyPrice) -> Money {
    price.0.times((boards * 1e6).round() as i64, 1_000_000)
}

impl Case<'_> {
    /// The first of these plans, which is the cheapest, with the best of each simpler kind beside it.
    pub(super) fn proposed(&self, plans: &[Plan<'_>]) -> DraftVerdict {
        let Some(best) = plans.first() else {
            return self.right_size();
        };
        let (pattern, surprises) =
            busy_hours(&self.usage.compute_hourly, self.window, self.rules).unwrap_or_default();
        let mut said = DraftVerdict::new(self.verdict_of(best), self.reason(best));
        let mut seen = vec![best.only(self)];
        let mut alternatives = Vec::new();
        for plan in plans {
            let Some(kind) = plan.only(self).filter(|kind| !seen.contains(&Some(*kind))) else {
                continue;
            };
            seen.push(Some(kind));
            alternatives.push(Alternative {
                change: self.change(plan, &pattern),
                title: self.title(plan),
                saving: self.saving(plan),
            });
        }
        said.proposal = Some(Proposal {
            title: self.title(best),
            saving: self.saving(best),
            risk: self.risk(best, surprises),
            change: self.change(best, &pattern),
            alternatives,
        });
        said
    }

    fn change(&self, plan: &Plan<'_>, busy_hours: &[u8]) -> Change {
        let mut changes = changes_of(plan, self, busy_hours);
        if changes.len() == 1 {
            changes.remove(0)
        } else {
            Change::Combined(changes)
        }
    }

    /// Part time where most of what it saves is in the hours.
    fn verdict_of(&self, plan: &Plan<'_>) -> Verdict {
        let hours = if plan.scheduled {
            1.0 - self.stretches().unwrap_or(0.0)
        } else {
            1.0
        };
        if plan.scheduled && hours <= plan.cost / hours.max(1e-9) {
            Verdict::PartTime
        } else {
            Verdict::OverProvisioned
        }
    }

    fn title(&self, plan: &Plan<'_>) -> String {
        let parts = changes_of(plan, self, &[])
            .into_iter()
            .map(|one| match one {
                Change::Replicas { from, to } => format!("{to} replicas in place of {from}"),
                Change::Gpus { from, to: 1 } => format!("1 GPU for each in place of {from}"),
                Change::Gpus { from, to } => format!("{to} GPUs for each in place of {from}"),
                Change::Slice { gpu, profile } => format!("{profile} of {gpu}"),
                Change::OtherGpu { gpu } => gpu,
                _ => "give the GPU back while nothing happens".into(),
            });
        parts.collect::<Vec<_>>().join("; ")
    }

    fn reason(&self, plan: &Plan<'_>) -> String {
        let usage = self.usage;
        let parts = changes_of(plan, self, &[])
            .into_iter()
            .map(|one| match one {
                Change::Replicas { from, to } => {
                    let sum = usage
                        .compute
                        .as_ref()
                        .and_then(|c| c.p95_sum)
                        .unwrap_or(0.0);
                    let each = if plan.device.is_none() {
                        format!(" at {:.0} %", sum / f64::from(to) * 100.0)
                    } else {
                        String::new()
                    };
                    format!(
                        "{from} replicas with {:.0} % at p95 together: {to} would suffice{each}",
                        sum * 100.0
                    )
                }
                Change::Gpus { from, to } => format!(
                    "{} of {from} GPUs of each replica did nothing in {:.0} h",
                    from - to,
                    usage.hours
                ),
                Change::Slice { .. } | Change::OtherGpu { .. } => {
                    let measure = usage.compute.as_ref().map_or("", |c| c.measure.title());
                    let held = self
                        .held
                        .map_or(String::new(), |held| format!(" of {}", held.memory));
                    let peak = usage.memory_peak.unwrap_or_default();
                    let p95 = self.p95().unwrap_or(0.0) * 100.0;
                    let cache = usage.engine.as_ref().and_then(|engine| engine.cache_peak);
                    match cache.filter(|_| self.takes_all()) {
                        Some(cache) => format!(
                            "{measure} {p95:.0} % at p95, its cache up to {:.0} % full",
                            cache * 100.0
                        ),
                        None => format!("peaks at {peak}{held}, {measure} {p95:.0} % at p95"),
                    }
                }
                _ => self.slept(),
            });
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Its idle stretches, in words.
    fn slept(&self) -> String {
        let idle = self.idle.unwrap_or_default();
        let weekend = if idle.weekend > 0.0 {
            format!(", {:.0} h of them at weekends", idle.weekend)
        } else {
            String::new()
        };
        format!(
            "did nothing in {:.0} of {:.0} h, in stretches of {:.0} h and more{weekend}",
            idle.in_stretches,
            self.known_hours(),
            self.rules.stretch_hours
        )
    }

    /// What it held less what it would hold, in boards and in money.
    fn saving(&self, plan: &Plan<'_>) -> Saving {
        let market = self.market;
        let portion = market.portion(&self.usage.asked);
        let before = f64::from(self.usage.devices());
        let devices = f64::from(plan.replicas) * f64::from(plan.gpus);
        let new_price = match plan.device {
            Some(device) => market.price(&device.gpu.name),
            None => portion.price,
        };
        let freed = |share: f64, hours: f64| {
            let new = plan.device.map_or(share, |device| device.share);
            let (held, left) = (before * share, devices * new * hours);
            let money = portion.price.zip(new_price).map(|(old, new)| Money {
                micros: money(held, old).micros - money(left, new).micros,
                currency: old.0.currency,
            });
            (held - left, money)
        };
        let (hours, longest) = if plan.scheduled {
            let (idle, known) = (self.idle.unwrap_or_default(), self.known_hours().max(1.0));
            let hours = 1.0 - self.stretches().unwrap_or(0.0);
            let woken = f64::from(idle.stretches) * self.rules.wake_hours / known;
            (hours, (hours + woken).min(1.0))
        } else {
            (1.0, 1.0)
        };
        let (gpus, hourly) = freed(portion.low, hours);
        let (gpus_low, hourly_low) = freed(portion.low, longest);
        let (gpus_high, hourly_high) = freed(portion.high, hours);
        Saving {
            gpus,
            gpus_low,
            gpus_high,
            hourly,
            hourly_low,
            hourly_high,
        }
    }

    /// Hours that would have been short of memory or compute, or in which it would not have been there.
    fn risk(&self, plan: &Plan<'_>, surprises: u32) -> Risk {
        let usage = self.usage;
        // What an engine took says nothing of what it needs.
        let device = plan.device.filter(|_| !self.takes_all());
        let room = device.map_or(f64::INFINITY, |device| device.memory.as_f64());
        let at =
            |values: &[f32], hour: usize| values.get(hour).copied().map_or(f64::NAN, f64::from);
        let hours = usage.compute_hourly.len().max(usage.memory_hourly.len());
        let hours = (0..hours).map(|hour| {
            (
                at(&usage.compute_hourly, hour),
                at(&usage.memory_hourly, hour),
            )
        });
        let seen: Vec<_> = hours.filter(|(c, m)| !(c.is_nan() && m.is_nan())).collect();
        let short = seen
            .iter()
            .filter(|(compute, mib)| compute * plan.scale > 1.0 || mib * 1_048_576.0 > room)
            .count() as u32;
        let surprises = if plan.scheduled { surprises } else { 0 };
        let known = !seen.is_empty() && (!plan.scheduled || !usage.compute_hourly.is_empty());
        Risk {
            hours_short: known.then_some(short + surprises),
            hours_seen: if known {
                seen.len() as u32
            } else {
                usage.hours as u32
            },
            note: self.beware(plan),
        }
    }

    fn beware(&self, plan: &Plan<'_>) -> String {
        let mut notes = Vec::new();
        if let Some(device) = plan.device {
            let load = self.p95().unwrap_or(0.0) * plan.scale;
            let beware = if device.slice.is_some() {
                "slices of one GPU cannot exchange data"
            } else {
                "if it has the precision that is used"
            };
            let separator = if device.slice.is_some() { ";" } else { "," };
            notes.push(format!(
                "compute would be at {} % at p95{separator} {beware}",
                significant(load * 100.0, 2)
            ));
            if self.takes_all() {
                notes.push("the engine's context may have to be shorter, or its share of memory set anew: `gpuwise plan` has the flags".into());
            }
        }
        if plan.replicas < self.usage.asked.replicas {
            notes.push("latency rises with the load of each; an autoscaler sustains peaks".into());
        }
        if plan.gpus < self.usage.asked.devices {
            notes.push("it may hold them for a stage that did not come in these days".into());
        }
        if plan.scheduled {
            notes.push(
                "what lies in its memory is lost at each stop; it takes its time to come back"
                    .into(),
            );
        }
        notes.join("; ")
    }
}
