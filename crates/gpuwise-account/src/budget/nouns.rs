//! What budgets are asked and what they answer.

use crate::{
    money::exact,
    period::{Every, Interval},
};
use gpuwise_units::{Currency, Money};

/// What a tenant may spend in each period.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    pub id: String,
    pub tenant: String,
    pub amount: Money,
    pub every: Every,
    /// Thousandths of the amount from which on it is warned; `None`: never.
    pub soft_milli: Option<u32>,
    /// Whether what would go beyond it is refused; else it is only told.
    pub hard: bool,
}

/// What something costs at most, or did cost, over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Expected {
    pub interval: Interval,
    pub amount: Money,
}

/// Why nothing is reserved. Trying again without a change is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(
        "budget `{budget}` has {} left of {} and this needs up to {}: {} too little",
        exact(*.left), exact(*.amount), exact(*.needed), exact(*.short)
    )]
    Exceeded {
        budget: String,
        period: Interval,
        amount: Money,
        /// What is neither spent nor reserved; below 0 where more was spent than there was.
        left: Money,
        needed: Money,
        short: Money,
    },
    #[error(
        "tenant `{tenant}` has no budget in {currency}, in which this may be priced: ask for a GPU that is priced in the currency of its budget, or price this one so"
    )]
    OtherCurrency { tenant: String, currency: Currency },
    #[error("reservation `{0}` is made already")]
    Twice(String),
}

gpuwise_units::named! {
    /// Which line of a budget was crossed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Crossed:
        name
    {
        /// Spent and reserved are above the threshold of warning.
        Soft = "soft",
        /// Spent is above the amount: what runs is drained.
        Hard = "hard",
    }
}

/// That a line was crossed just now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Warning {
    pub budget: String,
    pub period: Interval,
    pub crossed: Crossed,
    pub spent: Money,
    pub reserved: Money,
    pub amount: Money,
}

/// A budget's period as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    pub period: Interval,
    pub spent: Money,
    pub reserved: Money,
    /// Below 0 where more was spent than there was.
    pub left: Money,
}
