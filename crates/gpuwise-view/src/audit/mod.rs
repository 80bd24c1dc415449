//! An audit of a fleet as text, tables and JSON; and its proposals as patches.

mod page;
mod patch;
mod proof;
mod record;
mod tables;

pub use page::page;
pub use patch::{Patch, patches};
pub use proof::{ProofRow, proof_table};
pub use tables::{tenants, workloads};

use crate::{Style, figures};
use gpuwise_domain::usage::{
    Usage, Window,
    proposal::{Judgement, Proposal, Side},
    totals::Totals,
};
use record::Workload;
use std::fmt::Write as _;

/// Hours of a year of 365 days.
const YEAR: f64 = 8760.0;

/// An audit, as it was made.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub window: Window,
    /// Workloads, and what is said of each, in the same order.
    pub workloads: &'a [Usage],
    pub said: &'a [Judgement],
    pub totals: &'a Totals,
    pub tenants: &'a [Totals],
    /// GPUs that nobody held at the end.
    pub unheld: u32,
    /// What holds for all.
    pub notes: &'a [String],
    /// Where prices come from.
    pub prices: &'a str,
}

impl<'a> Report<'a> {
    /// Workloads with what is said of them: those whose proposal saves most first, then those that
    /// need more, then the rest by name.
    pub fn ranked(&self) -> Vec<(&'a Usage, &'a Judgement)> {
        let mut rows: Vec<(&Usage, &Judgement)> = self.workloads.iter().zip(self.said).collect();
        let worth = |proposal: Option<&Proposal>| {
            let money = proposal
                .and_then(|p| p.saving.hourly)
                .map_or(0, |money| money.micros);
            let gpus = proposal.map_or(0.0, |p| p.saving.gpus);
            (money, gpus, proposal.is_some())
        };
        rows.sort_by(|a, b| {
            let (a_money, a_gpus, a_any) = worth(a.1.proposal.as_ref());
            let (b_money, b_gpus, b_any) = worth(b.1.proposal.as_ref());
            b_money
                .cmp(&a_money)
                .then(b_gpus.total_cmp(&a_gpus))
                .then(b_any.cmp(&a_any))
                .then_with(|| a.0.holder.cmp(&b.0.holder))
        });
        rows
    }

    /// The same as rows.
    fn rows(&self) -> Vec<Workload<'a>> {
        let ranked = self.ranked().into_iter();
        ranked.map(|(usage, said)| Workload(usage, said)).collect()
    }
}

/// `2025-11-21 12:00 UTC`, of seconds since 1970.
pub fn civil(at: i64) -> String {
    jiff::Timestamp::from_second(at).map_or_else(
        |_| format!("{at} s from 1970"),
        |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

fn gpus(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else {
        figures::number(value)
    }
}

/// The first screen: in total, by tenant, and the workloads that could save most.
pub fn text(report: &Report<'_>, top: usize, style: Style) -> String {
    let mut out = heading(report);
    if report.tenants.len() > 1 {
        let _ = write!(out, "\n{}", tenants(report).to_text(style));
    }
    let shown: Vec<_> = report
        .ranked()
        .into_iter()
        .filter(|(_, said)| said.proposal.is_some())
        .collect();
    let left = shown.len().saturating_sub(top);
    let _ = write!(out, "\n{}", tables::proposals(&shown, top).to_text(style));
    if left > 0 {
        let _ = writeln!(out, "{left} more: --top {}", shown.len());
    }
    out.push('\n');
    let _ = writeln!(out, "{}", style.wrap_after("Prices   ", report.prices, 9));
    for note in report.notes {
        let _ = writeln!(out, "{}", style.wrap_after("Unknown  ", note, 9));
    }
    if !shown.is_empty() {
        out.push_str("Do       --patches DIR writes each change as a file to apply\n");
        out.push_str("Why      --format json has reasons, figures and risks of every workload\n");
    }
    out
}

fn heading(report: &Report<'_>) -> String {
    let totals = report.totals;
    let days = (report.window.end - report.window.start) as f64 / 86_400.0;
    let mut out = format!(
        "Fleet    {} workloads on {} GPUs; {} d to {}",
        figures::count(u64::from(totals.workloads)),
        gpus(totals.gpus),
        figures::number(days),
        civil(report.window.end)
    );
    if report.unheld > 0 {
        let _ = write!(out, "; {} GPUs are held by nobody", report.unheld);
    }
    let gone = report
        .workloads
        .iter()
        .filter(|usage| !usage.present)
        .count();
    if gone > 0 {
        let _ = write!(out, "; {gone} workloads have ended");
    }
    out.push('\n');
    let share = |side| totals.share(side).map_or("–".into(), figures::percent);
    let _ = write!(
        out,
        "GPUs     {} hold more than is used, {} are the right size, {} too small",
        share(Side::Over),
        share(Side::Right),
        share(Side::Under)
    );
    let untold = totals.by_side[3];
    if untold > 0.0 {
        let _ = write!(out, "; of {} it cannot be told", gpus(untold));
    }
    out.push('\n');
    let saved = totals.saved.as_f64();
    let _ = write!(out, "Saving   {}", totals.saved);
    if totals.hourly.micros > 0 {
        let _ = write!(
            out,
            " of {} an hour ({})",
            totals.hourly,
            figures::percent(saved / totals.hourly.as_f64())
        );
    } else {
        out.push_str(" an hour");
    }
    if totals.saved_low != totals.saved {
        let _ = write!(out, ", at least {}", totals.saved_low);
    }
    let _ = writeln!(
        out,
        ": {} {} a year; {} GPUs",
        figures::amount(saved * YEAR),
        totals.saved.currency,
        gpus(totals.freed)
    );
    if totals.unpriced > 0 {
        let _ = writeln!(
            out,
            "         {} workloads hold a GPU without a price: --price 'GPU=2.50USD'",
            totals.unpriced
        );
    }
    if totals.unsized_slices > 0 {
        let _ = writeln!(
            out,
            "         {} workloads hold MIG instances whose profile nothing tells: each counts for the smallest",
            totals.unsized_slices
        );
    }
    out
}
