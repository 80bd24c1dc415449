//! Records and prices, short.

use gpuwise_account::{
    period::{HOUR, Interval, Month},
    prices::{Applies, Basis, Metered, PriceEntry},
    usage::{Granted, Outcome, Principal, Sharing, UsageRecord, Used},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Money, Nanoseconds};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A moment of November 2026: its day (from 1) and seconds after midnight.
pub(crate) fn at(day: u64, seconds: u64) -> Nanoseconds {
    let month: Month = "2026-11".parse().unwrap();
    Nanoseconds(month.start().0 + (day - 1) * 24 * HOUR + seconds * SECOND)
}

pub(crate) fn usd(text: &str) -> Money {
    format!("{text}USD").parse().unwrap()
}

/// A whole H100 of the tenant `vision`.
pub(crate) fn record(id: &str, start: Nanoseconds, end: Nanoseconds) -> UsageRecord {
    UsageRecord {
        principal: Principal::Client("node".into()),
        source: "node-1".into(),
        id: id.into(),
        sequence: 0,
        tenant: "vision".into(),
        lease: "L-1".into(),
        device: "GPU-0".into(),
        part: 0,
        kind: "H100".into(),
        granted: Granted::Whole,
        isolation: Sharing::Exclusive,
        class: Terms::OnDemand,
        start,
        end,
        used: Used::default(),
    }
}

/// So much for an hour of an H100, for ever.
pub(crate) fn price(id: &str, amount: &str) -> PriceEntry {
    PriceEntry {
        id: id.into(),
        sku: "gpu-h100".into(),
        metered: Metered::GpuTime,
        basis: Basis::Compute,
        applies: Applies {
            kind: Some("H100".into()),
            ..Applies::default()
        },
        valid: Interval::since(Nanoseconds(0)),
        window: None,
        amount: usd(amount),
        per: HOUR,
        minimum_ns: 0,
        granularity_ns: 0,
        lent_milli: 500,
    }
}

/// A record was taken, now or before: none is aside.
#[track_caller]
pub(crate) fn taken(outcome: Outcome) {
    assert!(!matches!(outcome, Outcome::Aside(_)), "{outcome:?}");
}
