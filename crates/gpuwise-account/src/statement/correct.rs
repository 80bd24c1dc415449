//! What was stated and is no longer so.

use super::{Cause, Line};
use crate::{
    period::Month,
    prices::Metered,
    usage::{Granted, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Money;
use std::collections::BTreeMap;

/// What tells lines of a month apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'l> {
    cause: &'l Cause,
    item: Option<ItemKey<'l>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ItemKey<'l> {
    lease: &'l str,
    metered: Metered,
    kind: &'l str,
    granted: &'l Granted,
    isolation: Sharing,
    class: Terms,
    price: Option<&'l str>,
    list: Option<&'l str>,
    lent: bool,
}

fn key(line: &Line) -> Key<'_> {
    Key {
        cause: &line.cause,
        item: line.item.as_ref().map(|item| ItemKey {
            lease: &item.lease,
            metered: item.metered,
            kind: &item.kind,
            granted: &item.granted,
            isolation: item.isolation,
            class: item.class,
            price: item.price.as_ref().map(|price| price.id.as_str()),
            list: item.list.as_ref().map(|price| price.id.as_str()),
            lent: item.lent_milli.is_some(),
        }),
    }
}

/// Lines that take back what of a month was stated otherwise, and put in its place what is right.
pub(super) fn corrections(month: Month, stated: &[Line], right: &[Line]) -> Vec<Line> {
    let (old, new) = (by_key(stated), by_key(right));
    let mut lines = Vec::new();
    for (key, line) in &old {
        if new.get(key) != Some(line) {
            lines.push(reversal(line, month));
            if let Some(right) = new.get(key) {
                lines.push(restated(right, month));
            }
        }
    }
    let added = new.iter().filter(|(key, _)| !old.contains_key(key));
    lines.extend(added.map(|(_, line)| restated(line, month)));
    lines
}

fn by_key(lines: &[Line]) -> BTreeMap<Key<'_>, &Line> {
    lines.iter().map(|line| (key(line), line)).collect()
}

fn reversal(line: &Line, month: Month) -> Line {
    let mut line = line.clone();
    line.cause = Cause::Reversal(month);
    // The smallest number alone has no opposite, and no line is that much.
    let opposite = |money: Money| Money {
        micros: money.micros.saturating_neg(),
        ..money
    };
    line.charge = line.charge.map(opposite);
    line.list = line.list.map(opposite);
    if let Some(item) = &mut line.item {
        item.quantity = item.quantity.negated();
    }
    line
}

fn restated(line: &Line, month: Month) -> Line {
    Line {
        cause: Cause::Restated(month),
        ..line.clone()
    }
}
