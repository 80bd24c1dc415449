//! Prices as answers give them.

use alloc::string::{String, ToString};
use gpuwise_units::{Currency, HourlyPrice, Money};

/// Hours that a month is billed for: a twelfth of 8,760.
pub const HOURS_A_MONTH: f64 = 730.0;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Per:
        name
    {
        Hour = "hour",
        Month = "month",
        Year = "year",
        MillionTokens = "million tokens",
        /// A picture, an hour of audio, a thousand texts: what an answer counts.
        Unit = "unit",
        /// All of it: a run, a purchase, a horizon.
        All = "all",
    }
}

/// An amount of a currency, what it is for, and of which day.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Units of the currency.
    pub amount: f64,
    pub currency: Currency,
    pub per: Per,
    /// Day of the price list; `None` where it does not say one, or there is none.
    pub priced_at: Option<String>,
}

impl Price {
    pub const fn new(amount: f64, currency: Currency, per: Per) -> Self {
        Self {
            amount,
            currency,
            per,
            priced_at: None,
        }
    }

    pub fn of(money: Money, per: Per) -> Self {
        Self::new(money.as_f64(), money.currency, per)
    }

    pub fn hourly(price: HourlyPrice) -> Self {
        Self::of(price.0, Per::Hour)
    }

    /// What it comes to in a month of 730 hours.
    pub fn monthly(price: HourlyPrice) -> Self {
        let Money { currency, .. } = price.0;
        Self::new(price.0.as_f64() * HOURS_A_MONTH, currency, Per::Month)
    }

    #[must_use]
    pub fn as_of(mut self, day: Option<&str>) -> Self {
        self.priced_at = day.map(ToString::to_string);
        self
    }
}
