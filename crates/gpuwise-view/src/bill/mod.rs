//! A bill over years: the answer, tables, the sheet for a spreadsheet.

mod export;
mod record;
mod tables;
mod words;

pub use export::to_csv;
pub use tables::{calendar, sensitivities, strategies};

use crate::{
    Style, figures::currency_sign, html::AnswerPage, markup::escape_markdown, svg, table::Table,
};
use gpuwise_domain::bill::{Amount, Bill, RowOrigin, Strategy};
use gpuwise_domain::estimate::Derivation;
use gpuwise_units::{Fraction, Money};
use std::fmt::Write as _;
use words::{band_number, band_share, cents, money, ranged};

/// The answer, then why, then what to buy by when, for a terminal.
pub fn text(bill: &Bill, style: Style) -> String {
    let mut out = String::new();
    for sentence in [bill.subject.clone() + "."]
        .into_iter()
        .chain(sentences(bill))
    {
        out += &style.wrap(&sentence, 0);
        out.push('\n');
    }
    for (title, table) in sections(bill) {
        let _ = write!(out, "\n{title}\n\n{}", table.to_text(style));
    }
    if !bill.notes.is_empty() {
        out.push('\n');
        for note in &bill.notes {
            out += &style.wrap(note, 0);
            out.push('\n');
        }
    }
    style.finish(out)
}

/// The same as Markdown.
pub fn markdown(bill: &Bill) -> String {
    let mut out = format!("## {}\n", escape_markdown(&bill.subject));
    for sentence in sentences(bill) {
        let _ = write!(out, "\n{}\n", escape_markdown(&sentence));
    }
    for (title, table) in sections(bill) {
        let _ = write!(
            out,
            "\n### {}\n\n{}",
            escape_markdown(&title),
            table.to_markdown()
        );
    }
    for note in &bill.notes {
        let _ = write!(out, "\n{}\n", escape_markdown(note));
    }
    out
}

/// The same as a page.
pub fn page(bill: &Bill, made: &str) -> String {
    let mut sentences = sentences(bill);
    let answer = if sentences.is_empty() {
        "No way to have these hosts has a price that is known.".to_owned()
    } else {
        sentences.remove(0)
    };
    let drawn = svg::purchases(bill, "purchases");
    let derivations = derivations(bill);
    AnswerPage {
        title: bill.subject.clone(),
        answer,
        lead: sentences,
        tables: sections(bill),
        pictures: drawn
            .map(|drawn| (drawn, "What to buy by when.".into()))
            .into_iter()
            .collect(),
        derivations: &derivations,
        notes: &bill.notes,
        ..AnswerPage::default()
    }
    .finish(made)
}

fn sections(bill: &Bill) -> Vec<(String, Table)> {
    let mut out = vec![(
        format!("{} months from {}", bill.horizon, bill.start),
        strategies(bill),
    )];
    let grows = bill
        .calendar
        .iter()
        .any(|month| month.arriving > 0 || month.replaced > 0);
    if grows || bill.breaks.is_some() {
        out.push(("What to buy by when".into(), calendar(bill, false)));
    }
    if let Some(cheapest) = bill.cheapest.filter(|_| !bill.sensitivities.is_empty()) {
        let title = format!("What moves the total of \"{}\" most", cheapest.name());
        out.push((title, sensitivities(bill)));
    }
    out
}

fn sentences(bill: &Bill) -> Vec<String> {
    let mut out = Vec::new();
    let sign = currency_sign(bill.currency.code());
    let costs = |strategy: Strategy| {
        let row = bill
            .strategies
            .iter()
            .find(|row| row.strategy == strategy)?;
        row.outcome.as_ref().ok()
    };
    if let Some((strategy, costs)) = bill.cheapest.and_then(|of| Some((of, costs(of)?))) {
        out.push(format!(
            "Cheapest: {}, {sign}{} over {} months, discounted{}.",
            strategy.name(),
            ranged(&costs.discounted),
            bill.horizon,
            match tables::note(strategy) {
                "" => String::new(),
                note => format!(" ({note})"),
            }
        ));
    }
    if let Some(difference) = &bill.owning_less_renting {
        out.push(verdict(difference, &sign));
    }
    if let (Some(band), Some(hour)) = (&bill.break_even, &bill.owned_gpu_hour) {
        let hours = |share: Fraction| crate::figures::number(share.as_f64() * 730.0);
        out.push(format!(
            "An owned GPU costs {sign}{} an hour when it is used all the time. Owning a host pays from {} of its hours on: {} ({}–{}) hours a month.{}",
            ranged(hour),
            band_share(band),
            hours(band.value),
            hours(band.low),
            hours(band.high),
            if band.low > Fraction::ONE { " That is more than a month has." } else { "" },
        ));
    }
    out.extend(growth(bill, &sign, costs));
    if let Some(footprint) = &bill.footprint {
        let mut text = format!(
            "Energy, the facility included: {} kWh",
            band_number(&footprint.kwh)
        );
        if let Some(carbon) = &footprint.carbon_kg {
            let _ = write!(text, "; {} kg CO2e", band_number(carbon));
        }
        out.push(text + ".");
    }
    out
}

