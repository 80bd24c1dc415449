//! What GPUs and engines say of themselves while they run: readings, and what they are readings of.

mod fault;
mod link;
mod quantity;
mod serving;
mod subject;
mod threshold;
mod trigger;

pub use fault::{FaultClass, XidMeaning};
pub use link::{Link, Topology, TopologyRow};
pub use quantity::{MetricType, Quantity};
pub use serving::ServingSample;
pub use subject::{GpuIdentity, Holder, MigInstance, Process, Subject};
pub use threshold::{Threshold, Thresholds};
pub use trigger::{Aggregate, Comparison, Condition};

use alloc::{string::String, vec::Vec};
use core::fmt;

/// What one source said at one time, or over some.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Telemetry {
    /// In which form it was said (`nvidia-smi -q -x`, `Prometheus text`).
    pub form: String,
    /// Which part of a longer file this was, where there are several (`load :: dmon`).
    pub section: Option<String>,
    /// What there are readings of, each once.
    pub subjects: Vec<Subject>,
    /// Readings, in the order of the source.
    pub readings: Vec<Reading>,
    /// What serving engines said of themselves.
    pub serving: Vec<ServingSample>,
    /// How GPUs, network cards and processors are connected.
    pub topology: Option<Topology>,
    /// Links that are up, with their speed.
    pub links: Vec<Link>,
    /// What was there and stands in no reading: other fields, lines that cannot be.
    pub unread: Vec<UnusedField>,
    /// What is missing, in words.
    pub notes: Vec<String>,
}

/// One value of one thing at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Index into [`Telemetry::subjects`].
    pub subject: u32,
    /// Seconds since 1970, where the source says it. Sources without a time zone are taken as UTC.
    pub at: Option<f64>,
    pub quantity: Quantity,
    /// Its value, in the quantity's unit.
    pub value: ReadingValue,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadingValue {
    /// A finite number in the quantity's unit.
    Known(f64),
    /// The source names it and gives no value; that is not 0.
    Unknown(Missing),
}

impl ReadingValue {
    /// The number, where there is one.
    pub fn known(self) -> Option<f64> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// Why a source gives no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// `N/A`, `-`.
    NotAvailable,
    /// The device or driver does not support it.
    NotSupported,
    /// It is not permitted to read it.
    NoPermission,
    /// The driver does not know the field.
    NotFound,
    /// The driver no longer gives it.
    Deprecated,
    DriverError,
    /// A number that stands for none.
    Blank,
    /// NaN, infinite, or no number.
    NotANumber,
    /// A number that the quantity cannot have.
    OutOfRange,
    /// With MIG on, the driver gives it only for instances, if at all.
    MigMode,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAvailable => "the driver says N/A",
            Self::NotSupported => "not supported by this device or driver",
            Self::NoPermission => "no permission to read it",
            Self::NotFound => "this driver does not know it",
            Self::Deprecated => "the driver no longer gives it",
            Self::DriverError => "the driver met an error",
            Self::Blank => "the collector has no value yet",
            Self::NotANumber => "not a number",
            Self::OutOfRange => "a value that cannot be",
            Self::MigMode => "with MIG on, the driver does not tell it of the whole GPU",
        })
    }
}

/// Something a source said that stands in no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedField {
    /// The field, or what a line begins with.
    pub field: String,
    /// How often it was there.
    pub count: u64,
    /// Its first value.
    pub example: String,
    /// What is wrong with it; a field that is only not used here when absent.
    pub problem: Option<String>,
}

impl Telemetry {
    /// The last known value of a quantity of a subject.
    pub fn value(&self, subject: u32, quantity: Quantity) -> Option<f64> {
        self.readings
            .iter()
            .rev()
            .find(|reading| {
                reading.subject == subject
                    && reading.quantity == quantity
                    && reading.value.known().is_some()
            })
            .and_then(|reading| reading.value.known())
    }
}
