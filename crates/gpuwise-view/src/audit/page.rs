//! An audit as one self-contained page.

use super::{Patch, Report, gpus, heading, patches, tables};
use crate::{
    figures::{self, percent},
    html::{Page, Section, facts, figure, headline_figure},
    markup::escape,
    svg,
};
use gpuwise_domain::usage::{
    Usage,
    proposal::{Judgement, Proposal, Side},
};
use std::fmt::Write as _;

/// Proposals that are shown with evidence and patch: the page stays below 300 kB.
const SHOWN: usize = 100;

/// The page; `product` gives the label of hosts with a GPU, for patches, and `made` says by what it
/// was made.
pub fn page(report: &Report<'_>, product: impl Fn(&str) -> Option<String>, made: &str) -> String {
    let proposed: Vec<(&Usage, &Judgement)> = report
        .ranked()
        .into_iter()
        .filter(|(_, said)| said.proposal.is_some())
        .collect();
    Page {
        title: "Audit of a GPU fleet".into(),
        answer: answer(report, &proposed),
        head: head(report),
        sections: sections(report, &proposed, &product),
    }
    .finish(made)
}

fn answer(report: &Report<'_>, proposed: &[(&Usage, &Judgement)]) -> String {
    let totals = report.totals;
    // Every row is counted once: what it saves, in money or GPUs, what it takes more of, and what does neither.
    let worth = |said: &Judgement| {
        if said.verdict.side() == Some(Side::Under) {
            return -1;
        }
        let saving = said.proposal.as_ref().map(|proposal| &proposal.saving);
        let money = saving.and_then(|saving| saving.hourly);
        let gpus = saving.map_or(0.0, |saving| saving.gpus);
        let money = money.map_or(0, |money| money.micros.signum());
        if money == 0 {
            gpus.total_cmp(&0.0) as i64
        } else {
            money
        }
    };
    let count = |of: i64| {
        proposed
            .iter()
            .filter(|(_, said)| worth(said) == of)
            .count()
    };
    let (saving, more, even) = (count(1), count(-1), count(0));
    let mut others = match more {
        0 => String::new(),
        1 => "; 1 workload needs more than it holds".to_owned(),
        count => format!("; {count} workloads need more than they hold"),
    };
    if even > 0 {
        others += "; ";
        others += &changes(even, "costs as much as now", "cost as much as now");
    }
    if proposed.is_empty() {
        return "Nothing to change: what is held is what is needed.".into();
    }
    if totals.saved.micros <= 0 {
        return format!(
            "{} back {} of {} GPUs{others}.",
            changes(saving, "gives", "give"),
            gpus(totals.freed),
            gpus(totals.gpus)
        );
    }
    let of = if totals.hourly.micros > 0 {
        let share = percent(totals.saved.as_f64() / totals.hourly.as_f64());
        format!(" of {} ({share})", totals.hourly)
    } else {
        String::new()
    };
    format!(
        "{} {}{of} an hour{others}.",
        changes(saving, "saves", "save"),
        totals.saved
    )
}

fn changes(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 change {one}"),
        count => format!("{} changes {many}", figures::count(count as u64)),
    }
}

fn head(report: &Report<'_>) -> String {
    let totals = report.totals;
    let mut out = String::from("<dl class=\"figures\">\n");
    let mut add =
        |label: &str, value: &str, more: &str| headline_figure(&mut out, label, value, more);
    let year = |money: gpuwise_units::Money| figures::amount(money.as_f64() * super::YEAR);
    if totals.saved.micros > 0 {
        let currency = totals.saved.currency.code();
        let month = figures::amount(totals.saved.as_f64() * super::YEAR / 12.0);
        let mut more = format!("{month} {currency} a month");
        if totals.saved_low != totals.saved_high {
            let (low, high) = (year(totals.saved_low), year(totals.saved_high));
            more = format!("{more}; {low} to {high} a year");
        }
        add(
            "saving a year",
            &format!("{} {currency}", year(totals.saved)),
            &more,
        );
    }
    add(
        "GPUs given back",
        &gpus(totals.freed),
        &format!("of {}", gpus(totals.gpus)),
    );
    for (label, side) in [
        ("hold more than is used", Side::Over),
        ("right size", Side::Right),
        ("too small", Side::Under),
    ] {
        let share = totals.share(side).map_or("–".into(), percent);
        add(label, &share, "of GPUs");
    }
    out += "</dl>\n";
    let said = heading(report);
    let fleet = said.lines().next().unwrap_or_default();
    let fleet = fleet.strip_prefix("Fleet").unwrap_or(fleet).trim();
    out + &facts(&[
        ("Fleet", fleet.to_owned()),
        ("Prices", report.prices.to_owned()),
    ])
}

