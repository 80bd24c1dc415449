//! What a bill is computed from, by name.

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CostKey:
        /// Its name in files and flags.
        name,
        /// What it is, for people.
        what
    {
        /// Price of a host on demand, an hour.
        OnDemand = "on_demand", "price on demand",
        /// Price of a host reserved, an hour.
        Reserved = "reserved", "price reserved",
        /// Price of a host as spot capacity, an hour.
        Spot = "spot", "price as spot",
        /// Host-hours bought over those that were useful, less one, because spot capacity is taken away.
        Interruption = "interruption", "hours lost to interruption",
        /// Mean price of renting over the horizon, over today's.
        RentFactor = "rent_factor", "rent over the horizon, over today's",
        Capital = "capital", "price of a host",
        /// Network and storage, as a share of the host's price.
        Network = "network", "network and storage",
        /// Spare hosts, as a share of hosts in service.
        Spares = "spares", "spare hosts",
        /// Years that a host is used.
        Life = "life", "life of a host",
        /// What is got for a host at the end of its life, as a share of what was paid.
        Residual = "residual", "residual value",
        /// Cost of capital a year, compounded monthly.
        Rate = "rate", "cost of capital",
        /// Mean power of a host, kW.
        Power = "power", "mean power of a host",
        /// Largest power of a host, for which space is rented, kW.
        PeakPower = "peak_power", "largest power of a host",
        /// Power of the facility over that of its machines.
        Pue = "pue", "PUE",
        /// Price of a kWh.
        Energy = "energy", "price of energy",
        /// Price of space in a data centre, a kW and month.
        Space = "space", "space",
        /// People, a host and year.
        Staff = "staff", "people",
        /// Support and repair a year, as a share of the host's price.
        Support = "support", "support and repair",
        /// Share of hours in which an owned host can be used.
        Availability = "availability", "availability of a host",
        /// Mean load over the load that hosts are bought for.
        Duty = "duty", "mean load over peak load",
        /// What one host sustains, in units of load.
        Capacity = "capacity", "load that a host sustains",
        /// Growth of the load a month.
        Growth = "growth", "growth",
        /// Months from order to service.
        Lead = "lead", "lead time",
        Review = "review", "time between orders",
        /// Standard deviations of the forecast that are bought on top.
        Safety = "safety", "standard deviations bought on top",
        /// Standard deviation of the forecast, as a share of it.
        Spread = "spread", "standard deviation of the forecast",
        InputShare = "input_share", "share of hours that prompts take",
        /// Grams of CO2-equivalent of a kWh.
        Grid = "grid", "CO2-equivalent of the grid",
        /// Mean power of a host over its largest; stands in where its power is not known.
        PowerShare = "power_share", "mean over largest power of a host",
        /// Power of a host beside each of its GPUs, kW; what is added to the GPUs' own.
        HostPower = "host_power", "power of a host beside each GPU",
    }
}

impl CostKey {
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
    Plain(&'static str),
}
