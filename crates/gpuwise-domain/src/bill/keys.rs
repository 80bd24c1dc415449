//! What a bill is computed from, by name.

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
    /// What one host sustains, in units of load.
    Capacity,
    /// Growth of the load a month.
    Growth,
    /// Months from order to service.
    Lead,
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
            Self::Capacity => "load that a host sustains",
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
