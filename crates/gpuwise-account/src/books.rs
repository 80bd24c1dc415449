//! Meter and prices together, so that the meter's grid follows the prices.

use crate::{
    prices::PriceBook,
    usage::{Limits, Meter, Outcome, UsageRecord},
};
use gpuwise_units::Nanoseconds;

/// What was used and what it costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Books {
    meter: Meter,
    prices: PriceBook,
}

impl Books {
    pub fn new(limits: Limits) -> Self {
        Self {
            meter: Meter::new(limits),
            prices: PriceBook::default(),
        }
    }

    /// Takes a usage record: see [`Meter::record`].
    pub fn record(&mut self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        self.meter.record(now, record)
    }

    /// From now on these prices hold, for the past too. A price change within an hour that was metered
    /// already divides what was used in that hour by the time that was held on each side; granted time is
    /// always exact.
    pub fn set_prices(&mut self, prices: PriceBook) {
        self.meter.regrid(&prices.grid());
        self.prices = prices;
    }

    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    pub const fn meter_mut(&mut self) -> &mut Meter {
        &mut self.meter
    }

    pub const fn prices(&self) -> &PriceBook {
        &self.prices
    }
}
