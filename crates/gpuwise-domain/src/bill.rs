//! What owning, renting or both costs over years: assumptions, the sheet of lines that the figures
//! are computed on, and what comes out. Data only; money is exact.

use alloc::{boxed::Box, string::String, vec::Vec};
use gpuwise_units::{Currency, Fraction, Money};

/// A calendar month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    /// The year.
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

/// What a bill is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostKey {
    /// Price of a host on demand, an hour.
    OnDemand,
    /// Price of a host reserved, an hour.
    Reserved,
    /// Price of a host as spot capacity, an hour.
    Spot,
    /// Host-hours bought over those that were useful, less one, because spot capacity is taken away.
    Interruption,
    /// Mean price of renting over the horizon, over today's.
    RentFactor,
    /// Price of a host.
    Capital,
    /// Network and storage, as a share of the host's price.
    Network,
    /// Spare hosts, as a share of hosts in service.
    Spares,
    /// Years that a host is used.
    Life,
    /// What is got for a host at the end of its life, as a share of what was paid.
    Residual,
    /// Cost of capital a year, compounded monthly.
    Rate,
    /// Mean power of a host, kW.
    Power,
    /// Largest power of a host, for which space is rented, kW.
    PeakPower,
    /// Power of the facility over that of its machines.
    Pue,
    /// Price of a kWh.
    Energy,
    /// Price of space in a data centre, a kW and month.
    Space,
    /// People, a host and year.
    Staff,
    /// Support and repair a year, as a share of the host's price.
    Support,
    /// Share of hours in which an owned host can be used.
    Availability,
    /// Mean load over the load that hosts are bought for.
    Duty,
    /// What one host bears, in units of load.
    Capacity,
    /// Growth of the load a month.
    Growth,
    /// Months from order to service.
    Lead,
    /// Months between orders.
    Review,
    /// Standard deviations of the forecast that are bought on top.
    Safety,
    /// Standard deviation of the forecast, as a share of it.
    Spread,
    /// Share of hours that prompts take.
    InputShare,
    /// Grams of CO2-equivalent of a kWh.
    Grid,
    /// Mean power of a host over its largest; stands in where its power is not known.
    PowerShare,
    /// Power of a host beside each of its GPUs, kW; what is added to the GPUs' own.
    HostPower,
}

impl CostKey {
    /// All of them.
    pub const ALL: [Self; 30] = [
        Self::OnDemand,
        Self::Reserved,
        Self::Spot,
        Self::Interruption,
        Self::RentFactor,
        Self::Capital,
        Self::Network,
        Self::Spares,
        Self::Life,
        Self::Residual,
        Self::Rate,
        Self::Power,
        Self::PeakPower,
        Self::Pue,
        Self::Energy,
        Self::Space,
        Self::Staff,
        Self::Support,
        Self::Availability,
        Self::Duty,
        Self::Capacity,
        Self::Growth,
        Self::Lead,
        Self::Review,
        Self::Safety,
        Self::Spread,
        Self::InputShare,
        Self::Grid,
        Self::PowerShare,
        Self::HostPower,
    ];

