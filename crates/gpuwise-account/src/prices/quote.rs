//! What something would cost at most.

use super::{Asked, Metered, PriceBook, PriceEntry};
use crate::{
    budget::Expected,
    period::{Interval, Month},
    statement::Unpriced,
    usage::{Granted, Share},
};
use gpuwise_units::Money;

impl PriceBook {
    /// What holding a part of a device over an interval costs at most, by month and price: each amount is
    /// rounded up, so that no statement is above it. Minimum and steps of the price count.
    ///
    /// # Errors
    /// Where some of the time has no price, or an amount is too large to be kept.
    pub fn quote(&self, asked: &Asked<'_>, within: Interval) -> Result<Vec<Expected>, Unpriced> {
        self.quoted(asked, within).collect()
    }

    fn quoted(
        &self,
        asked: &Asked<'_>,
        within: Interval,
    ) -> impl Iterator<Item = Result<Expected, Unpriced>> {
        let mut expected = Vec::new();
        let mut start = within.start;
        while start < within.end {
            let part = within.within(Month::of(start).interval());
            for piece in self.pieces(asked, Metered::GpuTime, part) {
                let quoted = piece.price.ok_or(Unpriced::NoPrice).and_then(|entry| {
                    let ends = piece.interval.end == within.end;
                    let added = if ends {
                        entry.added(within.length())
                    } else {
                        0
                    };
                    let length = u128::from(piece.interval.length()) + u128::from(added);
                    Ok(Expected {
                        interval: piece.interval,
                        amount: at_most(entry, asked, length)?,
                    })
                });
                expected.push(quoted);
            }
            start = part.end;
        }
        expected.into_iter()
    }

    /// What of a holding has a price, by month and price, each amount rounded up: what a budget counts as
    /// spent. Time without a price is left out.
    pub fn priced(&self, asked: &Asked<'_>, within: Interval) -> Vec<Expected> {
        self.quoted(asked, within).filter_map(Result::ok).collect()
    }
}

impl PriceEntry {
    /// The part of a GPU that an hour of this is charged as.
    pub(crate) fn share(&self, granted: &Granted) -> Share {
        match self.metered {
            Metered::GpuTime => self.basis.share(granted),
            _ => Share { part: 1, of: 1 },
        }
    }

    /// What minimum and steps add to a holding, in nanoseconds.
    pub(crate) fn added(&self, length: u64) -> u64 {
        let step = self.granularity_ns.max(1);
        let steps = length.max(self.minimum_ns).div_ceil(step);
        steps.saturating_mul(step).saturating_sub(length)
    }
}

fn at_most(entry: &PriceEntry, asked: &Asked<'_>, quantity: u128) -> Result<Money, Unpriced> {
    let share = entry.share(asked.granted);
    let rounded_up = || -> Option<i64> {
        let quantity = i128::try_from(quantity).ok()?;
        let product = quantity
            .checked_mul(i128::from(share.part))?
            .checked_mul(i128::from(entry.amount.micros))?;
        let denominator = i128::from(entry.per) * i128::from(share.of);
        let up = product / denominator + i128::from(product % denominator > 0);
        i64::try_from(up).ok()
    };
    Ok(Money {
        micros: rounded_up().ok_or(Unpriced::TooLarge)?,
        currency: entry.amount.currency,
    })
}
