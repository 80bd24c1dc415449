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
        let at_moment = |at: Nanoseconds, listed: bool| {
            let mut candidates = candidates.iter().copied();
            candidates
                .find(|entry| (!listed || entry.applies.tenant.is_none()) && applies_at(entry, at))
        };
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for pair in Self::moments(&candidates, within).windows(2) {
            let piece = Piece {
                interval: Interval::new(pair[0], pair[1]),
                price: at_moment(pair[0], false),
                list: at_moment(pair[0], true),
            };
            match pieces.last_mut() {
                Some(before)
                    if same(before.price, piece.price) && same(before.list, piece.list) =>
                {
                    before.interval.end = piece.interval.end;
                }
                _ => pieces.push(piece),
            }
        }
        pieces
    }
}

fn applies_at(entry: &PriceEntry, at: Nanoseconds) -> bool {
    entry.valid.contains(at) && entry.window.is_none_or(|window| window.contains(at))
}

fn same(one: Option<&PriceEntry>, other: Option<&PriceEntry>) -> bool {
    one.map(|entry| &entry.id) == other.map(|entry| &entry.id)
}