/// Whether to buy, as far as the ranges tell.
fn verdict(difference: &Amount, sign: &str) -> String {
    let range = |value: Money| money(value);
    let absolute = |value: Money| Money {
        micros: value.micros.saturating_abs(),
        ..value
    };
    let (low, high) = (difference.low, difference.high);
    let by = money(absolute(difference.value));
    if high.micros < 0 {
        format!(
            "Buy rather than rent for all hours: {sign}{by} less ({sign}{} to {sign}{} less).",
            range(absolute(high)),
            range(absolute(low))
        )
    } else if low.micros > 0 {
        format!(
            "Rent rather than buy: buying costs {sign}{by} more than renting for all hours ({sign}{} to {sign}{} more).",
            range(low),
            range(high)
        )
    } else {
        let way = if difference.value.micros < 0 {
            "less"
        } else {
            "more"
        };
        format!(
            "Rent for all hours or buy: the ranges do not tell. Buying comes to {sign}{by} {way}, between {sign}{} less and {sign}{} more.",
            range(absolute(low)),
            range(high)
        )
    }
}

/// When today's choice breaks, and buying as it grows against all at once.
fn growth<'a>(
    bill: &'a Bill,
    sign: &str,
    costs: impl Fn(Strategy) -> Option<&'a gpuwise_domain::bill::Costs>,
) -> Vec<String> {
    let Some(breaks) = bill.breaks else {
        return vec![format!(
            "Today's {} {} the load of all {} months.",
            hosts(bill.hosts_now),
            if bill.hosts_now == 1 {
                "sustains"
            } else {
                "sustain"
            },
            bill.horizon
        )];
    };
    let mut text = format!(
        "Today's {} no longer {} the load from {breaks} on",
        hosts(bill.hosts_now),
        if bill.hosts_now == 1 {
            "sustains"
        } else {
            "sustain"
        }
    );
    let next = bill.calendar.iter().find(|month| month.arriving > 0);
    if let Some(next) = next {
        let ordered = next.month.after(-i64::from(bill.lead));
        let _ = write!(
            text,
            ": order {} in {ordered}, in service {} ({} months of lead time)",
            hosts(next.arriving),
            next.month,
            bill.lead
        );
    }
    let mut out = vec![text + "."];
    let short: Vec<_> = bill
        .calendar
        .iter()
        .filter(|month| month.short > 0)
        .collect();
    if let (Some(first), Some(last)) = (short.first(), short.last()) {
        let most = short.iter().map(|month| month.short).max().unwrap_or(0);
        out.push(format!(
            "No order arrives in time for {} to {}: up to {} short, rented meanwhile.",
            first.month,
            last.month,
            hosts(most)
        ));
    }
    if let (Some(grown), Some(once)) = (costs(Strategy::Owned), costs(Strategy::OwnedAtOnce)) {
        out.push(format!(
            "Buying as it grows: {sign}{}; buying all now: {sign}{}, discounted.",
            ranged(&grown.discounted),
            ranged(&once.discounted)
        ));
    }
    out
}

fn hosts(count: i64) -> String {
    if count == 1 {
        "1 host".into()
    } else {
        format!("{count} hosts")
    }
}

/// How every line came about: inputs with sources, lines with their formula.
pub fn derivations(bill: &Bill) -> Vec<Derivation> {
    let shown = |value: Fraction, decimals: u32| value.plain(decimals.min(6));
    bill.sheet
        .rows
        .iter()
        .filter_map(|row| {
            let first = row.cells.first()?.value;
            let value = if row.monthly {
                let last = row.cells.last()?.value;
                format!(
                    "{} … {} {}",
                    shown(first, row.decimals),
                    shown(last, row.decimals),
                    row.unit
                )
            } else {
                format!("{} {}", shown(first, row.decimals), row.unit)
            };
            Some(match &row.origin {
                RowOrigin::Input {
                    range,
                    date,
                    source,
                } => {
                    let range = range.map_or_else(String::new, |(low, high)| {
                        format!("{} to {}; ", shown(low, 6), shown(high, 6))
                    });
                    let date = if date.is_empty() {
                        String::new()
                    } else {
                        format!(", {date}")
                    };
                    Derivation::fact(&row.what, value, format!("{range}{source}{date}"))
                }
                RowOrigin::Line { words } => {
                    Derivation::computed(&row.what, value, words, Vec::new())
                }
            })
        })
        .collect()
}

/// An exact amount with its currency: `1234.50 USD`.
pub fn exact(amount: Money) -> String {
    format!("{} {}", cents(amount), amount.currency)
}
