//! A month with all that there is.

use crate::support::{SECOND, at, price, record, taken, usd};
use gpuwise_account::{
    books::Books,
    lent::Loan,
    period::{Interval, Month},
    prices::{Metered, PriceBook},
    statement::{SharedBy, SharedCost},
    usage::{Granted, Limits, Sharing, Used},
};
use gpuwise_domain::offer::Terms;

pub(crate) fn month() -> Month {
    "2026-12".parse().unwrap()
}

fn lent() -> Loan {
    Loan {
        tenant: "vision".into(),
        lease: "L-3".into(),
        borrower: "batch".into(),
        device: "GPU-2".into(),
        kind: "H100".into(),
        granted: Granted::Whole,
        isolation: Sharing::Exclusive,
        class: Terms::Spot,
    }
}

/// An agreed price, slices, spot, tokens, energy, what has no price, what was lent, a shared cost and corrections.
pub(crate) fn everything() -> Books {
    let mut books = Books::new(Limits::default());
    let mut agreed = price("h100-agreed", "1.95");
    agreed.applies.tenant = Some("vision".into());
    agreed.valid.start = at(30 + 9, 1801);
    let mut spot = price("h100-spot", "0.70");
    spot.applies.class = Some(Terms::Spot);
    spot.granularity_ns = 60 * SECOND;
    let mut tokens = price("tokens-out", "0.60");
    (tokens.metered, tokens.per) = (Metered::TokensOut, 1_000_000);
    (tokens.sku, tokens.applies.kind) = ("llama-3.1-8b-out".into(), Some("llama-3.1-8b".into()));
    books.set_prices(PriceBook::new(vec![price("h100", "2.49"), agreed, spot, tokens]).unwrap());
    let now = at(30 + 30, 0);
    taken(books.record(at(30, 0), &record("n-1", at(1, 0), at(1, 3601))));
    books.close("2026-11".parse().unwrap());
    taken(books.record(now, &record("n-2", at(1, 7200), at(1, 7777))));
    let day = |day: u64, second| at(30 + day, second);
    for (from, to) in [(at(2, 0), at(2, 901)), (day(5, 0), day(5, 5000))] {
        books.lend(lent(), Interval::new(from, to));
    }
    let mut held = record("d-1", day(9, 1), day(9, 7200));
    held.used = Used {
        sm_ns: Some(3_000_000_000_000),
        byte_seconds: Some(400_000_000_000_000),
        energy_mj: Some(3_960_000_000),
        ..Used::default()
    };
    taken(books.record(now, &held));
    let mut slice = record("d-2", day(3, 0), day(3, 1000));
    (slice.lease, slice.device) = ("L-2".into(), "GPU-1".into());
    (slice.class, slice.isolation) = (Terms::Spot, Sharing::Mig);
    slice.granted = Granted::Slice {
        profile: "1g.20gb".into(),
        compute: 1,
        of_compute: 7,
        memory: 2,
        of_memory: 8,
    };
    taken(books.record(now, &slice));
    let mut served = record("d-3", day(4, 0), day(4, 60));
    (served.lease, served.device) = ("service".into(), String::new());
    (served.kind, served.granted) = ("llama-3.1-8b".into(), Granted::Nothing);
    served.used = Used {
        tokens_in: Some(1000),
        tokens_out: Some(1_234_567),
        ..Used::default()
    };
    taken(books.record(now, &served));
    let cost = SharedCost {
        name: "network".into(),
        cost: usd("12.34"),
        by: SharedBy::Granted,
    };
    books.share(month(), cost);
    books
}
