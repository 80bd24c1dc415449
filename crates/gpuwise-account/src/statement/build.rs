//! From series and prices to lines.

use super::{Cause, Item, Line, PriceName, Unpriced};
use crate::{
    money::amount,
    period::Interval,
    prices::{Asked, Metered, Piece, PriceBook, PriceEntry},
    usage::{Amounts, Granted, Quantity, Series, Share, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Fraction, Nanoseconds};
use std::collections::{BTreeMap, BTreeSet};

/// What lines are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'b> {
    lease: &'b str,
    metered: Metered,
    kind: &'b str,
    granted: &'b Granted,
    isolation: Sharing,
    class: Terms,
    price: Option<&'b str>,
    list: Option<&'b str>,
}

/// What a line grows from.
struct Grown<'b> {
    price: Option<&'b PriceEntry>,
    list: Option<&'b PriceEntry>,
    interval: Interval,
    devices: BTreeSet<&'b str>,
    granted_ns: u64,
    added_ns: u64,
    /// In the base unit of what is metered, before the part's share.
    quantity: u128,
    used: Amounts,
}

type Lines<'b> = BTreeMap<Key<'b>, Grown<'b>>;
/// Pieces by what they were asked for: leases of a kind share them.
type Known<'b> = BTreeMap<(Asked<'b>, Metered), Vec<Piece<'b>>>;

/// What series come to over a time, in lines of usage.
pub(crate) fn lines<'b>(
    prices: &'b PriceBook,
    of: impl Iterator<Item = &'b Series>,
    within: Interval,
) -> Vec<Line> {
    let mut lines = Lines::new();
    let mut known = Known::new();
    for series in of.filter(|series| series.is_in(within)) {
        // What has no price anywhere need not be looked for, unless it is all that there is.
        let asked = |metered: &Metered| {
            let alone = series.granted == Granted::Nothing || *metered == Metered::GpuTime;
            alone || prices.has(*metered)
        };
        for metered in Metered::ALL.into_iter().filter(asked) {
            let pieces = known
                .entry((series.into(), metered))
                .or_insert_with(|| prices.pieces(&series.into(), metered, within));
            match metered {
                Metered::GpuTime => time(series, pieces, within, &mut lines),
                _ => amounts(series, metered, pieces, within, &mut lines),
            }
        }
    }
    lines
        .into_iter()
        .map(|(key, grown)| line(&key, &grown))
        .collect()
}

fn grow<'b, 'l>(
    lines: &'l mut Lines<'b>,
    series: &'b Series,
    metered: Metered,
    piece: &Piece<'b>,
    interval: Interval,
) -> &'l mut Grown<'b> {
    let key = Key {
        lease: &series.lease,
        metered,
        kind: &series.kind,
        granted: &series.granted,
        isolation: series.isolation,
        class: series.class,
        price: piece.price.map(|entry| entry.id.as_str()),
        list: piece.list.map(|entry| entry.id.as_str()),
    };
    let grown = lines.entry(key).or_insert_with(|| Grown {
        price: piece.price,
        list: piece.list,
        interval,
        devices: BTreeSet::new(),
        granted_ns: 0,
        added_ns: 0,
        quantity: 0,
        used: Amounts::default(),
    });
    grown.interval.start = grown.interval.start.min(interval.start);
    grown.interval.end = grown.interval.end.max(interval.end);
    grown.devices.insert(&series.device);
    grown
}

/// Granted time: exact, from the intervals themselves.
fn time<'b>(series: &'b Series, pieces: &[Piece<'b>], within: Interval, lines: &mut Lines<'b>) {
    for piece in pieces {
        let used = used_within(series, piece.interval);
        let mut held = series
            .spans
            .touching(piece.interval)
            .map(|span| span.within(piece.interval));
        let Some(first) = held.next() else {
            continue;
        };
        let (mut whole, mut length) = (first, first.length());
        for span in held {
            whole.end = span.end;
            length += span.length();
        }
        let grown = grow(lines, series, Metered::GpuTime, piece, whole);
        grown.granted_ns += length;
        grown.quantity += u128::from(length);
        grown.used = grown.used.plus(&used).unwrap_or(grown.used);
    }
    for span in series.spans.touching(within) {
        // It goes on past the month: the month in which it ends has what is added.
        if span.end > within.end {
            continue;
        }
        let last = Nanoseconds(span.end.0 - 1);
        let piece = pieces.iter().find(|piece| piece.interval.contains(last));
        let Some((piece, entry)) = piece.and_then(|piece| Some((piece, piece.price?))) else {
            continue;
        };
        let added = entry.added(span.length());
        if added > 0 {
            let grown = grow(
                lines,
                series,
                Metered::GpuTime,
                piece,
                span.within(piece.interval),
            );
            grown.added_ns += added;
            grown.quantity += u128::from(added);
        }
    }
}