    /// Its name in files and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on_demand",
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::Interruption => "interruption",
            Self::RentFactor => "rent_factor",
            Self::Capital => "capital",
            Self::Network => "network",
            Self::Spares => "spares",
            Self::Life => "life",
            Self::Residual => "residual",
            Self::Rate => "rate",
            Self::Power => "power",
            Self::PeakPower => "peak_power",
            Self::Pue => "pue",
            Self::Energy => "energy",
            Self::Space => "space",
            Self::Staff => "staff",
            Self::Support => "support",
            Self::Availability => "availability",
            Self::Duty => "duty",
            Self::Capacity => "capacity",
            Self::Growth => "growth",
            Self::Lead => "lead",
            Self::Review => "review",
            Self::Safety => "safety",
            Self::Spread => "spread",
            Self::InputShare => "input_share",
            Self::Grid => "grid",
            Self::PowerShare => "power_share",
            Self::HostPower => "host_power",
        }
    }

    /// What it is, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::OnDemand => "price on demand",
            Self::Reserved => "price reserved",
            Self::Spot => "price as spot",
            Self::Interruption => "hours lost to interruption",
            Self::RentFactor => "rent over the horizon, over today's",
            Self::Capital => "price of a host",
            Self::Network => "network and storage",
            Self::Spares => "spare hosts",
            Self::Life => "life of a host",
            Self::Residual => "residual value",
            Self::Rate => "cost of capital",
            Self::Power => "mean power of a host",
            Self::PeakPower => "largest power of a host",
            Self::Pue => "PUE",
            Self::Energy => "price of energy",
            Self::Space => "space",
            Self::Staff => "people",
            Self::Support => "support and repair",
            Self::Availability => "availability of a host",
            Self::Duty => "mean load over peak load",
            Self::Capacity => "load that a host bears",
            Self::Growth => "growth",
            Self::Lead => "lead time",
            Self::Review => "time between orders",
            Self::Safety => "standard deviations bought on top",
            Self::Spread => "standard deviation of the forecast",
            Self::InputShare => "share of hours that prompts take",
            Self::Grid => "CO2-equivalent of the grid",
            Self::PowerShare => "mean over largest power of a host",
            Self::HostPower => "power of a host beside each GPU",
        }
    }

    /// In what it is counted.
    pub const fn unit(self) -> CostUnit {
        match self {
            Self::OnDemand | Self::Reserved | Self::Spot => CostUnit::Money("host-hour"),
            Self::Capital => CostUnit::Money("host"),
            Self::Energy => CostUnit::Money("kWh"),
            Self::Space => CostUnit::Money("kW and month"),
            Self::Staff => CostUnit::Money("host and year"),
            Self::Interruption
            | Self::Network
            | Self::Spares
            | Self::Residual
            | Self::Availability
            | Self::Duty
            | Self::Spread
            | Self::InputShare
            | Self::PowerShare => CostUnit::Share,
            Self::Rate | Self::Support => CostUnit::ShareOf("year"),
            Self::Growth => CostUnit::ShareOf("month"),
            Self::Life => CostUnit::Plain("years"),
            Self::Lead | Self::Review => CostUnit::Plain("months"),
            Self::Power | Self::PeakPower | Self::HostPower => CostUnit::Plain("kW"),
            Self::Grid => CostUnit::Plain("g/kWh"),
            Self::Capacity => CostUnit::Plain("load"),
            Self::RentFactor | Self::Pue | Self::Safety => CostUnit::Plain(""),
        }
    }
}

/// In what an assumption is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostUnit {
    /// Money of the bill's currency, per this.
    Money(&'static str),
    /// A share: 0.2 is 20 %.
    Share,
    /// A share per this time.
    ShareOf(&'static str),
    /// A plain number of this.
    Plain(&'static str),
}

/// One assumption with its range and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostInput {
    /// Which.
    pub key: CostKey,
    /// The lower end.
    pub low: Fraction,
    /// The central figure.
    pub value: Fraction,
    /// The upper end.
    pub high: Fraction,
    /// The day or month it is of; empty where it has none.
    pub date: String,
    /// Where it comes from.
    pub source: String,
}

/// A row of assumptions as a file states it: also whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostRow {
    /// The assumption.
    pub input: CostInput,
    /// Its currency, where it is money.
    pub currency: Option<Currency>,
    /// Catalogue name of the GPU whose host this is; `None` for any.
    pub gpu: Option<String>,
    /// GPUs that the figure is for, where it is of a host.
    pub gpus: u32,
    /// Months after its date in which it is taken as it is.
    pub valid_months: Option<u32>,
}

/// Ways to have hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Rented on demand, all hours.
    OnDemand,
    /// Rented on demand, as many as the load of the hour needs.
    Following,
    /// Reserved, all hours.
    Reserved,
    /// Spot capacity, all hours.
    Spot,
    /// Bought as the load grows, by the calendar.
    Owned,
    /// Bought at once for the whole horizon.
    OwnedAtOnce,
    /// Base load owned, peaks rented on demand.
    Hybrid,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OnDemand,
        Self::Following,
        Self::Reserved,
        Self::Spot,
        Self::Owned,
        Self::OwnedAtOnce,
        Self::Hybrid,
    ];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on demand, all hours",
            Self::Following => "on demand, following the load",
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::Owned => "owned, bought as it grows",
            Self::OwnedAtOnce => "owned, all bought now",
            Self::Hybrid => "base owned, peaks rented",
        }
    }

    /// For programs.
    pub const fn key(self) -> &'static str {
        match self {
            Self::OnDemand => "on_demand",
            Self::Following => "following",
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::Owned => "owned",
            Self::OwnedAtOnce => "owned_at_once",
            Self::Hybrid => "hybrid",
        }
    }

    /// Whether hosts are bought.
    pub const fn buys(self) -> bool {
        matches!(self, Self::Owned | Self::OwnedAtOnce | Self::Hybrid)
    }
}

/// An amount with its 80 % range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// The central figure.
    pub value: Money,
    /// The lower end.
    pub low: Money,
    /// The upper end.
    pub high: Money,
}

