//! Which price applies when.

use super::{Metered, PriceBook, PriceEntry};
use crate::{
    period::Interval,
    usage::{Granted, Series, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Nanoseconds;

/// What a price is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked<'a> {
    pub tenant: &'a str,
    pub kind: &'a str,
    pub granted: &'a Granted,
    pub isolation: Sharing,
    pub class: Terms,
}

impl<'a> From<&'a Series> for Asked<'a> {
    fn from(series: &'a Series) -> Self {
        Self {
            tenant: &series.tenant,
            kind: &series.kind,
            granted: &series.granted,
            isolation: series.isolation,
            class: series.class,
        }
    }
}

/// A time in which the same prices apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'b> {
    pub interval: Interval,
    /// What this tenant pays; `None`: nothing is said, and nothing is charged in its place.
    pub price: Option<&'b PriceEntry>,
    /// What is listed for everybody.
    pub list: Option<&'b PriceEntry>,
}

impl PriceBook {
    /// The prices of something over an interval, in order of time, without gaps.
    pub fn pieces(&self, asked: &Asked<'_>, metered: Metered, within: Interval) -> Vec<Piece<'_>> {
        let candidates: Vec<&PriceEntry> = self
            .entries()
            .iter()
            .filter(|entry| {
                entry.metered == metered
                    && entry.valid.overlaps(within)
                    && entry.applies.covers(asked)
            })
            .collect();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for pair in Self::moments(&candidates, within).windows(2) {
            let interval = Interval::new(pair[0], pair[1]);
            let valid = |entry: &&&PriceEntry| applies_at(entry, interval.start);
            let price = candidates.iter().find(valid).copied();
            let lists = candidates
                .iter()
                .filter(|entry| entry.applies.tenant.is_none());
            let list = lists.filter(valid_of(interval.start)).next().copied();
            match pieces.last_mut() {
                Some(last) if same(last.price, price) && same(last.list, list) => {
                    last.interval.end = interval.end;
                }
                _ => pieces.push(Piece {
                    interval,
                    price,
                    list,
                }),
            }
        }
        pieces
    }
}

fn applies_at(entry: &PriceEntry, at: Nanoseconds) -> bool {
    entry.valid.contains(at) && entry.window.is_none_or(|window| window.contains(at))
}

fn valid_of(at: Nanoseconds) -> impl Fn(&&&PriceEntry) -> bool {
    move |entry| applies_at(entry, at)
}

fn same(one: Option<&PriceEntry>, other: Option<&PriceEntry>) -> bool {
    one.map(|entry| &entry.id) == other.map(|entry| &entry.id)
}
