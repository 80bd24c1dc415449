//! What columns say in words.

use super::Decimal;
use crate::{
    prices::Metered,
    statement::{Cause, Item, Line},
    usage::Granted,
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Fraction;
use std::collections::BTreeMap;

/// Name, category and subcategory.
pub(super) fn service(item: Option<&Item>) -> [&'static str; 3] {
    match item {
        Some(item) if item.granted == Granted::Nothing => {
            ["Model serving", "AI and Machine Learning", "Generative AI"]
        }
        Some(_) => ["GPU leases", "Compute", "Other (Compute)"],
        None => ["Shared GPU costs", "Compute", "Other (Compute)"],
    }
}

pub(super) const fn category(class: Terms) -> &'static str {
    match class {
        // What is reserved has a price of its own, agreed beforehand, and no commitment that rows use up.
        Terms::OnDemand | Terms::Reserved => "Standard",
        Terms::Spot => "Dynamic",
    }
}

pub(super) const fn meter(metered: Metered) -> &'static str {
    match metered {
        Metered::GpuTime => "GPU time",
        Metered::TokensIn => "Input tokens",
        Metered::TokensOut => "Output tokens",
        Metered::Energy => "Energy",
    }
}

pub(super) const fn pricing_unit(metered: Metered) -> &'static str {
    match metered {
        Metered::GpuTime => "GPU-Hours",
        Metered::TokensIn | Metered::TokensOut => "1000000 Tokens",
        Metered::Energy => "kWh",
    }
}

pub(super) const fn consumed_unit(metered: Metered) -> &'static str {
    match metered {
        Metered::TokensIn | Metered::TokensOut => "Tokens",
        Metered::GpuTime | Metered::Energy => pricing_unit(metered),
    }
}

pub(super) fn consumed(item: &Item) -> Decimal {
    let consumed = item.consumed();
    match item.metered {
        Metered::TokensIn | Metered::TokensOut => {
            let tokens = consumed.times(Fraction::whole(1_000_000));
            Decimal::fraction(tokens.unwrap_or(consumed), 0)
        }
        Metered::GpuTime | Metered::Energy => Decimal::fraction(consumed, 12),
    }
}

pub(super) fn details(item: &Item) -> String {
    let mut details = BTreeMap::from([
        ("x_GpuModel".to_owned(), item.kind.clone()),
        ("x_LeaseClass".to_owned(), item.class.name().to_owned()),
        ("x_Part".to_owned(), part(&item.granted)),
    ]);
    details.retain(|_, value| !value.is_empty());
    json(&details)
}

/// A text as JSON; keys are in order, so that equal details are equal text.
pub(super) fn json(values: &BTreeMap<String, String>) -> String {
    serde_json::to_string(values).unwrap_or_default()
}

/// Such as `1g.10gb`, or `250/1000`.
fn part(granted: &Granted) -> String {
    match granted {
        Granted::Nothing => String::new(),
        Granted::Whole => "whole".into(),
        Granted::Fraction { compute_milli, .. } => format!("{compute_milli}/1000"),
        Granted::Slice { profile, .. } => profile.clone(),
    }
}

/// Thousandths, such as `50 %`.
fn percent(milli: u32) -> String {
    let rest = match milli % 10 {
        0 => String::new(),
        tenths => format!(".{tenths}"),
    };
    format!("{}{rest} %", milli / 10)
}

pub(super) fn description(line: &Line) -> String {
    let what = match (&line.item, &line.cause) {
        (Some(item), _) => {
            let part = part(&item.granted);
            let space = if part.is_empty() { "" } else { ", " };
            if let Some(milli) = item.lent_milli {
                format!(
                    "Earned by capacity kept for lease {} and lent: {} of what was paid for {}{space}{part}, {}",
                    item.lease,
                    percent(milli),
                    item.kind,
                    item.class.name()
                )
            } else {
                format!(
                    "{} of lease {}: {}{space}{part}, {}",
                    meter(item.metered),
                    item.lease,
                    item.kind,
                    item.class.name()
                )
            }
        }
        (None, Cause::Shared(name)) => format!("Part of {name}"),
        (None, _) => "Part of a shared cost".into(),
    };
    match (&line.cause, line.charge) {
        (Cause::Reversal(month), _) => format!("{what}; takes back what was stated for {month}"),
        (Cause::Restated(month), _) => format!("{what}; as it is right for {month}"),
        (_, Err(reason)) => format!("{what}; not charged: {}", reason.sentence()),
        _ => what,
    }
}