fn used_within(series: &Series, interval: Interval) -> Amounts {
    let cells = series.cells(interval).iter();
    cells.fold(Amounts::default(), |sum, cell| {
        sum.plus(&cell.used).unwrap_or(sum)
    })
}

/// Tokens and energy, where they have a price, and where there is nothing else to charge.
fn amounts<'b>(
    series: &'b Series,
    metered: Metered,
    pieces: &[Piece<'b>],
    within: Interval,
    lines: &mut Lines<'b>,
) {
    let alone = series.granted == Granted::Nothing && metered != Metered::Energy;
    for piece in pieces {
        if piece.price.is_none() && !alone {
            continue;
        }
        let used = used_within(series, piece.interval);
        let Some(amount) = used.get(counted(metered)) else {
            continue;
        };
        let cells = series.cells(piece.interval);
        let Some((first, last)) = cells.first().zip(cells.last()) else {
            continue;
        };
        let end = Nanoseconds(last.start.0.saturating_add(crate::period::HOUR));
        let interval = Interval::new(first.start, end.min(piece.interval.end)).within(within);
        let grown = grow(lines, series, metered, piece, interval);
        grown.quantity += u128::from(amount);
        // What a lease used of GPUs stands beside what it was granted of them, once.
        if series.granted == Granted::Nothing {
            let used = used.only(counted(metered));
            grown.used = grown.used.plus(&used).unwrap_or(grown.used);
        }
    }
}

const fn counted(metered: Metered) -> Quantity {
    match metered {
        Metered::GpuTime => Quantity::SmTime,
        Metered::TokensIn => Quantity::TokensIn,
        Metered::TokensOut => Quantity::TokensOut,
        Metered::Energy => Quantity::Energy,
    }
}

fn line(key: &Key<'_>, grown: &Grown<'_>) -> Line {
    let share = |entry: &PriceEntry| entry.share(key.granted);
    let charged = |entry: &PriceEntry| {
        let share = share(entry);
        let quantity = i128::try_from(grown.quantity).ok()?;
        amount(
            entry.amount,
            quantity.checked_mul(i128::from(share.part))?,
            i128::from(entry.per) * i128::from(share.of),
        )
    };
    let charge = match grown.price {
        None => Err(Unpriced::NoPrice),
        Some(entry) => charged(entry).ok_or(Unpriced::TooLarge),
    };
    let of = grown.price.map_or(Share { part: 1, of: 1 }, share);
    let quantity = i128::try_from(grown.quantity).ok().and_then(|quantity| {
        Fraction::new(
            quantity.checked_mul(i128::from(of.part))?,
            i128::from(key.metered.unit()) * i128::from(of.of),
        )
    });
    Line {
        cause: Cause::Usage,
        interval: grown.interval,
        item: Some(Item {
            lease: key.lease.into(),
            kind: key.kind.into(),
            granted: key.granted.clone(),
            isolation: key.isolation,
            class: key.class,
            metered: key.metered,
            devices: grown.devices.len() as u32,
            price: grown.price.map(|entry| name(entry, key.metered)),
            list: grown.list.map(|entry| name(entry, key.metered)),
            granted_ns: grown.granted_ns,
            added_ns: grown.added_ns,
            quantity: quantity.unwrap_or(Fraction::ZERO),
            used: grown.used,
            lent_milli: None,
        }),
        charge,
        list: grown.list.and_then(charged),
    }
}

pub(super) fn name(entry: &PriceEntry, metered: Metered) -> PriceName {
    let unit_price = Fraction::new(
        i128::from(entry.amount.micros) * i128::from(metered.unit()),
        i128::from(entry.per) * 1_000_000,
    );
    PriceName {
        id: entry.id.clone(),
        sku: entry.sku.clone(),
        unit_price: unit_price.unwrap_or(Fraction::ZERO),
        currency: entry.amount.currency,
    }
}
