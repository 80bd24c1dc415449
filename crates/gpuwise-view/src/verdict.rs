//! A verdict on what runs: the word, why, what to run instead, and what surrounds the GPUs.

use crate::{
    balance, figures,
    markup::escape_markdown,
    plan::{labelled, words},
    record::{self},
    style::Style,
    table::Table,
};
use gpuwise_domain::{
    deployment::Deployment,
    price::{Per, Price},
    provider::Provider,
    verdict::{Current, Dimension, DimensionUse, Standing, Verdict},
};
use gpuwise_units::{HourlyPrice, Money, significant};
use std::fmt::Write as _;

/// What there is beside what is needed, by dimension.
pub fn table(verdict: &Verdict) -> Table {
    record::table(&verdict.uses).when_empty("Nothing is too large or too small.")
}

/// `8 × H100 SXM5 80GB on 1 host, TP8, 55.04 USD/h`.
pub fn current(current: &Current) -> String {
    let mut out = format!("{} × {}", current.gpus(), current.gpu);
    if current.hosts > 1 {
        let _ = write!(out, " on {} hosts", current.hosts);
    }
    if let Some(layout) = current.layout {
        let _ = write!(out, ", {layout}");
    }
    match current.per_hour() {
        Some(price) => {
            let _ = write!(out, ", {}", priced(price));
            if !current.price_source.is_empty() {
                let _ = write!(out, " ({})", current.price_source);
            }
        }
        None => out += ", at a price that is not known",
    }
    out
}

/// `6.88 USD/h`.
fn priced(price: HourlyPrice) -> String {
    format!("{} {}/h", figures::hourly(price), price.0.currency.code())
}

/// The word with its dimension: `over-provisioned: memory bandwidth`.
pub fn headline(verdict: &Verdict) -> String {
    let mut out = String::from(verdict.standing.name());
    if let Some(of) = verdict.uses.first() {
        let _ = write!(out, ": {}", of.dimension.name());
        match verdict.standing {
            Standing::OverProvisioned => {
                let _ = write!(out, ", {} times what suffices", significant(of.factor, 2));
            }
            Standing::UnderProvisioned if of.factor > 0.0 && of.factor < 1.0 => {
                let _ = write!(out, ", {:.0} % of what is needed", of.factor * 100.0);
            }
            _ => {}
        }
    }
    out
}

/// `L4, 1 GPU, bf16 weights, 1 × g6.xlarge of aws …, 0.80 USD/h: saves 54.2 USD/h (98 %)`.
fn instead(verdict: &Verdict, deployment: &Deployment) -> String {
    let mut out = words::deployment(deployment);
    if let Some(rental) = deployment
        .rental
        .as_ref()
        .filter(|rental| rental.provider != Provider::Running)
    {
        let _ = write!(out, "; {}", words::rental(rental));
    } else if deployment.rental.is_some() {
        out += "; on the same GPUs";
    }
    if let Some(price) = deployment.cost.per_hour {
        let _ = write!(out, ", {}", priced(price));
    }
    out + &change(verdict)
}

fn change(verdict: &Verdict) -> String {
    let Some(saving) = verdict.saving else {
        return String::new();
    };
    let hour = HourlyPrice(Money {
        micros: saving.micros.saturating_abs(),
        ..saving
    });
    let hour = priced(hour);
    match saving.micros {
        0 => ": costs the same".into(),
        micros if micros > 0 => {
            let own = verdict
                .current
                .per_hour()
                .map_or(0.0, |price| price.0.as_f64());
            format!(
                ": saves {hour} ({:.0} %)",
                100.0 * saving.as_f64() / own.max(1e-9)
            )
        }
        _ => format!(": costs {hour} more"),
    }
}

fn lines(verdict: &Verdict) -> Vec<(&'static str, String)> {
    let mut out = vec![
        ("Verdict", headline(verdict)),
        ("Runs", current(&verdict.current)),
        ("Why", verdict.reason.clone()),
    ];
    if let Some(running) = &verdict.running {
        out.push(("As sized", as_sized(running)));
    }
    match &verdict.instead {
        Some(deployment) => out.push(("Instead", instead(verdict, deployment))),
        None if verdict.standing == Standing::UnderProvisioned => {
            out.push(("Instead", host_change(verdict)));
        }
        None => {}
    }
    out
}

