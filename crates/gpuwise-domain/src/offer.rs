//! What can be rented or is owned.

use alloc::string::String;
use gpuwise_units::{Bytes, HourlyPrice};

/// An instance shape at a provider, with its prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Who rents it out; `owned` for hosts of one's own.
    pub provider: String,
    pub instance: String,
    pub region: String,
    /// Catalogue name of its GPU.
    pub gpu: String,
    /// GPUs in thousandths, because fractions are sold too.
    pub gpu_thousandths: u32,
    pub vcpus: Option<u32>,
    pub memory: Option<Bytes>,
    /// Price on demand; unknown is not 0.
    pub on_demand: Option<HourlyPrice>,
    pub reserved: Option<HourlyPrice>,
    /// Price as spot capacity, that may be taken away.
    pub spot: Option<HourlyPrice>,
    /// The day of the price list, as text.
    pub date: String,
    pub source: String,
}

impl Offer {
    /// Whole GPUs of the instance; 0 for a fraction of one.
    pub const fn gpus(&self) -> u32 {
        self.gpu_thousandths / 1000
    }

    /// The price under these terms.
    pub fn price(&self, terms: Terms) -> Option<HourlyPrice> {
        match terms {
            Terms::OnDemand => self.on_demand,
            Terms::Reserved => self.reserved,
            Terms::Spot => self.spot,
        }
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    pub enum Terms:
        name
    {
        /// Pay by the hour.
        OnDemand = "on demand",
        Reserved = "reserved",
        /// May be taken away.
        Spot = "spot",
    }
}

/// A server or instance shape with what surrounds its GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Provider, or `on-prem`.
    pub provider: String,
    pub shape: String,
    /// Catalogue name of its GPU, or the source's where the catalogue has none.
    pub gpu: String,
    pub gpus: u32,
    pub vcpus: Option<u32>,
    pub memory: Option<Bytes>,
    pub numa_nodes: Option<u32>,
    /// How its GPUs are linked, as text.
    pub link: String,
    pub network_gbit: Option<f64>,
    /// Local NVMe in 10⁹ bytes.
    pub nvme_gb: Option<f64>,
    /// Largest power in kW, as text.
    pub max_power_kw: String,
    pub source: String,
    pub notes: String,
}

impl Host {
    /// Whether it is a reference system of a vendor's data sheet, which nobody is named to rent out.
    pub fn is_reference(&self) -> bool {
        self.provider == REFERENCE
    }
}

/// The provider of reference systems in the catalogue's table of hosts.
const REFERENCE: &str = "on-prem";