fn sections(
    report: &Report<'_>,
    proposed: &[(&Usage, &Judgement)],
    product: &impl Fn(&str) -> Option<String>,
) -> Vec<Section> {
    let mut body = savings(proposed);
    body += &tables::proposals(proposed, SHOWN).to_html("Proposals");
    let each = proposed.iter().take(SHOWN);
    let details = each
        .map(|(usage, said)| detail(usage, said, product))
        .collect();
    let tenants = if report.tenants.len() > 1 {
        super::tenants(report).to_html("Tenants")
    } else {
        String::new()
    };
    let every = format!(
        "<details><summary>{} workloads with what is said of each</summary>\n{}</details>\n",
        figures::count(report.workloads.len() as u64),
        super::workloads(report).to_html("Workloads")
    );
    let unknown = report.notes.iter().fold(String::new(), |mut out, note| {
        let _ = writeln!(out, "<li>{}</li>", escape(note));
        out
    });
    [
        ("proposals", "What to change", body),
        ("evidence", "Evidence and patches", details),
        ("tenants", "Tenants", tenants),
        ("workloads", "Every workload", every),
        (
            "unknown",
            "What is not known",
            if unknown.is_empty() {
                unknown
            } else {
                format!("<ul>\n{unknown}</ul>\n")
            },
        ),
    ]
    .into_iter()
    .filter(|(_, _, body)| !body.is_empty())
    .map(|(id, title, body)| Section { id, title, body })
    .collect()
}

fn savings(proposed: &[(&Usage, &Judgement)]) -> String {
    let saved = proposed
        .iter()
        .filter_map(|(usage, said)| Some((*usage, said.proposal.as_ref()?)));
    let priced = saved.filter_map(|(usage, proposal)| {
        let saving = proposal.saving;
        let money = saving.hourly.filter(|money| money.micros > 0)?;
        let end = |money: Option<gpuwise_units::Money>, or: f64| {
            money.map_or(or, gpuwise_units::Money::as_f64)
        };
        let value = money.as_f64();
        let range = (
            end(saving.hourly_low, value),
            end(saving.hourly_high, value),
        );
        Some((
            (tables::name(usage), value, range),
            money.currency.code().to_owned(),
        ))
    });
    let (bars, currencies): (Vec<_>, Vec<String>) = priced.unzip();
    let unit = currencies
        .first()
        .map_or_else(String::new, |code| format!("{code}/h"));
    let picture = svg::savings(&bars, &unit, "savings");
    picture.map_or_else(String::new, |picture| {
        let caption = "What each change saves an hour, and from where to where that may lie.";
        format!(
            "<div class=\"pictures\">\n{}</div>\n",
            figure(&picture, caption)
        )
    })
}

/// One proposal: why, what was seen, what may go wrong, and the patch.
fn detail(usage: &Usage, said: &Judgement, product: &impl Fn(&str) -> Option<String>) -> String {
    let Some(proposal) = &said.proposal else {
        return String::new();
    };
    let mut out = format!(
        "<details><summary><strong>{}</strong>: {}</summary>\n<p>{}</p>\n",
        escape(&tables::name(usage)),
        escape(&proposal.title),
        escape(&said.reason)
    );
    out += &facts(&evidence(usage, proposal));
    for note in &said.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    for Patch { file, text } in patches(usage, said, product) {
        let _ = write!(
            out,
            "<p><code>{}</code></p>\n<pre tabindex=\"0\">{}</pre>\n",
            escape(&file),
            escape(&text)
        );
    }
    out + "</details>\n"
}

fn evidence(usage: &Usage, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let mut out = vec![("Holds", tables::holds(usage))];
    let days = figures::number(usage.spanned_hours / 24.0);
    out.push((
        "Seen",
        format!(
            "{} GPU-hours over {days} d",
            figures::number(usage.device_hours_seen)
        ),
    ));
    if let Some(p95) = usage
        .compute
        .as_ref()
        .and_then(|compute| Some((compute.p95?, compute.measure)))
    {
        out.push((
            "Compute",
            format!(
                "{} at the 95th percentile ({})",
                percent(p95.0),
                p95.1.title()
            ),
        ));
    }
    if let Some(peak) = usage.memory_peak {
        out.push(("Memory", format!("{} at the most", figures::bytes(peak))));
    }
    let risk = &proposal.risk;
    if let Some(short) = risk.hours_short {
        out.push((
            "Too little",
            format!("in {short} of {} hours seen", risk.hours_seen),
        ));
    }
    out.push(("Beware", risk.note.clone()));
    for other in &proposal.alternatives {
        let saved = other.saving.hourly.map_or_else(
            || format!("{} GPUs", gpus(other.saving.gpus)),
            |money| format!("{money} an hour"),
        );
        out.push(("Or", format!("{}: {saved}", other.title)));
    }
    out
}
