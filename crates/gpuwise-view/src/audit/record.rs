//! What programs read of an audit, and the columns that people see.

use super::{Report, civil, gpus, tables};
use crate::record::{Fields, Record};
use gpuwise_domain::{
    price::{Per, Price},
    usage::{
        Usage, Window,
        proposal::{Alternative, Change, Judgement, Proposal, Saving, Side},
        totals::Totals,
    },
};
use gpuwise_units::{Bytes, Money};

pub(super) fn hourly(money: Money) -> Price {
    Price::of(money, Per::Hour)
}

/// The same over a year.
pub(super) fn yearly(money: Money) -> Price {
    Price::of(money.times(super::YEAR as i64, 1), Per::Year)
}

impl Record for Report<'_> {
    const NAME: &'static str = "Audit";

    fn fields(of: &mut Fields<'_, Self>) {
        of.part("window", |r| &r.window);
        of.part("total", |r| r.totals);
        of.made("tenants", |r| r.tenants.iter().map(Tenant).collect());
        of.field("gpus_held_by_nobody", |r| r.unheld);
        of.field("prices", |r| r.prices);
        of.field("notes", |r| r.notes);
        of.made("workloads", Report::rows);
    }
}

impl Record for Window {
    const NAME: &'static str = "Window";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("start", |w| civil(w.start));
        of.field("end", |w| civil(w.end));
    }
}

impl Record for Totals {
    const NAME: &'static str = "Totals";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("workloads", "workloads", |t| t.workloads)
            .priority(2);
        of.column("gpus", "GPUs", |t| t.gpus).said_of(gpus);
        of.column("share_over", "too much", |t| t.share(Side::Over))
            .percent();
        of.column("share_right", "right", |t| t.share(Side::Right))
            .percent()
            .priority(1);
        of.column("share_under", "too little", |t| t.share(Side::Under))
            .percent()
            .priority(3);
        of.field("gpus_unknown", |t| t.by_side[3]);
        of.field("verdicts", |t| {
            let counts = t.by_verdict.iter();
            let named = counts.map(|(verdict, count)| (verdict.name(), *count));
            named.collect::<std::collections::BTreeMap<_, _>>()
        });
        of.column("cost_per_hour", "cost", |t| hourly(t.hourly))
            .unit("¤/h");
        of.column("saving_per_hour", "saving", |t| {
            (hourly(t.saved), hourly(t.saved_low), hourly(t.saved_high))
        })
        .unit("¤/h");
        of.field("saving_per_year", |t| {
            (yearly(t.saved), yearly(t.saved_low), yearly(t.saved_high))
        });
        of.column("saving_gpus", "saving", |t| t.freed)
            .unit("GPUs")
            .said_of(gpus);
        of.field("workloads_without_price", |t| t.unpriced);
        of.field("workloads_with_slices_of_untold_size", |t| t.unsized_slices);
    }
}

pub(super) struct Tenant<'a>(pub(super) &'a Totals);

impl Record for Tenant<'_> {
    const NAME: &'static str = "Tenant";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("tenant", "Tenant", |t| &t.0.tenant)
            .wrap(12)
            .said_as(|name| if name.is_empty() { "(none)" } else { name }.into());
        of.inline(|t| t.0);
    }
}

/// A workload, and what is said of it.
pub(super) struct Workload<'a>(pub(super) &'a Usage, pub(super) &'a Judgement);

impl<'a> Workload<'a> {
    fn proposal(&self) -> Option<&'a Proposal> {
        self.1.proposal.as_ref()
    }

    fn saving(&self) -> Option<Saving> {
        Some(self.proposal()?.saving)
    }
}

