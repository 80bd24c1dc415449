//! What a profiler of TensorFlow or JAX saw, plane by plane, exact in picoseconds.

use super::timeline::{Index, Loss, NameId, Names, Origin};
use alloc::{string::String, vec::Vec};

/// A file of planes (`*.xplane.pb`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Planes {
    pub byte_count: u64,
    /// Planes in the order of the file.
    pub planes: Vec<Plane>,
    /// What the file had, or should have had, and that is missing here.
    pub losses: Vec<Loss>,
}

/// What was seen of one device, or of the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plane {
    pub id: i64,
    /// Its name (`/device:GPU:0`, `/host:CPU`).
    pub name: String,
    /// Its lines in the order of the file.
    pub lines: Vec<Line>,
    /// Entries of its table of event names.
    pub event_name_count: u64,
    /// Names of its events, and texts of their details, each once.
    pub names: Names,
    /// What the file states of the device (`core_count`, `memory_size`).
    pub facts: Vec<(String, Fact)>,
}

/// What a file states of a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    Integer(i64),
    Real(f64),
    Text(String),
}

/// A stream of a device, a thread of the host, or another row of events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    pub id: i64,
    pub name: String,
    /// Time from which its events count, in nanoseconds.
    pub timestamp_ns: i64,
    /// Its events in the order of the file.
    pub events: Vec<PlaneEvent>,
}

/// An event of a [`Line`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneEvent {
    /// Its name, among those of the plane; empty where the file does not have it.
    pub name: NameId,
    /// Picoseconds after the line's time; absent for an aggregate of several occurrences.
    pub offset_ps: Option<i64>,
    /// How long it took.
    pub duration_ps: i64,
    /// Joins a call of the host and the work that it launched.
    pub correlation: Option<i64>,
    /// How a kernel was launched or what a copy moved, as a text among the plane's names.
    pub detail: Index,
    /// What the compiler says that it was made of, among the plane's names.
    pub origin: Origin,
}

impl Line {
    /// When an event of this line started, in picoseconds.
    pub fn start_ps(&self, event: &PlaneEvent) -> Option<i128> {
        Some(i128::from(self.timestamp_ns) * 1_000 + i128::from(event.offset_ps?))
    }
}

impl Plane {
    pub fn is_device(&self) -> bool {
        self.name.starts_with("/device:")
    }

    /// Of a device: its kind and its number (`GPU`, 0), where the name says so.
    pub fn device(&self) -> Option<(&str, i64)> {
        let (kind, number) = self.name.strip_prefix("/device:")?.split_once(':')?;
        let digits = number.split_whitespace().next()?;
        Some((kind, digits.parse().ok()?))
    }

    /// What the file states under a name.
    pub fn fact(&self, name: &str) -> Option<&Fact> {
        let mut facts = self.facts.iter();
        facts.find(|(known, _)| known == name).map(|(_, fact)| fact)
    }
}