/// `TP8: TTFT 120 ms (90–160), TPOT 14 ms (12–17), at 31 % of what it sustains`.
fn as_sized(running: &Deployment) -> String {
    let load = 1.0 / running.headroom.factor.max(1e-9);
    format!(
        "{}: TTFT {}, TPOT {}, at {} of its sustainable load",
        words::layout(running),
        figures::ranged_seconds(&running.figures.ttft),
        figures::ranged_seconds(&running.figures.tpot),
        figures::percent(load)
    )
}

/// What to change where the GPUs are right and their host is not.
fn host_change(verdict: &Verdict) -> String {
    let Some(balance) = &verdict.balance else {
        return "nothing under these limits".into();
    };
    let Some(part) = balance.cause() else {
        return "nothing under these limits".into();
    };
    let wasted = part.wasted_per_hour.map_or_else(String::new, |money| {
        format!("; it wastes {}/h a host", figures::hourly(money))
    });
    format!("the same GPUs with {}{wasted}", balance::shortage(balance))
}

/// The first screen.
pub fn text(verdict: &Verdict, style: Style) -> String {
    let mut out = String::new();
    for (label, line) in lines(verdict) {
        out += &labelled(style, label, &line);
    }
    if !verdict.uses.is_empty() {
        out.push('\n');
        out += &table(verdict).to_text(style);
    }
    if let Some(around) = &verdict.balance {
        out.push('\n');
        out += &labelled(
            style,
            "Host",
            &format!("{}: {}", around.host.name, balance::answer(around)),
        );
        out += &balance::table(around).to_text(style);
        for note in &around.notes {
            out += &(style.wrap(&format!("note: {note}"), 6) + "\n");
        }
    }
    for note in &verdict.notes {
        out += &(style.wrap(&format!("note: {note}"), 6) + "\n");
    }
    out
}

pub fn markdown(verdict: &Verdict) -> String {
    let mut out = format!("# {}\n\n", escape_markdown(&headline(verdict)));
    for (label, line) in lines(verdict).into_iter().skip(1) {
        let _ = writeln!(out, "- **{label}**: {}", escape_markdown(&line));
    }
    if !verdict.uses.is_empty() {
        let _ = write!(out, "\n## In what\n\n{}", table(verdict).to_markdown());
    }
    if let Some(around) = &verdict.balance {
        let _ = write!(
            out,
            "\n## The host\n\n{}\n\n{}",
            escape_markdown(&balance::answer(around)),
            balance::table(around).to_markdown()
        );
    }
    if !verdict.notes.is_empty() {
        let _ = write!(out, "\n## Assumed\n\n");
        for note in &verdict.notes {
            let _ = writeln!(out, "- {}", escape_markdown(note));
        }
    }
    out
}

crate::record!(Verdict, "Verdict", |of| {
    of.field("standing", |v| v.standing.name()).title("verdict");
    of.field("dimension", |v| v.dimension().map(Dimension::name))
        .title("in");
    of.field("reason", |v| &v.reason).title("why");
    of.part("current", |v| &v.current);
    of.list("uses", |v| &v.uses);
    of.maybe("running", |v| v.running.as_ref());
    of.maybe("instead", |v| v.instead.as_ref());
    of.field("saving_per_hour", |v| {
        v.saving.map(|saving| Price::of(saving, Per::Hour))
    })
    .title("saves")
    .unit("¤/h");
    of.maybe("host", |v| v.balance.as_ref());
    of.field("notes", |v| &v.notes);
});

crate::record!(Current, "Current", |of| {
    of.field("gpu", |c| &c.gpu);
    of.field("gpus_per_host", |c| c.gpus_per_host);
    of.field("hosts", |c| c.hosts);
    of.field("price_per_hour", |c| c.per_hour().map(Price::hourly));
    of.field("price_source", |c| &c.price_source);
});

crate::record!(DimensionUse, "DimensionUse", |of| {
    of.field("dimension", |u| u.dimension.name()).title("in");
    of.field("has_over_needed", |u| u.factor)
        .title("has over needed")
        .said_of(|factor| format!("{}×", significant(factor, 2)));
    of.field("words", |u| &u.words).title("that is").wrap(24);
});