impl Record for Workload<'_> {
    const NAME: &'static str = "Workload";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("tenant", "Tenant", |w| &w.0.tenant);
        of.field("namespace", |w| &w.0.holder.namespace);
        of.column("workload", "Workload", |w| &w.0.holder.name);
        of.field("kind", |w| &w.0.holder.kind);
        of.column("holds", "holds", |w| tables::holds(w.0));
        of.field("gpu", |w| w.0.asked.gpu.as_ref());
        of.field("mig_profile", |w| w.0.asked.slice.as_ref());
        of.field("mig_profile_untold", |w| w.0.asked.slice_untold);
        of.field("shared_by", |w| w.0.asked.shared_by.max(1));
        of.field("gpus", |w| w.0.asked.devices);
        of.field("gpus_idle", |w| w.0.idle_devices);
        of.field("replicas", |w| w.0.asked.replicas);
        let verdict = of.noun().map(|w| w.1.verdict.title().into());
        of.column("verdict", "is", |w| w.1.verdict.name())
            .seen(verdict);
        of.column("reason", "because", |w| &w.1.reason);
        of.field("proposal_kind", |w| {
            Some(w.proposal()?.change.kind().name())
        });
        of.column("proposal", "do", |w| Some(&w.proposal()?.title));
        of.column("saving_gpus", "saving", |w| Some(w.saving()?.gpus))
            .unit("GPUs")
            .said_of(gpus);
        of.column("saving_per_hour", "saving", |w| {
            let Saving {
                hourly: of,
                hourly_low,
                hourly_high,
                ..
            } = w.saving()?;
            Some((
                hourly(of?),
                hourly(hourly_low.or(of)?),
                hourly(hourly_high.or(of)?),
            ))
        })
        .unit("¤/h");
        of.field("saving_per_year", |w| {
            let saving = w.saving()?;
            let of = saving.hourly?;
            Some((
                yearly(of),
                yearly(saving.hourly_low.unwrap_or(of)),
                yearly(saving.hourly_high.unwrap_or(of)),
            ))
        });
        of.column("hours_short", "short", |w| w.proposal()?.risk.hours_short)
            .unit("h");
        of.field("present", |w| w.0.present);
        of.field("hours", |w| w.0.hours);
        of.field("device_hours", |w| w.0.device_hours);
        of.field("memory_peak_mib", |w| w.0.memory_peak.map(Bytes::mib));
        of.field("memory_average_mib", |w| w.0.memory_average.map(Bytes::mib));
        of.field("compute_measure", |w| {
            Some(w.0.compute.as_ref()?.measure.title())
        });
        of.field("compute_average", |w| w.0.compute.as_ref()?.average);
        of.field("compute_p95", |w| w.0.compute.as_ref()?.p95);
        of.field("compute_p95_of_hours", |w| {
            Some(w.0.compute.as_ref()?.of_hours)
        });
        of.field("tensor_active_average", |w| w.0.tensor_average);
        of.field("dram_active_p95", |w| w.0.dram_p95);
        of.field("cpus", |w| w.0.asked.cpus);
        of.field("cpu_share", |w| w.0.cpu_share);
        of.field("throttled_share", |w| w.0.throttled_share);
        of.field("requests_waiting", |w| w.0.engine.as_ref()?.waiting);
        of.field("cache_peak", |w| w.0.engine.as_ref()?.cache_peak);
        of.field("latency_seconds", |w| w.0.engine.as_ref()?.latency);
        of.field("notes", |w| &w.1.notes);
        of.made_maybe("change", |w| Some(Changed(w.0, w.proposal()?)));
    }
}

/// What to change, with what it may take.
struct Changed<'a>(&'a Usage, &'a Proposal);

impl Record for Changed<'_> {
    const NAME: &'static str = "Change";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("kind", |c| c.1.change.kind().name());
        of.field("parts", |c| {
            let parts = c.1.change.parts().iter();
            parts.map(|part| part.kind().name()).collect::<Vec<_>>()
        });
        of.part("details", |c| &c.1.change).grouped();
        of.field("saving_gpus_low", |c| c.1.saving.gpus_low);
        of.field("saving_gpus_high", |c| c.1.saving.gpus_high);
        of.field("hours_seen", |c| c.1.risk.hours_seen);
        of.field("beware", |c| &c.1.risk.note);
        of.field("container", |c| c.0.asked.container.as_ref());
        of.made("alternatives", |c| {
            c.1.alternatives.iter().map(Other).collect()
        });
    }
}

/// Another change that would do.
struct Other<'a>(&'a Alternative);

impl Record for Other<'_> {
    const NAME: &'static str = "AlternativeChange";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("kind", |o| o.0.change.kind().name());
        of.field("title", |o| &o.0.title);
        of.field("saving_gpus", |o| o.0.saving.gpus);
        of.field("saving_per_hour", |o| Some(hourly(o.0.saving.hourly?)));
    }
}

impl Record for Change {
    const NAME: &'static str = "ChangeDetails";

    fn fields(of: &mut Fields<'_, Self>) {
        let counts = |change: &Self| {
            change.parts().iter().find_map(|part| match part {
                Self::Replicas { from, to } => Some((f64::from(*from), f64::from(*to))),
                Self::Cpus { from, to } => Some((*from, *to)),
                _ => None,
            })
        };
        of.field("from", |c| Some(counts(c)?.0));
        of.field("to", |c| match c {
            Self::ScaleToZero => Some(0.0),
            other => Some(counts(other)?.1),
        });
        of.field("gpus_to", |c| {
            c.parts().iter().find_map(|part| match part {
                Self::Gpus { to, .. } => Some(*to),
                _ => None,
            })
        });
        of.field("busy_hours_of_week_utc", |c| {
            c.parts().iter().find_map(|part| match part {
                Self::Schedule { busy_hours } => {
                    Some(busy_hours.iter().map(|h| u32::from(*h)).collect::<Vec<_>>())
                }
                _ => None,
            })
        });
        of.field("gpu", |c| {
            c.parts().iter().find_map(|part| match part {
                Self::Slice { gpu, .. } | Self::OtherGpu { gpu } => Some(gpu),
                Self::MoreMemory { gpu } => gpu.as_ref(),
                _ => None,
            })
        });
        of.field("mig_profile", |c| {
            c.parts().iter().find_map(|part| match part {
                Self::Slice { profile, .. } => Some(profile),
                _ => None,
            })
        });
    }
}
