//! What owning, renting or both costs over years: assumptions, the sheet of lines that the figures
//! are computed on, and what comes out. Data only; money is exact.

mod keys;
mod sheet;

pub use keys::{CostKey, CostUnit};
pub use sheet::{Formula, RowOrigin, Sheet, SheetCell, SheetRow};

use alloc::{string::String, vec::Vec};
use gpuwise_units::{Currency, Fraction, Money};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    pub year: i32,
    /// From 1 to 12.
    pub month: u8,
}

impl Month {
    /// From `2026-07`; a day that follows is left out. `None` where the text begins with no month.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.trim().splitn(3, '-');
        let year = parts.next().filter(|year| year.len() == 4)?.parse().ok()?;
        let month = parts.next()?.get(..2)?.parse().ok()?;
        (1..=12).contains(&month).then_some(Self { year, month })
    }

    /// So many months later; earlier where negative.
    #[must_use]
    pub fn after(self, months: i64) -> Self {
        let count = i64::from(self.year) * 12 + i64::from(self.month) - 1 + months;
        Self {
            year: count.div_euclid(12) as i32,
            month: (count.rem_euclid(12) + 1) as u8,
        }
    }

    /// Months from another one to this one.
    pub fn since(self, other: Self) -> i64 {
        let count = |month: Self| i64::from(month.year) * 12 + i64::from(month.month);
        count(self) - count(other)
    }
}

impl core::fmt::Display for Month {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// One assumption with its range and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostInput {
    pub key: CostKey,
    pub low: Fraction,
    pub value: Fraction,
    pub high: Fraction,
    /// The day or month it is of; empty where it has none.
    pub date: String,
    pub source: String,
}

/// A row of assumptions as a file states it: also whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostRow {
    pub input: CostInput,
    /// Its currency, where it is money.
    pub currency: Option<Currency>,
    /// Catalogue name of the GPU whose host this is; `None` for any.
    pub gpu: Option<String>,
    /// GPUs of the host that the figure is of; above 1, it is taken by the GPU.
    pub gpus: u32,
    /// Months after its date in which it is taken as it is.
    pub valid_months: Option<u32>,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Strategy: name, key {
        /// Rented on demand, all hours.
        OnDemand = "on demand, all hours", "on_demand",
        /// Rented on demand, as many as the load of the hour needs.
        Following = "on demand, following the load", "following",
        Reserved = "reserved", "reserved",
        /// Spot capacity, all hours.
        Spot = "spot", "spot",
        /// Bought as the load grows, by the calendar.
        Owned = "owned, bought as it grows", "owned",
        /// Bought at once for the whole horizon.
        OwnedAtOnce = "owned, all bought now", "owned_at_once",
        /// Base load owned, peaks rented on demand.
        Hybrid = "base owned, peaks rented", "hybrid",
    }
}

impl Strategy {
    /// Whether hosts are bought.
    pub const fn buys(self) -> bool {
        matches!(self, Self::Owned | Self::OwnedAtOnce | Self::Hybrid)
    }

    /// Whether its cost is one that no service reaches: rented hosts start and stop instantly.
    pub const fn is_bound(self) -> bool {
        matches!(self, Self::Following | Self::Hybrid)
    }
}

/// An amount with its 80 % range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub value: Money,
    pub low: Money,
    pub high: Money,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StrategyBill {
    pub strategy: Strategy,
    /// What it costs, or why that is not known.
    pub outcome: Result<Costs, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Everything that is paid within the horizon, less what hosts are still worth at its end.
    pub total: Amount,
    /// The same, each payment discounted to the first month.
    pub discounted: Amount,
    /// Discounted, per unit that is served, in the order of [`Bill::units`].
    pub per_unit: Vec<Amount>,
}

/// A unit that money is spread over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedUnit {
    /// `10⁶ output tokens`, `image`.
    pub name: String,
    /// How many of them one unit of load comes to in a month at full load.
    pub per_load_month: Fraction,
    pub share: UnitShare,
}

/// Which part of a bill a unit sustains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitShare {
    All,
    Prompts,
    Answers,
}

/// A figure between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    pub value: Fraction,
    pub low: Fraction,
    /// The upper end.
    pub high: Fraction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarMonth {
    pub month: Month,
    /// The load at its peak, in units of load.
    pub load: Fraction,
    /// Hosts that sustain it.
    pub needed: i64,
    /// Hosts that are bought by the calendar and in service.
    pub owned: i64,
    /// Hosts that arrive for growth.
    pub arriving: i64,
    /// Hosts that replace those at the end of their life.
    pub replaced: i64,
    /// Hosts that are short, and rented meanwhile.
    pub short: i64,
    /// Hosts to own where peaks are rented; `None` where that cannot be told.
    pub base: Option<i64>,
}

/// By how much an assumption moves a total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensitivity {
    pub input: CostInput,
    /// The discounted total with it at its lower end.
    pub at_low: Money,
    /// The discounted total with it at its upper end.
    pub at_high: Money,
}

/// Energy and emissions over the horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// kWh of hosts in service, the facility included.
    pub kwh: Band,
    /// Kilograms of CO2-equivalent, where the grid's factor is given.
    pub carbon_kg: Option<Band>,
}

/// What hosts cost over a horizon, in every way to have them.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// What is billed, in words.
    pub subject: String,
    pub currency: Currency,
    /// The first month.
    pub start: Month,
    pub horizon: u32,
    pub load_unit: String,
    pub hosts_now: i64,
    pub gpus_per_host: Fraction,
    pub strategies: Vec<StrategyBill>,
    pub units: Vec<ServedUnit>,
    /// An owned GPU's hour, used all hours that it can be; `None` where it is not known.
    pub owned_gpu_hour: Option<Amount>,
    /// From which share of hours on owning a host is cheaper than renting it for those hours.
    pub break_even: Option<Band>,
    /// The cheaper way to buy all hosts less the cheaper way to rent them for all hours, discounted:
    /// above 0 renting is cheaper.
    pub owning_less_renting: Option<Amount>,
    pub calendar: Vec<CalendarMonth>,
    /// The first month whose load today's hosts do not sustain; `None`: they sustain all.
    pub breaks: Option<Month>,
    /// Months from order to service.
    pub lead: u32,
    /// For which strategy `sensitivities` are.
    pub cheapest: Option<Strategy>,
    /// Which assumption moves the cheapest total most, most first.
    pub sensitivities: Vec<Sensitivity>,
    /// Energy, where power is known.
    pub footprint: Option<Footprint>,
    /// What was assumed, extrapolated or left out, in sentences.
    pub notes: Vec<String>,
    /// The lines that it was computed on.
    pub sheet: Sheet,
}
