//! The price book: what is charged for what, when and to whom.

mod book;
mod pieces;
mod quote;
mod window;

pub use book::{BookError, PriceBook};
pub use pieces::{Asked, Piece};
pub use window::Window;

use crate::{
    period::Interval,
    usage::{Granted, Share, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Money;

/// A price: an amount for a stated quantity, for those whom and that which it is for, while it is valid.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PriceEntry {
    /// Its own name, such as `h100-2026`; lines and FOCUS rows name it.
    pub id: String,
    /// What is sold, such as `gpu-h100`: entries of one SKU follow each other in time.
    pub sku: String,
    pub metered: Metered,
    /// What of a part of a device is charged; says nothing where tokens or energy are.
    pub basis: Basis,
    pub applies: Applies,
    /// When it is valid.
    pub valid: Interval,
    /// At which times of the week; `None`: always.
    pub window: Option<Window>,
    pub amount: Money,
    /// The quantity that the amount is for, in the unit of what is metered: [`Metered::unit`].
    pub per: u64,
    /// Each holding is charged as if it lasted so long at least, in nanoseconds; 0: no minimum.
    pub minimum_ns: u64,
    /// Each holding is charged in whole steps of so many nanoseconds, such as a minute's; 0 or 1: as it was.
    pub granularity_ns: u64,
    /// Thousandths of what is charged by it that whoever lent the capacity earns.
    pub lent_milli: u32,
}

/// What [`PriceEntry::lent_milli`] is a part of.
pub const LENT_WHOLE: u32 = 1000;
/// The share that a lender earns where nobody says another: half of what the borrower pays.
pub const LENT_USUAL: u32 = 500;

gpuwise_units::named! {
    /// What is counted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Metered:
        name
    {
        /// Time for which a part of a GPU is held: nanoseconds of a GPU.
        GpuTime = "gpu-time",
        TokensIn = "tokens-in",
        TokensOut = "tokens-out",
        /// Thousandths of a joule.
        Energy = "energy",
    }
}

impl Metered {
    /// In its own unit: an hour of a GPU, 10⁶ tokens, a kWh.
    pub const fn unit(self) -> u64 {
        match self {
            Self::GpuTime => crate::period::HOUR,
            Self::TokensIn | Self::TokensOut => 1_000_000,
            Self::Energy => 3_600_000_000,
        }
    }
}

gpuwise_units::named! {
    /// What of a part of a device is charged.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Basis:
        name
    {
        /// The part as it is: an hour of it is an hour.
        Part = "part",
        /// Its share of the device's compute.
        Compute = "compute",
        /// Its share of the device's memory.
        Memory = "memory",
        /// The larger of both.
        Larger = "larger",
    }
}

impl Basis {
    /// How much of a GPU an hour of this part is charged as.
    pub fn share(self, granted: &Granted) -> Share {
        match self {
            Self::Part => Share { part: 1, of: 1 },
            Self::Compute => granted.compute(),
            Self::Memory => granted.memory(),
            Self::Larger => granted.compute().larger(granted.memory()),
        }
    }
}

/// Whom and what a price is for; `None`: all.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Applies {
    /// A price agreed with one tenant; without, it is a list price.
    pub tenant: Option<String>,
    /// Catalogue name of the GPU; of tokens alone, the model.
    pub kind: Option<String>,
    pub part: Option<Part>,
    pub isolation: Option<Sharing>,
    pub class: Option<Terms>,
}

/// Which parts of devices a price is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Part {
    Whole,
    /// Fractions with so many thousandths of compute, both included.
    Fraction {
        least_milli: u32,
        most_milli: u32,
    },
    /// A MIG profile.
    Profile(String),
    /// No device: tokens alone.
    Nothing,
}

impl Part {
    fn covers(&self, granted: &Granted) -> bool {
        match (self, granted) {
            (Self::Whole, Granted::Whole) | (Self::Nothing, Granted::Nothing) => true,
            (
                Self::Fraction {
                    least_milli,
                    most_milli,
                },
                Granted::Fraction { compute_milli, .. },
            ) => (least_milli..=most_milli).contains(&compute_milli),
            (Self::Profile(name), Granted::Slice { profile, .. }) => name == profile,
            _ => false,
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Fraction {
                    least_milli,
                    most_milli,
                },
                Self::Fraction {
                    least_milli: least,
                    most_milli: most,
                },
            ) => least_milli <= most && least <= most_milli,
            _ => self == other,
        }
    }
}

impl Applies {
    fn covers(&self, asked: &Asked<'_>) -> bool {
        let named = |own: &Option<String>, other| own.as_deref().is_none_or(|own| own == other);
        named(&self.tenant, asked.tenant)
            && named(&self.kind, asked.kind)
            && (self.part.as_ref()).is_none_or(|part| part.covers(asked.granted))
            && self.isolation.is_none_or(|own| own == asked.isolation)
            && self.class.is_none_or(|own| own == asked.class)
    }

    /// How closely it says what it is for. The first in this order decides: tenant, GPU, part, isolation,
    /// class; what says more goes before what says less.
    const fn closeness(&self) -> [bool; 5] {
        [
            self.tenant.is_some(),
            self.kind.is_some(),
            self.part.is_some(),
            self.isolation.is_some(),
            self.class.is_some(),
        ]
    }

    /// Whether something could be meant by both.
    fn meets(&self, other: &Self) -> bool {
        fn both<T>(own: Option<&T>, other: Option<&T>, meets: impl Fn(&T, &T) -> bool) -> bool {
            own.zip(other).is_none_or(|(own, other)| meets(own, other))
        }
        both(self.tenant.as_ref(), other.tenant.as_ref(), |a, b| a == b)
            && both(self.kind.as_ref(), other.kind.as_ref(), |a, b| a == b)
            && both(self.part.as_ref(), other.part.as_ref(), Part::meets)
            && self
                .isolation
                .zip(other.isolation)
                .is_none_or(|(a, b)| a == b)
            && self.class.zip(other.class).is_none_or(|(a, b)| a == b)
    }
}