/// What a strategy comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategyBill {
    /// Which.
    pub strategy: Strategy,
    /// What it costs, or why that is not known.
    pub outcome: Result<Costs, String>,
}

/// What a strategy costs.
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
    /// Which part of the bill is its.
    pub share: UnitShare,
}

/// Which part of a bill a unit bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitShare {
    /// All of it.
    All,
    /// That of prompts.
    Prompts,
    /// That of answers.
    Answers,
}

/// A figure between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The central figure.
    pub value: Fraction,
    /// The lower end.
    pub low: Fraction,
    /// The upper end.
    pub high: Fraction,
}

/// A month of the purchase calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarMonth {
    /// Which.
    pub month: Month,
    /// The load at its peak, in units of load.
    pub load: Fraction,
    /// Hosts that bear it.
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
    /// Which.
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
    /// The currency of all amounts.
    pub currency: Currency,
    /// The first month.
    pub start: Month,
    /// Months.
    pub horizon: u32,
    /// In what load is counted.
    pub load_unit: String,
    /// Hosts today.
    pub hosts_now: i64,
    /// GPUs of a host.
    pub gpus_per_host: Fraction,
    /// Every strategy.
    pub strategies: Vec<StrategyBill>,
    /// What money is spread over.
    pub units: Vec<ServedUnit>,
    /// An owned GPU's hour, used all hours that it can be; `None` where it is not known.
    pub owned_gpu_hour: Option<Amount>,
    /// From which share of hours on owning a host is cheaper than renting it for those hours.
    pub break_even: Option<Band>,
    /// The cheaper way to buy all hosts less the cheaper way to rent them for all hours, discounted:
    /// above 0 renting is cheaper.
    pub owning_less_renting: Option<Amount>,
    /// Month by month.
    pub calendar: Vec<CalendarMonth>,
    /// The first month that today's hosts do not bear; `None`: they bear all.
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

/// Rows of inputs and lines, as a spreadsheet has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sheet {
    /// In order; formulas refer to rows above, or to earlier cells of their own row.
    pub rows: Vec<SheetRow>,
}

/// A row: one figure, or one for each month.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetRow {
    /// Its name for programs.
    pub key: String,
    /// What it is.
    pub what: String,
    /// In what.
    pub unit: String,
    /// To how many decimals its figures are rounded.
    pub decimals: u32,
    /// Where its figures come from.
    pub origin: RowOrigin,
    /// Whether its cells are months.
    pub monthly: bool,
    /// Its figures.
    pub cells: Vec<SheetCell>,
}

/// Where the figures of a row come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowOrigin {
    /// Given.
    Input {
        /// Its range, where it has one.
        range: Option<(Fraction, Fraction)>,
        /// The day it is of.
        date: String,
        /// Where it comes from.
        source: String,
    },
    /// Computed.
    Line {
        /// The formula in words.
        words: String,
    },
}

/// A figure with its formula.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetCell {
    /// The figure, rounded to the row's decimals.
    pub value: Fraction,
    /// What it is computed by; `None`: given.
    pub formula: Option<Formula>,
}

/// A formula over cells. It is evaluated exactly, and rounded once by its row.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// A cell: its row, and its place in it.
    Cell(usize, usize),
    /// A number.
    Number(Fraction),
    /// The first cells of a row, so many, added up.
    Total(usize, usize),
    /// The first cells of two rows, so many, multiplied in pairs and added up.
    TotalProduct(usize, usize, usize),
    /// The largest of the cells of a row, from the second to before the third.
    Largest(usize, usize, usize),
    /// Left and right added.
    Sum(Box<Self>, Box<Self>),
    /// Right taken from left.
    Difference(Box<Self>, Box<Self>),
    /// Left and right multiplied.
    Product(Box<Self>, Box<Self>),
    /// Left divided by right.
    Quotient(Box<Self>, Box<Self>),
    /// The larger one.
    Larger(Box<Self>, Box<Self>),
    /// The smaller one.
    Smaller(Box<Self>, Box<Self>),
    /// Rounded to nine decimals, then up to a whole number.
    Up(Box<Self>),
    /// Rounded to nine decimals, then down to a whole number.
    Down(Box<Self>),
    /// If the first is at most the second, the third, else the fourth.
    IfAtMost(Box<[Self; 4]>),
}

impl core::ops::Add for Formula {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::Sum(Box::new(self), Box::new(other))
    }
}

impl core::ops::Sub for Formula {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::Difference(Box::new(self), Box::new(other))
    }
}

impl core::ops::Mul for Formula {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::Product(Box::new(self), Box::new(other))
    }
}

impl core::ops::Div for Formula {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self::Quotient(Box::new(self), Box::new(other))
    }
}
